"""Data sets larger than memory: `emsco decide` on 20 million rows, and fits over blocks.

Rows are those of covtype, again and again, with noise added to every measured column so that files
do not compress away; flags stay as they are. The reference program reads through the same readers,
decides by bare numpy, and writes the same columns with the same writer. Memory is that of
a process of its own. All files are in a temporary folder, which is deleted in the end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet
from fsspec.implementations.local import LocalFileSystem
from numpy.typing import NDArray
from typer.testing import CliRunner

from benchmarks.measure import Result, best_times
from emsco import CascadeClassifier, StageDesign, dump
from emsco.arrow import decide_batches, decision_schema, open_dataset, parts_of
from emsco.cli._app import app
from emsco.cli._writing import parquet_parts
from emsco.datasets import load_covtype

ROWS, SMALL_ROWS = 20_000_000, 400_000
FITTED, SMALL_FITTED = 10_000_000, 200_000
COLUMNS, SMALL_COLUMNS = 50, 20
GROUP, SMALL_GROUP = 2**17, 2**14  # rows
FILE_ROWS = 2**20
THRESHOLD = 0.75
NOISE = 0.05  # of the standard deviation
HILLSHADES = ["Hillshade_9am", "Hillshade_Noon", "Hillshade_3pm"]
DISTANCES = [f"Horizontal_Distance_To_{name}" for name in ("Hydrology", "Roadways", "Fire_Points")]
STAGES = [
    ["Elevation", "wilderness_area"],
    ["Aspect", "Slope", *HILLSHADES],
    ["Vertical_Distance_To_Hydrology", *DISTANCES],
    ["soil_type"],
]

Stages = list[tuple[list[str], NDArray[np.float64], float]]


def run(*, small: bool = False) -> Iterator[Result]:
    """Measure decisions, then fits; `small` holds no time to a bar, because it is noise there."""
    with TemporaryDirectory(prefix="emsco-arrow-") as folder:
        yield from _deciding(Path(folder), SMALL_ROWS if small else ROWS, small=small)
    with TemporaryDirectory(prefix="emsco-arrow-") as folder:
        yield from _fitting(Path(folder), small=small)


def _deciding(folder: Path, n_rows: int, *, small: bool) -> Iterator[Result]:
    group = SMALL_GROUP if small else GROUP
    cascade = write_covtype(folder / "rows", n_rows, group)
    model, out = folder / "model.emsco", folder / "out.parquet"
    dump(cascade, model)
    stages = stages_of(cascade)
    here, there = folder / "here.parquet", folder / "there.parquet"

    def ours() -> None:
        arguments = ["decide", str(model), str(folder / "rows"), "--out", str(here), "--force"]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output

    def theirs() -> None:
        bare_file(folder / "rows", cascade, stages, there)

    def seam() -> None:
        for _ in decide_batches(cascade, open_dataset(folder / "rows")):
            pass

    def bare() -> None:
        for _ in bare_batches(folder / "rows", cascade, stages):
            pass

    written, referred, decided, referred_alone = best_times(
        ours, theirs, seam, bare, rounds=2 if not small else 3
    )
    differing = _differing(here, there)
    # The folded weights differ in the last bit, so a row on the very threshold may differ.
    assert differing <= 2 + n_rows // 10**6, differing
    exits = _exits(here, len(STAGES))
    facts = {
        "rows": n_rows,
        "million_rows_a_second": round(n_rows / written / 1e6, 3),
        "exits": exits,
        "file_mb": _size_mb(folder / "rows"),
        "load": round(os.getloadavg()[0], 1),
    }
    bar = None if small else 0.8
    yield Result(
        "arrow.decide: speed of emsco decide, of bare numpy with the same reader and writer",
        referred / written,
        bar,
        at_most=False,
        facts=facts,
    )
    yield Result(
        "arrow.decide: speed of decide_batches, of bare numpy with the same reader",
        referred_alone / decided,
        facts={"million_rows_a_second": round(n_rows / decided / 1e6, 3)},
    )
    here.unlink()
    there.unlink()
    few = folder / "few"
    few.mkdir()
    for path in sorted((folder / "rows").iterdir())[: max(1, n_rows // FILE_ROWS // 10)]:
        (few / path.name).symlink_to(path)
    peaks = {}
    for name in ("few", "rows"):
        told = _alone("decide", str(model), str(folder / name), str(out))
        peaks[name] = told["peak_mb"]
    yield Result(
        "arrow.decide: peak memory on all rows, of that on a tenth",
        peaks["rows"] / peaks["few"],
        1.2,
        facts={"peak_mb": peaks["rows"], "peak_mb_of_a_tenth": peaks["few"]},
    )
    yield from _bytes(folder, cascade, group)


def _bytes(folder: Path, cascade: CascadeClassifier, group: int) -> Iterator[Result]:
    """Count the bytes of later stages' columns that are read, in both orders of the rows."""
    _sort(folder / "rows", folder / "sorted", cascade, group)
    first = list(cascade.decider_.plan.stages[0].features)
    for name in ("rows", "sorted"):
        size_first, size_later = _chunk_sizes(folder / name, cascade.decider_.columns_read, first)
        system, reads = counting()
        dataset = pa.dataset.dataset(str(folder / name), filesystem=system, format="parquet")
        for _ in decide_batches(cascade, dataset):
            pass
        n_read = sum(length for _, _, length in reads) / 1e6
        order = "in any order" if name == "rows" else "sorted by the first stage's confidence"
        yield Result(
            f"arrow.bytes: of later columns read, of a full scan, rows {order}",
            (n_read - size_first) / size_later,
            1.05 if name == "rows" else 0.9,
            facts={
                "read_mb": round(n_read, 1),
                "first_stage_mb": round(size_first, 1),
                "later_stages_mb": round(size_later, 1),
            },
        )


