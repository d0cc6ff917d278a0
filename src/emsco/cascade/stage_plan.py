"""Plan what each stage of a design buys and judges, and fit what is not fitted yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from emsco._utils.progress import followed
from emsco.cascade.decider import Decider
from emsco.cascade.decision_loop import Plan, Stage
from emsco.core.costs import Costs
from emsco.core.design import StageDesign
from emsco.core.threshold import Threshold, resolve
from emsco.exceptions import DesignError, quoted
from emsco.learners.final_model import FinalStage, logged
from emsco.learners.logistic import SelfEncodingStage
from emsco.learners.protocol import Judge, Stages
from emsco.rows.rows import Layout


def make_decider(
    stages: Stages,
    layout: Layout,
    design: StageDesign,
    costs: Costs,
    threshold: Threshold,
    *,
    guard: Any = None,
    final: Any = None,
) -> Decider:
    """Combine fitted stages into a decider: fit missing ones and plan what each stage buys."""
    design = design.align(costs)
    thresholds = resolve(threshold, stages.classes.tolist(), design.n_stages)
    thresholds.flags.writeable = False
    if final is not None and design.unused:
        raise DesignError(
            f"A final model needs every source, and the design leaves out {quoted(design.unused)}."
        )
    last = design.n_stages - 1
    acquired = [_features(design.acquired(i), costs, stages.names) for i in range(last + 1)]
    _fit_together(stages, acquired if final is None else acquired[:-1])
    readers = {name: stages.reader(name) for name in acquired[-1]}
    checked = [name for name, reader in readers.items() if not reader.is_long_text]
    fitted_guard = None if guard is None else stages.guarded(guard, checked)
    learned = getattr(fitted_guard, "learned_", {})
    for name, reader in readers.items():
        levels = getattr(learned.get(name), "values", ())
        if levels:
            readers[name] = replace(reader, levels=levels)
    latencies = np.cumsum([costs.latency_of(sources) for sources in design.stages])
    column = logged(final)
    answers = () if column is None else (column,)
    planned = tuple(
        Stage(
            sources=sources,
            features=_features(sources, costs, stages.names) + (answers if i == last else ()),
            judge=_judge(stages, acquired[i], i, final, is_last=i == last),
            # One threshold if all classes have the same, so that the loop need not look it up.
            threshold=needed[:1] if (needed == needed[0]).all() else needed,
            cost=costs.of(design.acquired(i)),
            latency=float(latencies[i]),
        )
        for i, (sources, needed) in enumerate(zip(design.stages, thresholds, strict=True))
    )
    return Decider(
        plan=Plan(planned, stages.classes, default=stages.most_frequent, rule=stages.rule),
        design=design,
        costs=costs,
        thresholds=thresholds,
        layout=layout,
        readers=readers,
        container=stages.container,
        block_rows=stages.learner.block_rows,
        guard=fitted_guard,
        final=final,
    )


def fit_stages(
    stages: Stages, designs: Iterable[StageDesign], costs: Costs, *, final: bool = False
) -> None:
    """Fit the stages of designs that are not fitted yet, each set of columns once.

    With a final model, the last stage of every design is that model and is not fitted.
    """
    sets = dict.fromkeys(
        _features(design.acquired(i), costs, stages.names)
        for design in designs
        for i in range(design.n_stages - final)
    )
    _fit_together(stages, sets)
    for features in followed([s for s in sets if s not in stages.fitted], "fit candidates"):
        stages.fit(features)


def _fit_together(stages: Stages, sets: Iterable[tuple[str, ...]]) -> None:
    """Fit several sets in the same passes over the rows, if they are a data set."""
    fit_many = getattr(stages, "fit_many", None)
    if fit_many is not None:
        fit_many(sets)


def _judge(
    stages: Stages, features: tuple[str, ...], number: int, final: Any, *, is_last: bool
) -> Judge:
    """Return what judges the rows of a stage; a final model, if any, is the last stage."""
    if final is not None and is_last:
        return FinalStage.of(final, stages.container, features, stages.classes)
    judge = stages.learner.judge(stages.fit(features, number), features, stages, number)
    if final is None or not stages.learner.encodes:
        return judge
    # A final model takes columns as given, so each stage before it encodes its own.
    return SelfEncodingStage({name: stages.reader(name) for name in features}, judge)


def _features(sources: Sequence[str], costs: Costs, names: Sequence[str]) -> tuple[str, ...]:
    """List the features of sources in the order of X, because a stage depends only on the set."""
    chosen = {feature for source in sources for feature in costs.columns(source)}
    return tuple(name for name in names if name in chosen)
