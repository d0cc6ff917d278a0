"""Checks that calibration rows are fresh: not known to the model, given once, and not used before.

What would otherwise be refused can be allowed with a reason, which the certificate repeats.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco.exceptions import CertificateError, Code, Keyword, Parameter, nearest
from emsco.rows.columns import Columns
from emsco.rows.fitted_rows import (
    Copies,
    FittedRows,
    HashedRows,
    Likeness,
    compare,
    compare_within,
    find_copies,
    find_repeats,
)
from emsco.rows.ledger import Entry, Ledger
from emsco.rows.near_copies import FALSE_ALARM, find_cliff
from emsco.rows.row_hashes import HashableColumn, hash_exactly
from emsco.rows.row_sketch import Sketch

KNOWN_ROWS = "known rows"
REPEATED_ROWS = "repeated rows"
NEAR_COPIES = "near copies"
UNKNOWN_LABELS = "unknown labels"
NAMES = (KNOWN_ROWS, REPEATED_ROWS, NEAR_COPIES, UNKNOWN_LABELS)
_UNKNOWN = "It is not known whether the model was fitted on these rows: {}."
_UNCLEAR = (
    "It is not known whether these rows were used for an earlier certificate: their values "
    "repeat too much, or the columns differ."
)


def check_allow(allow: Mapping[str, str] | None) -> dict[str, str]:
    """Check the names and reasons given as `allow=`."""
    if not isinstance(allow, Mapping | None):
        raise CertificateError(
            Parameter("allow") + f" must map names to reasons, got {allow!r}.", value=allow
        )
    allowed: dict[str, str] = {}
    for name, why in (allow or {}).items():
        if name not in NAMES:
            known = ", ".join(map(repr, NAMES))
            raise CertificateError(
                Parameter("allow")
                + f" names {name!r}; what can be allowed is {known}{nearest(name, NAMES)}",
                value=name,
            )
        if not isinstance(why, str) or not why.strip():
            raise CertificateError(
                Parameter("allow")
                + f" must say why {name} are right, as a text: "
                + Keyword("allow", {name: "why"})
                + f"; got {why!r}.",
                value=why,
            )
        allowed[name] = why.strip()
    return allowed


def way_out(name: str) -> str:
    """Return the end of a refusal: how to allow it."""
    return " If this is right for your rows, say why: " + Keyword("allow", {name: "why"}) + "."


def sentence(found: str, why: str) -> str:
    """Return the sentence of a certificate about what was allowed."""
    return f"{found} This was allowed, because: {why.rstrip('.')}."


class FreshnessReport(NamedTuple):
    """What was found about calibration rows."""

    twins: int | None  # rows equal to a fitted one; None: unknown
    copies: NDArray[np.bool_]  # rows to leave out, copies of a fitted row or of another one
    doubts: tuple[str, ...]


def check_fresh(rows: HashedRows, fitted: FittedRows, allow: Mapping[str, str]) -> FreshnessReport:
    """Refuse rows that the model was fitted on, and rows that are given more than once."""
    if fitted.rows is None:
        why = "no hashes of the rows that it was fitted on were kept"
        repeats, doubts = _check_repeats(rows, None, allow)
        return FreshnessReport(None, repeats, (_UNKNOWN.format(why), *doubts))
    same = _count_same_keys(rows, fitted.rows)
    if same:
        raise CertificateError(
            f"{same:,} of {len(rows):,} calibration rows were used by the search or a fit, "
            "according to their key or index; use rows that the model has not seen (or, if the "
            "index has no meaning, X.reset_index(drop=True))."
        )
    found = compare(rows, fitted.rows)
    copies = find_copies(rows, fitted.rows)
    known, doubts = _check_known(rows, found, copies, allow)
    repeats, others = _check_repeats(rows, fitted.rows, allow)
    if not found.tells:
        few = "they are too few, or their values repeat too much"
        doubts.append(_UNKNOWN.format("the columns differ" if found.twins is None else few))
    if (known | repeats).all():
        raise CertificateError("Every calibration row is a copy of another; use fresh rows.")
    return FreshnessReport(found.twins, known | repeats, (*doubts, *others))


def refuse_known_groups(groups: NDArray[Any], fitted: FittedRows) -> None:
    """Refuse groups of which the model has seen rows."""
    if fitted.groups is None:
        return
    known = np.isin(hash_exactly({"group": groups}), fitted.groups)
    if known.any():
        first = str(groups[np.flatnonzero(known)[0]])
        raise CertificateError(
            f"{int(known.sum()):,} of {len(groups):,} calibration rows belong to a group that the "
            f"model was fitted on, such as {first!r}; keep all rows of a group on one side of the "
            "split, for instance with sklearn.model_selection.GroupShuffleSplit."
        )


def check_near_copies(
    columns: Columns, truth: NDArray[Any], rows: NDArray[np.intp], allow: Mapping[str, str]
) -> tuple[str, ...]:
    """Refuse rows that lie close together in small groups of one label."""
    if NEAR_COPIES in allow:
        message = "It was not tested whether rows belong together in small groups."
        return (sentence(message, allow[NEAR_COPIES]),)
    values = {name: HashableColumn.read(column) for name, column in columns.items()}
    labels = np.unique(truth, return_inverse=True)[1]
    cliff = find_cliff(values, labels, rows)
    if cliff is None or not cliff.is_clear:
        return ()
    raise CertificateError(
        f"Calibration rows seem to belong together: {cliff.grouped:,} of {cliff.rows:,} lie in "
        f"small groups far from all others, and where labels change, they change at the edge of a "
        f"group ({cliff.outside:,} times) and hardly inside ({cliff.inside:,} times). Rows of one "
        "patient or customer, or copies with some noise, look like this, and a model that has seen "
        "one of them knows the others. Keep such rows on one side of the split, and pass what they "
        "belong to as "
        + Keyword("groups")
        + f". (A test, not a proof: its false alarm is {FALSE_ALARM:.0%}.)"
        + way_out(NEAR_COPIES)
    )


def _check_known(
    rows: HashedRows, found: Likeness, copies: Copies, allow: Mapping[str, str]
) -> tuple[NDArray[np.bool_], list[str]]:
    """Refuse known rows, or return those to leave out and what to say about them."""
    none = np.zeros(len(rows), dtype=bool)
    is_beyond = bool(found.beyond) or copies.are_many
    if KNOWN_ROWS in allow:
        if not is_beyond and not copies.rows.any():
            return none, []
        known = max(found.beyond, int(copies.rows.sum()))
        message = f"{known:,} of {len(rows):,} calibration rows equal a row that was fitted on."
        return none, [sentence(message, allow[KNOWN_ROWS])]
    if not is_beyond:
        return copies.rows, _left_out(copies, "a row that the model was fitted on")
    if found.beyond:
        rounded = ", up to rounding" if found.rounded else ""
        proof = f"value by value{rounded}, which is more than chance explains"
        known = found.beyond
    else:
        proof = "value by value, and no other row is similar to them, so chance does not explain it"
        known = int(copies.rows.sum())
    raise CertificateError(
        f"{known:,} of {len(rows):,} calibration rows equal a row that the model was fitted on, "
        f"{proof}; use rows that the model has not seen (if a join or a copy made several rows of "
        "one, remove the duplicates before the split; if a patient or a card has several rows, "
        "keep all of them on one side of the split and pass what they belong to as "
        + Keyword("groups")
        + ")."
        + way_out(KNOWN_ROWS)
    )


def _left_out(copies: Copies, what: str) -> list[str]:
    n_copies = int(copies.rows.sum())
    return [f"{n_copies:,} rows were left out, because they equal {what}."] if n_copies else []


def _count_same_keys(rows: HashedRows, others: HashedRows) -> int:
    """Count the rows whose key is that of one of the others."""
    if rows.keys is None or others.keys is None:
        return 0
    return int(np.isin(rows.keys, others.keys).sum())


def _check_repeats(
    rows: HashedRows, fitted: HashedRows | None, allow: Mapping[str, str]
) -> tuple[NDArray[np.bool_], list[str]]:
    """Refuse rows that are given more than once, or return those to leave out."""
    none = np.zeros(len(rows), dtype=bool)
    if rows.keys is not None:
        repeated = len(rows.keys) - len(np.unique(rows.keys))
        if repeated:
            raise CertificateError(
                f"{repeated:,} of {len(rows.keys):,} calibration rows repeat the key or index of "
                "another; give every row once, and mark rows that belong together with "
                + Keyword("groups")
                + "."
            )
    found = compare_within(rows, fitted)
    beyond = 0 if rows.keys is not None else found.beyond  # by their keys, they are not the same
    copies = find_repeats(rows)
    if REPEATED_ROWS in allow:
        if not beyond and not copies.rows.any():
            return none, []
        repeated = max(beyond, int(copies.rows.sum()))
        message = f"{repeated:,} of {len(rows):,} calibration rows repeat another."
        return none, [sentence(message, allow[REPEATED_ROWS])]
    if beyond or copies.are_many:
        repeated = beyond or int(copies.rows.sum())
        coarse = " If they are different rows, identify each one with " + Keyword("keys") + "."
        raise CertificateError(
            f"{repeated:,} of {len(rows):,} calibration rows repeat another, value by value, "
            "which is more than chance explains; give every row once, and mark rows that belong "
            "together with "
            + Keyword("groups")
            + "."
            + ("" if copies.are_many else coarse)
            + way_out(REPEATED_ROWS)
        )
    doubts = _left_out(copies, "another one")
    if rows.keys is None and not found.tells and found.twins:
        doubts.append(
            f"It is not known whether these rows are independent: {found.twins:,} of them repeat "
            "another row, and they have no keys."
        )
    return copies.rows, doubts


class EarlierUse(NamedTuple):
    """What rows were used for before a question."""

    cascades: int  # that were shown on these rows
    figures: int  # that were shown of each, at least 1
    doubts: tuple[str, ...]


@contextmanager
def recorded(
    ledger: Ledger,
    questions: Sequence[str],
    shares: Sequence[float],
    rows: HashedRows,
    sketch: Sketch,
) -> Iterator[EarlierUse]:
    """Record questions before they are answered; refuse them if the rows were used before.

    Repeating the same questions is allowed, because the answers are the same.
    """
    wanted = [
        Entry(question, share, 0, rows, fitted=ledger.fitted, sketch=sketch)
        for question, share in zip(questions, shares, strict=True)
    ]
    with ledger.open() as record:
        earlier, unclear = _earlier(ledger.entries, ledger.fitted, rows, sketch)
        places = {entry.question: i for i, entry in enumerate(earlier) if entry.share}
        is_repeat = all(question in places for question in questions)
        if is_repeat:
            earlier = earlier[: max(places[question] for question in questions)]
            wanted = []
        elif places:
            raise CertificateError(
                "These rows were already used for a certificate, and a second question on them, "
                "asked after the first was answered, would break its promise (the same question "
                "after another choice, or of another model, counts as a second one); use fresh "
                "rows, or ask all questions on one set of rows in one call, "
                + Code("certify_together(...)")
                + "."
            )
        record(wanted)
    looks = {entry.question: entry for entry in earlier if not entry.share}.values()
    cascades = sum(look.candidates for look in looks)
    figures = max((look.figures for look in looks), default=1)
    try:
        yield EarlierUse(cascades, figures, (_UNCLEAR,) if unclear else ())
    except Exception:  # the rows could not be decided, so nothing was answered
        with ledger.open() as record:
            record([entry.withdrawal() for entry in wanted])
        raise


def _earlier(
    entries: Sequence[Entry], fitted: str, rows: HashedRows, sketch: Sketch
) -> tuple[list[Entry], bool]:
    """Return the entries about these rows, and whether others may be about them too.

    Hashes and keys are compared with those of models that were fitted on the same rows. Of other
    models only the sketch is, because one index often counts the rows of several tables.
    """
    same, unclear = [], False
    for entry in entries:
        if sketch.overlaps(entry.sketch):
            same.append(entry)
        elif entry.fitted == fitted:
            found = compare(rows, entry.rows)
            if found.beyond or _count_same_keys(rows, entry.rows):
                same.append(entry)
            else:
                unclear |= not found.tells
    return same, unclear
