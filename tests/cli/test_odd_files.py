"""Files of rows as people really have them: each is read rightly, or refused with what to do."""

from __future__ import annotations

import bz2
import codecs
import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from commands import call

from emsco import CascadeClassifier, InputGuard, StageDesign, dump
from emsco.cli._labelled_frame import read_labelled
from emsco.cli._table_file import open_rows
from emsco.exceptions import EmscoError

PLAIN = "a,b,y\n1,x,0\n2.5,z,1\n"
EXPECTED = {"a": [1.0, 2.5], "b": ["x", "z"], "y": [0, 1]}
COMMAS = PLAIN.replace(",", ";").replace(".", ",")
NAN = float("nan")


def numbers(*cells: str, separator: str = ";") -> str:
    """Write a file of one column of cells and the labels 0, 1, 0, 1, ..."""
    lines = [f"{cell}{separator}{i % 2}" for i, cell in enumerate(cells)]
    return "\n".join([f"a{separator}y", *lines, ""])


RIGHT = {
    "comma.csv": (PLAIN, EXPECTED),
    "semicolon.csv": (PLAIN.replace(",", ";"), EXPECTED),
    "tab.tsv": (PLAIN.replace(",", "\t"), EXPECTED),
    "pipe.txt": (PLAIN.replace(",", "|"), EXPECTED),
    "declared-separator.csv": ("sep=;\n" + COMMAS, EXPECTED),
    "capital-ending.CSV": (PLAIN, EXPECTED),
    "no-last-newline.csv": (PLAIN.rstrip(), EXPECTED),
    "windows-lines.csv": (PLAIN.replace("\n", "\r\n"), EXPECTED),
    "byte-order-mark.csv": (codecs.BOM_UTF8 + PLAIN.encode(), EXPECTED),
    "blank-lines.csv": ("\n\n" + PLAIN.replace("\n2", "\n\n2") + "\n\n", EXPECTED),
    "gzip.csv.gz": (gzip.compress(PLAIN.encode()), EXPECTED),
    "bzip2.csv.bz2": (bz2.compress(PLAIN.encode()), EXPECTED),
    "utf-8.csv": (PLAIN.replace("x", "Zürich 東京"), EXPECTED | {"b": ["Zürich 東京", "z"]}),
    "utf-8-names.csv": (PLAIN.replace("b", "Größe", 1), {"Größe": ["x", "z"]}),
    "quotes.csv": (PLAIN.replace("x", '"say ""x"", twice"'), {"b": ['say "x", twice', "z"]}),
    "quoted-names.csv": (PLAIN.replace("b", '"b, c"', 1), {"b, c": ["x", "z"]}),
    "quoted-numbers.csv": (PLAIN.replace("2.5", '"2.5"'), EXPECTED),
    "trailing-separators.csv": (PLAIN.replace("\n", ",\n"), EXPECTED),
    "row-numbers.csv": (",a,y\n0,1,0\n1,2,1\n", {"a": [1.0, 2.0], "y": [0, 1]}),
    "numbers-as-names.csv": ("1,2,y\n1,x,0\n2,z,1\n", {"1": [1.0, 2.0], "2": ["x", "z"]}),
    "spaces-around-numbers.csv": (numbers(" 1 ", "\u00a02"), {"a": [1.0, 2.0]}),
    "missing-cells.csv": (numbers("1", "", "NA", "NaN"), {"a": [1.0, NAN, NAN, NAN]}),
    "booleans.csv": (numbers("true", "False"), {"a": [1.0, 0.0]}),
    "exponents.csv": (numbers("1e-3", "2E+4"), {"a": [0.001, 20000.0]}),
    "leading-zeros.csv": (numbers("007", "010"), {"a": ["007", "010"]}),
    "labels-of-text.csv": (PLAIN.replace("0\n", "no\n"), {"y": ["no", "1"]}),
    "boolean-labels.csv": ("a,y\n1,true\n2,false\n", {"y": [True, False]}),
    "wide.csv": (
        ",".join([*(f"x{i}" for i in range(10_000)), "y"]) + "\n" + "1," * 10_000 + "0\n",
        {"x0": [1.0], "x9999": [1.0], "y": [0]},
    ),
    "decimal-commas.csv": (COMMAS, EXPECTED),
    "decimal-commas.tsv": (COMMAS.replace(";", "\t"), EXPECTED),
    "decimal-commas-quoted.csv": (PLAIN.replace("2.5", '"2,5"'), EXPECTED),
    "decimal-commas-small.csv": (numbers("0,0006", "0,006"), {"a": [0.0006, 0.006]}),
    "decimal-commas-signs.csv": (numbers("-1,5", "+2,5", ",5"), {"a": [-1.5, 2.5, 0.5]}),
    "decimal-commas-exponents.csv": (numbers("1,5e-3", "2,5E+4"), {"a": [0.0015, 25000.0]}),
    "decimal-commas-missing.csv": (numbers("1,5", "", "NA"), {"a": [1.5, NAN, NAN]}),
    "decimal-commas-and-whole.csv": (numbers("1,5", "2", "1200"), {"a": [1.5, 2.0, 1200.0]}),
    "decimal-commas-shown-by-a-row.csv": (numbers("1,234", "2,5"), {"a": [1.234, 2.5]}),
    "decimal-commas-shown-by-a-column.csv": (
        "a;b;y\n1,234;0,5;0\n2,345;1,5;1\n",
        {"a": [1.234, 2.345], "b": [0.5, 1.5]},
    ),
    "commas-in-text.csv": (numbers("2,5 mg", "2,5"), {"a": ["2,5 mg", "2,5"]}),
    "dates.csv": (numbers("01.02.2024", "02.02.2024"), {"a": ["01.02.2024", "02.02.2024"]}),
}

