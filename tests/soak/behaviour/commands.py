"""The command line and the README: what commands print and write, and what the examples answer."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet
import skops.io  # type: ignore[import-untyped]  # skops ships no types
from sklearn.linear_model import LogisticRegression

from emsco.datasets import load_cleveland, make_costly_classification
from tests.soak.behaviour.case import Case, Part, tell_file, without_chance
from tests.soak.behaviour.rows import COSTS, patients

README = Path(__file__).parents[3] / "README.md"
START = README.parent / "docs" / "start.md"
# What a search tells on its way depends on the clock: whether it does, and every time in it.
_ON_THE_WAY = re.compile(r"^emsco: \w+ \d+%.*\n", re.MULTILINE)
_TIMES = re.compile(r"\b\d+:\d\d\b|\b[\d.]+ (?:s|seconds?|minutes?)\b")

SEARCH = "search train.csv --label state --costs costs.toml --cv 3 --max-stages 2 --threshold 0.7"
COMMANDS = [
    "costs init train.csv --label state --out made.toml",
    f"{SEARCH} --threshold 0.9 --out run --quiet",
    "show run",
    "select run --min-coverage 0.8 --out chosen.emsco",
    "certify run fresh.csv --label state --accuracy 0.75 --confidence 0.9 --out certified.emsco",
    "show certified.emsco",
    "decide run fresh.csv",
    "decide certified.emsco fresh.csv --keep id --out decisions.csv",
    "decide run fresh.parquet --out decisions.parquet",
    "report run --out report.html",
]
MORE = [
    "--help",
    "search --help",
    "show run --all --json",
    "show run --fresh other.csv --label state",
    "select run --max-cost 20 --by accuracy --json",
    "select run --max-cost 0",
    "certify run other.csv --label state --accuracy 0.999",
    "certify run train.csv --label state --accuracy 0.8",
    "decide run wrong.csv",
    "decide run train.csv --out train.csv",
    "decide nothing.emsco fresh.csv",
    f"{SEARCH} --guard --max-missed ill=0.5 --out guarded --quiet --json",
    "decide guarded wrong.csv",
    "report run --fresh another.csv --label state --out fresh.html",
    "savings log.csv --model model.skops --costs log.toml --stages logistic --quiet --changed "
    "changed.csv --out before.emsco --agreement 0.9 --agreement 0.95",
    "savings log.csv --answers verdict --costs log.toml --stages logistic --json --quiet "
    "--agreement 0.9",
    "show before.emsco",
]


def cases(*, small: bool) -> Iterator[tuple[str, Case]]:
    """Give the command line, and what the README says."""
    if small:
        yield "a command", partial(_commands, COMMANDS[1:2])  # a search
        return
    yield "commands", partial(_commands, COMMANDS + MORE)
    yield "README, its examples", _examples
    yield "Start, its commands", _start


def _commands(commands: list[str], n_jobs: int) -> Iterator[Part]:
    """Run commands one after the other in a folder of their own."""
    with TemporaryDirectory() as made:
        folder = Path(made)
        _write_tables(folder)
        for command in commands:
            yield f"emsco {command}", partial(_run, folder, shlex.split(command), n_jobs)
        yield "files", lambda: sorted(p.name for p in folder.rglob("*") if p.is_file())


def _run(folder: Path, arguments: list[str], n_jobs: int) -> dict[str, object]:
    """Run a command, and tell its exit code, what it printed and every file that it wrote."""
    if arguments[0] in ("search", "savings") and "--help" not in arguments:
        arguments = [*arguments, "--n-jobs", str(n_jobs)]
    before = _times(folder)
    process = subprocess.run(
        [sys.executable, "-m", "emsco", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "80"},
    )
    written = [path for path, time in _times(folder).items() if before.get(path) != time]
    return {
        "code": process.returncode,
        "printed": process.stdout,
        "told": _TIMES.sub("TIME", _ON_THE_WAY.sub("", process.stderr)),
        **{str(path.relative_to(folder)): _content(path) for path in sorted(written)},
    }


def _times(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def _content(path: Path) -> Any:
    """Give what a file says."""
    if path.suffix == ".parquet":
        table = pyarrow.parquet.read_table(path)
        return [str(table.schema), table.to_pydict()]
    if path.suffix == ".emsco":
        return tell_file(path)
    text = path.read_text(encoding="utf-8")
    return without_chance(text)


def _write_tables(folder: Path) -> None:
    """Write rows to train on, fresh ones, some with wrong values, and the log of a model."""
    for seed, (name, n_rows) in enumerate(
        {"train": 400, "fresh": 600, "other": 200, "another": 200, "wrong": 30}.items()
    ):
        rows, state = patients(n_rows, seed)
        rows.insert(0, "id", [f"{i:05}" for i in range(n_rows)])
        if name == "wrong":
            rows = rows.astype({"marker": object}).assign(scan=1e9)
            rows.loc[3, "marker"] = "high"
        rows.assign(state=state).to_csv(folder / f"{name}.csv", index=False)
        if name == "fresh":
            plain = rows.astype({"ward": int}).assign(state=state)
            plain.to_parquet(folder / "fresh.parquet", row_group_size=250)
    COSTS.to_toml(folder / "costs.toml")
    X, y, costs = make_costly_classification(1500, 4, class_sep=3, random_state=0)
    costs.to_toml(folder / "log.toml")
    model = LogisticRegression().fit(X[:300], y[:300])
    skops.io.dump(model, folder / "model.skops")
    log = X[300:].assign(verdict=model.predict(X[300:]))
    log.to_csv(folder / "log.csv", index=False)


class _Recorder(doctest.DocTestRunner):
    """Keeps what every example answers, whatever it should."""

    def __init__(self) -> None:
        super().__init__(verbose=False)
        self.answers: dict[str, str] = {}

    def report_success(self, out: Any, test: Any, example: Any, got: str) -> None:
        del out, test
        self.answers[example.source] = got

    report_failure = report_success

    def report_unexpected_exception(self, out: Any, test: Any, example: Any, exc_info: Any) -> None:
        del out, test
        self.answers[example.source] = f"{exc_info[0].__name__}: {exc_info[1]}"


def _examples(n_jobs: int) -> Iterator[Part]:  # noqa: ARG001
    """Run the examples of the README."""
    text = README.read_text(encoding="utf-8")
    test = doctest.DocTestParser().get_doctest(text, {}, README.name, str(README), 0)
    recorder = _Recorder()
    recorder.run(test, out=lambda _: None)
    for source, answer in recorder.answers.items():
        yield source.strip(), partial(str, answer)


def _start(n_jobs: int) -> Iterator[Part]:
    """Run the commands of the page Start on Cleveland, from an empty folder with a CSV."""
    section = START.read_text(encoding="utf-8").partition("## From the command line")[2]
    commands = re.findall(r"^\$ emsco (.*)$", section.partition("\n## ")[0], re.MULTILINE)
    X, y, costs = load_cleveland()
    with TemporaryDirectory() as made:
        folder = Path(made)
        X.assign(disease=y).to_csv(folder / "heart.csv", index=False)
        for command in commands:
            yield f"emsco {command}", partial(_run, folder, shlex.split(command), n_jobs)
            if command.startswith("costs init"):  # the newcomer fills in the prices
                costs.to_toml(folder / "costs.toml")
