"""Fits a stage's classifier for many source sets: what each says, and how surely, on fresh rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from threadpoolctl import ThreadpoolController

from emsco._columns import Column, assemble, invalid, refuse_invalid
from emsco._encoding import Array, ColumnEncoding, learn, read
from emsco._linear import LinearStage, fit_default
from emsco.exceptions import ClassesError
from emsco.search._newton import BATCH, TrainingRows, fit_sets

_MOST_CLASSES = 256  # that a byte tells apart
_ROWS_AT_ONCE = 2**13  # evaluated at a time, with BATCH sets: 16 MB

Outcomes = tuple[NDArray[np.float64], NDArray[np.uint8]]


@dataclass(frozen=True)
class Fold:
    """One split: rows to fit on and rows to evaluate."""

    train: NDArray[np.intp]
    test: NDArray[np.intp]


class SetFitter(Protocol):
    """Fits one classifier a source set and evaluates it."""

    @property
    def n_rows(self) -> int:
        """How many evaluation rows there are: the test rows of all folds, in order."""

    def outcomes(self, sets: NDArray[np.bool_]) -> Outcomes:
        """Give confidence and label code, sets x evaluation rows.

        `sets` says for each set which sources it has, at least one.
        """


def make_fitter(
    estimator: Any,
    columns: Mapping[str, Column],
    container: str,
    y_codes: NDArray[np.intp],
    n_classes: int,
    folds: Sequence[Fold],
    source_features: Sequence[Sequence[str]],
    sample_weight: Array | None = None,
) -> SetFitter:
    """Choose the fastest way to fit this estimator; None stands for the default one."""
    if estimator is None and n_classes == 2:
        return BatchedLogistic.learn(columns, y_codes, folds, source_features, sample_weight)
    return EstimatorFits.learn(
        estimator, columns, container, y_codes, n_classes, folds, source_features, sample_weight
    )


@dataclass(frozen=True)
class BatchedLogistic:
    """The default classifier for two classes, all sets at once by Newton's method."""

    folds: tuple[_EncodedFold, ...]
    n_rows: int

    @classmethod
    def learn(
        cls,
        columns: Mapping[str, Column],
        y_codes: NDArray[np.intp],
        folds: Sequence[Fold],
        source_features: Sequence[Sequence[str]],
        sample_weight: Array | None = None,
    ) -> BatchedLogistic:
        """Learn the encoding once a fold and encode its rows."""
        _refuse_missing_class(y_codes, 2, folds, sample_weight)
        encoded = tuple(
            _EncodedFold.learn(columns, y_codes, fold, source_features, sample_weight)
            for fold in folds
        )
        return cls(encoded, sum(len(fold.test) for fold in folds))

    def outcomes(self, sets: NDArray[np.bool_]) -> Outcomes:
        """Give confidence and label code, sets x evaluation rows."""
        confidence = np.empty((len(sets), self.n_rows))
        label = np.empty((len(sets), self.n_rows), dtype=np.uint8)
        end = 0
        # Workers share the cores by sets; and the number of threads could change the last bits.
        with _blas().limit(limits=1, user_api="blas"):
            for fold in self.folds:
                rows = slice(end, end := end + fold.test.shape[1])
                fold.judge(sets, confidence[:, rows], label[:, rows])
        return confidence, label


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


