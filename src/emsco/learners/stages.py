"""What a file keeps of training: the fitted stages and what they know of columns, but no rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray
from sklearn.base import clone

from emsco._ground.frozen import FrozenMapping
from emsco.exceptions import ArtifactError, quoted
from emsco.learners.protocol import Learner
from emsco.rows.guard import InputGuard
from emsco.rows.reading import ColumnReader


@dataclass(frozen=True)
class FittedStages:
    """Stands in for `Training` where the rows are gone: it finds stages, and fits none.

    Parameters
    ----------
    learner : Learner
        What has fitted.
    container : str
        What the user's own classifiers want their columns in.
    classes : array
        The labels.
    most_frequent : int
        Which of them most rows had.
    names : sequence of str
        Every column, in the order of X.
    readers : mapping of str to ColumnReader
        How a column is read, of those that some stage sees.
    fitted : mapping of tuple of str to classifier
        The fitted classifier of each set of columns.
    guard : InputGuard or None
        What was learned of all these columns.
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
        """Say how a column is read."""
        return self.readers[name] if name in self.readers else self._refuse([name])

    def fit(self, features: tuple[str, ...], number: int | None = None) -> Any:  # noqa: ARG002
        """Find the classifier of a set of columns."""
        return self.fitted[features] if features in self.fitted else self._refuse(features)

    def guarded(self, guard: Any, used: Sequence[str]) -> InputGuard:  # noqa: ARG002  # as Training
        """Give what the guard learned of some columns."""
        known = {} if self.guard is None else self.guard.learned_
        unknown = [name for name in used if name not in known]
        if self.guard is None or unknown:
            self._refuse(unknown)
        fitted: InputGuard = clone(self.guard)
        fitted.learned_ = FrozenMapping({name: known[name] for name in used})
        return fitted

    def _refuse(self, features: Sequence[str]) -> Any:
        raise ArtifactError(
            f"No stage on {quoted(features)} was in the file that this search was loaded from, and "
            "training rows are not kept; fit the search again, or dump it after cascade(candidate) "
            "of every candidate that may be chosen."
        )
