"""The experiment that changes CSV files: it finds what it is to find."""

from __future__ import annotations

import numpy as np
import pytest

from tests.soak import csv_mutations

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return csv_mutations.make_models(tmp_path_factory.mktemp("models"))


@pytest.mark.parametrize("newlines_in_cells", [False, True])
@pytest.mark.parametrize("name", csv_mutations.MUTATIONS)
def test_every_row_is_decided_or_the_file_is_refused(models, tmp_path, name, newlines_in_cells):
    """Of a table of three columns, and of one of text alone."""
    rng = np.random.default_rng(len(name))
    for columns in (csv_mutations.COLUMNS, csv_mutations.COLUMNS[-1:]):
        content = csv_mutations.MUTATIONS[name](csv_mutations.make_file(columns, rng), rng)
        path = tmp_path / "rows.csv"
        end = csv_mutations.decide(models[len(columns)], path, content, newlines_in_cells)
        assert end in ("as many", "refused"), content
        assert end == "as many" or name != "nothing"


def test_a_lost_row_is_found(models, tmp_path, monkeypatch):
    """Where lines are counted otherwise, the experiment says so."""
    monkeypatch.setattr(csv_mutations, "count_lines", lambda content: content.count(b"\n"))
    content = b"age,dose,town\n20,1,Basel\n30,2,Basel\n"
    end = csv_mutations.decide(models[3], tmp_path / "rows.csv", content, newlines_in_cells=False)
    assert end.startswith("read without the number of its rows, 3: Read: 2 rows of ")


def test_a_small_run_tells_every_kind(monkeypatch):
    """One file of each, in a table."""
    monkeypatch.setattr(csv_mutations, "SMALL_FILES", len(csv_mutations.MUTATIONS))
    table = csv_mutations.run(small=True).splitlines()
    assert [line.split(" | ")[0].strip("| ") for line in table[2:]] == [
        *csv_mutations.MUTATIONS,
        "all",
    ]
