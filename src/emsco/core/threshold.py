"""The confidence needed to accept: one number, one per class, or one of those per stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from emsco._utils.frozen_mapping import FrozenMapping
from emsco.exceptions import ThresholdError, quoted

StageThreshold: TypeAlias = float | Mapping[Any, float]
Threshold: TypeAlias = StageThreshold | tuple[StageThreshold, ...]


def freeze(threshold: Threshold) -> Threshold:
    """Copy a threshold into a value that never changes."""
    if isinstance(threshold, tuple):
        return tuple(freeze_stage(stage) for stage in threshold)
    return freeze_stage(threshold)


def freeze_stage(threshold: StageThreshold) -> StageThreshold:
    """Copy the threshold of one stage into a value that never changes."""
    if not isinstance(threshold, float) and isinstance(threshold, Mapping):
        return FrozenMapping({label: _number(value) for label, value in threshold.items()})
    return _number(threshold)


def _number(value: object) -> float:
    if type(value) is float and 0 < value <= 1:  # the usual case, many times a candidate
        return value
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) <= 1:
        raise ThresholdError(f"A threshold must be a number above 0 and at most 1, got {value!r}.")
    return float(value)


def lowest(n_classes: int) -> float:
    """Return the threshold that every row meets, except one with equal probabilities."""
    return float(np.nextafter(1 / n_classes, 1))


def resolve(threshold: Threshold, classes: Sequence[Any], n_stages: int) -> NDArray[np.float64]:
    """Spell a threshold out as one number for every stage and every class."""
    frozen = freeze(threshold)
    stages = frozen if isinstance(frozen, tuple) else (frozen,) * n_stages
    if len(stages) != n_stages:
        raise ThresholdError(
            f"`threshold` holds {len(stages)} stages but the design has {n_stages}."
        )
    resolved = np.array([_by_class(stage, classes) for stage in stages])
    floor = 1 / len(classes)
    if (resolved <= floor).any():
        raise ThresholdError(
            f"A threshold must be above 1 / {len(classes)} classes, or no row could fail to meet "
            f"it; got {resolved.min():.4g}."
        )
    return resolved


def _by_class(threshold: StageThreshold, classes: Sequence[Any]) -> list[float]:
    if not isinstance(threshold, Mapping):
        return [threshold] * len(classes)
    missing = [label for label in classes if label not in threshold]
    unknown = [label for label in threshold if label not in classes]
    if missing or unknown:
        raise ThresholdError(
            f"`threshold` must name each class once; missing: {quoted(missing) or 'none'}; "
            f"not a class: {quoted(unknown) or 'none'}."
        )
    return [threshold[label] for label in classes]


def sort_key(threshold: Threshold) -> tuple[float, ...]:
    """Return a key that sorts thresholds of one kind from low to high."""
    if isinstance(threshold, tuple):
        return tuple(number for stage in threshold for number in sort_key(stage))
    if isinstance(threshold, Mapping):
        return tuple(threshold[label] for label in sorted(threshold, key=str))
    return (threshold,)
