"""Twenty thousand columns take twenty times as long as a thousand, not four hundred times."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pytest
from commands import call

from emsco import Costs
from emsco.cli._table_file import check_columns, open_rows
from emsco.cli.search import priced
from emsco.exceptions import ColumnsError
from emsco.rows.columns import pick_columns, refuse_twice

MANY = 20_000
NAMES = [f"column {i}" for i in range(MANY)]


def _seconds(function, *arguments):
    """Give the time of this process, whatever others do meanwhile."""
    start = time.process_time()
    function(*arguments)
    return time.process_time() - start


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """Give a CSV file of that many columns, with a label."""
    path = tmp_path_factory.mktemp("wide") / "wide.csv"
    rows = [",".join([*(f"{i % 7}.{row}" for i in range(MANY)), "ab"[row % 2]]) for row in range(4)]
    path.write_text("\n".join([",".join([*NAMES, "y"]), *rows]) + "\n")
    return path


def test_names_of_many_columns_are_checked_in_a_moment():
    """Of X in Python; each of these took seconds."""
    frame = pd.DataFrame(np.zeros((1, MANY)), columns=NAMES)
    assert _seconds(refuse_twice, NAMES) < 0.5
    assert _seconds(pick_columns, frame, NAMES) < 3
    with pytest.raises(ColumnsError, match="repeated: 'column 7'"):
        refuse_twice([*NAMES, "column 7"])
    with pytest.raises(ColumnsError, match="repeated: 'column 7'"):
        pick_columns(frame.rename(columns={"column 8": "column 7"}), ["column 6", "column 7"])


def test_columns_of_a_wide_file_are_checked_in_a_moment(wide):
    """That all are there, once each, and which of them have a price."""
    rows = open_rows(wide)
    assert _seconds(check_columns, rows, rows.names) < 0.5
    costs = Costs.per_feature(dict.fromkeys(NAMES, 1))
    assert _seconds(priced, rows, "y", costs, "costs.toml") < 1


def test_prices_of_a_wide_file_are_written_in_seconds(wide, tmp_path):
    """Four columns a millisecond or so."""
    command = ("costs", "init", wide, "--label", "y", "--out", tmp_path / "costs.toml")
    assert _seconds(call, *command) < 15
    assert Costs.from_toml(tmp_path / "costs.toml").names == tuple(NAMES)
