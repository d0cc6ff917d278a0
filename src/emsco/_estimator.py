"""A stage whose classifier is the user's own, fed in the container that X came in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from emsco._columns import Columns, assemble, has_missing, plain
from emsco.exceptions import ValuesError, quoted


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
