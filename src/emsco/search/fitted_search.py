"""The result of a search, frozen, and the choice of one candidate from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from emsco.cascade import CascadeClassifier, Decider, Guard
from emsco.cascade.stage_plan import fit_stages, make_decider
from emsco.core.costs import Costs
from emsco.core.design import StageDesign
from emsco.core.front import Candidate, ParetoFront
from emsco.core.selection import check_names
from emsco.exceptions import Code, Message, SearchError, SelectionError
from emsco.learners import first_learner
from emsco.learners.protocol import Fold, Stages
from emsco.learners.training import FittedStages, Training
from emsco.rows.fitted_rows import FittedRows
from emsco.rows.rows import Layout
from emsco.search._problem import Problem, Search
from emsco.search._problem_spec import ProblemSpec, compared, right_by_all_sources
from emsco.search._stakes import Stakes
from emsco.search._thresholds import AUTO, thresholds_by_stage
from emsco.search.default_rule import AllSources, Selection, select_as_asked

STAGES = "stages"  # the value of `refit` for separate fits


@dataclass(frozen=True)
class LearnerStages:
    """The stages of one learner."""

    stages: Stages  # to fit; those of a file are fitted already
    evaluated: Training | FittedStages | None  # the same for the evaluated stages, with one split


@dataclass(frozen=True)
class FittedSearch:
    """The result of a search; all of its figures are about the same classifiers."""

    front: ParetoFront
    reference: AllSources  # all sources bought at once, on the same rows and folds
    all_sources: Candidate  # the reference as a candidate that answers every row
    learners: Mapping[str, LearnerStages]  # by the name that candidates have; at least one
    layout: Layout
    rows: FittedRows  # that were searched and fitted on
    n_splits: int
    n_rows: int  # that the figures of the front are about
    strategy: Search
    history: list[dict[str, Any]]
    final: Any = None  # the last stage, if it is an existing model
    spec: ProblemSpec | None = None  # None if loaded from a file, which has no rows
    before: FittedSearch | None = None  # with one model for all sets, if stages were fitted anew
    searched: Training | None = None  # the rows that were searched, of a larger data set
    made: dict[str, Any] = field(default_factory=dict)  # what is only computed if it is needed

    @property
    def costs(self) -> Costs:
        """The prices."""
        return self.front.costs

    @property
    def stages(self) -> Stages:
        """The stages of the first learner; all have the same rows and labels."""
        return next(iter(self.learners.values())).stages

    @property
    def classes(self) -> NDArray[Any]:
        """The labels."""
        return self.stages.classes

    @property
    def is_evaluated(self) -> bool:
        """Whether the evaluated stages are known, as with one split."""
        return all(each.evaluated is not None for each in self.learners.values())

    def fitted_on(self, refit: bool | str, learner: str = "") -> Stages:
        """Return what a learner's stages are fitted on: all rows, or those evaluated."""
        own = self.learners[learner]
        return own.stages if refit or own.evaluated is None else own.evaluated

    def by_learner(self) -> dict[str, Stages]:
        """Return the stages of every learner."""
        return {name: each.stages for name, each in self.learners.items()}

    def holding(self, candidate: Any) -> FittedSearch:
        """Return the result that a candidate is from: this one, or the one before separate fits."""
        is_here = isinstance(candidate, Candidate) and candidate in self.front
        return self if is_here or self.before is None else self.before

    def cascade(
        self, candidate: Candidate, refit: bool | str, guard: Guard | None
    ) -> CascadeClassifier:
        """Build the cascade of a candidate."""
        stages = self.fitted_on(refit, candidate.learner)
        decider = make_decider(
            stages,
            self.layout,
            candidate.design,
            self.costs,
            candidate.threshold,
            guard=guard,
            final=self.final,
        )
        return CascadeClassifier.of(
            decider,
            self._rows_of(decider, stages),
            estimator=stages.learner.estimator,
            threshold=candidate.threshold,
            guard=guard,
        )

    def fit_stages(self, refit: bool | str) -> None:
        """Fit every stage of every candidate, so that cascades can be built without rows."""
        for name in self.learners:
            own = [c.design for c in (*self.front, self.all_sources) if c.learner == name]
            stages = self.fitted_on(refit, name)
            fit_stages(stages, dict.fromkeys(own), self.costs, final=self.final is not None)

    def _rows_of(self, decider: Decider, stages: Stages) -> FittedRows:
        """Return the fitted rows, hashed over the columns of a cascade if the rows are known."""
        known = self.stages if self.searched is None else self.searched
        if isinstance(stages, FittedStages) or not isinstance(known, Training):
            return self.rows
        # Hashes are of columns as X had them, because those of fresh rows are, too.
        columns = known.columns if known.raw is None else known.raw
        return self.rows.using(columns, tuple(decider.readers))

    def front_of(self, design: StageDesign, learner: str = "") -> list[Candidate]:
        """Return the non-dominated thresholds of one design, one per stage, on the same folds.

        These are more than the front has of it, where other designs are better. A file has no rows
        to evaluate them on: then they are those of the front.
        """
        stages = self.learners[learner].stages
        if self.spec is None or not isinstance(stages, Training):
            return [c for c in self.front if (c.design, c.learner) == (design, learner)]
        place = f"front of {learner} {design.assignment.tolist()}"
        if place not in self.made:
            problem = replace(self.spec, threshold=AUTO).problem(stages)
            found = _thresholds_anew(problem, design, by_stage=True)
            self.made[place] = [replace(candidate, learner=learner) for candidate in found]
        candidates: list[Candidate] = self.made[place]
        return candidates

    def separate(self, design: StageDesign, *, by_stage: bool) -> FittedSearch:
        """Evaluate a design with separately fitted stages, on the same folds."""
        if self.spec is None or not isinstance(self.stages, Training):
            raise SearchError("Training rows are not in files: fit the search again.")
        stages = self.stages.by(self.stages.learner.separate())
        problem = self.spec.problem(stages)
        found = _thresholds_anew(problem, design, by_stage=by_stage)
        front = problem.front(compared(problem, found, right_by_all_sources(problem)))
        if not len(front):
            raise SelectionError(
                "Fitted each by itself, the chosen stages accept no row as is asked for; choose "
                "another candidate, or keep the one model: refit=True."
            )
        note = self.front.measured_on + " Its stages are fitted each by itself."
        reference = AllSources.of(problem)
        return replace(
            self,
            front=ParetoFront(
                front, self.costs, note, luck=self.front.luck, repeats=self.front.repeats
            ),
            reference=reference,
            all_sources=reference.answering(),
            learners={"": LearnerStages(stages, evaluated_on(stages, self.spec.folds))},
            before=self,
            made={},
        )


