"""Measures the constants of `scaling` that need no long run, and writes them to their file."""

from __future__ import annotations

import os
import time
import tomllib
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

from emsco import CascadeClassifier, CascadeSearchCV, Exhaustive, StageDesign
from emsco.arrow import decide_batches, open_dataset
from emsco.datasets import load_covtype
from experiments.scaling import CONSTANTS

_COMMAND = "python -m experiments scaling --only measure"
_BLOCK = 2**17  # rows of a row group


def measure(names: Sequence[str], *, small: bool) -> str:
    """Measure what is measured by this command, or some of it, and keep the other constants."""
    warnings.simplefilter("ignore")
    told = tomllib.loads(CONSTANTS.read_text(encoding="utf-8"))
    for name, constant in told.items():
        if constant["command"] != _COMMAND or (names and name not in names):
            continue
        constant["value"] = float(f"{_MEASURES[name](small):.3g}")
        constant["load"] = round(os.getloadavg()[0], 1)
        print(f"{name} = {constant['value']}", flush=True)
        if not small:
            CONSTANTS.write_text(_written(told), encoding="utf-8")
    return f"{'Not written, because they are small' if small else 'Written'}: {CONSTANTS.name}."


def _written(told: dict[str, Any]) -> str:
    lines = []
    for name, constant in told.items():
        lines.append(f"[{name}]")
        lines += [f"{key} = {_text(value)}" for key, value in constant.items()]
        lines.append("")
    return "\n".join(lines)


def _text(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else f"{value:g}"


def _cpu(work: Callable[[], object]) -> float:
    """Give the seconds of a core that some work takes; the better of two."""
    taken = []
    for _ in range(2):
        started = time.process_time()
        work()
        taken.append(time.process_time() - started)
    return min(taken)


def _fit_default(small: bool) -> float:
    """Fit all source sets of 12 sources on 10,000 rows, in one thread."""
    X, y, costs = load_covtype()
    n_rows = 2_000 if small else 10_000
    X, _, y, _ = train_test_split(X, y, train_size=n_rows, stratify=y, random_state=0)
    search = CascadeSearchCV(
        costs=costs, search=Exhaustive(), max_stages=2, refit=False, random_state=0
    )
    n_sets: list[int] = []
    search.callback = lambda state: n_sets.append(state["source_sets"])
    seconds = _cpu(lambda: search.fit(X, y))
    return seconds / max(n_sets) * 10_000 / n_rows


def _fit_boosted(small: bool) -> float:
    """Fit 100 trees on 100,000 rows and 20 columns."""
    n_rows = 10_000 if small else 100_000
    X, y, _ = load_covtype()
    rng = np.random.default_rng(0)
    rows = rng.choice(len(y), n_rows, replace=False)
    values = X.to_numpy(dtype=np.float64)[rows][:, rng.choice(X.shape[1], 20, replace=False)]
    model = HistGradientBoostingClassifier(max_iter=100, early_stopping=False)
    return _cpu(lambda: model.fit(values, np.asarray(y)[rows])) * 100_000 / n_rows


def _refit(small: bool) -> float:
    """Fit one stage of 50 columns on a million rows out of files, block by block."""
    n_rows = 100_000 if small else 1_000_000
    rng = np.random.default_rng(0)
    with TemporaryDirectory(prefix="emsco-scaling-") as folder:
        columns = {f"x{i}": rng.normal(size=n_rows) for i in range(50)}
        score = sum(0.3 * column for column in columns.values()) + rng.logistic(size=n_rows)
        table = pa.table(columns | {"y": score > 0})
        pa.parquet.write_table(table, f"{folder}/rows.parquet", row_group_size=_BLOCK)
        dataset = open_dataset(folder)
        cascade = CascadeClassifier(design=StageDesign(np.zeros(50, dtype=np.int64)))
        return _cpu(lambda: cascade.fit(dataset, "y")) * 1e6 / n_rows


@cache
def _scored(small: bool) -> tuple[float, float]:
    """Decide rows of covtype with noise, Parquet to Parquet; rows a second, and bytes a row."""
    X, y, costs = load_covtype()
    n_rows = 100_000 if small else 1_000_000
    rng = np.random.default_rng(0)
    rows = rng.integers(len(y), size=n_rows)
    columns: dict[str, Any] = {}
    for name in X:
        values = X[name].to_numpy()[rows]
        many = X[name].nunique() > 2
        noise = 0.05 * values.std() * rng.normal(size=n_rows) if many else 0
        columns[name] = values + noise if many else values.astype(np.int8)
    table = pa.table(columns)
    # Three sources a stage, in the order of the table.
    design = StageDesign(np.arange(len(costs.names)) // 3)
    cascade = CascadeClassifier(design=design, costs=costs, threshold=0.75)
    cascade.fit(table.slice(0, 50_000), np.asarray(y)[rows[:50_000]])
    with TemporaryDirectory(prefix="emsco-scaling-") as made:
        path, out = Path(made) / "rows.parquet", Path(made) / "out.parquet"
        pa.parquet.write_table(table, path, row_group_size=_BLOCK, use_dictionary=False)

        def work() -> None:
            decided = list(decide_batches(cascade, open_dataset(path)))
            pa.parquet.write_table(pa.Table.from_batches(decided), out)

        return n_rows / _cpu(work), path.stat().st_size / n_rows


def _serve(small: bool) -> float:
    """Ask a service for rows that its first stage decides; decisions by seconds of its core."""
    from tests.soak.serve.generator import load
    from tests.soak.serve.process import serving
    from tests.soak.serve.saturation import quick_keys
    from tests.soak.serve.world import made

    with made(6_000) as world, serving(world) as process:
        keys = quick_keys(world)
        load(process.port, keys, 2.0, clients=32)
        before = _cpu_of(process.pid)
        found = load(process.port, keys, 3.0 if small else 15.0, clients=32)
        taken = _cpu_of(process.pid) - before
        answered = found.statuses[200]
        process.end()
    return float(answered / taken)


def _cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


_MEASURES: dict[str, Callable[[bool], float]] = {
    "fit_default": _fit_default,
    "fit_boosted": _fit_boosted,
    "refit": _refit,
    "score": lambda small: _scored(small)[0],
    "row_bytes": lambda small: _scored(small)[1],
    "serve": _serve,
}
