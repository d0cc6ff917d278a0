"""The history of benchmarks: one line per release, ratios only, in `benchmarks/history.csv`.

`python -m benchmarks.history` measures and writes the line of the installed version; a line that is
there already is replaced. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import emsco
from benchmarks import command_line, decide, search, startup
from benchmarks.measure import Result

FILE = Path(__file__).with_name("history.csv")
FIRST = "# python -m benchmarks.history: how many times the speed of its reference, by release"

# The column of each result, and whether its figure is the time that ours takes of the reference's:
# then its inverse is how many times the speed. A result that is met twice counts the first time.
COLUMNS = {
    "fits of Credit in batches, times faster than scikit-learn": ("fits, Credit", False),
    "fits of the example in batches, times faster than scikit-learn": ("fits, example", False),
    "exhaustive kernel, share of a bare loop's speed": ("exhaustive kernel", False),
    "decide, a million rows, against bare numpy": ("decide a million rows", True),
    "one row through the loop, against bare numpy": ("decide one row", True),
    "emsco decide, a million rows of csv, speed against copying them": ("CSV", False),
    "emsco decide, a million rows of parquet, speed against copying them": ("Parquet", False),
    "from emsco import, against sklearn": ("import", True),
    "emsco --help, against import typer, rich": ("emsco --help", True),
}  # fmt: skip
REFERENCES = {
    "fits, Credit": "scikit-learn's LogisticRegression, set by set",
    "fits, example": "scikit-learn's LogisticRegression, set by set",
    "exhaustive kernel": "a bare compiled loop over the same bits",
    "decide a million rows": "the bare arithmetic in numpy",
    "decide one row": "the bare arithmetic in numpy",
    "CSV": "copying the file, read and written by Arrow",
    "Parquet": "copying the file, read and written by Arrow",
    "import": "importing scikit-learn",
    "emsco --help": "importing typer and rich",
}


def measured() -> Iterator[Result]:
    """Run the benchmarks whose figures are ratios of time."""
    yield from search.fits()
    yield from search.kernel()
    yield from decide.run(small=True)
    yield from command_line.run(small=True)
    yield from startup.run(small=True)


def line_of(results: Iterable[Result], version: str, date: str) -> dict[str, str]:
    """Lay out the line of a version."""
    found: dict[str, str] = {}
    for result in results:
        if result.name in COLUMNS:
            column, inverse = COLUMNS[result.name]
            ratio = 1 / result.value if inverse else result.value
            found.setdefault(column, f"{ratio:.3g}")
    return {"version": version, "date": date} | {name: found[name] for name in REFERENCES}


def load() -> list[dict[str, str]]:
    """Read the lines, oldest first."""
    if not FILE.exists():
        return []
    with FILE.open(encoding="utf-8", newline="") as file:
        next(file)  # the command
        return list(csv.DictReader(file))


def write(lines: Iterable[dict[str, str]]) -> None:
    """Write the file anew."""
    with FILE.open("w", encoding="utf-8", newline="") as file:
        file.write(f"{FIRST}\n")
        writer = csv.DictWriter(file, ["version", "date", *REFERENCES], lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def table(lines: Iterable[dict[str, str]]) -> str:
    """Lay out the history in Markdown: a line per figure, a column per release."""
    lines = list(lines)
    rows = [
        ["what", "measured against", *(line["version"] for line in lines)],
        ["---"] * (2 + len(lines)),
        *([name, REFERENCES[name], *(line[name] for line in lines)] for name in REFERENCES),
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def main() -> None:
    """Measure, and write the line of this version."""
    date = datetime.now(UTC).date().isoformat()
    line = line_of(measured(), emsco.__version__, date)
    write([*(kept for kept in load() if kept["version"] != line["version"]), line])
    print(table([line]))


if __name__ == "__main__":
    main()
