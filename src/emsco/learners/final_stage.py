"""The last stage where a model stands that is to stay as it is: it answers every row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from emsco.exceptions import ClassesError, ColumnsError, DesignError, quoted
from emsco.learners.final import LoggedAnswers
from emsco.learners.protocol import Outcomes, SetFits, parts_of
from emsco.rows.columns import Columns, assemble


@dataclass(frozen=True)
class FinalStage:
    """The last stage where a model stands that is to stay as it is: it answers every row."""

    model: Any
    container: str
    features: tuple[str, ...]
    classes: NDArray[Any]

    @classmethod
    def of(
        cls, model: Any, container: str, features: tuple[str, ...], classes: NDArray[Any]
    ) -> FinalStage:
        """Let a model judge by all features, and by its logged answers where it has no more."""
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
        """Give the whole probability to the class that the model answers."""
        answers = self.model.predict(assemble(self.container, self.features, columns))
        codes = answer_codes(answers, self.classes)
        return list(np.eye(len(self.classes))[:, codes])


def logged(final: Any) -> str | None:
    """Name the column besides those of sources that a final model reads, if it is such a one."""
    return final.column if isinstance(final, LoggedAnswers) else None


def check_final(final: Any, guard: Any) -> None:
    """Refuse a final model that is not fitted, or beside which rows would be rejected."""
    if hasattr(final, "fit"):
        check_is_fitted(final)
    if guard is not None:
        raise DesignError("A guard rejects rows and a final model answers all; give one.")


def refuse_unused(unused: Sequence[str], final: Any) -> None:
    """Refuse columns without a price beside a final model, which takes every column."""
    if final is not None and unused:
        raise ColumnsError(
            f"A final model takes every column; give {quoted(unused)} a price, 0 where it is free."
        )


def answer_codes(answers: Any, classes: NDArray[Any]) -> NDArray[np.intp]:
    """Give the place of each answer of a final model among the classes."""
    given = np.asarray(answers)
    codes = np.searchsorted(classes, given).clip(max=len(classes) - 1)
    unknown = classes[codes] != given
    if unknown.any():
        raise ClassesError(
            f"The final model answers {given[unknown].tolist()[0]!r}, which is no class of the "
            "rows fitted on; fit on rows that have it."
        )
    return codes


@dataclass(frozen=True)
class FitsWithFinal:
    """Fits as another does, but all sources together are a final model's, which is always sure."""

    fits: SetFits
    codes: NDArray[np.intp]  # of its answers, an evaluation row each

    @property
    def n_rows(self) -> int:
        """How many evaluation rows there are."""
        return self.fits.n_rows

    @property
    def chunk(self) -> int:
        """How many sets to fit in one task."""
        return self.fits.chunk

    @property
    def is_slow(self) -> bool:
        """Whether progress is told after every task."""
        return self.fits.is_slow

    @property
    def parts(self) -> tuple[FitsWithFinal, ...]:
        """The same, divided as what fits is."""
        parts = parts_of(self.fits)
        ends = np.cumsum([part.n_rows for part in parts])
        codes = np.split(self.codes, ends[:-1])
        return tuple(FitsWithFinal(*pair) for pair in zip(parts, codes, strict=True))

    def outcomes(self, sets: NDArray[np.bool_]) -> Outcomes:
        """Give confidence and label code, sets x evaluation rows."""
        whole = sets.all(axis=1)
        confidence = np.ones((len(sets), self.n_rows))
        label = np.tile(self.codes.astype(np.uint8), (len(sets), 1))
        if not whole.all():
            confidence[~whole], label[~whole] = self.fits.outcomes(sets[~whole])
        return confidence, label
