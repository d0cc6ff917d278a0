"""Fitted stages and cascades as the JSON and members of a file, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted

from emsco._encoding import ColumnEncoding
from emsco._estimator import EstimatorStage, FinalStage
from emsco._kept import Kept
from emsco._linear import LinearStage, default_estimator
from emsco._rows import FittedRows
from emsco._threshold import resolve
from emsco._training import Training
from emsco.cascade import CascadeClassifier
from emsco.exceptions import ArtifactError, ThresholdError, require
from emsco.guard import InputGuard
from emsco.io._bundle import Reader, Writer
from emsco.io._foreign import (
    ANSWERS,
    check_answers,
    check_final_stage,
    classifier_from,
    estimator_from,
    final_from,
    final_to,
    told_of_final,
)
from emsco.io._json import from_plain, to_plain
from emsco.io._known import known_from, known_to
from emsco.io._probe import answers, answers_by_default
from emsco.io._words import (
    Data,
    costs_from,
    costs_to,
    design_from,
    design_to,
    encoding_from,
    encoding_to,
    expect,
    expect_keys,
    expect_place,
    expect_texts,
    labels_from,
    labels_to,
)

FINAL = frozenset({"final"})  # told only where there is one
_NUMBERS = frozenset({"numbers"})  # told only where it is known
_CONTAINERS = ("array", "pandas", "polars")


def cascade_to(cascade: CascadeClassifier, writer: Writer) -> Data:
    """Keep a fitted cascade."""
    check_is_fitted(cascade)
    kept = _taken_apart(cascade)
    return final_to(writer, kept.final) | {
        "costs": costs_to(cascade.costs_),
        "design": design_to(cascade.design_),
        "threshold": to_plain(_threshold_of(cascade), "`threshold`"),
        "rows": rows_to(writer, cascade, kept),
        "training": kept_to(writer, kept),
    }


def cascade_from(data: Data, reader: Reader) -> CascadeClassifier:
    """Give the cascade back."""
    expect_keys(data, "costs", "design", "threshold", "rows", "training", *FINAL & data.keys())
    costs = costs_from(data["costs"])
    kept = kept_from(reader, data["training"], data["rows"], final_from(reader, data))
    cascade = CascadeClassifier(
        kept.estimator,
        design=design_from(data["design"], costs),
        costs=costs,
        threshold=from_plain(data["threshold"]),
        guard=None if kept.guard is None else clone(kept.guard),
        final=kept.final,
    )
    tell_rows(cascade, expect_rows(data["rows"]), reader)
    return cascade._fit(kept)


def rows_to(writer: Writer, model: Any, kept: Kept | Training) -> Data:
    """Keep what is known of the rows that a model was fitted on."""
    return {
        "columns": list(kept.columns),
        "named": hasattr(model, "feature_names_in_"),
        "classes": labels_to(kept.classes),
        "most_frequent": kept.most_frequent,
        "known": known_to(writer, getattr(model, "_fitted_rows", FittedRows())),
    }


def tell_rows(model: Any, rows: Data, reader: Reader) -> None:
    """Tell a model what scikit-learn wants to know of X, and which rows it knows."""
    names = expect_texts(rows["columns"])
    model.n_features_in_ = len(names)
    if expect(rows["named"], bool):
        model.feature_names_in_ = np.array(names, dtype=object)
    if "known" in rows:  # the first files do not tell
        model._fitted_rows = known_from(reader, rows["known"])


def expect_rows(rows: Any, *others: str) -> Data:
    """Give what is known of rows, which must be complete."""
    told = ("known",) if "known" in expect(rows, dict) else ()
    return expect_keys(rows, "columns", "named", "classes", "most_frequent", *told, *others)


def kept_to(writer: Writer, kept: Kept) -> Data:
    """Keep fitted stages and what they know of columns."""
    is_default = kept.estimator is None
    data: Data = {
        "container": kept.container,
        "estimator": None if is_default else writer.estimator(kept.estimator, "`estimator`"),
        "guard": None if kept.guard is None else to_plain(kept.guard.to_data(), "the guard"),
        "columns": {
            name: encoding_to(kept.encodings[name], name) if is_default else _column_to(kept, name)
            for name in kept.missing
        },
        "stages": [],
    }
    if kept.final is not None:
        data["final"] = told_of_final(final_stage(kept))
    for features, fitted in kept.fitted.items():
        stage: Data = {"columns": list(features)}
        if is_default:
            stage["weights"] = writer.array(fitted.coef_)
            stage["intercepts"] = writer.array(fitted.intercept_)
            stage["iterations"] = np.asarray(fitted.n_iter_).tolist()
        else:
            judge = EstimatorStage(fitted, None, kept.container, features)
            stage["fitted"] = writer.estimator(fitted, f"the stage on {features}")
            stage["answers"] = answers(judge, len(kept.classes))
        data["stages"].append(stage)
    return data


def _column_to(kept: Kept, name: str) -> Data:
    """Keep what is known of a column that an own estimator reads."""
    known = {"numbers": kept.numbers[name]} if name in kept.numbers else {}
    return {"missing": kept.missing[name], **known}


def kept_from(reader: Reader, data: Data, rows: Data, final: Any) -> Kept:
    """Give the stages back; `rows` tells what is known of the rows they were fitted on."""
    keys = ("container", "estimator", "guard", "columns", "stages")
    expect_keys(data, *keys, *FINAL & expect(data, dict).keys())
    classes, names = labels_from(rows["classes"]), expect_texts(rows["columns"])
    most_frequent = expect(rows["most_frequent"], int)
    columns = expect(data["columns"], dict)
    if len(set(names)) != len(names) or not columns.keys() <= set(names):
        raise ArtifactError("it names a column twice, or one that X does not have")
    if not 0 <= most_frequent < len(classes) or data["container"] not in _CONTAINERS:
        raise ArtifactError("it was fitted on rows that cannot be")
    if data["container"] != "array" and not (data["estimator"] is final is None):
        require(data["container"])  # what the stages want their columns in
    fitted: dict[tuple[str, ...], Any] = {}
    encodings: dict[str, ColumnEncoding] = {}
    numbers: dict[str, bool] = {}
    estimator = None
    if data["estimator"] is None:
        encodings = {name: encoding_from(told) for name, told in columns.items()}
        missing = {name: encoding.missing_seen for name, encoding in encodings.items()}
        for stage in expect(data["stages"], list):
            expect_keys(stage, "columns", "weights", "intercepts", "iterations")
            features = tuple(expect_texts(stage["columns"]))
            width = sum(encodings[feature].width for feature in features)
            fitted[features] = _logistic_regression(reader, stage, classes, width)
            judge = LinearStage.compile(features, encodings, fitted[features])
            used = {feature: encodings[feature] for feature in features}
            if not answers_by_default(judge, used, len(classes)):
                raise ArtifactError("the weights of a stage judge nothing")
    else:
        estimator = estimator_from(reader, data["estimator"])
        for told in columns.values():
            expect_keys(expect(told, dict), "missing", *_NUMBERS & told.keys())
        missing = {name: expect(told["missing"], bool) for name, told in columns.items()}
        numbers = {n: expect(told["numbers"], bool) for n, told in columns.items() if len(told) > 1}
        for stage in expect(data["stages"], list):
            expect_keys(stage, "columns", "fitted", *ANSWERS & expect(stage, dict).keys())
            features = tuple(expect_texts(stage["columns"]))
            fitted[features] = classifier_from(reader.estimator(stage["fitted"]), classes)
            asked = EstimatorStage(fitted[features], None, data["container"], features)
            check_answers(stage, asked, len(classes))
    kept = Kept(
        estimator=estimator,
        container=data["container"],
        classes=classes,
        most_frequent=most_frequent,
        names=names,
        missing=missing,
        numbers=numbers,
        encodings=encodings,
        fitted=fitted,
        guard=guard_from(data["guard"], "margin", "pool", "columns"),
        final=final,
    )
    if final is not None:
        check_final_stage(data.get("final"), final_stage(kept))
    return kept


def final_stage(kept: Kept) -> FinalStage:
    """Give the last stage where there is a final model."""
    return FinalStage.of(kept.final, kept.container, tuple(kept.names), kept.classes)


def guard_from(data: Any, *keys: str) -> InputGuard | None:
    """Give a guard back, where there is one, of which just this is told."""
    if data is None:
        return None
    return InputGuard.from_data(expect_keys(from_plain(data), *keys))


def checked_guard(guard: Any) -> InputGuard:
    """Refuse a guard that could come back only by the name of its class."""
    if type(guard) is not InputGuard:
        raise ArtifactError(
            f"its guard is a {type(guard).__name__}, and files keep guards of InputGuard only"
        )
    return guard


def _logistic_regression(
    reader: Reader, stage: Data, classes: NDArray[Any], width: int
) -> LogisticRegression:
    """Make the default classifier of its numbers."""
    n_scores = 1 if len(classes) == 2 else len(classes)
    fitted = default_estimator()
    fitted.classes_ = classes
    fitted.coef_ = reader.array(stage["weights"], n_scores, width)
    fitted.intercept_ = reader.array(stage["intercepts"], n_scores)
    fitted.n_iter_ = np.array(
        [expect_place(n, 2**31) for n in expect(stage["iterations"], list)], dtype=np.int32
    )
    fitted.n_features_in_ = width
    for numbers in (fitted.coef_, fitted.intercept_):
        if numbers.dtype != np.float64 or not np.isfinite(numbers).all():
            raise ArtifactError("the weights of a stage must be finite numbers")
    return fitted


def _taken_apart(cascade: CascadeClassifier) -> Kept:
    """Take what a cascade decides by; its parameters may have been set anew since it was fitted."""
    stages = cascade._plan.stages
    judge = stages[0].judge
    estimator, container = None, "array"
    if isinstance(judge, EstimatorStage):
        estimator = judge.estimator if cascade.estimator is None else cascade.estimator
        estimator, container = clone(estimator), judge.container
    elif not cascade._encoding:  # a final model alone: what stages would be clones of
        estimator = default_estimator() if cascade.estimator is None else clone(cascade.estimator)
    fitted = cascade.estimators_
    if isinstance(stages[-1].judge, FinalStage):
        container, fitted = stages[-1].judge.container, fitted[:-1]
    acquired = [cascade._features(cascade.design_.acquired(i)) for i in range(len(stages))]
    return Kept(
        estimator=estimator,
        container=container,
        classes=cascade.classes_,
        most_frequent=cascade._plan.default,
        names=cascade._names,
        missing=cascade._missing_seen,
        numbers=cascade._numbers,
        encodings=cascade._encoding,
        fitted=dict(zip(acquired, fitted, strict=False)),
        guard=None if cascade.guard is None else checked_guard(cascade.guard_),
        final=cascade.final,
    )


def _threshold_of(cascade: CascadeClassifier) -> Any:
    """Give the threshold that a cascade decides by, as it was given if that is still the same."""
    classes = cascade.classes_.tolist()
    try:
        given = resolve(cascade.threshold, classes, len(cascade.stages_))
    except ThresholdError:
        given = np.empty(0)
    if np.array_equal(given, cascade.thresholds_):
        return cascade.threshold
    return tuple(dict(zip(classes, stage, strict=True)) for stage in cascade.thresholds_.tolist())
