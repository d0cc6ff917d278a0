"""The monitor alarms when promises break, rarely otherwise, and remembers little."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from emsco import CascadeClassifier, Decisions, StageDesign, evaluate
from emsco.certify import certify
from emsco.datasets import make_costly_classification
from emsco.exceptions import CertificateError, MonitorError
from emsco.monitor import Alarm, CertificateMonitor
from emsco.monitor._evidence import upper_bound
from emsco.monitor._watches import Promises

COSTS = np.array([1.0, 6.0, 30.0])
EXITS = (0.6, 0.25, 0.15)
PROMISED = {"accuracy": 0.95, "coverage": 0.9, "cost": 6.6, "exits": EXITS, "total": 30.0}


def decisions(rng, n_rows, exits=EXITS, accepted_last=1 / 3):
    """Decide rows: early exits are accepted, of the last stage's some."""
    stage = rng.choice(3, size=n_rows, p=exits)
    accepted = (stage < 2) | (rng.random(n_rows) < accepted_last)
    return Decisions(np.full(n_rows, "yes"), accepted, stage, np.ones(n_rows), COSTS[stage])


def labels(rng, n_rows, accuracy=0.95):
    return np.where(rng.random(n_rows) < accuracy, "yes", "no")


def names(alarms):
    return [alarm.what for alarm in alarms]


def test_nothing_is_said_while_all_is_as_promised():
    rng = np.random.default_rng(0)
    monitor = CertificateMonitor(**PROMISED, rows=2000)
    for day in range(20):
        assert monitor.decided(decisions(rng, 1000)) == ()
        assert monitor.labelled(range(1000 * day, 1000 * day + 1000), labels(rng, 1000)) == ()
    assert monitor.alarms == ()
    assert set(monitor.evidence) == {"accuracy", "coverage", "cost", "exits"}
    assert max(monitor.evidence.values()) < 400
    assert monitor.counts["decided"] == 20_000
    assert monitor.counts["labelled"] + monitor.counts["unmatched"] == 20_000
    assert monitor.counts["waiting"] == 0


def test_a_drop_of_accuracy_is_noticed():
    rng = np.random.default_rng(1)
    monitor = CertificateMonitor(accuracy=0.95)
    for day in range(10):
        monitor.decided(decisions(rng, 1000))
        accuracy = 0.96 if day < 5 else 0.9
        raised = monitor.labelled(range(1000 * day, 1000 * day + 1000), labels(rng, 1000, accuracy))
        if raised:
            break
    (alarm,) = raised
    assert alarm.what == "accuracy"
    assert 4_500 < alarm.at <= monitor.counts["labelled"] < 7_000
    assert alarm.evidence >= 100
    assert alarm.message.endswith("show an error; at most 5.0% are promised.")
    assert monitor.alarms == raised


@pytest.mark.parametrize(
    ("exits", "accepted_last", "what"),
    [
        ((0.5, 0.2, 0.3), 2 / 3, "exits"),  # twice as many at the last stage, as many accepted
        ((0.8, 0.15, 0.05), 0.5, "exits"),  # fewer
        (EXITS, 0.0, "coverage"),
        ((0.3, 0.2, 0.5), 0.8, "cost"),
    ],
)
def test_other_changes_are_noticed(exits, accepted_last, what):
    rng = np.random.default_rng(2)
    monitor = CertificateMonitor(**PROMISED, rows=2000)
    monitor.decided(decisions(rng, 5000))
    raised = monitor.decided(decisions(rng, 5000, exits, accepted_last))
    assert what in names(raised)
    for alarm in raised:
        assert 5000 < alarm.at < 10_000
        seen = float(re.search(r"([\d.]+)(?:%| on the mean)", alarm.message)[1])
        limit = float(re.search(r"at (?:most|least) ([\d.]+)", alarm.message)[1])
        assert seen < limit if "at least" in alarm.message else seen > limit


