"""The candidates that no other beats in accuracy, coverage and cost at once, and the choice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import Any, overload

import numpy as np

from emsco._utils.text_table import cell, html_table, numbered_rows, text_table
from emsco.core.caution import AUTO, standard_errors
from emsco.core.costs import Costs
from emsco.core.design import StageDesign
from emsco.core.evaluation import Evaluation
from emsco.core.measure import share_of
from emsco.core.measures import columns, latencies
from emsco.core.selection import Bounds, Figures, why_not
from emsco.core.threshold import Threshold, freeze, sort_key
from emsco.exceptions import Message, SelectionError, require

_MAXIMISE = [True, True, False]  # accuracy, coverage, cost


@dataclass(frozen=True)
class Candidate:
    """A design and a threshold, with their evaluation.

    `learner` is the name of the estimator that fits its stages, if a search has several.

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
    learner: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "threshold", freeze(self.threshold))

    @property
    def identity(self) -> list[Any]:
        """What it decides by, among the candidates of a search."""
        return [self.design.assignment, self.threshold, *([self.learner] if self.learner else [])]

    @property
    def title(self) -> str:
        """The design, and by what its stages are fitted if a search has several estimators."""
        return f"{self.design} by {self.learner}" if self.learner else str(self.design)

    @property
    def objectives(self) -> tuple[float, float, float]:
        """What fronts compare: accuracy, coverage and cost."""
        return self.evaluation.accuracy, self.evaluation.coverage, self.evaluation.cost

    @property
    def _rank(self) -> tuple[int, tuple[int, ...], tuple[float, ...], str]:
        """The sort key among candidates with equal evaluations: the simplest comes first."""
        return (
            self.design.n_stages,
            tuple(self.design.assignment.tolist()),
            sort_key(self.threshold),
            self.learner,
        )

    def __str__(self) -> str:
        accuracy, coverage, cost = self.objectives
        return (
            f"{self.title} at threshold {cell(self.threshold)}: "
            f"accuracy {accuracy:.4g}, coverage {coverage:.4g}, cost {cost:.4g}"
        )


