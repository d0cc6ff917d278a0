"""Whether a run that is killed ends in the same front, and what its checkpoints cost meanwhile."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sklearn.naive_bayes import GaussianNB

from emsco import EMSCO, CascadeSearchCV, Exhaustive, Hybrid, LocalSearch
from emsco.datasets import make_costly_classification
from emsco.exceptions import CheckpointError, CheckpointWarning
from emsco.search._checkpoint import PREVIOUS, Checkpoint
from experiments.tables import markdown

LOCAL = LocalSearch(evaluations=2000, fits=200)
STRATEGIES = {
    "EMSCO": EMSCO(population=40, generations=8),
    "Exhaustive": Exhaustive(),
    "Hybrid": Hybrid(EMSCO(population=30, generations=4), LOCAL),
}
KILLS, SMALL_KILLS = 20, 3  # of each strategy, in all
N_SOURCES = 8
NAMED = 3  # how a child ends that was told a named error


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Kill 20 runs; cut a checkpoint at every 64th byte; fill the disk. `--small`: 3 runs."""
    warnings.simplefilter("ignore")
    names = [name for name in STRATEGIES if only is None or name in only]
    kills = SMALL_KILLS if small else KILLS
    rng = np.random.default_rng(0)
    rows = []
    spent = _watch_writing()
    with TemporaryDirectory() as folder:
        for i, name in enumerate(names):
            share = len(range(i, kills, len(names)))
            rows.append(_kill(name, share, rng, spent, Path(folder)))
        cuts = _cut(Path(folder), 1024 if small else 64)
        _fill_disk(Path(folder))
    header = ["search", "killed", "killed before the end", "same front", "time spent writing, %"]
    return markdown(header, rows) + f"\n\n{cuts}\n\nFull disk: named error, checkpoint intact."


def search_of(name: str, checkpoint: Path | None = None) -> CascadeSearchCV:
    """Make a search whose fits are done one by one."""
    return CascadeSearchCV(
        GaussianNB(),
        search=STRATEGIES[name],
        threshold=[0.7, 0.85],
        max_stages=2,
        cv=2,
        random_state=0,
        checkpoint=checkpoint,
    )


def rows_of() -> tuple[Any, Any]:
    """Make the rows that are searched on."""
    X, y, _ = make_costly_classification(200, n_sources=N_SOURCES, random_state=0)
    return X.to_numpy(), y


def front_of(search: CascadeSearchCV) -> list[Any]:
    """Give all that a front holds, and how it was found."""
    return [list(search.front_), search.history_, search.all_sources_, search.best_candidate_]


def _kill(
    name: str, times: int, rng: np.random.Generator, spent: list[float], folder: Path
) -> list[str]:
    X, y = rows_of()
    search_of(name).fit(X, y)  # compiles
    spent[0] = 0.0
    started = time.monotonic()
    search_of(name, folder / f"{name}.whole").fit(X, y)
    seconds = time.monotonic() - started
    writing = 100 * spent[0] / seconds
    whole = front_of(search_of(name).fit(X, y))
    early = same = 0
    for number in range(times):
        path = folder / f"{name}.{number}"
        code = f"from experiments.survival import child; child({name!r}, {str(path)!r})"
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()  # it has read its rows and begins to fit
        time.sleep(float(rng.random()) * seconds)
        child.send_signal(signal.SIGKILL)
        early += child.wait() == -signal.SIGKILL
        child.stdout.close()
        found = front_of(search_of(name, path).fit(X, y))
        if found != whole:
            raise SystemExit(f"{name}, killed: another front.")
        same += 1
        print(json.dumps({"search": name, "killed": number, "seconds": seconds}), flush=True)
    return [name, str(times), str(early), str(same), f"{writing:.1f}"]


def child(name: str, path: str) -> None:
    """Run a search, to be killed."""
    warnings.simplefilter("ignore")
    X, y = rows_of()
    print("begins", flush=True)
    try:
        search_of(name, Path(path)).fit(X, y)
    except CheckpointError:
        sys.exit(NAMED)


def _watch_writing() -> list[float]:
    """Add up the seconds that checkpoints take to write, within the run they are part of."""
    spent = [0.0]
    write = Checkpoint._write

    def timed(self: Checkpoint, table: Any) -> None:
        started = time.monotonic()
        write(self, table)
        spent[0] += time.monotonic() - started

    Checkpoint._write = timed  # type: ignore[method-assign]
    return spent


def _cut(folder: Path, step: int) -> str:
    X, y = rows_of()
    X, y = X[:100, :4], y[:100]
    path, previous = folder / "cut", folder / f"cut{PREVIOUS}"
    whole = front_of(search_of("Exhaustive", path).fit(X, y))
    last, before = path.read_bytes(), previous.read_bytes()
    fell_back = refused = 0
    for end in range(0, len(last), step):
        path.write_bytes(last[:end])
        previous.unlink(missing_ok=True)
        try:
            search_of("Exhaustive", path).fit(X, y)
        except CheckpointError:
            refused += 1
        previous.write_bytes(before)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", CheckpointWarning)
            found = front_of(search_of("Exhaustive", path).fit(X, y))
        warned = any(issubclass(w.category, CheckpointWarning) for w in caught)
        fell_back += warned and found == whole
    n_cuts = len(range(0, len(last), step))
    if not n_cuts == refused == fell_back:
        raise SystemExit(f"Of {n_cuts} cuts {refused} were refused and {fell_back} fell back.")
    return (
        f"Cut at every {step}th of {len(last):,} bytes, {n_cuts} times: {fell_back} took the one "
        f"before, with the same front; without it {refused} named errors."
    )


def _fill_disk(folder: Path) -> None:
    X, y = rows_of()
    path = folder / "full"
    code = f"from experiments.survival import child; child('Exhaustive', {str(path)!r})"
    limit = (20_000, 20_000)  # bytes of any file
    ended = subprocess.run(
        [sys.executable, "-c", code],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
        stdout=subprocess.DEVNULL,
        check=False,
    )
    if ended.returncode != NAMED:
        raise SystemExit("A full disk was not told by name.")
    size = path.stat().st_size
    whole = front_of(search_of("Exhaustive").fit(X, y))
    if front_of(search_of("Exhaustive", path).fit(X, y)) != whole:
        raise SystemExit("After a full disk: another front.")
    print(json.dumps({"full disk": True, "bytes": size}), flush=True)
