"""Speed beside another emsco: both take turns with the same work, and the medians are compared.

What is decided and searched runs in one process a side that stays alive, and answers with seconds.
What is a process by itself, imports and commands, is started anew each time. Seconds are those of
the processor, because others may be at work beside.
"""

from __future__ import annotations

import json
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from benchmarks.applicants import applicants
from benchmarks.interpreter import Interpreter
from benchmarks.measure import Result

ROUNDS, SMALL_ROUNDS = 11, 3
ROWS, SMALL_ROWS = 100_000, 10_000  # of the files
WITHIN = 1.10

Timing = Callable[[], float]


def run(
    *, small: bool = False, against: str | None = None, rounds: int | None = None
) -> Iterator[Result]:
    """Time everything on both sides; without another Python, this one beside itself, no bar.

    Small: three rounds, shorter files, and of the processes those that are over soonest.
    """
    there = Interpreter.here() if against is None else Interpreter.at(against)
    sides = [Interpreter.here(), there]
    n_rounds = rounds or (SMALL_ROUNDS if small else ROUNDS)
    with ExitStack() as opened:
        folder = Path(opened.enter_context(TemporaryDirectory()))
        table = pa.table(applicants(SMALL_ROWS if small else ROWS)[0])
        pa.csv.write_csv(table, folder / "rows.csv")
        pa.parquet.write_table(table, folder / "rows.parquet")
        timings = []
        for number, side in enumerate(sides):
            own = folder / str(number)
            own.mkdir()
            alive = opened.enter_context(_Alive(side, own))
            timings.append(alive.timings | _processes(side, own, table.num_rows, small=small))
        for name in timings[0]:
            both = take_turns(timings[0][name], timings[1][name], n_rounds)
            yield beside(name, *both, bar=None if against is None else WITHIN)


def take_turns(here: Timing, there: Timing, n_rounds: int) -> tuple[list[float], list[float]]:
    """Time both as often, alternately, and let the other begin in every second round.

    The median does not mind that caches are filled in the first.
    """
    both: tuple[list[float], list[float]] = ([], [])
    for number in range(n_rounds):
        order = [(here, both[0]), (there, both[1])]
        for timing, seconds in order if number % 2 else reversed(order):
            seconds.append(timing())
    return both


def beside(name: str, here: list[float], there: list[float], *, bar: float | None) -> Result:
    """Give how many times as long the median of this side is.

    Examples
    --------
    >>> from benchmarks.beside import beside
    >>> beside("import", [3.0, 1.0, 1.2], [1.0, 1.0, 9.0], bar=1.1).as_dict()["ok"]
    False
    """
    facts = {"here": _rounded(median(here)), "there": _rounded(median(there))}
    return Result(name, median(here) / median(there), bar, facts=facts | {"rounds": len(here)})


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.4g}")


class _Alive:
    """A process of `benchmarks.workloads`, which times what it is asked for."""

    def __init__(self, side: Interpreter, folder: Path) -> None:
        self._side = side
        self._process = side.start(
            "-m", "benchmarks.workloads", str(folder),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self.timings = {name: partial(self._time, name) for name in json.loads(self._answer())}

    def _answer(self) -> str:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"{self._side.python} ended with {self._process.wait()}.")
        return answer

    def _time(self, name: str) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(name) + "\n")
        self._process.stdin.flush()
        return float(self._answer())

    def __enter__(self) -> _Alive:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()  # it ends when nothing more is asked


def _processes(side: Interpreter, folder: Path, n_rows: int, *, small: bool) -> dict[str, Timing]:
    """Give what is timed from start to end of a process."""
    lines = {
        "import emsco": ["-c", "import emsco"],
        "emsco --help": ["-m", "emsco", "--help"],
    }
    if not small:
        lines["from emsco import CascadeSearchCV"] = ["-c", "from emsco import CascadeSearchCV"]
    for ending in ("csv",) if small else ("csv", "parquet"):
        rows, out = str(folder.parent / f"rows.{ending}"), str(folder / f"out.{ending}")
        lines[f"emsco decide, {n_rows:,} rows of {ending}"] = [
            "-m", "emsco", "decide", str(folder / "model.emsco"), rows, "--out", out, "--force",
        ]  # fmt: skip

    def timed(arguments: list[str]) -> float:
        before = _spent()
        side.run(*arguments, capture_output=True)
        return _spent() - before

    return {name: partial(timed, arguments) for name, arguments in lines.items()}


def _spent() -> float:
    """Give the seconds of the processor that processes which have ended took."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime
