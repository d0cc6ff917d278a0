"""The result of a search, frozen: the front, the reference, and the stages behind them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco._utils.progress import followed
from emsco.cascade import CascadeClassifier, Decider, Guard
from emsco.cascade.decider import fit_stages, make_decider
from emsco.core.costs import Costs
from emsco.core.design import StageDesign
from emsco.core.evaluation import Evaluation, evaluate_known
from emsco.core.front import Candidate, ParetoFront
from emsco.exceptions import ClassesError, Code, Message, SearchError, SelectionError
from emsco.learners.final_stage import predict_labels
from emsco.learners.folds import Fold
from emsco.learners.protocol import Stages
from emsco.learners.stage_reader import FittedStages
from emsco.learners.training import Training
from emsco.rows.fitted_rows import FittedRows
from emsco.rows.rows import Layout
from emsco.search._outcome_folds import compared, evaluate_afresh
from emsco.search._problem import Search, SearchResult
from emsco.search._problem_spec import ProblemSpec, SearchInput
from emsco.search._refit_stages import thresholds_anew
from emsco.search.default_rule import AllSources


@dataclass(frozen=True)
class FittedSearch:
    """The result of a search; all of its figures are about the same classifiers.

    Parameters
    ----------
    front : ParetoFront
        The non-dominated candidates.
    reference : AllSources
        All sources bought at once, on the same rows and folds.
    all_sources : Candidate
        The reference as a candidate that answers every row.
    stages : Stages
        What stages are fitted on: `Training`, or `BlockTraining` for a data set; the fitted stages
        if the search was loaded from a file.
    evaluated : Training, FittedStages or None
        With one split, what the evaluated stages were fitted on.
    layout : Layout
        How X is laid out.
    rows : FittedRows
        The rows that were searched and fitted on.
    n_splits, n_rows : int
        The number of folds, and of the rows that the figures of the front are about.
    strategy : Search
        The search that was run.
    history : list of dict
        The progress of the search.
    final : model or None
        The last stage, if it is an existing model.
    posing : ProblemSpec or None, default=None
        What defined the problem; None if loaded from a file, which keeps no rows.
    before : FittedSearch or None, default=None
        The result with one model for all sets, if these stages were fitted separately.
    searched : Training or None, default=None
        The rows that were searched, if they are a sample of a data set.
    """

    front: ParetoFront
    reference: AllSources
    all_sources: Candidate
    stages: Stages
    evaluated: Training | FittedStages | None
    layout: Layout
    rows: FittedRows
    n_splits: int
    n_rows: int
    strategy: Search
    history: list[dict[str, Any]]
    final: Any = None
    posing: ProblemSpec | None = None
    before: FittedSearch | None = None
    searched: Training | None = None

    @classmethod
    def of(
        cls,
        result: SearchResult,
        reference: AllSources,
        data: SearchInput,
        posing: ProblemSpec,
        strategy: Search,
        final: Any,
        luck: float | None,
    ) -> FittedSearch:
        """Combine the result of a search with what the search was given."""
        folds = posing.folds
        tested = np.concatenate([fold.test for fold in folds])
        n_rows = len(np.unique(tested))
        note = measured_on(n_rows, len(folds), posing.needs_labels)
        repeats = len(tested) / n_rows
        return cls(
            front=ParetoFront(result.front, posing.costs, note, luck=luck, repeats=repeats),
            reference=reference,
            all_sources=reference.answering(),
            stages=data.training if data.all_rows is None else data.all_rows,
            searched=None if data.all_rows is None else data.training,
            evaluated=evaluated_on(data.training, folds),
            layout=data.layout,
            rows=FittedRows.of(
                data.rows,
                _used_by(result.front, posing.costs, data.training.names),
                data.groups,
            ),
            n_splits=len(folds),
            n_rows=n_rows,
            strategy=strategy,
            history=result.history,
            final=final,
            posing=posing,
        )

    @property
    def costs(self) -> Costs:
        """The prices."""
        return self.front.costs

    @property
    def classes(self) -> NDArray[Any]:
        """The labels."""
        return self.stages.classes

    def fitted_on(self, refit: bool | str) -> Stages:
        """Return what stages are fitted on: all rows, or those of the evaluated stages."""
        return self.stages if refit or self.evaluated is None else self.evaluated

    def holding(self, candidate: Any) -> FittedSearch:
        """Return the result that a candidate is from: this one, or the one before separate fits."""
        is_here = isinstance(candidate, Candidate) and candidate in self.front
        return self if is_here or self.before is None else self.before

    def cascade(
        self, candidate: Candidate, refit: bool | str, guard: Guard | None
    ) -> CascadeClassifier:
        """Build the cascade of a candidate."""
        stages = self.fitted_on(refit)
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
        designs = dict.fromkeys(c.design for c in (*self.front, self.all_sources))
        fit_stages(self.fitted_on(refit), designs, self.costs, final=self.final is not None)

    def _rows_of(self, decider: Decider, stages: Stages) -> FittedRows:
        """Return the fitted rows, hashed over the columns of a cascade if the rows are known."""
        known = self.stages if self.searched is None else self.searched
        if isinstance(stages, FittedStages) or not isinstance(known, Training):
            return self.rows
        return self.rows.using(known.columns, tuple(decider.readers))

    def separate(self, design: StageDesign, *, by_stage: bool) -> FittedSearch:
        """Evaluate a design with separately fitted stages, on the same folds."""
        if self.posing is None or not isinstance(self.stages, Training):
            raise SearchError("Training rows are not in files: fit the search again.")
        stages = self.stages.by(self.stages.learner.separate())
        problem = self.posing.problem(stages)
        front = compared(problem, thresholds_anew(problem, design, by_stage=by_stage))
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
            stages=stages,
            evaluated=evaluated_on(stages, self.posing.folds),
            before=self,
        )

    def score(
        self, owner: Any, X: Any, truth: NDArray[Any], refit: bool | str, guard: Guard | None
    ) -> list[Evaluation]:
        """Evaluate the front on other rows, as its cascades would decide them.

        `owner` is the estimator that X is checked for.
        """
        stages = self.fitted_on(refit)
        if guard is not None or not isinstance(stages, Training) or self.posing is None:
            # A guard needs rows, not bits; a file has no rows to fit other stages on; and stages of
            # a data set are fitted to more rows than are in memory.
            if self.searched is not None:
                self.fit_stages(refit)  # all of them in the same passes
            front = followed(self.front, "decide fresh rows by every candidate")
            cascades = (self.cascade(candidate, refit, guard) for candidate in front)
            return [evaluate_known(cascade.decide(X), truth) for cascade in cascades]
        rows = self.layout.read(owner, X, self.layout.used, by_name=True)
        check_lengths(len(rows), len(truth))
        for name in self.layout.used:
            self.stages.reader(name).refuse_unjudged(rows.columns[name], name)
        answers = None if self.final is None else predict_labels(self.final, X, len(rows))
        posing = self.posing
        return evaluate_afresh(
            self.front, stages, rows.columns, truth, answers, posing.engine, posing.n_jobs
        )


@dataclass(frozen=True)
class Choice:
    """The chosen candidate, and its cascade if one was fitted.

    Parameters
    ----------
    candidate : Candidate
        The chosen candidate.
    cascade : CascadeClassifier or None
        Its cascade; None until one is fitted.
    decider : Decider or None
        The decider of that cascade when it was built; the user may fit the cascade again.
    is_refitted : bool
        Whether it was fitted on all rows; otherwise it is the one that was evaluated.
    rule : str
        The rule by which it was chosen, as a sentence.
    bounds : mapping
        The bounds by which it was chosen, as keywords of `ParetoFront.select`; none by default.
    """

    candidate: Candidate
    cascade: CascadeClassifier | None = None
    decider: Decider | None = None
    is_refitted: bool = True
    rule: str = ""
    bounds: Mapping[str, Any] = field(default_factory=dict)


def check_lengths(n_rows: int, n_labels: int) -> None:
    """Refuse labels that are more or fewer than the rows."""
    if n_rows != n_labels:
        raise ClassesError(f"X has {n_rows} rows but `y` has {n_labels}.")


def evaluated_on(stages: Training, folds: list[Fold]) -> Training | None:
    """Return the rows that the evaluated stages were fitted on, if there is one split."""
    return stages.take(folds[0].train) if len(folds) == 1 else None


def _used_by(front: Iterable[Candidate], costs: Costs, names: list[str]) -> list[str]:
    """List the columns that some candidate uses."""
    sources = {s for c in front for s in c.design.acquired(c.design.n_stages - 1)}
    used = {column for source in sources for column in costs.columns(source)}
    return [name for name in names if name in used] or names


def measured_on(n_rows: int, n_splits: int, needs_labels: bool) -> str:
    """Describe the rows that figures were measured on, and what counts as right."""
    how = "one split" if n_splits == 1 else f"{n_splits} folds"
    fresh = Code("score_front(X, y)" if needs_labels else "score_front(X)")
    right = "" if needs_labels else " An answer is right if the final model gives the same one."
    return Message(
        f"Selected on {n_rows:,} held-out rows ({how})",
        ", so these figures are optimistic; use ",
        fresh,
        " to compare them with fresh rows.",
        right,
    )
