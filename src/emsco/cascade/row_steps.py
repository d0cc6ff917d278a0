"""The stages of a plan as plain numbers: how each reads the values of one row, and adds them up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from emsco.cascade.decision_loop import Stage
from emsco.core.value_type import LONG_TEXT
from emsco.learners.logistic import LinearStage
from emsco.rows.column_reader import BOOLEAN
from emsco.rows.declared_types import value_reader
from emsco.rows.encoding import Category, Number, NumberTerm
from emsco.rows.guard import Categories, Range
from emsco.rows.text_encoding import Text, TextTerm
from emsco.rows.value_types import reader_like, to_number

LARGEST = float(np.finfo(np.float64).max)


class NumberColumn(NamedTuple):
    """A column of numbers: how its values are read, and which are usual."""

    is_boolean: bool
    declared: Callable[[object], Any] | None
    low: float
    high: float
    may_be_missing: bool


class NumberColumns(NamedTuple):
    """The columns of numbers that a stage buys, whose values are kept in places side by side."""

    features: tuple[str, ...]
    lows: bytes
    highs: bytes
    begin: int
    columns: tuple[NumberColumn, ...]
    are_plain: bool  # whether a float or an integer is taken as it is


class CategoryColumn(NamedTuple):
    """A column of categories that a stage buys: where its code is kept, and what is usual."""

    feature: str
    place: int
    read: Callable[[object], Any]
    codes: Mapping[Any, int]
    unseen: int
    guard: Categories | None
    may_be_missing: bool


class LongTextColumn(NamedTuple):
    """A column of long text that a stage buys: where it is kept, and whether it may be missing."""

    feature: str
    place: int
    read: Callable[[object], Any]
    may_be_missing: bool


class RowTerm(NamedTuple):
    """What a value adds to the scores if it is not slope times value; a number has no table."""

    place: int
    centre: float
    slopes: list[float]  # of each score
    missing: list[float] | None  # what a missing value adds to each
    table: list[list[float]] | None  # of each score, what each code adds
    text: TextTerm | None = None


class RowStep(NamedTuple):
    """A stage, as plain numbers."""

    numbers: NumberColumns
    categories: tuple[CategoryColumn, ...]
    texts: tuple[LongTextColumn, ...]
    plain: bytes  # the places of values that add slope times value
    slopes: list[bytes]  # of each score, one for each of these
    terms: list[RowTerm]
    intercepts: list[float]
    thresholds: list[float]  # of each class
    cost: float
    latency: float


def row_steps(decider: Any) -> list[RowStep]:
    """Turn the stages of a plan into plain numbers."""
    places: dict[str, int] = {}
    return [_step(decider, stage, places) for stage in decider.plan.stages]


def _step(decider: Any, stage: Stage, places: dict[str, int]) -> RowStep:
    """Turn a stage into plain numbers; its features get the next `places`, numbers first."""
    judge: LinearStage = stage.judge  # type: ignore[assignment]  # asked before
    encodings = {feature: decider.readers[feature].encoding for feature in stage.features}
    own = [feature for feature in stage.features if isinstance(encodings[feature], Number)]
    begin = len(places)
    for feature in (*own, *(feature for feature in stage.features if feature not in own)):
        places[feature] = len(places)
    columns = tuple(_number_column(decider, feature) for feature in own)
    numbers = NumberColumns(
        tuple(own),
        np.array([column.low for column in columns]).tobytes(),
        np.array([column.high for column in columns]).tobytes(),
        begin,
        columns,
        are_plain=all(column.declared in (None, to_number) for column in columns),
    )
    thresholds = stage.threshold.tolist()
    if len(thresholds) == 1:
        thresholds *= len(decider.classes)
    return RowStep(
        numbers,
        tuple(
            _category_column(decider, feature, encoding, places[feature])
            for feature, encoding in encodings.items()
            if isinstance(encoding, Category)
        ),
        tuple(
            LongTextColumn(
                feature,
                places[feature],
                value_reader(LONG_TEXT),
                decider.readers[feature].missing_seen,
            )
            for feature, encoding in encodings.items()
            if isinstance(encoding, Text)
        ),
        np.array([places[feature] for feature in judge.plain], dtype=np.int64).tobytes(),
        [slopes.tobytes() for slopes in judge.slopes],
        [_term(places[feature], term) for feature, term in judge.others],
        judge.intercept[:, 0].tolist(),
        thresholds,
        float(stage.cost),
        float(stage.latency),
    )


def _number_column(decider: Any, feature: str) -> NumberColumn:
    reader = decider.readers[feature]
    declared = None if reader.type is None else value_reader(reader.type)
    checked = None if decider.guard is None else decider.guard.learned_[feature]
    low, high = -LARGEST, LARGEST
    if isinstance(checked, Range):
        low, high = checked.low, checked.high
    return NumberColumn(reader.kind == BOOLEAN, declared, low, high, reader.missing_seen)


def _category_column(decider: Any, feature: str, encoding: Category, place: int) -> CategoryColumn:
    reader = decider.readers[feature]
    plain = reader_like(reader.known_levels)
    read = plain if reader.type is None else _after(value_reader(reader.type), plain)
    checked = None if decider.guard is None else decider.guard.learned_[feature]
    guard = checked if isinstance(checked, Categories) else None
    return CategoryColumn(
        feature, place, read, encoding.code_of, encoding.unseen, guard, reader.missing_seen
    )


def _after(first: Callable[[object], Any], then: Callable[[object], Any]) -> Callable[..., Any]:
    return lambda value: then(first(value))


def _term(place: int, term: Any) -> RowTerm:
    if isinstance(term, NumberTerm):
        missing = None if term.missing is None else term.missing[:, 0].tolist()
        return RowTerm(place, term.centre, term.slope[:, 0].tolist(), missing, None)
    if isinstance(term, TextTerm):
        return RowTerm(place, 0.0, [], None, None, term)
    return RowTerm(place, 0.0, [], None, term.table.tolist())
