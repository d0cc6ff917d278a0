"""The one place where probabilities become a verdict: the label of a row, and how sure it is.

With equal weights the label is the most probable class. With label weights w, class c has the share
w_c p_c / sum(w p), and the label is the class with the largest share: the least expected loss, if
the weights are prices of errors (Elkan 2001). A row is accepted if that share reaches the
threshold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco.exceptions import ClassesError, Parameter, nearest_class

BALANCED = "balanced"
_DIGITS = 12  # of a weight: enough, and the same however it was computed

Numbers = NDArray[np.float64]


class Judgement(NamedTuple):
    """The label of each row, as the place of a class, its probability and its share."""

    winner: NDArray[Any]
    confidence: Numbers
    share: Numbers  # the confidence itself, if weights are equal


@dataclass(frozen=True)
class LabelRule:
    """How probabilities become labels.

    Parameters
    ----------
    weights : tuple of float, default=()
        A weight for each class, in the order of the classes; the smallest is 1. (): all equal.

    Examples
    --------
    >>> import numpy as np
    >>> from emsco.core.label_rule import LabelRule
    >>> no, yes = np.array([0.9, 0.999]), np.array([0.1, 0.001])
    >>> LabelRule().judge([no, yes]).winner.tolist()
    [False, False]
    >>> judged = LabelRule.of([1, 99]).judge([no, yes])
    >>> judged.winner.tolist(), judged.confidence.tolist(), judged.share.round(3).tolist()
    ([True, False], [0.1, 0.999], [0.917, 0.91])
    """

    weights: tuple[float, ...] = ()

    @classmethod
    def of(cls, weights: Sequence[float]) -> LabelRule:
        """Make a rule from weights of any scale; equal ones are none."""
        least = min(weights)
        scaled = tuple(float(f"{weight / least:.{_DIGITS}g}") for weight in weights)
        return cls(scaled if max(scaled) > 1 else ())

    @property
    def is_equal(self) -> bool:
        """Whether all classes have the same weight."""
        return not self.weights

    def judge(self, probability: Sequence[Numbers]) -> Judgement:
        """Judge rows by the probability of each class; if classes tie, the first one wins.

        Every number is computed from those of its own row alone, so arrays may have any shape.
        """
        if not self.weights:
            winner, share = _largest(probability)
            return Judgement(winner, share, share)
        scaled = [weight * p for weight, p in zip(self.weights, probability, strict=True)]
        total = scaled[0] + scaled[1]
        for more in scaled[2:]:
            total = total + more
        winner, share = _largest([own / total for own in scaled])
        places = winner[None].astype(np.intp)
        confidence = np.take_along_axis(np.array(probability), places, axis=0)[0]
        return Judgement(winner, confidence, share)


EQUAL = LabelRule()


def _largest(values: Sequence[Numbers]) -> tuple[NDArray[Any], Numbers]:
    """Return the place of the largest value of each row, and that value."""
    if len(values) == 2:
        no, yes = values
        return yes > no, np.maximum(no, yes)
    stacked = np.array(values)
    return stacked.argmax(axis=0), stacked.max(axis=0)


def rule_for(
    weights: Mapping[Any, float] | str | None, classes: Sequence[Any], shares: Sequence[float]
) -> LabelRule:
    """Return the rule for weights as people state them.

    Parameters
    ----------
    weights : mapping of label to float, "balanced" or None
        "balanced" is one over the share of each class. None: equal.
    classes : sequence
        The labels, in order.
    shares : sequence of float
        The share of rows that each class has.

    Examples
    --------
    >>> from emsco.core.label_rule import rule_for
    >>> rule_for("balanced", ["no", "yes"], [0.75, 0.25]).weights
    (1.0, 3.0)
    """
    if weights is None:
        return EQUAL
    if isinstance(weights, str) and weights == BALANCED:
        return LabelRule.of([1 / share for share in shares])
    if not isinstance(weights, Mapping):
        raise ClassesError(
            Parameter("label_weights")
            + f" must be a mapping of label to weight, or {BALANCED!r}; got {weights!r}.",
            value=weights,
        )
    return LabelRule.of(list(by_class(weights, classes, Parameter("label_weights")).values()))


def by_class(weights: Mapping[Any, float], classes: Sequence[Any], what: str) -> dict[Any, float]:
    """Return a weight above 0 for each class; in a file, numbers are named by their text."""
    unknown = [name for name in weights if name not in classes and name not in map(str, classes)]
    if unknown:
        near = nearest_class(unknown[0], classes)
        raise ClassesError(
            what + f" names {unknown[0]!r}, which is not a class" + near,
            value=unknown[0],
        )
    found = {c: weights.get(c, weights.get(str(c))) for c in classes}
    for label, weight in found.items():
        if weight is None:
            raise ClassesError(
                what + f" must name every class, and does not name {label!r}.", value=label
            )
        if isinstance(weight, bool) or not isfinite(weight) or weight <= 0:
            raise ClassesError(
                what + f" of {label!r} must be a number above 0, got {weight!r}.", value=weight
            )
    return {label: float(weight) for label, weight in found.items() if weight is not None}
