"""The folds of a search: the rows to fit on and to evaluate, of all rows or of some."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import resample

from emsco.exceptions import ClassesError, Parameter, SearchError
from emsco.learners.folds import Fold


def make_folds(
    splits: Iterable[tuple[Any, Any]], labels: NDArray[Any], max_rows: int | None, seeds: Any
) -> list[Fold]:
    """Make folds from splits; with `max_rows`, keep only rows that are drawn."""
    parts = [
        (np.asarray(train, dtype=np.intp), np.asarray(test, dtype=np.intp))
        for train, test in splits
    ]
    if max_rows is not None and max_rows < len(labels):
        drawn = _draw_rows(labels, max_rows, seeds)
        parts = [(train[drawn[train]], test[drawn[test]]) for train, test in parts]
    folds = [Fold(train, test) for train, test in parts if len(train) and len(test)]
    if not folds:
        raise SearchError(Parameter("cv") + " leaves no rows to evaluate designs on.")
    return folds


def _draw_rows(labels: NDArray[Any], n_rows: int, seeds: Any) -> NDArray[np.bool_]:
    """Mark rows drawn with classes in proportion."""
    rows = np.arange(len(labels))
    chosen = resample(rows, replace=False, n_samples=n_rows, stratify=labels, random_state=seeds)
    lost = sorted(set(labels.tolist()) - set(labels[chosen].tolist()), key=str)
    if lost:
        raise ClassesError(f"max_rows={n_rows} leaves no row of the class {lost[0]!r}; allow more.")
    drawn = np.zeros(len(labels), dtype=np.bool_)
    drawn[chosen] = True
    return drawn
