"""Whether a run that is killed ends in the same front, and what its checkpoints cost meanwhile."""

from __future__ import annotations

import json
import logging
import resource
import signal
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sklearn.naive_bayes import GaussianNB

from emsco import EMSCO, CascadeSearchCV, Exhaustive, Hybrid, LocalSearch
from emsco.datasets import make_costly_classification
from emsco.exceptions import CheckpointError, CheckpointWarning
from emsco.search.checkpoint import PREVIOUS, remove
from experiments.tables import markdown

LOCAL = LocalSearch(evaluations=2000, fits=200)
STRATEGIES = {
    "EMSCO": EMSCO(population=40, generations=8),
    "Exhaustive": Exhaustive(),
    "Hybrid": Hybrid(EMSCO(population=30, generations=4), LOCAL),
}
KILLS, SMALL_KILLS = 20, 3  # of all strategies together
N_SOURCES, SMALL_SOURCES = 8, 6


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Kill 20 runs; cut a checkpoint at every 64th byte; fill the disk. `--small`: 3 runs."""
    warnings.simplefilter("ignore")
    names = [name for name in STRATEGIES if only is None or name in only]
    kills = SMALL_KILLS if small else KILLS
    n_sources = SMALL_SOURCES if small else N_SOURCES
    rng = np.random.default_rng(0)
    rows = []
    with TemporaryDirectory() as made:
        folder = Path(made)
        for i, name in enumerate(names):
            rows.append(_kill(name, len(range(i, kills, len(names))), rng, folder, n_sources))
        told = [_cut(folder, 1024 if small else 64), _fill_disk(folder, n_sources)]
        if not small:
            told.append(_write_much(folder))
    header = ["search", "killed, with the same front after", "time spent writing, %"]
    return "\n\n".join([markdown(header, rows), *told])


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


def rows_of(n_sources: int) -> tuple[Any, Any]:
    """Make the rows that are searched on."""
    X, y, _ = make_costly_classification(200, n_sources=n_sources, random_state=0)
    return X.to_numpy(), y


def front_of(search: CascadeSearchCV) -> list[Any]:
    """Give all that a front holds, and how it was found."""
    return [list(search.front_), search.history_, search.all_sources_, search.best_candidate_]


def _kill(
    name: str, times: int, rng: np.random.Generator, folder: Path, n_sources: int
) -> list[str]:
    """Kill processes after as many events of their searches as drawn, and a moment more."""
    X, y = rows_of(n_sources)
    whole = front_of(search_of(name).fit(X, y))  # compiles, too
    events: list[Any] = []
    with _writings() as writings:
        started = time.monotonic()
        search_of(name, folder / f"{name}.whole").set_params(callback=events.append).fit(X, y)
        seconds = time.monotonic() - started
    killed = 0
    while killed < times:
        path = folder / f"{name}.{killed}"
        after, delay = rng.integers(len(events)), rng.random() * seconds / len(events)
        if not _run_and_kill(search_of(name, path), X, y, int(after), float(delay)):
            remove(path)  # it had ended
            continue
        killed += 1
        size = path.stat().st_size if path.exists() else 0
        print(json.dumps({"search": name, "killed": killed, "bytes left": size}), flush=True)
        if front_of(search_of(name, path).fit(X, y)) != whole:
            raise SystemExit(f"{name}, killed: another front.")
    return [name, str(killed), f"{100 * sum(writings) / seconds:.1f}"]


def _run_and_kill(search: CascadeSearchCV, X: Any, y: Any, after: int, delay: float) -> bool:
    """Run a search in a process of its own, kill that, and say whether it had not ended."""
    fork = get_context("fork")
    events = fork.Semaphore(0)
    search.set_params(callback=lambda _: events.release())
    process = fork.Process(target=search.fit, args=(X, y))
    process.start()
    for _ in range(after):
        if not events.acquire(timeout=600):
            raise SystemExit("A search to be killed does not go on.")
    time.sleep(delay)
    process.kill()
    process.join()
    return process.exitcode == -signal.SIGKILL


def _write_much(folder: Path) -> str:
    """Search a table whose fits are as quick as they get, which makes writing weigh most."""
    X, y, costs = make_costly_classification(5000, n_sources=12, random_state=0)
    path = folder / "much"
    search = CascadeSearchCV(costs=costs, max_stages=2, random_state=0, checkpoint=path)
    with _writings() as writings:
        started = time.monotonic()
        search.fit(X, y)
        seconds = time.monotonic() - started
    return (
        f"Default classifier, 4,095 source sets, 5,000 rows: {path.stat().st_size / 1e6:.1f} MB, "
        f"written {len(writings)} times in {sum(writings):.2f} of {seconds:.1f} seconds, "
        f"{100 * sum(writings) / seconds:.1f}%."
    )


@contextmanager
def _writings() -> Iterator[list[float]]:
    """Give the seconds that each writing of a checkpoint takes, as the logger is told them."""
    seconds: list[float] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            _, took = record.args  # type: ignore[misc]  # of sets, and seconds
            seconds.append(float(took))  # type: ignore[arg-type]

    logger, handler = logging.getLogger("emsco"), Handler()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield seconds
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)


def _cut(folder: Path, step: int) -> str:
    X, y = rows_of(SMALL_SOURCES)
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


def _fill_disk(folder: Path, n_sources: int) -> str:
    X, y = rows_of(n_sources)
    path = folder / "full"

    def stop(state: dict[str, Any]) -> None:
        if state["source_sets"] > 2 ** (n_sources - 1):
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        search_of("Exhaustive", path).set_params(callback=stop).fit(X, y)
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 1, limits[1]))
    try:
        search_of("Exhaustive", path).fit(X, y)
    except CheckpointError as error:
        told = str(error).replace(str(path), path.name)
    else:
        raise SystemExit("A full disk was not told by name.")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    if path.read_bytes() != before:
        raise SystemExit("A full disk has changed the checkpoint that was there.")
    whole = front_of(search_of("Exhaustive").fit(X, y))
    if front_of(search_of("Exhaustive", path).fit(X, y)) != whole:
        raise SystemExit("After a full disk: another front.")
    return f"Full disk: {told!r}; the {len(before):,} bytes that were there are intact."
