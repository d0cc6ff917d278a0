"""Ray on this machine: what `RayEngine` costs beside bare tasks, and what a second worker brings.

Nodes of one machine share its cores: these figures are about overhead, not about scaling. Starting
the cluster, and its workers, is timed apart from the rest.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks.measure import Result, best_times
from benchmarks.warehouse import bare_batches, bare_file, stages_of, write_covtype
from emsco import LocalEngine
from emsco.arrow import decide_batches
from emsco.datasets import load_covtype
from emsco.ray import RayEngine, decide_dataset

WORKERS = 2
FIT_ROWS, SMALL_FIT_ROWS = 100_000, 20_000
FITS, SMALL_FITS = 12, 8
TREES, SMALL_TREES = 100, 20
SCORED, SMALL_SCORED = 20_000_000, 2_000_000
GROUP = 2**17  # rows

Rows = tuple[NDArray[np.float64], NDArray[Any], int]


def run(*, small: bool = False) -> Iterator[Result]:
    """Measure fits, then scoring; `small` holds no figure to a bar that its size makes noise."""
    started = time.perf_counter()
    with RayEngine(WORKERS) as engine:
        engine.map(_import_all, range(2 * WORKERS))
        seconds = time.perf_counter() - started
        yield Result("ray.start: seconds to start a cluster and its workers", seconds)
        yield from _fitting(engine, small=small)
        with TemporaryDirectory(prefix="emsco-ray-") as folder:
            yield from _scoring(Path(folder), engine, small=small)


def _import_all(_chunk: int, _shared: None) -> None:
    """Import what later tasks need; long enough that every worker does."""
    import emsco.ray.scoring  # noqa: F401

    time.sleep(0.5)


def _fit(columns: list[int], shared: Rows) -> float:
    """Fit a boosted classifier to some columns, and give what tells it from others."""
    X, y, n_trees = shared
    model = HistGradientBoostingClassifier(max_iter=n_trees, early_stopping=False, random_state=0)
    model.fit(X[:, columns], y)
    return float(model.predict_proba(X[:1000, columns])[:, 0].sum())


def _fitting(engine: RayEngine, *, small: bool) -> Iterator[Result]:
    frame, labels, _ = load_covtype()
    rng = np.random.default_rng(0)
    n_rows = SMALL_FIT_ROWS if small else FIT_ROWS
    rows = rng.choice(len(labels), size=n_rows, replace=False)
    X = frame.to_numpy(dtype=np.float64)[rows]
    shared: Rows = (X, np.asarray(labels)[rows], SMALL_TREES if small else TREES)
    n_fits = SMALL_FITS if small else FITS
    # As many columns each, so that fits take about as long as one another.
    sets = [sorted(rng.choice(X.shape[1], 20, replace=False).tolist()) for _ in range(n_fits)]
    alone = RayEngine(1)  # on the same cluster, one task at a time
    processes = LocalEngine(WORKERS, threads=False)
    put = ray.put(shared)
    task = ray.remote(_fit)
    programs: list[Callable[[], list[float]]] = [
        lambda: engine.map(_fit, sets, shared=shared),
        lambda: alone.map(_fit, sets, shared=shared),
        lambda: ray.get([task.remote(columns, put) for columns in sets]),
        lambda: processes.map(_fit, sets, shared=shared),
    ]
    same = {tuple(program()) for program in programs}  # warms up, too
    assert len(same) == 1, "fits differ"
    two, one, bare, local = best_times(*programs, rounds=2)
    facts = {
        "rows": n_rows,
        "fits": n_fits,
        "seconds": round(two, 2),
        "load": round(os.getloadavg()[0], 1),
    }
    yield Result(
        "ray.fit: speed of two workers, of one",
        one / two,
        None if small else 1.6,
        at_most=False,
        facts=facts,
    )
    yield Result(
        "ray.fit: time, of bare Ray tasks",
        two / bare,
        1.5 if small else 1.15,
        facts={"seconds": round(bare, 2)},
    )
    yield Result(
        "ray.fit: time, of LocalEngine with two processes",
        two / local,
        None if small else 1.3,
        facts={"seconds": round(local, 2)},
    )


def _bare(folder: Path, shared: Any) -> int:
    """Decide a folder by bare numpy; write nothing."""
    return sum(batch.num_rows for batch in bare_batches(folder, *shared))


def _bare_written(folder: Path, shared: Any) -> None:
    """Decide a folder by bare numpy, and write the decisions to one file."""
    cascade, stages = shared
    bare_file(folder, cascade, stages, folder.with_suffix(".parquet"))


def _scoring(folder: Path, engine: RayEngine, *, small: bool) -> Iterator[Result]:
    n_rows = SMALL_SCORED if small else SCORED
    cascade = write_covtype(folder / "rows", n_rows, GROUP)
    shared = cascade, stages_of(cascade)
    paths = sorted((folder / "rows").iterdir())
    halves = [folder / f"half-{i}" for i in range(WORKERS)]
    for i, half in enumerate(halves):  # a process per core, each with its own files
        half.mkdir()
        for path in paths[i::WORKERS]:
            (half / path.name).symlink_to(path)
    processes = LocalEngine(WORKERS, threads=False)
    runs = iter(range(10**6))

    def ours() -> None:
        scored = decide_dataset(
            cascade, folder / "rows", folder / f"out-{next(runs)}", engine=engine
        )
        assert scored.rows == n_rows

    def bare() -> None:
        assert sum(processes.map(_bare, halves, shared=shared)) == n_rows

    def bare_written() -> None:
        processes.map(_bare_written, halves, shared=shared)

    bare()  # starts its processes
    on_ray, unwritten, written = best_times(ours, bare, bare_written, rounds=2)
    facts = {
        "rows": n_rows,
        "million_rows_a_second": round(n_rows / on_ray / 1e6, 3),
        "input_mb": round(sum(path.stat().st_size for path in paths) / 1e6),
        "load": round(os.getloadavg()[0], 1),
    }
    yield Result(
        "ray.score: speed, of bare numpy with a process per core that writes nothing",
        unwritten / on_ray,
        None if small else 0.4,
        at_most=False,
        facts=facts,
    )
    yield Result(
        "ray.score: speed, of bare numpy with a process per core that writes too",
        written / on_ray,
        facts={"million_rows_a_second": round(n_rows / written / 1e6, 3)},
    )
    if not small:
        yield _by_ray_data(folder, cascade, on_ray)
    peaks = engine.map(_peak_mb, range(4 * WORKERS))
    yield Result("ray.score: peak memory of a worker, in MB", max(peaks))
    yield from _again(folder, cascade, engine, n_rows)


def _by_ray_data(folder: Path, cascade: Any, on_ray: float) -> Result:
    """Score the same rows by Ray Data, which was the other way to do it."""
    import pyarrow as pa
    import ray.data

    def decide(table: pa.Table) -> pa.Table:
        return pa.Table.from_batches(list(decide_batches(cascade, table)))

    ray.data.DataContext.get_current().enable_progress_bars = False

    def work() -> None:
        rows = ray.data.read_parquet(str(folder / "rows"))
        rows.map_batches(decide, batch_format="pyarrow").write_parquet(str(folder / "data"))

    (seconds,) = best_times(work, rounds=1)
    return Result(
        "ray.score: speed of Ray Data, of decide_dataset",
        on_ray / seconds,
        facts={"seconds": round(seconds, 1)},
    )


def _again(folder: Path, cascade: Any, engine: RayEngine, n_rows: int) -> Iterator[Result]:
    """Score once more what is scored: only names are compared."""
    started = time.perf_counter()
    scored = decide_dataset(cascade, folder / "rows", folder / "out-0", engine=engine)
    assert (scored.rows, scored.rows_before) == (0, n_rows)
    yield Result("ray.score: seconds of a run with nothing to do", time.perf_counter() - started)


def _peak_mb(_chunk: int, _shared: None) -> float:
    """Give the peak memory of a worker without what it shares with others: Ray's store."""
    time.sleep(0.1)  # so that every worker has its turn
    fields = {}
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        fields[name] = value.split()
    shared = int(fields["RssShmem"][0])
    return round((int(fields["VmHWM"][0]) - shared) / 1024, 1)
