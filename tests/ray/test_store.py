"""Input and decisions in an S3-compatible store on loopback: etags are versions."""

from __future__ import annotations

import traceback

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet
import pytest
import remote
from test_s3 import endpoint, store_at  # noqa: F401  # a fixture: moto's server

from emsco import CascadeClassifier
from emsco.arrow import parts_of
from emsco.exceptions import ArtifactError
from emsco.ray import decide_dataset
from emsco.ray.output_folder import Folder
from emsco.ray.scoring import version_of


@pytest.fixture
def store(endpoint):  # noqa: F811
    system = store_at(endpoint)
    system.create_dir("scored")
    return system, f"?scheme=http&region=us-east-1&endpoint_override={endpoint}"


def test_a_store_is_read_and_written(engine, store):
    """What is decided is not decided again; what was replaced is."""
    system, asked = store
    rng = np.random.default_rng(0)
    table = pa.table({"age": rng.normal(size=500), "score": rng.normal(size=500)})
    cascade = CascadeClassifier(threshold=0.6).fit(table, rng.integers(2, size=500))
    pa.parquet.write_table(table, "scored/rows.parquet", filesystem=system)
    rows = pa.dataset.dataset("scored/rows.parquet", filesystem=system)
    before = version_of(parts_of(rows)[0])
    assert before.startswith("etag ")
    # Workers were started without keys: here they are in the URL.
    url, out = f"s3://name:word@scored/out{asked}", Folder(system, "scored/out")
    assert decide_dataset(cascade, rows, url, engine=engine).rows == 500
    assert decide_dataset(cascade, rows, url, engine=engine).rows == 0
    found = pa.dataset.dataset(out.path, filesystem=system).to_table()
    expected = cascade.decide(table)
    np.testing.assert_array_equal(found["confidence"].to_numpy(), expected.confidence)
    assert all(not name.startswith(".") for name in out.names())
    pa.parquet.write_table(table.slice(0, 400), "scored/rows.parquet", filesystem=system)
    replaced = pa.dataset.dataset("scored/rows.parquet", filesystem=system)
    assert version_of(parts_of(replaced)[0]) != before
    with pytest.raises(ArtifactError, match="Decisions on other input"):
        decide_dataset(cascade, replaced, url, engine=engine)
    assert decide_dataset(cascade, replaced, url, engine=engine, force=True).rows == 400


def test_a_store_that_cannot_be_written_is_told_without_its_keys(store):
    _, asked = store
    with pytest.raises(ArtifactError, match=r"^That URL cannot be a folder") as caught:
        Folder.make(f"s3://name:secret@no-such-bucket/out{asked}")
    assert "secret" not in str(caught.value)


def test_a_store_that_only_fsspec_knows_is_written(engine, tmp_path):
    fsspec.register_implementation("elsewhere", remote.Elsewhere, clobber=True)
    rng = np.random.default_rng(0)
    table = pa.table({"age": rng.normal(size=300), "score": rng.normal(size=300)})
    cascade = CascadeClassifier(threshold=0.6).fit(table, rng.integers(2, size=300))
    pa.parquet.write_table(table, tmp_path / "rows.parquet")
    given, out = f"elsewhere://{tmp_path}/rows.parquet", f"elsewhere://{tmp_path}/out"
    assert decide_dataset(cascade, given, out, engine=engine).rows == 300
    assert decide_dataset(cascade, given, out, engine=engine).rows == 0
    found = pa.dataset.dataset(tmp_path / "out").to_table()
    np.testing.assert_array_equal(found["confidence"].to_numpy(), cascade.decide(table).confidence)
    assert [path for path in (tmp_path / "out").iterdir() if path.name.startswith(".")] == []


def test_a_scheme_that_nobody_knows_is_told_without_its_keys():
    with pytest.raises(ArtifactError, match="No file system is known for vault://") as caught:
        Folder.make("vault://name:secret@decided/out")
    told = "".join(traceback.format_exception(caught.value, chain=True))
    assert "secret@" not in told.replace('Folder.make("vault://name:secret@decided/out")', "")
