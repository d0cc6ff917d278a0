"""Batches of hostile values, and the containers and files that can hold them."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet

NUMBER, TEXT, SHOP = "number", "text", "numbers that are categories"
FLOAT, INT, BOOL, WORDS, DECIMAL, DAY, ANY = (
    "float", "int", "bool", "words", "decimal", "day", "any",
)  # fmt: skip
HUGE = np.longdouble("1e4000")

# What a column may be given, by what it held in training and the type of all its values.
POOL: dict[str, dict[str, list[Any]]] = {
    NUMBER: {
        FLOAT: [None, 0.0, -0.0, 1e308, -1e308, 5e-324, 1e-310, 0.1 + 0.2, 1e6, -9999.0,
                float("inf"), float("-inf")],
        INT: [None, 0, -1, 2**53 + 1, 2**63 - 1, -(2**63), 1000],
        BOOL: [None, True, False],
        WORDS: [None, "1.5", " 2 ", "true", "FALSE", "2", "NA", "n/a", "", "nan", "-nan", "old",
                "1e400", "-inf", "1_000", "0x10", "\uff11", "1,5", "+3", ".5", "5.", "1e-400",
                "9007199254740993", "\u00a07", "x" * 5000, "t", "yes"],
        DECIMAL: [None, Decimal("0.1"), Decimal("-123456789.123456789"), Decimal("1E+3")],
        DAY: [None, date(2020, 1, 1)],
        ANY: [np.float32(0.1), np.int8(-5), np.True_, np.longdouble(1) / 3, HUGE, 10**400,
              10**5000, b"1", [1.0], {}, 1j, np.timedelta64(1, "s"), np.datetime64("2020"),
              pd.NaT, pd.NA, float("nan"), np.ma.masked, Decimal("NaN"), np.ones(2)],
    },
    TEXT: {
        FLOAT: [None, 7.0, 7.5, -0.0, 1e300, 1e16, 0.1],
        INT: [None, 7, 0, 2**60],
        BOOL: [None, True, False],
        WORDS: [None, "7", "7.0", "true", "True", "", "NA", "nan", " Bern", "bern", "Zug",
                'a,b\n"c"', "\u00e9", "e\u0301", "x" * 5000, "1e400"],
        DECIMAL: [None, Decimal("7.00"), Decimal("0.5")],
        DAY: [None, date(2020, 1, 1)],
        ANY: [np.str_("Bern"), np.int8(7), np.float32(0.1), np.True_, HUGE, 10**400, b"Bern",
              ["Bern"], {}, 1j, np.timedelta64(1, "s"), pd.NaT, pd.NA, float("nan"),
              np.ma.masked, float("inf")],
    },
    SHOP: {
        FLOAT: [None, 1.0, 2.0, 2.5, 99.0],
        INT: [None, 1, 2, 99],
        BOOL: [None, True, False],
        WORDS: [None, "1", " 2 ", "2.0", "true", "99", "x", "", "NA"],
        DECIMAL: [None, Decimal("1"), Decimal("2.0")],
        ANY: [np.int8(1), np.float32(2), HUGE, b"1", [1], pd.NA, float("nan"), np.ma.masked],
    },
}  # fmt: skip
ANYTHING_OFTEN = 0.3
HOSTILE = 0.4  # of cells; the rest is as in training

PANDAS: dict[str, list[Any]] = {
    FLOAT: ["float64", "Float64", "float64[pyarrow]", "Sparse[float64]", object],
    INT: ["Int64", "int64[pyarrow]", object],
    BOOL: ["boolean", "bool[pyarrow]", object],
    WORDS: ["string[python]", "string[pyarrow]", "category", object],
    DECIMAL: [pd.ArrowDtype(pa.decimal128(38, 9)), object],
    DAY: [pd.ArrowDtype(pa.date32()), "datetime64[us]", object],
    ANY: [object],
}
POLARS: dict[str, list[Any]] = {
    FLOAT: [pl.Float64], INT: [pl.Int64], BOOL: [pl.Boolean], WORDS: [pl.String, pl.Categorical],
    DECIMAL: [pl.Decimal(38, 9)], DAY: [pl.Date], ANY: [pl.Object],
}  # fmt: skip
ARROW: dict[str, list[Any]] = {
    FLOAT: [pa.float64()],
    INT: [pa.int64()],
    BOOL: [pa.bool_()],
    WORDS: [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())],
    DECIMAL: [pa.decimal128(38, 9)],
    DAY: [pa.date32()],
}


@dataclass(frozen=True)
class HostileColumn:
    """Values of one type, where training had numbers or text."""

    held: str
    family: str
    given: tuple[Any, ...]

    @cached_property
    def spelled(self) -> list[str] | None:
        """The values as text that means the same; None where some value has none."""
        words = [spell(value, self.held) for value in self.given]
        return None if None in words else [word for word in words if word is not None]


@dataclass(frozen=True)
class Batch:
    """Some rows, as columns by name."""

    columns: dict[str, HostileColumn]

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(next(iter(self.columns.values())).given)

    def take(self, rows: Sequence[int]) -> Batch:
        """Give some rows."""
        return Batch(
            {
                name: HostileColumn(c.held, c.family, tuple(c.given[row] for row in rows))
                for name, c in self.columns.items()
            }
        )


def spell(value: Any, held: str) -> str | None:
    """Write a value as a cell of CSV; None where no cell means the same."""
    if value is None or value is np.ma.masked or value is pd.NA or value is pd.NaT:
        return ""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, np.timedelta64):
        return "1 s" if held == NUMBER else None
    if isinstance(value, int | np.integer):
        if abs(int(value)) < 10**400 or held == NUMBER:
            return str(value) if abs(int(value)) < 10**4000 else "1e5000"
        return None
    if isinstance(value, float | np.floating | Decimal):
        if value != value:
            return ""
        number = float(value)
        if held == NUMBER:
            return "1e4000" if value is HUGE else repr(number)
        if np.isinf(number):
            return None
        is_whole = number == round(number) and abs(number) < 2**53
        return str(round(number)) if is_whole else repr(number)
    return "2020-01-01" if held == NUMBER else None  # a date, or as little a number


def draw_batch(
    rng: np.random.Generator, held: dict[str, str], typical: pd.DataFrame, *, floats: bool
) -> Batch:
    """Draw a batch: for every column a type, then values as in training and hostile ones."""
    n_rows = int(rng.integers(1, 13))
    columns = {}
    for name, kind in held.items():
        families = list(POOL[kind])
        family = FLOAT if floats else str(rng.choice(families))
        if not floats and rng.random() < ANYTHING_OFTEN:
            family = ANY
        pool = POOL[kind][family]
        if family == ANY:
            pool = [value for values in POOL[kind].values() for value in values]
        usual = typical[name].iloc[rng.integers(len(typical), size=n_rows)].tolist()
        usual = [_cast(value, family, kind) for value in usual]
        hostile = rng.random(n_rows) < HOSTILE * rng.random()
        values = tuple(
            pool[rng.integers(len(pool))] if is_so else value
            for value, is_so in zip(usual, hostile, strict=True)
        )
        columns[name] = HostileColumn(kind, family, values)
    return Batch(columns)


def _cast(value: Any, family: str, held: str) -> Any:
    """Give a usual value as one of a type, if it can be."""
    if pd.isna(value):
        return None
    if family == ANY:
        return value
    if isinstance(value, str):
        return value if family == WORDS else None
    if family == WORDS:
        return spell(value, held)
    casts: dict[str, Callable[[Any], Any]] = {
        FLOAT: float, INT: lambda v: round(v), BOOL: lambda v: bool(v > 0.5),
        DECIMAL: lambda v: Decimal(f"{float(v):.9f}"), DAY: lambda _: None,
    }  # fmt: skip
    return casts[family](value)


def as_frame(batch: Batch) -> pd.DataFrame:
    """Give the batch as pandas columns of objects."""
    rows = _objects(batch)
    return pd.DataFrame(dict(zip(batch.columns, rows.T, strict=True)))


def in_python(batch: Batch, rng: np.random.Generator) -> Iterator[tuple[str, Any]]:
    """Give the batch in every container of Python that can hold it."""
    columns = batch.columns
    rows = _objects(batch)
    yield "numpy, objects", rows
    yield "numpy, masked objects", _masked(rows)
    yield "pandas, types", pd.DataFrame({n: _pandas(c, rng) for n, c in columns.items()})
    yield "polars", pl.DataFrame({name: _polars(c, rng) for name, c in columns.items()})
    spelled = {name: column.spelled for name, column in columns.items()}
    if all(words is not None for words in spelled.values()):
        yield "numpy, text", np.array(list(spelled.values())).T
        yield "polars, text", pl.DataFrame(spelled)
    if all(column.family == FLOAT for column in columns.values()):
        floats = np.array([c.given for c in columns.values()], dtype=np.float64).T
        yield "numpy, float64", floats
        yield "numpy, long double", floats.astype(np.longdouble)
        hidden = np.where(np.isnan(floats), 1.0, floats)
        yield "numpy, masked float64", np.ma.array(hidden, mask=np.isnan(floats))
        yield "numpy, columns first", np.asfortranarray(floats)


def _objects(batch: Batch) -> np.ndarray[Any, Any]:
    rows = np.empty((batch.n_rows, len(batch.columns)), dtype=object)
    for i, column in enumerate(batch.columns.values()):
        for row, value in enumerate(column.given):
            rows[row, i] = value
    return rows


def _masked(rows: np.ndarray[Any, Any]) -> Any:
    """Mask what is None, a plausible value below it."""
    missing = np.array([[value is None for value in row] for row in rows.tolist()])
    hidden = rows.copy()
    hidden[missing] = 1.0
    return np.ma.array(hidden, mask=missing)


def _pandas(column: HostileColumn, rng: np.random.Generator) -> Any:
    kinds = PANDAS[column.family]
    dtype = kinds[rng.integers(len(kinds))]
    if dtype == "datetime64[us]":
        return pd.Series(pd.to_datetime(list(column.given))).astype(dtype)
    return pd.Series(_objects(Batch({"": column}))[:, 0], dtype=object).astype(dtype)


def _polars(column: HostileColumn, rng: np.random.Generator) -> pl.Series:
    kinds = POLARS[column.family]
    return pl.Series(list(column.given), dtype=kinds[rng.integers(len(kinds))])


def in_files(batch: Batch, folder: Path, rng: np.random.Generator) -> Iterator[tuple[str, Path]]:
    """Write the batch into every kind of file that can hold it."""
    typed: dict[str, Any] = {}
    for name, column in batch.columns.items():
        if column.family in ARROW:
            kinds = ARROW[column.family]
            kind = kinds[rng.integers(len(kinds))]
            typed[name] = pa.array(column.given, kind)
        elif column.spelled is not None:
            typed[name] = pa.array(column.spelled)
    if len(typed) == len(batch.columns):
        path = folder / "typed.parquet"
        pa.parquet.write_table(pa.table(typed), path)
        yield "Parquet", path
    spelled = {name: column.spelled for name, column in batch.columns.items()}
    if all(words is not None for words in spelled.values()):
        path = folder / "rows.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            file.write(_csv(spelled))
        yield "CSV", path
        path = folder / "text.parquet"
        pa.parquet.write_table(pa.table(spelled), path)
        yield "Parquet, text", path


def _csv(columns: dict[str, Any]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_MINIMAL)
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()