def test_the_message_names_the_stage_and_the_direction():
    rng = np.random.default_rng(3)
    for exits, words in (((0.6, 0.05, 0.35), "at most"), ((0.6, 0.39, 0.01), "at least")):
        monitor = CertificateMonitor(exits=EXITS, rows=2000)
        (alarm,) = monitor.decided(decisions(rng, 3000, exits))
        assert alarm.message.startswith("Stage 2 was bought for ")
        assert words in alarm.message


def test_an_alarm_is_raised_once():
    rng = np.random.default_rng(4)
    monitor = CertificateMonitor(coverage=0.99)
    assert names(monitor.decided(decisions(rng, 2000))) == ["coverage"]
    assert monitor.decided(decisions(rng, 2000)) == ()
    assert len(monitor.alarms) == 1
    assert "coverage" in repr(monitor)


cuts = st.lists(st.integers(0, 400), max_size=6).map(sorted)


@settings(max_examples=25)
@given(cuts, cuts, st.floats(0.5, 1), st.integers(0, 2**32 - 1))
def test_portions_do_not_matter(decided_at, labelled_at, accuracy, seed):
    """Decisions and labels in any portions give the same state, alarms and messages included."""
    rng = np.random.default_rng(seed)
    rows = decisions(rng, 400, (0.4, 0.2, 0.4))
    truth, order = labels(rng, 400, accuracy), rng.permutation(400)
    states = []
    for cut in ([], decided_at):
        monitor = CertificateMonitor(**PROMISED)
        for start, stop in zip([0, *cut], [*cut, 400], strict=True):
            monitor.decided(rows[start:stop])
        for part in np.split(order, [] if not cut else labelled_at):
            monitor.labelled(part, truth[part])
        states.append(monitor.state())
    assert states[0] == states[1]


@settings(max_examples=25)
@given(st.integers(0, 400), st.integers(0, 2**32 - 1), st.integers(1, 50))
def test_a_state_goes_on_where_it_was_taken(at, seed, keep):
    rng = np.random.default_rng(seed)
    rows, truth = decisions(rng, 400, (0.4, 0.2, 0.4)), labels(rng, 400, 0.7)
    whole, first = (CertificateMonitor(**PROMISED, rows=500, keep=keep) for _ in range(2))
    keys = [f"row {i}" for i in range(400)]
    whole.decided(rows[:at], keys[:at])
    first.decided(rows[:at], keys[:at])
    second = CertificateMonitor.from_state(json.loads(json.dumps(first.state())))
    for monitor in (whole, second):
        monitor.decided(rows[at:], keys[at:])
        monitor.labelled(keys, truth)
    assert json.dumps(second.state()) == json.dumps(whole.state())
    assert second.alarms == whole.alarms
    assert second.counts["waiting"] == 0
    assert second.counts["labelled"] <= keep


def test_memory_is_bounded_and_the_oldest_are_forgotten():
    rng = np.random.default_rng(5)
    monitor = CertificateMonitor(accuracy=0.95, keep=100)
    for _ in range(5):
        monitor.decided(decisions(rng, 1000, (1, 0, 0)))
    assert monitor.counts["waiting"] == 100
    assert monitor.counts["forgotten"] == 4_900
    monitor.labelled([4_899, 4_900, 4_999], ["yes"] * 3)
    assert monitor.counts["labelled"] == 2
    assert monitor.counts["unmatched"] == 1
    assert len(json.dumps(monitor.state())) < 4_000


def test_labels_that_are_none_of_ours_change_nothing():
    rng = np.random.default_rng(6)
    monitor = CertificateMonitor(accuracy=0.95)
    rows = decisions(rng, 100)
    monitor.decided(rows)
    rejected = np.flatnonzero(~rows.accepted)
    before = monitor.evidence
    monitor.labelled(rejected, ["no"] * len(rejected))
    monitor.labelled(["elsewhere", -1], ["no", "no"])
    accepted = int(np.flatnonzero(rows.accepted)[0])
    monitor.labelled([accepted, accepted], [None, float("nan")])
    monitor.labelled([accepted], [pd.NA])
    assert monitor.evidence == before
    assert monitor.counts["unmatched"] == len(rejected) + 2
    monitor.labelled([accepted, accepted], ["yes", "no"])
    assert monitor.counts["labelled"] == 1, "the first label of a row is the one that counts"


