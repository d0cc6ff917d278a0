"""Arrow batches and readers are decided as the table is, and no column is read too early."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest

from benchmarks.warehouse import counting
from emsco import CascadeClassifier, Costs, InputGuard, Source, StageDesign
from emsco.arrow import DatasetPart, decide_batches, decision_schema, open_dataset, parts_of
from emsco.core.decisions import Decisions
from emsco.exceptions import ArtifactError, ColumnsError, DecisionsError, ModelError, ValuesError
from emsco.testing import check_driver

FIELDS = ["label", "accepted", "exit_stage", "confidence", "cost", "reason"]


def rows(n_rows, seed):
    """Numbers with gaps, text, booleans, and labels that later columns tell better."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n_rows)
    frame = pd.DataFrame(
        {
            "cheap": y + rng.normal(size=n_rows),
            "town": rng.choice(["Bern", "Genf", "Chur"], n_rows),
            "gaps": np.where(rng.random(n_rows) < 0.1, np.nan, y + rng.normal(size=n_rows)),
            "flag": (y > 0) ^ (rng.random(n_rows) < 0.2),
            "dear": 3.0 * y + rng.normal(size=n_rows),
        }
    )
    return frame, np.array(["high", "low", "mid"], dtype=object)[y]


@pytest.fixture(scope="module")
def cascade():
    frame, y = rows(800, 0)
    design = StageDesign.from_stages([["cheap", "town"], ["gaps", "flag"], ["dear"]], list(frame))
    return CascadeClassifier(design=design, threshold=0.8, guard=InputGuard()).fit(frame, y)


def assert_same(batches, expected, schema=None):
    """Compare all fields bit for bit."""
    table = pa.Table.from_batches(batches, schema)
    for name in FIELDS:
        assert table.column(name).to_pylist() == getattr(expected, name).tolist(), name


def decide_by_readers(decider, functions, keys):
    """Drive `decide_batches` by a reader that calls functions."""

    class Functions:
        num_rows = len(keys)

        def read(self, columns, rows):
            places = range(len(keys)) if rows is None else rows.tolist()
            found = {c: [functions[c](keys[place]) for place in places] for c in columns}
            return pa.RecordBatch.from_pydict({c: as_column(v) for c, v in found.items()})

    decided = pa.Table.from_batches(
        list(decide_batches(decider, Functions())), decision_schema(decider)
    )
    arrays = {name: decided.column(name).to_numpy() for name in decided.schema.names}
    return Decisions(**{**arrays, "reason": arrays["reason"].astype(object)})


def as_column(values):
    """Arrow has one type per column: a text among numbers makes all of them text."""
    if any(isinstance(value, str) for value in values):
        return pa.array([value if isinstance(value, str) else repr(value) for value in values])
    return pa.array([float("nan") if value is None else value for value in values], pa.float64())


def test_a_reader_is_driven_as_the_contract_says():
    """The same decisions, nothing read for closed rows, nothing twice, faults by name."""
    check_driver(decide_by_readers)


@pytest.mark.parametrize("size", [1, 7, 1000, 2**15 + 1])
def test_batches_of_any_size_are_decided_as_the_table(cascade, size):
    frame, _ = rows(3000 if size < 2000 else 70_000, 1)
    table = pa.Table.from_pandas(frame)
    expected = cascade.decide(frame)
    assert len(set(expected.exit_stage.tolist())) == 3
    batches = table.to_batches(max_chunksize=size)
    assert_same(list(decide_batches(cascade, batches)), expected)
    assert_same(list(decide_batches(cascade, iter(batches))), expected)
    reader = pa.RecordBatchReader.from_batches(table.schema, batches)
    assert_same(list(decide_batches(cascade.decider_, reader)), expected)
    assert_same(list(decide_batches(cascade, table)), expected)


def test_schemas_are_known_before_the_first_batch(cascade):
    """What is written and what comes are the same columns; nothing is null."""
    frame, _ = rows(50, 2)
    table = pa.Table.from_pandas(frame)
    for options in ({}, {"numbered": True}, {"keep": ["town", "dear"]}):
        schema = decision_schema(cascade, table.schema, **options)
        (batch,) = decide_batches(cascade, table, **options)
        assert batch.schema == schema
        assert all(column.null_count == 0 for column in batch.columns)
    numbered = list(decide_batches(cascade, table.to_batches(20), numbered=True, first_row=7))
    assert pa.Table.from_batches(numbered).column("row").to_pylist() == list(range(7, 57))


