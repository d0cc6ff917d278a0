"""Fits to data sets larger than memory, in blocks: ten million rows beside one million.

Memory is that of a process of its own. Files are in a temporary folder, which is deleted in the
end.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from benchmarks.measure import Result, apart, peak_mb
from emsco import CascadeClassifier, StageDesign
from emsco.arrow import open_dataset

ROWS, SMALL_ROWS = 10_000_000, 200_000
COLUMNS, SMALL_COLUMNS = 50, 20
GROUP = 2**17  # rows


def run(*, small: bool = False) -> Iterator[Result]:
    """Measure time and memory; `small` holds neither to a bar, because both are noise there."""
    with TemporaryDirectory(prefix="emsco-blocks-") as folder:
        yield from _fitting(Path(folder), small=small)


def _fitting(folder: Path, *, small: bool) -> Iterator[Result]:
    """Fit to ten times as many rows: memory below the data, and the same time for a million."""
    n_rows, n_columns = (SMALL_ROWS, SMALL_COLUMNS) if small else (ROWS, COLUMNS)
    _write_columns(folder / "all", n_rows, n_columns)
    few = folder / "few"
    few.mkdir()
    paths = sorted((folder / "all").iterdir())
    for path in paths[: len(paths) // 10]:
        (few / path.name).symlink_to(path)
    told = {name: apart("benchmarks.blocks", str(folder / name)) for name in ("few", "all")}
    by_million = {name: own["seconds"] / own["rows"] * 1e6 for name, own in told.items()}
    worked = {name: own["cpu_seconds"] / own["rows"] * 1e6 for name, own in told.items()}
    data_mb = n_rows * n_columns * 8 / 1e6
    facts = {
        "rows": told["all"]["rows"],
        "columns": n_columns,
        "rounds": told["all"]["rounds"],
        "seconds": round(told["all"]["seconds"], 1),
        "seconds_a_million_rows": round(by_million["all"], 2),
        "seconds_a_million_rows_of_a_tenth": round(by_million["few"], 2),
        "cpu_seconds_a_million_rows": round(worked["all"], 2),
        "cpu_seconds_a_million_rows_of_a_tenth": round(worked["few"], 2),
        "load": round(os.getloadavg()[0], 1),
    }
    yield Result(
        "blocks: time a million rows, of that at a tenth of the rows",
        by_million["all"] / by_million["few"],
        None if small else 1.2,
        facts=facts,
    )
    yield Result(
        "blocks: peak memory, of the data as float64",
        told["all"]["peak_mb"] / data_mb,
        None if small else 1.0,
        facts={
            "peak_mb": told["all"]["peak_mb"],
            "peak_mb_of_a_tenth": told["few"]["peak_mb"],
            "data_mb": round(data_mb),
        },
    )


def _write_columns(folder: Path, n_rows: int, n_columns: int) -> None:
    """Write numbers, two columns with gaps among them, and labels that they tell."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    slopes = np.linspace(0.6, 0.05, n_columns)
    each = n_rows // 10
    for number in range(10):
        columns = {f"x{i}": rng.normal(size=each) for i in range(n_columns)}
        score = sum(slope * column for slope, column in zip(slopes, columns.values(), strict=True))
        for name in ("x1", "x2"):
            columns[name] = np.where(rng.random(each) < 0.05, np.nan, columns[name])
        label = score + rng.logistic(size=each) > 0
        table = pa.table(columns | {"y": label})
        path = folder / f"part-{number:03}.parquet"
        pa.parquet.write_table(table, path, row_group_size=GROUP, use_dictionary=False)


def main(folder: str) -> None:
    """Fit a cascade to a folder, and print what it took."""
    dataset = open_dataset(folder)
    names = [name for name in dataset.schema.names if name != "y"]
    design = StageDesign(np.arange(len(names)) * 3 // len(names))
    start, worked = time.perf_counter(), time.process_time()
    fitted = CascadeClassifier(design=design).fit(dataset, "y")
    told = {
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - worked,
        "rows": dataset.count_rows(),
        "rounds": int(max(e.n_iter_[0] for e in fitted.estimators_)),
        "peak_mb": peak_mb(),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1])