def test_a_row_decided_again_is_known_by_its_last_decision():
    monitor = CertificateMonitor(accuracy=0.95)
    for label in ("old", "new"):
        monitor.decided(Decisions([label], [True], [0], [1.0], [1.0]), keys=["a"])
    monitor.labelled(["a"], ["new"])
    assert monitor.evidence["accuracy"] < 1
    assert monitor.counts["forgotten"] == 1
    for accepted in (True, False):
        monitor.decided(Decisions(["new"], [accepted], [0], [1.0], [1.0]), keys=["b"])
    monitor.labelled(["b"], ["old"])
    assert monitor.counts["labelled"] == 1


def test_without_accuracy_no_row_waits():
    monitor = CertificateMonitor(coverage=0.9)
    monitor.decided(decisions(np.random.default_rng(7), 1000))
    assert monitor.counts["waiting"] == 0


@pytest.mark.parametrize("rows", [None, 300])
def test_false_alarms_are_as_rare_as_promised(rows):
    """With exact promises, or ones estimated anew for every run, on 300 rows."""
    rng = np.random.default_rng(8)
    runs, alarmed = 100, 0
    for _ in range(runs):
        promised = PROMISED
        if rows is not None:
            seen = evaluate(estimate := decisions(rng, rows), np.full(rows, "yes"))
            exits = np.bincount(estimate.exit_stage, minlength=3) / rows
            promised = PROMISED | {
                "coverage": seen.coverage, "cost": seen.cost, "exits": exits, "rows": rows,
            }  # fmt: skip
        else:
            promised = PROMISED | {"cost": float(COSTS @ EXITS)}
        monitor = CertificateMonitor(**promised, alpha=0.05)
        monitor.decided(decisions(rng, 1000))
        monitor.labelled(range(1000), labels(rng, 1000))
        alarmed += bool(monitor.alarms)
    assert alarmed <= 13, "of 100 at 5%, more than 13 come once in two thousand times"


@pytest.fixture(scope="module")
def certified():
    X, y, costs = make_costly_classification(6000, 2, class_sep=2.5, random_state=0)
    design = StageDesign.from_stages([["s0"], ["s1"]])
    cascade = CascadeClassifier(design=design, costs=costs, threshold=0.9).fit(X[:1000], y[:1000])
    return cascade, certify(cascade, X[1000:3000], y[1000:3000], accuracy=0.9), X, y


def test_a_certified_cascade_is_watched_by_its_promise_and_its_calibration_rows(certified):
    cascade, certificate, X, y = certified
    shown = cascade.decide(X[1000:3000])
    monitor = CertificateMonitor.of(certificate, cascade, alpha=0.05)
    promised = monitor.state()["promised"]
    assert promised["accuracy"] == 0.9
    assert promised["coverage"] == shown.accepted.mean()
    assert promised["cost"] == pytest.approx(shown.cost.mean())
    assert promised["exits"] == tuple(np.bincount(shown.exit_stage) / 2000)
    assert promised["total"] == 3  # of two sources for 1 and 2
    assert promised["rows"] == 2000
    assert promised["alpha"] == 0.05
    assert monitor.decided(cascade.decide(X[3000:])) == ()
    assert monitor.labelled(range(3000), y[3000:]) == ()
    wrong = CertificateMonitor.of(certificate, cascade)
    wrong.decided(cascade.decide(X[3000:]))
    assert names(wrong.labelled(range(3000), 1 - y[3000:])) == ["accuracy"]
    fewer = CertificateMonitor.of(certificate, cascade, accuracy=None, exits=None)
    assert set(fewer.evidence) == {"coverage", "cost"}


def test_another_cascade_is_not_watched_by_the_certificate(certified):
    cascade, certificate, X, y = certified
    refitted = clone(cascade).fit(X[:999], y[:999])
    with pytest.raises(CertificateError, match="does not hold for this cascade"):
        CertificateMonitor.of(certificate, refitted)


