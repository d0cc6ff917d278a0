"""The run of a search: pose the problem of every learner, find its front, and merge the fronts.

Every learner judges the same rows and folds, so that its candidates can be compared with those of
others. The first learner is searched as if it were alone. Where fits are made one by one, the later
ones start from the designs that were good with the first, and fit few source sets.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco._utils.progress import watching
from emsco.core.costs import Costs
from emsco.core.expense import expense_of
from emsco.core.front import Candidate, ParetoFront
from emsco.learners import estimators_of, learner_of
from emsco.learners.label_weights import fitted_to
from emsco.learners.training import Training
from emsco.rows.fitted_rows import FittedRows
from emsco.search._expected_work import expected_seconds, workload_of
from emsco.search._least_loss import with_least_loss
from emsco.search._luck import measure_luck, parts_of
from emsco.search._problem import Problem, Search, SearchResult
from emsco.search._problem_spec import ProblemSpec, compared, right_by_all_sources
from emsco.search._progress import Progress
from emsco.search._sampling import fewer_fits, fewer_rows, warn_sampled
from emsco.search._search_warnings import warn_overconfident, warn_slow
from emsco.search._steps import SearchInput
from emsco.search._thresholds import AUTO, thresholds_by_stage
from emsco.search.checkpoint import Checkpoint, describe_run
from emsco.search.default_rule import AllSources
from emsco.search.fitted_search import FittedSearch, LearnerStages, evaluated_on, measured_on
from emsco.search.strategies.exhaustive import Exhaustive, count_sets
from emsco.search.strategies.hybrid import ONE_BY_ONE, default_search

GUIDED_FITS = 128  # source sets of a later learner; twice as many reach the same hypervolume


class _Posed(NamedTuple):
    """The problem of one learner, and how it is searched."""

    name: str
    training: Training
    spec: ProblemSpec
    problem: Problem
    strategy: Search


class _Searched(NamedTuple):
    """What was found with one learner."""

    posed: _Posed
    front: ParetoFront
    history: list[dict[str, Any]]
    luck: float | None
    reference: AllSources
    right: NDArray[np.bool_]  # the rows that all sources get right


def pose(search: Any, data: SearchInput) -> ProblemSpec:
    """Collect everything that defines the problem, except what fits."""
    return ProblemSpec(
        costs=data.costs,
        folds=data.folds,
        answers=data.answers,
        threshold=search.threshold,
        max_stages=search.max_stages,
        allow_unused=search.allow_unused,
        max_missed=dict(search.max_missed or {}),
        max_rejected=dict(search.max_rejected or {}),
        needs_labels=search.needs_labels,
        engine=search.engine,
        n_jobs=search.n_jobs,
        stake=data.stake,
    )


def run_search(
    search: Any,
    data: SearchInput,
    spec: ProblemSpec,
    seeds: Any,
    checkpoint: Checkpoint | None,
    progress: Progress,
) -> FittedSearch:
    """Find the front of every learner, and compare all candidates with the best of all sources."""
    seed = seeds.randint(2**31)
    posed = _pose_all(search, data, spec, seed)
    spec = posed[0].spec  # the folds may have fewer rows now
    searched: list[_Searched] = []
    for place, one in enumerate(posed):
        if searched and search.search is None:
            one = _guided(one, searched[0].front)
        rng = np.random.default_rng([seed, place] if place else seed)
        own = checkpoint.of(one.name) if checkpoint is not None and place else checkpoint
        later = sum(_seconds(other) for other in posed[place + 1 :])
        searched.append(_search_one(search, data, one, rng, own, progress, later))
    best = min(searched, key=lambda one: _errors(one.reference, spec.costs))
    front = [
        candidate
        for one in searched
        for candidate in compared(one.posed.problem, one.front, best.right, one.posed.name)
    ]
    tested = np.concatenate([fold.test for fold in spec.folds])
    n_rows, n_splits = len(np.unique(tested)), len(spec.folds)
    lucks = [one.luck for one in searched if one.luck is not None]
    merged = ParetoFront(
        front,
        spec.costs,
        measured_on(
            n_rows,
            n_splits,
            spec.needs_labels,
            searched[0].posed.problem.table.stakes,
            data.stake_note,
        ),
        luck=max(lucks) if len(lucks) == len(searched) else None,
        repeats=len(tested) / n_rows,
    )
    used = _columns_used(merged, spec.costs, data.training.names)
    stages = {
        one.posed.name: LearnerStages(
            one.posed.training if data.all_rows is None else data.all_rows,
            evaluated_on(one.posed.training, spec.folds),
        )
        for one in searched
    }
    return FittedSearch(
        front=merged,
        reference=best.reference,
        all_sources=replace(best.reference.answering(), learner=best.posed.name),
        learners=stages,
        layout=data.layout,
        rows=FittedRows.of(data.rows, used, data.groups),
        n_splits=n_splits,
        n_rows=n_rows,
        strategy=posed[0].strategy,
        history=[entry for one in searched for entry in one.history],
        final=search.final,
        spec=spec,
        searched=None if data.all_rows is None else posed[0].training,
    )


def _pose_all(search: Any, data: SearchInput, spec: ProblemSpec, seed: int) -> list[_Posed]:
    """Pose the problem of every learner, all on the same rows: the fewest that one asks for."""
    posed: list[_Posed] = []
    for name, estimator in estimators_of(search.estimator, data.training.columns).items():
        training = data.training
        if posed:
            training = training.by(learner_of(estimator)).judged_by(training.rule)
        training = fitted_to(training, data.folds)
        sized = _size_up(search, training, spec, seed, is_first=not posed)
        if sized[0] is not spec:
            spec = sized[0]
            posed = [_posed_on(one, spec) for one in posed]
        posed.append(_Posed(name, training, *sized))
    return posed


def _size_up(
    search: Any, training: Training, spec: ProblemSpec, seed: int, *, is_first: bool = True
) -> tuple[ProblemSpec, Problem, Search]:
    """Pose the problem and choose the search; if it would take long, on a sample of the rows."""
    most_sets = ONE_BY_ONE if is_first else GUIDED_FITS
    problem = spec.problem(training)
    strategy = search.search or default_search(problem, most_sets)
    folds = None
    if search.max_rows is None:
        folds = fewer_rows(problem, strategy, training.labels, spec.folds, seed)
    if folds is None:
        warn_slow(problem, strategy)
        return spec, problem, strategy
    seconds = expected_seconds(problem, strategy) or 0.0
    before, spec = spec.folds, replace(spec, folds=folds)
    problem = spec.problem(training)
    if search.search is None:
        strategy = fewer_fits(problem, default_search(problem, most_sets))
    warn_sampled(before, folds, seconds, problem, strategy)
    return spec, problem, strategy


def _posed_on(one: _Posed, spec: ProblemSpec) -> _Posed:
    """Pose the problem of a learner again, on the folds of another."""
    return one._replace(spec=spec, problem=spec.problem(one.training))


def _guided(one: _Posed, front: ParetoFront) -> _Posed:
    """Let a search that fits source sets one by one start from designs of another front."""
    if one.problem.table.batched or not len(front):
        return one
    designs = np.unique(np.array([c.design.assignment for c in front], dtype=np.int8), axis=0)
    return one._replace(problem=replace(one.problem, starts=designs))


def _search_one(
    search: Any,
    data: SearchInput,
    posed: _Posed,
    rng: np.random.Generator,
    checkpoint: Checkpoint | None,
    progress: Progress,
    later: float,
) -> _Searched:
    """Find the front of one learner, and measure its luck."""
    training, spec, problem, strategy = posed[1:]
    by_stage = search.threshold == AUTO
    work = workload_of(problem, strategy, by_stage=by_stage, luck=search.luck)
    most = count_sets(problem) if work is None else int(work.n_sets)
    if work is not None:
        work = work._replace(later=later)
    progress.begin_fits(most, work, lambda: problem.table.seconds, learner=posed.name)
    problem.table.watch(progress.fitted)
    restored: Any = nullcontext(0)
    if checkpoint is not None:
        run = describe_run(training, data.answers, spec.folds, problem, strategy)
        restored = checkpoint.keeping(problem.table, run)
    with restored as n_sets:
        if n_sets:
            progress.goes_on(n_sets)
        found = _find_front(problem, strategy, rng, progress, by_stage)
        reference, right = AllSources.of(problem), right_by_all_sources(problem)
        warn_overconfident(training.learner, problem, is_weighted=not training.rule.is_equal)
    luck = None
    if search.luck:
        progress.phase("luck")
        walked = isinstance(strategy, Exhaustive)
        n_designs = None if walked else max(e.get("designs", 0) for e in [{}, *found.history])
        parts = parts_of(spec.folds, training.labels, data.split_groups)
        with watching(progress.advanced, alone=True):
            luck = measure_luck(problem, parts, n_designs, by_stage=by_stage)
    return _Searched(posed, found.front, found.history, luck, reference, right)


def _find_front(
    problem: Problem,
    strategy: Search,
    rng: np.random.Generator,
    progress: Progress,
    by_stage: bool,
) -> SearchResult:
    """Search designs; with `by_stage`, then a threshold for every stage; last, the least loss."""
    result = strategy.run(problem, rng, progress.searched)
    by_stage = by_stage and problem.max_stages > 1
    if not by_stage and not problem.costs.errors:
        return result
    progress.phase("thresholds")
    # If every design was evaluated, only thresholds are left to be found.
    walked = isinstance(strategy, Exhaustive)
    front = result.front
    with watching(progress.advanced, alone=True):
        if by_stage:
            front = thresholds_by_stage(problem, front, rng, designs=not walked)
        front = with_least_loss(problem, front, rng, by_stage=by_stage)
    hypervolume = front.hypervolume()
    progress.searched({"front": len(front), "hypervolume": hypervolume, "done": 1.0})
    return SearchResult(front, result.history)


def _seconds(posed: _Posed) -> float:
    """Estimate the fits of a learner that has not begun."""
    seconds = expected_seconds(posed.problem, posed.strategy) or 0.0
    return seconds / posed.problem.table.engine.n_workers


def _errors(reference: AllSources, costs: Costs) -> float:
    """Return what the errors of all sources are worth: their prices, or their number."""
    answering = reference.answering().evaluation
    if costs.errors:
        return expense_of(answering, costs.review, dict(costs.errors)).loss
    return float(answering.rows - answering.right)


def _columns_used(front: Iterable[Candidate], costs: Costs, names: list[str]) -> list[str]:
    """List the columns that some candidate uses."""
    sources = {s for c in front for s in c.design.acquired(c.design.n_stages - 1)}
    used = {column for source in sources for column in costs.columns(source)}
    return [name for name in names if name in used] or names
