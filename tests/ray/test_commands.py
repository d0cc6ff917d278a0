"""The commands with `--engine ray` give what they give on this machine."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
from commands import COSTS, call, patients, write_parquet

from emsco import load


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("commands")
    write_parquet(patients(600, 0), made / "rows.parquet")
    (made / "costs.toml").write_text(COSTS)
    return made


def search(folder, out, *more):
    return call(
        "search", folder / "rows.parquet", "--label", "state", "--costs", folder / "costs.toml",
        "--out", folder / out, "--max-stages", 2, "--cv", 2, "-q", *more,
    )  # fmt: skip


@pytest.mark.usefixtures("engine")
def test_a_search_on_ray_writes_what_a_search_here_writes(nodes, folder):
    here = search(folder, "here")
    there = search(folder, "there", "--engine", "ray", "--address", nodes.address)
    assert (here.code, there.code) == (0, 0)
    assert here.out == there.out
    found = [load(folder / name / "search.emsco") for name in ("here", "there")]
    assert list(found[0].front_) == list(found[1].front_)
    assert found[0].best_candidate_ == found[1].best_candidate_
    assert (folder / "here" / "model.emsco").read_bytes() == (
        folder / "there" / "model.emsco"
    ).read_bytes()


def test_an_address_needs_its_engine(folder):
    told = search(folder, "never", "--address", "auto")
    assert told.code == 2
    assert "add --engine ray" in told.err
    assert not (folder / "never").exists()


@pytest.mark.usefixtures("engine")
def test_a_cluster_that_is_not_there_is_named(folder):
    """At once, and not after minutes."""
    told = search(folder, "no", "--engine", "ray", "--address", "127.0.0.1:1")
    assert told.code == 2
    assert "Ray cluster at" in told.err


def test_decisions_on_ray_are_those_made_here(nodes, folder):
    """A folder of files; the same command again finds nothing to do."""
    search(folder, "run")
    rows = write_parquet(patients(700, 1), folder / "new.parquet", row_group=100)
    asked = ("decide", folder / "run", rows, "--keep", "id")
    assert call(*asked, "--out", folder / "here.parquet").code == 0
    ray = (*asked, "--out", folder / "decided", "--engine", "ray", "--address", nodes.address)
    called = call(*ray)
    assert called.code == 0, called.err
    assert "700 rows" in called.err
    expected = pa.parquet.read_table(folder / "here.parquet").sort_by("id")
    found = pa.dataset.dataset(folder / "decided").to_table().sort_by("id")
    assert found.to_pydict() == expected.to_pydict()
    assert "There were no rows. 700 rows were decided before." in call(*ray).err


def test_decisions_on_ray_need_a_folder_and_files(folder):
    for more, told in (
        ((folder / "rows.parquet",), "name it with --out"),
        (("-", "--out", folder / "out"), "reads Parquet files"),
        ((folder, "--out", folder / "inside"), "is inside"),
    ):
        called = call("decide", folder / "run", *more, "--engine", "ray")
        assert called.code == 2
        assert told in called.err
    called = call("decide", folder / "run", folder / "rows.parquet", "--address", "auto")
    assert (called.code, "add --engine ray" in called.err) == (2, True)
