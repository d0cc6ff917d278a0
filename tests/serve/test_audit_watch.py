"""The watch: a fair sample of labels reaches the monitor, each exactly once, despite crashes."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
import uuid
from contextlib import asynccontextmanager

import numpy as np
import pytest
from stores import POSTGRES, REDIS
from watching import summary as summary_of

from emsco import Decisions
from emsco.certify.monitor import CertificateMonitor
from emsco.exceptions import MonitorError, StateError
from emsco.serve.audit_cohorts import Audit
from emsco.serve.audit_watch import AuditWatch
from emsco.serve.model_monitor import by_decisions, by_labels
from emsco.serve.state import open_state

DAY = 86_400.0
MODEL = "digest"
EXITS = np.array([0.6, 0.25, 0.15])
COSTS = np.array([1.0, 6.0, 30.0])


class Clock:
    """A clock that stands still until it is advanced."""

    def __init__(self):
        self.now = 1_000_000 * DAY / 100

    def __call__(self):
        return self.now


@pytest.fixture(params=["sqlite", "postgresql", "redis"])
def address(request, tmp_path):
    """Return the URL of an unused state."""
    prefix = f"w{uuid.uuid4().hex[:12]}"
    store = {"postgresql": POSTGRES, "redis": REDIS}.get(request.param)
    return str(tmp_path / "state.sqlite") if store is None else f"{store}?prefix={prefix}"


@asynccontextmanager
async def opened(address, clock=None):
    state = await open_state(address, clock=clock)
    try:
        yield state
    finally:
        await state.close()


def monitor(**promised):
    """Promise what `decisions` fulfils, unless options say otherwise."""
    whole = {
        "accuracy": 0.9, "coverage": 0.9, "cost": float(EXITS @ COSTS), "total": 30.0,
        "exits": EXITS, "rows": 2000, "stages": 3,
    }  # fmt: skip
    return CertificateMonitor(**whole | promised)


def made(rng, n_rows, accuracy=0.95, fail=0.0, exits=EXITS, at=2):
    """Draw decisions and their true labels; where the source of a stage fails, rows end there."""
    stage = rng.choice(3, size=n_rows, p=exits)
    accepted = (stage < 2) | (rng.random(n_rows) < 1 / 3)
    failed = (stage >= at) & (rng.random(n_rows) < fail)
    stage = np.where(failed, at, stage)
    accepted &= ~failed
    label = rng.integers(2, size=n_rows)
    truth = np.where(rng.random(n_rows) < accuracy, label, 1 - label)
    reason = np.where(accepted, "", np.where(failed, "timeout: lab", "low confidence"))
    ones = np.ones(n_rows)
    return Decisions(label, accepted, stage, ones, COSTS[stage], reason.astype(object)), truth


def watch_of(state, clock, whole=None, **options):
    whole = monitor() if whole is None else whole
    given = {"model": MODEL, "label_after": 30 * DAY, "cohort": DAY, "audit": 0.5, "seed": 7}
    return AuditWatch(whole, state, clock=clock, **given | options)


def ids_of(call, n_rows):
    return [f"{call}-{row}" for row in range(n_rows)]


def test_rows_are_drawn_by_their_ids_alone():
    """In whatever portions; alike in every process; the share that was asked for."""
    audit, same, other = Audit(0.1, b"key"), Audit(0.1, b"key"), Audit(0.1, b"another key")
    ids = ids_of("call", 20_000)
    drawn = audit.drawn(ids)
    assert drawn == same.drawn(ids) == [i for i, one in enumerate(ids) if audit.is_drawn(one)]
    assert drawn == [i for start in range(0, 20_000, 10) for i in range(start, start + 10)
                     if audit.drawn([ids[i]])]  # fmt: skip
    assert 1_850 < len(drawn) < 2_150
    assert 140 < len({*drawn}.intersection(other.drawn(ids))) < 260
    calls = sum(audit.is_drawn(f"{call}-0") for call in range(20_000))
    assert 1_850 < calls < 2_150
    assert audit.drawn([]) == Audit(0.0, b"").drawn(ids) == []
    assert Audit(1.0, b"").drawn(ids[:5]) == [*range(5)]
    odd = ["no number", "-1", "a-²", f"a-{'9' * 400}", "\ud800-3", ""]
    assert audit.drawn(odd) == [i for i, one in enumerate(odd) if audit.is_drawn(one)]
    with pytest.raises(MonitorError, match="`audit` must be between 0 and 1"):
        Audit(1.5, b"")


def test_two_parts_alarm_as_the_whole_does():
    """Each promise has the share of alpha that it has in the whole."""
    rng = np.random.default_rng(0)
    whole, labels, traffic = monitor(), by_labels(monitor()), by_decisions(monitor())
    decisions, truth = made(rng, 3_000, accuracy=0.8, exits=[0.3, 0.3, 0.4])
    told = {alarm.what: alarm for alarm in whole.decided(decisions)}
    told |= {alarm.what: alarm for alarm in whole.labelled(range(3_000), truth)}
    parts = (*traffic.decided(decisions), *labels.decided(decisions))
    parts += labels.labelled(range(3_000), truth)
    assert {alarm.what for alarm in parts} == set(told) == {"accuracy", "coverage", "cost", "exits"}
    for alarm in parts:
        assert (alarm.at, alarm.evidence) == (told[alarm.what].at, told[alarm.what].evidence)
    assert by_labels(monitor(accuracy=None)) is None
    assert by_decisions(monitor(coverage=None, cost=None, exits=None)) is None
    with pytest.raises(MonitorError, match="use a new one"):
        by_labels(whole)


def test_labels_of_audited_rows_alone_count_in_the_order_of_decisions(address):
    """In any order and any number of times; the monitor ends up as if fed directly."""

    async def main():
        rng, clock = np.random.default_rng(1), Clock()
        expected = by_labels(monitor())
        audited, labels = 0, {}
        async with opened(address, clock) as state:
            watch = watch_of(state, clock)
            for day in range(4):
                decisions, truth = made(rng, 300)
                ids = ids_of(f"day{day}", 300)
                watch.decided(decisions, ids, MODEL)
                drawn = Audit(0.5, b"7").drawn(ids)
                audited += len(drawn)
                own = sorted(drawn, key=lambda i: ids[i])  # one moment: then by id
                expected.decided(decisions[own], keys=[ids[i] for i in own])
                expected.labelled([ids[i] for i in own], truth[own])
                labels |= dict(zip(ids, truth.tolist(), strict=True))
                await watch.work()
                clock.now += DAY
            # All wrong answers first, and one of them told wrongly at first.
            order = [*rng.permutation([*labels]).tolist()]
            first = next(one for one in order if Audit(0.5, b"7").is_drawn(one))
            await watch.feedback({first: 1 - labels[first]})
            counts = await watch.feedback([(one, labels[one]) for one in order])
            assert counts == {"used": audited, "not audited": 1200 - audited, "repeated": 0,
                            "late": 0, "unknown": 0, "unknown label": 0}  # fmt: skip
            again = await watch.feedback(labels)
            assert (again["used"], again["repeated"]) == (0, audited)
            await watch.work()
            assert summary_of(watch, MODEL)["audited"]["accepted"] == 0  # nothing before its time
            clock.now += 30 * DAY
            await watch.work()
            await watch.work()
            (followed,) = watch.models.values()
            total = followed.cohorts.value.total
            assert total.accepted + total.rejected == audited
            assert total.unlabelled == total.failed == 0
            accepted = [one for one in order if Audit(0.5, b"7").is_drawn(one)]
            assert total.accuracy == total.accuracy_at_worst
            assert len(followed.cohorts.value.recent) == 4
            assert len(accepted) == audited
            found = followed.cohorts.value.monitor
            assert found.evidence == expected.evidence
            assert found.counts["labelled"] == expected.counts["labelled"]
            late = await watch.feedback(labels)
            assert (late["late"], late["used"]) == (audited, 0)
            assert found.state() == followed.cohorts.value.monitor.state()

    asyncio.run(main())


def test_what_has_no_label_is_shown_and_not_guessed(address):
    """With the accuracy of labelled rows, and the accuracy if all others were wrong."""

    async def main():
        clock = Clock()
        async with opened(address, clock) as state:
            watch = watch_of(state, clock, audit=1.0)
            n_rows = 100
            accepted = np.arange(n_rows) < 80
            reason = np.where(accepted, "", "low confidence").astype(object)
            reason[90:] = "circuit open: lab"
            label, ones = np.full(n_rows, "ok"), np.ones(n_rows)
            watch.decided(Decisions(label, accepted, np.zeros(n_rows, int), ones, ones, reason),
                          ids_of("c", n_rows), MODEL)  # fmt: skip
            await watch.feedback({f"c-{row}": "bad" if row < 3 else "ok" for row in range(60)})
            marked = await state.due(clock.now + 1)
            left = [row for row in marked if row.truth is None]
            assert sorted(int(row.id[2:]) for row in left) == [*range(60, 100)]
            await watch.feedback({f"c-{row}": "ok" for row in range(80, 84)})
            clock.now += 40 * DAY
            await watch.work()
            summary = summary_of(watch, MODEL)
            audited = summary["audited"]
            assert audited["unlabelled"] == 20 + 6
            assert audited["failed"] == 10
            assert (audited["accuracy"], audited["accuracy_at_worst"]) == (57 / 60, 57 / 80)
            decided = {"rows": 100, "accepted": 80, "rejected": 10, "failed": 10}
            assert summary["decided"] == decided
            (cohort,) = summary["cohorts"]
            assert {**cohort, "begin": 0, "end": 0} == {**audited, "begin": 0, "end": 0}
            assert cohort["end"] - cohort["begin"] == DAY
            json.dumps(summary)
            # What is given up waits for nothing: the state does not grow with it.
            (followed,) = watch.models.values()
            assert followed.cohorts.value.monitor.counts["waiting"] == 0

    asyncio.run(main())


def test_two_processes_count_every_row_once(address):
    """Both write, count and close at the same time."""

    async def main():
        rng, clock = np.random.default_rng(2), Clock()
        async with opened(address, clock) as one, opened(address, clock) as two:
            watches = [watch_of(state, clock, seed=None) for state in (one, two)]
            for watch in watches:
                await watch.start()
            assert watches[0]._audit.drawn(ids_of("x", 500)) == watches[1]._audit.drawn(
                ids_of("x", 500)
            )
            labels = {}
            for call in range(10):
                for number, watch in enumerate(watches):
                    decisions, truth = made(rng, 50)
                    ids = ids_of(f"{number}-{call}", 50)
                    watch.decided(decisions, ids, MODEL)
                    labels |= dict(zip(ids, truth.tolist(), strict=True))
                await asyncio.gather(*(watch.work() for watch in watches))
                clock.now += DAY
            counts = await watches[0].feedback(labels)
            assert counts["unknown"] == 0
            clock.now += 30 * DAY
            await asyncio.gather(*(watch.work() for watch in watches))
            for watch in watches:
                await watch.work()
                summary = summary_of(watch, MODEL)
                assert summary["decided"]["rows"] == 1000
                audited = summary["audited"]
                assert audited["accepted"] + audited["rejected"] == counts["used"]
                assert audited["unlabelled"] == 0
                await watch.stop()

    asyncio.run(main())


class Faulty:
    """A real state that loses its connection at one call, before or after the store has done it."""

    def __init__(self, state, at, after):
        self._state, self._left, self._after = state, at, after

    def heal(self):
        """Lose nothing any more."""
        self._left = 0

    def __getattr__(self, name):
        method = getattr(self._state, name)

        async def call(*given, **named):
            self._left -= 1
            is_lost = not self._left
            if is_lost and not self._after:
                raise StateError("The connection was lost before.")
            done = await method(*given, **named)
            if is_lost:
                raise StateError("The connection was lost after.")
            return done

        return call


@pytest.mark.parametrize("dies", [False, True], ids=["goes on", "dies"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_whatever_is_lost_nothing_is_counted_twice(tmp_path, after, dies):
    """At every single call to the state; this process continues, or another one."""

    async def story(path, at):
        rng, clock = np.random.default_rng(3), Clock()
        async with opened(str(path), clock) as state:
            faulty = Faulty(state, at, after)
            watch, labels, lost = watch_of(faulty, clock), {}, False
            for call in range(2):
                decisions, truth = made(rng, 6)
                ids = ids_of(f"c{call}", 6)
                watch.decided(decisions, ids, MODEL)
                labels |= dict(zip(ids, truth.tolist(), strict=True))
                for step in ("work", "feedback", "work"):
                    try:
                        await (watch.feedback(labels) if step == "feedback" else watch.work())
                    except StateError:
                        lost = True
                        if dies:
                            watch = watch_of(state, clock)
                clock.now += 32 * DAY
            faulty.heal()
            await watch.feedback(labels)
            await watch.work()
            marked = await state.due(clock.now)
            return summary_of(watch, MODEL), len(marked), lost

    async def main():
        whole, n_marked, _ = await story(tmp_path / "whole", 10**9)
        assert whole["decided"]["rows"] == 12
        for at in range(1, 1000):
            told, marked, lost = await story(tmp_path / f"{at}", at)
            if not lost:
                break
            audited = told["audited"]
            counted = audited["accepted"] + audited["rejected"]
            assert counted == marked <= n_marked
            assert told["decided"]["rows"] <= 12
            if not dies:
                assert told["decided"] == whole["decided"]
                assert marked == n_marked
        assert at > 20

    asyncio.run(main())


CHILD = """
import asyncio, sys, itertools, os
import numpy as np
from emsco import Decisions
from emsco.serve.state import open_state
from emsco.serve.audit_watch import AuditWatch

