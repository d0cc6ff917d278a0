"""Probabilities as a user's estimator gives them: checked, and in the order of the classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from emsco.exceptions import ModelError, quoted

_ROUNDING = 1e-5  # of a probability in single precision
_SUM = 0.01  # that a row may be off 1: estimators add up many rounded numbers


def read_probabilities(
    estimator: Any, answer: ArrayLike, classes: NDArray[Any], n_rows: int
) -> NDArray[np.float64]:
    """Return what `predict_proba` answered, one column per class, in the order of `classes`.

    The columns are those of the estimator's own `classes_`, whatever their order; an estimator
    without `classes_` must have the sorted order.

    Raises
    ------
    ModelError
        If the estimator has other classes, or the answer is not one probability per row and class.

    Examples
    --------
    >>> import numpy as np
    >>> from types import SimpleNamespace
    >>> from emsco.learners.probabilities import read_probabilities
    >>> estimator = SimpleNamespace(classes_=np.array(["well", "sick"]))
    >>> read_probabilities(estimator, [[0.9, 0.1]], np.array(["sick", "well"]), 1)
    array([[0.1, 0.9]])
    """
    name = f"{type(estimator).__name__}.predict_proba"
    probability = np.asarray(answer, dtype=np.float64)
    if probability.shape != (n_rows, len(classes)):
        raise ModelError(
            f"{name} must return one row for each of {n_rows:,} rows and one column for each of "
            f"{len(classes)} classes, but the shape of its answer is {probability.shape}."
        )
    # Written so that NaN is refused as well.
    inside = (probability >= -_ROUNDING) & (probability <= 1 + _ROUNDING)
    if not inside.all():
        row = int(np.argmin(inside.all(axis=1)))
        value = probability[row][~inside[row]][0]
        raise ModelError(f"{name} returned {value:g} for row {row}, which is no probability.")
    total = probability.sum(axis=1)
    off = np.abs(total - 1) > _SUM
    if off.any():
        row = int(np.argmax(off))
        raise ModelError(
            f"The probabilities of {name} must sum to 1; those of row {row} sum to {total[row]:g}."
        )
    order = class_order(estimator, classes)
    return probability if order is None else probability[:, order]


def class_order(estimator: Any, classes: NDArray[Any]) -> list[int] | None:
    """Return the place of each class among the estimator's own; None if the order is the same."""
    own, wanted = np.ravel(getattr(estimator, "classes_", classes)).tolist(), classes.tolist()
    if own == wanted:
        return None
    place = {label: i for i, label in enumerate(own)}
    if len(own) != len(wanted) or not place.keys() >= set(wanted):
        raise ModelError(
            f"The `classes_` of {type(estimator).__name__} must be the labels it was fitted on, "
            f"{quoted(wanted)}, in any order; they are {quoted(own)}."
        )
    return [place[label] for label in wanted]
