"""A warehouse of Parquet files, and programs of bare numpy that decide it.

Rows are those of covtype, again and again, with noise added to every measured column so that files
do not compress away; flags stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet
from fsspec.implementations.local import LocalFileSystem
from numpy.typing import NDArray

from emsco import CascadeClassifier, StageDesign
from emsco.arrow import decision_schema, open_dataset, parts_of
from emsco.cli._decision_stream import parquet_parts
from emsco.datasets import load_covtype

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
