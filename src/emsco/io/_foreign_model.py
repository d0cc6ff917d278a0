"""Models that are not emsco's own in a file: as skops or ONNX files, or as a column of answers.

emsco does not control how skops or onnxruntime load a model, but it can check that the model still
works: a file records whether its models answered rows of numbers when it was written.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import get_tags

from emsco.exceptions import ArtifactError, ModelError
from emsco.io._core_values import Data, expect, expect_keys
from emsco.io._json import from_plain, to_plain
from emsco.io._members import MemberReader, MemberWriter
from emsco.io._stage_probe import answers
from emsco.learners.estimator_learner import EstimatorStage, class_order
from emsco.learners.final_model import FinalStage, LoggedAnswers, OnnxModel


def final_to(writer: MemberWriter, final: Any) -> Data:
    """Store the final model, if there is one: as data if possible."""
    if final is None:
        return {}
    if isinstance(final, LoggedAnswers):
        return {"final": {"column": final.column}}
    if isinstance(final, OnnxModel):
        return {"final": {"onnx": writer.onnx(final.content)}}
    return {"final": {"skops": writer.estimator(final, "`final`")}}


def final_from(reader: MemberReader, data: Data) -> Any:
    """Read the final model back."""
    if "final" not in data:
        return None
    ((kind, stored),) = expect(data["final"], dict).items()
    if kind == "column":
        return LoggedAnswers(expect(stored, str))
    if kind == "onnx":
        return OnnxModel(reader.onnx(stored))
    final = reader.estimator(stored)
    if kind != "skops" or not hasattr(final, "predict"):
        raise ArtifactError(f"its `final`, a {type(final).__name__}, has no `predict`")
    return final


def estimator_from(reader: MemberReader, name: Any) -> Any:
    """Read the estimator that stages are clones of."""
    estimator = reader.estimator(name)
    is_one = hasattr(estimator, "fit") and hasattr(estimator, "predict_proba")
    if not is_one or get_tags(estimator).classifier_tags is None:  # needed to decide
        raise ArtifactError(f"its `estimator`, a {type(estimator).__name__}, is not a classifier")
    return estimator


def classifier_from(fitted: Any, classes: NDArray[Any]) -> Any:
    """Refuse a stage loaded by skops that is not a classifier of these labels."""
    refused = f"one of its stages, a {type(fitted).__name__}, does not predict its labels"
    if not hasattr(fitted, "predict_proba"):
        raise ArtifactError(refused)
    try:
        class_order(fitted, classes)
    except ModelError as error:
        raise ArtifactError(refused) from error
    return fitted


def check_answers(answered: Any, judge: EstimatorStage | FinalStage, n_classes: int) -> None:
    """Refuse a model that answered rows of numbers when it was saved, and no longer does."""
    if expect(answered, bool) and not answers(judge, n_classes):
        model = judge.estimator if isinstance(judge, EstimatorStage) else judge.model
        raise ArtifactError(f"its {type(model).__name__} no longer predicts as when it was saved")


def final_to_data(stage: FinalStage) -> Data | None:
    """Describe the answers of a final model; None if they are logged, so that there is no model."""
    if isinstance(stage.model, LoggedAnswers):
        return None
    labels = getattr(stage.model, "classes_", None)
    return {
        "answers": answers(stage, len(stage.classes)),
        "labels": None if labels is None else to_plain(np.asarray(labels).tolist(), "`final`"),
    }


def check_final_stage(data: Data | None, stage: FinalStage) -> None:
    """Refuse a final model that does not answer as the file states."""
    if isinstance(stage.model, LoggedAnswers):
        if stage.container == "array" or stage.model.column in stage.features[:-1]:
            raise ArtifactError(
                "the answers of its final model must be logged in a separate column"
            )
        return
    fields = expect_keys(data, "answers", "labels")
    labels = getattr(stage.model, "classes_", None)
    if (None if labels is None else np.asarray(labels).tolist()) != from_plain(fields["labels"]):
        raise ArtifactError("the labels of its final model differ from those that it lists")
    check_answers(fields["answers"], stage, len(stage.classes))
