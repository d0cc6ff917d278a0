"""Files of answers with one fault each: refused by name, or every label is the one in the file.

A labelling job is begun, its first rows are answered, one thing in the file of answers is changed
(a label, a row, a quote, a line break, its encoding), and `emsco label next` reads it. It must
record what Python's `csv` finds in the file, or end with exit code 2, name the file and record
nothing. What spoils an answer must be refused; what only looks different must be accepted.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
import sqlite3
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from typer.testing import CliRunner

from emsco.cli._app import app
from experiments.tables import markdown
from tests.soak import csv_mutations

FILES, SMALL_FILES = 2_000, 90
LABELS = ["Yes", "No", "Café", "0"]
N_ROWS = 300
REFUSED = 2

Record = dict[str, str]
Mutation = Callable[[list[Record], np.random.Generator], list[Record]]


def _changed(column: str, change: Callable[[str], str]) -> Mutation:
    """Change a cell in one of the rows in which it then differs."""

    def mutate(records: list[Record], rng: np.random.Generator) -> list[Record]:
        possible = [i for i, one in enumerate(records) if change(one[column]) != one[column]]
        place = int(rng.choice(possible))
        records[place] = records[place] | {column: change(records[place][column])}
        return records

    return mutate


def _doubled(change: Callable[[str], str]) -> Mutation:
    def mutate(records: list[Record], rng: np.random.Generator) -> list[Record]:
        one = records[int(rng.integers(len(records)))]
        place = int(rng.integers(len(records) + 1))
        again = one | {"label": change(one["label"])}
        return [*records[:place], again, *records[place:]]

    return mutate


def _one_less(records: list[Record], rng: np.random.Generator) -> list[Record]:
    del records[int(rng.integers(len(records)))]
    return records


def _one_strange(records: list[Record], rng: np.random.Generator) -> list[Record]:
    strange = {"id": f"{int(rng.integers(10_000, 99_999))}", "text": "", "label": "Yes"}
    return [*records, strange]


def _reordered(records: list[Record], rng: np.random.Generator) -> list[Record]:
    return [records[place] for place in rng.permutation(len(records))]


def _columns(change: Callable[[Record], Record]) -> Mutation:
    return lambda records, _: [change(one) for one in records]


SPOILED: dict[str, Mutation] = {
    "a row less": _one_less,
    "a row twice": _doubled(lambda label: label),
    "a row with two labels": _doubled(lambda label: "No" if label == "Yes" else "Yes"),
    "a row too much": _one_strange,
    "no rows": lambda records, _: records[:0],
    "half of the rows": lambda records, _: records[::2],
    "a label with a space behind": _changed("label", lambda label: f"{label} "),
    "a label with a space before": _changed("label", lambda label: f" {label}"),
    "a label with a hard space": _changed("label", lambda label: f"{label}\u00a0"),
    "a label with a mark of no width": _changed("label", lambda label: f"{label}\u200b"),
    "a label in small letters": _changed("label", str.lower),
    "a label in capitals": _changed("label", str.upper),
    "a label in other code points": _changed(
        "label", lambda label: unicodedata.normalize("NFD", label)
    ),
    "a label with a letter of another script": _changed(
        "label", lambda label: label.replace("e", "\u0435").replace("o", "\u043e")
    ),
    "a label as a number": _changed("label", lambda label: "0.0" if label == "0" else label),
    "a new label": _changed("label", lambda _: "Perhaps"),
    "no label": _changed("label", lambda _: ""),
    "a label of spaces": _changed("label", lambda _: "  "),
    "a key without zeros": _changed("id", lambda key: key.lstrip("0") or "0"),
    "keys without zeros": _columns(lambda one: one | {"id": str(int(one["id"]))}),
    "a key as a number": _changed("id", lambda key: f"{key}.0"),
    "a key with a space": _changed("id", lambda key: f" {key}"),
    "no key": _changed("id", lambda _: ""),
    "labels under another name": _columns(
        lambda one: {"Label" if name == "label" else name: text for name, text in one.items()}
    ),
    "keys under another name": _columns(
        lambda one: {"ID" if name == "id" else name: text for name, text in one.items()}
    ),
}
HARMLESS: dict[str, Mutation] = {
    "rows in another order": _reordered,
    "columns in another order": _columns(lambda one: dict(reversed(one.items()))),
    "columns left out": _columns(lambda one: {"id": one["id"], "label": one["label"]}),
    "columns added": _columns(lambda one: {"Label": "x"} | one | {"row": "1", "id ": "2"}),
}
# What changes the bytes of a file leaves its meaning, spoils it, or makes it mean another label.
SAME_MEANING = {
    "nothing", "lines of Windows", "semicolons for commas", "a mark of byte order", "a blank line",
}  # fmt: skip
KINDS = [*SPOILED, *HARMLESS, *csv_mutations.MUTATIONS]


@dataclass(frozen=True)
class Job:
    """A job that was begun, and what its rows would be answered."""

    folder: Path
    answers: list[Record]


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Mutate files of answers and read them; give a table of what became of each kind."""
    rng = np.random.default_rng(43_000)
    names = [name for name in KINDS if not only or name in only]
    ends: dict[str, Counter[str]] = defaultdict(Counter)
    with TemporaryDirectory() as folder:
        job = begin(Path(folder))
        for number in range(SMALL_FILES if small else FILES):
            name = names[number % len(names)]
            content = mutated(name, job.answers, rng)
            end = read(job, name, content, newlines_in_cells=bool(rng.random() < 0.3))
            if end not in ("right", "refused"):
                raise SystemExit(f"File {number} ({name}) was {end}:\n{content!r}")
            ends[name][end] += 1
    lines = [[name, str(own["right"]), str(own["refused"])] for name, own in ends.items()]
    total = sum(ends.values(), Counter())
    lines.append(["all", str(total["right"]), str(total["refused"])])
    return markdown(["changed", "every label as in the file", "refused by name"], lines)


