"""Every row is decided exactly once, as the cascade itself decides it, whoever dies meanwhile."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet
import pytest

from emsco import CascadeClassifier, Costs, Source, StageDesign
from emsco.arrow import open_dataset, parts_of
from emsco.exceptions import ArtifactError, ColumnsError, ValuesError
from emsco.ray import decide_dataset
from emsco.ray.scoring import plan

ROWS = 6000
FIELDS = ("label", "accepted", "exit_stage", "confidence", "cost")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    columns = {f"x{i}": rng.normal(size=ROWS) for i in range(4)}
    return pa.table({"id": np.arange(ROWS), **columns})


@pytest.fixture(scope="module")
def cascade(table):
    return fitted(table, 0.8)


def fitted(table, threshold):
    X = np.column_stack([table[f"x{i}"] for i in range(4)])[:500]
    y = (X @ [2, 1, 1, 1] > 0).astype(int)
    names = [f"x{i}" for i in range(4)]
    design = StageDesign([0, 1, 1, 2])
    frame = table.select(names).slice(0, 500)
    return CascadeClassifier(design=design, threshold=threshold).fit(frame, y)


@pytest.fixture
def folder(table, tmp_path):
    """Two files of three row groups each, in folders that name a year."""
    for year, start in (("2023", 0), ("2024", ROWS // 2)):
        (tmp_path / "in" / f"year={year}").mkdir(parents=True)
        pa.parquet.write_table(
            table.slice(start, ROWS // 2),
            tmp_path / "in" / f"year={year}" / "rows.parquet",
            row_group_size=1000,
        )
    return tmp_path / "in"


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch):
    """Two row groups a piece, then one."""
    monkeypatch.setattr("emsco.ray.scoring.ROWS", 2000)


def decided(out, by="id"):
    return pa.dataset.dataset(out).to_table().sort_by(by)


def assert_same(found, cascade, table):
    expected = cascade.decide(table.select([f"x{i}" for i in range(4)]))
    assert found.num_rows == len(expected)
    for name in FIELDS:
        np.testing.assert_array_equal(found[name].to_numpy(), getattr(expected, name))


def written(out):
    return {path.name: path.stat().st_mtime_ns for path in out.iterdir()}


def test_long_text_is_decided_on_a_cluster(engine, tmp_path):
    """What decides is sent to the workers with its weights, and hashes there."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=900)
    words = np.array(["see you at noon", "win a prize"])[y]
    body = [f"{own} {rng.integers(50)}" if rng.random() < 0.8 else None for own in words]
    table = pa.table({"id": np.arange(900), "body": pa.array(body)})
    (tmp_path / "in").mkdir()
    pa.parquet.write_table(table, tmp_path / "in" / "rows.parquet", row_group_size=300)
    costs = Costs([Source("body", kind="text", cost=1)])
    frame = table.select(["body"]).to_pandas()
    cascade = CascadeClassifier(costs=costs).fit(frame[:300], y[:300])
    decide_dataset(cascade, tmp_path / "in", tmp_path / "out", keep=["id"], engine=engine)
    found, expected = decided(tmp_path / "out"), cascade.decide(frame)
    for name in FIELDS:
        np.testing.assert_array_equal(found[name].to_numpy(), getattr(expected, name))


def test_decisions_are_the_cascades_own(engine, cascade, table, folder, tmp_path):
    """Bit for bit, with the columns that are kept in front."""
    scored = decide_dataset(cascade, folder, tmp_path / "out", keep=["id", "year"], engine=engine)
    found = decided(tmp_path / "out")
    assert found.column_names == ["id", "year", *FIELDS, "reason"]
    assert found["id"].to_pylist() == list(range(ROWS))
    assert_same(found, cascade, table)
    assert (scored.rows, scored.files, scored.rows_before) == (ROWS, 4, 0)
    assert scored.accepted == sum(found["accepted"].to_pylist())
    assert scored.cost == pytest.approx(sum(found["cost"].to_pylist()))


