"""CSV files with one fault each: every line is a decision, or the file is refused by name.

A file of rows is written, one thing in it is changed (a quote, a line break, a delimiter, its
encoding), and `emsco decide` reads it. It must write as many decisions as the file has lines with
rows, or as many as Python's `csv` finds records with `--newlines-in-cells`, or end with exit code 2
and a message. Fewer decisions without a word are rows lost.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from emsco import CascadeClassifier, InputGuard, StageDesign, dump
from emsco.cli._app import app
from experiments.tables import markdown

FILES, SMALL_FILES = 2_000, 52
COLUMNS = ["age", "dose", "town"]
TOWNS = ["Basel", "Chur, GR", 'the "Old" Town', "Zürich", "", '5" pipe', "a;b|c\td"]
REFUSED = 2

Mutation = Callable[[bytes, np.random.Generator], bytes]


def _insert(piece: bytes, times: int = 1) -> Mutation:
    def change(content: bytes, rng: np.random.Generator) -> bytes:
        for _ in range(times):
            place = int(rng.integers(len(content) + 1))
            content = content[:place] + piece + content[place:]
        return content

    return change


def _at_one(old: bytes, new: bytes) -> Mutation:
    """Replace one of the places where something stands, if there is one."""

    def change(content: bytes, rng: np.random.Generator) -> bytes:
        pieces = content.split(old)
        if len(pieces) == 1:
            return content
        place = int(rng.integers(1, len(pieces)))
        return old.join(pieces[:place]) + new + old.join(pieces[place:])

    return change


def _cut(content: bytes, rng: np.random.Generator) -> bytes:
    return content[: int(rng.integers(len(content)))]


def _other_byte(content: bytes, rng: np.random.Generator) -> bytes:
    place = int(rng.integers(len(content)))
    return content[:place] + rng.bytes(1) + content[place + 1 :]


def _encoded(encoding: str) -> Mutation:
    return lambda content, _: content.decode().encode(encoding)


MUTATIONS: dict[str, Mutation] = {
    "nothing": lambda content, _: content,
    "a quote": _insert(b'"'),
    "two quotes": _insert(b'"', 2),
    "three quotes": _insert(b'"', 3),
    "a quote before a cell": _at_one(b",", b',"'),
    "a quote behind a line": _at_one(b"\n", b'"\n'),
    "a quote less": _at_one(b'"', b""),
    "a quote more": _at_one(b'"', b'""'),
    "a line feed": _insert(b"\n"),
    "a carriage return": _insert(b"\r"),
    "a blank line": _at_one(b"\n", b"\n\n"),
    "a line break less": _at_one(b"\n", b""),
    "lines of Windows": lambda content, _: content.replace(b"\n", b"\r\n"),
    "lines of old Macs": lambda content, _: content.replace(b"\n", b"\r"),
    "a line of Windows": _at_one(b"\n", b"\r\n"),
    "a comma": _insert(b","),
    "a comma less": _at_one(b",", b""),
    "a semicolon for a comma": _at_one(b",", b";"),
    "semicolons for commas": lambda content, _: content.replace(b",", b";"),
    "cut off": _cut,
    "another byte": _other_byte,
    "a zero byte": _insert(b"\0"),
    "a mark of byte order": lambda content, _: codecs.BOM_UTF8 + content,
    "Latin-1": _encoded("latin-1"),
    "UTF-16": _encoded("utf-16"),
    "UTF-16 without a mark": _encoded("utf-16-le"),
}


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Mutate files and decide them; give a table of what became of each kind."""
    rng = np.random.default_rng(20_000)
    names = [name for name in MUTATIONS if not only or name in only]
    ends: dict[str, Counter[str]] = defaultdict(Counter)
    with TemporaryDirectory() as folder:
        models = make_models(Path(folder))
        for number in range(SMALL_FILES if small else FILES):
            name = names[number % len(names)]
            columns = COLUMNS[-1:] if rng.random() < 0.2 else COLUMNS
            content = MUTATIONS[name](make_file(columns, rng), rng)
            newlines_in_cells = bool(rng.random() < 0.3)
            end = decide(
                models[len(columns)], Path(folder) / "rows.csv", content, newlines_in_cells
            )
            if end not in ("as many", "refused"):
                raise SystemExit(f"File {number} ({name}) was {end}:\n{content!r}")
            ends[name][end] += 1
    lines = [[name, str(own["as many"]), str(own["refused"])] for name, own in ends.items()]
    total = sum(ends.values(), Counter())
    lines.append(["all", str(total["as many"]), str(total["refused"])])
    return markdown(["changed", "as many decisions as rows", "refused by name"], lines)