@dataclass(frozen=True)
class Choice:
    """The chosen candidate, and its cascade if one was fitted."""

    candidate: Candidate
    cascade: CascadeClassifier | None = None  # None until one is fitted
    decider: Decider | None = None  # of that cascade as built; users may fit the cascade again
    is_refitted: bool = True  # on all rows; otherwise it is the cascade that was evaluated
    rule: str = ""  # a sentence
    bounds: Mapping[str, Any] = field(default_factory=dict)  # as keywords of `ParetoFront.select`
    is_default: bool = False  # whether it was made by the default rule, which has no bounds


def part_of_result(name: str, meaning: str) -> Any:
    """Make a property of an estimator that is a part of `found_`, which it has only once fitted."""

    def get(search: Any) -> Any:
        if "found_" not in search.__dict__:
            raise AttributeError("This attribute is available only after fit; call fit first.")
        return getattr(search.found_, name)

    return property(get, doc=meaning)


def check_chosen(search: Any) -> None:
    """Refuse a search without a choice."""
    check_is_fitted(search, "front_")
    if not hasattr(search, "best_candidate_"):
        raise NotFittedError("No candidate of the front was chosen yet; call choose(...).")


def chosen_cascade(search: Any, X: Any = None) -> CascadeClassifier:
    """Return the chosen cascade; X, if given, must have the columns that `fit` saw."""
    check_chosen(search)
    if not hasattr(search, "best_cascade_"):
        raise NotFittedError(
            f"refit=False with {search.n_splits_} folds leaves no cascade to decide with; "
            "call choose(refit=True)."
        )
    if X is not None:
        search.found_.layout.check(search, X)
    cascade: CascadeClassifier = search.best_cascade_
    return cascade


def choose_again(
    search: Any, candidate: Candidate | None, refit: bool | str | None, bounds: Mapping[str, Any]
) -> tuple[FittedSearch, Choice]:
    """Choose a candidate of a fitted search: this one, by bounds, or by the rule of the search."""
    check_is_fitted(search, "front_")
    if candidate is not None and bounds:
        raise SelectionError("Give either a candidate or bounds, not both.")
    check_names(bounds)
    refit = search.refit if refit is None else refit
    check_refit(refit, search.estimator)
    select: Any = bounds if candidate is None else candidate
    if candidate is None and not bounds.keys() - {"caution"}:
        rule = search.select
        select = {**rule, **bounds} if isinstance(rule, Mapping) else bounds or rule
    return choose(search, search.found_, select, refit)


