"""The part of a fitted cascade that decides, frozen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from emsco.cascade.decision_loop import Answer, Ask, Plan, decide_block, decide_rows, drive
from emsco.cascade.factors import Factors, factors_of
from emsco.cascade.one_row import OneRow
from emsco.cascade.stake_cap import StakeCap
from emsco.core.costs import Costs
from emsco.core.decisions import ACCEPTED, INVALID_VALUE, Decisions, reason_for
from emsco.core.design import StageDesign
from emsco.core.label_rule import EQUAL, LabelRule
from emsco.exceptions import DecisionsError, ModelError
from emsco.rows.column_reader import ColumnReader
from emsco.rows.columns import NUMERIC, Columns, all_finite, narrow, slice_columns, transpose_blocks
from emsco.rows.rows import Layout, MatrixColumns, Rows


class Guard(Protocol):
    """Protocol of a `guard`: it learns columns and says which rows must not be judged."""

    def fit(self, columns: Mapping[str, NDArray[Any]]) -> Any:
        """Learn what the columns look like in training."""

    def reasons(self, columns: Mapping[str, NDArray[Any]]) -> NDArray[np.object_] | None:
        """Return why each row must be rejected, "" if it need not be; None if no row must be."""


@dataclass(frozen=True)
class Decider:
    """The fitted, frozen part of a cascade that decides rows.

    It holds everything that decisions depend on and nothing else, and does not change if parameters
    of the cascade are set later. Files, certificates, fingerprints and every driver of the decision
    loop work with it.

    Parameters
    ----------
    plan : Plan
        The stages (what they buy, what judges the rows, thresholds and prices) and the classes.
    design : StageDesign
        The design, aligned with the prices.
    costs : Costs
        The prices.
    thresholds : array of shape (n_stages, n_classes)
        The confidence needed at each stage for each class.
    layout : Layout
        How X is laid out.
    readers : mapping of str to ColumnReader
        How to read each column that some stage uses.
    container : str
        The container in which the user's own classifiers expect their columns.
    block_rows : int
        The number of rows decided at a time.
    guard : object with reasons(columns), default=None
        Says which rows must not be judged. None: an invalid value raises an error.
    final : model with predict, default=None
        The last stage, if it is an existing model.

    Examples
    --------
    A custom driver, which fetches values when the decision loop asks for them:

    >>> from sklearn.datasets import load_iris
    >>> from emsco import CascadeClassifier, StageDesign
    >>> X, y = load_iris(return_X_y=True)
    >>> cascade = CascadeClassifier(design=StageDesign([1, 1, 0, 0])).fit(X, y)
    >>> decider, fetched = cascade.decider_, []
    >>> def fetch(ask):
    ...     fetched.append((ask.sources, len(ask.rows)))
    ...     return decider.answer({name: X[ask.rows, int(name[1:])] for name in ask.features})
    >>> decisions = decider.drive(len(X), fetch)
    >>> fetched
    [(('x2', 'x3'), 150), (('x0', 'x1'), 19)]
    >>> bool((decisions.label == cascade.predict(X)).all())
    True
    """

    plan: Plan
    design: StageDesign
    costs: Costs
    thresholds: NDArray[np.float64]
    layout: Layout
    readers: Mapping[str, ColumnReader]
    container: str
    block_rows: int
    guard: Any = None
    final: Any = None

    @property
    def classes(self) -> NDArray[Any]:
        """The labels."""
        return self.plan.classes

    @property
    def label_weights(self) -> dict[Any, float] | None:
        """The weight of each label, as a parameter of a cascade; None if all are equal.

        None, too, if they are the prices of errors, which such a cascade takes as its weights.
        """
        rule, errors = self.plan.rule, self.costs.errors
        prices = LabelRule.of(list(errors.values())) if errors else EQUAL
        if rule == prices:
            return None
        weights = rule.weights or (1.0,) * len(self.classes)
        return dict(zip(self.classes.tolist(), weights, strict=True))

    @cached_property
    def columns_read(self) -> list[str]:
        """The columns that some stage reads, of a final model's logged answers, and of stakes."""
        answers = self.layout.answers
        more = [*(() if answers is None else (answers,)), *([self.cap.column] if self.cap else [])]
        return list(dict.fromkeys([*self.readers, *more]))

    @property
    def cap(self) -> StakeCap | None:
        """The cap above which rows are rejected, with the column of stakes; None: no cap."""
        return self.plan.cap

    def capped(self, cap: StakeCap) -> Decider:
        """Return a decider that rejects all rows with a stake above a cap."""
        if self.final is not None:
            raise DecisionsError(
                "A cascade with a final model rejects no row, so it can have no cap on stakes."
            )
        return replace(self, plan=replace(self.plan, cap=cap))

    @cached_property
    def encodes(self) -> bool:
        """Whether columns are encoded before the first stage; a final model takes them as given."""
        return self.final is None and self.reads_encodings

    def drive(
        self, n_rows: int, answer: Callable[[Ask], Answer], *, stakes: Any = None
    ) -> Decisions:
        """Decide rows with a function that answers the requests of the decision loop."""
        return drive(decide_rows(self.plan, n_rows, stakes=stakes), answer)

    def answer(self, columns: Columns, rows: NDArray[np.intp] | None = None) -> Answer:
        """Read and check the values of some columns, and return them as an answer to the loop.

        With a guard, a value that cannot be judged is a reason to reject its row. Without one, it
        raises an error that names the row, by its position or by its number in `rows`.
        """
        if self.guard is not None:
            return self.examine(columns)
        values = {name: self._read(name, column) for name, column in columns.items()}
        for name, column in columns.items():
            if name in self.readers:
                numbers = 0 if rows is None else rows
                self.readers[name].refuse_invalid(values[name], name, column, numbers)
        taken = values if self.final is None else columns
        return Answer([taken[name] for name in columns])

    def examine(self, columns: Columns) -> Answer:
        """Read the values of some columns, and return them as an answer to the loop; never raise.

        A value that cannot be judged is a reason to reject its row, with or without a guard.
        """
        values = {name: self._read(name, column) for name, column in columns.items()}
        known = {name: column for name, column in values.items() if name in self.readers}
        taken = values if self.final is None else columns
        return Answer([taken[name] for name in columns], self.reasons(known))

    def decide(self, rows: Rows, stakes: Any = None) -> Decisions:
        """Decide rows that were read; decisions keep the index and library of their frame.

        With a cap, `stakes` has the stake of every row.
        """
        parts, first = [], 0
        for block in self._blocks(rows):
            last = first + len(next(iter(block.values())))
            parts.append(self._decide(block, stakes=None if stakes is None else stakes[first:last]))
            first = last
        decided = Decisions.concatenate(parts)
        if rows.container == "polars":
            return decided.beside(library=rows.container)
        return decided if rows.index is None else decided.beside(index=rows.index)

    def probability(self, rows: Rows, stakes: Any = None) -> NDArray[np.float64]:
        """Return the probabilities of the last stage bought, with one column per class."""
        parts: list[NDArray[np.float64]] = []
        n_classes = len(self.classes)
        first = 0
        for block in self._blocks(rows):
            n_rows = len(next(iter(block.values())))
            own = None if stakes is None else stakes[first : first + n_rows]
            first += n_rows
            # All classes are equally probable for a row that the guard kept from every stage.
            part = np.full((n_rows, n_classes), 1 / n_classes)
            self._decide(block, probability=part, stakes=own)
            parts.append(part)
        return np.concatenate(parts)

    @cached_property
    def one_row(self) -> OneRow:
        """What decides one row at a time, given as a mapping of feature to value."""
        return OneRow(self)

    def __getstate__(self) -> dict[str, Any]:
        # Without what is derived from the fields.
        return {field.name: self.__dict__[field.name] for field in fields(self)}

    def factors(self, values: Columns, decisions: Decisions) -> list[Factors]:
        """Return what each feature contributed to each decision, if its stage is linear.

        A reason says why a row was rejected. Factors say what its label rests on.

        Parameters
        ----------
        values : mapping of feature to column
            The values that the rows were decided by, one per decision. Of a row, only what was
            bought up to its exit stage is used.
        decisions : Decisions
            The decisions about these rows.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from emsco import CascadeClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> cascade = CascadeClassifier().fit(X[50:], y[50:])
        >>> values = {f"x{place}": X[50:51, place] for place in range(4)}
        >>> (factors,) = cascade.decider_.factors(values, cascade.decide(X[50:51]))
        >>> print(factors)
        1 at stage 0: score 2.913
          -0.1016  base
           +1.561  x3
          +0.5869  x1
          +0.5545  x2
           +0.312  x0
        The base is the score of a row with the training mean of every number.
        """
        return factors_of(self.plan, self.readers, values, decisions)

    def reasons(self, values: Columns) -> NDArray[np.object_] | None:
        """Return why rows must be rejected (guard or invalid value); None if no row must be."""
        if not self.encodes:  # otherwise values are plain already
            values = {name: self.readers[name].plain(column) for name, column in values.items()}
        reasons: NDArray[np.object_] | None = None
        if self.guard is not None:
            reasons = self.guard.reasons(values)
        if reasons is not None:
            reasons = np.asarray(reasons, dtype=object)
        for name, column in values.items():
            bad = self.readers[name].invalid(column)
            if bad is not None:
                current = np.full(len(bad), ACCEPTED, dtype=object) if reasons is None else reasons
                reason = reason_for(INVALID_VALUE, name)
                reasons = np.where(bad & (current == ACCEPTED), reason, current)
        return reasons

    def _read(self, name: str, column: Any) -> Any:
        reader = self.readers.get(name)
        return column if reader is None else reader.read(column)

    def _decide(
        self,
        block: Columns,
        *,
        probability: NDArray[np.float64] | None = None,
        stakes: Any = None,
    ) -> Decisions:
        examine = None if self.guard is None else self.reasons
        return decide_block(
            self.plan, block, examine=examine, probability=probability, stakes=stakes
        )

    def _blocks(self, rows: Rows) -> Iterator[Columns]:
        """Return rows in blocks of columns that the stages can judge; refuse invalid values."""
        columns = rows.columns
        if isinstance(columns, MatrixColumns) and self._takes_numbers(columns.matrix):
            return self._matrix_blocks(columns.matrix)
        raw = {name: columns[name] for name in self.readers}
        values = {name: reader.read(raw[name]) for name, reader in self.readers.items()}
        self._refuse_invalid(values, raw)
        if self.final is None:
            return slice_columns(values, self.block_rows)
        if self.layout.answers is not None:
            raw[self.layout.answers] = rows.answers
        return slice_columns(raw, self.block_rows)

    def _matrix_blocks(self, matrix: NDArray[Any]) -> Iterator[Columns]:
        narrowed, size, names = narrow(matrix), self.block_rows, self.layout.names
        dtype = np.float64 if self.reads_encodings else narrowed.dtype
        for number, (rows, columns) in enumerate(transpose_blocks(narrowed, names, size, dtype)):
            if not all_finite(rows):
                first = number * size
                raw = MatrixColumns(matrix[first : first + size], names)
                self._refuse_invalid(columns, raw, first)
            yield columns

    @cached_property
    def reads_encodings(self) -> bool:
        """Whether the default classifier is used, which encodes its columns."""
        return any(reader.encoding is not None for reader in self.readers.values())

    def _takes_numbers(self, matrix: NDArray[Any]) -> bool:
        """Return whether every column is the numbers of a matrix as they are."""
        declared = any(reader.type is not None for reader in self.readers.values())
        return matrix.dtype.kind in NUMERIC and not declared

    def _refuse_invalid(self, values: Columns, raw: Columns, first_row: int = 0) -> None:
        """Refuse values that cannot be judged; with a guard, their rows are rejected instead."""
        if self.guard is not None:
            return
        for stage in self.plan.stages:
            for name in stage.features:
                if name in self.readers:
                    reader = self.readers[name]
                    reader.refuse_invalid(values[name], name, raw[name], first_row)


def decider_of(cascade: Any) -> Decider:
    """Return what decides in a fitted cascade, or in the one that a search has chosen.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from emsco import CascadeClassifier
    >>> from emsco.cascade import decider_of
    >>> decider_of(CascadeClassifier().fit(*load_iris(return_X_y=True))).columns_read
    ['x0', 'x1', 'x2', 'x3']
    """
    chosen = getattr(cascade, "best_cascade_", cascade)
    decider = getattr(chosen, "decider_", chosen)
    if not isinstance(decider, Decider):
        raise ModelError(
            f"Give a fitted cascade, got {type(cascade).__name__}, which decides nothing yet."
        )
    return decider
