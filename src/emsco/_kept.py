"""What a file keeps of training: the fitted stages and what they know of columns, but no rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from emsco._decide import Judge
from emsco._encoding import ColumnEncoding
from emsco._estimator import EstimatorStage, FinalStage
from emsco._frozen import FrozenMapping
from emsco._linear import LinearStage, ReadFirst
from emsco.exceptions import ArtifactError, quoted
from emsco.guard import InputGuard, Range


@dataclass(frozen=True)
class Kept:
    """Stands in for `Training` where the rows are gone: it finds stages, and fits none.

    Parameters
    ----------
    estimator : classifier or None
        What was fitted; None stands for the default one.
    container : str
        What the estimator wants its columns in.
    classes : array
        The labels.
    most_frequent : int
        Which of them most rows had.
    names : sequence of str
        Every column, in the order of X.
    missing : mapping of str to bool
        Whether training had missing values, by column.
    numbers : mapping of str to bool
        Whether training had numbers, by column, where that is known and no encoding tells it.
    encodings : mapping of str to ColumnEncoding
        How the default classifier reads a column.
    fitted : mapping of tuple of str to classifier
        The fitted classifier of each set of columns.
    guard : InputGuard or None
        What was learned of all these columns.
    final : fitted model or None
        What judges by all columns together instead.
    """

    estimator: Any
    container: str
    classes: NDArray[Any]
    most_frequent: int
    names: Sequence[str]
    missing: Mapping[str, bool]
    numbers: Mapping[str, bool]
    encodings: Mapping[str, ColumnEncoding]
    fitted: Mapping[tuple[str, ...], Any]
    guard: InputGuard | None = None
    final: Any = None

    @property
    def columns(self) -> Mapping[str, NDArray[Any]]:
        """Every column, without rows."""
        return dict.fromkeys(self.names, np.empty(0))

    def encoding(self, name: str) -> ColumnEncoding:
        """Say how the default classifier reads a column."""
        return self.encodings[name] if name in self.encodings else self._refuse([name])

    def missing_seen(self, name: str) -> bool:
        """Say whether training had missing values in a column."""
        return self.missing[name] if name in self.missing else self._refuse([name])

    def numeric(self, used: Iterable[str]) -> dict[str, bool]:
        """Say in which columns training had numbers; where no file tells it, a guard may."""
        learned = {} if self.guard is None else self.guard.learned_
        by_guard = {name: True for name in used if isinstance(learned.get(name), Range)}
        return by_guard | {name: self.numbers[name] for name in used if name in self.numbers}

    def stage(self, features: tuple[str, ...], number: int) -> tuple[Any, Judge]:
        """Find the classifier of a stage; give it and what judges by it."""
        if self.final is not None and len(features) == len(self.names):
            return self.final, FinalStage.of(self.final, self.container, features, self.classes)
        if features not in self.fitted:
            self._refuse(features)
        fitted = self.fitted[features]
        if self.estimator is None:
            encodings = {feature: self.encoding(feature) for feature in features}
            judge = LinearStage.compile(features, encodings, fitted)
            return fitted, judge if self.final is None else ReadFirst(encodings, judge)
        return fitted, EstimatorStage(fitted, number, self.container, features)

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
