"""Write fitted stages and cascades as the JSON and members of a file, and read them back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from emsco.cascade import CascadeClassifier
from emsco.cascade.stage_plan import make_decider
from emsco.cascade.stake_cap import StakeCap
from emsco.core.label_rule import EQUAL, LabelRule
from emsco.core.threshold import resolve
from emsco.exceptions import ArtifactError, ThresholdError, require
from emsco.io._core_values import (
    Data,
    costs_from,
    costs_to,
    design_from,
    encoding_from,
    encoding_to,
    expect,
    expect_keys,
    expect_place,
    expect_texts,
    labels_from,
    labels_to,
    values_of,
)
from emsco.io._foreign_model import (
    answers,
    answers_by_default,
    check_answers,
    check_final_stage,
    classifier_from,
    estimator_from,
    final_from,
    final_to,
    final_to_data,
)
from emsco.io._json import from_plain, to_plain
from emsco.io._members import MemberReader, MemberWriter
from emsco.io._row_hashes import known_from, known_to
from emsco.learners import learner_of
from emsco.learners.estimator_learner import EstimatorStage
from emsco.learners.final_model import FinalStage, check_final, logged
from emsco.learners.logistic import LinearFit, LinearStage, default_estimator
from emsco.learners.protocol import Learner, Stages
from emsco.learners.training import FittedStages
from emsco.rows.column_reader import KINDS, NUMBER, TEXT, ColumnReader
from emsco.rows.encoding import Number
from emsco.rows.fitted_rows import FittedRows
from emsco.rows.guard import InputGuard
from emsco.rows.rows import Layout

FINAL = frozenset({"final"})  # a key only if there is a final model
_MORE = FINAL | {"cap"}  # keys of a cascade that only some have
_CONTAINERS = ("array", "pandas", "polars")


def cascade_to(cascade: CascadeClassifier, writer: MemberWriter) -> Data:
    """Store what a fitted cascade decides by; its parameters may have been changed since `fit`."""
    check_is_fitted(cascade)
    decider = cascade.decider_
    stages, cap = _taken_apart(cascade), decider.cap
    return (
        final_to(writer, decider.final)
        | ({} if cap is None else {"cap": asdict(cap)})
        | {
            "costs": costs_to(decider.costs),
            "design": [list(stage) for stage in decider.design.stages],
            "threshold": to_plain(_threshold_of(cascade), "`threshold`"),
            "rows": rows_to(writer, decider.layout, stages, cascade.fitted_rows_),
            "training": stages_to(writer, stages, decider.final),
        }
    )


def cascade_from(data: Data, reader: MemberReader) -> CascadeClassifier:
    """Read the cascade back."""
    expect_keys(data, "costs", "design", "threshold", "rows", "training", *_MORE & data.keys())
    costs = costs_from(data["costs"])
    final = final_from(reader, data)
    stages = stages_from(reader, data["training"], data["rows"], final, costs.types)
    guard = None if stages.guard is None else clone(stages.guard)
    threshold = from_plain(data["threshold"])
    rows = expect_rows(data["rows"])
    layout, fitted_rows = layout_from(rows, final), known_from(reader, rows["known"])
    if final is not None:
        check_final(final, guard)
    design = design_from(data["design"], costs)
    decider = make_decider(stages, layout, design, costs, threshold, guard=guard, final=final)
    if "cap" in data:
        column, cap = values_of(data["cap"], column=str, cap=float)
        decider = decider.capped(StakeCap(column, cap))
    return CascadeClassifier.of(
        decider,
        fitted_rows,
        estimator=stages.learner.estimator,
        threshold=threshold,
        guard=guard,
    )


def rows_to(writer: MemberWriter, layout: Layout, stages: Stages, fitted_rows: FittedRows) -> Data:
    """Store what is known about the rows that a model was fitted on."""
    return {
        "columns": list(layout.names),
        **({"unused": list(layout.unused)} if layout.unused else {}),
        **({"labels": list(layout.labels)} if layout.labels else {}),
        **({} if stages.rule.is_equal else {"label_weights": list(stages.rule.weights)}),
        "named": layout.named,
        "classes": labels_to(stages.classes),
        "most_frequent": stages.most_frequent,
        "known": known_to(writer, fitted_rows),
    }


def layout_from(rows: Data, final: Any) -> Layout:
    """Read the layout of X."""
    lists = (rows["columns"], rows.get("unused", []), rows.get("labels", []))
    names, unused, labels = (tuple(expect_texts(texts)) for texts in lists)
    if labels and (len(labels) != len(names) or len(set(labels)) != len(labels)):
        raise ArtifactError("its columns must have one name each")
    return Layout(names, expect(rows["named"], bool), logged(final), unused, labels)


def expect_rows(rows: Any, *others: str) -> Data:
    """Return what is known about rows; it must be complete."""
    optional = {"unused", "labels", "label_weights"} & expect(rows, dict).keys()
    keys = ("columns", "named", "classes", "most_frequent", "known")
    return expect_keys(rows, *keys, *optional, *others)


def stages_to(writer: MemberWriter, stages: FittedStages, final: Any) -> Data:
    """Store fitted stages and how they read columns."""
    learner = stages.learner
    data: Data = {
        "container": stages.container,
        "estimator": (
            None if learner.encodes else writer.estimator(learner.estimator, "`estimator`")
        ),
        "guard": None if stages.guard is None else to_plain(stages.guard.to_data(), "the guard"),
        "columns": {
            name: {"missing": reader.missing_seen, "kind": reader.kind}
            if reader.encoding is None
            else encoding_to(reader.encoding, name)
            for name, reader in stages.readers.items()
        },
        "stages": [],
    }
    if final is not None:
        data["final"] = final_to_data(_final_stage(stages, final))
    for features, fitted in stages.fitted.items():
        stage: Data = {"columns": list(features)}
        if isinstance(fitted, LinearFit):
            stage["weights"] = writer.array(fitted.weights)
            stage["intercepts"] = writer.array(fitted.intercepts)
            stage["iterations"] = list(fitted.iterations)
        else:
            judge = EstimatorStage(fitted, None, stages.container, features, stages.classes)
            stage["fitted"] = writer.estimator(fitted, f"the stage on {features}")
            stage["answers"] = answers(judge, len(stages.classes))
        data["stages"].append(stage)
    return data


def _column_from(data: Any) -> ColumnReader:
    """Read how a column is passed to an estimator of the user's own."""
    missing, kind = values_of(data, missing=bool, kind=str)
    if kind not in KINDS:
        raise ArtifactError(f"it has a column of the unknown kind {kind!r:.80}")
    return ColumnReader(kind, missing)


