"""Newton's method on the logistic regressions of many source sets at once.

Sets are sorted and cut into batchs of fixed size. A batch works on the columns that one of its sets
uses; arrays hold sets along their last axis, so that every operation runs over sets that lie
together in memory. Three things make it fast:

1. With the products of every two columns at hand, the curvatures of a whole batch are one matrix
   product, products x rows times rows x sets.
2. A family of neighbours starts from its leader, the union of its sets, fitted before: in the
   quadratic model of the loss at the leader's optimum, the best weights of every set are one linear
   system away.
3. Close to the optimum the last curvature serves once more, and no loss is evaluated whose error
   is already known to vanish.

A column outside a set has an infinite penalty: its weight is exactly 0, without a special case.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from emsco._encoding import Array
from emsco.exceptions import warn

BATCH = 512  # sets fitted together
FAMILY = 32  # sets that start from the same leader
_FEW = 4  # sets whose curvatures are not worth the products of every two columns
_WIDE = 80  # columns from which on every set is better off with its own columns alone
_BLOCK = 2**16  # rows x sets evaluated at a time: what the cache holds with its products
_MOST_PRODUCTS = 2**20  # of columns, made at a time: 8 MB
_KEPT = 2**23  # products of columns that are kept between rounds; beyond, they are made anew
# The distance to the optimum in the norm of the curvature, which is that of scores on training
# rows; what it may be at the end, and where rounding may keep it from shrinking.
_TOLERANCE = 1e-11
_FLOOR = 1e-8
_SAFETY = 10.0  # by how much a predicted distance may be wrong
_MOST_ROUNDS = 500


@dataclass(frozen=True)
class TrainingRows:
    """Encoded columns x training rows, the intercept's ones first, each row times its sign.

    The sign is 1 for the second class and -1 for the first, so that a score is a margin and labels
    are needed no more.
    """

    signed: Array
    weight: Array | None  # of each row; None where all are 1

    @classmethod
    def of(cls, columns: Array, second: NDArray[np.bool_], weight: Array | None) -> TrainingRows:
        """Sign the rows; `second` says which are of the second class."""
        with_ones = np.vstack([np.ones(columns.shape[1]), columns])
        return cls(with_ones * np.where(second, 1.0, -1.0), weight)

    @property
    def pull(self) -> Array:
        """How strongly each column pulls at its weight while all are 0, without the intercept."""
        weighted = self.signed if self.weight is None else self.signed * self.weight
        pull: Array = np.abs(weighted.sum(axis=1)[1:])
        return pull

    def take(self, columns: NDArray[np.intp]) -> TrainingRows:
        """Keep some columns."""
        return TrainingRows(self.signed[columns], self.weight)


def fit_sets(rows: TrainingRows, sets: NDArray[np.bool_]) -> Array:
    """Give the weights of each set, (1 + columns) x sets; neighbours should resemble each other.

    `sets` says for each set which columns it has, without the intercept.
    """
    weights = np.zeros((len(rows.signed), len(sets)))
    unions = np.array([sets[i : i + FAMILY].any(axis=0) for i in range(0, len(sets), FAMILY)])
    leaders = fit_sets(rows, unions) if len(sets) > 1 else weights
    size = BATCH if len(rows.signed) < _WIDE else FAMILY
    for first in range(0, len(sets), size):
        batch = slice(first, first + size)
        families = slice(first // FAMILY, (first + size) // FAMILY)
        columns = np.concatenate([[0], 1 + np.flatnonzero(unions[families].any(axis=0))])
        members = sets[batch][:, columns[1:] - 1]
        weights[columns, batch] = _fit_batch(
            rows.take(columns), members, leaders[columns, families]
        )
    return weights


def _fit_batch(rows: TrainingRows, sets: NDArray[np.bool_], leaders: Array) -> Array:
    """Fit sets that start from the quadratic model of the loss at their leader's weights."""
    members = np.vstack([np.ones(len(sets), dtype=bool), sets.T])
    penalty = np.where(members, 1.0, np.inf)
    penalty[0] = 0.0
    loss = _Loss(rows, len(sets))
    gradient, curvature = loss.evaluate(leaders, curved=True)
    assert curvature is not None
    # The ridge would add the same to the gradient and to curvature @ weights.
    target = np.einsum("ijs,js->is", curvature, leaders) - gradient
    family = np.arange(len(sets)) // FAMILY
    if len(rows.signed) < _WIDE:
        start = _factorise(curvature[:, :, family], penalty).solve(target[:, family])
        return _descend(loss, penalty, start)
    weights = np.zeros(members.shape)
    for i, member in enumerate(members.T):
        columns = np.flatnonzero(member)
        own = penalty[columns, i : i + 1]
        shared = curvature[columns[:, None], columns, family[i], None]
        start = _factorise(shared, own).solve(target[columns, family[i], None])
        weights[columns, i : i + 1] = _descend(_Loss(rows.take(columns), 1), own, start)
    return weights


