"""Phishing sites, decided in four stages, with a source and a store each."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco import CascadeClassifier, Costs, Decisions, InputGuard, Source, StageDesign
from emsco.datasets import load_phishing
from emsco.exceptions import GuardWarning

# Where each is kept: Redis, PostgreSQL, MariaDB and a vendor behind HTTP.
URL, PAGE, INDEX, WHOIS = NAMES = ("url", "page", "google_index", "whois")
LATENCY = {URL: 0.002, PAGE: 0.015, INDEX: 0.03, WHOIS: 0.08}  # seconds that an answer takes
# Such that every stage decides about a quarter of the rows.
THRESHOLDS = (0.98, 0.95, 0.9, 0.9)


class Problem(NamedTuple):
    """The rows, the cascade, and what it decides about them on the table."""

    X: Any
    keys: list[str]
    costs: Costs
    cascade: CascadeClassifier
    decided: Decisions

    def features(self, source: str) -> tuple[str, ...]:
        """Name what a source yields."""
        return tuple(self.costs.columns(source))

    def needed(self, source: str) -> NDArray[np.bool_]:
        """Say which rows need a source."""
        needed: NDArray[np.bool_] = self.decided.exit_stage >= NAMES.index(source)
        return needed


def make_problem(n_rows: int | None = None, *, staged: bool = True) -> Problem:
    """Fit the cascade on every second row; keep the first rows, or all of them.

    With `staged=False`, everything is bought at once.
    """
    X, costs, cascade = _fitted(staged=staged)
    X = X[:n_rows]
    keys = [f"site-{number:05d}" for number in range(len(X))]
    return Problem(X, keys, costs, cascade, cascade.decide(X))


@cache
def _fitted(*, staged: bool) -> tuple[Any, Costs, CascadeClassifier]:
    X, y, prices = load_phishing()
    cost = {source.name: source.cost for source in prices.sources}
    costs = Costs([
        Source(name, cost=cost[name], features=prices.columns(name), latency=LATENCY[name])
        for name in NAMES
    ])  # fmt: skip
    X = X[[feature for name in NAMES for feature in costs.columns(name)]]
    stages = [[name] for name in NAMES] if staged else [list(NAMES)]
    cascade = CascadeClassifier(
        design=StageDesign.from_stages(stages), costs=costs, guard=InputGuard(),
        threshold=THRESHOLDS if staged else THRESHOLDS[-1],
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuardWarning)
        return X, costs, cascade.fit(X[::2], y[::2])
