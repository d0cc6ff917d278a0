"""The last stage of a cascade with an existing model, which answers every row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from emsco.exceptions import ClassesError, ColumnsError, DesignError, ModelError, quoted
from emsco.learners.final_model import LoggedAnswers
from emsco.learners.protocol import Outcomes, SetFits, parts_of
from emsco.rows.columns import Columns, assemble


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
