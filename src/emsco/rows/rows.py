"""X, read once: its columns by name, their container, and the answers of a final model.

All other packages take `Rows`; only this one looks into arrays and frames.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from emsco.core.validation import read_given_labels
from emsco.exceptions import ColumnsError
from emsco.rows.columns import (
    Column,
    Columns,
    container_of,
    pick_columns,
    read_columns,
    refuse_lacking,
    refuse_twice,
    unmask,
)


@dataclass(frozen=True)
class Rows:
    """Rows as named columns."""

    names: tuple[str, ...]  # in their order
    container: str  # of X: "array", "pandas" or "polars"
    columns: Columns  # by name
    n_rows: int
    index: Any = None  # of a pandas frame
    answers: Column | None = None  # of a final model, if they are a column of X

    def __len__(self) -> int:
        return self.n_rows

    def only(self, names: Sequence[str]) -> Rows:
        """Return the same rows with some of their columns."""
        columns = {name: self.columns[name] for name in names}
        return replace(self, names=tuple(names), columns=columns)


class MatrixColumns(Mapping[str, Column]):
    """The columns of a matrix by name; each is taken when it is used."""

    def __init__(self, matrix: NDArray[Any], names: Sequence[str]) -> None:
        self.matrix = matrix
        self._names = names

    @cached_property
    def _place(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self._names)}

    def __getitem__(self, name: str) -> Column:
        return self.matrix[:, self._place[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@dataclass(frozen=True)
class Layout:
    """The columns of X that `fit` saw, and the column with logged answers, if there is one."""

    names: tuple[str, ...]  # in the order of X
    named: bool  # whether X had these names; otherwise columns are matched by position
    answers: str | None = None  # the column with the answers of a final model
    unused: tuple[str, ...] = ()  # belong to no source: X has them, but they are never read
    # What the columns of a frame are called if their names are no text, such as 0, 1, 2. As in
    # scikit-learn, `names` are x0, x1, x2 then; other frames are still matched by these.
    labels: tuple[str, ...] = ()

    @classmethod
    def learn(
        cls, owner: Any, X: Any, y: Any, answers: str | None = None
    ) -> tuple[Layout, Rows, Any]:
        """Read rows to fit on, and check `y` as scikit-learn does.

        `owner` is the estimator that is being fitted; it gets `n_features_in_` and the like. The
        last that is returned is X without the answers of a final model, for splitters of the user.
        """
        X, logged = _apart(X, answers)
        y = None if y is None else read_given_labels(y)
        container = container_of(X)
        if container == "array":
            X = unmask(X)
            X = validate_data(owner, X, y, dtype=None, ensure_all_finite=False, multi_output=True)
            X = X[0]
        else:
            refuse_twice(list(X.columns))
            validate_data(owner, X, y, skip_check_array=True)
            if not X.shape[0] or not X.shape[1]:
                raise ColumnsError(f"X must have rows and columns, its shape is {X.shape}.")
        known_names = getattr(owner, "feature_names_in_", None)
        numbered = [f"x{i}" for i in range(X.shape[1])]  # as scikit-learn names columns
        names = numbered if known_names is None else known_names.tolist()
        is_labelled = known_names is None and container != "array"
        labels = tuple(map(str, X.columns)) if is_labelled else ()
        refuse_twice(labels)
        layout = cls(tuple(names), known_names is not None, answers, labels=labels)
        index = X.index if container == "pandas" else None
        columns = read_columns(X, names)
        return layout, Rows(layout.names, container, columns, X.shape[0], index, logged), X

    def using(self, rows: Rows, features: Iterable[str]) -> tuple[Layout, Rows]:
        """Leave out the columns that are not among these features."""
        wanted = set(features)
        layout = replace(self, unused=tuple(name for name in self.names if name not in wanted))
        return (layout, rows.only(layout.used)) if layout.unused else (self, rows)

    @property
    def used(self) -> tuple[str, ...]:
        """The columns of sources, in the order of X."""
        unused = set(self.unused)
        return tuple(name for name in self.names if name not in unused)

    def read(self, owner: Any, X: Any, wanted: Iterable[str], *, by_name: bool = False) -> Rows:
        """Read other rows, of which the columns `wanted` are used.

        An array is read by position. A frame must have the columns that `fit` saw, in their order;
        with `by_name`, it needs only those wanted, and other columns are ignored.
        """
        container = container_of(X)
        if container == "array":
            X, logged = _apart(X, self.answers)
            matrix = validate_data(
                owner, unmask(X), reset=False, dtype=None, ensure_all_finite=False
            )
            columns = MatrixColumns(matrix, self.names)
            return Rows(self.names, container, columns, len(matrix), answers=logged)
        index = X.index if container == "pandas" else None
        if by_name and self.named:
            apart = () if self.answers is None else (self.answers,)
            picked = pick_columns(X, [*wanted, *apart])
            logged = None if self.answers is None else picked.pop(self.answers)
            return Rows(tuple(wanted), container, picked, X.shape[0], index, logged)
        X = self._without_others(X)
        rest, logged = _apart(X, self.answers)
        rest = self._in_order(rest)
        self.check(owner, X)
        picked = read_columns(rest, self.names)
        return Rows(self.names, container, picked, X.shape[0], index, logged)

    def check(self, owner: Any, X: Any) -> None:
        """Refuse X if it lacks columns that `fit` saw, or has them in another order."""
        X = self._without_others(X)
        if len(getattr(X, "shape", ())) == 2:
            validate_data(owner, _apart(X, self.answers)[0], reset=False, skip_check_array=True)

    def read_known(self, X: Any) -> Rows:
        """Read the columns of sources that X has; a frame may lack some of them."""
        container = container_of(X)
        if container == "array":
            X = np.asarray(X)
        index = X.index if container == "pandas" else None
        if container != "array" and self.named:
            held = set(X.columns)
            there = [name for name in self.used if name in held]
            return Rows(tuple(there), container, pick_columns(X, there), X.shape[0], index)
        if len(X.shape) != 2 or X.shape[1] != len(self.names):
            raise ColumnsError(f"X must have {len(self.names)} columns, its shape is {X.shape}.")
        columns = read_columns(self._in_order(X), self.names)
        return Rows(self.names, container, columns, X.shape[0], index).only(self.used)

    def read_column(self, X: Any, name: str) -> Column:
        """Read one column of X, which may belong to no source; of an array, one that `fit` saw."""
        if container_of(X) != "array" and not (self.labels and name in self.names):
            return pick_columns(X, [name])[name]
        refuse_lacking(self.names, [name])
        return read_columns(unmask(self._in_order(X)), self.names)[name]

    def _without_others(self, X: Any) -> Any:
        """Leave out the columns of a frame that `fit` did not see, if it has all that `fit` saw."""
        container = container_of(X)
        if container == "array" or not self.named:
            return X
        wanted = {*self.names, *(() if self.answers is None else (self.answers,))}
        held = list(X.columns)
        if len(held) == len(wanted) or not wanted <= set(held):
            return X
        used = [name for name in held if name in wanted]
        return X.loc[:, used] if container == "pandas" else X.select(used)

    def _in_order(self, X: Any) -> Any:
        """Put the columns of a frame into the order that `fit` saw, if their names are no text."""
        if not self.labels or container_of(X) == "array":
            return X
        held = [str(label) for label in X.columns]
        if held == list(self.labels):
            return X
        refuse_twice(held)
        refuse_lacking(held, self.labels)
        places = [held.index(label) for label in self.labels]
        return X.iloc[:, places] if container_of(X) == "pandas" else X[:, places]


def read_all(X: Any) -> Rows:
    """Read every column of X, whatever a model may know of it."""
    container = container_of(X)
    if container == "array":
        X = unmask(X)
        X = X if hasattr(X, "shape") else np.asarray(X)
    if len(X.shape) != 2:
        raise ColumnsError(f"X must have rows and columns, its shape is {X.shape}.")
    labels = range(X.shape[1]) if container == "array" else X.columns
    names = tuple(f"x{name}" if container == "array" else str(name) for name in labels)
    index = X.index if container == "pandas" else None
    return Rows(names, container, read_columns(X, names), X.shape[0], index)


def _apart(X: Any, answers: str | None) -> tuple[Any, Column | None]:
    """Split off the column with a final model's answers, if there is one."""
    if answers is None:
        return X, None
    logged = read_answers(X, answers)
    rest = X.drop(columns=[answers]) if container_of(X) == "pandas" else X.drop(answers)
    return rest, logged


def read_answers(X: Any, column: str) -> Column:
    """Read the column of a frame that holds the answers of a final model."""
    if container_of(X) == "array":
        raise ColumnsError(
            f"Answers are logged in the column {column!r}; give X as a frame that has it."
        )
    return pick_columns(X, [column])[column]


def read_matrix(owner: Any, X: Any, *labels: Any, reset: bool = True) -> Any:
    """Read X as a matrix of numbers, which may be missing, and labels with it."""
    return validate_data(
        owner, X, *labels, dtype=np.float64, ensure_all_finite="allow-nan", reset=reset
    )


def pick(X: Any, names: Sequence[str]) -> Columns:
    """Read some columns of a frame by name."""
    return pick_columns(X, names)
