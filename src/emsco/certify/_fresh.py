"""Checks that calibration rows are fresh: not known to the model, and not asked about before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from emsco.exceptions import CertificateError
from emsco.rows.known import FittedRows, HashedRows, compare, compare_within
from emsco.rows.ledger import Entry, Ledger

_UNKNOWN = "It is not known whether the model was fitted on these rows: {}."
_DEPENDENT = (
    "It is not known whether these rows are independent: {:,} of them repeat another row, and "
    "they have no keys."
)
_ASKED = (
    "It is not known whether these rows were used for an earlier certificate: their values "
    "repeat too much, or the columns differ."
)


class Checked(NamedTuple):
    """What was found about calibration rows: twins of fitted rows, and doubts that remain."""

    twins: int | None
    doubts: tuple[str, ...]


def check_fresh(rows: HashedRows, fitted: FittedRows) -> Checked:
    """Refuse rows that the model was fitted on, and rows that are given more than once."""
    if fitted.rows is None:
        why = "no hashes of the rows that it was fitted on were kept"
        return Checked(None, (_UNKNOWN.format(why), *_check_repeats(rows, None)))
    _refuse_known_keys(rows, fitted.rows)
    found = compare(rows, fitted.rows)
    if found.beyond:
        rounded = ", up to rounding" if found.rounded else ""
        raise CertificateError(
            f"{found.beyond:,} of {len(rows):,} calibration rows equal a row that the model was "
            f"fitted on, value by value{rounded}, which is more than chance explains; use rows "
            "that the model has not seen (if a patient or a card has several rows, keep all of "
            "them on one side of the split and pass what they belong to as groups=)."
        )
    doubts: list[str] = []
    if not found.tells:
        few = "they are too few, or their values repeat too much"
        why = "the columns differ" if found.twins is None else few
        doubts.append(_UNKNOWN.format(why))
    return Checked(found.twins, (*doubts, *_check_repeats(rows, fitted.rows)))


def _refuse_known_keys(rows: HashedRows, fitted: HashedRows) -> None:
    same = _count_same_keys(rows, fitted)
    if same:
        raise CertificateError(
            f"{same:,} of {len(rows):,} calibration rows were used by the search or a fit, "
            "according to their key or index; use rows that the model has not seen (or, if the "
            "index has no meaning, X.reset_index(drop=True))."
        )


def _count_same_keys(rows: HashedRows, others: HashedRows) -> int:
    if rows.keys is None or others.keys is None:
        return 0
    return int(np.isin(rows.keys, others.keys).sum())


def _check_repeats(rows: HashedRows, fitted: HashedRows | None) -> list[str]:
    """Refuse rows that are given more than once, because they would count several times."""
    if rows.keys is not None:
        repeated = len(rows.keys) - len(np.unique(rows.keys))
        if repeated:
            raise CertificateError(
                f"{repeated:,} of {len(rows.keys):,} calibration rows repeat the key or index of "
                "another; give every row once, and mark rows that belong together with groups=."
            )
        return []
    found = compare_within(rows, fitted)
    if found.beyond:
        raise CertificateError(
            f"{found.beyond:,} of {len(rows):,} calibration rows repeat another, value by value, "
            "which is more than chance explains; give every row once. If they are different rows, "
            "identify each one with keys=, and mark rows that belong together with groups=."
        )
    return [] if found.tells or not found.twins else [_DEPENDENT.format(found.twins)]


class Asked(NamedTuple):
    """What came before a question on the same rows.

    Parameters
    ----------
    shown : int
        The number of cascades that were shown on these rows before the question.
    doubts : tuple of str
        Sentences about what could not be determined.
    """

    shown: int
    doubts: tuple[str, ...]


@contextmanager
def asking(
    ledger: Ledger, questions: Sequence[str], shares: Sequence[float], rows: HashedRows
) -> Iterator[Asked]:
    """Record questions before they are answered; refuse them if the rows were used before.

    Repeating the same questions is allowed, because the answers are the same.
    """
    wanted = [Entry(q, s, 0, rows) for q, s in zip(questions, shares, strict=True)]
    with ledger.open() as page:
        earlier, unclear = _earlier(page.entries, rows)
        asked = {entry.question: i for i, entry in enumerate(earlier) if entry.share}
        is_repeat = all(question in asked for question in questions)
        if is_repeat:
            earlier = earlier[: max(asked[question] for question in questions)]
            wanted = []
        elif asked:
            raise CertificateError(
                "These rows were already used for a certificate, and a second question on them, "
                "asked after the first was answered, would break its promise (the same question "
                "after another choice counts as a second one); use fresh rows, or ask all "
                "questions on one set of rows in one call, certify_together(...)."
            )
        page.append(wanted)
    shown = {entry.question: entry.candidates for entry in earlier if not entry.share}
    try:
        yield Asked(sum(shown.values()), (_ASKED,) if unclear else ())
    except Exception:  # the rows could not be decided, so nothing was answered
        with ledger.open() as page:
            page.append([entry.withdrawal() for entry in wanted])
        raise


def _earlier(entries: Sequence[Entry], rows: HashedRows) -> tuple[list[Entry], bool]:
    """Return the entries about these rows, and whether others may be about them too."""
    same, unclear = [], False
    for entry in entries:
        found = compare(rows, entry.rows)
        if found.beyond or _count_same_keys(rows, entry.rows):
            same.append(entry)
        else:
            unclear |= not found.tells
    return same, unclear