@dataclass(frozen=True)
class _EncodedFold:
    """A fold's rows as encoded columns, and the source that each of these belongs to."""

    train: TrainingRows
    test: Array  # columns x rows
    source: NDArray[np.intp]  # of each column

    @classmethod
    def learn(
        cls,
        columns: Mapping[str, Column],
        y_codes: NDArray[np.intp],
        fold: Fold,
        source_features: Sequence[Sequence[str]],
        sample_weight: Array | None,
    ) -> _EncodedFold:
        weight = None if sample_weight is None else sample_weight[fold.train]
        encoding = _learn_columns(columns, source_features, fold.train, weight)
        train = _read_columns(encoding, columns, fold.train)
        test = _read_columns(encoding, columns, fold.test)
        features = [feature for source in source_features for feature in source]
        widths = [sum(encoding[f].width for f in source) for source in source_features]
        return cls(
            TrainingRows.of(_encode(encoding, features, train), y_codes[fold.train] == 1, weight),
            _encode(encoding, features, test),
            np.repeat(np.arange(len(widths)), widths),
        )

    def judge(self, sets: NDArray[np.bool_], confidence: Array, label: NDArray[np.uint8]) -> None:
        """Fit every set and write its outcomes."""
        order = self._order(sets)
        weights = fit_sets(self.train, sets[order][:, self.source])
        for first in range(0, len(order), BATCH):
            places = order[first : first + BATCH]
            own = np.ascontiguousarray(weights[:, first : first + BATCH].T)
            for start in range(0, self.test.shape[1], _ROWS_AT_ONCE):
                rows = slice(start, start + _ROWS_AT_ONCE)
                yes = own[:, 1:] @ self.test[:, rows]
                yes += own[:, :1]
                _logistic(yes)
                no = 1.0 - yes
                label[places, rows] = yes > no
                confidence[places, rows] = np.maximum(yes, no, out=no)

    def _order(self, sets: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Order sets as numbers whose highest bits are the sources that matter most.

        Neighbours then differ by sources that matter little, and one is a good start for the other.
        """
        pull = np.bincount(self.source, self.train.pull, minlength=sets.shape[1])
        packed = np.packbits(sets[:, np.argsort(-pull, kind="stable")], axis=1)
        padded = np.zeros((len(sets), -(-packed.shape[1] // 8) * 8), dtype=np.uint8)
        padded[:, : packed.shape[1]] = packed
        words = padded.view(">u8").astype(np.uint64)
        order: NDArray[np.intp] = np.lexsort(words.T[::-1])
        return order


def _logistic(score: Array) -> None:
    """Turn scores into probabilities, in place and as a linear stage does."""
    np.maximum(score, -700.0, out=score)
    np.negative(score, out=score)
    np.exp(score, out=score)
    score += 1.0
    np.divide(1.0, score, out=score)


@dataclass(frozen=True)
class EstimatorFits:
    """Any classifier, one clone a set and fold; None stands for the default one."""

    estimator: Any
    columns: Mapping[str, Column]
    container: str
    y_codes: NDArray[np.intp]
    folds: tuple[Fold, ...]
    source_features: tuple[tuple[str, ...], ...]
    sample_weight: Array | None
    encodings: tuple[Mapping[str, ColumnEncoding], ...]  # a fold each; empty ones unless default

    @classmethod
    def learn(
        cls,
        estimator: Any,
        columns: Mapping[str, Column],
        container: str,
        y_codes: NDArray[np.intp],
        n_classes: int,
        folds: Sequence[Fold],
        source_features: Sequence[Sequence[str]],
        sample_weight: Array | None = None,
    ) -> EstimatorFits:
        """Check the classes and, for the default classifier, learn the encodings."""
        _refuse_missing_class(y_codes, n_classes, folds, sample_weight)
        encodings: list[Mapping[str, ColumnEncoding]] = [{} for _ in folds]
        if estimator is None:
            for i, fold in enumerate(folds):
                weight = None if sample_weight is None else sample_weight[fold.train]
                encodings[i] = _learn_columns(columns, source_features, fold.train, weight)
        return cls(
            estimator,
            columns,
            container,
            y_codes,
            tuple(folds),
            tuple(tuple(features) for features in source_features),
            sample_weight,
            tuple(encodings),
        )

    @property
    def n_rows(self) -> int:
        """How many evaluation rows there are."""
        return sum(len(fold.test) for fold in self.folds)

    def outcomes(self, sets: NDArray[np.bool_]) -> Outcomes:
        """Give confidence and label code, sets x evaluation rows."""
        confidence = np.empty((len(sets), self.n_rows))
        label = np.empty((len(sets), self.n_rows), dtype=np.uint8)
        for i, members in enumerate(sets):
            chosen = {f for source in np.flatnonzero(members) for f in self.source_features[source]}
            features = [name for name in self.columns if name in chosen]
            probability = np.concatenate(
                [self._probability(features, number) for number in range(len(self.folds))]
            )
            confidence[i] = probability.max(axis=1)
            label[i] = probability.argmax(axis=1)
        return confidence, label

    def _probability(self, features: list[str], number: int) -> Array:
        """Fit one set on a fold and give its test rows' probabilities, rows x classes."""
        fold, encoding = self.folds[number], self.encodings[number]
        params = {}
        if self.sample_weight is not None:
            params["sample_weight"] = self.sample_weight[fold.train]
        labels = self.y_codes[fold.train]
        if self.estimator is None:
            own = {feature: encoding[feature] for feature in features}
            train = _encode(own, features, _read_columns(own, self.columns, fold.train)).T
            fitted = fit_default(train, labels, **params)
            stage = LinearStage.compile(features, own, fitted)
            return np.column_stack(stage(_read_columns(own, self.columns, fold.test)))
        train, test = (
            assemble(self.container, features, {f: self.columns[f][rows] for f in features})
            for rows in (fold.train, fold.test)
        )
        fitted = clone(self.estimator).fit(train, labels, **params)
        return np.asarray(fitted.predict_proba(test), dtype=np.float64)


def _learn_columns(
    columns: Mapping[str, Column],
    source_features: Sequence[Sequence[str]],
    rows: NDArray[np.intp],
    weight: Array | None,
) -> dict[str, ColumnEncoding]:
    """Learn how to encode the columns of every source from a fold's training rows."""
    weight = np.ones(len(rows)) if weight is None else weight
    used = [feature for features in source_features for feature in features]
    return {name: learn(columns[name][rows], name, weight) for name in used}


def _read_columns(
    encoding: Mapping[str, ColumnEncoding], columns: Mapping[str, Column], rows: NDArray[np.intp]
) -> dict[str, NDArray[Any]]:
    """Read rows as their encoding needs them, or say which value cannot be judged."""
    values = {}
    for name, learned in encoding.items():
        values[name] = read(learned, columns[name][rows], name)
        bad = invalid(values[name], missing_seen=learned.missing_seen)
        if bad is not None:
            first = int(np.argmax(bad))
            value, row = values[name][first : first + 1], int(rows[first])
            refuse_invalid(value, name, missing_seen=learned.missing_seen, first_row=row)
    return values


def _encode(
    encoding: Mapping[str, ColumnEncoding],
    features: Sequence[str],
    values: Mapping[str, NDArray[Any]],
) -> Array:
    """Give the blocks of some features one under the other, columns x rows."""
    return np.ascontiguousarray(
        np.vstack([encoding[feature].encode(values[feature]).T for feature in features])
    )


def _refuse_missing_class(
    y_codes: NDArray[np.intp],
    n_classes: int,
    folds: Sequence[Fold],
    sample_weight: Array | None,
) -> None:
    """Refuse folds from which a classifier cannot learn every class."""
    if n_classes > _MOST_CLASSES:
        raise ClassesError(f"There may be {_MOST_CLASSES} classes at most, got {n_classes}.")
    for number, fold in enumerate(folds):
        rows = fold.train if sample_weight is None else fold.train[sample_weight[fold.train] > 0]
        counts = np.bincount(y_codes[rows], minlength=n_classes)
        if not counts.all():
            raise ClassesError(
                f"Every training fold must hold every class; fold {number} has no row of the class "
                f"with code {int(np.argmin(counts))}; stratify the folds, or take fewer."
            )
