"""`emsco decide`: decisions of the library, whatever file the rows are in, and no column more."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from commands import call, patients, write_csv, write_parquet
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from emsco import CascadeClassifier, Costs, InputGuard, StageDesign, dump, load
from emsco.arrow import DatasetPart
from emsco.cli import _table_file

FIELDS = ["label", "accepted", "exit_stage", "confidence", "cost", "reason"]


def as_frame(text):
    return pa.csv.read_csv(io.BytesIO(text.encode())).to_pandas()


def in_python(frame):
    """Rows as a Python user would have them: an empty text is a missing one."""
    return frame.replace({"town": {"": None}})


@pytest.fixture(scope="module")
def cascade(folder):
    """Four stages, text in the first, and rows that reach the last."""
    costs = Costs.from_toml(folder / "costs.toml")
    design = StageDesign.from_stages([["form"], ["visits"], ["marker"], ["scan"]], costs.names)
    frame = in_python(patients(600, 0))
    rows = frame[["age", "smoker", "town", "visits", "marker", "scan"]]
    return CascadeClassifier(design=design, costs=costs, threshold=0.9).fit(rows, frame.state)


@pytest.fixture(scope="module")
def model(cascade, tmp_path_factory):
    path = tmp_path_factory.mktemp("decide") / "model.emsco"
    dump(cascade, path)
    return path


def test_csv_and_parquet_are_decided_as_the_library_decides(folder, model, cascade, tmp_path):
    """Bit for bit, with every kind of column, empty cells, and rows at every stage."""
    expected = cascade.decide(in_python(patients(2000, 1)))
    assert set(expected.exit_stage.tolist()) == {0, 1, 2, 3}
    printed = as_frame(call("decide", model, folder / "fresh.csv").out)
    out = tmp_path / "out.parquet"
    told = call("decide", model, folder / "fresh.parquet", "--out", out)
    assert (told.code, told.out) == (0, "")
    assert f"2,000 rows, {expected.accepted.mean():.1%} accepted" in told.err
    for decided in (printed, pd.read_parquet(out)):
        assert list(decided.columns) == ["row", *FIELDS]
        assert decided.row.tolist() == list(range(2000))
        for name in FIELDS:
            assert decided[name].tolist() == getattr(expected, name).tolist()


def test_a_model_searched_from_csv_decides_parquet_as_csv(folder):
    """What a column holds is known by the model, not by the file."""
    from_csv = call("decide", folder / "run", folder / "fresh.csv")
    assert from_csv.code == 0
    assert from_csv.out == call("decide", folder / "run", folder / "fresh.parquet").out


def test_blocks_that_read_otherwise_by_themselves_are_read_alike(model, tmp_path, monkeypatch):
    """Whole numbers in one block, others, none or 0 and 1 for false and true in the next."""
    frame = patients(400, 5)
    frame.loc[:150, "marker"] = np.nan
    frame["marker"] = frame["marker"].where(frame.index > 250, frame["marker"].round())
    frame["town"] = frame["town"].where(frame.index > 200, "7")
    path = write_csv(frame, tmp_path / "rows.csv")
    text = path.read_text().splitlines(keepends=True)
    mixed = [line.replace("true", "1").replace("false", "0") for line in text[:100]] + text[100:]
    path.write_text("".join(mixed))
    whole = call("decide", model, path)
    monkeypatch.setattr(_table_file, "_BLOCK_BYTES", 2000)
    assert whole.code == 0, whole.err
    assert call("decide", model, path) == whole
    expected = load(model).decide(in_python(frame))
    assert as_frame(whole.out).confidence.tolist() == expected.confidence.tolist()


def test_later_columns_are_read_only_for_row_groups_with_open_rows(model, tmp_path, monkeypatch):
    """A group whose rows all leave at the first stage costs its first stage's columns only."""
    frame = patients(3000, 6)
    frame.loc[1000:1999, "age"] = 20.0  # nobody of that age was ever sick
    path = write_parquet(frame, tmp_path / "rows.parquet")
    read = []
    whole = DatasetPart.table

    def noted(self, names):
        read.append((self.row_group, tuple(names)))
        return whole(self, names)

    monkeypatch.setattr(DatasetPart, "table", noted)
    decided = as_frame(call("decide", model, path).out)
    assert (decided.exit_stage[1000:2000] == 0).all()
    first, later = ("age", "smoker", "town"), [("visits",), ("marker",), ("scan",)]
    assert read == [(0, first), *((0, x) for x in later), (1, first), (2, first)] + [
        (2, x) for x in later
    ]


