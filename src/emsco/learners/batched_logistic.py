"""Logistic regressions for many source sets at once, with their labels and confidences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from emsco.core.label_rule import LabelRule
from emsco.learners._logistic_loss import TrainingRows, class_base, make_rows, pull_of, softmax
from emsco.learners._newton import BATCH, FAMILY, fit_sets, is_wide, one_thread
from emsco.learners.protocol import Fold, Outcomes
from emsco.learners.training import Training
from emsco.rows.encoding import Array

MANY_UNKNOWNS = 500  # from here on a fit takes about a second
_ROWS_AT_ONCE = 2**13  # evaluated at a time, with BATCH sets: 16 MB


@dataclass(frozen=True)
class BatchedLogistic:
    """The default classifier, fitted for many sets at once by Newton's method."""

    folds: tuple[_EncodedFold, ...]
    n_rows: int

    @property
    def chunk(self) -> int:
        """Enough sets to share their products or their start, and few enough for workers.

        If a fit takes about a second, half a family, so that progress is shown often.
        """
        if self.is_slow:
            return FAMILY // 2
        return FAMILY if self.is_wide else 256

    @property
    def is_wide(self) -> bool:
        """Whether each set is fitted on its own columns only, because it has many."""
        return is_wide(self.folds[0].train)

    @property
    def is_slow(self) -> bool:
        """Whether fits take so long that progress is shown after every task."""
        return self.n_unknowns >= MANY_UNKNOWNS

    @property
    def parts(self) -> tuple[BatchedLogistic, ...]:
        """One for each fold."""
        return tuple(replace(self, folds=(f,), n_rows=f.test.shape[1]) for f in self.folds)

    @property
    def n_unknowns(self) -> int:
        """The number of weights of the fit of all sources: one per score and encoded column."""
        return self.folds[0].train.n_scores * len(self.folds[0].source)

    @classmethod
    def learn(cls, training: Training, folds: Sequence[Fold]) -> BatchedLogistic:
        """Learn the encoding once per fold and encode its rows."""
        training.refuse_missing_class(folds)
        encoded = tuple(_EncodedFold.learn(training, fold) for fold in folds)
        return cls(encoded, sum(len(fold.test) for fold in folds))

    def outcomes(self, sets: NDArray[np.bool_]) -> Outcomes:
        """Return confidences and label codes, sets x evaluation rows."""
        confidence = np.empty((len(sets), self.n_rows))
        label = np.empty((len(sets), self.n_rows), dtype=np.uint8)
        end = 0
        with one_thread():
            for fold in self.folds:
                rows = slice(end, end := end + fold.test.shape[1])
                fold.judge(sets, confidence[:, rows], label[:, rows])
        return confidence, label


@dataclass(frozen=True)
class _EncodedFold:
    """A fold's rows as encoded columns, and the source of each column."""

    train: TrainingRows
    test: Array  # columns x rows
    source: NDArray[np.intp]  # of each column
    rule: LabelRule

    @classmethod
    def learn(cls, training: Training, fold: Fold) -> _EncodedFold:
        train = training.take(fold.train)
        features = [feature for source in training.sources for feature in source]
        test = [training.tested(fold, train, name).T for name in features]
        widths = [sum(train.encoding(f).width for f in source) for source in training.sources]
        return cls(
            make_rows(_stacked([train.encoded(f).T for f in features]), train.codes, train.weight),
            _stacked(test),
            np.repeat(np.arange(len(widths)), widths),
            training.rule,
        )

    def judge(self, sets: NDArray[np.bool_], confidence: Array, label: NDArray[np.uint8]) -> None:
        """Fit every set and write its outcomes."""
        order = self._order(sets)
        weights = fit_sets(self.train, sets[order][:, self.source])
        for first in range(0, len(order), BATCH):
            places = order[first : first + BATCH]
            own = np.ascontiguousarray(weights[:, :, first : first + BATCH].transpose(0, 2, 1))
            for start in range(0, self.test.shape[1], _ROWS_AT_ONCE // len(own)):
                rows = slice(start, start + _ROWS_AT_ONCE // len(own))
                scores = own[:, :, 1:] @ self.test[:, rows]
                scores += own[:, :, :1]
                said, _, sure = self.rule.judge(_probabilities(scores))
                confidence[places, rows], label[places, rows] = sure, said

    def _order(self, sets: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Sort sets as numbers whose highest bits are the most important sources.

        Neighbours then differ by unimportant sources, so one is a good start for the other.
        """
        pull = np.bincount(self.source, pull_of(self.train), minlength=sets.shape[1])
        packed = np.packbits(sets[:, np.argsort(-pull, kind="stable")], axis=1)
        padded = np.zeros((len(sets), -(-packed.shape[1] // 8) * 8), dtype=np.uint8)
        padded[:, : packed.shape[1]] = packed
        words = padded.view(">u8").astype(np.uint64)
        order: NDArray[np.intp] = np.lexsort(words.T[::-1])
        return order


def _probabilities(scores: Array) -> Sequence[Array]:
    """Return the probability of each class; overwrites scores x sets x rows."""
    if len(scores) > 1:
        probability: Array = softmax(np.tensordot(class_base(len(scores) + 1), scores, axes=1))
        return list(probability)
    yes = scores[0]  # as a linear stage computes it
    np.maximum(yes, -700.0, out=yes)
    np.negative(yes, out=yes)
    np.exp(yes, out=yes)
    yes += 1.0
    np.divide(1.0, yes, out=yes)
    return 1.0 - yes, yes


def _stacked(blocks: list[Array]) -> Array:
    return np.ascontiguousarray(np.vstack(blocks))