def test_latencies_are_a_column_where_somebody_waits():
    costs = Costs([Source("x0", cost=1, latency=0.5), Source("x1", cost=2)])
    X = np.random.default_rng(0).normal(size=(60, 2))
    cascade = CascadeClassifier(costs=costs).fit(X, X[:, 0] > 0)
    (batch,) = decide_batches(cascade, pa.table({"x0": X[:, 0], "x1": X[:, 1]}))
    assert batch.schema == decision_schema(cascade)
    assert batch.column("latency").to_pylist() == cascade.decide(X).latency.tolist()


def test_what_cannot_be_decided_is_refused_by_name(cascade):
    frame, y = rows(50, 3)
    table = pa.Table.from_pandas(frame)
    with pytest.raises(ColumnsError, match=r"no column 'town'.*It has"):
        list(decide_batches(cascade, table.drop_columns(["town"])))
    with pytest.raises(ColumnsError, match=r"`keep` names 'cost'"):
        list(decide_batches(cascade, table.append_column("cost", table["dear"]), keep=["cost"]))
    with pytest.raises(ColumnsError, match=r"got int"):
        list(decide_batches(cascade, [7]))
    with pytest.raises(ModelError, match=r"fitted cascade"):
        list(decide_batches(CascadeClassifier(), table))

    class Short:
        num_rows = 50

        def read(self, columns, rows):  # noqa: ARG002  # as readers have it
            return table.slice(0, 3).select(columns)

    with pytest.raises(DecisionsError, match=r"Short.read returned 3 rows for 50"):
        list(decide_batches(cascade, Short()))
    plain = CascadeClassifier().fit(frame[["dear"]], y)
    faulty = pa.table({"dear": [1.0] * 20 + [float("inf")]})
    with pytest.raises(ValuesError, match="Row 120 of column 'dear' is infinity"):
        list(decide_batches(plain, faulty.to_batches(5), first_row=100))


def written_to(folder, frame, *, group=500, **options):
    """Write a data set of several files and row groups."""
    pa.dataset.write_dataset(
        pa.Table.from_pandas(frame, preserve_index=False),
        folder,
        format="parquet",
        max_rows_per_file=2 * group,
        max_rows_per_group=group,
        min_rows_per_group=group,
        **options,
    )


def test_folders_and_partitions_are_decided_as_the_table(cascade, tmp_path):
    """A column that only folders name is read like any other."""
    frame, _ = rows(3000, 4)
    written_to(tmp_path, frame, partitioning=["town"], partitioning_flavor="hive")
    dataset = open_dataset(tmp_path)
    expected = cascade.decide(dataset.to_table().to_pandas())
    assert len(expected) == 3000
    assert_same(list(decide_batches(cascade, dataset)), expected)


def test_parts_are_pickled_and_number_the_rows(cascade, tmp_path):
    """What a worker elsewhere decides of a part is what is decided here."""
    import pickle

    frame, _ = rows(3200, 5)
    written_to(tmp_path, frame)
    parts = parts_of(open_dataset(tmp_path))
    assert [part.first_row for part in parts] == list(range(0, 3200, 500))
    assert sum(part.n_rows for part in parts) == 3200
    there = [pickle.loads(pickle.dumps(part)) for part in parts]
    assert all(isinstance(part, DatasetPart) for part in there)
    batches = [
        batch
        for part in there
        for batch in decide_batches(cascade, part, numbered=True, first_row=part.first_row)
    ]
    assert pa.Table.from_batches(batches).column("row").to_pylist() == list(range(3200))
    assert_same(batches, cascade.decide(frame))


def test_other_formats_are_data_sets_too(cascade, tmp_path):
    """Their columns are read at once: only Parquet is read by columns."""
    frame, _ = rows(900, 6)
    pa.dataset.write_dataset(pa.Table.from_pandas(frame), tmp_path, format="feather")
    dataset = open_dataset(tmp_path, format="feather")
    assert_same(list(decide_batches(cascade, dataset)), cascade.decide(frame))


