"""What fits the classifiers of stages, and what judges rows by them: the parts that plug in.

A learner is chosen by what the user gave as `estimator`, in one place: `learner_of`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from emsco.learners.folds import Fold
from emsco.rows.columns import Columns
from emsco.rows.encoding import ColumnEncoding
from emsco.rows.reading import ColumnReader

if TYPE_CHECKING:
    from sklearn.utils import Tags

    from emsco.learners.training import Training

Outcomes: TypeAlias = tuple[NDArray[np.float64], NDArray[np.uint8]]


class Judge(Protocol):
    """A stage's classifier as the decision loop calls it."""

    @property
    def fitted(self) -> Any:
        """What was fitted, as files and fingerprints take it."""

    @property
    def estimator(self) -> Any:
        """The fitted classifier as scikit-learn knows it."""

    def __call__(self, columns: Columns) -> Sequence[NDArray[np.float64]]:
        """Give the probability of each class, a value a row; every column acquired is there."""


class SetFits(Protocol):
    """Fits one classifier a source set and fold, and evaluates it.

    One that can be divided by evaluation rows, such as fold by fold, may have `parts`: the same for
    some of the rows each, in their order. Workers then fit parts side by side.
    """

    @property
    def n_rows(self) -> int:
        """How many evaluation rows there are: the test rows of all folds, in order."""

    @property
    def chunk(self) -> int:
        """How many sets to fit in one task: fixed, so that workers change no result."""

    @property
    def is_slow(self) -> bool:
        """Whether a fit takes so long that progress is told after every task."""

    def outcomes(self, sets: NDArray[np.bool_]) -> Outcomes:
        """Give confidence and label code, sets x evaluation rows.

        `sets` says for each set which sources it has, at least one.
        """


def parts_of(fits: SetFits) -> Sequence[SetFits]:
    """Give what fits some of the evaluation rows each, in their order."""
    return getattr(fits, "parts", None) or (fits,)


class Stages(Protocol):
    """What stages are made of: rows to fit on, or what a file keeps of them."""

    @property
    def learner(self) -> Learner:
        """What fits, or has fitted."""

    @property
    def container(self) -> str:
        """What the user's own classifiers want their columns in."""

    @property
    def names(self) -> Sequence[str]:
        """Every column, in the order of X."""

    @property
    def classes(self) -> NDArray[Any]:
        """The labels."""

    @property
    def most_frequent(self) -> int:
        """Which of them most rows have."""

    @property
    def fitted(self) -> Mapping[tuple[str, ...], Any]:
        """What was fitted so far, by the columns it sees."""

    def reader(self, name: str) -> ColumnReader:
        """Say how a column is read."""

    def guarded(self, guard: Any, used: Sequence[str]) -> Any:
        """Give a guard that has learned some of the columns."""

    def fit(self, features: tuple[str, ...], number: int | None = None) -> Any:
        """Fit the classifier of a set of columns, or find it fitted; errors tell the stage."""


class Learner(Protocol):
    """Fits the classifier of a stage: alone, or for many source sets at once.

    An estimator of the user's names its own by a method `emsco_learner()`; `EstimatorLearner` has
    everything for one that takes its columns in their container, and may be subclassed.
    `emsco.testing.check_learner` holds any of them to what is said here.
    """

    @property
    def estimator(self) -> Any:
        """What the user gave; None for the default classifier."""

    @property
    def encodes(self) -> bool:
        """Whether stages take encoded numbers; else they take columns as they were given."""

    @property
    def block_rows(self) -> int:
        """How many rows are decided at a time."""

    @property
    def is_one_model(self) -> bool:
        """Whether one classifier answers for every set."""

    @property
    def is_calibrated(self) -> bool:
        """Whether confidences are calibrated by the way they are made."""

    def tags(self, tags: Tags) -> Tags:
        """Tell scikit-learn what a cascade of such stages takes."""

    def routed(self) -> Any:
        """Give the estimator that metadata of `fit` is routed to."""

    def takes_weights(self) -> bool:
        """Say whether `sample_weight` can be given."""

    def fit(self, training: Training, features: tuple[str, ...], number: int | None = None) -> Any:
        """Fit the classifier that sees these columns; errors tell the number of the stage."""

    def judge(self, fitted: Any, features: tuple[str, ...], stages: Stages, number: int) -> Judge:
        """Make what judges by a fitted classifier, as the stage of a number."""

    def fits(self, training: Training, folds: Sequence[Fold]) -> SetFits:
        """Prepare to fit any source set on each of the folds."""

    def separate(self) -> Learner:
        """Give what fits each set by itself; where there is one model for all, another learner."""


Encodings: TypeAlias = Mapping[str, ColumnEncoding]
