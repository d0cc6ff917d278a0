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
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from emsco.exceptions import warn
from emsco.learners._losses import Loss, TrainingRows
from emsco.rows.encoding import Array

BATCH = 512  # sets fitted together
FAMILY = 32  # sets that start from the same leader
_WIDE = 80  # unknowns from which on every set is better off with its own columns alone
# The distance to the optimum in the norm of the curvature, which is that of scores on training
# rows; what it may be at the end, and where rounding may keep it from shrinking.
_TOLERANCE = 1e-11
_FLOOR = 1e-8
_SAFETY = 10.0  # by how much a predicted distance may be wrong
_MOST_ROUNDS = 500


def fit_sets(rows: TrainingRows, sets: NDArray[np.bool_]) -> Array:
    """Give the weights of each set, scores x (1 + columns) x sets, the intercept's first.

    `sets` says for each set which columns it has, without the intercept. Neighbours should resemble
    each other.
    """
    weights = np.zeros((rows.n_scores, len(rows.columns), len(sets)))
    unions = np.array([sets[i : i + FAMILY].any(axis=0) for i in range(0, len(sets), FAMILY)])
    leaders = fit_sets(rows, unions) if len(sets) > 1 else weights
    size = FAMILY if is_wide(rows) else BATCH
    for first in range(0, len(sets), size):
        batch = slice(first, first + size)
        families = slice(first // FAMILY, (first + size) // FAMILY)
        columns = np.concatenate([[0], 1 + np.flatnonzero(unions[families].any(axis=0))])
        members = sets[batch][:, columns[1:] - 1]
        weights[:, columns, batch] = _fit_batch(
            rows.take(columns), members, leaders[:, columns, families]
        )
    return weights


def is_wide(rows: TrainingRows) -> bool:
    """Say whether sets are fitted each by itself, and only start from what families share."""
    return rows.n_scores * len(rows.columns) >= _WIDE


def _fit_batch(rows: TrainingRows, sets: NDArray[np.bool_], leaders: Array) -> Array:
    """Fit sets that start from the quadratic model of the loss at their leader's weights."""
    n_scores, n_columns = rows.n_scores, len(rows.columns)
    members = np.vstack([np.ones(len(sets), dtype=bool), sets.T])
    penalty = np.where(members, 1.0, np.inf)
    penalty[0] = 0.0
    penalty = np.tile(penalty, (n_scores, 1))
    leaders = leaders.reshape(n_scores * n_columns, -1)
    loss = Loss(rows, leaders.shape[1] if is_wide(rows) else len(sets))
    gradient, curvature = loss.evaluate(leaders, curved=True)
    assert curvature is not None
    # The ridge would add the same to the gradient and to curvature @ weights.
    target = np.einsum("ijs,js->is", curvature, leaders) - gradient
    family = np.arange(len(sets)) // FAMILY
    if not is_wide(rows):
        start = _factorise(curvature[:, :, family], penalty).solve(target[:, family])
        return _descend(loss, penalty, start).reshape(n_scores, n_columns, -1)
    weights = np.zeros((n_scores, n_columns, len(sets)))
    for i, member in enumerate(members.T):
        columns = np.flatnonzero(member)
        unknowns = (np.arange(n_scores)[:, None] * n_columns + columns).ravel()
        own = penalty[unknowns, i : i + 1]
        shared = curvature[unknowns[:, None], unknowns, family[i], None]
        start = _factorise(shared, own).solve(target[unknowns, family[i], None])
        fitted = _descend(Loss(rows.take(columns), 1), own, start)
        weights[:, columns, i] = fitted.reshape(n_scores, -1)
    return weights


def _descend(loss: Loss, penalty: Array, start: Array) -> Array:
    """Take Newton steps until every set has arrived; unknowns x sets.

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


class _System(Protocol):
    """Factorised linear systems, one a set."""

    def solve(self, right: Array) -> Array:
        """Give the solutions, unknowns x sets."""

    def keep(self, sets: NDArray[np.bool_]) -> _System:
        """Keep the systems of some sets."""


def _factorise(curvature: Array, penalty: Array) -> _System:
    """Factorise curvature + penalty, writing over the curvature."""
    diagonal = np.arange(len(curvature))
    # Never in the way of convergence, but a curvature that rounding made 0 must not divide.
    curvature[diagonal, diagonal] += np.maximum(penalty, 1e-100)
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
    """The system of one set, on the unknowns that it has."""

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