def test_rows_are_told_by_file_and_place_where_nothing_is_kept(
    engine, cascade, table, folder, tmp_path
):
    decide_dataset(cascade, open_dataset(folder), tmp_path / "out", engine=engine)
    found = decided(tmp_path / "out", [("file", "ascending"), ("row", "ascending")])
    files = [str(folder / f"year={year}" / "rows.parquet") for year in (2023, 2024)]
    assert found["file"].to_pylist() == [file for file in files for _ in range(ROWS // 2)]
    assert found["row"].to_pylist() == [*range(ROWS // 2)] * 2
    assert_same(found, cascade, table)


def test_paths_may_be_relative(engine, cascade, table, folder, tmp_path, monkeypatch):
    """Although workers have other working folders; in a data set they are refused by name."""
    monkeypatch.chdir(tmp_path)
    decide_dataset(cascade, folder.name, "out", keep=["id"], engine=engine)
    assert_same(decided(tmp_path / "out"), cascade, table)
    with pytest.raises(ArtifactError, match="is a relative path"):
        decide_dataset(cascade, open_dataset(folder.name), "other", engine=engine)


def test_a_second_run_does_only_what_is_missing(engine, cascade, table, folder, tmp_path):
    out = tmp_path / "out"
    decide_dataset(cascade, folder, out, keep=["id"], engine=engine)
    before = written(out)
    lost = sorted(before)[1]
    (out / lost).unlink()
    scored = decide_dataset(cascade, folder, out, keep=["id"], engine=engine)
    assert (scored.files, scored.files_before) == (1, 3)
    assert scored.rows + scored.rows_before == ROWS
    after = written(out)
    assert after.keys() == before.keys()
    assert {name for name in after if after[name] != before[name]} == {lost}
    assert_same(decided(out), cascade, table)
    nothing = decide_dataset(cascade, folder, out, keep=["id"], engine=engine)
    assert (nothing.rows, nothing.files, nothing.rows_before) == (0, 0, ROWS)
    assert written(out) == after


def test_a_folder_with_other_decisions_is_refused_or_emptied(
    engine, cascade, table, folder, tmp_path
):
    """Of another model, of input that has changed since: a reader would mix them up."""
    out = tmp_path / "out"
    decide_dataset(cascade, folder, out, keep=["id"], engine=engine)
    before, other = written(out), fitted(table, 0.9)
    with pytest.raises(ArtifactError, match="of another model must not be mixed"):
        decide_dataset(other, folder, out, keep=["id"], engine=engine)
    file = folder / "year=2024" / "rows.parquet"
    os.utime(file, ns=(0, file.stat().st_mtime_ns + 1))
    with pytest.raises(ArtifactError, match="Decisions on other input"):
        decide_dataset(cascade, folder, out, keep=["id"], engine=engine)
    assert written(out) == before
    scored = decide_dataset(other, folder, out, keep=["id"], engine=engine, force=True)
    assert scored.rows == ROWS
    assert_same(decided(out), other, table)
    (out / "_SUCCESS").write_bytes(b"")
    assert decide_dataset(other, folder, out, keep=["id"], engine=engine).rows == 0
    (out / "mine.txt").write_bytes(b"")
    with pytest.raises(ArtifactError, match=r"mine\.txt"):
        decide_dataset(cascade, folder, out, keep=["id"], engine=engine, force=True)
    assert (out / "mine.txt").exists()


def test_input_is_no_place_for_decisions(engine, cascade, folder):
    with pytest.raises(ArtifactError, match="need a folder of their own"):
        decide_dataset(cascade, folder, folder, engine=engine)


def test_a_value_that_cannot_be_judged_is_found(engine, cascade, table, tmp_path):
    """By file, row in it, and column; pieces without it are written, and none is half written."""
    values = table["x0"].to_numpy().copy()
    values[3210] = np.inf
    pa.parquet.write_table(
        table.set_column(1, "x0", pa.array(values)), tmp_path / "rows.parquet", row_group_size=1000
    )
    with pytest.raises(ValuesError, match=r"rows\.parquet: Row 3210 of") as caught:
        decide_dataset(cascade, tmp_path / "rows.parquet", tmp_path / "out", engine=engine)
    assert (caught.value.row, caught.value.column) == (3210, "x0")
    for path in (tmp_path / "out").glob("*.parquet"):
        assert pa.parquet.read_metadata(path).num_rows == 2000


def test_columns_that_are_missing_are_named(engine, cascade, table, tmp_path):
    pa.parquet.write_table(table.drop(["x3"]), tmp_path / "rows.parquet")
    with pytest.raises(ColumnsError, match="no column 'x3'"):
        decide_dataset(cascade, tmp_path / "rows.parquet", tmp_path / "out", engine=engine)
    pa.parquet.write_table(table, tmp_path / "whole.parquet")
    with pytest.raises(ColumnsError, match="no column 'idd'; did you mean 'id'"):
        decide_dataset(cascade, tmp_path / "whole.parquet", tmp_path / "out", keep=["idd"])
    with pytest.raises(ArtifactError, match="`decide_dataset` takes files"):
        decide_dataset(cascade, pa.dataset.dataset(table), tmp_path / "out", engine=engine)


def names_of(folder, digest="d", keep=()):
    return [piece.name for piece in plan(parts_of(open_dataset(folder)), digest, keep)]


def test_names_tell_input_version_rows_model_and_columns(folder):
    """All the same for the same; another whenever anything is other."""
    names = names_of(folder)
    assert names == names_of(folder)
    assert len({*names, *names_of(folder, "e"), *names_of(folder, "d", ["id"])}) == 3 * len(names)
    starts = [name.split("-")[1:3] for name in names]
    assert starts == [["000000000000", "2000"], ["000000002000", "1000"]] * 2
    file = folder / "year=2023" / "rows.parquet"
    os.utime(file, ns=(0, file.stat().st_mtime_ns + 1))
    changed = names_of(folder)
    assert not {*names[:2]} & {*changed[:2]}
    assert names[2:] == changed[2:]


def test_a_file_added_before_others_leaves_their_names(folder, table):
    names = names_of(folder)
    (folder / "year=2022").mkdir()
    pa.parquet.write_table(table.slice(0, 10), folder / "year=2022" / "rows.parquet")
    assert names_of(folder)[1:] == names


def test_a_node_that_is_killed_while_it_scores_changes_nothing(
    engine, nodes, cascade, table, tmp_path
):
    """Every row is there exactly once, and no draft is left."""
    for i in range(12):
        pa.parquet.write_table(pa.concat_tables([table] * 10), tmp_path / f"{i}.parquet")
    source = open_dataset(tmp_path)
    out = tmp_path.parent / f"{tmp_path.name}-out"

    def kill_when_some_are_written():
        while not (out.exists() and any(out.glob("*.parquet"))):
            time.sleep(0.005)
        nodes.kill()

    killer = threading.Thread(target=kill_when_some_are_written)
    killer.start()
    try:
        scored = decide_dataset(cascade, source, out, engine=engine)
        killer.join()
        assert scored.rows == 12 * 10 * ROWS
        found = decided(out, [("file", "ascending"), ("row", "ascending")])
        assert found["row"].to_pylist() == [*range(10 * ROWS)] * 12
        assert_same(found.slice(0, ROWS), cascade, table)
        assert not [path for path in out.iterdir() if path.name.startswith(".")]
        assert len(list(out.iterdir())) == scored.files
    finally:
        nodes.replace()
