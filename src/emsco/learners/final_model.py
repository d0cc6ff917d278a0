"""An existing model as the last stage: any with `predict`, an ONNX file, or only its answers.

A fitted scikit-learn classifier needs nothing of `emsco.final`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from emsco._utils.missing_values import is_missing
from emsco.exceptions import (
    ClassesError,
    ColumnsError,
    DesignError,
    ModelError,
    quoted,
    require,
)
from emsco.learners.protocol import Outcomes, SetFits, parts_of
from emsco.rows.columns import Columns, assemble, plain
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


@dataclass(frozen=True)
class FinalStage:
    """The last stage of a cascade with an existing model, which answers every row."""

    model: Any
    container: str
    features: tuple[str, ...]
    classes: NDArray[Any]

    @classmethod
    def of(
        cls, model: Any, container: str, features: tuple[str, ...], classes: NDArray[Any]
    ) -> FinalStage:
        """Return the stage of a model on all features, and on its logged answers if any."""
        column = logged(model)
        return cls(model, container, features + (() if column is None else (column,)), classes)

    @property
    def fitted(self) -> Any:
        """The model."""
        return self.model

    @property
    def estimator(self) -> Any:
        """The model."""
        return self.model

    def __call__(self, columns: Columns) -> Sequence[NDArray[np.float64]]:
        """Return probability 1 for the class that the model answers, and 0 for the others."""
        X = assemble(self.container, self.features, columns)
        answers = predict_labels(self.model, X, len(columns[self.features[0]]))
        codes = answer_codes(answers, self.classes)
        return list(np.eye(len(self.classes))[:, codes])


def logged(final: Any) -> str | None:
    """Return the column with the logged answers of a final model, or None."""
    return final.column if isinstance(final, LoggedAnswers) else None


def check_final(final: Any, guard: Any) -> None:
    """Refuse a final model that is not fitted, or is combined with a guard."""
    if hasattr(final, "fit"):
        check_is_fitted(final)
    if guard is not None:
        raise DesignError("A guard rejects rows, but a final model answers all; give only one.")


def refuse_unused(unused: Sequence[str], final: Any) -> None:
    """Refuse columns without a price if there is a final model, which uses every column."""
    if final is not None and unused:
        raise ColumnsError(
            f"A final model uses every column; give {quoted(unused)} a price (0 if free)."
        )


def predict_labels(final: Any, X: Any, n_rows: int) -> NDArray[Any]:
    """Return the answers of a final model, one label for each row."""
    answers = np.asarray(final.predict(X))
    if answers.ndim == 2 and answers.shape[1] == 1:  # as some libraries return them
        answers = answers[:, 0]
    if answers.shape != (n_rows,):
        raise ModelError(
            f"{type(final).__name__}.predict must return one label for each of {n_rows:,} rows, "
            f"but the shape of its answer is {answers.shape}."
        )
    return answers


def answer_codes(answers: Any, classes: NDArray[Any]) -> NDArray[np.intp]:
    """Return the position of each answer of a final model among the classes."""
    labels = np.asarray(answers)
    codes = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
    unknown = classes[codes] != labels
    if unknown.any():
        raise ClassesError(
            f"The final model answers {labels[unknown].tolist()[0]!r}, which is not a class of "
            "the training rows; fit on rows with this class."
        )
    return codes


@dataclass(frozen=True)
class FitsWithFinal:
    """Fits as another SetFits, but all sources together are a final model, with confidence 1."""

    fits: SetFits
    codes: NDArray[np.intp]  # of its answers to the evaluation rows

    @property
    def n_rows(self) -> int:
        """The number of evaluation rows."""
        return self.fits.n_rows

    @property
    def chunk(self) -> int:
        """How many sets to fit in one task."""
        return self.fits.chunk

    @property
    def is_slow(self) -> bool:
        """Whether progress is shown after every task."""
        return self.fits.is_slow

    @property
    def parts(self) -> tuple[FitsWithFinal, ...]:
        """The parts of the other SetFits, each with the final model."""
        parts = parts_of(self.fits)
        ends = np.cumsum([part.n_rows for part in parts])
        codes = np.split(self.codes, ends[:-1])
        return tuple(FitsWithFinal(*pair) for pair in zip(parts, codes, strict=True))

    def outcomes(self, sets: NDArray[np.bool_]) -> Outcomes:
        """Return confidences and label codes, sets x evaluation rows."""
        whole = sets.all(axis=1)
        confidence = np.ones((len(sets), self.n_rows))
        label = np.tile(self.codes.astype(np.uint8), (len(sets), 1))
        if not whole.all():
            confidence[~whole], label[~whole] = self.fits.outcomes(sets[~whole])
        return confidence, label