def choose(
    search: Any, found: FittedSearch, select: Any, refit: bool | str
) -> tuple[FittedSearch, Choice]:
    """Choose a candidate and build its cascade; separate fits of its stages are another result."""
    found = found.holding(select)
    limits = {"max_missed": search.max_missed or {}, "max_rejected": search.max_rejected or {}}

    def selected(among: FittedSearch) -> Selection:
        return select_as_asked(
            select,
            among.front,
            among.all_sources,
            among.n_rows,
            limits,
            agreement=not search.needs_labels,
        )

    selection = selected(found)
    candidate = selection.candidate
    if refit == STAGES and found.stages.learner.is_one_model:
        found = found.separate(candidate.design, by_stage=search.threshold == AUTO)
        if isinstance(select, Candidate):
            candidate = _most_alike(found.front, select)
        else:
            selection = selected(found)
            candidate = selection.candidate
    bounds = selection.bounds
    if isinstance(select, Mapping) and not bounds:
        bounds = dict(select)  # the caution of the default choice
    cascade = None
    if refit or found.is_evaluated:
        cascade = found.cascade(candidate, refit, search.guard)
    return found, Choice(
        candidate,
        cascade,
        None if cascade is None else cascade.decider_,
        is_refitted=bool(refit) or not found.is_evaluated,
        rule=selection.rule,
        bounds=bounds,
        is_default=selection.is_default,
    )


def check_refit(refit: bool | str, estimator: Any) -> None:
    """Refuse refit="stages" if the stages are fitted separately anyway, or by several learners."""
    one = not isinstance(estimator, Mapping) and first_learner(estimator).is_one_model
    if refit == STAGES and not one:
        raise SearchError(
            f"refit={STAGES!r} is for a MaskedClassifier; stages of other estimators are "
            "fitted each by itself in any case: refit=True."
        )


def evaluated_on(stages: Training, folds: list[Fold]) -> Training | None:
    """Return the rows that the evaluated stages were fitted on, if there is one split."""
    return stages.take(folds[0].train) if len(folds) == 1 else None


def _thresholds_anew(problem: Problem, design: StageDesign, *, by_stage: bool) -> ParetoFront:
    """Evaluate one design at every alternative threshold; with `by_stage`, also per stage.

    `problem` has the table of the separately fitted classifiers.
    """
    each = np.arange(problem.n_thresholds)
    assignments = np.tile(np.array(design.assignment, dtype=np.int8), (len(each), 1))
    which = np.repeat(each[:, None], problem.max_stages, axis=1)
    feasible = problem.evaluate(assignments, which).feasible
    front = problem.front(problem.candidates(assignments[feasible], which[feasible]))
    # The generator only affects the order, and all of so few candidates are evaluated.
    return thresholds_by_stage(problem, front, np.random.default_rng(0)) if by_stage else front


def _most_alike(front: ParetoFront, candidate: Candidate) -> Candidate:
    """Return the most accurate candidate with at least this coverage, or the most covering one."""
    least = candidate.evaluation.coverage
    enough = [c for c in front if c.evaluation.coverage >= least]
    if enough:
        return max(enough, key=lambda c: (c.evaluation.accuracy, -c.evaluation.cost))
    return max(front, key=lambda c: (c.evaluation.coverage, c.evaluation.accuracy))


def measured_on(
    n_rows: int, n_splits: int, needs_labels: bool, stakes: Stakes | None = None, column: str = ""
) -> str:
    """Describe the rows that figures were measured on, what counts as right, and the stakes."""
    how = "one split" if n_splits == 1 else f"{n_splits} folds"
    fresh = Code("score_front(X, y)" if needs_labels else "score_front(X)")
    right = "" if needs_labels else " An answer is right if the final model gives the same one."
    if stakes is not None:
        fresh = Code("score_front(X, y, stake=stake)")
        of = f" ({column})" if column else ""
        right += f" Shares are of the stake{of}, {stakes.in_words()}; cost is per row."
    return Message(
        f"Selected on {n_rows:,} held-out rows ({how})",
        ", so these figures are optimistic; use ",
        fresh,
        " to compare them with fresh rows.",
        right,
    )
