"""The loss of logistic regressions without its penalty, evaluated for many weights at once.

Two classes need one score per row, n classes need n - 1: the penalty is smallest where the weights
of all classes sum to 0, so a basis of such weights is enough. Unknowns are scores x columns, in
this order, and sets lie along the last axis.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import helmert  # type: ignore[import-untyped]  # scipy ships no types

from emsco.rows.encoding import Array

_FEW = 4  # up to so many sets, products of all pairs of columns do not pay off
_BLOCK = 2**16  # rows x sets x scores at a time: what fits into the cache with its products
_MOST_PRODUCTS = 2**20  # of columns, computed at a time: 8 MB
_MAX_CACHED = 2**23  # products of columns kept between rounds; if there are more, none is kept
_MANY_SCORES = 8  # from here on, one product for all pairs of scores is faster than one for each


@dataclass(frozen=True)
class TrainingRows:
    """Encoded columns x training rows with their labels; the first column is all ones."""

    columns: Array
    weight: Array | None  # how much each row counts; None if all count 1
    base: Array  # what each score adds to the score of each class, classes x scores
    # The weights of sets fitted alone, by the columns: the same set leads many families.
    alone: dict[bytes, Array] = field(init=False, repr=False, compare=False, default_factory=dict)

    @property
    def n_scores(self) -> int:
        """The number of scores per row."""
        return int(self.base.shape[1])

    def take(self, columns: NDArray[np.intp]) -> Self:
        """Return the same rows with some of the columns."""
        return replace(self, columns=self.columns[columns])

    def slopes(self, scores: Array, rows: slice, bends: Array | None) -> Array:
        """Return the negative derivative of the loss by each score; overwrites `scores`.

        Scores are scores x rows x sets. If given, `bends` receives the second derivatives by each
        pair of scores, pairs x rows x sets.
        """
        raise NotImplementedError


def make_rows(
    columns: Array, codes: NDArray[np.intp], weight: Array | None, n_classes: int | None = None
) -> TrainingRows:
    """Build training rows from columns without an intercept and the class code of each row.

    `n_classes` is needed where the rows may lack the last class.
    """
    with_ones = np.vstack([np.ones(columns.shape[1]), columns])
    n_classes = int(codes.max()) + 1 if n_classes is None else n_classes
    base = class_base(n_classes)
    if n_classes == 2:
        return _Signed(with_ones * np.where(codes == 1, 1.0, -1.0), weight, base)
    return _Coded(with_ones, weight, base, codes)


def class_base(n_classes: int) -> Array:
    """Return what each score adds to the score of each class, classes x scores."""
    if n_classes == 2:
        return np.array([[0.0], [1.0]])
    base: Array = helmert(n_classes).T
    return base


def pull_of(rows: TrainingRows) -> Array:
    """Return the size of each column's gradient, without the intercept, where all weights are 0."""
    pull = np.abs(Loss(rows, 1).gradient_at_zero).reshape(rows.n_scores, -1)
    total: Array = pull.sum(axis=0)[1:]
    return total


def softmax(scores: Array) -> Array:
    """Turn scores of classes, along the first axis, into probabilities, in place."""
    scores -= scores.max(axis=0)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=0)
    return scores


class _Signed(TrainingRows):
    """Two classes: each row is multiplied by 1 for the second class and by -1 for the first.

    So a score is a margin, and labels are no longer needed.
    """

    def slopes(self, scores: Array, rows: slice, bends: Array | None) -> Array:  # noqa: ARG002
        """Turn margins into the probability of the other class."""
        with np.errstate(over="ignore"):  # infinity is correct: its inverse is 0
            np.exp(scores, out=scores)
        scores += 1.0
        np.reciprocal(scores, out=scores)
        if bends is not None:
            np.subtract(1.0, scores, out=bends)
            bends *= scores
        return scores


@dataclass(frozen=True)
class _Coded(TrainingRows):
    """More classes: the slope is the row's own base minus the mean base by probability."""

    codes: NDArray[np.intp]  # of the rows' classes

    def slopes(self, scores: Array, rows: slice, bends: Array | None) -> Array:
        probability, mean = self.probability(scores)
        if bends is not None:
            first, second = _pairs_of(self.n_scores)
            both = (self.base[:, first] * self.base[:, second]).T
            np.subtract(np.tensordot(both, probability, axes=1), mean[first] * mean[second], bends)
        return self.slopes_at(mean, rows, scores)

    def probability(self, scores: Array) -> tuple[Array, Array]:
        """Return the probability of each class, and the mean base by probability."""
        probability = softmax(np.tensordot(self.base, scores, axes=1))
        return probability, np.tensordot(self.base.T, probability, axes=1)

    def slopes_at(self, mean: Array, rows: slice, out: Array) -> Array:
        own = self.base[self.codes[rows]].T
        return np.subtract(own[:, :, None], mean, out=out)


