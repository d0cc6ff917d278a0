"""Models that are not emsco's own, in a file: by skops, as ONNX, or as a column of answers.

What skops or onnxruntime make of a file is theirs. What can be known is whether it still answers,
so a file says whether its models answered rows of numbers when it was written.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import get_tags

from emsco.exceptions import ArtifactError
from emsco.io._bundle import Reader, Writer
from emsco.io._json import from_plain, to_plain
from emsco.io._probe import answers
from emsco.io._words import Data, expect, expect_keys
from emsco.learners.estimator import EstimatorStage
from emsco.learners.final import LoggedAnswers, OnnxModel
from emsco.learners.final_stage import FinalStage

ANSWERS = frozenset({"answers"})  # not told by files of the first format


def final_to(writer: Writer, final: Any) -> Data:
    """Keep the model that answers last, where there is one: as data if it can be."""
    if final is None:
        return {}
    if isinstance(final, LoggedAnswers):
        return {"final": {"column": final.column}}
    if isinstance(final, OnnxModel):
        return {"final": {"onnx": writer.onnx(final.content)}}
    return {"final": {"skops": writer.estimator(final, "`final`")}}


def final_from(reader: Reader, data: Data) -> Any:
    """Give back the model that answers last."""
    if "final" not in data:
        return None
    ((kind, told),) = expect(data["final"], dict).items()
    if kind == "column":
        return LoggedAnswers(expect(told, str))
    if kind == "onnx":
        return OnnxModel(reader.onnx(told))
    final = reader.estimator(told)
    if kind != "skops" or not hasattr(final, "predict"):
        raise ArtifactError(f"its `final`, a {type(final).__name__}, cannot answer")
    return final


def estimator_from(reader: Reader, name: Any) -> Any:
    """Give back what stages are clones of."""
    estimator = reader.estimator(name)
    is_one = hasattr(estimator, "fit") and hasattr(estimator, "predict_proba")
    if not is_one or get_tags(estimator).classifier_tags is None:  # deciding asks for them
        raise ArtifactError(f"its `estimator`, a {type(estimator).__name__}, is no classifier")
    return estimator


def classifier_from(fitted: Any, classes: NDArray[Any]) -> Any:
    """Refuse what skops made of a stage if it is no classifier of these labels."""
    known = np.asarray(getattr(fitted, "classes_", classes))
    if not hasattr(fitted, "predict_proba") or not np.array_equal(known, classes):
        raise ArtifactError(
            f"one of its stages, a {type(fitted).__name__}, does not know its labels"
        )
    return fitted


def check_answers(told: Data, judge: EstimatorStage | FinalStage, n_classes: int) -> None:
    """Refuse a model that answered rows of numbers when the file was written, and does not now."""
    if expect(told.get("answers", False), bool) and not answers(judge, n_classes):
        model = judge.estimator if isinstance(judge, EstimatorStage) else judge.model
        raise ArtifactError(f"it holds a {type(model).__name__} that cannot answer as it did")


def final_to_data(stage: FinalStage) -> Data | None:
    """Tell what a final model answers; None where its answers are logged, and it is not there."""
    if isinstance(stage.model, LoggedAnswers):
        return None
    labels = getattr(stage.model, "classes_", None)
    return {
        "answers": answers(stage, len(stage.classes)),
        "labels": None if labels is None else to_plain(np.asarray(labels).tolist(), "`final`"),
    }


def check_final_stage(told: Data | None, stage: FinalStage) -> None:
    """Refuse a final model that does not answer as the file says; the first format says nothing."""
    if isinstance(stage.model, LoggedAnswers):
        if stage.container == "array" or stage.model.column in stage.features[:-1]:
            raise ArtifactError("its final model's answers are logged in a column of their own")
        return
    if told is None:
        return
    expect_keys(told, "answers", "labels")
    labels = getattr(stage.model, "classes_", None)
    if (None if labels is None else np.asarray(labels).tolist()) != from_plain(told["labels"]):
        raise ArtifactError("its final model answers other labels than it says")
    check_answers(told, stage, len(stage.classes))
