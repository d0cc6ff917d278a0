"""Splits of rows: which ones a stage is fitted on, and which ones it is evaluated on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco.exceptions import ClassesError
from emsco.rows.columns import Columns
from emsco.rows.encoding import Array

_MOST_CLASSES = 256  # that a byte tells apart


@dataclass(frozen=True)
class Fold:
    """One split: rows to fit on and rows to evaluate, which may be of another table."""

    train: NDArray[np.intp]
    test: NDArray[np.intp]
    test_columns: Columns | None = None  # None: of the same


def refuse_missing_class(
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