class _ManyClasses:
    """The curvature of one set with many classes, by matrix products over all classes at once.

    By the scores s and t, a row has the second derivative sum_c p_c b_cs b_ct - m_s m_t, where p
    are the probabilities, b is the base, and m the mean base. Summed over rows with the products of
    columns x_i x_j, the first part needs only the sums of p_c x_i x_j, and the second is the
    product of the matrix of all m_s x_i with itself.
    """

    def __init__(self, rows: _Coded) -> None:
        self._rows = rows
        n_columns, n_classes = len(rows.columns), len(rows.base)
        self._of_classes = np.zeros((n_classes, n_columns * n_columns))
        self._of_means = np.zeros((rows.n_scores * n_columns,) * 2)

    def slopes(self, scores: Array, block: slice) -> Array:
        """Return the slopes of rows, and add their curvature; overwrites `scores`."""
        probability, mean = self._rows.probability(scores)
        columns, weight = self._rows.columns[:, block], self._rows.weight
        weighted = columns if weight is None else columns * weight[block]
        products = columns[:, None] * weighted
        self._of_classes += probability[:, :, 0] @ products.reshape(-1, columns.shape[1]).T
        if weight is not None:
            columns = columns * np.sqrt(weight[block])
        spread = (mean[:, None, :, 0] * columns).reshape(len(self._of_means), -1)
        self._of_means += spread @ spread.T  # BLAS needs half the time for A @ A.T
        return self._rows.slopes_at(mean, block, scores)

    def total(self) -> Array:
        """Return the sum over the rows so far, unknowns x unknowns."""
        base, n_columns = self._rows.base, len(self._rows.columns)
        by_score = -self._of_means.reshape(-1, n_columns, base.shape[1], n_columns)
        for i, sums in enumerate(self._of_classes.reshape(-1, n_columns, n_columns).swapaxes(0, 1)):
            by_score[:, i] += np.tensordot(base.T, base[:, :, None] * sums[:, None], axes=1)
        return by_score.reshape(self._of_means.shape)


