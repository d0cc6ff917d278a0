"""The Ray Data recipe of docs/engines.md, run as it is written: the same decisions."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset

from emsco import CascadeClassifier, StageDesign, dump
from emsco.ray.cluster import on_loopback

PAGE = Path(__file__).parents[2] / "docs" / "engines.md"


def test_ray_data_decides_as_the_library(nodes, tmp_path):
    """On the cluster of the tests, which is on loopback only."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=3000)
    table = pa.table(
        {
            "id": np.arange(3000),
            "age": 40 + 9 * y + 10 * rng.normal(size=3000),
            "score": 3 * y + rng.normal(size=3000),
        }
    )
    X = table.select(["age", "score"])
    cascade = CascadeClassifier(design=StageDesign([0, 1]), threshold=0.8).fit(X, y)
    dump(cascade, tmp_path / "model.emsco")
    options = {"max_rows_per_file": 1000, "max_rows_per_group": 500}
    pa.dataset.write_dataset(table, tmp_path / "rows", format="parquet", **options)
    section = PAGE.read_text(encoding="utf-8").partition("### Ray Data\n")[2]
    (code,) = re.findall(r"```python\n(.*?)```", section.partition("\n##")[0], flags=re.DOTALL)
    with on_loopback():
        environment = {**os.environ, "RAY_ADDRESS": nodes.address}
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    decided = pa.dataset.dataset(tmp_path / "decisions").to_table().sort_by("id")
    expected = cascade.decide(X)
    assert decided["id"].to_pylist() == list(range(3000))
    for name in ("label", "accepted", "exit_stage", "confidence", "cost", "reason"):
        np.testing.assert_array_equal(
            decided[name].to_numpy(zero_copy_only=False), getattr(expected, name), err_msg=name
        )