def _descend(loss: _Loss, penalty: Array, start: Array) -> Array:
    """Take Newton steps until every set has arrived; columns x sets.

    A step is halved while it leads past the minimum on its line, to where the loss climbs more than
    half as steeply as it fell: the loss itself, which needs a logarithm, is never evaluated.
    """
    arrived = np.empty_like(start)
    open_ = np.arange(start.shape[1])
    ridge = np.where(np.isinf(penalty), 0.0, penalty)
    base, step = np.zeros_like(start), start
    fall = np.minimum(0.0, loss.gradient_at_zero @ step)
    step = step * (fall < 0)  # the start is a step from 0, not taken where it does not descend
    length, before = np.ones(len(open_)), np.zeros(len(open_))
    curved = True
    for _ in range(_MOST_ROUNDS):
        trial = base + length * step
        gradient, curvature = loss.evaluate(trial, curved=curved)
        gradient += ridge * trial
        if curvature is not None:
            system = _factorise(curvature, penalty)
        proposed = -system.solve(gradient)
        proposed_fall = _dot(gradient, proposed)
        distance = np.sqrt(np.abs(proposed_fall))
        rate = distance / np.maximum(before, 1e-100)
        # A fresh curvature makes the next rate the square of this one, an old one keeps it; and
        # since one rate may be small by accident, neither is trusted beyond what is usual.
        usual = 0.1 * (distance if curved else before)
        next_rate = np.maximum(np.minimum(rate, 1e50) ** (2 if curved else 1), usual)
        error = _SAFETY * distance * next_rate
        done = (np.minimum(error, distance) <= _TOLERANCE) | ((distance < _FLOOR) & (rate > 0.25))
        # A set that has passed its minimum stays where it was, and tries half the way.
        passed = _dot(gradient, step) > -0.5 * fall
        if passed.any():
            done &= ~passed
            trial = np.where(passed, base, trial)
            proposed = np.where(passed, step, proposed)
            proposed_fall = np.where(passed, fall, proposed_fall)
            distance = np.where(passed, before, distance)
            length = np.where(passed, length / 2, 1.0)
        else:
            length = np.ones(len(open_))
        arrived[:, open_[done]] = (trial + proposed)[:, done]
        if done.all():
            return arrived
        curved = bool(passed.any() or (error * next_rate**2 > _TOLERANCE)[~done].any())
        base, step, fall, before = trial, proposed, proposed_fall, distance
        if done.any():
            left = ~done
            open_, length, fall, before = open_[left], length[left], fall[left], before[left]
            base, step = base[:, left], step[:, left]
            ridge, penalty = ridge[:, left], penalty[:, left]
            if not curved:
                system = system.keep(left)
    warn(
        f"{len(open_)} fits did not converge in {_MOST_ROUNDS} Newton steps; the values of some "
        "columns or weights may be too far apart.",
        ConvergenceWarning,
    )
    arrived[:, open_] = base
    return arrived


def _dot(first: Array, second: Array) -> Array:
    product: Array = np.einsum("ij,ij->j", first, second)
    return product


