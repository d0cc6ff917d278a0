"""What a search found, frozen: the front, what it is held against, and the stages behind it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco._ground.progress import followed
from emsco.cascade import CascadeClassifier, Decider, Guard
from emsco.cascade.decider import fit_stages, make_decider
from emsco.exceptions import ClassesError, SearchError, SelectionError
from emsco.learners.folds import Fold
from emsco.learners.protocol import Stages
from emsco.learners.stages import FittedStages
from emsco.learners.training import Training
from emsco.rows.known import FittedRows
from emsco.rows.rows import Layout
from emsco.search._posing import Given, Posing
from emsco.search._problem import Search, SearchResult
from emsco.search._separate import thresholds_anew
from emsco.search._summary import measured_on
from emsco.search._tables import compared, evaluate_afresh
from emsco.search.choice import AllSources
from emsco.words.costs import Costs
from emsco.words.design import StageDesign
from emsco.words.evaluation import Evaluation, evaluate
from emsco.words.front import Candidate, ParetoFront


@dataclass(frozen=True)
class Found:
    """What a search found: all of it of the same classifiers.

    Parameters
    ----------
    front : ParetoFront
        The candidates that no other beats.
    reference : AllSources
        All sources bought at once, on the same rows and folds.
    all_sources : Candidate
        That, answering every row.
    stages : Stages
        What stages are fitted on: `Training`, or `BlockTraining` where that is a data set; after a
        file, those that were fitted.
    evaluated : Training, FittedStages or None
        Where there was one split, what the stages that were evaluated were fitted on.
    layout : Layout
        How X is laid out.
    rows : FittedRows
        Which rows were searched and fitted on.
    n_splits, n_rows : int
        How many folds there were, and how many rows the figures of the front are of.
    strategy : Search
        The search that was run.
    history : list of dict
        How it went.
    final : model or None
        The last stage, where it is a model that was there already.
    posing : Posing or None, default=None
        How the problem was posed; None after a file, which keeps no rows.
    before : Found or None, default=None
        What was found by one model for all sets, where these stages are fitted each by itself.
    searched : Training or None, default=None
        The rows that were searched on, where they are a sample of a data set.
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
    posing: Posing | None = None
    before: Found | None = None
    searched: Training | None = None

    @classmethod
    def of(
        cls,
        result: SearchResult,
        reference: AllSources,
        given: Given,
        posing: Posing,
        strategy: Search,
        final: Any,
        luck: float | None,
    ) -> Found:
        """Put together what a search gave and what it was given."""
        folds = posing.folds
        tested = np.concatenate([fold.test for fold in folds])
        n_rows = len(np.unique(tested))
        told = measured_on(n_rows, len(folds), needs_labels=posing.needs_labels)
        repeats = len(tested) / n_rows
        return cls(
            front=ParetoFront(result.front, posing.costs, told, luck=luck, repeats=repeats),
            reference=reference,
            all_sources=reference.answering(),
            stages=given.training if given.all_rows is None else given.all_rows,
            searched=None if given.all_rows is None else given.training,
            evaluated=evaluated_on(given.training, folds),
            layout=given.layout,
            rows=FittedRows.of(
                given.rows, _used_by(result.front, posing.costs, given.training.names)
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
        """Give what stages are fitted on: all rows, or those that the evaluated ones had."""
        return self.stages if refit or self.evaluated is None else self.evaluated

    def holding(self, candidate: Any) -> Found:
        """Give what a candidate is of: this, or what was found before stages were separated."""
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
        """Fit every stage of every candidate, so that their cascades can be made without rows."""
        designs = dict.fromkeys(c.design for c in (*self.front, self.all_sources))
        fit_stages(self.fitted_on(refit), designs, self.costs, final=self.final is not None)

    def _rows_of(self, decider: Decider, stages: Stages) -> FittedRows:
        """Tell rows by the columns that a cascade uses; a file has no rows to tell anew."""
        known = self.stages if self.searched is None else self.searched
        if isinstance(stages, FittedStages) or not isinstance(known, Training):
            return self.rows
        return self.rows.using(known.columns, tuple(decider.readers))

    def separate(self, design: StageDesign, *, by_stage: bool) -> Found:
        """Evaluate a design whose stages are fitted each by itself, on the same folds."""
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
        told = f"{self.front.measured_on} Its stages are fitted each by itself."
        reference = AllSources.of(problem)
        return replace(
            self,
            front=ParetoFront(
                front, self.costs, told, luck=self.front.luck, repeats=self.front.repeats
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
            # A guard sees rows, not bits; a file has stages, but no rows to fit others on. Stages
            # of a data set are fitted to more rows than there are in memory.
            if self.searched is not None:
                self.fit_stages(refit)  # all of them in the same passes
            front = followed(self.front, "decide fresh rows by every candidate")
            cascades = (self.cascade(candidate, refit, guard) for candidate in front)
            return [evaluate(cascade.decide(X), truth) for cascade in cascades]
        rows = self.layout.read(owner, X, self.layout.used, by_name=True)
        if len(rows) != len(truth):
            raise ClassesError(f"X has {len(rows)} rows but `y` has {len(truth)}.")
        for name in self.layout.used:
            self.stages.reader(name).refuse_unjudged(rows.columns[name], name)
        answers = None if self.final is None else np.asarray(self.final.predict(X))
        posing = self.posing
        return evaluate_afresh(
            self.front, stages, rows.columns, truth, answers, posing.engine, posing.n_jobs
        )


@dataclass(frozen=True)
class Choice:
    """One candidate chosen, and the cascade of it, where one was fitted.

    Parameters
    ----------
    candidate : Candidate
        The one chosen.
    cascade : CascadeClassifier or None
        Its cascade; None until one is fitted.
    decider : Decider or None
        What that cascade decided by when it was made: a user may fit it anew.
    is_refitted : bool
        Whether it was fitted on all rows; else it is the very one that was evaluated.
    rule : str
        By which rule it was chosen, in a sentence.
    asked : mapping
        The bounds that it was chosen by, as `ParetoFront.select` takes them; none by default.
    """

    candidate: Candidate
    cascade: CascadeClassifier | None = None
    decider: Decider | None = None
    is_refitted: bool = True
    rule: str = ""
    asked: Mapping[str, Any] = field(default_factory=dict)


def evaluated_on(stages: Training, folds: list[Fold]) -> Training | None:
    """Give the rows that the evaluated stages were fitted on, where there is one split."""
    return stages.take(folds[0].train) if len(folds) == 1 else None


def _used_by(front: Iterable[Candidate], costs: Costs, names: list[str]) -> list[str]:
    """Name the columns that some candidate uses."""
    sources = {s for c in front for s in c.design.acquired(c.design.n_stages - 1)}
    used = {column for source in sources for column in costs.columns(source)}
    return [name for name in names if name in used] or names
