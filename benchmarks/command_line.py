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

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from typer.testing import CliRunner

from benchmarks.applicants import applicants, fit
from benchmarks.measure import Result, best_times
from emsco import dump
from emsco.cli._app import app
from emsco.cli._table_file import CsvFile

ROWS = 1_000_000
ROW_GROUP = 2**17


def copy_csv(rows: Path, out: Path) -> None:
    """Read and write CSV: every column, every cell as text."""
    opened = CsvFile(rows)
    schema = pa.schema([(name, pa.string()) for name in opened.names])
    with pa.csv.CSVWriter(out, schema) as writer:
        for block in opened.blocks(opened.names):
            writer.write_batch(
                pa.RecordBatch.from_arrays(block.read(opened.names, None).columns, schema=schema)
            )


def copy_parquet(rows: Path, out: Path) -> None:
    """Read and write Parquet: every column, a row group at a time."""
    file = pa.parquet.ParquetFile(rows)
    with pa.parquet.ParquetWriter(out, file.schema_arrow) as writer:
        for number in range(file.num_row_groups):
            writer.write_table(file.read_row_group(number))


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
        columns, y = applicants(ROWS)
        dump(fit(columns, y), folder / "model.emsco")
        table = pa.table(columns)
        pa.csv.write_csv(table, folder / "rows.csv")
        pa.parquet.write_table(table, folder / "rows.parquet", row_group_size=ROW_GROUP)
        del columns, table
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
