"""The monitor alarms when promises break, rarely otherwise, and remembers little."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from emsco import CascadeClassifier, Decisions, StageDesign, evaluate
from emsco.certify import certify
from emsco.certify.monitor._evidence import upper_bound
from emsco.certify.monitor._promises import Promises
from emsco.datasets import make_costly_classification
from emsco.exceptions import CertificateError, MonitorError, MonitorWarning
from emsco.monitor import Alarm, CertificateMonitor

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
        seen = float(re.search(r"([\d.]+)(?:%| per row on average)", alarm.message)[1])
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


# Agreement with a final model, and shares missed: what needs the truth of rows drawn at random.

STAGES = {"stages": 3, "share": 1.0}
MISSED = {"max_missed": {"yes": 0.05, "no": 0.1}, "share": 1.0}


def with_answers(rng, n_rows, agreement):
    """Decide rows before a final model at stage 2, and give what it would answer."""
    rows = decisions(rng, n_rows, accepted_last=1)
    early = rows.exit_stage < 2
    changed = early & (rng.random(n_rows) < (1 - agreement) / (EXITS[0] + EXITS[1]))
    return rows, np.where(changed, "no", "yes")


def with_classes(rng, n_rows, missed):
    """Decide rows of two classes; of the sick so many are accepted as well."""
    truth = np.where(rng.random(n_rows) < 0.3, "sick", "well")
    stage = rng.choice(3, size=n_rows, p=EXITS)
    accepted = rng.random(n_rows) < 0.6
    share = missed / 0.6
    label = np.where((truth == "sick") & (rng.random(n_rows) < share), "well", truth)
    return Decisions(label, accepted, stage, np.ones(n_rows), COSTS[stage]), truth


@pytest.mark.parametrize("share", [1.0, 0.3])
def test_a_drop_of_agreement_is_noticed_from_a_random_share_of_early_exits(share):
    rng = np.random.default_rng(20)
    monitor = CertificateMonitor(agreement=0.98, stages=3, share=share, random_state=0)
    asked = 0
    for day in range(20):
        first = 1000 * day
        rows, answers = with_answers(rng, 1000, agreement=0.99 if day < 10 else 0.94)
        assert monitor.decided(rows) == ()
        drawn = [key - first for key in monitor.to_answer]
        assert (rows.exit_stage[drawn] < 2).all(), "the final model has answered the others"
        asked += len(drawn)
        raised = monitor.answered(monitor.to_answer, answers[drawn])
        if raised:
            break
    (alarm,) = raised
    assert alarm.what == "agreement"
    assert day >= 10
    assert (
        asked == monitor.counts["answered"] == pytest.approx(1000 * (day + 1) * 0.85 * share, 0.1)
    )
    (evidence,) = monitor.state()["evidence"]["agreement"]
    drawn = pytest.approx(1000 * (day + 1) * share, 0.1)
    assert evidence["seen"] == drawn, "rows that got to the final model agree, and count so"
    assert "decided differently from the final model; at most 2.0% are" in alarm.message
    assert monitor.not_watched == {}
    assert monitor.to_answer == ()


def test_a_rise_of_a_share_missed_is_noticed_and_its_class_named():
    rng = np.random.default_rng(21)
    monitor = CertificateMonitor(max_missed={"sick": 0.05, "well": 0.05}, share=1.0)
    for day in range(20):
        rows, truth = with_classes(rng, 1000, missed=0.04 if day < 5 else 0.15)
        monitor.decided(rows)
        raised = monitor.labelled(range(1000 * day, 1000 * day + 1000), truth)
        if raised:
            break
    (alarm,) = raised
    assert day >= 5
    assert alarm.what == "missed sick"
    assert alarm.message.endswith("accepted under another label; at most 5.0% are promised.")
    assert alarm.at <= 0.4 * monitor.counts["labelled"], "labels of that class are counted"


def test_truth_counts_in_the_order_of_decisions_whatever_order_it_comes_in():
    """Reviewed at once, rejected rows would come first and accepted ones in clumps after them."""
    rng = np.random.default_rng(22)
    rows, truth = with_classes(rng, 3000, missed=0.2)
    states = []
    for order in (
        np.arange(3000),
        np.argsort(rows.accepted, kind="stable"),
        np.argsort(rows.label != truth, kind="stable"),
        rng.permutation(3000),
    ):
        monitor = CertificateMonitor(max_missed={"sick": 0.05}, share=0.5, random_state=3)
        monitor.decided(rows)
        for part in np.array_split(order, 7):
            monitor.labelled(part, truth[part])
        states.append(monitor.state())
    assert all(state == states[0] for state in states)
    assert states[0]["alarms"]


def test_truth_that_comes_in_clumps_raises_no_false_alarm():
    """Held back by a row, those after it wait; taken as they came they would alarm every time."""
    rng = np.random.default_rng(23)
    alarmed = 0
    for seed in range(30):
        rows, truth = with_classes(rng, 4000, missed=0.1)
        monitor = CertificateMonitor(
            max_missed={"sick": 0.1}, share=1.0, alpha=0.05, random_state=seed
        )
        monitor.decided(rows)
        for clump in (np.flatnonzero(~rows.accepted), np.flatnonzero(rows.accepted)):
            monitor.labelled(clump, truth[clump])
        alarmed += bool(monitor.alarms)
    assert alarmed <= 6


@pytest.mark.parametrize("what", ["agreement", "missed"])
def test_false_alarms_on_a_share_are_as_rare_as_promised(what):
    rng = np.random.default_rng(24)
    runs, alarmed = 100, 0
    for seed in range(runs):
        if what == "agreement":
            rows, truth = with_answers(rng, 2000, agreement=0.97)
            promised = {"agreement": 0.97, "stages": 3}
        else:
            rows, truth = with_classes(rng, 2000, missed=0.1)
            promised = {"max_missed": {"sick": 0.1}}
        monitor = CertificateMonitor(**promised, share=0.5, random_state=seed, alpha=0.05)
        monitor.decided(rows)
        tell = monitor.answered if what == "agreement" else monitor.labelled
        due = list(monitor.to_answer if what == "agreement" else monitor.to_label)
        tell(due, truth[due])
        alarmed += bool(monitor.alarms)
    assert alarmed <= 13, "of 100 at 5%, more than 13 come once in two thousand times"


def test_what_was_drawn_is_a_random_share_and_the_same_however_rows_come():
    rng = np.random.default_rng(25)
    rows, _ = with_classes(rng, 4000, missed=0.1)
    drawn = []
    for cut in ([0, 4000], [0, 1, 2, 1500, 4000]):
        monitor = CertificateMonitor(max_missed={"sick": 0.1}, share=0.25, random_state=7)
        for start, stop in pairwise(cut):
            monitor.decided(rows[start:stop])
        drawn.append(monitor.to_label)
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) == pytest.approx(1000, abs=120)
    own = [CertificateMonitor(max_missed={"sick": 0.1}, share=0.5) for _ in range(2)]
    for monitor in own:
        monitor.decided(rows)
    assert own[0].to_label != own[1].to_label, "without a seed each draws its own"


def test_labels_of_accepted_rows_alone_do_not_watch_a_share_missed():
    """Of rejected rows no label comes, so nothing counts, no alarm is false, and it is said."""
    rng = np.random.default_rng(26)
    monitor = CertificateMonitor(max_missed={"sick": 0.1}, coverage=0.5, share=1.0)
    for day in range(5):
        rows, truth = with_classes(rng, 1000, missed=0.1)
        monitor.decided(rows)
        accepted = np.flatnonzero(rows.accepted)
        assert monitor.labelled(1000 * day + accepted, truth[accepted]) == ()
    reason = monitor.not_watched["missed sick"]
    assert "rejected rows" in reason
    assert f"missed sick{'':31}".rstrip() in repr(monitor)
    assert f"not watched: {reason}" in repr(monitor)
    rejecting = Decisions(["well"] * 3000, [False] * 3000, [2] * 3000, [0.5] * 3000, [30.0] * 3000)
    (alarm,) = monitor.decided(rejecting)
    assert alarm.what == "coverage"
    assert alarm.message.endswith(" Not watched: missed sick.")


def test_without_a_label_accuracy_is_said_not_to_be_watched():
    rng = np.random.default_rng(29)
    monitor = CertificateMonitor(accuracy=0.9, coverage=0.99)
    assert monitor.not_watched == {}, "there is nothing to label yet"
    (alarm,) = monitor.decided(decisions(rng, 2000))
    assert monitor.not_watched == {"accuracy": "no label of an accepted row has arrived"}
    assert alarm.message.endswith(" Not watched: accuracy.")
    monitor.labelled(range(100), ["yes"] * 100)
    assert monitor.not_watched == {}


def test_answers_that_never_come_do_not_watch_agreement():
    rng = np.random.default_rng(27)
    monitor = CertificateMonitor(agreement=0.9, stages=3, share=1.0, keep=500)
    monitor.decided(with_answers(rng, 2000, 0.5)[0])
    assert monitor.alarms == (), "given up, they count as agreeing"
    assert monitor.counts["given_up"] > 1000
    assert "agreement" in monitor.not_watched
    assert len(json.dumps(monitor.state())) < 60_000


def test_rows_given_up_count_as_right_and_hold_nothing_back():
    monitor = CertificateMonitor(agreement=0.9, stages=2, share=1.0)
    early = Decisions(["yes"] * 50, [True] * 50, [0] * 50, [1.0] * 50, [1.0] * 50)
    monitor.decided(early)
    assert monitor.answered(range(1, 50), ["no"] * 49) == ()
    assert monitor.evidence["agreement"] == pytest.approx(1), "the first holds them back"
    (alarm,) = monitor.give_up([0])
    assert alarm.what == "agreement"
    assert monitor.counts["given_up"] == 1
    assert monitor.give_up([0, "elsewhere"]) == ()
    assert monitor.counts["given_up"] == 1


def test_a_row_decided_again_counts_by_its_last_decision():
    monitor = CertificateMonitor(agreement=0.9, stages=2, share=1.0)
    for label in ("old", "new"):
        monitor.decided(Decisions([label], [True], [0], [1.0], [1.0]), keys=["a"])
    monitor.answered(["a"], ["new"])
    assert monitor.counts["given_up"] == 1
    assert monitor.evidence["agreement"] < 1


@settings(max_examples=25)
@given(cuts, cuts, st.integers(0, 2**32 - 1), st.sampled_from([1.0, 0.4]), st.integers(20, 500))
def test_portions_do_not_matter_to_a_sample(decided_at, told_at, seed, share, keep):
    """Whatever comes together, and over a state in JSON, the state is the same in the end."""
    rng = np.random.default_rng(seed)
    rows, truth, order = decisions(rng, 400), labels(rng, 400, 0.6), rng.permutation(400)
    promised = PROMISED | MISSED | STAGES | {
        "agreement": 0.9, "share": share, "random_state": seed, "keep": keep,
    }  # fmt: skip
    states = []
    for cut in ([], decided_at):
        monitor = CertificateMonitor(**promised)
        for start, stop in zip([0, *cut], [*cut, 400], strict=True):
            monitor.decided(rows[start:stop])
        for part in np.split(order, [] if not cut else told_at):
            monitor.labelled(part, truth[part])
            monitor = CertificateMonitor.from_state(json.loads(json.dumps(monitor.state())))
        for part in np.split(order, [] if not cut else told_at):
            monitor.answered(part, truth[part])
        # What is not watched yet is told as it is when a call ends, so it depends on the calls.
        states.append(re.sub(r" Not watched: [^.]*\.", "", json.dumps(monitor.state())))
    assert states[0] == states[1]


def test_classes_that_are_numbers_survive_json():
    """JSON has text for the names of things; a class 1 must not come back as "1"."""
    rng = np.random.default_rng(28)
    monitor = CertificateMonitor(max_missed={1: 0.05, np.int64(0): 0.1}, share=1.0)
    again = CertificateMonitor.from_state(json.loads(json.dumps(monitor.state())))
    label = rng.integers(2, size=500)
    for one in (monitor, again):
        one.decided(Decisions(label, np.ones(500, bool), np.zeros(500, int), label, label))
        one.labelled(range(500), 1 - label)
        assert {alarm.what for alarm in one.alarms} == {"missed 1", "missed 0"}
    assert again.state() == monitor.state()


@pytest.fixture(scope="module")
def final():
    """Make a cascade before a final model, with a certificate of its agreement."""
    X, y, costs = make_costly_classification(6000, 2, class_sep=2.5, random_state=0)
    model = LogisticRegression().fit(X[:500], y[:500])
    design = StageDesign.from_stages([["s0"], ["s1"]])
    cascade = CascadeClassifier(design=design, costs=costs, threshold=0.9, final=model)
    cascade.fit(X[500:1000], model.predict(X[500:1000]))
    return cascade, certify(cascade, X[1000:3000], agreement=0.9), X[3000:], model


def test_a_certificate_of_agreement_is_watched_with_a_share(final):
    cascade, certificate, X, model = final
    monitor = CertificateMonitor.of(certificate, cascade, share=0.5, random_state=0)
    assert monitor.decided(cascade.decide(X)) == ()
    due = list(monitor.to_answer)
    assert monitor.answered(due, model.predict(X.iloc[due])) == ()
    assert monitor.not_watched == {}
    assert 0 < monitor.evidence["agreement"] < 1
    other = CertificateMonitor.of(certificate, cascade, share=0.5, random_state=0)
    other.decided(cascade.decide(X))
    assert names(other.answered(due, 1 - model.predict(X.iloc[due]))) == ["agreement"]


def test_a_certificate_of_agreement_without_a_share_is_said_not_to_be_watched(final):
    cascade, certificate, _, _ = final
    with pytest.warns(MonitorWarning, match="Not watched: agreement, which needs the final model"):
        monitor = CertificateMonitor.of(certificate, cascade)
    assert set(monitor.evidence) == {"coverage", "cost", "exits"}
    assert "set `share`" in monitor.not_watched["agreement"]
    assert "not watched: it needs the final model's answers" in repr(monitor)
    again = CertificateMonitor.from_state(json.loads(json.dumps(monitor.state())))
    assert again.not_watched == monitor.not_watched
    early = Decisions(np.zeros(900, int), [True] * 900, [0] * 900, [1.0] * 900, [0.1] * 900)
    assert monitor.decided(early)[0].message.endswith(" Not watched: agreement.")
    left = CertificateMonitor.of(certificate, cascade, agreement=None)
    assert left.not_watched == {"agreement": "it was left out"}


def test_a_certificate_of_shares_missed_is_watched_by_class(certified):
    cascade, _, X, y = certified
    certificate = certify(cascade, X[3000:4500], y[3000:4500], max_missed={1: 0.1})
    with pytest.warns(MonitorWarning, match="missed 1, which needs labels of a random share of al"):
        monitor = CertificateMonitor.of(certificate, cascade)
    assert set(monitor.not_watched) == {"missed 1"}
    monitor = CertificateMonitor.of(certificate, cascade, share=1.0)
    monitor.decided(cascade.decide(X[4500:]))
    assert monitor.labelled(range(1500), y[4500:]) == ()
    assert "missed 1" in monitor.evidence
    assert monitor.not_watched == {}


def test_coverage_and_cost_that_were_promised_are_watched_as_promised():
    """On few rows the error allowed to what they showed would be wider than the promise."""
    X, y, costs = make_costly_classification(1500, 2, class_sep=4, random_state=0)
    design = StageDesign.from_stages([["s0"], ["s1"]])
    cascade = CascadeClassifier(design=design, costs=costs, threshold=0.65).fit(X[:1000], y[:1000])
    certificate = certify(
        cascade, X[1000:1200], y[1000:1200], accuracy=0.8, min_coverage=0.95, max_cost=1.65
    )
    monitor = CertificateMonitor.of(certificate, cascade)
    watches = {watch.what: watch for watch in monitor._promises.watches()}
    assert watches["coverage"].means[0].bound == pytest.approx(0.05)
    assert watches["cost"].means[0].bound == pytest.approx(0.55)
    without = CertificateMonitor.of(certificate, cascade, coverage=None, cost=None)
    assert set(without.evidence) == {"accuracy", "exits"}
    assert without.not_watched == {"coverage": "it was left out", "cost": "it was left out"}


def test_a_monitor_that_has_nothing_to_watch_is_not_made():
    """A cascade that accepts nobody misses nobody, and is certified for it."""
    X, y, costs = make_costly_classification(1500, 2, random_state=0)
    cascade = CascadeClassifier(costs=costs, threshold=0.9999).fit(X[:500], y[:500])
    certificate = certify(cascade, X[500:], y[500:], max_missed={1: 0.05})
    assert certificate.candidates[0].evaluation.coverage == 0
    with pytest.raises(MonitorError, match="Nothing can be watched") as refused:
        CertificateMonitor.of(certificate, cascade)
    for reason in ("missed 1: it needs labels", "coverage: it cannot be", "cost: it cannot be"):
        assert reason in str(refused.value)
    assert set(CertificateMonitor.of(certificate, cascade, share=1.0).evidence) == {"missed 1"}


def test_promises_that_cannot_be_broken_are_said_not_to_be_watched():
    monitor = CertificateMonitor(accuracy=0.9, coverage=0.0, exits=(1.0,))
    assert set(monitor.evidence) == {"accuracy"}
    assert set(monitor.not_watched) == {"coverage", "exits"}
    assert repr(monitor).count("not watched: it cannot be broken") == 2
    with pytest.raises(MonitorError, match="Nothing can be watched"):
        CertificateMonitor(coverage=0.0)


# What is refused.


def everything():
    """Make a monitor that watches everything and has seen some rows."""
    rng = np.random.default_rng(30)
    monitor = CertificateMonitor(**PROMISED | MISSED | STAGES, agreement=0.9, random_state=0)
    monitor.decided(decisions(rng, 100))
    monitor.labelled(range(20), ["yes"] * 20)
    monitor.answered(range(20), ["yes"] * 20)
    return monitor


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ([["a"]], r"got \['a'\]"),
        ([("a", 1)], "JSON"),
        ([float("nan")], "got nan"),
        ([float("inf")], "got inf"),
        ([None], "got None"),
        ([pd.Timestamp("2024-01-01")], "Convert it to text"),
        ([b"a"], "got b'a'"),
        (np.array(["2024-01-01"], dtype="datetime64[D]"), "datetime.date"),
        (5, "must be a list, with one entry per row"),
    ],
)
def test_keys_that_cannot_be_kept_are_refused_before_anything_is_counted(keys, message):
    monitor = everything()
    before = json.dumps(monitor.state())
    single = Decisions(["yes"], [True], [0], [1.0], [1.0])
    for call in (
        lambda: monitor.decided(single, keys=keys),
        lambda: monitor.labelled(keys, ["no"]),
        lambda: monitor.answered(keys, ["no"]),
        lambda: monitor.give_up(keys),
    ):
        with pytest.raises(MonitorError, match=message):
            call()
        assert json.dumps(monitor.state()) == before


@pytest.mark.parametrize(
    "wrong", [1, 1.0, True, b"yes", ["yes"], np.array(["yes", "no"]), pd.Timestamp("2024-01-01")]
)
def test_labels_of_another_type_than_the_classes_are_refused_before_anything_is_counted(wrong):
    monitor = everything()
    before = json.dumps(monitor.state())
    for tell in (monitor.labelled, monitor.answered):
        with pytest.raises(MonitorError, match="the classes are text"):
            tell([30, 31, 32], ["yes", None, wrong])
        assert json.dumps(monitor.state()) == before


def test_text_for_numbers_is_refused_before_anything_is_counted():
    monitor = CertificateMonitor(accuracy=0.9)
    monitor.decided(Decisions([1, 0], [True] * 2, [0, 0], [1.0, 1.0], [1.0, 1.0]))
    before = monitor.state()
    with pytest.raises(MonitorError, match="the classes are numbers, got '1' for row 0"):
        monitor.labelled([0, 1], ["1", "0"])
    assert monitor.state() == before
    again = CertificateMonitor.from_state(json.loads(json.dumps(before)))
    with pytest.raises(MonitorError, match="the classes are numbers"):
        again.labelled([0], ["1"])
    with pytest.raises(MonitorError, match="the classes are numbers"):
        monitor.decided(Decisions(["1"], [True], [0], [1.0], [1.0]))
    assert monitor.state() == before
    monitor.labelled([0, 1], [np.float64(1), False])
    assert monitor.evidence["accuracy"] < 1, "numbers are equal whatever their type"


def test_decisions_of_other_classes_than_promised_are_refused():
    monitor = CertificateMonitor(max_missed={"1": 0.1}, share=1.0)
    before = monitor.state()
    with pytest.raises(MonitorError, match="the classes are text, got 1"):
        monitor.decided(Decisions([1], [True], [0], [1.0], [1.0]))
    mixed = Decisions(np.array(["a", 1], dtype=object), [True] * 2, [0, 0], [1.0] * 2, [1.0] * 2)
    with pytest.raises(MonitorError, match="the classes are text, got 1"):
        monitor.decided(mixed)
    dated = Decisions(np.array(["2024-01-01"], dtype="datetime64[D]"), [True], [0], [1.0], [1.0])
    with pytest.raises(MonitorError, match="text or numbers"):
        CertificateMonitor(accuracy=0.9).decided(dated)
    assert monitor.state() == before


@pytest.mark.parametrize(
    ("promised", "message"),
    [
        ({}, "Nothing is promised"),
        ({"accuracy": 95}, "`accuracy` must be from 0 to 1, got 95"),
        ({"coverage": -0.1}, "`coverage` must be from 0 to 1"),
        ({"coverage": 0.5, "tolerance": 2}, "`tolerance` must be from 0 to 1"),
        ({"cost": 5.0}, "`cost` must be between 0 and `total`"),
        ({"cost": 5.0, "total": 4.0}, "got 5.0 and 4.0"),
        ({"cost": float("nan"), "total": 4.0}, "`cost` must be"),
        ({"exits": (0.5, 0.4)}, "shares that sum to 1"),
        ({"exits": (1.5, -0.5)}, "shares that sum to 1"),
        ({"exits": ()}, "shares that sum to 1"),
        ({"accuracy": 0.9, "rows": 0}, "`rows` must be above 0"),
        ({"accuracy": 0.9, "candidates": 0}, "`candidates` must be at least 1"),
        ({"accuracy": 0.9, "alpha": 0}, "`alpha` must be between 0 and 1"),
        ({"accuracy": 0.9, "keep": 0}, "`keep` must be at least 1"),
        ({"agreement": 1.5, **STAGES}, "`agreement` must be from 0 to 1"),
        ({"agreement": 0.9, "share": 1.0}, "`agreement` needs `stages`"),
        ({"agreement": 0.9, "stages": 3}, "Nothing can be watched"),
        ({"accuracy": 0.9, "share": 0.5}, "`share` draws rows for"),
        ({"agreement": 0.9, "stages": 3, "share": 0.0}, "`share` must be above 0"),
        ({"agreement": 0.9, "random_state": -1, **STAGES}, "`random_state` must be a whole"),
        ({"agreement": 0.9, "exits": (0.5, 0.5), **STAGES}, "3 stages, but `exits` has 2"),
        ({"max_missed": {"a": 2.0}, "share": 1.0}, "`max_missed` of 'a' must be from 0 to 1"),
        ({"max_missed": {"a": 0.1, 1: 0.1}, "share": 1.0}, "the classes are text, got 1"),
        ({"max_missed": {(1,): 0.1}, "share": 1.0}, "text or numbers"),
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
    with pytest.raises(MonitorError, match="exited at stage 2, but 2 stages are expected"):
        monitor.decided(decisions(rng, 10, (0, 0, 1)))
    unpaid = Decisions(["yes"], [True], [0], [1.0], [float("nan")])
    with pytest.raises(MonitorError, match="finite cost"):
        monitor.decided(unpaid)
    with pytest.raises(MonitorError, match="1 keys but 2 labels"):
        monitor.labelled([1], ["yes", "no"])
    assert monitor.state() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 0}, "has the format 0"),
        ({"promised": {}}, "Nothing is promised"),
        ({"promised": {"speed": 1}}, "incomplete or altered"),
        ({"counts": {}}, "incomplete or altered"),
        ({"evidence": {"accuracy": [], "agreement": []}}, "incomplete or altered"),
        ({"evidence": {"accuracy": [{"seen": 1}], "agreement": []}}, "incomplete or altered"),
        ({"accepted": {"counted": 0, "forgotten": 0, "rows": [1]}}, "incomplete or altered"),
        ({"drawn": {}}, "incomplete or altered"),
    ],
)
def test_a_state_that_is_none_is_refused(change, message):
    state = CertificateMonitor(accuracy=0.9, agreement=0.9, stages=2, share=1.0).state()
    with pytest.raises(MonitorError, match=message):
        CertificateMonitor.from_state(state | change)
