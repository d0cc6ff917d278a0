"""Whether a row is decided alike wherever it comes from: differential decisions, hostile values.

A batch of rows is put into every container and file that can hold it. It is decided as a whole,
permuted, row by row, one by one as mappings and in small blocks; by the cascade, by
load(dump(cascade)), by one that two workers found, and in two threads; with a guard and without.
All fields of all decisions must be the same, bit for bit. Where a value cannot be judged and there
is no guard, every way must refuse it, and name the same row and column.
"""

from __future__ import annotations

import csv
import io
import json
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn.ensemble import HistGradientBoostingClassifier
from typer.testing import CliRunner

from emsco import CascadeClassifier, CascadeSearchCV, InputGuard, StageDesign, dump, load
from emsco.cascade.decision_loop import Answer, Ask
from emsco.cli import _table_file
from emsco.cli._app import app
from emsco.cli._decision_stream import DecisionCounter as Decided
from emsco.cli._decision_stream import decided, schema_of
from emsco.cli._table_file import open_rows
from emsco.core.decisions import INVALID_VALUE, Decision, kind_of
from emsco.exceptions import EmscoWarning, ValuesError
from experiments.tables import markdown
from tests.soak.hostile import (
    NUMBER,
    SHOP,
    TEXT,
    Batch,
    as_frame,
    draw_batch,
    in_files,
    in_python,
)

BATCHES, SMALL_BATCHES = 2_000, 20
ROWS = 600  # to fit on
FIELDS = ("label", "accepted", "exit_stage", "confidence", "cost", "reason")
LOADED = "load(dump(cascade))"
BY_COMMAND = 0.05  # of files; the others by the functions below it, as it loads a model each time
ALL_FLOATS = 0.3  # of batches without text, so that they fit a matrix

# The differences there are, and why. Any other ends the experiment.
LATER_STAGES = "a value that no stage asks for"
DIFFERENCES = {
    LATER_STAGES: "Without a guard, Python refuses rows for any value of a used column that "
    "cannot be judged, as it has them all; the command line reads a column only where a stage "
    "asks for it.",
}

HELD = {"price": NUMBER, "flag": NUMBER, "town": TEXT, "holes": NUMBER, "shop": SHOP,
        "whole": NUMBER, "late": TEXT, "dear": NUMBER}  # fmt: skip
STAGES = [["price", "flag", "town"], ["holes", "shop", "whole"], ["late", "dear"]]
TRUSTED = [
    "sklearn._loss.link.Interval",
    "sklearn._loss.link.LogitLink",
    "sklearn._loss.loss.HalfBinomialLoss",
    "sklearn.ensemble._hist_gradient_boosting.binning._BinMapper",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
]


class Refused(NamedTuple):
    """An error, by its type and place."""

    error: str
    row: int | None
    column: str | None


Rows: TypeAlias = list[tuple[Any, ...]]
Outcome: TypeAlias = Rows | Refused


class Nothing:
    """A guard that finds nothing: what cannot be judged is rejected where it is bought."""

    def fit(self, columns: Any) -> None:
        """Learn nothing."""

    def reasons(self, columns: Any) -> None:
        """Find nothing."""


@dataclass(frozen=True)
class Model:
    """A fitted cascade, and what it is compared with."""

    held: dict[str, str]
    cascade: CascadeClassifier
    twins: dict[str, CascadeClassifier]
    path: Path
    lazy: CascadeClassifier | None  # what the command line must do without a guard

    def first(self, refused: dict[int, Refused]) -> Refused:
        """Say which of rows refused by themselves all of them together are refused for."""
        names = [name for stage in self.cascade.decider_.plan.stages for name in stage.features]
        row = min(refused, key=lambda row: (names.index(str(refused[row].column)), row))
        return refused[row]._replace(row=row)


