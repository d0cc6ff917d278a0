"""The final model of `emsco label begin --final`: a function of rows, or the file of a model."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from inspect import isawaitable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from emsco._utils.missing_values import is_missing
from emsco.batch.final_calls import Calls
from emsco.cli._imports import import_named, is_named
from emsco.cli._label_rows import LabelRows
from emsco.cli._label_settings import LabelSettings, final_file
from emsco.cli._label_words import LabelWords, text_of
from emsco.exceptions import BatchError, ModelError
from emsco.rows.columns import listed


def calls_of(
    settings: LabelSettings, rows: LabelRows, concurrency: int, rows_per_call: int | None
) -> Calls:
    """Return how the final model is called."""
    assert settings.final is not None
    frame = rows.frame()
    path = final_file(settings.final)
    final: Any
    if path is not None:
        from emsco.io import load_final

        model = load_final(path, trusted=settings.trust_type or ())
        for label in listed(getattr(model, "classes_", [])):
            rows.words.learn(label)
        names = list(getattr(model, "feature_names_in_", frame.columns))
        lacking = sorted(set(names) - set(frame.columns))
        if lacking:
            raise ModelError(f"{settings.rows} has no column {lacking[0]!r}, which {path} needs.")
        final, frame = _NamedModel(model, rows.words), frame[names]
    elif is_named(settings.final):
        function = import_named(settings.final, "--final", "function")
        if not callable(function):
            raise ModelError(f"--final {settings.final} must be a function, got {function!r}.")
        final = _Function(function, rows.words)
    else:
        raise ModelError(
            f"--final takes a .skops or .onnx file, or module:function; got {settings.final!r}."
        )
    return Calls(final, lambda places: _safe_indexing(frame, places), price=settings.price,
                 concurrency=concurrency, rows_per_call=rows_per_call)  # fmt: skip


class _NamedModel:
    """A model, whose labels are those of the job."""

    def __init__(self, model: Any, words: LabelWords) -> None:
        self._model, self._words = model, words

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label of each row."""
        found = np.asarray(self._model.predict(X))
        labels = np.empty(found.shape, dtype=object)
        labels.ravel()[:] = [_read(label, self._words) for label in found.ravel().tolist()]
        return labels


class _Function:
    """A function of rows, async or not, whose labels are those of the job."""

    def __init__(self, function: Any, words: LabelWords) -> None:
        self._function, self._words = function, words

    def __call__(self, rows: Any) -> Any:
        """Return the label of each row, or by row."""
        found = self._function(rows)
        return self._later(found) if isawaitable(found) else self._read_all(found)

    async def _later(self, found: Awaitable[Any]) -> Any:
        return self._read_all(await found)

    def _read_all(self, found: Any) -> Any:
        if isinstance(found, Mapping):
            return {row: _read(label, self._words) for row, label in found.items()}
        if isinstance(found, str | bytes) or not hasattr(found, "__len__"):
            return found  # which is refused by whoever called it
        return [_read(label, self._words) for label in listed(found)]


def _read(label: Any, words: LabelWords) -> Any:
    """Return a label of the job; None where there is none."""
    if is_missing(label):
        return None
    fault = words.unknown(text_of(label))
    if fault is not None:
        raise BatchError(
            f"The final model answered with an {fault.rstrip('.')} Nothing that came before is "
            "lost. Change the function, or declare the label by --new-label, and repeat the "
            "command."
        )
    return words.label(text_of(label))
