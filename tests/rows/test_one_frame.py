"""One frame is decided alike, whatever container or file it comes in."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from emsco import CascadeClassifier, InputGuard, StageDesign, dump, load
from emsco.arrow import decide_batches
from emsco.cascade.fingerprint import fingerprint
from emsco.cli._table_file import open_rows
from emsco.exceptions import ColumnsError, ValuesError

N = 600
CODES = ["7", "12", "B2", "40", "true"]
DAYS = ["2024-01-31", "2024-02-29"]


def training(rng):
    """Draw rows with codes and days as text, both of which tell the label."""
    X = pd.DataFrame(
        {"code": rng.choice(CODES, N), "day": rng.choice(DAYS, N), "size": rng.normal(size=N)}
    )
    X.loc[X.index % 10 == 0, "code"] = None
    sick = X.code.isin(["7", "40"]) ^ (X.day == DAYS[0])
    return X, (sick ^ (rng.random(N) < 0.05)).astype(int).to_numpy()


@pytest.fixture(scope="module", params=[None, InputGuard()], ids=["plain", "guarded"])
def cascade(request):
    X, y = training(np.random.default_rng(0))
    design = StageDesign([1, 1, 1])
    return CascadeClassifier(design=design, threshold=0.6, guard=request.param).fit(X, y)


def in_every_form(frame, folder):
    """Give a frame as pandas, polars, Arrow, Parquet and CSV written by pandas."""
    frame.to_csv(folder / "rows.csv", index=False)
    table = pa.Table.from_pandas(frame)
    pa.parquet.write_table(table, folder / "rows.parquet")
    return {
        "polars": pl.from_arrow(table),
        "arrow": table,
        "parquet": open_rows(folder / "rows.parquet"),
        "csv": open_rows(folder / "rows.csv"),
    }


def decided(cascade, rows):
    """Give labels and reasons of rows in any form."""
    if isinstance(rows, pd.DataFrame | pl.DataFrame):
        decisions = cascade.decide(rows)
        return list(zip(decisions.label, decisions.reason, strict=True))
    if not isinstance(rows, pa.Table):
        rows = list(rows.blocks(["code", "day", "size"]))
    batches = list(decide_batches(cascade, rows))
    return [(row["label"], row["reason"]) for batch in batches for row in batch.to_pylist()]


FRESH = {
    "codes as floats": {"code": [7.0, 12.0, np.nan, 40.0]},
    "codes as whole numbers": {"code": [7, 12, 12, 40]},
    "codes as text of floats": {"code": ["7.0", "12.00", "B2", "40"]},
    "booleans": {"code": [True, True, True, True]},
    "dates": {"day": [datetime.date.fromisoformat(day) for day in DAYS * 2]},
    "moments": {"day": pd.to_datetime(DAYS * 2)},
    "moments in nanoseconds": {"day": pd.to_datetime(DAYS * 2).as_unit("ns")},
}


@pytest.mark.parametrize("name", FRESH)
def test_a_frame_is_decided_alike_from_every_container_and_file(cascade, tmp_path, name):
    """A category that was coded as a float, a boolean or a date is the text that spells it."""
    plain = {"code": ["7", "12", "B2", "40"], "day": DAYS * 2, "size": [0.1, 0.2, 0.3, 0.4]}
    frame = pd.DataFrame(plain | FRESH[name])
    expected = decided(cascade, frame)
    assert not any("unseen" in reason or "invalid" in reason for _, reason in expected)
    for form, rows in in_every_form(frame, tmp_path).items():
        assert decided(cascade, rows) == expected, form


def test_a_cascade_fitted_on_floats_as_text_decides_them():
    """Whether training had 7.0 or 7 as text, both are the same category."""
    X, y = training(np.random.default_rng(1))
    spelled = X.assign(code=X.code.replace({"7": "7.0", "12": "12.0"}))
    cascades = [CascadeClassifier(guard=InputGuard()).fit(rows, y) for rows in (X, spelled)]
    for rows in (X, spelled):
        first, second = (one.decide(rows) for one in cascades)
        np.testing.assert_array_equal(first.label, second.label)
        np.testing.assert_array_equal(first.reason, second.reason)
    assert len({fingerprint(one) for one in cascades}) == 1


@pytest.mark.parametrize("kind", ["text", "large text", "dictionary"])
def test_a_word_that_is_not_utf_8_is_a_faulty_value_of_its_row(cascade, kind):
    """A guard rejects the row; without one, the error names it."""
    given = pa.array([b"7", b"\xff\xfe", b"12"], pa.binary())
    words = pa.Array.from_buffers(pa.string(), 3, given.buffers())
    if kind == "large text":
        given = given.cast(pa.large_binary())
        words = pa.Array.from_buffers(pa.large_string(), 3, given.buffers())
    if kind == "dictionary":
        words = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), words)
    table = pa.table({"code": words, "day": DAYS[:1] * 3, "size": [0.0] * 3})
    if cascade.guard is None:
        with pytest.raises(ValuesError, match="row 1 is b'") as refused:
            decided(cascade, table)
        assert refused.value.column == "code"
        return
    reasons = [reason for _, reason in decided(cascade, table)]
    assert reasons[1] == "invalid value: code"
    assert "invalid value: code" not in (reasons[0], reasons[2])


def test_a_blank_line_of_a_single_column_is_a_missing_value(tmp_path):
    """Also at the end; with more columns, a blank line is nothing."""
    path = tmp_path / "rows.csv"
    path.write_text("code\n7\n\n12\n\n")
    assert open_rows(path).table(["code"]).column("code").to_pylist() == ["7", "", "12", ""]
    path.write_text("code,size\n7,1\n\n12,2\n\n")
    assert open_rows(path).table(["code"]).column("code").to_pylist() == ["7", "12"]


@pytest.mark.parametrize("levels", ["integers", "several levels"])
def test_columns_without_text_names_are_matched_by_name(tmp_path, levels):
    """A permuted frame is decided as before, also by a cascade from a file."""
    rng = np.random.default_rng(2)
    X = pd.DataFrame(rng.normal(size=(N, 3)) * [1, 5, 9])
    if levels == "several levels":
        X.columns = pd.MultiIndex.from_product([["lab"], [1, 2, 3]])
    y = (X.iloc[:, 0] > 0).astype(int)
    cascade = CascadeClassifier().fit(X, y)
    dump(cascade, tmp_path / "model.emsco")
    expected = cascade.decide(X)
    for one in (cascade, load(tmp_path / "model.emsco")):
        permuted = X.iloc[:, [2, 0, 1]]
        np.testing.assert_array_equal(one.decide(permuted).label, expected.label)
        np.testing.assert_array_equal(one.predict(permuted), cascade.predict(X))
        np.testing.assert_array_equal(one.decide(X.to_numpy()).label, expected.label)
        with pytest.raises(ColumnsError, match="X lacks the column"):
            one.decide(X.iloc[:, :2])
    renamed = CascadeClassifier().fit(X.set_axis([5, 6, 7], axis=1), y)
    assert fingerprint(renamed) != fingerprint(cascade)


def test_whole_numbers_of_more_than_64_bits_are_refused_by_name():
    """Numpy has no such type; smaller ones of the same type are read."""
    rng = np.random.default_rng(3)
    X = pl.DataFrame({"a": rng.integers(-9, 9, N), "b": rng.normal(size=N)})
    y = (X["a"] > 0).to_numpy().astype(int)
    cascade = CascadeClassifier().fit(X, y)
    wide = X.with_columns(pl.col("a").cast(pl.Int128))
    np.testing.assert_array_equal(cascade.decide(wide).label, cascade.decide(X).label)
    beyond = wide.with_columns((pl.col("a") * 0 + 2**62) * 4)  # no literal: polars 1.20 has none
    for call in (cascade.decide, lambda rows: CascadeClassifier().fit(rows, y)):
        with pytest.raises(
            ValuesError, match="'a' is 18446744073709551616, a whole number of more"
        ):
            call(beyond)