def begin(folder: Path) -> Job:
    """Begin a job, in a folder in which nothing else is."""
    rng = np.random.default_rng(0)
    truth = rng.choice(LABELS, N_ROWS)
    cheap = np.where(rng.random(N_ROWS) < 0.9, truth, rng.choice(LABELS, N_ROWS))
    texts = ["a, b", 'so "said"', "plain", "Zürich", ""]
    with (folder / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text", "cheap", "trust"])
        for row in range(N_ROWS):
            writer.writerow([key_of(row), texts[row % 5], cheap[row], rng.random().__format__("f")])
    command = ["label", "begin", folder / "rows.csv", "--answers", "cheap", "--trust", "trust",
               "--key", "id", "--agreement", "0.9", "--out", folder / "job"]  # fmt: skip
    result = CliRunner().invoke(app, list(map(str, command)))
    if result.exit_code:
        raise SystemExit(result.stderr)
    truth_of = dict(zip(map(key_of, range(N_ROWS)), truth.tolist(), strict=True))
    with (folder / "job" / "ask-1.csv").open(newline="", encoding="utf-8") as file:
        answers = [one | {"label": truth_of[one["id"]]} for one in csv.DictReader(file)]
    return Job(folder / "job", answers)


def key_of(row: int) -> str:
    """Give keys of which a spreadsheet makes numbers, and so the keys of other rows."""
    return f"{row // 2:04}" if row % 2 else f"{row // 2}"


def mutated(name: str, answers: list[Record], rng: np.random.Generator) -> bytes:
    """Write the answers with one thing changed."""
    records = [dict(one) for one in answers]
    if name not in csv_mutations.MUTATIONS:
        return written((SPOILED | HARMLESS)[name](records, rng), rng)
    return csv_mutations.MUTATIONS[name](written(records, rng), rng)


def written(records: list[Record], rng: np.random.Generator) -> bytes:
    """Write answers as CSV, with quotes where they are needed or around every cell."""
    text = io.StringIO()
    names = list(records[0]) if records else ["id", "text", "label"]
    writer = csv.DictWriter(
        text,
        names,
        quoting=csv.QUOTE_ALL if rng.random() < 0.2 else csv.QUOTE_MINIMAL,
        lineterminator="\n",
    )
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue().encode()


def read(job: Job, name: str, content: bytes, *, newlines_in_cells: bool) -> str:
    """Read a file of answers, and say whether it is refused, right, or neither."""
    with TemporaryDirectory(dir=job.folder.parent) as beside:
        copy = Path(beside)
        shutil.copytree(job.folder, copy, dirs_exist_ok=True)
        (copy / "answers-1.csv").write_bytes(content)
        option = ["--newlines-in-cells"] if newlines_in_cells else []
        result = CliRunner().invoke(app, ["label", "next", str(copy), *option])
        recorded = recorded_in(copy / "job.sqlite")
    if result.exit_code == REFUSED:
        if "answers-1.csv" not in result.stderr:
            return f"refused without its name: {result.stderr}"
        if recorded:
            return f"refused, and {len(recorded)} answers of it were recorded"
        return "refused" if name not in {*HARMLESS, *SAME_MEANING} else f"refused: {result.stderr}"
    if result.exit_code:
        return f"ended with exit code {result.exit_code}: {result.stderr}"
    if name in SPOILED:
        return "accepted although it was spoiled"
    try:
        expected = meaning(content)
    except ValueError as error:
        return f"accepted, although {error}"
    named = {key_of(row): label for row, label in recorded.items()}
    if named != expected:
        wrong = [key for key in named.keys() | expected if named.get(key) != expected.get(key)]
        return f"accepted with another label for {wrong[:3]}"
    return "right" if set(expected.values()) <= set(LABELS) else "accepted with a strange label"


def meaning(content: bytes) -> dict[str, str]:
    """Read the label of each key as Python does."""
    text = content.decode("utf-8-sig", "replace").lstrip("\r\n")
    delimiter = max(",;\t|", key=text.splitlines()[0].count)
    head, *records = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    key, label = head.index("id"), head.index("label")
    found = [(record[key], record[label]) for record in records if record]
    if len(dict(found)) != len(found):
        raise ValueError("a row has two labels")
    return dict(found)


def recorded_in(path: Path) -> dict[int, str]:
    """Read what a job has recorded."""
    with closing(sqlite3.connect(path)) as db:
        return {
            row: json.loads(label) for row, label in db.execute("SELECT row, label FROM answer")
        }