CONVERT = "is not UTF-8 text; convert it with `iconv -f "
WRONG = {
    "latin-1-cells.csv": (PLAIN.replace("x", "é").encode("latin-1"), f"{CONVERT}ISO-8859-1"),
    "latin-1-names.csv": (PLAIN.replace("b", "é").encode("latin-1"), f"{CONVERT}ISO-8859-1"),
    "windows-1252.csv": (PLAIN.replace("x", "€").encode("cp1252"), f"{CONVERT}ISO-8859-1"),
    "shift-jis.csv": (PLAIN.replace("x", "東京").encode("shift-jis"), CONVERT),
    "utf-16.csv": (PLAIN.encode("utf-16"), f"{CONVERT}UTF-16 "),
    "utf-16-no-mark.csv": (PLAIN.encode("utf-16-le"), f"{CONVERT}UTF-16LE "),
    "utf-16-big.csv": (PLAIN.encode("utf-16-be"), f"{CONVERT}UTF-16BE "),
    "utf-32.csv": (PLAIN.encode("utf-32"), f"{CONVERT}UTF-32 "),
    "old-mac-lines.csv": (PLAIN.replace("\n", "\r"), "with carriage returns only; convert it (tr"),
    "thousands-or-decimals.csv": (numbers("1,234", "2,345"), "'1,234' in column 'a' can be 1.234"),
    "thousands-quoted.csv": (PLAIN.replace("2.5", '"2,500"'), "'2,500' in column 'a' can be"),
    "millions.csv": (numbers("1,234,567", "2"), "separates thousands; write the number without"),
    "thousands-and-point.csv": (numbers("1,234.5", "2"), "separates thousands"),
    "thousands-by-dots.csv": (numbers("1.234,5", "2,5"), "separates thousands"),
    "thousands-by-dots-or-not.csv": (numbers("1.234", "2,5"), "is next to decimal commas"),
    "thousands-by-apostrophes.csv": (numbers("1'234.5", "2.5"), "separates thousands"),
    "thousands-by-spaces.csv": (numbers("1\u202f234", "2 500,5"), "separates thousands"),
    "short-row.csv": ("a,b,y\n1,x,0\n2,z\n", "row 1 (line 3) has 2 cells, '2,z'. Put cells"),
    "long-row.csv": (PLAIN.replace("z", "z,w"), "3 columns, but row 1 (line 3) has 4 cells"),
    "single-quotes.csv": (PLAIN.replace("x", "'x,w'"), "row 0 (line 2) has 4 cells"),
    "open-quote.csv": (PLAIN.replace("x", '"x'), "has a quote in line 2 that is not closed there"),
    "open-quote-at-the-end.csv": (PLAIN.replace("1\n", '"1'), "ends inside a quote that begins"),
    "open-quote-in-names.csv": (PLAIN.replace("b", '"b', 1), "has a quote in line 1 that is"),
    "quoted-lines.csv": (PLAIN.replace("x", '"x\nx"'), "or use --newlines-in-cells"),
    "separators-behind-rows.csv": ("a,y\n1,0,\n2,1,\n", "row 0 (line 2) has 3 cells"),
    "empty.csv": ("", "must begin with a line that names its columns"),
    "blank.csv": ("\n\n\n", "must begin with a line that names its columns"),
    "header-only.csv": ("a,b,y\n", "has no rows"),
    "header-without-newline.csv": ("a,b,y", "has no rows"),
    "comment-first.csv": ("# of May\n" + PLAIN, "Does its first line name the columns?"),
    "fixed-width.txt": (PLAIN.replace(",", "  "), "Does its first line name the columns?"),
    "web-page.csv": ("<html>not found</html>", "Does its first line name the columns?"),
    "two-columns-of-a-name.csv": (PLAIN.replace("b", "a", 1), "more than one column 'a'; rename"),
    "two-labels.csv": (PLAIN.replace("b", "y", 1), "more than one column 'y'; rename"),
    "label-in-capitals.csv": (PLAIN.replace("y", "Y"), "no column 'y'; did you mean 'Y'?"),
    "no-label.csv": ("a,b\n1,x\n", "no column 'y'. It has 'a', 'b'."),
    "missing-label.csv": ("a,y\n1,0\n2,\n", "Row 1 has no label in 'y'; fill it in, or leave"),
    "labels-of-fractions.csv": ("a,y\n1,0.5\n2,1\n", "cannot be the label"),
    "spreadsheet.xlsx": (b"PK\x03\x04\x14\x00", "is a spreadsheet; open it and save"),
    "old-spreadsheet.xls": (b"\xd0\xcf\x11\xe0", "is a spreadsheet"),
    "renamed-spreadsheet.csv": (b"PK\x03\x04\x14\x00", "is a spreadsheet"),
    "renamed-parquet.csv": (b"PAR1\x15\x04", "is Parquet; rename it so that it ends in .parquet"),
    "renamed-gzip.csv": (gzip.compress(PLAIN.encode()), "is compressed; add .gz to its name"),
    "not-gzip.csv.gz": (PLAIN, "Is it really compressed?"),
    "cut-gzip.csv.gz": (gzip.compress(PLAIN.encode() * 999)[:60], "cannot be read"),
    "rows.json": ('[{"a": 1}]', "must end in one of .csv, .tsv, .txt, .parquet, .pq"),
    "no-ending": (PLAIN, "must end in one of .csv, .tsv, .txt, .parquet, .pq"),
}  # fmt: skip


