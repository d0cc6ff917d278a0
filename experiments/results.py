"""Results as small CSV files, each with the command that made it as its first line."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "results"
Row = dict[str, Any]


def load(name: str) -> list[Row]:
    """Read the rows of a file, numbers as numbers."""
    with (FOLDER / f"{name}.csv").open(encoding="utf-8") as file:
        next(file)  # the command
        return [{key: _value(text) for key, text in row.items()} for row in csv.DictReader(file)]


def save(name: str, command: str, rows: Sequence[Row], cases: Sequence[Any]) -> None:
    """Write the rows of one case, told by the first column; keep those of the others, in order."""
    path = FOLDER / f"{name}.csv"
    case = next(iter(rows[0]))
    kept = [row for row in load(name) if row[case] != rows[0][case]] if path.exists() else []
    write(name, command, sorted([*kept, *rows], key=lambda row: cases.index(row[case])))


def write(name: str, command: str, rows: Sequence[Row]) -> None:
    """Write a file anew, with its command."""
    with (FOLDER / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
        file.write(f"# {command}\n")
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: _text(v) for k, v in row.items()} for row in rows)


def differences(
    name: str, rows: Iterable[Row], keys: Sequence[str], *, within: float = 1e-6
) -> list[str]:
    """Hold rows measured again against those in the file; say where figures differ.

    What a row measured again does not tell is not compared, nor are seconds.
    """
    known = {tuple(row[key] for key in keys): row for row in load(name)}
    return [
        f"{name}, {row}: {column} is {expected[column]} in the file"
        for row in rows
        for expected in [known[tuple(row[key] for key in keys)]]
        for column in row.keys() - {*keys, "seconds"}
        if not _is_near(row[column], expected[column], within)
    ]


def _is_near(value: Any, expected: Any, within: float) -> bool:
    """Compare numbers closely enough; what was not kept is not compared."""
    if "" in (value, expected):
        return bool(expected == "")
    return bool(abs(value - expected) <= within)


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _text(value: Any) -> str:
    return repr(float(value)) if isinstance(value, float) else str(value)