class _Counted:
    """A file that notes what is read of it."""

    def __init__(self, file: Any, path: str, reads: list[tuple[str, int, int]]) -> None:
        self._file, self._path, self._reads = file, path, reads

    def read(self, n: int = -1) -> bytes:
        """Read, and note how much."""
        start = self._file.tell()
        data: bytes = self._file.read(n)
        self._reads.append((self._path, start, len(data)))
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class _CountingFileSystem(LocalFileSystem):
    """Local files, of which every read is noted."""

    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[tuple[str, int, int]] = []

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        """Open a file."""
        file = super().open(path, mode, **options)
        return _Counted(file, path, self.reads) if mode == "rb" else file


def counting() -> tuple[Any, list[tuple[str, int, int]]]:
    """Give a file system for pyarrow, and the list of its reads: path, offset, length."""
    system = _CountingFileSystem()
    return pa.fs.PyFileSystem(pa.fs.FSSpecHandler(system)), system.reads


def write_covtype(folder: Path, n_rows: int, group: int) -> CascadeClassifier:
    """Write covtype with noise, so often as it takes, and fit a cascade to one of its copies."""
    folder.mkdir()
    X, y, costs = load_covtype()
    rng = np.random.default_rng(0)
    measured = [name for name in X if X[name].nunique() > 2]
    deviations = {name: float(X[name].std()) for name in measured}
    design = StageDesign.from_stages(STAGES, costs.names)
    cascade = None
    for number, start in enumerate(range(0, n_rows, FILE_ROWS)):
        rows = rng.integers(len(X), size=min(FILE_ROWS, n_rows - start))
        columns: dict[str, Any] = {}
        for name in X:
            values = X[name].to_numpy()[rows]
            if name in deviations:
                noise = NOISE * deviations[name] * rng.normal(size=len(rows))
                columns[name] = values + noise
            else:
                columns[name] = values.astype(np.int8)
        table = pa.table(columns)
        if cascade is None:
            few = table.slice(0, 100_000).to_pandas()
            cascade = CascadeClassifier(design=design, costs=costs, threshold=THRESHOLD)
            cascade.fit(few, y[rows[:100_000]])
        path = folder / f"part-{number:03}.parquet"
        pa.parquet.write_table(table, path, row_group_size=group, use_dictionary=False)
    assert cascade is not None
    return cascade


