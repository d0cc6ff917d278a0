"""Existing models: in an ONNX file, or known only by their answers.

Anything with `predict` can be the `final` model of a cascade; a fitted scikit-learn classifier
needs nothing from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco._utils.missing_values import is_missing
from emsco.exceptions import ClassesError, ModelError, require
from emsco.rows.columns import plain
from emsco.rows.rows import pick, read_answers

_NUMPY_OF = {"float": np.float32, "double": np.float64, "int64": np.int64, "int32": np.int32,
             "bool": np.bool_, "string": np.object_}  # fmt: skip


@dataclass(frozen=True)
class LoggedAnswers:
    """A model of which only the answers are known, as a column of X.

    In live use, the values of that column are obtained by asking the model.

    Parameters
    ----------
    column : str
        The column that holds the answers of the model. It belongs to no source.

    Examples
    --------
    >>> import pandas as pd
    >>> from emsco.final import LoggedAnswers
    >>> LoggedAnswers("verdict").predict(pd.DataFrame({"age": [31, 64], "verdict": ["no", "yes"]}))
    array(['no', 'yes'], dtype='<U3')
    """

    column: str

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the answers in the column."""
        answers = list(read_answers(X, self.column))
        lacking = [row for row, answer in enumerate(answers) if is_missing(answer)]
        if lacking:
            raise ClassesError(f"Column {self.column!r} has no answer in row {lacking[0]}.")
        return np.array(answers)


class OnnxModel:
    """A classifier in the ONNX format, run by onnxruntime.

    It takes either one matrix with all columns, in the order of X, or one input per column, by
    name. Its first output holds the labels, or one probability per class; the answer is then the
    position of the largest.

    Parameters
    ----------
    content : bytes or path
        The model, or the path of its file.

    Examples
    --------
    >>> from emsco.final import OnnxModel
    >>> final = OnnxModel("fraud.onnx")  # doctest: +SKIP
    >>> search = CascadeSearchCV(costs=costs, final=final, target="agreement")  # doctest: +SKIP
    """

    def __init__(self, content: bytes | str | Path) -> None:
        if isinstance(content, bytes):
            self.content = content
            return
        try:
            self.content = Path(content).read_bytes()
        except OSError as error:
            raise ModelError(f"{content} cannot be read: {error.strerror}.") from error

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label of each row."""
        session = self._session
        try:
            answers = np.asarray(session.run(None, self._inputs(X))[0])
        except Exception as error:  # onnxruntime defines no error classes
            raise ModelError(f"onnxruntime cannot run this model: {error}") from error
        if answers.ndim == 2 and answers.shape[1] == 1:
            answers = answers[:, 0]
        if answers.ndim == 2 and answers.dtype.kind == "f":
            if np.isnan(answers).any():
                row = int(np.argmax(np.isnan(answers).any(axis=1)))
                raise ModelError(f"The model has NaN for a probability, first in row {row}.")
            places: NDArray[np.intp] = answers.argmax(axis=1)
            return places
        if answers.ndim != 1 or answers.dtype.kind == "f":
            raise ModelError(
                f"The first output of the model, {session.get_outputs()[0].name!r}, must hold "
                "labels or one probability per class."
            )
        return np.array(answers.tolist()) if answers.dtype.kind == "O" else answers

    @cached_property
    def _session(self) -> Any:
        onnxruntime = require("onnxruntime", "onnx")
        try:
            return onnxruntime.InferenceSession(self.content, providers=["CPUExecutionProvider"])
        except Exception as error:  # as above
            raise ModelError(f"onnxruntime cannot read this model: {error}") from error

    def _inputs(self, X: Any) -> dict[str, NDArray[Any]]:
        """Return the inputs of the model."""
        inputs = self._session.get_inputs()
        if len(inputs) == 1:
            return {inputs[0].name: np.asarray(X).astype(_dtype(inputs[0]))}
        columns = pick(X, [each.name for each in inputs])
        return {
            each.name: plain(columns[each.name])
            .astype(_dtype(each))
            .reshape(-1, *[1] * (len(each.shape) - 1))
            for each in inputs
        }

    def __getstate__(self) -> dict[str, Any]:
        return {"content": self.content}  # a session can be neither copied nor pickled


def _dtype(tensor: Any) -> Any:
    kind = tensor.type.removeprefix("tensor(").removesuffix(")")
    if kind not in _NUMPY_OF:
        raise ModelError(
            f"The input {tensor.name!r} of the model has the type {tensor.type}, which is not "
            "supported."
        )
    return _NUMPY_OF[kind]


for _kind in (LoggedAnswers, OnnxModel):
    # Their public path, which pickles and so digests contain, wherever the code is.
    _kind.__module__ = "emsco.final"
