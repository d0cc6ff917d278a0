"""Protocols of the parts that fit the classifiers of stages and judge rows by them.

`learner_of` alone chooses a learner, by what the user gave as `estimator`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from emsco.core.label_rule import LabelRule
from emsco.rows.column_reader import ColumnReader
from emsco.rows.columns import Column, Columns
from emsco.rows.encoding import ColumnEncoding

if TYPE_CHECKING:
    from sklearn.utils import Tags

Outcomes: TypeAlias = tuple[NDArray[np.float64], NDArray[np.uint8]]
Encodings: TypeAlias = Mapping[str, ColumnEncoding]


@dataclass(frozen=True)
class Fold:
    """One split: rows to fit on and rows to evaluate, which may be from another table."""

    train: NDArray[np.intp]
    test: NDArray[np.intp]
    test_columns: Columns | None = None  # None: the same table

    def tested(self, columns: Columns, names: Iterable[str]) -> dict[str, Column]:
        """Return some columns of the rows to evaluate; `columns` are those of the rows to fit."""
        table = self.test_columns or columns
        return {name: table[name][self.test] for name in names}


class Judge(Protocol):
    """A stage's classifier as the decision loop calls it."""

    @property
    def fitted(self) -> Any:
        """The fitted object, in the form that files and fingerprints use."""

    @property
    def estimator(self) -> Any:
        """The fitted classifier as a scikit-learn estimator."""

    def __call__(self, columns: Columns) -> Sequence[NDArray[np.float64]]:
        """Return the probability of each class, one value per row; gets every acquired column."""


class SetFits(Protocol):
    """Fits one classifier per source set and fold, and evaluates it.

    If it can be divided by evaluation rows, such as fold by fold, it may have `parts`: one SetFits
    for each part of the rows, in order. Workers then fit parts in parallel.
    """

    @property
    def n_rows(self) -> int:
        """The number of evaluation rows: the test rows of all folds, in order."""

    @property
    def chunk(self) -> int:
        """The number of sets per task: fixed, so that results do not depend on the workers."""

    @property
    def is_slow(self) -> bool:
        """Whether fits take so long that progress is shown after every task."""

    def outcomes(self, sets: NDArray[np.bool_]) -> Outcomes:
        """Return confidences and label codes, sets x evaluation rows, as `training.rule` judges.

        If labels have weights, the label's share stands for the confidence. `sets` holds the
        sources of each set, at least one.
        """


def parts_of(fits: SetFits) -> Sequence[SetFits]:
    """Return the parts, one for each part of the evaluation rows, in order."""
    return getattr(fits, "parts", None) or (fits,)


class Stages(Protocol):
    """What stages are built from: rows to fit on, or the fitted stages of a file."""

    @property
    def learner(self) -> Learner:
        """The learner that fits, or has fitted, the stages."""

    @property
    def container(self) -> str:
        """The container in which the user's own classifiers get their columns."""

    @property
    def names(self) -> Sequence[str]:
        """Every column, in the order of X."""

    @property
    def classes(self) -> NDArray[Any]:
        """The labels."""

    @property
    def most_frequent(self) -> int:
        """The position of the most frequent label."""

    @property
    def rule(self) -> LabelRule:
        """How probabilities become labels."""

    @property
    def fitted(self) -> Mapping[tuple[str, ...], Any]:
        """The classifiers fitted so far, by the columns they see."""

    def reader(self, name: str) -> ColumnReader:
        """Return how a column is read."""

    def guarded(self, guard: Any, used: Sequence[str]) -> Any:
        """Return a guard that has learned some of the columns."""

    def fit(self, features: tuple[str, ...], number: int | None = None) -> Any:
        """Return the classifier of a set of columns, fitted if necessary; errors name the stage."""


class Learner(Protocol):
    """Fits the classifier of a stage: alone, or for many source sets at once.

    A user's estimator may provide its own learner by a method `emsco_learner()`; subclass
    `EstimatorLearner` if the estimator takes its columns in their container.
    `emsco.testing.check_learner` checks what is stated here. A learner whose outcomes come from
    `training.rule` says so by `takes_label_weights = True`; others are refused with label weights.
    """

    @property
    def estimator(self) -> Any:
        """The estimator that the user gave; None for the default classifier."""

    @property
    def encodes(self) -> bool:
        """Whether stages take encoded numbers; otherwise they take columns as given."""

    @property
    def block_rows(self) -> int:
        """The number of rows decided at a time."""

    @property
    def is_one_model(self) -> bool:
        """Whether one classifier predicts for every set."""

    @property
    def is_calibrated(self) -> bool:
        """Whether the classifier gives calibrated confidences."""

    def tags(self, tags: Tags) -> Tags:
        """Set scikit-learn's tags for a cascade of such stages."""

    def routed(self) -> Any:
        """Return the estimator that metadata of `fit` is routed to."""

    def takes_weights(self) -> bool:
        """Return whether `sample_weight` can be given."""

    def fit(self, training: Any, features: tuple[str, ...], number: int | None = None) -> Any:
        """Fit the classifier that sees these columns of a `Training`; errors name the stage."""

    def judge(self, fitted: Any, features: tuple[str, ...], stages: Stages, number: int) -> Judge:
        """Return the stage of this number that judges by a fitted classifier."""

    def fits(self, training: Any, folds: Sequence[Fold]) -> SetFits:
        """Prepare to fit any source set on each of the folds."""

    def separate(self) -> Learner:
        """Return a learner that fits each set separately, which may be another one."""
