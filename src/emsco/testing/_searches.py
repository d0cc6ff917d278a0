"""The contract of a search: a front of valid designs, as evaluated, the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco.core.front import Candidate, ParetoFront
from emsco.exceptions import ContractError, SearchError
from emsco.search import Search, SearchResult
from emsco.testing._contract import demand
from emsco.testing._small_problems import QUESTIONS, LoggedProblem, SmallProblem, points_of

KEYS = ("threshold", "done", "source_sets", "designs", "front", "hypervolume")
_SEED = 7
_MAXIMISE = [True, True, False]  # accepted, accuracy, paid


def check_search(search: Search) -> None:
    """Check a search against everything that `CascadeSearchCV` and its users rely on.

    The problems have two or three classes, requirements, setups, limits, several thresholds, and
    from one source to sixty-six. On each, `run(problem, rng, callback)` must return a
    `SearchResult` whose front is not beaten by any design that was evaluated. Its candidates must
    have the evaluations that the problem gives them, and respect `max_stages`, `requires`,
    `allow_unused`, `max_missed` and `max_rejected`. The same seed must give the same front, bit for
    bit, with any number of workers. The callback must be informed of the progress, and an exception
    that it raises must end the search. No invalid design may be proposed.

    Use a search with a small budget, because it is run about thirty times. The problem with
    sixty-six sources may be refused with a `SearchError`.

    Parameters
    ----------
    search : Search
        The search to check.

    Raises
    ------
    ContractError
        At the first broken promise; the message says which one.

    Examples
    --------
    >>> from emsco import EMSCO
    >>> from emsco.testing import check_search
    >>> check_search(EMSCO(population=20, generations=5))
    """
    for question in QUESTIONS:
        trial = _Trial(search, question)
        first = trial.run()
        if first is None:
            continue
        trial.check_result(*first)
        trial.check_callback(first[0])
        if not question.is_large:  # what holds for the small holds for the large, and sooner
            trial.check_workers(first[0])
            trial.check_stop()


class _Stop(Exception):  # noqa: N818  # nothing went wrong
    """What the callback raises."""


@dataclass(frozen=True)
class _Trial:
    """A search on one problem."""

    search: Search
    question: SmallProblem

    def demand(self, condition: object, broken: str) -> None:
        name, problem = type(self.search).__name__, self.question.description
        demand(condition, f"The search {name} {broken}, on the problem with {problem}.")

    def run(
        self, callback: Callable[[LoggedProblem, Any], None] | None = None, n_workers: int = 1
    ) -> tuple[SearchResult, LoggedProblem] | None:
        """Run the search on a fresh problem; None where that is too large for it."""
        problem = self.question.make(n_workers)
        rng = np.random.default_rng(_SEED)
        before = _global_generators()
        result, raised = None, None
        try:
            if callback is None:
                result = self.search.run(problem, rng)
            else:
                result = self.search.run(problem, rng, lambda entry: callback(problem, entry))
        except (_Stop, ContractError):
            raise
        except Exception as error:
            raised = error
        refused = problem.log.refused
        self.demand(not refused, f"proposes what cannot be ({refused and refused[0]})")
        if self.question.is_large and isinstance(raised, SearchError):
            return None
        self.demand(raised is None, f"raises {type(raised).__name__} ({raised})")
        self.demand(
            _global_generators() == before,
            "draws from a generator that all share; all randomness comes from `rng`",
        )
        self.demand(
            isinstance(result, SearchResult),
            f"gives a {type(result).__name__}; `run` gives a SearchResult",
        )
        assert isinstance(result, SearchResult)
        self.demand(
            isinstance(result.front, ParetoFront),
            f"gives a {type(result.front).__name__} as its front; it must be a ParetoFront",
        )
        return result, problem

    def check_result(self, result: SearchResult, problem: LoggedProblem) -> None:
        """Demand a front of designs that may be, as the problem evaluates them, and no worse."""
        self.demand(result.front.costs == problem.costs, "gives a front at other prices")
        if len(result.front):
            self._check_front(result.front, problem.log.points())
        self.demand(isinstance(result.history, list), "gives a history that is not a list")
        for entry in result.history:
            self._check_entry(entry, problem)

    def _check_front(self, front: ParetoFront, evaluated: NDArray[np.float64]) -> None:
        """Demand that every candidate may be, is evaluated as it is, and is not beaten."""
        import moocore

        judge = self.question.make()
        which = np.vstack([self._thresholds_of(candidate, judge) for candidate in front])
        designs = np.array([candidate.design.assignment for candidate in front])
        counts = judge.evaluate(designs, which)
        worst = front[int(np.argmin(counts.feasible))]
        self.demand(counts.feasible.all(), f"breaks `requires` or a limit by class, by {worst}")
        for candidate, again in zip(front, judge.candidates(designs, which), strict=True):
            self.demand(
                again == candidate,
                f"makes figures up: {candidate}, which the problem evaluates as {again}",
            )
        points = np.vstack([points_of(counts), evaluated])
        unbeaten = moocore.is_nondominated(points, maximise=_MAXIMISE)[: len(front)]
        worst = front[int(np.argmin(unbeaten))]
        self.demand(unbeaten.all(), f"gives a candidate that a design it evaluated beats, {worst}")

    def _thresholds_of(self, candidate: Candidate, judge: LoggedProblem) -> NDArray[np.int64]:
        """Say which of the thresholds each stage has, of a candidate that is the problem's own."""
        design = candidate.design
        self.demand(
            design.n_stages <= judge.max_stages,
            f"gives a candidate of {design.n_stages} stages, where max_stages={judge.max_stages}",
        )
        self.demand(
            judge.allow_unused or not design.unused,
            f"leaves {design.unused} unused in {design}, which allow_unused=False forbids",
        )
        value = candidate.threshold
        own = value if isinstance(value, tuple) else (value,) * design.n_stages
        self.demand(
            all(threshold in judge.thresholds for threshold in own),
            f"gives a candidate at threshold {value}, which is none of the alternatives",
        )
        which = np.zeros(judge.max_stages, dtype=np.int64)
        which[: len(own)] = [judge.thresholds.index(threshold) for threshold in own]
        return which

    def check_callback(self, first: SearchResult) -> None:
        """Demand that the callback is told how it goes, and that the same seed repeats itself."""
        shares: list[float] = []

        def note(problem: LoggedProblem, entry: Any) -> None:
            self._check_entry(entry, problem)
            self.demand(
                entry["source_sets"] == len(problem.table),
                f"tells of {entry['source_sets']} source sets, where {len(problem.table)} are "
                "fitted",
            )
            shares.append(entry["done"])

        again = self.run(note)
        self.demand(
            again is not None and again[0].front == first.front,
            "gives another front with the same seed; all randomness comes from `rng`, and a search "
            "keeps nothing from one run to the next",
        )
        self.demand(shares, "tells its callback nothing")
        self.demand(
            shares == sorted(shares) and abs(shares[-1] - 1) < 1e-9,
            f"tells its callback shares `done` that fall, or do not end at 1: {shares[-5:]}",
        )

    def _check_entry(self, entry: Any, problem: LoggedProblem) -> None:
        """Demand the documented keys, with values that can be."""
        self.demand(isinstance(entry, Mapping), f"tells a {type(entry).__name__}, not a dict")
        lacking = [key for key in KEYS if key not in entry]
        self.demand(not lacking, f"does not tell {lacking} in an entry of its history")
        self.demand(
            entry["threshold"] in problem.thresholds,
            f"tells of threshold {entry['threshold']}, which is none of the alternatives",
        )
        for key in ("done", "hypervolume"):
            self.demand(0 <= entry[key] <= 1, f"tells {key}={entry[key]}; it is a share")
        for key in ("source_sets", "designs", "front"):
            counted = isinstance(entry[key], int | np.integer) and entry[key] >= 0
            self.demand(counted, f"tells {key}={entry[key]!r}; it is a whole number")

    def check_workers(self, first: SearchResult) -> None:
        """Demand the same front with another number of workers."""
        other = self.run(n_workers=2)
        self.demand(
            other is not None and other[0].front == first.front,
            "gives another front with another number of workers",
        )

    def check_stop(self) -> None:
        """Demand that what the callback raises ends the search at once."""
        evaluated: list[tuple[LoggedProblem, int]] = []

        def stop(problem: LoggedProblem, _: Any) -> None:
            evaluated.append((problem, len(problem.log.evaluations)))
            raise _Stop

        try:
            self.run(stop)
        except _Stop:
            problem, n_before = evaluated[0]
            self.demand(
                len(evaluated) == 1 and len(problem.log.evaluations) == n_before,
                "goes on evaluating after its callback has raised",
            )
        else:
            self.demand(False, "swallows what its callback raises")


def _global_generators() -> tuple[Any, ...]:
    """Give the state of the generators that all share."""
    state: Any = np.random.get_state()  # noqa: NPY002  # it is this one
    return state[1].tolist(), state[2:], random.getstate()