class ParetoFront(Sequence[Candidate]):
    """The non-dominated candidates, cheapest first: a read-only sequence.

    If several candidates have the same evaluation, the front keeps the one with the fewest stages,
    then the smallest assignment, then the lowest threshold. A candidate that accepts nothing is
    never part of the front.

    Parameters
    ----------
    candidates : iterable of Candidate
        Any candidates; dominated ones are left out. What errors cost is an objective, too, if the
        costs have prices of errors.
    costs : Costs
        The prices that the candidates were evaluated with.
    measured_on : str, default=""
        What the evaluations were measured on, shown under every table of the front.
    luck : float, default=None
        By how many standard errors of accuracy a choice from this front looks better by luck, as
        measured by repeating the search. None: unknown.
    repeats : float, default=1.0
        How often a row was counted on average: above 1 if folds repeat rows.

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

    __slots__ = ("_candidates", "_costs", "_figures", "_luck", "_measured_on", "_repeats")

    def __init__(
        self,
        candidates: Iterable[Candidate],
        costs: Costs,
        measured_on: str = "",
        *,
        luck: float | None = None,
        repeats: float = 1.0,
    ) -> None:
        if luck is not None and not isfinite(luck):
            raise SelectionError(f"`luck` must be a number or None, got {luck!r}.")
        if not 1 <= repeats < inf:
            raise SelectionError(f"`repeats` must be a number >= 1, got {repeats!r}.")
        best: dict[tuple[float, ...], Candidate] = {}
        for candidate in candidates:
            if not candidate.evaluation.accepted:
                continue
            aligned = candidate.design.align(costs)
            if aligned is not candidate.design:
                candidate = replace(candidate, design=aligned)
            objectives = (*candidate.objectives, *_priced_errors(candidate.evaluation, costs))
            known = best.get(objectives)
            if known is None or candidate._rank < known._rank:
                best[objectives] = candidate
        self._costs = costs
        self._measured_on = measured_on
        self._luck = luck
        self._repeats = repeats
        self._figures: Figures | None = None  # made when something is selected
        self._candidates: tuple[Candidate, ...] = ()
        if best:
            points = np.array(list(best))
            goals = _MAXIMISE + [False] * (points.shape[1] - len(_MAXIMISE))
            mask = _moocore().is_nondominated(points, maximise=goals)
            undominated = [c for c, keep in zip(best.values(), mask, strict=True) if keep]
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

    @property
    def luck(self) -> float | None:
        """By how many standard errors of accuracy a choice looks better by luck; None: unknown."""
        return self._luck

    @property
    def repeats(self) -> float:
        """How often a row was counted on average."""
        return self._repeats

    @property
    def figures(self) -> Figures:
        """The counts of all candidates as arrays, read when something is first selected."""
        if self._figures is None:
            self._figures = Figures([c.evaluation for c in self._candidates])
        return self._figures

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
    def _state(self) -> tuple[object, ...]:
        return self._candidates, self._costs, self._measured_on, self._luck, self._repeats

    def thinned(self, places: Sequence[int], note: str) -> ParetoFront:
        """Keep some candidates, in their order; `note` says so under every table."""
        selected = [self._candidates[place] for place in sorted(places)]
        measured_on = self._measured_on + f" {note}" if self._measured_on else note
        return ParetoFront(
            selected, self._costs, measured_on, luck=self._luck, repeats=self._repeats
        )

    def merge(self, *others: ParetoFront) -> ParetoFront:
        """Merge fronts whose sources cost the same in total.

        The luck of the merged front is the largest of theirs, or unknown if one is unknown.
        """
        for other in others:
            if other._costs.total != self._costs.total:
                raise SelectionError(
                    f"Only fronts of one total cost can be merged, got {self._costs.total} "
                    f"and {other._costs.total}."
                )
        fronts = (self, *others)
        notes = dict.fromkeys(front._measured_on for front in fronts if front._measured_on)
        together = [c for front in fronts for c in front._candidates]
        known = [front._luck for front in fronts if front._luck is not None]
        return ParetoFront(
            together,
            self._costs,
            Message("; ").join(sorted(notes)),
            luck=max(known) if len(known) == len(fronts) else None,
            repeats=max(front._repeats for front in fronts),
        )

    def hypervolume(self) -> float:
        """Return the dominated share of the unit box coverage x accuracy x (1 - cost / total)."""
        if not self._candidates:
            return 0.0
        objectives = [candidate.objectives for candidate in self._candidates]
        points = [[a, c, 1 - share_of(cost, self._costs.total)] for a, c, cost in objectives]
        return float(_moocore().hypervolume(points, ref=[0.0] * 3, maximise=True))

    def select(
        self,
        *,
        by: str = "cost",
        error_cost: float | Mapping[Any, float] | None = None,
        caution: float | str = AUTO,
        **bounds: Any,
    ) -> Candidate:
        """Choose the best candidate within bounds.

        Parameters
        ----------
        max_cost, min_coverage, min_accuracy : float, default=None
            Bounds on the mean cost, the coverage and the accuracy.
        max_missed, max_rejected : mapping of label to float, default=None
            Per true class, the maximum share accepted under another label, or rejected.
        min_precision : mapping of label to float, default=None
            Per assigned label, the minimum share of rows accepted under it that are right.
        max_latency : float, default=None
            The maximum latency of any row: a bound on the worst path.
        **bounds
            Any other bound, by the parameter of a measure.
        by : {"cost", "accuracy", "coverage", "fitness", "loss"}, default="cost"
            What to optimise: the lowest cost, the highest accuracy or coverage, the paper's fitness
            sqrt(accuracy^2 + coverage^2 + (1 - cost / total)^2), or the lowest loss: cost, review
            and errors.
        error_cost : float or mapping of label to float, default=None
            For "loss": the price of an error, one for all or one per true class. None: those of the
            costs, if any, and otherwise 0.
        caution : "auto" or float, default="auto"
            The margin, in standard errors, with which bounds on accuracy and on shares by class
            (Wilson's bounds) must be met; it is also used with by="accuracy". "auto": `luck`, or 1
            if that is smaller or unknown. 0: figures are used as counted. Bounds of 0 and 1,
            coverage, cost and latency are always used as counted.

        Raises
        ------
        SelectionError
            If no candidate meets the bounds. The message says how far each bound can be met, which
            candidate is closest, and what `caution=0` would give.
        """
        if by == "loss" and error_cost is None:
            error_cost = self._costs.errors or None
        within = Bounds(by=by, error_cost=error_cost, **bounds)
        z = standard_errors(caution, self._luck)
        if not self._candidates:
            raise SelectionError("The front is empty: no candidate accepts any row.")
        place = within.choose(self.figures, self._costs, z, self._repeats)
        if place is None:
            message, closest = why_not(
                within, self.figures, self._costs, z, self._repeats, self.__getitem__
            )
            raise SelectionError(message, closest=self._candidates[closest])
        return self._candidates[place]

    def _columns(self) -> dict[str, list[Any]]:
        """Return the columns of the table of the front, by name."""
        evaluations = [candidate.evaluation for candidate in self._candidates]
        table: dict[str, list[Any]] = {
            "design": [str(c.design) for c in self._candidates],
            "threshold": [c.threshold for c in self._candidates],
            **learners_of(self._candidates),
        }
        for measure in columns(by_class=False):
            table[measure.name] = [measure.of(e) for e in evaluations]
        for label in evaluations[0].class_rows if evaluations else ():
            for measure in columns(by_class=True):
                if all(label in measure.labels(e) for e in evaluations):
                    shares = [share_of(*measure.count(e, label)) for e in evaluations]
                    table[measure.name_of(label)] = shares
        if any(e.worst_latency for e in evaluations):
            table |= {m.name: [m.of(e) for e in evaluations] for m in latencies()}
        return table

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per candidate."""
        return require("pandas").DataFrame(self._columns())

    def __repr__(self) -> str:
        if not self._candidates:
            return "ParetoFront([])"
        return text_table(*numbered_rows(self._columns()), self._measured_on)

    def _repr_html_(self) -> str:
        return html_table(*numbered_rows(self._columns()), self._measured_on)


def learners_of(candidates: Sequence[Candidate]) -> dict[str, list[Any]]:
    """Return the column of a table that names estimators, if there are several."""
    learners = [candidate.learner for candidate in candidates]
    return {"estimator": learners} if any(learners) else {}


def _priced_errors(evaluation: Evaluation, costs: Costs) -> list[float]:
    """Return what errors cost a row, those of reviews too, if they have prices by class.

    It is then an objective, because accuracy counts all errors alike.
    """
    if not costs.errors:
        return []
    errs = 0.0 if costs.review is None else 1 - costs.review.accuracy
    missed, rejected = evaluation.missed, evaluation.rejected
    paid = 0.0
    for label, rows in evaluation.class_rows.items():
        paid += costs.errors.get(label, 0.0) * rows * (missed[label] + errs * rejected[label])
    return [paid / evaluation.rows]


def _moocore() -> Any:
    """Import moocore when a front is made: it takes as long to load as emsco itself."""
    import moocore

    return moocore
