"""Decide one row value by value, without arrays: a hundred times faster than a table of one row.

What counts is the decision loop. This is a shortcut through it for the ordinary case: stages of the
default classifier, and a row whose values are all of a kind that training had. It reads values by
the functions that read columns, and adds and multiplies the same numbers in the same order, so
decisions are equal to the last bit. Whatever is unusual (a value that cannot be judged, a guard
that rejects, other classifiers, a key that is missing) is left to the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import accumulate
from math import isfinite, isnan
from types import NoneType
from typing import Any, NamedTuple

import numpy as np

from emsco._core import add_products, read_numbers
from emsco.cascade.decision_loop import Answer, Ask, Stage
from emsco.core.decisions import ACCEPTED, LOW_CONFIDENCE, Decision
from emsco.core.label_rule import LabelRule
from emsco.exceptions import ColumnsError, nearest
from emsco.guard import InputGuard
from emsco.learners.logistic import HIGHEST_SCORE, LOWEST_SCORE, LinearStage
from emsco.rows.column_reader import BOOLEAN
from emsco.rows.columns import object_array
from emsco.rows.declared_types import value_reader
from emsco.rows.encoding import Category, Number, NumberTerm
from emsco.rows.guard import Categories, Range
from emsco.rows.value_types import UNREADABLE, reader_like, to_number

Row = Mapping[str, Any]
_STRICT = {float, int, NoneType}  # types of numbers that come over a network
_YES_OR_NO = {*_STRICT, bool}
_LARGEST = float(np.finfo(np.float64).max)


class _NumberColumn(NamedTuple):
    """A column of numbers: how its values are read, and which are usual."""

    is_boolean: bool
    declared: Callable[[object], Any] | None
    low: float
    high: float
    may_be_missing: bool


class _Numbers(NamedTuple):
    """The columns of numbers that a stage buys, whose values are kept in places side by side."""

    features: tuple[str, ...]
    lows: bytes
    highs: bytes
    begin: int
    columns: tuple[_NumberColumn, ...]
    are_plain: bool  # whether a float or an integer is taken as it is


class _CategoryColumn(NamedTuple):
    """A column of categories that a stage buys: where its code is kept, and what is usual."""

    feature: str
    place: int
    read: Callable[[object], Any]
    codes: Mapping[Any, int]
    unseen: int
    guard: Categories | None
    may_be_missing: bool


class _Term(NamedTuple):
    """What a value adds to the scores if it is not slope times value; a number has no table."""

    place: int
    centre: float
    slopes: list[float]  # of each score
    missing: list[float] | None  # what a missing value adds to each
    table: list[list[float]] | None  # of each score, what each code adds


class _Step(NamedTuple):
    """A stage, as plain numbers."""

    numbers: _Numbers
    categories: tuple[_CategoryColumn, ...]
    plain: bytes  # the places of values that add slope times value
    slopes: list[bytes]  # of each score, one for each of these
    terms: list[_Term]
    intercepts: list[float]
    thresholds: list[float]  # of each class
    cost: float
    latency: float


class Judged(NamedTuple):
    """A verdict: the place of the label, its probability and share, and the stage that gave it."""

    winner: int
    confidence: float
    share: float
    accepted: bool
    exit_stage: int


class _Unusual(Exception):  # noqa: N818  # no error: the loop decides this row
    """A value that the shortcut does not know."""


class OneRow:
    """Decides rows one at a time, as the decision loop of a cascade does.

    Parameters
    ----------
    decider : Decider
        The part of a cascade that decides.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from emsco import CascadeClassifier
    >>> from emsco.cascade.one_row import OneRow
    >>> X, y = load_iris(return_X_y=True)
    >>> one = OneRow(CascadeClassifier().fit(X, y).decider_)
    >>> one.decide({"x0": 5.1, "x1": 3.5, "x2": 1.4, "x3": 0.2}).label
    0
    """

    def __init__(self, decider: Any) -> None:
        self._decider = decider
        plan = decider.plan
        self._rule: LabelRule = plan.rule
        self._labels = [label.item() if isinstance(label, np.generic) else label
                        for label in plan.classes]  # fmt: skip
        self._steps: list[_Step] = _steps(decider) if _is_ordinary(decider) else []
        self._blank: list[Any] = [0.0] * sum(len(stage.features) for stage in plan.stages)

    def decide(self, row: Row) -> Decision:
        """Decide a row, which is asked for values only when a stage needs them."""
        if type(row) is not dict:
            row = _Held(row)
        judged = self.judge(row)
        if judged is None:
            return self._by_the_loop(row)
        winner, confidence, share, accepted, number = judged
        step = self._steps[number]
        return Decision(
            self._labels[winner], accepted, number, confidence, step.cost,
            ACCEPTED if accepted else LOW_CONFIDENCE, step.latency,
            share=None if self._rule.is_equal else share,
        )  # fmt: skip

    def judge(self, row: Row, *, strictly: bool = False) -> Judged | None:
        """Judge a row of usual values; None if the decision loop must decide it.

        `strictly`: numbers are floats, integers or None, or booleans if training had them, and
        categories texts or None; other types are not usual.
        """
        values, judged = self.places(), None
        for number in range(len(self._steps)):
            judged = self.judge_stage(number, row, values, strictly=strictly)
            if judged is None or judged.accepted:
                break
        return judged

    def places(self) -> list[Any]:
        """Return places for the values of a row, which its stages fill one after another."""
        return self._blank.copy()

    def judge_stage(
        self, number: int, row: Row, values: list[Any], *, strictly: bool = False
    ) -> Judged | None:
        """Judge what a stage buys of a row, after earlier stages have filled their `values`."""
        if not self._steps:
            return None
        step = self._steps[number]
        numbers = step.numbers
        try:
            # Nearly every row has usual numbers.
            if not (numbers.are_plain and read_numbers(row, *numbers[:3], values, numbers.begin)):
                _read_slowly(numbers, row, values, strictly)
            for column in step.categories:
                values[column.place] = _code(column, row[column.feature], strictly)
            winner, confidence, share = self._judge(step, values)
        except (_Unusual, KeyError, OverflowError):
            return None
        return Judged(winner, confidence, share, share >= step.thresholds[winner], number)

    def _by_the_loop(self, held: Row) -> Decision:
        """Decide a row by the decision loop."""

        def answer(ask: Ask) -> Answer:
            columns = {name: object_array([_value(held, name)]) for name in ask.features}
            found: Answer = self._decider.answer(columns, ask.rows)
            return found

        cap = self._decider.cap
        stakes = None if cap is None else [_value(held, cap.column)]
        decision: Decision = self._decider.drive(1, answer, stakes=stakes)[0]
        return decision

    def _judge(self, step: _Step, values: list[Any]) -> tuple[int, float, float]:
        """Return the winning class, its probability and its share."""
        if len(step.intercepts) > 1:
            probability = _many(step, values)
        else:
            yes = _of_two(step, values)
            no = 1.0 - yes
            if not self._rule.weights:  # the usual case, without lists
                return (1, yes, yes) if yes > no else (0, no, no)
            probability = [no, yes]
        if not self._rule.weights:
            winner = _largest(probability)
            return winner, probability[winner], probability[winner]
        scaled = [w * p for w, p in zip(self._rule.weights, probability, strict=True)]
        total = scaled[0] + scaled[1]
        for more in scaled[2:]:
            total += more
        shares = [own / total for own in scaled]
        winner = _largest(shares)
        return winner, probability[winner], shares[winner]


class _Held(dict[str, Any]):
    """A row whose values are looked up once, when they are needed."""

    def __init__(self, row: Any) -> None:
        self._row = row

    def __missing__(self, feature: str) -> Any:
        value = self[feature] = self._row[feature]
        return value


def _value(row: Row, feature: str) -> Any:
    try:
        return row[feature]
    except KeyError:
        known = getattr(row, "_row", row)
        message = f"The row has no value of {feature!r}, which this stage needs"
        raise ColumnsError(message + nearest(feature, map(str, known))) from None


def _largest(numbers: Sequence[float]) -> int:
    """Return the place of the largest number; if two are equal, of the first."""
    return max(range(len(numbers)), key=numbers.__getitem__)


def _read_slowly(numbers: _Numbers, row: Row, values: list[Any], strictly: bool) -> None:
    """Read numbers that may be spelled, missing or of other types."""
    if strictly and not all(
        type(row[feature]) in (_YES_OR_NO if column.is_boolean else _STRICT)
        for feature, column in zip(numbers.features, numbers.columns, strict=True)
    ):
        raise _Unusual
    for place, pair in enumerate(zip(numbers.features, numbers.columns, strict=True)):
        values[numbers.begin + place] = _number(pair[1], row[pair[0]])


def _number(column: _NumberColumn, value: object) -> float:
    """Return the value of a number; a missing one is NaN."""
    number = to_number(value if column.declared is None else column.declared(value))
    # NaN compares with nothing.
    if column.low <= number <= column.high or (column.may_be_missing and isnan(number)):
        return number
    raise _Unusual


def _code(column: _CategoryColumn, raw: object, strictly: bool) -> int:
    """Return the code of a category."""
    if strictly and type(raw) is not str and raw is not None:
        raise _Unusual
    value = column.read(raw)
    if value is None and not column.may_be_missing:
        raise _Unusual
    if not isinstance(value, Hashable) or value == UNREADABLE:
        raise _Unusual
    if column.guard is not None and column.guard.faults(object_array([value])) is not None:
        raise _Unusual
    return column.codes.get(value, column.unseen)


def _added(term: _Term, value: Any, score: int) -> float:
    """Return what a value adds to a score."""
    if term.table is not None:
        code: int = value
        return term.table[score][code]
    if term.missing is not None and value != value:
        return term.missing[score]
    return term.slopes[score] * float(value - term.centre)


def _of_two(step: _Step, values: list[Any]) -> float:
    """Return the probability of the second of two classes."""
    score = add_products(values, step.plain, step.slopes[0])
    for term in step.terms:
        score += _added(term, values[term.place], 0)
    score += step.intercepts[0]
    if score != score:  # infinities cancelled
        score = 0.0
    elif score < LOWEST_SCORE:
        score = LOWEST_SCORE
    return 1.0 / (1.0 + float(np.exp(-score)))  # numpy's exp, as for columns


def _many(step: _Step, values: list[Any]) -> list[float]:
    """Return the probability of each of three classes or more."""
    scores = [add_products(values, step.plain, slopes) for slopes in step.slopes]
    for term in step.terms:
        for k in range(len(scores)):
            scores[k] += _added(term, values[term.place], k)
    scores = [score + own for score, own in zip(scores, step.intercepts, strict=True)]
    if not all(map(isfinite, scores)):
        lost = any(map(isnan, scores))
        scores = [0.0 if lost else min(max(s, -HIGHEST_SCORE), HIGHEST_SCORE) for s in scores]
    highest = max(scores)
    odds = np.exp([score - highest for score in scores]).tolist()
    *_, total = accumulate(odds)  # in this order
    return [own / total for own in odds]


def _is_ordinary(decider: Any) -> bool:
    """Say whether all stages are of the default classifier, and the guard, if any, is ours."""
    is_linear = all(type(stage.judge) is LinearStage for stage in decider.plan.stages)
    is_known = decider.guard is None or type(decider.guard) is InputGuard
    return is_linear and is_known and decider.final is None and decider.cap is None


def _steps(decider: Any) -> list[_Step]:
    """Turn the stages of a plan into plain numbers."""
    places: dict[str, int] = {}
    return [_step(decider, stage, places) for stage in decider.plan.stages]


def _step(decider: Any, stage: Stage, places: dict[str, int]) -> _Step:
    """Turn a stage into plain numbers; its features get the next `places`, numbers first."""
    judge: LinearStage = stage.judge  # type: ignore[assignment]  # asked before
    encodings = {feature: decider.readers[feature].encoding for feature in stage.features}
    own = [feature for feature in stage.features if isinstance(encodings[feature], Number)]
    begin = len(places)
    for feature in (*own, *(feature for feature in stage.features if feature not in own)):
        places[feature] = len(places)
    columns = tuple(_number_column(decider, feature) for feature in own)
    numbers = _Numbers(
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
    return _Step(
        numbers,
        tuple(
            _category_column(decider, feature, encoding, places[feature])
            for feature, encoding in encodings.items()
            if isinstance(encoding, Category)
        ),
        np.array([places[feature] for feature in judge.plain], dtype=np.int64).tobytes(),
        [slopes.tobytes() for slopes in judge.slopes],
        [_term(places[feature], term) for feature, term in judge.others],
        judge.intercept[:, 0].tolist(),
        thresholds,
        float(stage.cost),
        float(stage.latency),
    )


def _number_column(decider: Any, feature: str) -> _NumberColumn:
    reader = decider.readers[feature]
    declared = None if reader.type is None else value_reader(reader.type)
    checked = None if decider.guard is None else decider.guard.learned_[feature]
    low, high = -_LARGEST, _LARGEST
    if isinstance(checked, Range):
        low, high = checked.low, checked.high
    return _NumberColumn(reader.kind == BOOLEAN, declared, low, high, reader.missing_seen)


def _category_column(decider: Any, feature: str, encoding: Category, place: int) -> _CategoryColumn:
    reader = decider.readers[feature]
    plain = reader_like(reader.known_levels)
    read = plain if reader.type is None else _after(value_reader(reader.type), plain)
    checked = None if decider.guard is None else decider.guard.learned_[feature]
    guard = checked if isinstance(checked, Categories) else None
    return _CategoryColumn(
        feature, place, read, encoding.code_of, encoding.unseen, guard, reader.missing_seen
    )


def _after(first: Callable[[object], Any], then: Callable[[object], Any]) -> Callable[..., Any]:
    return lambda value: then(first(value))


def _term(place: int, term: Any) -> _Term:
    if isinstance(term, NumberTerm):
        missing = None if term.missing is None else term.missing[:, 0].tolist()
        return _Term(place, term.centre, term.slope[:, 0].tolist(), missing, None)
    return _Term(place, 0.0, [], None, term.table.tolist())