def _sort(source: Path, folder: Path, cascade: CascadeClassifier, group: int) -> None:
    """Write the same rows, the surest of the first stage first."""
    folder.mkdir()
    stage = cascade.decider_.plan.stages[0]
    dataset = open_dataset(source)
    sure = []
    for part in parts_of(dataset):
        columns = part.table(list(stage.features))
        values = {n: columns[n].to_numpy().astype(np.float64) for n in stage.features}
        sure.append(np.max(np.array(stage.judge(values)), axis=0))
    order = np.argsort(-np.concatenate(sure), kind="stable")
    table = dataset.to_table().take(pa.array(order))
    for number, start in enumerate(range(0, table.num_rows, FILE_ROWS)):
        path = folder / f"part-{number:03}.parquet"
        some = table.slice(start, FILE_ROWS)
        pa.parquet.write_table(some, path, row_group_size=group, use_dictionary=False)


def stages_of(cascade: CascadeClassifier) -> Stages:
    """Give each stage as what it reads anew, and weights and a constant for all read so far."""
    stages: Stages = []
    for stage, estimator in zip(cascade.decider_.plan.stages, cascade.estimators_, strict=True):
        held = [name for names, _, _ in stages for name in names] + list(stage.features)
        names = [name for name in cascade.decider_.layout.names if name in set(held)]
        encodings: list[Any] = [cascade.decider_.readers[name].encoding for name in names]
        w = estimator.coef_[0] / [encoding.scale for encoding in encodings]
        b = estimator.intercept_[0] - w @ [encoding.centre for encoding in encodings]
        by_name = dict(zip(names, w, strict=True))
        stages.append((list(stage.features), np.array([by_name[name] for name in held]), float(b)))
    return stages


def bare_batches(
    folder: Path, cascade: CascadeClassifier, stages: Stages
) -> Iterator[pa.RecordBatch]:
    """Decide by bare numpy: the same readers, the same columns, the same decisions."""
    schema, labels = decision_schema(cascade), pa.array(cascade.classes_.tolist())
    costs = cascade.decider_.plan.costs
    for part in parts_of(open_dataset(folder)):
        for reader in part.readers(cascade.decider_.columns_read):
            n_rows = reader.num_rows
            yes, exit_stage = np.empty(n_rows), np.empty(n_rows, dtype=np.int64)
            rows, held = np.arange(n_rows), []
            for number, (names, w, b) in enumerate(stages):
                batch = reader.read(names, rows if number else None)
                held += [column.to_numpy(zero_copy_only=False) for column in batch.columns]
                z = w[0] * held[0]  # faster than a matrix product, which would copy every column
                for slope, column in zip(w[1:], held[1:], strict=True):
                    z += slope * column
                p = 1 / (1 + np.exp(-(z + b)))
                yes[rows], exit_stage[rows] = p, number
                (is_open,) = np.nonzero(np.maximum(p, 1 - p) < THRESHOLD)
                rows, held = rows[is_open], [column[is_open] for column in held]
                if not rows.size:
                    break
            sure = np.maximum(yes, 1 - yes)
            accepted = pa.array(sure >= THRESHOLD)
            columns = [
                labels.take(pa.array((yes > 0.5).astype(np.int64))), accepted,
                pa.array(exit_stage), pa.array(sure), pa.array(costs[exit_stage]),
                pc.if_else(accepted, "", "low confidence"),
            ]  # fmt: skip
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def bare_file(folder: Path, cascade: CascadeClassifier, stages: Stages, out: Path) -> None:
    """Write what bare numpy decides, with row numbers, as `emsco decide` does."""

    def numbered() -> Iterator[pa.RecordBatch]:
        first = 0
        for batch in bare_batches(folder, cascade, stages):
            rows = pa.array(np.arange(first, first + batch.num_rows))
            first += batch.num_rows
            yield pa.RecordBatch.from_arrays([rows, *batch.columns], schema=schema)

    schema = decision_schema(cascade, numbered=True)
    with out.open("wb") as file:
        for part in parquet_parts(schema, numbered()):
            file.write(part)