def test_kept_columns_come_first_and_stay_as_they_were(folder, model, tmp_path):
    """An id is text in CSV, zeros in front included; commas are quoted."""
    called = call("decide", model, folder / "fresh.csv", "--keep", "id,town", "--keep", "age")
    lines = called.out.splitlines()
    assert lines[0] == "id,town,age," + ",".join(FIELDS)
    frame = patients(2000, 1)
    kept = pd.read_csv(io.StringIO(called.out), dtype=str, keep_default_na=False)
    assert kept.id.tolist() == frame.id.tolist()
    assert kept.town.tolist() == frame.town.tolist()
    out = tmp_path / "out.pq"
    call("decide", model, folder / "fresh.parquet", "--keep", "age", "--out", out)
    assert pa.parquet.read_schema(out).field("age").type == pa.int32()
    refused = call("decide", model, folder / "fresh.csv", "--keep", "state,cost")
    assert refused.code == 2
    assert "has no column 'cost'" in refused.err


def test_a_guard_rejects_what_cannot_be_read_and_without_one_it_stops(tmp_path):
    """A word among numbers is an invalid value; the message names row and column."""
    frame = in_python(patients(600, 0))
    rows = frame[["age", "scan"]]
    fresh = patients(50, 7).astype({"age": object, "scan": object})
    fresh.loc[3, "age"], fresh.loc[7, "age"] = "old", None
    path = write_csv(fresh, tmp_path / "rows.csv")
    plain, guarded = tmp_path / "plain.emsco", tmp_path / "guarded.emsco"
    dump(CascadeClassifier().fit(rows, frame.state), plain)
    dump(CascadeClassifier(guard=InputGuard()).fit(rows, frame.state), guarded)
    stopped = call("decide", plain, path)
    assert stopped.code == 2
    assert stopped.err == (
        "emsco: Column 'age' held numbers in training; row 3 is 'old'. "
        "In a CSV file, row 3 is line 5.\n"
    )
    decided = as_frame(call("decide", guarded, path).out)
    assert decided.reason[[3, 7]].tolist() == ["invalid value: age"] * 2
    assert set(decided.reason.drop([3, 7])) <= {"", "low confidence"}
    fresh.loc[3, "age"] = 50
    stopped = call("decide", plain, write_csv(fresh, path))
    assert stopped.err.startswith("emsco: Row 7 of column 'age' is missing (NaN)")


def test_categories_that_are_not_text_are_found_in_csv(tmp_path):
    """A model made in Python may know the categories 1 and 2, or True and False."""
    rng = np.random.default_rng(0)
    kind = rng.integers(1, 4, 300)
    y = np.where((kind == 2) ^ (rng.random(300) < 0.1), "yes", "no")
    X = pd.DataFrame({"kind": pd.Categorical(kind), "flag": pd.Categorical(kind > 1)})
    cascade = CascadeClassifier().fit(X, y)
    dump(cascade, tmp_path / "model.emsco")
    X.to_csv(tmp_path / "rows.csv", index=False)
    decided = as_frame(call("decide", tmp_path / "model.emsco", tmp_path / "rows.csv").out)
    assert decided.confidence.tolist() == cascade.decide(X).confidence.tolist()


def test_cascades_of_other_estimators_decide_too(folder, tmp_path):
    """Their columns are what the first block holds; what skops does not trust must be named."""
    frame = patients(600, 0)
    rows = frame[["age", "marker", "scan"]]
    cascade = CascadeClassifier(HistGradientBoostingClassifier(max_iter=5)).fit(rows, frame.state)
    dump(cascade, tmp_path / "model.emsco")
    refused = call("decide", tmp_path / "model.emsco", folder / "fresh.csv")
    assert refused.code == 2
    assert "--trust" in refused.err
    named = refused.err.partition("`")[2].partition("`")[0].split()
    called = call("decide", tmp_path / "model.emsco", folder / "fresh.csv", *named)
    assert called.code == 0, called.err
    expected = cascade.decide(patients(2000, 1)[["age", "marker", "scan"]])
    assert as_frame(called.out).confidence.tolist() == expected.confidence.tolist()


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_other_delimiters_compression_and_a_mark_of_byte_order_are_read(
    folder, model, tmp_path, delimiter
):
    """As spreadsheets write them."""
    frame = patients(2000, 1)
    path = tmp_path / "rows.csv.gz"
    frame.to_csv(path, sep=delimiter, index=False, encoding="utf-8-sig")
    expected = call("decide", model, folder / "fresh.csv")
    assert call("decide", model, path).out == expected.out


def test_a_header_alone_gives_a_header_alone(model, tmp_path):
    """No rows are no error."""
    (tmp_path / "rows.csv").write_text("age,smoker,town,visits,marker,scan\n")
    called = call("decide", model, tmp_path / "rows.csv")
    assert (called.code, called.out) == (0, "row," + ",".join(FIELDS) + "\n")
    out = tmp_path / "out.parquet"
    assert "There were no rows." in call("decide", model, tmp_path / "rows.csv", "--out", out).err
    assert len(pd.read_parquet(out)) == 0


