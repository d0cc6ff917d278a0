"""What calibration rows were used for before: a question is recorded before it is answered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from emsco.certify._fresh_rows import count_same_keys
from emsco.exceptions import CertificateError, Code
from emsco.rows.fitted_rows import HashedRows, compare
from emsco.rows.ledger import Entry, Ledger
from emsco.rows.row_sketch import Sketch

_UNCLEAR = (
    "It is not known whether these rows were used for an earlier certificate: their values "
    "repeat too much, or the columns differ."
)


class EarlierUse(NamedTuple):
    """What rows were used for before a question.

    Parameters
    ----------
    cascades : int
        The number of cascades that were shown on these rows.
    figures : int
        The number of figures that were shown of each, at least 1.
    doubts : tuple of str
        Sentences about what could not be determined.
    """

    cascades: int
    figures: int
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
    with ledger.open() as page:
        earlier, unclear = _earlier(page.entries, ledger.fitted, rows, sketch)
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
        page.append(wanted)
    looks = {entry.question: entry for entry in earlier if not entry.share}.values()
    cascades = sum(look.candidates for look in looks)
    figures = max((look.figures for look in looks), default=1)
    try:
        yield EarlierUse(cascades, figures, (_UNCLEAR,) if unclear else ())
    except Exception:  # the rows could not be decided, so nothing was answered
        with ledger.open() as page:
            page.append([entry.withdrawal() for entry in wanted])
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
            if found.beyond or count_same_keys(rows, entry.rows):
                same.append(entry)
            else:
                unclear |= not found.tells
    return same, unclear
