"""What labelling a batch is expected to cost, before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from emsco._utils.text_table import html_table, text_table
from emsco.batch.ask import Arrangement, Wish, arrange, make_promises, make_terms
from emsco.batch.cheap_answers import (
    CheapAnswers,
    are_shares,
    cheap_answers,
    price_of_final,
    read_answers,
)
from emsco.batch.label_codes import LabelCodes
from emsco.batch.promises import NEVER
from emsco.cascade import decider_of
from emsco.exceptions import BatchError, require

_COLUMNS = ("agreement", "confidence", "calls", "checks", "avoided", "price")


@dataclass(frozen=True, repr=False)
class BatchPlan:
    """The expected calls of a final model, by agreement and confidence.

    Parameters
    ----------
    rows : tuple of mapping
        A row for each pair: `agreement`, `confidence`, the expected `calls` and how many of them
        are `checks`, the share of calls `avoided`, and their `price`.
    n_rows : int
        The rows of the batch.
    expects : str
        What the expectation rests on.

    Examples
    --------
    >>> import numpy as np
    >>> from emsco.batch import plan_batch
    >>> trust = 1 - np.linspace(0, 0.3, 5000) ** 2
    >>> plan = plan_batch(trust=trust, agreements=[0.95], confidences=[0.99])
    >>> plan.to_frame().columns.tolist()
    ['agreement', 'confidence', 'calls', 'checks', 'avoided', 'price']
    """

    rows: tuple[Mapping[str, float], ...]
    n_rows: int
    expects: str

    def to_frame(self) -> Any:
        """Return the table as a pandas frame."""
        return require("pandas", None).DataFrame(list(self.rows))

    def plot(self, ax: Any = None) -> Any:
        """Draw calls against agreement, a line for each confidence.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            The axes to draw on. None: a new figure.
        """
        from emsco.plotting import CallsDisplay

        agreements = sorted({row["agreement"] for row in self.rows})
        confidences = sorted({row["confidence"] for row in self.rows})
        calls = {(row["agreement"], row["confidence"]): row["calls"] for row in self.rows}
        table = [[calls[pair] for pair in product([each], confidences)] for each in agreements]
        return CallsDisplay(agreements, confidences, table, n_rows=self.n_rows).plot(ax)

    def _cells(self) -> tuple[list[str], list[list[object]]]:
        names = [name for name in _COLUMNS if any(not np.isnan(row[name]) for row in self.rows)]
        cells = [
            [
                f"{row[name]:.1%}" if name == "avoided"
                else f"{row[name]:,.0f}" if name in ("calls", "checks") else f"{row[name]:.6g}"
                for name in names
            ]
            for row in self.rows
        ]  # fmt: skip
        return names, cells  # type: ignore[return-value]

    def __str__(self) -> str:
        return text_table(*self._cells(), caption=f"of {self.n_rows:,} rows; {self.expects}")

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(*self._cells(), caption=f"of {self.n_rows:,} rows; {self.expects}")


def plan_batch(
    cascade: Any = None,
    X: Any = None,
    *,
    trust: Any = None,
    agreements: Sequence[float] = (0.9, 0.95, 0.98, 0.99, 0.995),
    confidences: Sequence[float] = (0.9, 0.99),
    n_log: int = 0,
    price: float | None = None,
) -> BatchPlan:
    """Return how many calls `label_batch` is expected to make, before anything is sent.

    The expectation rests on the trust of the cheap answers: where they are wrong more often than it
    says, more rows are sent. The promise does not depend on it.

    Parameters
    ----------
    cascade, X : fitted cascade or search, and rows
        As for `label_batch`.
    trust : sequence of float, default=None
        Instead of these, as for `label_answers`: the trust of each answer, between 0 and 1.
    agreements, confidences : sequence of float
        The pairs to plan for.
    n_log : int, default=0
        How many held-out rows a log would have.
    price : float, default=None
        The price of a row sent. None: that of the cascade's final model, if it has one.

    Returns
    -------
    BatchPlan
        A table with a row for each pair, which can be drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from emsco.batch import plan_batch
    >>> trust = 1 - np.linspace(0, 0.3, 5000) ** 2
    >>> print(plan_batch(trust=trust, agreements=[0.95, 0.99], confidences=[0.99], price=0.02))
    agreement  confidence  calls  checks  avoided  price
    0.95       0.99        599    448     88.0%    11.9786
    0.99       0.99        2,815  1,184   43.7%    56.308
    of 5,000 rows; as far as the trust is right
    """
    if trust is not None:
        if cascade is not None or X is not None:
            raise BatchError("Give a cascade and rows, or `trust`, not both.")
        cheap = read_answers([0] * len(trust), trust)
        if not are_shares(cheap.trust):
            raise BatchError(
                "To plan, `trust` must be between 0 and 1: the share of right answers."
            )
    elif cascade is None or X is None:
        raise BatchError("Give a cascade and the rows X, or `trust`.")
    else:
        decider = decider_of(cascade)
        cheap = cheap_answers(decider, X)
        price = price_of_final(decider) if price is None else price
    arranged = _arrange(cheap, n_log)
    rows = [
        _row(cheap, arranged, Wish.of(*pair, None, None, 1), price)
        for pair in product(agreements, confidences)
    ]
    return BatchPlan(tuple(rows), len(cheap), "as far as the trust is right")


def _arrange(cheap: CheapAnswers, n_log: int) -> Arrangement:
    """Put rows in order; those of a log are like them, spread evenly over their order."""
    log = None
    if n_log:
        ranked = np.argsort(-cheap.trust, kind="stable")
        drawn = ranked[np.linspace(0, len(ranked) - 1, n_log).round().astype(np.intp)]
        held = cheap.take(drawn)
        log = held, held.labels
    known = np.full(len(cheap), NEVER, dtype=np.int32)
    return arrange(cheap, LabelCodes(), known, b"plan", log)


def _row(
    cheap: CheapAnswers, arranged: Arrangement, wish: Wish, price: float | None
) -> Mapping[str, float]:
    try:
        promises = make_promises(wish, cheap, LabelCodes(), arranged.cheap)
    except BatchError:  # so few rows that none may differ
        calls, checks = float(len(cheap)), 0.0
    else:
        terms = make_terms(promises, arranged)
        calls, checks = len(cheap) - terms.expected_cheap, terms.expected_checks
    return {
        "agreement": float(wish.agreement or 0), "confidence": float(wish.confidence),
        "calls": calls, "checks": checks, "avoided": 1 - calls / max(len(cheap), 1),
        "price": np.nan if price is None else calls * price,
    }  # fmt: skip