def test_columns_of_the_input_never_pass_for_the_decisions_own(folder, model):
    """A column called row or cost in the file is ignored like any other."""
    rows = folder / "named.csv"
    frame = patients(20, 8).assign(row=7, cost=8, latency=9)
    decided = as_frame(call("decide", model, write_csv(frame, rows)).out)
    assert decided.row.tolist() == list(range(20))
    assert set(decided.cost) <= {1.0, 3.0, 15.0, 115.0}
    kept = as_frame(call("decide", model, rows, "--keep", "row,row").out)
    assert list(kept.columns) == ["row", *FIELDS]
    assert kept.row.tolist() == [7] * 20
    assert call("decide", model, rows, "--keep", "cost").err.startswith("emsco: --keep cost: ")


def test_true_and_a_number_in_one_column_are_numbers(tmp_path, monkeypatch):
    """In CSV, in Parquet and in Python, with and without a guard, in any block."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=300)
    rows = pd.DataFrame({"n": 2 * y + rng.normal(size=300), "m": rng.normal(size=300)})
    cells = ["true", "2", "False", "0.5", "TRUE", "1"] * 3
    fresh = pd.DataFrame({"n": cells, "m": 0.25})
    fresh.to_csv(tmp_path / "rows.csv", index=False)
    fresh.to_parquet(tmp_path / "rows.parquet")
    numbers = fresh.assign(n=[1, 2, 0, 0.5, 1, 1] * 3)
    typed = fresh.assign(n=np.array([True, 2, False, 0.5, True, 1] * 3, dtype=object))
    for guard in (None, InputGuard()):
        cascade = CascadeClassifier(guard=guard).fit(rows, y)
        expected = list(cascade.decide(numbers))
        assert list(cascade.decide(typed)) == expected
        assert list(cascade.decide(fresh)) == expected
        dump(cascade, tmp_path / "model.emsco")
        for block in (2**22, 40):
            monkeypatch.setattr(_table_file, "_BLOCK_BYTES", block)
            for name in ("rows.csv", "rows.parquet"):
                called = call("decide", tmp_path / "model.emsco", tmp_path / name)
                assert called.code == 0, called.err
                confidence = as_frame(called.out).confidence.tolist()
                assert confidence == [row.confidence for row in expected]


def test_a_column_of_dates_where_training_had_numbers_is_no_number(tmp_path):
    """Nor is one of bytes, even where they spell a number; the message names row and column."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=300)
    rows = pd.DataFrame({"n": 2 * y + rng.normal(size=300)})
    dump(CascadeClassifier().fit(rows, y), tmp_path / "plain.emsco")
    dump(CascadeClassifier(guard=InputGuard()).fit(rows, y), tmp_path / "guarded.emsco")
    path = tmp_path / "rows.parquet"
    for values in (pa.array([1, 2], pa.date32()), pa.array([b"1", b"2"]), pa.array([[1.0], [2.0]])):
        pa.parquet.write_table(pa.table({"n": values}), path)
        decided = call("decide", tmp_path / "guarded.emsco", path)
        assert as_frame(decided.out).reason.tolist() == ["invalid value: n"] * 2
        stopped = call("decide", tmp_path / "plain.emsco", path)
        assert stopped.err.startswith("emsco: Column 'n' held numbers in training; row 0 is ")


@pytest.mark.parametrize("declared", [False, True])
def test_a_column_is_what_it_was_in_training_whatever_its_first_rows_hold(
    declared, tmp_path, monkeypatch
):
    """A rare "?" far down does not change what numerals before it mean to an own estimator."""
    rng = np.random.default_rng(0)
    code = rng.choice(["1", "2", "30", "?"], 600, p=[0.4, 0.3, 0.29, 0.01])
    y = np.where(rng.random(600) < np.where(code == "1", 0.95, 0.1), "yes", "no")
    frame = pd.DataFrame({"code": code})
    if declared:
        frame["code"] = frame["code"].astype("category")
    stages = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression())
    cascade = CascadeClassifier(stages, threshold=0.8).fit(frame, y)
    dump(cascade, tmp_path / "own.emsco")
    fresh = pd.DataFrame({"code": ["1", "2"] * 300 + ["?", "1"]})
    fresh.to_csv(tmp_path / "fresh.csv", index=False)
    monkeypatch.setattr(_table_file, "_BLOCK_BYTES", 500)
    decided = as_frame(call("decide", tmp_path / "own.emsco", tmp_path / "fresh.csv").out)
    expected = cascade.decide(fresh.astype(object))
    assert decided.label.tolist() == expected.label.tolist()
    assert np.allclose(decided.confidence, expected.confidence, rtol=1e-12)
    assert set(decided.label) == {"yes", "no"}