def stages_from(
    reader: MemberReader, data: Data, rows: Data, final: Any, types: Mapping[str, str]
) -> FittedStages:
    """Read the stages back; `rows` describes the rows they were fitted on.

    `types` are those that the costs declare for columns.
    """
    keys = ("container", "estimator", "guard", "columns", "stages")
    expect_keys(data, *keys, *(() if final is None else FINAL))
    classes, names = labels_from(rows["classes"]), expect_texts(rows["columns"])
    most_frequent = expect(rows["most_frequent"], int)
    columns = expect(data["columns"], dict)
    unused = set(expect_texts(rows.get("unused", [])))
    if len(set(names)) != len(names) or not columns.keys() <= set(names) - unused:
        raise ArtifactError("it names a column twice, or one that X does not have")
    if not 0 <= most_frequent < len(classes) or data["container"] not in _CONTAINERS:
        raise ArtifactError("its description of the training rows is not valid")
    if data["container"] != "array" and not (data["estimator"] is final is None):
        require(data["container"])  # the stages expect columns of this library
    guard = guard_from(data["guard"], "margin", "pool", "columns")
    fitted: dict[tuple[str, ...], Any] = {}
    if data["estimator"] is None:
        learner = learner_of(None)
        encodings = {name: encoding_from(column) for name, column in columns.items()}
        readers = {
            name: ColumnReader(NUMBER if isinstance(e, Number) else TEXT, e.missing_seen, e)
            for name, e in encodings.items()
        }
        for stage in expect(data["stages"], list):
            expect_keys(stage, "columns", "weights", "intercepts", "iterations")
            features = tuple(expect_texts(stage["columns"]))
            width = sum(encodings[feature].width for feature in features)
            fitted[features] = _linear_fit(reader, stage, classes, width)
            judge = LinearStage.compile(features, encodings, fitted[features], classes)
            used = {feature: encodings[feature] for feature in features}
            if not answers_by_default(judge, used, len(classes)):
                raise ArtifactError("a stage cannot compute probabilities from its weights")
    else:
        learner = learner_of(estimator_from(reader, data["estimator"]))
        readers = {name: _column_from(column) for name, column in columns.items()}
        for stage in expect(data["stages"], list):
            expect_keys(stage, "columns", "fitted", "answers")
            features = tuple(expect_texts(stage["columns"]))
            fitted[features] = classifier_from(reader.estimator(stage["fitted"]), classes)
            judge_of = fitted[features], None, data["container"], features, classes
            check_answers(stage["answers"], EstimatorStage(*judge_of), len(classes))
    stages = FittedStages(
        learner=learner,
        container=data["container"],
        classes=classes,
        most_frequent=most_frequent,
        names=[name for name in names if name not in unused],
        readers={name: one.declared(types.get(name)) for name, one in readers.items()},
        fitted=fitted,
        guard=guard,
        rule=_rule_from(rows.get("label_weights"), len(classes)),
    )
    if final is not None:
        check_final_stage(data["final"], _final_stage(stages, final))
    return stages