def make_models(folder: Path) -> dict[int, Path]:
    """Fit a cascade of all columns and one of text alone; give their files by their width."""
    rng = np.random.default_rng(0)
    models = {}
    for columns in (COLUMNS, COLUMNS[-1:]):
        X = make_rows(columns, 400, rng)
        y = (X["town"] == "Basel").to_numpy() ^ (rng.random(400) < 0.1)
        design = StageDesign(np.ones(len(columns), dtype=np.int64))
        cascade = CascadeClassifier(design=design, guard=InputGuard()).fit(X, y.astype(int))
        models[len(columns)] = folder / f"model{len(columns)}.emsco"
        dump(cascade, models[len(columns)])
    return models


def make_rows(columns: list[str], n_rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Draw rows with numbers, text that needs quotes, and missing values."""
    every: dict[str, Any] = {
        "age": rng.integers(20, 80, n_rows),
        "dose": np.where(rng.random(n_rows) < 0.1, np.nan, rng.normal(size=n_rows).round(2)),
        "town": np.array(TOWNS, dtype=object)[rng.integers(0, len(TOWNS), n_rows)],
    }
    return pd.DataFrame({name: every[name] for name in columns})


def make_file(columns: list[str], rng: np.random.Generator) -> bytes:
    """Write rows as CSV, with quotes where they are needed or around every cell."""
    quoting = csv.QUOTE_ALL if rng.random() < 0.2 else csv.QUOTE_MINIMAL
    rows = make_rows(columns, int(rng.integers(1, 200)), rng)
    return str(rows.to_csv(index=False, quoting=quoting)).encode()


def decide(model: Path, path: Path, content: bytes, newlines_in_cells: bool) -> str:
    """Decide a file, and say whether it has as many decisions as rows, is refused, or neither."""
    path.write_bytes(content)
    option = ["--newlines-in-cells"] if newlines_in_cells else []
    result = CliRunner().invoke(app, ["decide", str(model), str(path), *option])
    if result.exit_code == REFUSED:
        is_named = path.name in result.stderr or "column" in result.stderr
        return "refused" if is_named else f"refused without its name: {result.stderr}"
    if result.exit_code:
        return f"ended with exit code {result.exit_code}: {result.stderr}"
    expected = (count_records if newlines_in_cells else count_lines)(content)
    n_decisions = result.stdout.count("\n") - 1
    if f"Read: {expected:,} rows of {path}." not in result.stderr:
        return f"read without the number of its rows, {expected}: {result.stderr}"
    return "as many" if n_decisions == expected else f"{n_decisions} decisions for {expected} rows"


def count_lines(content: bytes) -> int:
    """Count lines with rows; a blank one is a row only where there is one column."""
    lines = content.removeprefix(codecs.BOM_UTF8).splitlines()
    begin = next(number for number, line in enumerate(lines) if line.strip())
    has_one = len(next(csv.reader([lines[begin].decode()]))) == 1
    return sum(has_one or bool(line) for line in lines[begin + 1 :])


def count_records(content: bytes) -> int:
    """Count records as Python reads them."""
    text = content.decode("utf-8-sig").lstrip("\r\n")
    delimiter = max(",;\t|", key=text.splitlines()[0].count)
    head, *records = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    return sum(len(head) == 1 or bool(record) for record in records)
