"""The recipes of docs/engines.md, run as they are written: the same decisions from every engine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pytest

from emsco import CascadeClassifier, StageDesign, dump

pytestmark = pytest.mark.nightly

PAGE = Path(__file__).parents[2] / "docs" / "engines.md"
FIELDS = ["label", "accepted", "exit_stage", "confidence", "cost", "reason"]
# Where a recipe leaves a setting to the user, tests keep to loopback and to little memory.
QUIET = {
    "PYSPARK_SUBMIT_ARGS": "--master local[1] --driver-memory 512m --conf spark.ui.enabled=false "
    "--conf spark.driver.bindAddress=127.0.0.1 --conf spark.driver.host=127.0.0.1 "
    "--conf spark.sql.execution.arrow.maxRecordsPerBatch=300 pyspark-shell",
    "SPARK_LOCAL_IP": "127.0.0.1",
    "PYSPARK_PYTHON": sys.executable,
}


def recipe(title):
    """Give the Python blocks of a section."""
    section = re.split(r"^#+ ", PAGE.read_text(), flags=re.MULTILINE)
    (own,) = [text for text in section if text.startswith(f"{title}\n")]
    blocks = re.findall(r"```python\n(.*?)```", own, flags=re.DOTALL)
    assert blocks, title
    return "\n".join(blocks)


def run(code, folder):
    (folder / "recipe.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "recipe.py"],
        cwd=folder, env={**os.environ, **QUIET}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture
def workplace(tmp_path):
    """Rows in several files, a model, and the decisions that every engine must come to."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=3000)
    frame = pd.DataFrame(
        {
            "id": np.arange(3000),
            "age": 40 + 9 * y + 10 * rng.normal(size=3000),
            "town": np.where(rng.random(3000) < 0.3 + 0.3 * y, "Bern", "Chur"),
            "score": np.where(rng.random(3000) < 0.1, np.nan, 3 * y + rng.normal(size=3000)),
            "approved": np.where(y == 1, "yes", "no"),
        }
    )
    X = frame[["age", "town", "score"]]
    cascade = CascadeClassifier(design=StageDesign([0, 0, 1]), threshold=0.8)
    cascade.fit(X[:1000], frame.approved[:1000])
    dump(cascade, tmp_path / "model.emsco")
    table = pa.Table.from_pandas(frame, preserve_index=False)
    options = {"max_rows_per_file": 1000, "max_rows_per_group": 500}
    pa.dataset.write_dataset(table, tmp_path / "rows", format="parquet", **options)
    return tmp_path, cascade.decide(X)


@pytest.mark.parametrize(
    ("title", "out"), [("DuckDB", "decisions.parquet"), ("Spark", "decisions")]
)
def test_an_engine_decides_as_the_library(workplace, title, out):
    folder, expected = workplace
    run(recipe(title), folder)
    decided = pd.read_parquet(folder / out).sort_values("id")
    assert decided.id.tolist() == list(range(3000))
    assert set(expected.exit_stage.tolist()) == {0, 1}
    for name in FIELDS:
        assert decided[name].tolist() == getattr(expected, name).tolist(), name


def test_a_reader_of_the_users_own_is_asked_for_no_more_than_needed(workplace):
    folder, expected = workplace
    code = (
        recipe("Data sets on one machine")
        + """
import pandas as pd
from emsco import load
frame, asked = pd.read_parquet("rows"), []
def fetch(name, keys):
    asked.append((name, len(keys)))
    return frame[name].to_numpy()[keys]
decide_keys(load("model.emsco"), range(3000), fetch).to_pandas().to_parquet("out.parquet")
assert [n for n, _ in asked] == ["age", "town", "score"] and asked[2][1] < 3000, asked
"""
    )
    run(code, folder)
    decided = pd.read_parquet(folder / "out.parquet")
    assert decided.confidence.tolist() == expected.confidence.tolist()


def test_a_search_takes_a_folder_as_the_page_says(workplace):
    folder, _ = workplace
    code = (
        recipe("Fits on more rows than fit into memory")
        + """
import warnings
warnings.simplefilter("ignore")
assert search_dataset("rows").best_cascade_.classes_.tolist() == ["no", "yes"]
"""
    )
    run(code, folder)