def _differing(here: Path, there: Path) -> int:
    """Count rows whose label or exit differs."""
    names = ["label", "accepted", "exit_stage"]
    ours, theirs = (pa.parquet.read_table(path, columns=names) for path in (here, there))
    differs = np.zeros(ours.num_rows, dtype=np.bool_)
    for name in names:
        differs |= ours[name].to_numpy() != theirs[name].to_numpy()
    return int(differs.sum())


def _exits(path: Path, n_stages: int) -> list[float]:
    exits = pa.parquet.read_table(path, columns=["exit_stage"])["exit_stage"].to_numpy()
    shares: list[float] = (np.bincount(exits, minlength=n_stages) / len(exits)).round(3).tolist()
    return shares


def _size_mb(folder: Path) -> float:
    return round(sum(path.stat().st_size for path in folder.iterdir()) / 1e6, 1)


def _chunk_sizes(folder: Path, names: list[str], first: list[str]) -> tuple[float, float]:
    """Give the size of the columns of the first stage, and of all later ones, in MB."""
    sizes = dict.fromkeys(names, 0)
    for path in folder.iterdir():
        metadata = pa.parquet.read_metadata(path)
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            for place in range(group.num_columns):
                chunk = group.column(place)
                if chunk.path_in_schema in sizes:
                    sizes[chunk.path_in_schema] += chunk.total_compressed_size
    own = sum(sizes[name] for name in first)
    return own / 1e6, (sum(sizes.values()) - own) / 1e6


def _fitting(folder: Path, *, small: bool) -> Iterator[Result]:
    """Fit to ten times as many rows: memory below the data, and the same time for a million."""
    n_rows, n_columns = (SMALL_FITTED, SMALL_COLUMNS) if small else (FITTED, COLUMNS)
    _write_columns(folder / "all", n_rows, n_columns)
    few = folder / "few"
    few.mkdir()
    paths = sorted((folder / "all").iterdir())
    for path in paths[: len(paths) // 10]:
        (few / path.name).symlink_to(path)
    told = {name: _alone("fit", str(folder / name)) for name in ("few", "all")}
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
        "arrow.fit: time a million rows, of that at a tenth of the rows",
        by_million["all"] / by_million["few"],
        None if small else 1.2,
        facts=facts,
    )
    yield Result(
        "arrow.fit: peak memory, of the data as float64",
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


def _alone(*arguments: str) -> dict[str, Any]:
    """Run a part of this file in a process of its own, and give what it tells."""
    command = [sys.executable, "-m", "benchmarks.arrow", *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def _peak_mb() -> float:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return round(int(line.split()[1]) / 1024, 1)


def main(arguments: list[str]) -> None:
    """Do what `_alone` asks for, and print what it took."""
    if arguments[0] == "decide":
        model, rows, out = arguments[1:]
        result = CliRunner().invoke(app, ["decide", model, rows, "--out", out, "--force"])
        assert result.exit_code == 0, result.output
        told: dict[str, Any] = {"peak_mb": _peak_mb()}
    else:
        dataset = open_dataset(arguments[1])
        names = [name for name in dataset.schema.names if name != "y"]
        design = StageDesign(np.arange(len(names)) * 3 // len(names))
        start, worked = time.perf_counter(), time.process_time()
        fitted = CascadeClassifier(design=design).fit(dataset, "y")
        told = {
            "seconds": time.perf_counter() - start,
            "cpu_seconds": time.process_time() - worked,
            "rows": dataset.count_rows(),
            "rounds": int(max(e.n_iter_[0] for e in fitted.estimators_)),
            "peak_mb": _peak_mb(),
        }
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1:])
