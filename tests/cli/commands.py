"""Commands called in this process, and a small table with every kind of column to call them on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
from typer.testing import CliRunner

from emsco.cli._app import app
from emsco.rows.ledger import forget_all

COSTS = """\
unit = "EUR"

[sources]
form = { cost = 1, features = ["age", "smoker", "town"] }
visits = 2
marker = 12
scan = 100
"""


class Called(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


def call(*arguments: object, stdin: Any = None) -> Called:
    """Run a command in this process, as one of its own; a bug shows its traceback."""
    forget_all()
    environment = {"EMSCO_TRACEBACK": "1"}
    result = CliRunner(env=environment).invoke(app, [str(a) for a in arguments], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code != 70, result.stderr
    return Called(result.exit_code, result.stdout, result.stderr)


def without_reads(err: str) -> str:
    """Leave out what commands say on the way: rows read, and on a slow machine what is loaded."""
    lines = err.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(("Read: ", "emsco: load ")))


def patients(n_rows: int, seed: int) -> pd.DataFrame:
    """Make rows: whole numbers, numbers, text, booleans, cells that are empty, and an id."""
    rng = np.random.default_rng(seed)
    sick = rng.random(n_rows) < 0.4
    town = np.array(["Basel", "Chur, GR", "NA", ""], dtype=object)[rng.integers(0, 4, n_rows)]
    frame = pd.DataFrame(
        {
            "id": [f"{i:05}" for i in range(n_rows)],
            "age": (45 + 20 * sick + rng.normal(0, 8, n_rows)).round(),
            "smoker": rng.random(n_rows) < 0.3 + 0.3 * sick,
            "town": town,
            "visits": rng.integers(0, 9, n_rows) + sick,
            "marker": (2 * sick + rng.normal(0, 1, n_rows)).round(3),
            "scan": (4 * sick + rng.normal(0, 1, n_rows)).round(3),
            "state": np.where(sick, "sick", "well"),
        }
    )
    frame.loc[rng.random(n_rows) < 0.1, "marker"] = np.nan
    return frame


def write_csv(frame: pd.DataFrame, path: Path) -> Path:
    frame.assign(smoker=frame.smoker.map({True: "true", False: "false"})).to_csv(path, index=False)
    return path


def write_parquet(frame: pd.DataFrame, path: Path, row_group: int = 1000) -> Path:
    columns = {name: pa.array(frame[name], from_pandas=True) for name in frame}
    columns["age"] = columns["age"].cast(pa.int32())
    pa.parquet.write_table(pa.table(columns), path, row_group_size=row_group)
    return path