class Loss:
    """The loss over all rows, computed in blocks; products of columns are computed once."""

    def __init__(self, rows: TrainingRows, n_sets: int) -> None:
        self._rows = rows
        n_columns, self._n_rows = rows.columns.shape
        self._n_products = n_columns * (n_columns + 1) // 2
        widest = n_columns if n_sets <= _FEW else self._n_products
        at_once = _BLOCK // (n_sets * rows.n_scores)
        self._size = max(1, min(at_once, _MOST_PRODUCTS // widest))
        self._cache: list[Array] = []
        n_values = min(self._size, self._n_rows) * n_sets
        self._scores = np.empty(rows.n_scores * n_values)
        self._n_values = n_values

    @cached_property
    def _bends(self) -> Array:
        n_scores = self._rows.n_scores
        return np.empty(n_scores * (n_scores + 1) // 2 * self._n_values)

    @cached_property
    def _weighted(self) -> Array:
        rows = self._rows
        return rows.columns if rows.weight is None else rows.columns * rows.weight

    @cached_property
    def gradient_at_zero(self) -> Array:
        """The gradient where every weight is 0."""
        zero = np.zeros((self._rows.n_scores, self._n_rows, 1))
        slopes = self._rows.slopes(zero, slice(None), None)
        gradient: Array = -(self._weighted @ slopes).ravel()
        return gradient

    def evaluate(self, weights: Array, *, curved: bool) -> tuple[Array, Array | None]:
        """Return the gradient, unknowns x sets, and the curvature, unknowns x unknowns x sets."""
        n_scores, n_columns, n_sets = self._rows.n_scores, len(self._rows.columns), weights.shape[1]
        if curved and n_sets == 1 and n_scores >= _MANY_SCORES:
            return self._evaluate_many_classes(weights)
        n_pairs = n_scores * (n_scores + 1) // 2
        by_score = weights.reshape(n_scores, n_columns, n_sets)
        gradient = np.zeros(by_score.shape)
        few = n_sets <= _FEW
        shape = (n_columns, n_columns) if few else (self._n_products,)
        curvature = np.zeros((n_pairs, *shape, n_sets))
        for number, start in enumerate(range(0, self._n_rows, self._size)):
            block = slice(start, start + self._size)
            columns = self._rows.columns[:, block]
            n_values = columns.shape[1] * n_sets
            scores = self._scores[: n_scores * n_values].reshape(n_scores, -1, n_sets)
            bends = self._bends[: n_pairs * n_values].reshape(n_pairs, -1, n_sets)
            np.matmul(columns.T, by_score, out=scores)
            slopes = self._rows.slopes(scores, block, bends if curved else None)
            gradient -= self._weighted[:, block] @ slopes
            if not curved:
                continue
            if few:
                for i in range(n_sets):
                    self._add_own(curvature[..., i], block, bends[:, :, i])
            else:
                curvature += self._products(number, block) @ bends
        flat = gradient.reshape(-1, n_sets)
        return flat, self._unfold(curvature) if curved else None

    def _evaluate_many_classes(self, weights: Array) -> tuple[Array, Array]:
        """Return the gradient and the curvature of one set."""
        rows, n_scores = self._rows, self._rows.n_scores
        assert isinstance(rows, _Coded)  # for the type checker: two classes have one score
        by_score = weights.reshape(n_scores, -1, 1)
        gradient, curvature = np.zeros(by_score.shape), _ManyClasses(rows)
        for start in range(0, self._n_rows, self._size):
            block = slice(start, start + self._size)
            scores = np.matmul(rows.columns[:, block].T, by_score)
            gradient -= self._weighted[:, block] @ curvature.slopes(scores, block)
        return gradient.reshape(-1, 1), curvature.total()[:, :, None]

    def _unfold(self, curvature: Array) -> Array:
        """Arrange the curvatures of all pairs of scores as one matrix, unknowns x unknowns."""
        n_sets = curvature.shape[-1]
        n_unknowns = self._rows.n_scores * len(self._rows.columns)
        if curvature.ndim == 3:
            return curvature.reshape(-1, n_sets)[self._unfolding]
        squares = curvature[_pair_places(self._rows.n_scores)].transpose(0, 2, 1, 3, 4)
        return squares.reshape(n_unknowns, n_unknowns, n_sets)

    @cached_property
    def _unfolding(self) -> NDArray[np.intp]:
        """The index of the product of each pair of unknowns, ordered by pairs of scores."""
        scores = _pair_places(self._rows.n_scores)[:, None, :, None]
        columns = _pair_places(len(self._rows.columns))[:, None, :]
        n_unknowns = self._rows.n_scores * len(self._rows.columns)
        places: NDArray[np.intp] = scores * self._n_products + columns
        return places.reshape(n_unknowns, n_unknowns)

    def _products(self, number: int, block: slice) -> Array:
        """Return the products of all pairs of columns, products x rows of the block."""
        if number < len(self._cache):
            return self._cache[number]
        first, second = _pairs_of(len(self._rows.columns))
        products: Array = self._rows.columns[first, block]
        products *= self._weighted[second, block]
        if self._n_products * self._n_rows <= _MAX_CACHED:
            self._cache.append(products)
        return products

    def _add_own(self, curvature: Array, block: slice, bends: Array) -> None:
        """Add the curvature of one set, pairs x columns x columns."""
        columns, weight = self._rows.columns[:, block], self._rows.weight
        if weight is not None:
            bends = bends * weight[block]
        firsts, seconds = _pairs_of(self._rows.n_scores)
        for own, first, second, bend in zip(curvature, firsts, seconds, bends, strict=True):
            if first == second:  # never below 0, and BLAS needs half the time for A @ A.T
                scaled = columns * np.sqrt(np.maximum(bend, 0.0))
                own += scaled @ scaled.T
            else:
                own += (columns * bend) @ columns.T


@cache
def _pairs_of(n: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the first and the second of each pair of n; every evaluation needs them."""
    return np.triu_indices(n)


@cache
def _pair_places(n: int) -> NDArray[np.intp]:
    """Return the index of each pair of n among all pairs, in either order."""
    first, second = _pairs_of(n)
    places = np.empty((n, n), dtype=np.intp)
    places[first, second] = places[second, first] = np.arange(len(first))
    return places
