"""Small problems to check searches with, and a log of what was proposed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from emsco.core.costs import Costs, Source
from emsco.core.front import Candidate
from emsco.engine import LocalEngine
from emsco.exceptions import SearchError
from emsco.search import CascadeSearchCV, Counts, Problem, SearchResult

Answer = TypeVar("Answer")

_TANGLED = Costs(
    [
        Source("x0", cost=2, latency=1),
        Source("x1", cost=0, requires=["x0"]),
        Source("x2", cost=1.5, setup="draw", latency=3),
        Source("x3", cost=4.25, setup="draw"),
        Source("x4", cost=0.3, requires=["x1", "x2"]),
    ],
    setups={"draw": 1.2},
)


@dataclass
class ProposalLog:
    """The evaluations that a search received, and the proposals that were refused."""

    evaluations: list[Counts] = field(default_factory=list)
    refused: list[SearchError] = field(default_factory=list)

    def ask(self, question: Callable[..., Answer], *args: Any) -> Answer:
        """Ask, and record a refusal even if the search catches the error."""
        try:
            return question(*args)
        except SearchError as error:
            self.refused.append(error)
            raise

    def points(self) -> NDArray[np.float64]:
        """Return accepted, accuracy and paid of all feasible designs that accept anything."""
        return np.vstack([np.empty((0, 3)), *map(points_of, self.evaluations)])


@dataclass(frozen=True)
class LoggedProblem(Problem):
    """A problem that keeps a log."""

    log: ProposalLog = field(default_factory=ProposalLog, compare=False)

    def lacking(self, assignments: Any) -> NDArray[np.int64]:
        """Count the sets that must be fitted first, as the problem does."""
        return self.log.ask(super().lacking, assignments)

    def evaluate(self, assignments: Any, threshold: Any = 0) -> Counts:
        """Evaluate as the problem does."""
        counts = self.log.ask(super().evaluate, assignments, threshold)
        self.log.evaluations.append(counts)
        return counts

    def candidates(self, assignments: Any, threshold: Any = 0) -> list[Candidate]:
        """Create candidates as the problem does."""
        return self.log.ask(super().candidates, assignments, threshold)


def points_of(counts: Counts) -> NDArray[np.float64]:
    """Return accepted, accuracy and paid of the feasible designs that accept anything."""
    good = counts.feasible & (counts.accepted > 0)
    accepted, right, paid = (count[good] for count in counts[1:])
    return np.column_stack([accepted, right / accepted, paid])


class _StopSearch(Exception):  # noqa: N818  # it carries a problem, and nothing went wrong
    """Ends a search before it begins."""


class _ProblemCapture:
    """A search that only takes the problem that it is given."""

    def run(self, problem: Problem, rng: Any, callback: Any = None) -> SearchResult:  # noqa: ARG002
        raise _StopSearch(problem)


@dataclass(frozen=True)
class SmallProblem:
    """Rows and prices from which a problem can be created repeatedly."""

    description: str  # what is special about it
    n_sources: int = 4
    n_rows: int = 60
    n_classes: int = 2
    params: Mapping[str, Any] = field(default_factory=dict)  # of the search that asks it
    is_large: bool = False  # so that it may be refused

    def make(self, n_workers: int = 1) -> LoggedProblem:
        """Create a new instance of the problem, with nothing fitted."""
        rng = np.random.default_rng(0)
        y = np.arange(self.n_rows) % self.n_classes
        X = rng.normal(size=(len(y), self.n_sources)) + 0.8 * y[:, None]
        costs = rng.integers(1, 9, self.n_sources).tolist()
        defaults = {"costs": costs, "threshold": 0.75, "max_stages": 3, "cv": 2}
        params = defaults | dict(self.params)
        try:
            CascadeSearchCV(search=_ProblemCapture(), engine=LocalEngine(n_workers), **params).fit(
                X, y
            )
        except _StopSearch as stop:
            problem = stop.args[0]
        return LoggedProblem(*(getattr(problem, each.name) for each in fields(Problem)))


QUESTIONS = (
    SmallProblem("two classes"),
    SmallProblem(
        "three classes and several thresholds",
        n_classes=3,
        params={"threshold": [0.5, {0: 0.6, 1: 0.7, 2: 0.8}, 0.9]},
    ),
    SmallProblem("requirements and setups", 5, params={"costs": _TANGLED}),
    SmallProblem("`max_missed`", params={"threshold": 0.8, "max_missed": {1: 0.1}}),
    SmallProblem(
        "nothing feasible",
        n_sources=3,
        params={"threshold": 0.51, "max_missed": {0: 0.0, 1: 0.0}},
    ),
    SmallProblem("no source unused", params={"allow_unused": False}),
    SmallProblem("one source", 1),
    SmallProblem("one stage", params={"max_stages": 1}),
    SmallProblem("66 sources", 66, 24, is_large=True),
)