def test_the_best_of_many_candidates_may_be_worse_than_it_looked():
    """Any of them might have been chosen, so the estimate of each must hold."""
    bounds = []
    for candidates in (1, 200):
        promises = Promises(coverage=0.8, rows=500, candidates=candidates, alpha=0.05)
        (watch,) = promises.watches()
        bounds.append(watch.means[0].bound)
        assert bounds[-1] == upper_bound(1 - 0.8, 500, 0.05 / 2 / candidates)
    assert bounds == sorted(bounds)
    most = np.random.default_rng(12).binomial(500, 0.2, size=(2000, 200)).min(axis=1) / 500
    too_low = [upper_bound(rejected, 500, 0.05 / 2 / 200) < 0.2 for rejected in most]
    assert np.mean(too_low) <= 0.05 / 2


def test_a_cascade_of_one_stage_has_no_traffic_to_watch():
    monitor = CertificateMonitor(coverage=0.5, exits=(1.0,))
    assert set(monitor.evidence) == {"coverage"}


def test_an_alarm_never_changes():
    with pytest.raises(AttributeError):
        Alarm("cost", 1, 100.0, "").at = 2


# What is refused.


@pytest.mark.parametrize(
    ("promised", "message"),
    [
        ({}, "Nothing is promised"),
        ({"accuracy": 95}, "`accuracy` must be from 0 to 1, got 95"),
        ({"coverage": -0.1}, "`coverage` must be from 0 to 1"),
        ({"coverage": 0.5, "tolerance": 2}, "`tolerance` must be from 0 to 1"),
        ({"cost": 5.0}, "`cost` must be from 0 to `total`"),
        ({"cost": 5.0, "total": 4.0}, "got 5.0 and 4.0"),
        ({"cost": float("nan"), "total": 4.0}, "`cost` must be"),
        ({"exits": (0.5, 0.4)}, "shares that sum to 1"),
        ({"exits": (1.5, -0.5)}, "shares that sum to 1"),
        ({"exits": ()}, "shares that sum to 1"),
        ({"accuracy": 0.9, "rows": 0}, "`rows` must be above 0"),
        ({"accuracy": 0.9, "candidates": 0}, "`candidates` must be at least 1"),
        ({"accuracy": 0.9, "alpha": 0}, "`alpha` must be between 0 and 1"),
        ({"accuracy": 0.9, "keep": 0}, "`keep` must be at least 1"),
    ],
)
def test_promises_that_cannot_be_watched_are_refused(promised, message):
    with pytest.raises(MonitorError, match=message):
        CertificateMonitor(**promised)


def test_what_does_not_fit_is_refused_and_changes_nothing():
    rng = np.random.default_rng(10)
    monitor = CertificateMonitor(accuracy=0.9, exits=(0.5, 0.5))
    before = monitor.state()
    with pytest.raises(MonitorError, match="10 decisions have 3 keys"):
        monitor.decided(decisions(rng, 10), keys=[1, 2, 3])
    with pytest.raises(MonitorError, match="left at stage 2, but 2 stages are expected"):
        monitor.decided(decisions(rng, 10, (0, 0, 1)))
    unpaid = Decisions(["yes"], [True], [0], [1.0], [float("nan")])
    with pytest.raises(MonitorError, match="finite cost"):
        monitor.decided(unpaid)
    with pytest.raises(MonitorError, match="1 keys have 2 labels"):
        monitor.labelled([1], ["yes", "no"])
    assert monitor.state() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 0}, "has the format 0"),
        ({"promised": {}}, "Nothing is promised"),
        ({"promised": {"speed": 1}}, "incomplete or altered"),
        ({"counts": {}}, "incomplete or altered"),
        ({"evidence": {"accuracy": []}}, "incomplete or altered"),
        ({"evidence": {"accuracy": [{"seen": 1}]}}, "incomplete or altered"),
        ({"waiting": [1]}, "incomplete or altered"),
    ],
)
def test_a_state_that_is_none_is_refused(change, message):
    state = CertificateMonitor(accuracy=0.9).state()
    with pytest.raises(MonitorError, match=message):
        CertificateMonitor.from_state(state | change)