async def main(path):
    state = await open_state(path)
    watch = AuditWatch(None, state, model="m", audit=0.5, label_after=0.2, cohort=0.1)
    await watch.start()
    run = os.getpid()
    for call in itertools.count():
        ones = np.ones(5)
        decisions = Decisions(np.ones(5, int), np.ones(5, bool), np.zeros(5, int), ones, ones)
        watch.decided(decisions, [f"{run}-{call}-{row}" for row in range(5)], "m")
        await asyncio.sleep(0.002)
        if call % 20 == 19:
            await watch.work()
            print(call, flush=True)

asyncio.run(main(sys.argv[1]))
"""


def test_a_process_that_is_killed_leaves_nothing_counted_twice(tmp_path):
    """With SIGKILL, while it writes, counts and closes; the next one continues."""
    path = str(tmp_path / "state.sqlite")
    for run in range(3):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, path], stdout=subprocess.PIPE, text=True
        )
        for _ in range(2):
            assert child.stdout.readline()
        time.sleep(0.013 * run)
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()

    async def main():
        async with opened(path) as state:
            watch = AuditWatch(None, state, model="m", audit=0.5, label_after=0.2, cohort=0.1)
            await watch.start()
            await asyncio.sleep(0.5)
            await watch.work()
            summary = summary_of(watch, "m")
            await watch.stop()
            marked = await state.due(time.time())
            assert len({row.id for row in marked}) == len(marked) > 100
            assert summary["audited"]["accepted"] == len(marked)
            assert summary["decided"]["rows"] >= 3 * 2 * 100

    asyncio.run(main())


def test_an_outage_is_no_drift_and_drift_is_noticed(tmp_path):
    """Rows with failing sources are counted separately; a change of the rows raises an alarm."""

    async def main():
        rng, clock = np.random.default_rng(4), Clock()
        async with opened(str(tmp_path / "state"), clock) as state:
            watch = watch_of(state, clock)
            number = 0

            async def decide(n_rows, **how):
                nonlocal number
                for _ in range(n_rows // 500):
                    number += 1
                    watch.decided(made(rng, 500, **how)[0], ids_of(f"c{number}", 500), MODEL)
                await watch.work()

            await decide(5_000)
            await decide(20_000, fail=1.0)  # the last source is down, for long
            assert watch.alarms == ()
            await decide(20_000, fail=1.0, at=1)  # one before it: nobody comes to the last stage
            assert watch.alarms == ()
            summary = summary_of(watch, MODEL)["decided"]
            assert summary["failed"] > 2_500
            assert (
                sum(summary[name] for name in ("accepted", "rejected", "failed")) == summary["rows"]
            )
            await decide(3_000, exits=[0.4, 0.2, 0.4])
            assert "exits" in {alarm.what for alarm in watch.alarms_of(MODEL)}
            assert watch.alarms_of("another") == ()
            # Whoever starts next knows of it.
            again = watch_of(state, clock)
            await again.start()
            assert again.alarms == watch.alarms
            await again.stop()

    asyncio.run(main())


def test_rows_taken_for_what_they_are_would_make_an_outage_look_like_drift():
    """Shows that the test above can fail."""
    rng = np.random.default_rng(4)
    plain = by_decisions(monitor())
    plain.decided(made(rng, 20_000, fail=1.0)[0])
    assert {alarm.what for alarm in plain.alarms} == {"coverage"}
    without = by_decisions(monitor())
    decisions = made(rng, 20_000, fail=1.0)[0]
    kept = np.array(["timeout" not in reason for reason in decisions.reason])
    without.decided(decisions[kept])
    assert {alarm.what for alarm in without.alarms} == {"exits"}


@pytest.mark.parametrize("drift", [False, True])
def test_agreement_is_watched_by_answers_of_the_final_model(tmp_path, drift):
    """Rows that leave at the last stage agree; those that failing sources reject prove nothing."""

    async def main():
        rng, clock = np.random.default_rng(5), Clock()
        promised = CertificateMonitor(
            agreement=0.9, exits=EXITS, rows=2000, share=1.0, random_state=0
        )
        async with opened(str(tmp_path / "state"), clock) as state:
            watch = watch_of(state, clock, promised, audit=1.0)
            decisions, _ = made(rng, 2_000, fail=0.9)
            accepted = np.array(["timeout" not in reason for reason in decisions.reason])
            reason = np.where(accepted, "", decisions.reason).astype(object)
            decisions = Decisions(decisions.label, accepted, decisions.exit_stage,
                                  decisions.confidence, decisions.cost, reason)  # fmt: skip
            differs = rng.random(2_000) < (0.2 if drift else 0.05)
            answers = np.where(differs, 1 - decisions.label, decisions.label)
            watch.decided(decisions, ids_of("c", 2_000), MODEL)
            known = {
                f"c-{row}": int(answers[row]) for row in range(2_000) if row % 20
            }  # some never come
            await watch.feedback(known)
            clock.now += 40 * DAY
            await watch.work()
            assert [alarm.what for alarm in watch.alarms] == ["agreement"] * drift
            monitors = watch.models[MODEL].monitors
            assert not any("agreement" in one.not_watched for one in monitors)

    asyncio.run(main())


@pytest.mark.parametrize("drift", [False, True])
def test_shares_missed_are_watched_by_accepted_and_rejected_rows(tmp_path, drift):
    """Of each class, accepted under another label."""

    async def main():
        rng, clock = np.random.default_rng(6), Clock()
        promised = CertificateMonitor(
            accuracy=0.7, max_missed={0: 0.1, 1: 0.1}, share=1.0, random_state=0
        )
        async with opened(str(tmp_path / "state"), clock) as state:
            watch = watch_of(state, clock, promised, audit=1.0, classes=[0, 1])
            decisions, truth = made(rng, 3_000, accuracy=0.8 if drift else 0.95)
            watch.decided(decisions, ids_of("c", 3_000), MODEL)
            await watch.feedback({f"c-{row}": int(truth[row]) for row in range(2_900)})
            clock.now += 40 * DAY
            await watch.work()
            assert {alarm.what for alarm in watch.alarms} == (
                {"missed 0", "missed 1"} if drift else set()
            )

    asyncio.run(main())


def test_labels_that_cannot_be_are_refused_and_nothing_is_taken(tmp_path):
    """Wrong type, unknown class, not a label; one that gets in anyway is ignored."""

    async def main():
        clock = Clock()
        async with opened(str(tmp_path / "state"), clock) as state:
            watch = watch_of(state, clock, audit=1.0, classes=[0, 1])
            one = Decisions([1, 0], [True, True], [0, 0], [1.0, 1.0], [1.0, 1.0])
            unseen = await watch.feedback({"c-1": "0"})  # before its decision is known
            assert unseen["unknown label"] == 1
            watch.decided(one, ["c-0", "c-1"], MODEL)
            for label in ("1", 7):
                told = await watch.feedback({"c-0": label})
                assert (told["unknown label"], told["used"]) == (1, 0)
            for label, told in ((None, "text or numbers, got None"), (float("nan"), "got nan"),
                                ([1], r"got \[1\]")):  # fmt: skip
                with pytest.raises(MonitorError, match=told):
                    await watch.feedback({"c-1": 0, "c-0": label})
            assert [row.truth for row in await state.marked(["c-0", "c-1"])].count(0) == 0
            assert (await watch.feedback({"c-0": 1.0}))["used"] == 1
            clock.now += 40 * DAY
            await watch.work()
            audited = summary_of(watch, MODEL)["audited"]
            assert (audited["labelled"], audited["right"], audited["unlabelled"]) == (1, 1, 1)

    asyncio.run(main())


def test_other_promises_begin_anew_and_count_no_row_again(tmp_path):
    """A model that is certified again has a monitor without alarms, for rows not counted yet."""

    async def main():
        rng, clock = np.random.default_rng(7), Clock()
        async with opened(str(tmp_path / "state"), clock) as state:
            watch = watch_of(state, clock, audit=1.0)

            async def a_month(watch, call, accuracy):
                decisions, truth = made(rng, 1_000, accuracy)
                watch.decided(decisions, ids_of(call, 1_000), MODEL)
                given = zip(ids_of(call, 1_000), truth.tolist(), strict=True)
                await watch.feedback(dict(given))
                clock.now += 31 * DAY
                await watch.work()

            await a_month(watch, "bad", 0.7)
            assert [alarm.what for alarm in watch.alarms] == ["accuracy"]
            anew = watch_of(state, clock, monitor(accuracy=0.6), audit=1.0)
            await anew.start()
            await anew.work()
            assert anew.alarms == ()
            await a_month(anew, "same", 0.7)
            assert anew.alarms == ()
            (followed,) = anew.models.values()
            assert followed.cohorts.value.monitor.counts["decided"] == 1_000
            assert followed.cohorts.value.total.accepted > 1_700
            anew.follow(MODEL, monitor(accuracy=0.6))  # the same promises: the monitor goes on
            await anew.work()
            (followed,) = anew.models.values()
            assert followed.cohorts.value.monitor.counts["decided"] == 1_000
            anew.follow(MODEL, monitor(accuracy=0.8))
            await a_month(anew, "third", 0.7)
            (followed,) = anew.models.values()
            assert followed.cohorts.value.monitor.counts["decided"] == 1_000
            assert [alarm.what for alarm in anew.alarms] == ["accuracy"]
            assert summary_of(anew, MODEL)["decided"]["rows"] == 3_000
            await anew.stop()

    asyncio.run(main())


def test_a_state_that_does_not_answer_stops_no_decision(tmp_path, capsys):
    """Marks wait, and are written when it responds again."""

    async def main():
        async with opened(str(tmp_path / "state")) as state:
            watch = watch_of(state, time.time, audit=1.0)
            await watch.start()
            broken = Faulty(state, 1, after=False)
            watch._state = broken
            one = Decisions([1], [True], [0], [1.0], [1.0])
            watch.decided(one, ["c-0"], MODEL)
            while not watch.counts["failures"]:
                await asyncio.sleep(0.01)
            watch.decided(one, ["d-0"], MODEL)
            while len(await state.marked(["c-0", "d-0"])) < 2:
                await asyncio.sleep(0.01)
            await watch.stop()

    asyncio.run(asyncio.wait_for(main(), 30))
    (line,) = capsys.readouterr().err.splitlines()
    told = json.loads(line)
    assert told["event"] == "watch failed"
    assert told["error"].startswith("StateError at ")


def test_what_is_left_is_written_when_it_stops(tmp_path):
    """A service that is stopped loses nothing."""

    async def main():
        async with opened(str(tmp_path / "state")) as state:
            watch = watch_of(state, time.time, audit=1.0)
            await watch.start()
            watch.decided(Decisions([1], [True], [0], [1.0], [1.0]), ["c-0"], MODEL)
            watch.decided(Decisions(["a"], [False], [0], [1.0], [1.0]), ["d-0"], "unknown model")
            await watch.stop()
            assert {row.id: row.model for row in await state.marked(["c-0", "d-0"])} == {
                "c-0": MODEL, "d-0": "unknown model",
            }  # fmt: skip
            again = watch_of(state, time.time)
            await again.start()
            assert summary_of(again, MODEL)["decided"]["rows"] == 1
            await again.stop()

    asyncio.run(main())
