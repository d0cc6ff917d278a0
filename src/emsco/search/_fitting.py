"""Fits a stage's classifier for many source sets: what each says, and how surely, on fresh rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import _check_method_params
from threadpoolctl import ThreadpoolController

from emsco._columns import Columns, assemble, has_missing, invalid, plain, refuse_invalid
from emsco._encoding import Array, ColumnEncoding, learn, read
from emsco._estimator import EstimatorStage
from emsco.exceptions import ClassesError
from emsco.masked import MaskedClassifier, positions
from emsco.search._losses import TrainingRows, class_base, make_rows, pull_of, softmax
from emsco.search._newton import BATCH, FAMILY, fit_sets, is_wide

MANY_UNKNOWNS = 500  # from which on a fit takes a second or so
_MOST_CLASSES = 256  # that a byte tells apart
_ROWS_AT_ONCE = 2**13  # evaluated at a time, with BATCH sets: 16 MB

Outcomes = tuple[NDArray[np.float64], NDArray[np.uint8]]


@dataclass(frozen=True)
class Fold:
    """One split: rows to fit on and rows to evaluate, which may be of another table."""

    train: NDArray[np.intp]
    test: NDArray[np.intp]
    test_columns: Columns | None = None  # None: of the same


class SetFitter(Protocol):
    """Fits one classifier a source set and evaluates it."""

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


def make_fitter(
    estimator: Any,
    columns: Columns,
    container: str,
    labels: NDArray[Any],
    folds: Sequence[Fold],
    source_features: Sequence[Sequence[str]],
    params: Mapping[str, Any] | None = None,
) -> SetFitter:
    """Choose the fastest way to fit this estimator; None stands for the default one.

    `params` are what its `fit` receives, arrays in them a value a row.
    """
    params = params or {}
    if estimator is None:
        for name in params.keys() - {"sample_weight"}:
            raise TypeError(f"The default classifier takes sample_weight, but no {name!r}.")
        return BatchedLogistic.learn(columns, labels, folds, source_features, **params)
    if isinstance(estimator, MaskedClassifier):
        return MaskedFits.learn(
            estimator, columns, container, labels, folds, source_features, params
        )
    return EstimatorFits.learn(
        estimator, columns, container, labels, folds, source_features, params
    )


@dataclass(frozen=True)
class BatchedLogistic:
    """The default classifier, many sets at once by Newton's method."""

    folds: tuple[_EncodedFold, ...]
    n_rows: int

    @property
    def chunk(self) -> int:
        """Enough sets to share their products, or a family's start; few enough for workers.

        Where a fit takes a second, half a family, so that progress is told often.
        """
        if self.is_slow:
            return FAMILY // 2
        return FAMILY if is_wide(self.folds[0].train) else 256

    @property
    def is_slow(self) -> bool:
        """Whether a fit takes so long that progress is told after every task."""
        return self.n_unknowns >= MANY_UNKNOWNS

    @property
    def n_unknowns(self) -> int:
        """How many weights the fit of all sources has: a score's for every encoded column."""
        return self.folds[0].train.n_scores * len(self.folds[0].source)

    @classmethod
    def learn(
        cls,
        columns: Columns,
        labels: NDArray[Any],
        folds: Sequence[Fold],
        source_features: Sequence[Sequence[str]],
        sample_weight: Array | None = None,
    ) -> BatchedLogistic:
        """Learn the encoding once a fold and encode its rows."""
        _refuse_missing_class(labels, folds, sample_weight)
        codes = np.unique(labels, return_inverse=True)[1]
        encoded = tuple(
            _EncodedFold.learn(columns, codes, fold, source_features, sample_weight)
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
        columns: Columns,
        codes: NDArray[np.intp],
        fold: Fold,
        source_features: Sequence[Sequence[str]],
        sample_weight: Array | None,
    ) -> _EncodedFold:
        weight = None if sample_weight is None else sample_weight[fold.train]
        encoding = _learn_columns(columns, source_features, fold.train, weight)
        train = _read_columns(encoding, columns, fold.train)
        test = _read_columns(encoding, fold.test_columns or columns, fold.test)
        features = [feature for source in source_features for feature in source]
        widths = [sum(encoding[f].width for f in source) for source in source_features]
        return cls(
            make_rows(_encode(encoding, features, train), codes[fold.train], weight),
            _encode(encoding, features, test),
            np.repeat(np.arange(len(widths)), widths),
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
                sure, said = _answers(scores)
                confidence[places, rows], label[places, rows] = sure, said

    def _order(self, sets: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Order sets as numbers whose highest bits are the sources that matter most.

        Neighbours then differ by sources that matter little, and one is a good start for the other.
        """
        pull = np.bincount(self.source, pull_of(self.train), minlength=sets.shape[1])
        packed = np.packbits(sets[:, np.argsort(-pull, kind="stable")], axis=1)
        padded = np.zeros((len(sets), -(-packed.shape[1] // 8) * 8), dtype=np.uint8)
        padded[:, : packed.shape[1]] = packed
        words = padded.view(">u8").astype(np.uint64)
        order: NDArray[np.intp] = np.lexsort(words.T[::-1])
        return order


def _answers(scores: Array) -> tuple[Array, NDArray[Any]]:
    """Give confidence and code of the likeliest class, writing over scores x sets x rows."""
    if len(scores) > 1:
        probability = softmax(np.tensordot(class_base(len(scores) + 1), scores, axes=1))
        return probability.max(axis=0), probability.argmax(axis=0)
    yes = scores[0]  # as a linear stage computes it
    np.maximum(yes, -700.0, out=yes)
    np.negative(yes, out=yes)
    np.exp(yes, out=yes)
    yes += 1.0
    np.divide(1.0, yes, out=yes)
    no = 1.0 - yes
    said = yes > no
    return np.maximum(yes, no, out=no), said


@dataclass(frozen=True)
class EstimatorFits:
    """Any classifier, one clone a set and fold."""

    estimator: Any
    columns: Columns
    container: str
    labels: NDArray[Any]
    folds: tuple[Fold, ...]
    source_features: tuple[tuple[str, ...], ...]
    params: Mapping[str, Any]

    chunk = 1  # a fit is long, and none is of use to another
    is_slow = False  # a task is one fit

    @classmethod
    def learn(
        cls,
        estimator: Any,
        columns: Columns,
        container: str,
        labels: NDArray[Any],
        folds: Sequence[Fold],
        source_features: Sequence[Sequence[str]],
        params: Mapping[str, Any],
    ) -> EstimatorFits:
        """Check the classes."""
        _refuse_missing_class(labels, folds, params.get("sample_weight"))
        return cls(
            estimator,
            columns,
            container,
            labels,
            tuple(folds),
            tuple(tuple(features) for features in source_features),
            params,
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
        fold = self.folds[number]
        params = _check_method_params(self.labels, self.params, indices=fold.train)
        stage = EstimatorStage(clone(self.estimator), None, self.container, tuple(features))
        train = {f: self.columns[f][fold.train] for f in features}
        stage.fit(train, self.labels[fold.train], params)
        test_columns = fold.test_columns or self.columns
        return np.column_stack(stage({f: test_columns[f][fold.test] for f in features}))


@dataclass(frozen=True)
class MaskedFits:
    """One classifier a fold that answers for every set: fitted once, then only asked."""

    fitted: tuple[MaskedClassifier, ...]
    test: tuple[Any, ...]  # rows with all columns, a fold each
    n_rows: int

    chunk = 256  # sets a task: enough to share a walk through the trees, few enough for workers
    is_slow = False

    @classmethod
    def learn(
        cls,
        estimator: MaskedClassifier,
        columns: Columns,
        container: str,
        labels: NDArray[Any],
        folds: Sequence[Fold],
        source_features: Sequence[Sequence[str]],
        params: Mapping[str, Any],
    ) -> MaskedFits:
        """Fit one clone a fold, telling it the sources."""
        _refuse_missing_class(labels, folds, params.get("sample_weight"))
        names = tuple(columns)
        sources = positions(source_features, names)
        fitted, test = [], []
        for fold in folds:
            stage = EstimatorStage(clone(estimator), None, container, names)
            own = dict(_check_method_params(labels, params, indices=fold.train))
            train = {name: column[fold.train] for name, column in columns.items()}
            stage.fit(train, labels[fold.train], own | {"sources": sources})
            fitted.append(stage.estimator)
            tested = fold.test_columns or columns
            test.append(assemble(container, names, {f: tested[f][fold.test] for f in names}))
        return cls(tuple(fitted), tuple(test), sum(len(fold.test) for fold in folds))

    def outcomes(self, sets: NDArray[np.bool_]) -> Outcomes:
        """Give confidence and label code, sets x evaluation rows."""
        probability = np.concatenate(
            [
                masked.predict_proba_of(rows, sets)
                for masked, rows in zip(self.fitted, self.test, strict=True)
            ],
            axis=1,
        )
        return probability.max(axis=2), probability.argmax(axis=2).astype(np.uint8)


@dataclass(frozen=True)
class WithFinal:
    """Fits as another does, but all sources together are a final model's, which is always sure."""

    fitter: SetFitter
    codes: NDArray[np.intp]  # of its answers, an evaluation row each

    @property
    def n_rows(self) -> int:
        """How many evaluation rows there are."""
        return self.fitter.n_rows

    @property
    def chunk(self) -> int:
        """How many sets to fit in one task."""
        return self.fitter.chunk

    @property
    def is_slow(self) -> bool:
        """Whether progress is told after every task."""
        return self.fitter.is_slow

    def outcomes(self, sets: NDArray[np.bool_]) -> Outcomes:
        """Give confidence and label code, sets x evaluation rows."""
        whole = sets.all(axis=1)
        confidence = np.ones((len(sets), self.n_rows))
        label = np.tile(self.codes.astype(np.uint8), (len(sets), 1))
        if not whole.all():
            confidence[~whole], label[~whole] = self.fitter.outcomes(sets[~whole])
        return confidence, label


def _learn_columns(
    columns: Columns,
    source_features: Sequence[Sequence[str]],
    rows: NDArray[np.intp],
    weight: Array | None,
) -> dict[str, ColumnEncoding]:
    """Learn how to encode the columns of every source from a fold's training rows."""
    weight = np.ones(len(rows)) if weight is None else weight
    used = [feature for features in source_features for feature in features]
    missing = {name for name in used if has_missing(plain(columns[name]))}
    return {
        name: learn(columns[name][rows], name, weight, may_be_missing=name in missing)
        for name in used
    }


def _read_columns(
    encoding: Mapping[str, ColumnEncoding], columns: Columns, rows: NDArray[np.intp]
) -> dict[str, NDArray[Any]]:
    """Read rows as their encoding needs them, or say which value cannot be judged."""
    values = {}
    for name, learned in encoding.items():
        given = columns[name][rows]
        values[name] = read(learned, given)
        bad = invalid(values[name], missing_seen=learned.missing_seen)
        if bad is not None:
            at = int(np.argmax(bad))
            value, row = values[name][at : at + 1], int(rows[at])
            refuse_invalid(
                value, name, missing_seen=learned.missing_seen, first_row=row, given=given[at:]
            )
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
    labels: NDArray[Any], folds: Sequence[Fold], sample_weight: Array | None
) -> None:
    """Refuse folds from which a classifier cannot learn every class."""
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) > _MOST_CLASSES:
        raise ClassesError(f"There may be {_MOST_CLASSES} classes at most, got {len(classes)}.")
    for number, fold in enumerate(folds):
        rows = fold.train if sample_weight is None else fold.train[sample_weight[fold.train] > 0]
        counts = np.bincount(codes[rows], minlength=len(classes))
        if not counts.all():
            counted = "" if sample_weight is None else " with a sample_weight above 0"
            raise ClassesError(
                f"Every training fold must hold every class; fold {number} has no row{counted} of "
                f"the class {classes.tolist()[np.argmin(counts)]!r}; stratify the folds, or take "
                "fewer."
            )
