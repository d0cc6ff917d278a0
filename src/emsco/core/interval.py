"""How far a share may be off by chance: its 95% interval, and the words for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from emsco.core.caution import wilson
from emsco.core.measure import rows_of
from emsco.core.measures import columns

FEW_ROWS = 100  # a share of fewer rows is told with its counts and its interval
LEVEL = 0.95
_Z = 1.959964  # standard errors of that level


def interval(part: float, whole: float, repeats: float = 1.0) -> tuple[float, float]:
    """Return Wilson's 95% interval of a share; rows were counted `repeats` times on average.

    Examples
    --------
    >>> from emsco.core.interval import interval
    >>> low, high = interval(3, 15)
    >>> f"{low:.2f} to {high:.2f}"
    '0.07 to 0.45'
    """
    low, high = wilson([part / repeats], [whole / repeats], _Z)
    return float(low[0]), float(high[0])


def interval_text(part: float, whole: float, repeats: float = 1.0) -> str:
    """Return the interval of a share in words, coarser if it is of few rows.

    Examples
    --------
    >>> from emsco.core.interval import interval_text
    >>> interval_text(3, 15), interval_text(900, 1000)
    ('7 to 45%', '88.0 to 91.7%')
    """
    low, high = interval(part, whole, repeats)
    digits = 0 if whole / repeats < FEW_ROWS else 1
    return f"{100 * low:.{digits}f} to {100 * high:.{digits}f}%"


def few_rows_text(evaluation: Any, label: Any, repeats: float = 1.0) -> str:
    """Return the counts behind the figures of a class that are shares of few rows.

    Examples
    --------
    >>> from emsco import Evaluation
    >>> from emsco.core.interval import few_rows_text
    >>> rows, accepted, right = {"sick": 15, "well": 900}, {"sick": 12, "well": 900}, {"sick": 9}
    >>> evaluation = Evaluation(915, 912, 909, 50, rows, accepted, right | {"well": 900})
    >>> few_rows_text(evaluation, "sick").split(", ")[:2]
    ['3 of 15 rejected (7 to 45%)', '3 of 15 missed (7 to 45%)']
    """
    return ", ".join(_few(evaluation, label, repeats))


def _few(evaluation: Any, label: Any, repeats: float) -> Iterator[str]:
    for measure in columns(by_class=True):
        part, whole = measure.effective(evaluation, label, repeats)
        if 0 < whole < FEW_ROWS:
            own, every = measure.count(rows_of(evaluation), label)
            counts = f"{own / repeats:,.0f} of {every / repeats:,.0f}"
            of = " of the stake" if evaluation.squares is not None else ""
            yield f"{measure.text(counts)} ({interval_text(part, whole)}{of})"
