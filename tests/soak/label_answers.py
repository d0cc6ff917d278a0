"""Files of answers with one fault each: refused by name, or every label is the one in the file.

A labelling job is begun, its first rows are answered, one thing in the file of answers is changed
(a label, a row, a quote, a line break, its encoding, or what a spreadsheet makes of keys), and
`emsco label next` reads it. It must record what Python's `csv` finds in the file, or end with exit
code 2, name the file and record nothing. What spoils an answer must be refused; what only looks
different must be accepted.

The same is done to files of three reviewers who contradict one another: all rows on which they do
must be sent to be settled, nothing may be recorded before, and the settled labels must be there in
the end. A label that is recorded for another row than that for which it was given is an error.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
import sqlite3
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from typer.testing import CliRunner

from emsco.cli._app import app
from experiments.tables import markdown
from tests.soak import csv_mutations

FILES, SMALL_FILES = 2_000, 90
LABELS = ["Yes", "No", "Café", "0"]
HEADER = "label (0 / Café / No / Yes)"
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


def _empty_cells(records: list[Record], rng: np.random.Generator) -> list[Record]:
    wider = [one | {"": "", " ": ""} for one in records]
    return [*wider, *(dict.fromkeys(wider[0], "") for _ in range(int(rng.integers(1, 4))))]


def shown(key: str, n_digits: int = 6) -> str:
    """Return what a spreadsheet saves for a key: a number, a date, or the key as it is."""
    day, _, month = key.partition("-")
    if day.isdigit() and month.isdigit() and int(month) <= 12 and int(day) <= 28:
        return f"{int(day):02}.{int(month):02}.2026"
    try:
        number = float(key)
    except ValueError:
        return key
    if n_digits < 15 and (abs(number) >= 1e11 or "E" in key):
        return f"{number:.{n_digits - 1}E}"
    digits = str(int(number)) if "E" in key else str(int(key))
    return digits[:n_digits].ljust(len(digits), "0")


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
    "labels under another name": _columns(
        lambda one: {"Label" if name == "label" else name: text for name, text in one.items()}
    ),
}
# These leave labels as they are: refused where rows have no codes, else of the row with the code.
KEYS: dict[str, Mutation] = {
    "a key without zeros": _changed("id", lambda key: key.lstrip("0") or "0"),
    "keys without zeros": _columns(lambda one: one | {"id": one["id"].lstrip("0") or "0"}),
    "a key as a number": _changed("id", lambda key: f"{key}.0"),
    "a key with a space": _changed("id", lambda key: f" {key}"),
    "no key": _changed("id", lambda _: ""),
    "keys under another name": _columns(
        lambda one: {"ID" if name == "id" else name: text for name, text in one.items()}
    ),
    "keys as a spreadsheet shows them": _columns(lambda one: one | {"id": shown(one["id"])}),
    "keys with 15 digits": _columns(lambda one: one | {"id": shown(one["id"], 15)}),
    "keys with decimal commas": _columns(
        lambda one: one | {"id": shown(one["id"]).replace(".", ",")}
    ),
}
HARMLESS: dict[str, Mutation] = {
    "rows in another order": _reordered,
    "columns in another order": _columns(lambda one: dict(reversed(one.items()))),
    "columns left out": _columns(
        lambda one: {name: one[name] for name in ("id", "row_code", "label") if name in one}
    ),
    "columns added": _columns(lambda one: {"Label": "x"} | one | {"row": "1", "id ": "2"}),
    "empty columns and rows": _empty_cells,
}
# What changes the bytes of a file leaves its meaning, spoils it, or makes it mean another label.
SAME_MEANING = {
    "nothing", "lines of Windows", "semicolons for commas", "a mark of byte order", "a blank line",
}  # fmt: skip
KINDS = [*SPOILED, *KEYS, *HARMLESS, *csv_mutations.MUTATIONS]
HARMLESS_ALL = {*HARMLESS, *SAME_MEANING}


@dataclass(frozen=True)
class Job:
    """A job that was begun, and what its rows would be answered."""

    folder: Path
    answers: list[Record]

    @property
    def code_of(self) -> dict[str, str]:
        """The key of each code."""
        return {one["row_code"]: one["id"] for one in self.answers}


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Mutate files of answers and read them; give a table of what became of each kind."""
    rng = np.random.default_rng(43_000)
    names = [name for name in KINDS if not only or name in only]
    tests: dict[str, Callable[[Job, str, np.random.Generator], str]] = {
        "one file": try_one_file, "three reviewers": try_three_reviewers,
    }  # fmt: skip
    ends: dict[str, Counter[str]] = defaultdict(Counter)
    with TemporaryDirectory() as folder:
        job = begin(Path(folder))
        for who, attempt in tests.items():
            for number in range(SMALL_FILES if small else FILES):
                name = names[number % len(names)]
                end = attempt(job, name, rng)
                if end not in ("right", "refused"):
                    raise SystemExit(f"{who}, file {number} ({name}) was {end}")
                ends[name][f"{who}, {end}"] += 1
                ends["all"][f"{who}, {end}"] += 1
    columns = [f"{who}, {end}" for who in tests for end in ("right", "refused")]
    lines = [[name, *(str(ends[name][column]) for column in columns)] for name in [*names, "all"]]
    return markdown(["changed", *columns], lines)


