"""Waiting: the gaps between lines of long commands, their estimates, and two workers against one.

A command writes to a file here, not to a terminal. Its estimate is held against the time that it
took in all: what had passed and what was left, as told after a tenth of that time.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks.interpreter import Interpreter
from benchmarks.measure import Result, best_times
from emsco import CascadeSearchCV, LocalSearch
from emsco.datasets import load_nslkdd, load_thyroid

GAP = 5.0  # seconds without a line, at most
FACTOR = 2.0  # that an estimate may be off
WORKERS = 1.3  # times as fast with two of them
_LEFT = re.compile(r"about (?:(\d+):)?(\d+):(\d\d) left")
_TREES = "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"


@dataclass(frozen=True)
class Watched:
    """What a command wrote to standard error, with the seconds since its start, and its end."""

    lines: list[tuple[float, str]]
    seconds: float
    cpu: float

    @property
    def gaps(self) -> list[float]:
        """The seconds between two lines, also before the first and after the last."""
        at = [0.0, *(when for when, _ in self.lines), self.seconds]
        return [later - earlier for earlier, later in pairwise(at)]

    @property
    def factors(self) -> list[float]:
        """By how much the estimated end is off the true one, after a tenth of the time."""
        found = []
        for when, line in self.lines:
            left = _LEFT.search(line)
            if left and when >= self.seconds / 10:
                hours, whole, rest = (int(number or 0) for number in left.groups())
                estimate = (when + 3600 * hours + 60 * whole + rest) / self.seconds
                found.append(max(estimate, 1 / estimate))
        return found


def watch(arguments: list[str], folder: Path) -> Watched:
    """Run a command, and note when it writes a line to standard error."""
    before, start = os.times(), time.monotonic()
    command = [sys.executable, "-m", "emsco", *arguments]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=Interpreter.here().environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    lines = [(time.monotonic() - start, line) for line in process.stderr]
    code, seconds, after = process.wait(), time.monotonic() - start, os.times()
    process.stderr.close()
    assert code == 0, "".join(line for _, line in lines)
    cpu = sum(after[2:4]) - sum(before[2:4])
    return Watched(lines, seconds, cpu)


def run(*, small: bool = False) -> Iterator[Result]:
    """Watch four commands, and fit boosted trees with one worker and with two."""
    yield from commands(small=small)
    yield workers(small=small)


def commands(*, small: bool) -> Iterator[Result]:
    """Watch searches of NSL-KDD and thyroid, what is shown of one, and savings."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        rows = 1_500 if small else None
        _write(*load_nslkdd()[:2], folder / "nslkdd.csv", rows)
        X, y, costs = load_thyroid()
        _write(X, y, folder / "thyroid.csv", rows)
        (folder / "thyroid.toml").write_text(costs.to_toml(), encoding="utf-8")
        test = load_nslkdd(part="test")
        _write(*test[:2], folder / "fresh.csv", 500 if small else 5_000)
        less = ["--max-rows", "600", "--max-stages", "2", "--threshold", "0.9"] if small else []
        fewer = ["--max-candidates", "20"] if small else []
        faster = ["--stages", "logistic"] if small else []
        for title, arguments in (
            ("NSL-KDD", ["search", "nslkdd.csv", "--label", "label", "--out", "nslkdd", *less]),
            ("thyroid", ["search", "thyroid.csv", "--label", "label", "--costs", "thyroid.toml",
                         "--out", "thyroid", *less, *fewer]),
            ("show --fresh", ["show", "nslkdd", "--fresh", "fresh.csv", "--label", "label"]),
            ("example savings", ["example", "savings"]),
            ("savings", ["savings", "log.csv", "--model", "model.skops", "--costs",
                         "log-costs.toml", "--trust", _TREES, *faster]),
        ):  # fmt: skip
            yield from _results(title, watch(arguments, folder), small=small)


def _write(X: pd.DataFrame, y: object, path: Path, n_rows: int | None) -> None:
    frame = X.assign(label=y)
    if n_rows is not None:
        frame = frame.sample(n_rows, random_state=0)
    frame.to_csv(path, index=False)


def _results(title: str, watched: Watched, *, small: bool) -> Iterator[Result]:
    gaps = sorted((round(gap, 1) for gap in watched.gaps), reverse=True)
    facts = {
        "lines": len(watched.lines),
        "seconds": round(watched.seconds, 1),
        "cpu": round(watched.cpu, 1),
        "longest": gaps[:5],
    }
    yield Result(f"{title}: seconds without a line, at most", gaps[0], GAP, facts=facts)
    factors = watched.factors
    if factors:
        bar = None if small else FACTOR  # what takes seconds is over before it is estimated
        title = f"{title}: estimates off by a factor of, at most"
        yield Result(title, max(factors), bar, facts={"estimates": len(factors)})


def workers(*, small: bool) -> Result:
    """Fit boosted trees with one worker and with two, which have one thread each."""
    X, y, costs = load_thyroid()
    n_rows, fits = (1_000, 24) if small else (3_000, 40)

    def search(n_jobs: int) -> None:
        CascadeSearchCV(
            HistGradientBoostingClassifier(max_iter=50, max_leaf_nodes=15, random_state=0),
            costs=costs,
            search=LocalSearch(1_000, fits=fits),
            threshold=0.9,
            luck=False,
            select={"by": "coverage"},
            refit=False,
            n_jobs=n_jobs,
            random_state=0,
        ).fit(X[:n_rows], y[:n_rows])

    search(2)  # workers are started once
    one, two = best_times(lambda: search(1), lambda: search(2), rounds=2)
    facts = {"one": round(one, 1), "two": round(two, 1)}
    title = "boosted trees, times faster with two workers"
    return Result(title, one / two, None if small else WORKERS, at_most=False, facts=facts)
