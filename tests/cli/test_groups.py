"""`--by` names a column of the fresh rows: figures are those of Python, empty cells a group."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from commands import call, patients, write_csv, write_parquet

from emsco import evaluate, load
from emsco.cli._table_file import open_rows


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """Write fresh rows with a column that is no feature, of which some cells are empty."""
    frame = patients(500, 3)
    frame["sex"] = [("F", "M", None)[row % 20 // 9] for row in range(500)]
    return frame, write_csv(frame, tmp_path_factory.mktemp("groups") / "fresh.csv")


def expected(folder, frame, groups):
    """Evaluate the chosen cascade by group in Python."""
    search = load(folder / "run" / "search.emsco")
    X = frame.drop(columns=["state", "sex"]).replace({"town": {"": None}})
    return evaluate(search.decide(X), frame["state"].to_numpy(), by=groups)


def test_show_by_a_column(folder, fresh, tmp_path):
    frame, path = fresh
    arguments = ("show", folder / "run", "--fresh", path, "--label", "state", "--by", "sex")
    called = call(*arguments)
    assert called.code == 0, called.err
    parts = expected(folder, frame, frame["sex"])
    assert str(parts) in called.out
    data = json.loads(call(*arguments, "--json").out)["chosen"]["groups"]
    assert [one["group"] for one in data["groups"]] == ["F", "M", None]
    for one, own in zip(data["groups"], parts.values(), strict=True):
        assert (one["rows"], one["coverage"]) == (own.rows, own.coverage)
        assert one["missed"] == dict(own.missed)
    assert [(gap["measure"], gap["difference"]) for gap in data["gaps"]] == [
        (gap.measure, gap.difference) for gap in parts.gaps
    ]
    parquet = write_parquet(frame, tmp_path / "fresh.parquet")
    assert str(parts) in call(*arguments[:3], parquet, *arguments[4:]).out


def test_a_feature_may_be_the_group(folder, fresh):
    """A column of the prices is read as the model reads it, and as groups beside."""
    frame, path = fresh
    called = call(
        "show", folder / "run", "--fresh", path, "--label", "state", "--by", "smoker", "--json"
    )
    groups = json.loads(called.out)["chosen"]["groups"]["groups"]
    counts = frame["smoker"].value_counts()
    assert sorted(one["rows"] for one in groups) == sorted(counts)


def test_the_report_has_a_panel(folder, fresh, tmp_path):
    _, path = fresh
    out = tmp_path / "page.html"
    options = ("--fresh", path, "--label", "state", "--by", "sex", "--out", out)
    assert call("report", folder / "run", *options).code == 0
    assert "The chosen cascade by group, on 500 fresh rows" in out.read_text(encoding="utf-8")


@pytest.mark.parametrize("command", ["show", "report"])
def test_what_has_no_groups_is_refused_in_one_line(folder, fresh, tmp_path, command):
    _, path = fresh
    out = ("--out", tmp_path / "page.html") if command == "report" else ()
    given = ("--fresh", path, "--label", "state")
    for options, part in (
        (("--by", "sex"), "--by names a column of --fresh; give both options."),
        ((*given, "--by", "sx"), "no column 'sx'; did you mean 'sex'?"),
    ):
        called = call(command, folder / "run", *options, *out)
        assert called.code == 2
        assert part in called.err


def test_a_model_alone_has_no_groups(folder):
    called = call("show", folder / "run" / "model.emsco", "--by", "sex")
    assert called.code == 2
    assert "needs a search" in called.err


def test_an_empty_cell_is_no_group(fresh):
    from emsco.cli._labelled_frame import read_group_column

    frame, path = fresh
    groups = read_group_column(open_rows(path), "sex")
    assert pd.Series(groups).isna().sum() == frame["sex"].isna().sum() > 0
