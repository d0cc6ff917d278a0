"""Candidates of a search by group of rows: counts of the whole front, and decisions of one.

The rows are those that the front was evaluated on. Their bits are not kept after a search, so the
source sets of the front are fitted again when groups are first asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco.core.breakdown import Breakdown, break_down
from emsco.core.decisions import Decisions
from emsco.core.evaluation import Evaluation
from emsco.core.front import Candidate
from emsco.core.group_labels import GroupLabels, read_group_labels
from emsco.core.selection import Figures
from emsco.core.threshold import resolve
from emsco.exceptions import SearchError
from emsco.learners.protocol import Stages
from emsco.learners.training import Training
from emsco.search._problem import Problem
from emsco.search._problem_spec import ProblemSpec, evaluate_parts


def groups_searched(by: Any, spec: ProblemSpec, stages: Stages) -> GroupLabels:
    """Read the groups of the rows given to `fit`, and return those of the evaluation rows."""
    groups = read_group_labels(by, len(_in_memory(stages).labels), "rows given to `fit`")
    return groups.take(_tested(spec))


def spec_of_rows(spec: ProblemSpec | None, stages: Stages) -> ProblemSpec:
    """Return what defines the problem; refuse a search that does not have its rows."""
    if spec is None or not isinstance(stages, Training):
        why = "a file has no rows" if spec is None else "of a data set, only a sample was searched"
        raise SearchError(
            f"`by` needs the rows that were searched, and {why}; fit on rows in memory, or give "
            "fresh rows: summary(X, y, by=...).",
            parameter="by",
        )
    return spec


def _in_memory(stages: Stages) -> Training:
    assert isinstance(stages, Training)  # others are refused by `spec_of_rows`
    return stages


def _tested(spec: ProblemSpec) -> NDArray[np.intp]:
    """Return the evaluation rows, in the order of the table of outcomes."""
    return np.concatenate([fold.test for fold in spec.folds])


def figures_by_group(
    candidates: Sequence[Candidate],
    spec: ProblemSpec,
    stages: Mapping[str, Stages],
    groups: GroupLabels,
    made: dict[str, Any],
) -> dict[Any, Figures]:
    """Count candidates within each group; `stages` are those of each learner.

    `made` keeps what was fitted, so that other groups need no fit.
    """
    counted: dict[Any, dict[int, Evaluation]] = {name: {} for name in groups.names}
    for learner, own_stages in stages.items():
        own = {place: c for place, c in enumerate(candidates) if c.learner == learner}
        if not own:
            continue
        known = f"table of the front of {learner}"
        if known not in made:
            thresholds = [
                one
                for c in own.values()
                for one in (c.threshold if isinstance(c.threshold, tuple) else (c.threshold,))
            ]
            made[known] = replace(spec, threshold=list(dict.fromkeys(thresholds))).problem(
                _in_memory(own_stages)
            )
            made[known].table.memory = 0  # of what is fitted, only bits are needed
        problem: Problem = made[known]
        evaluated = evaluate_parts(problem, own.values(), groups.masks())
        for name, evaluations in zip(groups.names, evaluated, strict=True):
            counted[name] |= zip(own, evaluations, strict=True)
    every = range(len(candidates))
    return {name: Figures([own[place] for place in every]) for name, own in counted.items()}


def breakdown_of(
    candidate: Candidate,
    spec: ProblemSpec,
    stages: Stages,
    groups: GroupLabels,
    repeats: float,
) -> Breakdown:
    """Evaluate one candidate in each group of the evaluation rows."""
    training = _in_memory(stages)
    truth = training.labels[_tested(spec)]
    return break_down(_decisions(candidate, spec, training), truth, groups, repeats=repeats)


def _decisions(candidate: Candidate, spec: ProblemSpec, training: Training) -> Decisions:
    """Decide the evaluation rows, each by stages that were not fitted on it."""
    design, costs = candidate.design, spec.costs
    problem = spec.problem(training)
    sets, _ = problem.chains(np.array(design.assignment, dtype=np.int8)[None])
    confidence, code = problem.table.outcomes(sets)
    least = resolve(candidate.threshold, training.classes.tolist(), design.n_stages)
    reached = np.stack([c >= t[k] for c, t, k in zip(confidence, least, code, strict=True)])
    accepted, last = reached.any(axis=0), design.n_stages - 1
    stage = np.where(accepted, reached.argmax(axis=0), last)
    paid = [costs.of(design.acquired(i)) for i in range(design.n_stages)]
    waited = np.cumsum([costs.latency_of(sources) for sources in design.stages])
    row = np.arange(len(stage))
    return Decisions(
        label=training.classes[code[stage, row]],
        accepted=accepted,
        exit_stage=stage,
        confidence=confidence[stage, row],
        cost=np.array(paid)[stage],
        latency=waited[stage],
    )
