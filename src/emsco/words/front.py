"""The candidates that no other beats in accuracy, coverage and cost at once, and the choice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from emsco._ground.table import cell, html_table, shown, text_table
from emsco.exceptions import SelectionError, nearest, require
from emsco.words.costs import Costs
from emsco.words.design import StageDesign
from emsco.words.evaluation import Evaluation
from emsco.words.threshold import Threshold, freeze, sort_key

_MAXIMISE = [True, True, False]  # accuracy, coverage, cost


@dataclass(frozen=True)
class Candidate:
    """A design and a threshold with the evaluation they were given.

    Examples
    --------
    >>> from emsco import Candidate, Evaluation, StageDesign
    >>> evaluation = Evaluation(rows=100, accepted=90, right=81, paid=300)
    >>> Candidate(StageDesign([0, 1]), 0.75, evaluation).evaluation.accuracy
    0.9
    """

    design: StageDesign
    threshold: Threshold
    evaluation: Evaluation

    def __post_init__(self) -> None:
        object.__setattr__(self, "threshold", freeze(self.threshold))

    @property
    def objectives(self) -> tuple[float, float, float]:
        """What fronts compare: accuracy, coverage and cost."""
        return self.evaluation.accuracy, self.evaluation.coverage, self.evaluation.cost

    @property
    def _rank(self) -> tuple[int, tuple[int, ...], tuple[float, ...]]:
        """The order among candidates of one evaluation: the simplest first."""
        return (
            self.design.n_stages,
            tuple(self.design.assignment.tolist()),
            sort_key(self.threshold),
        )

    def __str__(self) -> str:
        accuracy, coverage, cost = self.objectives
        return (
            f"{self.design} at threshold {cell(self.threshold)}: "
            f"accuracy {accuracy:.4g}, coverage {coverage:.4g}, cost {cost:.4g}"
        )


class ParetoFront(Sequence[Candidate]):
    """The non-dominated candidates, cheapest first: a read-only sequence.

    Of several candidates with one evaluation the front keeps the one with the fewest stages, then
    the smallest assignment, then the lowest threshold. A candidate that accepts nothing never
    enters.

    Parameters
    ----------
    candidates : iterable of Candidate
        Any candidates; dominated ones are left out.
    costs : Costs
        The prices that the candidates were evaluated with.
    measured_on : str, default=""
        What the evaluations were measured on, told under every table of the front.

    Examples
    --------
    >>> from emsco import Candidate, Costs, Evaluation, ParetoFront, StageDesign
    >>> costs = Costs.per_feature({"age": 1, "lab": 20})
    >>> def candidate(assignment, accepted, right, paid):
    ...     return Candidate(StageDesign(assignment), 0.75, Evaluation(100, accepted, right, paid))
    >>> front = ParetoFront(
    ...     [
    ...         candidate([0, -1], 60, 54, 100),
    ...         candidate([0, 1], 95, 90, 900),
    ...         candidate([0, 0], 95, 89, 2100),
    ...     ],
    ...     costs,
    ... )
    >>> front
      design  threshold  accuracy  coverage  cost
    0 age          0.75       0.9       0.6     1
    1 age | lab    0.75    0.9474      0.95     9
    >>> print(front.select(min_coverage=0.9))
    age | lab at threshold 0.75: accuracy 0.9474, coverage 0.95, cost 9
    """

    __slots__ = ("_candidates", "_costs", "_measured_on")

    def __init__(
        self, candidates: Iterable[Candidate], costs: Costs, measured_on: str = ""
    ) -> None:
        best: dict[tuple[float, float, float], Candidate] = {}
        for candidate in candidates:
            if not candidate.evaluation.accepted:
                continue
            aligned = candidate.design.align(costs)
            if aligned is not candidate.design:
                candidate = Candidate(aligned, candidate.threshold, candidate.evaluation)
            known = best.get(candidate.objectives)
            if known is None or candidate._rank < known._rank:
                best[candidate.objectives] = candidate
        self._costs = costs
        self._measured_on = measured_on
        self._candidates: tuple[Candidate, ...] = ()
        if best:
            points = np.array(list(best))
            kept = _moocore().is_nondominated(points, maximise=_MAXIMISE)
            undominated = [c for c, keep in zip(best.values(), kept, strict=True) if keep]
            self._candidates = tuple(
                sorted(undominated, key=lambda c: (c.evaluation.cost, c.objectives))
            )

    @property
    def costs(self) -> Costs:
        """The prices that the candidates were evaluated with."""
        return self._costs

    @property
    def measured_on(self) -> str:
        """What the evaluations were measured on."""
        return self._measured_on

    def __len__(self) -> int:
        return len(self._candidates)

    @overload
    def __getitem__(self, index: int) -> Candidate: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Candidate]: ...

    def __getitem__(self, index: Any) -> Any:
        return self._candidates[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ParetoFront):
            return NotImplemented
        return self._state == other._state

    def __hash__(self) -> int:
        return hash(self._state)

    @property
    def _state(self) -> tuple[tuple[Candidate, ...], Costs, str]:
        return self._candidates, self._costs, self._measured_on

    def merge(self, *others: ParetoFront) -> ParetoFront:
        """Give the front of several fronts whose sources cost the same in total."""
        for other in others:
            if other._costs.total != self._costs.total:
                raise SelectionError(
                    f"Only fronts of one total cost can be merged, got {self._costs.total} "
                    f"and {other._costs.total}."
                )
        fronts = (self, *others)
        told = dict.fromkeys(front._measured_on for front in fronts if front._measured_on)
        together = [c for front in fronts for c in front._candidates]
        return ParetoFront(together, self._costs, "; ".join(sorted(told)))

    def _cost_share(self, candidate: Candidate) -> float:
        total = self._costs.total
        return candidate.evaluation.cost / total if total else 0.0

    def hypervolume(self) -> float:
        """Give the share of the unit box coverage x accuracy x (1 - cost / total) dominated."""
        if not self._candidates:
            return 0.0
        points = [
            [c.evaluation.accuracy, c.evaluation.coverage, 1 - self._cost_share(c)]
            for c in self._candidates
        ]
        return float(_moocore().hypervolume(points, ref=[0.0] * 3, maximise=True))

    def select(
        self,
        *,
        max_cost: float | None = None,
        min_coverage: float | None = None,
        min_accuracy: float | None = None,
        max_missed: Mapping[Any, float] | None = None,
        max_latency: float | None = None,
        by: str = "cost",
        error_cost: float | Mapping[Any, float] | None = None,
    ) -> Candidate:
        """Choose the best candidate within bounds.

        Parameters
        ----------
        max_cost, min_coverage, min_accuracy : float, default=None
            Bounds on the mean cost, the coverage and the accuracy.
        max_missed : mapping of label to float, default=None
            By true class, the largest share accepted under another label.
        max_latency : float, default=None
            The longest that any row may wait: a bound on the worst path.
        by : {"cost", "accuracy", "coverage", "fitness", "loss"}, default="cost"
            What is best: the lowest cost, the highest accuracy or coverage, the paper's fitness
            sqrt(accuracy^2 + coverage^2 + (1 - cost / total)^2), or the lowest loss: cost, review
            and errors.
        error_cost : float or mapping of label to float, default=None
            For "loss": the price of an error, one or by true class.

        Raises
        ------
        SelectionError
            Where nothing meets the bounds; it names the closest candidate.
        """
        score = self._score(by, error_cost)
        bounds = _Bounds(max_cost, min_coverage, min_accuracy, max_missed or {}, max_latency)
        if not self._candidates:
            raise SelectionError("The front is empty: no candidate accepts any row.")
        feasible = [c for c in self._candidates if not any(bounds.shortfalls(c).values())]
        if not feasible:
            total = self._costs.total or 1.0
            closest = min(self._candidates, key=lambda c: bounds.distance(c, total))
            missing = ", ".join(name for name, by in bounds.shortfalls(closest).items() if by)
            raise SelectionError(
                f"No candidate meets {bounds}; the closest, {closest}, fails {missing}.",
                closest=closest,
            )
        return min(feasible, key=lambda c: (score(c), c.evaluation.cost, *_worse(c)))

    def _score(
        self, by: str, error_cost: float | Mapping[Any, float] | None
    ) -> Callable[[Candidate], float]:
        """Give what `select` minimises."""
        if error_cost is not None and by != "loss":
            raise SelectionError(f"`error_cost` belongs to by='loss', got by={by!r}.")
        scores: dict[str, Callable[[Candidate], float]] = {
            "cost": lambda c: c.evaluation.cost,
            "accuracy": lambda c: -c.evaluation.accuracy,
            "coverage": lambda c: -c.evaluation.coverage,
            "fitness": lambda c: (
                -float(
                    np.hypot(
                        np.hypot(c.evaluation.accuracy, c.evaluation.coverage),
                        1 - self._cost_share(c),
                    )
                )
            ),
            "loss": lambda c: c.evaluation.loss(
                review=self._costs.review, error_cost=0.0 if error_cost is None else error_cost
            ),
        }
        if by not in scores:
            raise SelectionError(
                f"`by` must be one of {', '.join(scores)}; got {by!r}" + nearest(by, scores)
            )
        return scores[by]

    def _columns(self) -> dict[str, list[Any]]:
        """Give the table of the front, a column a word."""
        columns: dict[str, list[Any]] = {
            "design": [str(c.design) for c in self._candidates],
            "threshold": [c.threshold for c in self._candidates],
            "accuracy": [c.evaluation.accuracy for c in self._candidates],
            "coverage": [c.evaluation.coverage for c in self._candidates],
            "cost": [c.evaluation.cost for c in self._candidates],
        }
        labels = self._candidates[0].evaluation.class_rows if self._candidates else ()
        for label in labels:
            columns[f"missed {label}"] = [c.evaluation.missed[label] for c in self._candidates]
            columns[f"recall {label}"] = [c.evaluation.recall[label] for c in self._candidates]
        if any(c.evaluation.worst_latency for c in self._candidates):
            columns["latency"] = [c.evaluation.latency for c in self._candidates]
            columns["worst_latency"] = [c.evaluation.worst_latency for c in self._candidates]
        return columns

    def to_frame(self) -> Any:
        """Give a pandas DataFrame, one row a candidate."""
        return require("pandas").DataFrame(self._columns())

    def _cells(self) -> tuple[list[str], list[list[object] | None]]:
        columns = self._columns()
        rows: list[list[object] | None] = [
            None if i is None else [i, *(column[i] for column in columns.values())]
            for i in shown(len(self))
        ]
        return ["", *columns], rows

    def __repr__(self) -> str:
        if not self._candidates:
            return "ParetoFront([])"
        return text_table(*self._cells(), self._measured_on)

    def _repr_html_(self) -> str:
        return html_table(*self._cells(), self._measured_on)


def _moocore() -> Any:
    """Import moocore when a front is made: it takes as long to load as emsco itself."""
    import moocore

    return moocore


def _worse(candidate: Candidate) -> tuple[float, float]:
    """Order equally good candidates: the more accurate, then the more covering first."""
    return -candidate.evaluation.accuracy, -candidate.evaluation.coverage


@dataclass(frozen=True)
class _Bounds:
    """What a chosen candidate must keep to."""

    max_cost: float | None
    min_coverage: float | None
    min_accuracy: float | None
    max_missed: Mapping[Any, float]
    max_latency: float | None

    def _asked(self) -> dict[str, tuple[float, Callable[[Evaluation], float], float]]:
        """Give each bound asked for: its value, what it bounds, and +1 where more is worse."""
        asked: dict[str, tuple[float, Callable[[Evaluation], float], float]] = {}
        if self.max_cost is not None:
            asked["cost"] = self.max_cost, lambda e: e.cost, 1
        if self.min_coverage is not None:
            asked["coverage"] = self.min_coverage, lambda e: e.coverage, -1
        if self.min_accuracy is not None:
            asked["accuracy"] = self.min_accuracy, lambda e: e.accuracy, -1
        for label, bound in self.max_missed.items():
            asked[f"missed {label}"] = bound, _missed(label), 1
        if self.max_latency is not None:
            asked["worst_latency"] = self.max_latency, lambda e: e.worst_latency, 1
        return asked

    def shortfalls(self, candidate: Candidate) -> dict[str, float]:
        """Say by how much a candidate fails each bound; 0 where it is met."""
        return {
            name: max(0.0, sign * (value(candidate.evaluation) - bound))
            for name, (bound, value, sign) in self._asked().items()
        }

    def distance(self, candidate: Candidate, total: float) -> float:
        """Add the shortfalls up: shares as they are, cost and latency as shares of the whole."""
        units = {"cost": total, "worst_latency": candidate.evaluation.worst_latency or 1.0}
        return sum(by / units.get(name, 1.0) for name, by in self.shortfalls(candidate).items())

    def __str__(self) -> str:
        return " and ".join(
            f"{name} {'<=' if sign > 0 else '>='} {bound}"
            for name, (bound, _, sign) in self._asked().items()
        )


def _missed(label: Any) -> Callable[[Evaluation], float]:
    def missed(evaluation: Evaluation) -> float:
        if label not in evaluation.class_rows:
            raise SelectionError(
                f"`max_missed` names {label!r}, which is not a class"
                + nearest(label, [str(known) for known in evaluation.class_rows])
            )
        return evaluation.missed[label]

    return missed