@dataclass
class Tally:
    """What was compared, how often rows were decided, and what differed for a known reason."""

    compared: Counter[str] = field(default_factory=Counter)
    decided: Counter[str] = field(default_factory=Counter)
    explained: Counter[str] = field(default_factory=Counter)

    def compare(self, way: str, found: Outcome, expected: Outcome, batch: Batch) -> None:
        """Count a comparison, which must hold."""
        self.compared[way] += 1
        self.decided[way] += not isinstance(found, Refused)
        if found != expected:
            values = {name: (c.family, c.given) for name, c in batch.columns.items()}
            raise SystemExit(f"{way}: {found}\n\ninstead of: {expected}\n\nfor: {values}")


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Decide 2,000 batches in every way there is; `--small`, 60."""
    warnings.simplefilter("error", RuntimeWarning)  # of arithmetic
    warnings.simplefilter("ignore", EmscoWarning)
    warnings.filterwarnings("ignore", message="X does not have valid feature names")
    n_batches = SMALL_BATCHES if small else BATCHES
    total = Tally()
    with TemporaryDirectory() as made:
        cases = make_cases(Path(made), only)
        for number in range(n_batches):
            rng = np.random.default_rng([number, 1])
            typical, models = list(cases.values())[number % len(cases)]
            held = models[0].held
            floats = set(held.values()) == {NUMBER} and rng.random() < ALL_FLOATS
            batch = draw_batch(rng, held, typical, floats=floats)
            for model in models:
                check(model, batch, np.random.default_rng([number, 2]), total)
            if number % 100 == 99:
                done = {"batches": number + 1, "compared": sum(total.compared.values())}
                print(json.dumps(done), flush=True)
    return report(total, n_batches)


def report(total: Tally, n_batches: int) -> str:
    """Give the tables: what was compared, and the differences there are."""
    ways = [
        [way, f"{count:,}", f"{total.decided[way]:,}", f"{count - total.decided[way]:,}"]
        for way, count in total.compared.items()
    ]
    every = sum(total.compared.values())
    header = ["compared with objects of pandas", "times", "decided", "refused"]
    kinds = [[kind, f"{total.explained[kind]:,}", why] for kind, why in DIFFERENCES.items()]
    return "\n\n".join(
        [
            f"{n_batches:,} batches, each with and without a guard; {every:,} comparisons, no "
            "difference but those below.",
            markdown(header, ways),
            markdown(["difference", "times", "why"], kinds),
        ]
    )


def population(n_classes: int) -> tuple[pd.DataFrame, Any]:
    """Make rows to fit on: numbers, with holes, whole, yes or no; text; numbers as categories."""
    rng = np.random.default_rng(n_classes)
    y = rng.integers(n_classes, size=ROWS)
    towns = np.array(["Bern", "Chur", "7", "true", None], dtype=object)
    X = pd.DataFrame(
        {
            "price": 2 * y + rng.normal(size=ROWS),
            "flag": rng.random(ROWS) < 0.3 + 0.2 * y,
            "town": towns[np.minimum(rng.integers(5, size=ROWS) + (y == 1), 4)],
            "holes": np.where(rng.random(ROWS) < 0.1, np.nan, y + rng.normal(size=ROWS)),
            "shop": pd.Categorical(rng.integers(1, 5, size=ROWS)),
            "whole": rng.integers(0, 9, size=ROWS) + 2 * y,
            "late": np.array(["a", "b", "7"], dtype=object)[rng.integers(3, size=ROWS)],
            "dear": 3 * y + rng.normal(size=ROWS),
        }
    )
    return X, np.array(["high", "low", "mid"])[y]


def make_cases(
    folder: Path, only: Sequence[str] | None = None
) -> dict[str, tuple[pd.DataFrame, list[Model]]]:
    """Fit, by name, a cascade without and one with a guard; give them with rows like theirs."""
    options = {"design": StageDesign.from_stages(STAGES, list(HELD)), "threshold": 0.85}
    boosted = HistGradientBoostingClassifier(max_iter=5, random_state=0)
    numbers = [name for name, held in HELD.items() if held == NUMBER]
    by_number = [[name for name in stage if name in numbers] for stage in STAGES]
    own = {"design": StageDesign.from_stages(by_number, numbers), "threshold": 0.85}
    search = CascadeSearchCV(
        threshold=0.85, max_stages=2, cv=2, select={"min_coverage": 0.3}, random_state=0
    )
    makers: dict[str, tuple[int, list[str], Callable[..., Any], dict[str, Any]]] = {
        "two classes": (2, list(HELD), CascadeClassifier, options),
        "three classes": (3, list(HELD), CascadeClassifier, options),
        "numbers": (2, numbers, CascadeClassifier, own),
        "own estimator": (2, numbers, CascadeClassifier, {"estimator": boosted, **own}),
        "searched": (2, list(HELD), CascadeSearchCV, search.get_params(deep=False)),
    }
    cases = {}
    for name, (n_classes, columns, make, params) in makers.items():
        if only is not None and name not in only:
            continue
        X, y = population(n_classes)
        X = X[columns]
        models = [
            _fit(make, params | {"guard": g}, X, y, folder / name) for g in (None, InputGuard())
        ]
        cases[name] = (X, models)
    return cases


def _fit(make: Callable[..., Any], params: dict[str, Any], X: Any, y: Any, path: Path) -> Model:
    path = path.with_suffix(".bare.emsco" if params["guard"] is None else ".guarded.emsco")
    fitted = make(**params).fit(X, y)
    twins = {}
    cascade = fitted
    if make is CascadeSearchCV:
        cascade = fitted.best_cascade_
        twins["found by two workers"] = make(**params | {"n_jobs": 2}).fit(X, y).best_cascade_
    dump(cascade, path)
    twins[LOADED] = load(path, trusted=TRUSTED)
    lazy = None
    if params["guard"] is None:
        lazy = CascadeClassifier(**cascade.get_params(deep=False) | {"guard": Nothing()}).fit(X, y)
    return Model({name: HELD[name] for name in X.columns}, cascade, twins, path, lazy)


def check(model: Model, batch: Batch, rng: np.random.Generator, total: Tally) -> None:
    """Decide a batch in every way."""
    frame = as_frame(batch)
    reference = outcome(model.cascade, frame)
    for way, X in in_python(batch, rng):
        total.compare(way, outcome(model.cascade, X), reference, batch)
    for way, twin in model.twins.items():
        total.compare(way, outcome(twin, frame), reference, batch)
    with ThreadPoolExecutor(2) as pool:
        for found in pool.map(lambda _: outcome(model.cascade, frame), range(2)):
            total.compare("in two threads", found, reference, batch)

    alone = [outcome(model.cascade, frame.iloc[[row]]) for row in range(batch.n_rows)]
    total.compare("row by row", _together(model, alone), reference, batch)
    for number in range(batch.n_rows):
        row = {name: column.given[number] for name, column in batch.columns.items()}
        total.compare(
            "one by one",
            one(model.cascade.decide_one, row),
            one(partial(by_the_loop, model.cascade), row),
            batch,
        )
    order = rng.permutation(batch.n_rows)
    permuted = outcome(model.cascade, as_frame(batch.take(order.tolist())))
    expected = _together(model, [alone[row] for row in order])
    total.compare("permuted", permuted, expected, batch)

    asked = reference
    if model.lazy is not None:
        asked = _as_asked(model, alone, outcome(model.lazy, frame))
        total.explained[LATER_STAGES] += asked != reference
    loaded = model.twins[LOADED]
    for way, path in in_files(batch, model.path.parent, rng):
        found = of_file(loaded, path)
        total.compare(way, found, asked, batch)
        if rng.random() < BY_COMMAND:
            found = by_command(model.path, path)
            total.compare(f"{way}, the command itself", found, asked, batch)
        if not isinstance(asked, Refused):
            with small_blocks(loaded):
                found = of_file(loaded, path)
            total.compare(f"{way}, small blocks", found, asked, batch)
    if not isinstance(reference, Refused):
        with small_blocks(model.cascade):
            found = outcome(model.cascade, frame)
        total.compare("small blocks", found, reference, batch)


def outcome(cascade: CascadeClassifier, X: Any) -> Outcome:
    """Decide in Python."""
    try:
        decisions = cascade.decide(X)
    except ValuesError as error:
        return Refused(type(error).__name__, error.row, error.column)
    return list(zip(*(getattr(decisions, name).tolist() for name in FIELDS), strict=True))


def one(decide: Callable[[dict[str, Any]], Decision], row: dict[str, Any]) -> Outcome:
    """Decide one row given as a mapping."""
    try:
        return [decide(row)]
    except (ValuesError, TypeError, ValueError) as error:
        place = getattr(error, "row", None), getattr(error, "column", None)
        return Refused(f"{type(error).__name__}: {error}", *place)


def by_the_loop(cascade: CascadeClassifier, row: dict[str, Any]) -> Decision:
    """Decide a row given as a mapping by the decision loop, with what each stage asks for."""
    decider = cascade.decider_

    def answer(ask: Ask) -> Answer:
        columns = {}
        for name in ask.features:
            columns[name] = np.empty(1, dtype=object)
            columns[name][0] = row[name]
        return decider.answer(columns, ask.rows)

    return decider.drive(1, answer)[0]


def of_file(cascade: CascadeClassifier, path: Path) -> Outcome:
    """Decide a file as `emsco decide` does."""
    rows = open_rows(path)
    schema = schema_of(cascade.decider_, rows, [])
    try:
        batches = list(decided(cascade.decider_, rows, [], Decided()))
    except ValuesError as error:
        return Refused(type(error).__name__, error.row, error.column)
    fields = pa.Table.from_batches(batches, schema).select(FIELDS).to_pydict()
    return list(zip(*fields.values(), strict=True))


_PLACES = (
    re.compile(r"Row (?P<row>\d+) of column '(?P<column>\w+)'"),
    re.compile(r"Column '(?P<column>\w+)' held \w+ in training; row (?P<row>\d+)"),
)


def by_command(model: Path, path: Path) -> Outcome:
    """Decide a file by the command itself."""
    trust = [part for name in TRUSTED for part in ("--trust", name)]
    called = CliRunner().invoke(app, ["decide", str(model), str(path), *trust])
    if called.exit_code == 2:
        place = next(filter(None, (place.search(called.stderr) for place in _PLACES)))
        return Refused("ValuesError", int(place["row"]), place["column"])
    if called.exit_code:
        raise SystemExit(f"emsco decide {path}: {called.exception!r} {called.stderr}")
    return [
        (
            row["label"],
            row["accepted"] == "true",
            int(row["exit_stage"]),
            float(row["confidence"]),
            float(row["cost"]),
            row["reason"],
        )
        for row in csv.DictReader(io.StringIO(called.stdout))
    ]


@contextmanager
def small_blocks(cascade: CascadeClassifier) -> Iterator[None]:
    """Let rows be read and decided a few at a time."""
    before = cascade.decider_, _table_file._BLOCK_BYTES, _table_file._BLOCK_ROWS
    few = replace(cascade.decider_, block_rows=2)
    try:
        cascade.decider_, _table_file._BLOCK_BYTES, _table_file._BLOCK_ROWS = few, 2**13, 2
        yield
    finally:
        cascade.decider_, _table_file._BLOCK_BYTES, _table_file._BLOCK_ROWS = before


def _together(model: Model, alone: Sequence[Outcome]) -> Outcome:
    """Say what rows that were decided one by one must come to together."""
    refused = {row: found for row, found in enumerate(alone) if isinstance(found, Refused)}
    if refused:
        return model.first(refused)
    return [row for found in alone if not isinstance(found, Refused) for row in found]


def _as_asked(model: Model, alone: Sequence[Outcome], lazy: Outcome) -> Outcome:
    """Say what must come of rows where only values that a stage asks for are looked at."""
    assert not isinstance(lazy, Refused)
    refused = {
        row: found
        for row, (found, decision) in enumerate(zip(alone, lazy, strict=True))
        if isinstance(found, Refused) and kind_of(decision[-1]) == INVALID_VALUE
    }
    return model.first(refused) if refused else lazy