class _Loss:
    """The logistic loss without its penalty, evaluated for many weights over blocks of rows."""

    def __init__(self, rows: TrainingRows, n_sets: int) -> None:
        self._rows = rows
        n_columns, self._n_rows = rows.signed.shape
        self._n_products = n_columns * (n_columns + 1) // 2
        widest = n_columns if n_sets <= _FEW else self._n_products
        self._size = max(1, min(_BLOCK // n_sets, _MOST_PRODUCTS // widest))
        self._kept: list[Array] = []
        self._buffers = np.empty((2, min(self._size, self._n_rows) * n_sets))

    @cached_property
    def _weighted(self) -> Array:
        rows = self._rows
        return rows.signed if rows.weight is None else rows.signed * rows.weight

    @cached_property
    def _pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        return np.triu_indices(len(self._rows.signed))

    @cached_property
    def gradient_at_zero(self) -> Array:
        """The gradient where every weight is 0: half of the rows' sum."""
        gradient: Array = -0.5 * self._weighted.sum(axis=1)
        return gradient

    def evaluate(self, weights: Array, *, curved: bool) -> tuple[Array, Array | None]:
        """Give the gradient, columns x sets, and the curvature, columns x columns x sets."""
        n_columns, n_sets = weights.shape
        gradient = np.zeros((n_columns, n_sets))
        few = n_sets <= _FEW
        shape = (n_columns, n_columns, n_sets) if few else (self._n_products, n_sets)
        curvature = np.zeros(shape)
        for number, start in enumerate(range(0, self._n_rows, self._size)):
            block = slice(start, start + self._size)
            signed = self._rows.signed[:, block]
            n_values = signed.shape[1] * n_sets
            wrong, spread = self._buffers[:, :n_values].reshape(2, -1, n_sets)
            np.matmul(signed.T, weights, out=wrong)
            _wrong_probability(wrong)
            gradient -= self._weighted[:, block] @ wrong
            if not curved:
                continue
            np.subtract(1.0, wrong, out=spread)
            spread *= wrong
            if few:
                for i in range(n_sets):
                    curvature[:, :, i] += self._own_products(block, spread[:, i])
            else:
                curvature += self._products(number, block) @ spread
        if not curved:
            return gradient, None
        return gradient, curvature if few else curvature[self._places]

    @cached_property
    def _places(self) -> NDArray[np.intp]:
        """Where the product of each two columns is."""
        first, second = self._pairs
        places = np.empty((first[-1] + 1, first[-1] + 1), dtype=np.intp)
        places[first, second] = places[second, first] = np.arange(len(first))
        return places

    def _products(self, number: int, block: slice) -> Array:
        """Give the products of every two columns, products x rows of the block."""
        if number < len(self._kept):
            return self._kept[number]
        first, second = self._pairs
        products: Array = self._rows.signed[first, block]
        products *= self._weighted[second, block]
        if self._n_products * self._n_rows <= _KEPT:
            self._kept.append(products)
        return products

    def _own_products(self, block: slice, spread: Array) -> Array:
        """Give one set's curvature; a matrix times its own transpose costs BLAS half."""
        weight = self._rows.weight
        scale = np.sqrt(spread if weight is None else spread * weight[block])
        scaled = self._rows.signed[:, block] * scale
        product: Array = scaled @ scaled.T
        return product


def _wrong_probability(margin: Array) -> None:
    """Turn margins into the probability of the other class, in place."""
    with np.errstate(over="ignore"):  # infinity is right: its inverse is 0
        np.exp(margin, out=margin)
    margin += 1.0
    np.reciprocal(margin, out=margin)


class _System(Protocol):
    """Factorised linear systems, one a set."""

    def solve(self, right: Array) -> Array:
        """Give the solutions, columns x sets."""

    def keep(self, sets: NDArray[np.bool_]) -> _System:
        """Keep the systems of some sets."""


def _factorise(curvature: Array, penalty: Array) -> _System:
    """Factorise curvature + penalty, writing over the curvature."""
    diagonal = np.arange(len(curvature))
    curvature[diagonal, diagonal] += penalty
    # Never in the way of convergence, but a curvature that rounding made 0 must not divide.
    curvature[0, 0] += 1e-100
    if curvature.shape[2] == 1:
        return _One.of(curvature[:, :, 0])
    return _Many.of(curvature)


@dataclass(frozen=True)
class _Many:
    """Systems of many sets, factorised into L D L' side by side, L under the diagonal of D L'."""

    factors: Array

    @classmethod
    def of(cls, matrix: Array) -> _Many:
        for j in range(len(matrix)):
            if j:
                matrix[j, j:] -= np.einsum("is,iks->ks", matrix[j, :j], matrix[:j, j:])
            np.divide(matrix[j, j + 1 :], matrix[j, j], out=matrix[j + 1 :, j])
        return cls(matrix)

    def solve(self, right: Array) -> Array:
        factors, last = self.factors, len(self.factors) - 1
        solution = np.broadcast_to(right, factors.shape[1:]).copy()
        for j in range(1, last + 1):
            solution[j] -= _dot(factors[j, :j], solution[:j])
        for j in range(last + 1):
            solution[j] /= factors[j, j]
        for j in range(last - 1, -1, -1):
            solution[j] -= _dot(factors[j + 1 :, j], solution[j + 1 :])
        return solution

    def keep(self, sets: NDArray[np.bool_]) -> _Many:
        return _Many(self.factors[:, :, sets])


@dataclass(frozen=True)
class _One:
    """The system of one set, on the columns that it has."""

    columns: NDArray[np.intp]
    matrix: Array

    @classmethod
    def of(cls, matrix: Array) -> _One:
        columns = np.flatnonzero(np.isfinite(matrix.diagonal()))
        return cls(columns, matrix[np.ix_(columns, columns)])

    def solve(self, right: Array) -> Array:
        solution = np.zeros_like(right)
        solution[self.columns] = np.linalg.solve(self.matrix, right[self.columns])
        return solution

    def keep(self, sets: NDArray[np.bool_]) -> _One:  # noqa: ARG002  # the only one
        return self
