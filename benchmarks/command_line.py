"""The command line: its start against bare typer, and a million rows against copying their file.

The reference programs below read every column of the file with the reader that `emsco decide` has,
in blocks of the same size, and write all of them in the same format and compression. Both run in
one process, so that neither counts imports; the start is measured by itself.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from typer.testing import CliRunner

from benchmarks.measure import Result, best_times
from emsco import CascadeClassifier, Costs, Source, StageDesign, dump
from emsco.cli._app import app
from emsco.cli._tables import CsvRows
from emsco.exceptions import require

ROWS = 1_000_000
ROW_GROUP = 2**17
TOWNS = ["Basel", "Bern", "Chur", "Geneva", "Thun"]
STAGES = [["form"], ["bureau"], ["history"], ["visit"]]


def copy_csv(rows: Path, out: Path) -> None:
    """Read and write CSV: every column, every cell as text."""
    opened = CsvRows(rows)
    schema = pa.schema([(name, pa.string()) for name in opened.names])
    with pa.csv.CSVWriter(out, schema) as writer:
        for block in opened.blocks(opened.names):
            writer.write_batch(
                pa.RecordBatch.from_arrays(block.columns(opened.names), schema=schema)
            )


def copy_parquet(rows: Path, out: Path) -> None:
    """Read and write Parquet: every column, a row group at a time."""
    file = pa.parquet.ParquetFile(rows)
    with pa.parquet.ParquetWriter(out, file.schema_arrow) as writer:
        for number in range(file.num_row_groups):
            writer.write_table(file.read_row_group(number))


def problem(folder: Path) -> pa.Table:
    """Write a cascade fitted on 4,000 rows, and give a million: 17 columns, one of them text."""
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {"id": np.arange(ROWS)}
    columns |= {f"x{i}": rng.normal(size=ROWS).round(4) for i in range(11)}
    columns |= {f"n{i}": rng.integers(0, 50, ROWS) for i in range(4)}
    columns["town"] = np.array(TOWNS, dtype=object)[rng.integers(0, len(TOWNS), ROWS)]
    score = sum(columns[f"x{i}"] * (1.2 - i / 12) for i in range(11))
    score = score + (columns["n0"] - 25) / 15 + (columns["town"] == "Bern")
    y = np.where(score + rng.logistic(size=ROWS) > 0, "good", "bad")
    costs = Costs(
        [
            Source("form", features=["x0", "x1", "n0", "town"], cost=1),
            Source("bureau", features=["x2", "x3", "x4", "n1"], cost=5),
            Source("history", features=["x5", "x6", "x7", "n2"], cost=10),
            Source("visit", features=["x8", "x9", "x10", "n3"], cost=60),
        ]
    )
    X = require("pandas").DataFrame(
        {name: columns[name][:4000] for name in columns if name != "id"}
    )
    design = StageDesign.from_stages(STAGES, costs.names)
    dump(CascadeClassifier(design=design, costs=costs).fit(X, y[:4000]), folder / "model.emsco")
    return pa.table(columns)


def run(*, small: bool = False) -> list[Result]:  # noqa: ARG001  # seconds as it is
    """Measure the start, then CSV and Parquet."""

    def start(*arguments: str) -> None:
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)

    def invoke(command: list[str]) -> None:
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.output

    ours, theirs = best_times(
        lambda: start("-m", "emsco", "--help"), lambda: start("-c", "import typer, rich"), rounds=7
    )
    facts = {"seconds": round(ours, 3)}
    results = [Result("emsco --help, against import typer, rich", ours / theirs, 2, facts=facts)]
    with TemporaryDirectory() as name:
        folder = Path(name)
        table = problem(folder)
        pa.csv.write_csv(table, folder / "rows.csv")
        pa.parquet.write_table(table, folder / "rows.parquet", row_group_size=ROW_GROUP)
        del table
        for ending, copy, bar in (("csv", copy_csv, 0.5), ("parquet", copy_parquet, 0.6)):
            rows, out = folder / f"rows.{ending}", folder / f"out.{ending}"
            command = [
                "decide",
                str(folder / "model.emsco"),
                str(rows),
                "--out",
                str(out),
                "--force",
            ]
            start("-m", "emsco", *command)  # by itself, for the memory it takes
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            ours, theirs = best_times(partial(invoke, command), partial(copy, rows, out), rounds=5)
            facts = {"seconds": round(ours, 2), "copy": round(theirs, 2), "peak_mb": round(peak)}
            name = f"emsco decide, a million rows of {ending}, speed against copying them"
            results.append(Result(name, theirs / ours, bar, at_most=False, facts=facts))
    return results
