"""Stages whose classifier is the user's own, fed in the container that X came in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from emsco._columns import Columns, assemble, has_missing, plain
from emsco.exceptions import ClassesError, DesignError, ValuesError, quoted


@dataclass(frozen=True)
class EstimatorStage:
    """One stage's classifier, the columns it sees and the container it wants them in."""

    estimator: Any
    number: int | None  # of the stage; None where it is of no design yet
    container: str
    features: tuple[str, ...]

    def fit(self, columns: Columns, labels: NDArray[Any], params: dict[str, Any]) -> Self:
        """Fit the estimator on this stage's columns."""
        with self._explained(columns):
            self.estimator.fit(assemble(self.container, self.features, columns), labels, **params)
        return self

    def __call__(self, columns: Columns) -> Sequence[NDArray[np.float64]]:
        """Give the probability of each class, a value a row."""
        with self._explained(columns):
            probability = self.estimator.predict_proba(
                assemble(self.container, self.features, columns)
            )
        return list(np.asarray(probability, dtype=np.float64).T)

    @contextmanager
    def _explained(self, columns: Columns) -> Iterator[None]:
        """Name the stage and the columns where the estimator refuses missing values."""
        try:
            yield
        except (ValueError, TypeError) as error:
            missing = [f for f in self.features if has_missing(plain(columns[f]))]
            if not missing:
                raise
            stage = "A stage" if self.number is None else f"Stage {self.number}"
            raise ValuesError(
                f"{stage} has missing values in {quoted(missing)}, which "
                f"{type(self.estimator).__name__} may refuse: {error}",
                column=missing[0],
            ) from error


@dataclass(frozen=True)
class FinalStage:
    """The last stage where a model stands that is to stay as it is: it answers every row."""

    model: Any
    container: str
    features: tuple[str, ...]
    classes: NDArray[Any]

    def __call__(self, columns: Columns) -> Sequence[NDArray[np.float64]]:
        """Give the whole probability to the class that the model answers."""
        answers = self.model.predict(assemble(self.container, self.features, columns))
        codes = answer_codes(answers, self.classes)
        return list(np.eye(len(self.classes))[:, codes])


def check_final(final: Any, guard: Any) -> None:
    """Refuse a final model that is not fitted, or beside which rows would be rejected."""
    if hasattr(final, "fit"):
        check_is_fitted(final)
    if guard is not None:
        raise DesignError("A guard rejects rows and a final model answers all; give one.")


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