def try_one_file(job: Job, name: str, rng: np.random.Generator) -> str:
    """Change a file of all answers, and read it."""
    records = filled_in(job.answers, has_codes=bool(rng.random() < 0.5))
    content = mutated(name, records, rng)
    end = read(job, name, records, content, newlines_in_cells=bool(rng.random() < 0.3))
    return end if end in ("right", "refused") else f"{end}:\n{content!r}"


def begin(folder: Path) -> Job:
    """Begin a job, in a folder in which nothing else is."""
    rng = np.random.default_rng(0)
    truth = rng.choice(LABELS, N_ROWS)
    cheap = np.where(rng.random(N_ROWS) < 0.9, truth, rng.choice(LABELS, N_ROWS))
    texts = ["a, b", 'so "said"', "plain", "Zürich", "", "=1+1", "-2 -3"]
    with (folder / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text", "cheap", "trust"])
        for row in range(N_ROWS):
            writer.writerow([key_of(row), texts[row % 7], cheap[row], rng.random().__format__("f")])
    command = ["label", "begin", folder / "rows.csv", "--answers", "cheap", "--trust", "trust",
               "--key", "id", "--agreement", "0.9", "--out", folder / "job"]  # fmt: skip
    result = CliRunner().invoke(app, list(map(str, command)))
    if result.exit_code:
        raise SystemExit(result.stderr)
    truth_of = dict(zip(map(key_of, range(N_ROWS)), truth.tolist(), strict=True))
    with (folder / "job" / "ask-1.csv").open(newline="", encoding="utf-8-sig") as file:
        answers = [one | {HEADER: truth_of[one["id"]]} for one in csv.DictReader(file)]
    return Job(folder / "job", answers)


def filled_in(answers: list[Record], *, has_codes: bool) -> list[Record]:
    """Return answers as a person fills them in, or a program that needs only keys writes them."""
    names = ["id", "text", "row_code", "label"] if has_codes else ["id", "text", "label"]
    return [{name: one[HEADER if name == "label" else name] for name in names} for one in answers]


def key_of(row: int) -> str:
    """Give keys of which a spreadsheet makes numbers, and so the keys of other rows."""
    number = row // 5
    return [f"{number}", f"{number:04}", f"{1234567890123400000 + row}", f"{number}E5",
            f"{number}-{row % 12 + 1}"][row % 5]  # fmt: skip


def mutated(name: str, answers: list[Record], rng: np.random.Generator) -> bytes:
    """Write the answers with one thing changed."""
    records = [dict(one) for one in answers]
    if name not in csv_mutations.MUTATIONS:
        return written((SPOILED | KEYS | HARMLESS)[name](records, rng), rng)
    return csv_mutations.MUTATIONS[name](written(records, rng), rng)


def written(records: list[Record], rng: np.random.Generator) -> bytes:
    """Write answers as CSV, with quotes where they are needed or around every cell."""
    text = io.StringIO()
    names = list(records[0]) if records else ["id", "text", "label"]
    writer = csv.writer(
        text,
        quoting=csv.QUOTE_ALL if rng.random() < 0.2 else csv.QUOTE_MINIMAL,
        lineterminator="\n",
    )
    is_noted = "row_code" in names
    writer.writerow([HEADER if is_noted and name == "label" else name for name in names])
    writer.writerows([one.get(name, "") for name in names] for one in records)
    return text.getvalue().encode()


def read(
    job: Job, name: str, records: list[Record], content: bytes, *, newlines_in_cells: bool
) -> str:
    """Read a file of answers, and say whether it is refused, right, or neither."""
    with copied(job) as copy:
        (copy / "answers-1.csv").write_bytes(content)
        result = next_of(copy, newlines_in_cells=newlines_in_cells)
        recorded = recorded_in(copy / "job.sqlite")
    if result.exit_code == REFUSED:
        if "answers-1.csv" not in result.stderr:
            return f"refused without its name: {result.stderr}"
        if recorded:
            return f"refused, and {len(recorded)} answers of it were recorded"
        return "refused" if name not in HARMLESS_ALL else f"refused: {result.stderr}"
    if result.exit_code:
        return f"ended with exit code {result.exit_code}: {result.stderr}"
    if name in SPOILED or (name in KEYS and "row_code" not in records[0]):
        return "accepted although it was spoiled"
    try:
        expected = said(job, name, records, content)
    except ValueError as error:
        return f"accepted, although {error}"
    if recorded != expected:
        wrong = [key for key in recorded | expected if recorded.get(key) != expected.get(key)]
        return f"accepted with another label for {wrong[:3]}"
    return "right" if set(expected.values()) <= set(LABELS) else "accepted with a strange label"


def try_three_reviewers(job: Job, name: str, rng: np.random.Generator) -> str:
    """Change one of three files that contradict one another, and settle what they dispute."""
    contents, expected = {}, []
    spoiled, must_be_refused, has_all_codes = int(rng.integers(3)), False, True
    for number, reviewer in enumerate(("anna", "ben", "carl")):
        is_whole = number == 0
        shares = rng.random(len(job.answers))
        part = [one for one, share in zip(job.answers, shares, strict=True)
                if is_whole or share < 0.7]  # fmt: skip
        part = [
            one | {HEADER: LABELS[(LABELS.index(one[HEADER]) + int(change)) % len(LABELS)]}
            for one, change in zip(part, rng.random(len(part)) < 0.05, strict=True)
        ]
        has_codes = bool(rng.random() < (0.5 if is_whole else 0.9))  # else rows are in doubt
        has_all_codes &= has_codes or is_whole
        records = filled_in(part, has_codes=has_codes)
        own = name if number == spoiled else "nothing"
        contents[reviewer] = mutated(own, records, rng)
        try:
            expected.append(said(job, own, records, contents[reviewer]))
        except (ValueError, csv.Error):
            must_be_refused = True
    end = settle(job, contents, expected, rng)
    labels = {label for own in expected for label in own.values()}
    if end == "right" and (must_be_refused or not labels <= set(LABELS)):
        return "accepted although it was spoiled"
    if end == "refused" and name in HARMLESS_ALL and has_all_codes:
        return "refused although it was harmless"
    return end


def settle(
    job: Job, contents: dict[str, bytes], expected: list[dict[str, str]], rng: np.random.Generator
) -> str:
    """Read three files and settle what they dispute; say whether the labels are right."""
    by_row: dict[str, set[str]] = defaultdict(set)
    for own in expected:
        for key, label in own.items():
            by_row[key].add(label)
    disputed = {key for key, labels in by_row.items() if len(labels) > 1}
    with copied(job) as copy:
        for reviewer, content in contents.items():
            (copy / f"answers-1.{reviewer}.csv").write_bytes(content)
        result = next_of(copy)
        recorded = recorded_in(copy / "job.sqlite")
        if result.exit_code == REFUSED:
            if "answers-1." not in result.stderr:
                return f"refused without its name: {result.stderr}"
            return f"refused, and {len(recorded)} answers recorded" if recorded else "refused"
        if result.exit_code:
            return f"ended with exit code {result.exit_code}: {result.stderr}"
        sheet = copy / "settle-1.csv"
        if disputed:
            if recorded:
                return "recorded before rows were settled"
            with sheet.open(newline="", encoding="utf-8-sig") as file:
                asked = list(csv.DictReader(file))
            if {one["id"] for one in asked} != disputed or any(one[HEADER] for one in asked):
                return f"settled by {len(asked)} rows for {len(disputed)}"
            chosen = rng.choice(LABELS, len(asked)).tolist()
            settled = [one | {HEADER: label} for one, label in zip(asked, chosen, strict=True)]
            records = filled_in(settled, has_codes=True)
            (copy / "settled-1.csv").write_bytes(written(records, rng))
            result = next_of(copy)
            if result.exit_code:
                return f"not settled: {result.stderr}"
            by_row |= {one["id"]: {one["label"]} for one in records}
            recorded = recorded_in(copy / "job.sqlite")
        elif sheet.exists():
            return "settled without need"
    right = {key: next(iter(labels)) for key, labels in by_row.items()}
    wrong = [key for key in right | recorded if right.get(key) != recorded.get(key)]
    return f"accepted with another label for {wrong[:3]}" if wrong else "right"


@contextmanager
def copied(job: Job) -> Iterator[Path]:
    """Give a copy of the job beside it."""
    with TemporaryDirectory(dir=job.folder.parent) as beside:
        shutil.copytree(job.folder, beside, dirs_exist_ok=True)
        yield Path(beside)


def next_of(folder: Path, *, newlines_in_cells: bool = False) -> Any:
    """Run `emsco label next`."""
    option = ["--newlines-in-cells"] if newlines_in_cells else []
    return CliRunner().invoke(app, ["label", "next", str(folder), *option])


def said(job: Job, name: str, records: list[Record], content: bytes) -> dict[str, str]:
    """Return the label that a file has for each row, whatever became of the keys."""
    if name in KEYS:
        return {one["id"]: one["label"] for one in records}
    return meaning(content, job.code_of)


def meaning(content: bytes, code_of: dict[str, str]) -> dict[str, str]:
    """Read the label of each key as Python does, by the code of the row if there is one."""
    text = content.decode("utf-8-sig", "replace").lstrip("\r\n")
    if not text:
        raise ValueError("it is empty")
    delimiter = max(",;\t|", key=text.splitlines()[0].count)
    head, *records = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    label = next((place for place, cell in enumerate(head) if _is_label(cell)), -1)
    if label < 0:
        raise ValueError("it has no labels")
    found = []
    for record in records:
        cells = dict(zip(head, record, strict=False))
        code = cells.get("row_code", "")
        if code and code not in code_of:
            raise ValueError("a code is strange")
        key = code_of[code] if code else cells.get("id", "")
        if record and len(record) > label and record[label]:
            found.append((key, record[label]))
    if len(dict(found)) != len(found):
        raise ValueError("a row has two labels")
    return dict(found)


def _is_label(name: str) -> bool:
    return name == "label" or (name.startswith("label (") and name.endswith(")"))


def recorded_in(path: Path) -> dict[str, str]:
    """Read what a job has recorded, by key."""
    with closing(sqlite3.connect(path)) as db:
        found = db.execute("SELECT row, label FROM answer")
        return {key_of(row): json.loads(label) for row, label in found}
