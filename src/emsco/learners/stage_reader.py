"""Fitted stages from a file, and how they read columns, without the training rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray
from sklearn.base import clone

from emsco._utils.frozen_mapping import FrozenMapping
from emsco.exceptions import ArtifactError, quoted
from emsco.learners.protocol import Learner
from emsco.rows.column_reader import ColumnReader
from emsco.rows.guard import InputGuard


@dataclass(frozen=True)
class FittedStages:
    """Replaces `Training` if there are no rows: it returns fitted stages, and fits none.

    Parameters
    ----------
    learner : Learner
        The learner that fitted the stages.
    container : str
        The container in which the user's own classifiers get their columns.
    classes : array
        The labels.
    most_frequent : int
        The position of the most frequent label.
    names : sequence of str
        Every column, in the order of X.
    readers : mapping of str to ColumnReader
        How each column that a stage sees is read.
    fitted : mapping of tuple of str to classifier
        The fitted classifier of each set of columns.
    guard : InputGuard or None
        The guard that has learned all these columns.
    """

    learner: Learner
    container: str
    classes: NDArray[Any]
    most_frequent: int
    names: Sequence[str]
    readers: Mapping[str, ColumnReader]
    fitted: Mapping[tuple[str, ...], Any]
    guard: InputGuard | None = None

    def reader(self, name: str) -> ColumnReader:
        """Return how a column is read."""
        return self.readers[name] if name in self.readers else self._refuse([name])

    def fit(self, features: tuple[str, ...], number: int | None = None) -> Any:  # noqa: ARG002
        """Return the classifier of a set of columns."""
        return self.fitted[features] if features in self.fitted else self._refuse(features)

    def guarded(self, guard: Any, used: Sequence[str]) -> InputGuard:  # noqa: ARG002  # as Training
        """Return the guard with what it learned about some columns."""
        known = {} if self.guard is None else self.guard.learned_
        unknown = [name for name in used if name not in known]
        if self.guard is None or unknown:
            self._refuse(unknown)
        fitted: InputGuard = clone(self.guard)
        fitted.learned_ = FrozenMapping({name: known[name] for name in used})
        return fitted

    def _refuse(self, features: Sequence[str]) -> Any:
        raise ArtifactError(
            f"The file of this search has no stage on {quoted(features)}, and no training rows to "
            "fit it on. Fit the search again, or call cascade(candidate) for every candidate that "
            "may be chosen before you dump it."
        )