def written(folder, name, content):
    """Write a file of this table."""
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("name", RIGHT)
def test_an_odd_file_is_read_as_it_is_meant(tmp_path, name):
    """Separators, quotes, encodings and decimal commas are seen, and every cell is right."""
    content, expected = RIGHT[name]
    X, y = read_labelled(open_rows(written(tmp_path, name, content)), "y")
    read = {**{column: X[column].tolist() for column in X}, "y": y.tolist()}
    for column, values in expected.items():
        assert len(read[column]) == len(values)
        if isinstance(values[0], float):
            np.testing.assert_array_equal(read[column], values)
        else:
            assert read[column] == values


@pytest.fixture
def cores():
    """Let Arrow use several threads, however few the tests have."""
    before = pa.cpu_count()
    pa.set_cpu_count(4)
    yield
    pa.set_cpu_count(before)


@pytest.mark.usefixtures("cores")
@pytest.mark.parametrize("name", WRONG)
def test_a_file_that_cannot_be_read_is_refused_with_what_to_do(tmp_path, name):
    """An error of our own that names the file or the column, and the way out."""
    content, told = WRONG[name]
    with pytest.raises(EmscoError) as refusal:
        read_labelled(open_rows(written(tmp_path, name, content)), "y")
    assert told in str(refusal.value)
    assert name in str(refusal.value) or refusal.value.column in ("a", "y")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Save a cascade of two columns of numbers, each its own source, learned from points."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"dose": rng.uniform(1, 3, 300), "load": rng.uniform(0, 3, 300)})
    y = np.where(X["dose"] + X["load"] > 3.5, "ill", "well")
    design = StageDesign([1, 2])
    cascade = CascadeClassifier(design=design, guard=InputGuard()).fit(X, y)
    path = tmp_path_factory.mktemp("model") / "model.emsco"
    dump(cascade, path)
    return path


def test_decimal_commas_decide_as_points_do(model, tmp_path):
    """A model learned from points decides a file of commas in the same way, and says so once."""
    rows = pd.DataFrame({"dose": [1.234, 2.5, 1.25], "load": [2.345, 0.5, 1.0]})
    told = []
    for separator, decimal in [(",", "."), (";", ",")]:
        path = tmp_path / f"rows{len(told)}.csv"
        rows.to_csv(path, index=False, sep=separator, decimal=decimal)
        told.append(call("decide", model, path))
        assert told[-1].code == 0
    assert told[0].out == told[1].out
    assert told[1].err.count("has decimal commas") == 1


def test_a_comma_that_may_separate_thousands_is_not_decided(model, tmp_path):
    """One row alone cannot show what its commas mean: no decision rather than a wrong one."""
    called = call("decide", model, written(tmp_path, "rows.csv", "dose;load\n1,234;2,345\n"))
    assert called.code == 2
    assert "'1,234' in column 'dose' can be 1.234 or 1234" in called.err


def test_a_row_is_named_by_its_line_too(tmp_path):
    """Row 0 is the second line of what a spreadsheet shows."""
    path = written(tmp_path, "rows.csv", "dose,load,state\n1,2,ill\n2,2,\n")
    called = call("costs", "init", path, "--label", "state", "--out", tmp_path / "costs.toml")
    assert called.code == 2
    assert "Row 1 has no label in 'state'" in called.err
    assert "row 1 is line 3" in called.err
