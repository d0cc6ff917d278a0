"""Newton's method on the logistic regressions of many source sets at once.

Sets are sorted and cut into batches of fixed size. A batch uses the columns of all its sets. Arrays
hold sets along their last axis, so that every operation runs over adjacent memory. Three things
make it fast:

1. With the products of all pairs of columns, the curvatures of a whole batch are one matrix
   product, products x rows times rows x sets.
2. A family of neighbours starts from its leader, the union of its sets, which is fitted first: in
   the quadratic model of the loss at the leader's optimum, the best weights of every set are the
   solution of one linear system.
3. Close to the optimum the last curvature is used again, and the loss is not evaluated once its
   error is known to be negligible.

A column outside a set has an infinite penalty: its weight is exactly 0, without a special case.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import ThreadpoolController

from emsco.exceptions import warn
from emsco.learners._logistic_loss import Loss, TrainingRows
from emsco.rows.encoding import Array

BATCH = 512  # sets fitted together
FAMILY = 32  # sets that start from the same leader
_WIDE = 80  # from so many unknowns on, each set is fitted on its own columns only
# Distances to the optimum, in the norm of the curvature (that of scores on training rows): the one
# to reach, and the one below which rounding may stop progress.
_TOLERANCE = 1e-11
_FLOOR = 1e-8
_SAFETY = 10.0  # a predicted distance may be wrong by this factor
_MOST_ROUNDS = 500


def fit_sets(rows: TrainingRows, sets: NDArray[np.bool_]) -> Array:
    """Return the weights of each set, scores x (1 + columns) x sets, with the intercept first.

    `sets` holds the columns of each set, without the intercept. Neighbouring sets should be
    similar.
    """
    weights = np.zeros((rows.n_scores, len(rows.columns), len(sets)))
    unions = np.array([sets[i : i + FAMILY].any(axis=0) for i in range(0, len(sets), FAMILY)])
    leaders = _fit_leaders(rows, unions) if len(sets) > 1 else weights
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


def _fit_leaders(rows: TrainingRows, unions: NDArray[np.bool_]) -> Array:
    """Fit the leaders of families; one leader alone is fitted once, because it is often the same.

    Of several, the last bits depend on one another.
    """
    if len(unions) > 1:
        return fit_sets(rows, unions)
    key = unions.tobytes()
    if key not in rows.alone:
        rows.alone[key] = fit_sets(rows, unions)
    return rows.alone[key]


def one_thread() -> Any:
    """Return a context in which matrix products use one thread.

    Workers already use all cores, and the number of threads could change the last bits.
    """
    return _blas().limit(limits=1, user_api="blas")


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def is_wide(rows: TrainingRows) -> bool:
    """Return whether each set is fitted separately, with only the start shared by its family."""
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
    # The ridge adds the same to the gradient and to curvature @ weights, so both leave it out.
    target = np.einsum("ijs,js->is", curvature, leaders) - gradient
    family = np.arange(len(sets)) // FAMILY
    if not is_wide(rows):
        start = _factorise(curvature[:, :, family], penalty).solve(target[:, family])
        return descend_in_memory(loss, penalty, start)[0].reshape(n_scores, n_columns, -1)
    weights = np.zeros((n_scores, n_columns, len(sets)))
    for i, member in enumerate(members.T):
        columns = np.flatnonzero(member)
        unknowns = (np.arange(n_scores)[:, None] * n_columns + columns).ravel()
        own = penalty[unknowns, i : i + 1]
        shared = curvature[unknowns[:, None], unknowns, family[i], None]
        start = _factorise(shared, own).solve(target[unknowns, family[i], None])
        fitted, _ = descend_in_memory(Loss(rows.take(columns), 1), own, start)
        weights[:, columns, i] = fitted.reshape(n_scores, -1)
    return weights


class Trial(NamedTuple):
    """Weights, unknowns x sets, at which the loss is to be evaluated, with its curvature or not."""

    weights: Array
    curved: bool


def fit_alone(rows: TrainingRows) -> tuple[Array, int]:
    """Return the weights of all columns, scores x (1 + columns), and how many steps they took."""
    penalty = full_penalty(rows.n_scores, len(rows.columns))
    weights, n_steps = descend_in_memory(Loss(rows, 1), penalty, np.zeros_like(penalty))
    return weights.reshape(rows.n_scores, -1), n_steps


def full_penalty(n_scores: int, n_columns: int) -> Array:
    """Return the penalty of one set of all columns, unknowns x 1: none for the intercept."""
    penalty = np.ones((n_scores, n_columns))
    penalty[:, 0] = 0.0
    return penalty.reshape(-1, 1)


def descend_in_memory(loss: Loss, penalty: Array, start: Array) -> tuple[Array, int]:
    """Take Newton steps over rows in memory until every set has converged.

    Returns the weights, unknowns x sets, and how many steps they took.
    """
    steps = descend(loss.gradient_at_zero, penalty, start)
    trial, n_steps = next(steps), 1
    try:
        while True:
            trial = steps.send(loss.evaluate(trial.weights, curved=trial.curved))
            n_steps += 1
    except StopIteration as end:
        return end.value, n_steps


def descend(
    gradient_at_zero: Array, penalty: Array, start: Array
) -> Generator[Trial, tuple[Array, Array | None], Array]:
    """Take Newton steps until every set has converged; unknowns x sets.

    It yields a trial, is sent the gradient and the curvature of the loss there, without the
    penalty, and returns the weights. So the sums may be made of rows in memory, or block by block.

    A step is halved while it goes past the minimum on its line, to where the loss rises more than
    half as steeply as it fell. The loss itself, which needs a logarithm, is never evaluated.
    """
    arrived = np.empty_like(start)
    open_ = np.arange(start.shape[1])
    ridge = np.where(np.isinf(penalty), 0.0, penalty)
    base, step = np.zeros_like(start), start
    fall = np.minimum(0.0, gradient_at_zero @ step)
    step = step * (fall < 0)  # the start is a step from 0, taken only if it descends
    length, before = np.ones(len(open_)), np.zeros(len(open_))
    curved = True
    for _ in range(_MOST_ROUNDS):
        trial = base + length * step
        gradient, curvature = yield Trial(trial, curved)
        gradient += ridge * trial
        if curvature is not None:
            system = _factorise(curvature, penalty)
        proposed = -system.solve(gradient)
        proposed_fall = _dot(gradient, proposed)
        distance = np.sqrt(np.abs(proposed_fall))
        rate = distance / np.maximum(before, 1e-100)
        # With a new curvature the next rate is the square of this one, with an old one the same.
        # One rate may be small by accident, so both are bounded by the usual rate.
        usual = 0.1 * (distance if curved else before)
        next_rate = np.maximum(np.minimum(rate, 1e50) ** (2 if curved else 1), usual)
        error = _SAFETY * distance * next_rate
        done = (np.minimum(error, distance) <= _TOLERANCE) | ((distance < _FLOOR) & (rate > 0.25))
        # A set that went past its minimum stays at its base and tries half the step.
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
        f"{len(open_)} fits did not converge in {_MOST_ROUNDS} Newton steps; some columns or "
        "weights may have too wide a range.",
        ConvergenceWarning,
    )
    arrived[:, open_] = base
    return arrived


def _dot(first: Array, second: Array) -> Array:
    product: Array = np.einsum("ij,ij->j", first, second)
    return product


def _factorise(curvature: Array, penalty: Array) -> _One | _Many:
    """Factorise curvature + penalty; overwrites the curvature."""
    diagonal = np.arange(len(curvature))
    # Too small to slow convergence, but avoids division by a curvature that rounding made 0.
    curvature[diagonal, diagonal] += np.maximum(penalty, 1e-100)
    if curvature.shape[2] == 1:
        return _One.of(curvature[:, :, 0])
    return _Many.of(curvature)


@dataclass(frozen=True)
class _Many:
    """Systems of many sets, factorised into L D L' together, with L below the diagonal of D L'."""

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
    """The system of one set, for its own unknowns."""

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
