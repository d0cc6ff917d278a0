"""Splits of rows: the rows that a stage is fitted on, and those it is evaluated on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco.exceptions import ClassesError
from emsco.rows.columns import Columns
from emsco.rows.encoding import Array

_MOST_CLASSES = 256  # a code must fit into one byte


@dataclass(frozen=True)
class Fold:
    """One split: rows to fit on and rows to evaluate, which may be from another table."""

    train: NDArray[np.intp]
    test: NDArray[np.intp]
    test_columns: Columns | None = None  # None: the same table


def refuse_missing_class(
    labels: NDArray[Any], folds: Sequence[Fold], sample_weight: Array | None
) -> None:
    """Refuse folds from which a classifier cannot learn every class."""
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) > _MOST_CLASSES:
        raise ClassesError(f"`y` may have at most {_MOST_CLASSES} classes, got {len(classes)}.")
    for number, fold in enumerate(folds):
        rows = fold.train if sample_weight is None else fold.train[sample_weight[fold.train] > 0]
        counts = np.bincount(codes[rows], minlength=len(classes))
        if not counts.all():
            counted = "" if sample_weight is None else " with a sample_weight above 0"
            raise ClassesError(
                f"Every training fold must contain every class; fold {number} has no row{counted} "
                f"of the class {classes.tolist()[np.argmin(counts)]!r}. Stratify the folds, or "
                "use fewer."
            )