def test_filtered_data_sets_are_refused_and_not_decided_whole(cascade, tmp_path):
    frame, _ = rows(100, 7)
    written_to(tmp_path, frame)
    some = open_dataset(tmp_path).filter(pa.dataset.field("dear") > 0)
    with pytest.raises(ColumnsError, match="filtered or projected"):
        list(decide_batches(cascade, some))
    kept = cascade.decide(frame[frame.dear > 0])
    assert_same(list(decide_batches(cascade, some.to_batches())), kept)


def test_what_is_no_data_set_is_refused_by_name(tmp_path):
    with pytest.raises(ArtifactError, match="There is no file or folder"):
        open_dataset(tmp_path / "nothing")
    with pytest.raises(ArtifactError, match="holds no parquet files"):
        open_dataset(tmp_path)
    (tmp_path / "rows.parquet").write_text("none")
    with pytest.raises(ArtifactError, match=r"rows.parquet cannot be read as parquet"):
        open_dataset(tmp_path / "rows.parquet")
    with pytest.raises(ArtifactError, match="No file system is known for nowhere://"):
        open_dataset("nowhere://bucket/rows")


def test_folders_above_a_single_file_say_nothing_of_its_rows(tmp_path):
    frame, _ = rows(100, 8)
    written_to(tmp_path / "year=2024", frame)
    (file,) = (tmp_path / "year=2024").iterdir()
    assert "year" not in open_dataset(file).schema.names
    assert "year" in open_dataset(tmp_path).schema.names


def test_no_byte_of_a_later_column_is_read_for_decided_row_groups(tmp_path):
    """Every read is held against the places of column chunks in the file."""
    rng = np.random.default_rng(0)
    names = ["first", "later", "last"]
    y = rng.integers(2, size=4000)
    train = pd.DataFrame({n: (i + 1.5) * y + rng.normal(size=4000) for i, n in enumerate(names)})
    design = StageDesign.from_stages([[name] for name in names], names)
    cascade = CascadeClassifier(design=design, threshold=0.9).fit(train, y)
    n_rows, group = 40_000, 10_000
    frame = pd.DataFrame({n: 0.7 * rng.normal(size=n_rows) + 1 for n in names})
    frame.loc[group : 2 * group - 1, "first"] += 30.0  # this group is sure at once
    path = tmp_path / "rows.parquet"
    table = pa.Table.from_pandas(frame)
    pa.parquet.write_table(table, path, row_group_size=group, compression="none")
    system, reads = counting()
    dataset = pa.dataset.dataset(str(path), filesystem=system, format="parquet")
    batches = list(decide_batches(cascade, dataset))
    expected = cascade.decide(frame)
    assert_same(batches, expected)
    exits = [expected.exit_stage[i : i + group].max() for i in range(0, n_rows, group)]
    assert exits == [2, 0, 2, 2]
    metadata = pa.parquet.read_metadata(path)
    n_read = {}
    for number in range(4):
        for place, name in enumerate(names):
            chunk = metadata.row_group(number).column(place)
            begin = chunk.dictionary_page_offset or chunk.data_page_offset
            end = begin + chunk.total_compressed_size
            n_read[number, name] = sum(
                max(0, min(end, start + n) - max(begin, start)) for _, start, n in reads
            )
            assert chunk.total_compressed_size > 2**14  # so that no gap is read through
    assert n_read[1, "first"] > 0
    assert n_read[1, "later"] == n_read[1, "last"] == 0
    assert all(n_read[number, name] > 0 for number in (0, 2, 3) for name in names)


def test_readers_get_no_rows_twice_and_no_closed_ones(cascade):
    """What each stage asks for is what the stage before left open."""
    frame, _ = rows(2000, 9)
    table = pa.Table.from_pandas(frame)
    asked = []

    class Noted:
        num_rows = 2000

        def read(self, columns, rows):
            asked.append((columns, rows))
            return table.select(columns) if rows is None else table.select(columns).take(rows)

    assert_same(list(decide_batches(cascade, [Noted()])), expected := cascade.decide(frame))
    assert [columns for columns, _ in asked] == [["cheap", "town"], ["gaps", "flag"], ["dear"]]
    assert asked[0][1] is None
    for stage, (_, places) in enumerate(asked[1:], start=1):
        assert places.tolist() == np.flatnonzero(expected.exit_stage >= stage).tolist()


def test_without_pyarrow_the_module_says_what_to_install(refused_without):
    assert "pip install 'emsco[arrow]'" in refused_without("pyarrow", "import emsco.arrow")