def _rule_from(weights: Any, n_classes: int) -> LabelRule:
    """Read by which weights stages label rows; None: equal ones."""
    if weights is None:
        return EQUAL
    numbers = [expect(weight, float) for weight in expect(weights, list)]
    rule = LabelRule(tuple(numbers))
    is_valid = len(numbers) == n_classes and all(0 < weight < inf for weight in numbers)
    if not is_valid or rule != LabelRule.of(numbers):
        raise ArtifactError("it must have a label weight for each class, of which the least is 1")
    return rule


def _final_stage(stages: FittedStages, final: Any) -> FinalStage:
    """Return the last stage if there is a final model."""
    return FinalStage.of(final, stages.container, tuple(stages.names), stages.classes)


def guard_from(data: Any, *keys: str) -> InputGuard | None:
    """Read a guard back, if there is one; its data must have exactly these keys."""
    if data is None:
        return None
    return InputGuard.from_data(expect_keys(from_plain(data), *keys))


def checked_guard(guard: Any) -> InputGuard:
    """Refuse a guard of another class, because files do not name classes."""
    if type(guard) is not InputGuard:
        raise ArtifactError(
            f"its guard is a {type(guard).__name__}, and only an InputGuard can be saved"
        )
    return guard


def _linear_fit(reader: MemberReader, stage: Data, classes: NDArray[Any], width: int) -> LinearFit:
    """Build the default classifier from its numbers."""
    n_scores = 1 if len(classes) == 2 else len(classes)
    weights = reader.array(stage["weights"], n_scores, width)
    intercepts = reader.array(stage["intercepts"], n_scores)
    steps = [expect_place(n, 2**31) for n in expect(stage["iterations"], list)]
    for numbers in (weights, intercepts):
        if numbers.dtype != np.float64 or not np.isfinite(numbers).all():
            raise ArtifactError("the weights of a stage must be finite numbers")
    return LinearFit(weights, intercepts, tuple(steps))


def _taken_apart(cascade: CascadeClassifier) -> FittedStages:
    """Return the stages that a cascade decides by."""
    decider = cascade.decider_
    judged = [stage.judge.fitted for stage in decider.plan.stages]
    if decider.final is not None:
        judged = judged[:-1]
    features: list[tuple[str, ...]] = []
    for stage in decider.plan.stages:
        bought = {*stage.features, *(features[-1] if features else ())}
        features.append(tuple(name for name in decider.layout.names if name in bought))
    guard = None if decider.guard is None else checked_guard(decider.guard)
    is_bare = decider.reads_encodings and decider.final is None  # its stages take no table
    return FittedStages(
        learner=_learner_of(cascade, judged),
        container="array" if is_bare else decider.container,
        classes=decider.classes,
        most_frequent=decider.plan.default,
        names=decider.layout.used,
        readers=decider.readers,
        fitted=dict(zip(features, judged, strict=False)),
        guard=guard,
        rule=decider.plan.rule,
    )


def _learner_of(cascade: CascadeClassifier, judged: list[Any]) -> Learner:
    """Return the learner of the stages, as the stages or else the parameter show it."""
    if cascade.decider_.reads_encodings:
        return learner_of(None)
    if cascade.estimator is not None:
        return learner_of(clone(cascade.estimator))
    # `estimator` was set to None after `fit`: stages are clones of the former one. A cascade of a
    # final model alone has no other stages.
    return learner_of(clone(judged[0]) if judged else default_estimator())


def _threshold_of(cascade: CascadeClassifier) -> Any:
    """Return the threshold that a cascade decides by, as it was given if that is unchanged."""
    decider = cascade.decider_
    classes = decider.classes.tolist()
    try:
        resolved = resolve(cascade.threshold, classes, decider.design.n_stages)
    except ThresholdError:
        resolved = np.empty(0)
    if np.array_equal(resolved, decider.thresholds):
        return cascade.threshold
    return tuple(dict(zip(classes, stage, strict=True)) for stage in decider.thresholds.tolist())
