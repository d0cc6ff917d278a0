"""`costs init` and `search` say what they see in a messy table, and what they leave out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from commands import call, without_reads

from emsco import Costs, load
from emsco.datasets import make_loans


@pytest.fixture(scope="module")
def loans(tmp_path_factory):
    """Write a small table of loans, with more defaults so that few rows are enough."""
    folder = tmp_path_factory.mktemp("loans")
    X, y, _ = make_loans(6000)
    rows = np.sort(np.r_[np.flatnonzero(y == "yes"), np.flatnonzero(y == "no")[:1200]])
    X.assign(defaulted=y).iloc[rows].to_csv(folder / "loans.csv", index=False)
    return folder


SKIPPED = ("loan_id", "applied_on", "currency", "employed_since")


def test_costs_init_says_what_it_sees(loans):
    out = loans / "costs.toml"
    called = call("costs", "init", loans / "loans.csv", "--label", "defaulted", "--out", out)
    assert called.code == 0, called.err
    costs = Costs.from_toml(out)
    assert costs.skipped == SKIPPED
    assert dict(costs.types) == {"note": "long text", "postcode": "text"}
    lines = {line.split()[0]: line for line in out.read_text().splitlines() if "  # " in line}
    assert "ids such as" in lines["loan_id"]
    assert 'dates from 2023-01-01 to 2023-12-31; type = "date" if later' in lines["applied_on"]
    assert "'EUR' in every row" in lines["currency"]
    assert "long text such as 'Customer wants" in lines["note"]
    assert "leading zeros such as '0" in lines["postcode"]
    assert "a leak? It tells" in lines["collection_fees"]
    assert "skips columns of no use as they are" in called.err
    assert "reads long text by its words (kind = \"text\"): 'note'" in called.err
    assert "'collection_fees' alone tells the classes apart" in called.err
    assert " rows are copies of other rows" in called.err


def test_a_search_leaves_out_what_costs_init_skips_and_says_why(loans, tmp_path):
    command = ("search", loans / "loans.csv", "--label", "defaulted", "--cv", 2, "--quiet")
    called = call(*command, "--max-stages", 1, "--out", tmp_path / "run")
    assert called.code == 0, called.err
    told = without_reads(called.err)
    assert "left out: 'applied_on', 'employed_since', because they hold dates" in told
    assert "left out: 'loan_id', because every row has a value of its own" in told
    assert "left out: 'currency', because every row has the same value" in told
    assert "left out: 'note', because they hold long text" in told
    assert "read as text, because of leading zeros: 'postcode'" in told
    assert "warning: 'collection_fees' alone tells the classes apart" in told
    search = load(tmp_path / "run" / "search.emsco")
    assert not {*SKIPPED, "note"} & set(search.costs_.features)
    assert search.found_.stages.reader("postcode").kind == "text"


def test_prices_without_types_leave_out_the_same_and_declared_ones_nothing(loans, tmp_path):
    rows = pd.read_csv(loans / "loans.csv", dtype=str)
    rows[["currency", "employed_since", "months", "amount", "defaulted"]].to_csv(
        tmp_path / "rows.csv", index=False
    )
    prices = tmp_path / "costs.toml"
    command = ("search", tmp_path / "rows.csv", "--label", "defaulted", "--costs", prices)
    command += ("--cv", 2, "--quiet", "--max-stages", 1, "--force", "--out", tmp_path / "run")
    form = 'form = { cost = 1, features = ["employed_since", "months"]%s }\namount = 1\n'
    prices.write_text(
        f'[sources]\n{form % ""}currency = {{ cost = 3, setup = "desk" }}\n[setups]\ndesk = 2\n'
    )
    called = call(*command)
    assert called.code == 0, called.err
    found = load(tmp_path / "run" / "search.emsco").costs_
    assert found.names == ("form", "amount")
    assert found.columns("form") == ("months",)
    assert found.skipped == ("employed_since", "currency")
    assert found.total == 2
    declared = form % ', type = { employed_since = "date" }'
    prices.write_text(f'[sources]\n{declared}currency = {{ cost = 3, type = "text" }}\n')
    called = call(*command)
    assert called.code == 0, called.err
    assert "left out" not in called.err
    assert load(tmp_path / "run" / "search.emsco").costs_.total == 5
