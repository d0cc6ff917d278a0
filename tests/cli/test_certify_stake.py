"""`emsco certify --stake --cap` and `--by`: a cap that is enforced, and groups that are named."""

import json

import numpy as np
import pytest
from commands import call, patients, write_csv

from emsco import load


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    rng = np.random.default_rng(5)
    frame = patients(2000, 7).assign(
        amount=rng.uniform(0, 100, 2000).round(2), region=rng.choice(["north", "south"], 2000)
    )
    return write_csv(frame, tmp_path_factory.mktemp("stake") / "fresh.csv")


@pytest.fixture(autouse=True)
def _no_question_of_another_test(folder, fresh):
    for ledger in (*fresh.parent.glob("*.ledger"), folder / "run" / "ledger.jsonl"):
        ledger.unlink(missing_ok=True)


def certify(folder, fresh, *options):
    return call("certify", folder / "run", fresh, "--label", "state", *options)


def test_the_model_that_is_written_decides_no_row_above_the_cap(folder, fresh, tmp_path):
    out = tmp_path / "capped.emsco"
    called = certify(
        folder, fresh, "--accuracy", 0.8, "--stake", "amount", "--cap", 90, "--out", out
    )
    assert called.code == 0, called.err
    assert "counting the stake 'amount' instead of rows and sending rows above 90" in called.out
    assert "Effective rows: " in called.out
    model = load(out)
    assert model.certificate_.holds_for(model)
    assert (model.decider_.cap.column, model.decider_.cap.cap) == ("amount", 90)
    decided = call("decide", out, fresh, "--keep", "amount").out
    rows = [line.split(",") for line in decided.splitlines()[1:]]
    above = [row for row in rows if float(row[0]) > 90]
    assert len(above) > 100
    assert all(row[2] == "false" and row[6] == "above cap: amount" for row in above)
    refused = call("decide", out, folder / "fresh.csv")
    assert refused.code == 2
    assert "'amount'" in refused.err


def test_a_stake_needs_a_cap(folder, fresh):
    called = certify(folder, fresh, "--accuracy", 0.8, "--stake", "amount")
    assert called.code == 2
    assert "--stake and --cap must be given together" in called.err


def test_groups_are_certified_or_listed(folder, fresh):
    called = certify(folder, fresh, "--accuracy", 0.8, "--by", "region", "--json")
    assert called.code == 0, called.err
    groups = json.loads(called.out)["groups"]
    assert groups["passed"] == groups["groups"] == ["north", "south"]
    assert sum(groups["rows"]) == 2000
    again = certify(folder, fresh, "--accuracy", 0.8, "--by", "region", "--no-every")
    assert again.code == 2, "a list is another question"
    assert "already used" in again.err


def test_a_list_is_of_the_chosen_candidate(folder, fresh):
    called = certify(
        folder, fresh, "--accuracy", 0.5, "--min-coverage", 0, "--by", "region", "--no-every",
        "--json",
    )  # fmt: skip
    data = json.loads(called.out)
    assert data["tried"] == 1
    assert data["groups"]["passed"] == ["north", "south"]


def test_the_former_meaning_of_by_still_works(folder, fresh):
    called = certify(folder, fresh, "--accuracy", 0.8, "--by", "cost", "--json")
    assert called.code == 0, called.err
    assert "--by cost is now --take cost" in called.err
    assert "groups" not in json.loads(called.out)
