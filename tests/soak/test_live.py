"""The experiment on live decisions can fail: what it watches for, it finds."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from emsco import Decisions
from tests.soak.live.bill import Account
from tests.soak.live.faults import Trials
from tests.soak.live.mutations import FILE, read_back
from tests.soak.live.watch import Rule, Watch

REASONS = ["", "low confidence", "", ""]
ROWS = np.arange(4)


def decided(label, reason):
    """Make decisions of the last stage."""
    n_rows = len(label)
    reason = np.array(reason, dtype=object)
    return Decisions(
        label=np.array(label), accepted=reason == "", exit_stage=np.full(n_rows, 3),
        confidence=np.ones(n_rows), cost=np.zeros(n_rows), reason=reason, latency=np.zeros(n_rows),
    )  # fmt: skip


def watched(rule, label, reason):
    """Hold decisions against a table of four rows, and a rule."""
    watch = Watch(SimpleNamespace(decided=decided(["a", "b", "a", "b"], REASONS)))
    watch.rule = rule
    watch.note(ROWS, decided(label, reason), rule)
    return watch


def test_what_the_table_says_is_right():
    watch = watched(Rule("none"), ["a", "b", "a", "b"], REASONS)
    assert (watch.labels, watch.tally.wrong, watch.tally.noise) == ([], [], 0)


def test_another_label_and_an_acceptance_of_its_own_are_found():
    watch = watched(Rule("none"), ["b", "b", "a", "b"], ["", "", "", ""])
    assert watch.labels == ["none: row 0", "none: row 1"]


def test_an_affected_row_needs_the_right_reason_of_the_right_source():
    rule = Rule("slow", np.array([True, True, True, False]), ("timeout",), "page")
    told = ["timeout: page", "timeout: url", "", "error: url"]
    watch = watched(rule, ["a", "b", "a", "b"], told)
    assert watch.tally.right == 1
    assert watch.tally.noise == 1  # a true reason, and not the one that was expected
    assert watch.tally.wrong == ["row 2: accepted", "row 3: error: url"]
    late = watched(Rule("slow", np.ones(4, bool), ("timeout",), late=True), list("abab"), REASONS)
    assert late.tally.late == 4


def test_a_call_during_which_the_rule_changed_is_held_against_the_table_alone():
    watch = Watch(SimpleNamespace(decided=decided(["a", "b", "a", "b"], REASONS)))
    before, watch.rule = watch.rule, Rule("other")
    watch.note(ROWS, decided(["b", "b", "a", "b"], ["", "missing: url", "", ""]), before)
    assert watch.labels == ["none: row 0"]
    assert watch.tallies["none"].wrong == []


def test_an_unfair_bill_and_too_many_trials_are_found():
    assert Account(receipts=1, paid=2, bill=2, unknown=1).is_fair
    assert not Account(receipts=3, paid=2, bill=2, unknown=1).is_fair
    assert not Account(receipts=1, paid=2, bill=1, unknown=1).is_fair
    assert not Account(receipts=1, paid=2, bill=4, unknown=1).is_fair
    assert Trials("url", calls=5, seconds=3.9).most == 4


def test_a_file_of_sources_is_read_or_refused(tmp_path):
    path = tmp_path / "sources.toml"
    assert read_back(FILE, path) == "written back"
    assert read_back(FILE.replace("paid = true", "paid = 7"), path) == "refused"
