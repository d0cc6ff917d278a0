"""Models that are not emsco's own in a file: as skops or ONNX files, or as a column of answers.

emsco does not control how skops or onnxruntime load a model, but it can check that the model still
works: a file records whether its models answered rows of numbers when it was written.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import get_tags

from emsco.chat.chat_model import ChatModel
from emsco.exceptions import ArtifactError, Keyword, ModelError, require
from emsco.io._chat_model import chat_from, chat_to
from emsco.io._core_values import Data, expect, expect_keys
from emsco.io._json import from_plain, to_plain
from emsco.io._members import MemberReader, MemberWriter
from emsco.learners.estimator_learner import EstimatorStage, class_order
from emsco.learners.final_model import FinalStage, LoggedAnswers, OnnxModel
from emsco.learners.protocol import Judge
from emsco.rows.encoding import ColumnEncoding, Number

_NUMBERS = (0.0, 1.0, -1.0, 1e9, -1e9)  # larger than useful values, and far from overflow


def load_final(path: str | os.PathLike[str], *, trusted: Sequence[str] = ()) -> Any:
    """Load a model to be used as the last stage, from a `.onnx` file or a skops file.

    Parameters
    ----------
    path : str or path
        The file.
    trusted : sequence of str, default=()
        Types that may be loaded although skops does not trust them by default. The error message
        names the types that a file needs.

    Raises
    ------
    ArtifactError
        If the file needs types to be trusted.
    ModelError
        If the file cannot be read, or does not hold a model with `predict`.

    Examples
    --------
    >>> from emsco.io import load_final
    >>> load_final("no such file")
    Traceback (most recent call last):
    emsco.exceptions.ModelError: no such file cannot be read: No such file or directory.
    """
    name = os.fspath(path)
    if name.endswith(".onnx"):
        return OnnxModel(name)
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise ModelError(f"{name} cannot be read: {error.strerror}.") from error
    skops = require("skops.io", "skops")
    try:
        unknown = set(skops.get_untrusted_types(data=content)) - set(trusted)
    except Exception as error:  # any file can be given
        raise ModelError(
            f"{name} is not a model that emsco can read: {error}. Save the model with "
            "skops.io.dump(model, ...) or as ONNX."
        ) from error
    if unknown:
        raise ArtifactError(
            f"{name} holds types that skops does not trust by default; if you know who wrote it, "
            "and only then, pass " + Keyword("trusted", sorted(unknown)) + "."
        )
    try:
        model = skops.loads(content, trusted=list(trusted))
    except Exception as error:  # as above
        raise ModelError(f"{name} cannot be loaded by skops: {error}.") from error
    if not hasattr(model, "predict"):
        raise ModelError(f"{name} holds a {type(model).__name__}, which has no `predict`.")
    return model


def final_to(writer: MemberWriter, final: Any) -> Data:
    """Store the final model, if there is one: as data if possible."""
    if final is None:
        return {}
    if isinstance(final, LoggedAnswers):
        return {"final": {"column": final.column}}
    if isinstance(final, OnnxModel):
        return {"final": {"onnx": writer.onnx(final.content)}}
    if isinstance(final, ChatModel):
        return {"final": {"chat": chat_to(final)}}
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
    if kind == "chat":
        return chat_from(reader, stored)
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
    """Describe the answers of a final model; None if they are logged, or would have to be paid."""
    if isinstance(stage.model, LoggedAnswers | ChatModel):
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
    if isinstance(stage.model, ChatModel):
        return
    fields = expect_keys(data, "answers", "labels")
    labels = getattr(stage.model, "classes_", None)
    if (None if labels is None else np.asarray(labels).tolist()) != from_plain(fields["labels"]):
        raise ArtifactError("the labels of its final model differ from those that it lists")
    check_answers(fields["answers"], stage, len(stage.classes))


def answers(stage: EstimatorStage | FinalStage, n_classes: int) -> bool:
    """Return whether a stage of the user's own gives probabilities for rows of numbers.

    Not every stage does: some take only text. So a file records whether its stages did when it was
    written, and the loaded ones must do the same.
    """
    return _is_judge(stage, dict.fromkeys(stage.features, np.array(_NUMBERS)), n_classes)


def answers_by_default(
    stage: Judge, encodings: Mapping[str, ColumnEncoding], n_classes: int
) -> bool:
    """Return whether a stage of the default classifier gives probabilities, as it must."""
    unknown = np.full(len(_NUMBERS), None, dtype=object)
    columns = {
        name: np.array(_NUMBERS) if isinstance(encoding, Number) else unknown
        for name, encoding in encodings.items()
    }
    return _is_judge(stage, columns, n_classes)


def _is_judge(stage: Judge, columns: Mapping[str, np.ndarray], n_classes: int) -> bool:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            probability = np.array(stage(columns), dtype=np.float64)
        except ImportError:  # a library is missing, so nothing can be checked
            return True
        except Exception:  # a user's model may raise anything
            return False
    right_shape = probability.shape == (n_classes, len(_NUMBERS))
    return right_shape and bool(((probability >= 0) & (probability <= 1 + 1e-6)).all())
