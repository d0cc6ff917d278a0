"""`emsco decide` on folders of Parquet: as on one file, and never over what it reads."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest
from commands import call
from test_batches import assert_same, rows, written_to

from emsco import CascadeClassifier, StageDesign, dump
from emsco.arrow import open_dataset


@pytest.fixture(scope="module")
def cascade():
    frame, y = rows(800, 0)
    design = StageDesign.from_stages([["cheap", "town"], ["gaps", "flag"], ["dear"]], list(frame))
    return CascadeClassifier(design=design, threshold=0.8).fit(frame, y)


@pytest.fixture
def model(cascade, tmp_path):
    dump(cascade, tmp_path / "model.emsco")
    return tmp_path / "model.emsco"


def test_a_folder_with_partitions_is_decided_as_its_table(cascade, model, tmp_path):
    """Rows are numbered through all files, and a folder's column can be kept."""
    frame, _ = rows(3000, 1)
    written_to(tmp_path / "rows", frame, partitioning=["town"], partitioning_flavor="hive")
    (tmp_path / "rows" / "_SUCCESS").write_text("")
    out = tmp_path / "out.parquet"
    told = call("decide", model, tmp_path / "rows", "--out", out)
    assert told.code == 0, told.err
    assert "3,000 rows" in told.err
    table = open_dataset(tmp_path / "rows").to_table().to_pandas()
    decided = pa.parquet.read_table(out)
    assert decided.column("row").to_pylist() == list(range(3000))
    assert_same(decided.to_batches(), cascade.decide(table))
    kept = tmp_path / "kept.parquet"
    assert call("decide", model, tmp_path / "rows", "--keep", "town,dear", "--out", kept).code == 0
    assert pd.read_parquet(kept).town.tolist() == table.town.tolist()


def test_decisions_are_not_written_among_the_rows(model, tmp_path):
    """The next run would read them as rows."""
    frame, _ = rows(100, 2)
    written_to(tmp_path / "rows", frame)
    for out in ("rows/out.parquet", "rows/day=1/out.parquet"):
        told = call("decide", model, tmp_path / "rows", "--out", tmp_path / out)
        assert told.code == 2
        assert "is inside" in told.err


def test_folders_that_hold_no_rows_are_refused_by_name(model, tmp_path):
    (tmp_path / "empty").mkdir()
    told = call("decide", model, tmp_path / "empty")
    assert (told.code, told.out) == (2, "")
    assert "holds no parquet files" in told.err
    (tmp_path / "empty" / "rows.csv").write_text("a\n1\n")
    told = call("decide", model, tmp_path / "empty")
    assert told.code == 2
    assert "cannot be read as parquet" in told.err
