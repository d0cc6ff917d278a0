"""Spot checks in a service: what goes out, what is checked, and what happens when things fail."""

from __future__ import annotations

import asyncio
import threading
import uuid

import numpy as np
import pandas as pd
import pytest
from own_redis import own_redis
from served import BUREAU, COSTS, KEYS, LABELS, Store, X, post, raw, served, wait_for
from sklearn.linear_model import LogisticRegression
from stores import REDIS

from emsco import CascadeClassifier, StageDesign, dump
from emsco.cascade.fingerprint import final_fingerprint
from emsco.certify.check_rate import chance
from emsco.exceptions import ServiceError, StateError
from emsco.serve.audit_watch import AuditWatch
from emsco.serve.canary import make_canary
from emsco.serve.check_period import CHANGED
from emsco.serve.check_plan import expected_arrivals, expected_disagreements, plan_checks
from emsco.serve.deployment import Deployment
from emsco.serve.incarnation import begin, witness_of
from emsco.serve.metrics import Metrics
from emsco.serve.settings import Settings
from emsco.serve.state import open_state
from emsco.serve.stream_checks import DISAGREEMENTS, draw_coin

FRAME = pd.DataFrame(X, columns=["x0", "x1"])
FINAL = LogisticRegression().fit(FRAME, LABELS)
DESIGN = StageDesign.from_stages([["page"], ["bureau"]])


def make_checked(threshold=0.7, final=FINAL):
    cascade = CascadeClassifier(design=DESIGN, costs=COSTS, threshold=threshold, final=final)
    return cascade.fit(FRAME, LABELS)


CASCADE = make_checked()
DECIDED, ANSWERS = CASCADE.decide(FRAME), FINAL.predict(FRAME)
IS_CHEAP = DECIDED.exit_stage == 0
SAME = [KEYS[i] for i in np.flatnonzero(IS_CHEAP & (DECIDED.label == ANSWERS))]
OTHER = [KEYS[i] for i in np.flatnonzero(IS_CHEAP & (DECIDED.label != ANSWERS))]
UNSURE = [KEYS[i] for i in np.flatnonzero(~IS_CHEAP)]
PROMISE = {"max_changed": 5, "per": "1000", "confidence": 0.9}
LET_OUT, CHECKED = 0.999999, 0.0


class Coins:
    """Coins in a given order; the last one is drawn again and again."""

    def __init__(self, *coins):
        self.coins, self.drawn = list(coins), 0

    def __call__(self):
        self.drawn += 1
        return self.coins[0] if len(self.coins) == 1 else self.coins.pop(0)


def checks(folder, store, *coins, **settings):
    return served(folder, store.sources, cascade=settings.pop("cascade", CASCADE),
                  coin=Coins(*coins), **PROMISE | settings)  # fmt: skip


def decide(one, *keys):
    response = one.decide(keys=list(keys))
    assert response.status_code == 200, response.text
    return response.json()["decisions"]


def standing(one):
    """Give where the period stands, as clients see it, once all ends of checks are written."""
    one.run(one.service.stream.look())
    return one.client.get("/v1/model").json()["spot_checks"]


def settled(one, **expected):
    wait_for(lambda: {n: standing(one)[n] for n in expected} == expected, 5)


def test_there_are_rows_of_every_kind():
    assert min(len(SAME), len(OTHER), len(UNSURE)) > 10


def test_a_coin_decides_whether_a_cheap_answer_goes_out(tmp_path):
    store = Store()
    with checks(tmp_path, store, LET_OUT, CHECKED, LET_OUT) as one:
        quick, checked, other = decide(one, *SAME[:2], OTHER[0])
        assert [row["exit_stage"] for row in (quick, checked, other)] == [0, 1, 0]
        assert store.asked["bureau"] == [SAME[1]]
        assert (quick["cost"], checked["cost"]) == (1.0, 6.0)
        assert checked["label"] == ANSWERS[KEYS.index(SAME[1])]
        assert other["label"] != ANSWERS[KEYS.index(OTHER[0])]
        settled(one, known=0, under_way=0, cheap=2, checked=1, final=0, open=True, closed="")


def test_rows_that_no_stage_accepts_need_no_coin(tmp_path):
    """Nor do those that are rejected: none of them has a cheap answer."""
    store, coin = Store(), Coins(LET_OUT)
    with served(tmp_path, store.sources, cascade=CASCADE, coin=coin, **PROMISE) as one:
        rows = decide(one, *UNSURE[:5], "nobody")
        assert [row["exit_stage"] for row in rows[:5]] == [1] * 5
        assert rows[5]["reason"] == "missing: page"
        assert coin.drawn == 0
        assert standing(one)["period"] is None
        decide(one, SAME[0])
        assert (coin.drawn, standing(one)["rows"]) == (1, 1)


def test_after_too_many_disagreements_the_final_model_answers(tmp_path, capfd):
    store = Store()
    with checks(tmp_path, store, CHECKED) as one:
        tolerated = one.service.stream.plan.tolerated
        for key in OTHER[: tolerated + 1]:
            (row,) = decide(one, key)
            assert row["label"] == ANSWERS[KEYS.index(key)]
            wait_for(lambda: standing(one)["under_way"] == 0, 5)
        settled(one, known=tolerated + 1, closed=DISAGREEMENTS, open=False)
        store.asked["bureau"].clear()
        one.service.stream._coin = Coins(LET_OUT)
        rows = decide(one, *SAME[:20])
        assert store.asked["bureau"] == SAME[:20]
        assert [row["exit_stage"] for row in rows] == [1] * 20
        settled(one, final=20)
    events = capfd.readouterr().err
    assert '"event": "period closed"' in events
    assert '"closed": "disagreements"' in events


def test_more_rows_of_one_request_than_may_be_under_way_are_left_to_the_final_model(tmp_path):
    """They are admitted one after another, although the state is asked once."""
    with checks(tmp_path, Store(), CHECKED) as one:
        tolerated = one.service.stream.plan.tolerated
        decide(one, *SAME[:30])
        settled(one, checked=tolerated + 1, final=30 - tolerated - 1, known=0)


def test_the_same_id_has_one_coin_and_counts_once(tmp_path):
    store, coin = Store(), Coins(LET_OUT, CHECKED)
    with served(tmp_path, store.sources, cascade=CASCADE, coin=coin, **PROMISE) as one:
        answers = [one.decide(key=SAME[0], id="order-1").json() for _ in range(3)]
        assert answers[0] == answers[1] == answers[2]
        settled(one, rows=1, cheap=1)
        assert coin.drawn == 1


@pytest.mark.parametrize("name", ["with an id", "without"])
def test_a_check_goes_on_if_the_caller_hangs_up(name, tmp_path):
    """Otherwise one who sees that an answer takes longer could have only those checked agree."""
    store = Store()
    store.holds["bureau"] = threading.Event()
    with checks(tmp_path, store, CHECKED) as one:
        body = {"key": OTHER[0]} | ({"id": "order-1"} if name == "with an id" else {})
        with pytest.raises(TimeoutError):
            raw(one.address, post("/v1/decide", body), timeout=0.5)
        settled(one, under_way=1)
        store.holds["bureau"].set()
        settled(one, under_way=0, known=1)
        assert store.asked["bureau"] == [OTHER[0]]


def test_a_caller_who_hangs_up_before_a_coin_was_drawn_cancels_the_decision(tmp_path):
    store = Store()
    store.holds["page"] = threading.Event()
    with checks(tmp_path, store, CHECKED) as one:
        with pytest.raises(TimeoutError):
            raw(one.address, post("/v1/decide", {"key": OTHER[0]}), timeout=0.5)
        wait_for(lambda: not one.service.stream._calls, 5)
        store.holds["page"].set()
        assert standing(one)["period"] is None
        assert store.asked["bureau"] == []


def test_a_check_that_fails_counts_as_a_disagreement(tmp_path):
    """Here its source does; what the final model would have said is never known."""
    store = Store()
    with checks(tmp_path, store, CHECKED) as one:
        row = BUREAU.pop(SAME[0])  # the vendor does not know it any more
        try:
            (given,) = decide(one, SAME[0])
        finally:
            BUREAU[SAME[0]] = row
        assert given["reason"] == "missing: bureau"
        settled(one, known=1, under_way=0)


def test_checks_that_are_cut_off_at_the_end_are_disagreements(tmp_path):
    store = Store()
    store.holds["bureau"] = threading.Event()
    with checks(tmp_path, store, CHECKED, drain=0.3) as one:
        with pytest.raises(TimeoutError):
            raw(one.address, post("/v1/decide", {"key": SAME[0]}), timeout=0.3)
        settled(one, under_way=1)
    store.holds["bureau"] = None
    with checks(tmp_path, store, LET_OUT) as one:
        assert standing(one)["known"] == 1  # also after a restart


def test_if_nobody_knows_what_was_written_the_final_model_answers(tmp_path, capfd):
    """And what may have been written is ended by its outcome."""
    store = Store()
    with checks(tmp_path, store, LET_OUT, LET_OUT, CHECKED, LET_OUT) as one:
        decide(one, SAME[0])
        state = one.service.state
        turn, failures = state.turn, []

        async def loses_replies(steps, terms):
            taken = await turn(steps, terms)
            if len(failures) < 2:
                failures.append(steps)
                raise StateError("The reply was lost.")
            return taken

        state.turn = loses_replies
        (row,) = decide(one, SAME[1])  # written as a cheap answer
        assert row["exit_stage"] == 1
        wait_for(lambda: len(failures) == 2, 5)
        state.turn = turn
        settled(one, cheap=2, under_way=0)
        failures.clear()
        state.turn = loses_replies
        (row,) = decide(one, OTHER[0])  # written as a check
        assert row["exit_stage"] == 1
        settled(one, checked=1, known=1, under_way=0)
        (row,) = decide(one, SAME[2])
        assert row["exit_stage"] == 0
    assert '"event": "spot checks", ' in capfd.readouterr().err


def test_a_state_that_does_not_answer_is_not_waited_for(tmp_path):
    store = Store()
    with checks(tmp_path, store, LET_OUT) as one:
        turn, held = one.service.state.turn, asyncio.Event()

        async def waits(steps, terms):
            await held.wait()
            return await turn(steps, terms)

        one.service.state.turn = waits
        one.service.stream._patience = 0.1
        (row,) = decide(one, SAME[0])
        assert row["exit_stage"] == 1

        async def release():
            held.set()

        one.run(release())
        settled(one, cheap=1)  # it was written in the end, for an answer that did not go out


def test_another_final_model_closes_the_period_and_other_stages_do_not(tmp_path):
    store = Store()
    with checks(tmp_path, store, LET_OUT) as one:
        decide(one, SAME[0])
        for cascade, closed in ((make_checked(0.75), ""),
                                (make_checked(final=LogisticRegression(C=0.5).fit(FRAME, LABELS)),
                                 CHANGED)):  # fmt: skip
            service = one.service
            made = Deployment.make(cascade, store.sources, service.settings, service.state)
            new = one.run(made)

            async def take(new=new, service=service):
                service.replace(new)

            one.run(take())
            decide(one, SAME[0])
            settled(one, closed=closed, rows=2 if not closed else 3)


def test_the_fingerprint_of_a_final_model_is_that_of_no_other_stage():
    same, other = make_checked(0.9), make_checked(final=LogisticRegression(C=2).fit(FRAME, LABELS))
    own = final_fingerprint(CASCADE.decider_)
    assert own == final_fingerprint(same.decider_)
    assert own != final_fingerprint(other.decider_)


def test_the_watch_sees_what_the_cascade_decides_whether_it_is_checked_or_not(tmp_path):
    """Checks are no change of rows: they raise no alarm of exits, cost or agreement."""
    seen = []

    def watch(deployed, state):
        made = AuditWatch(None, state, model=deployed.digest)
        decided = made.decided
        made.decided = lambda decisions, *args, **more: (
            seen.append(decisions), decided(decisions, *args, **more)
        )  # fmt: skip
        return made

    with checks(tmp_path, Store(), CHECKED, watch=watch) as one:
        keys = [OTHER[0], SAME[0], UNSURE[0]]
        given = decide(one, *keys)
        assert [row["exit_stage"] for row in given] == [1, 1, 1]
        (watched,) = seen
        places = [KEYS.index(key) for key in keys]
        for name in ("label", "exit_stage", "cost", "confidence", "accepted", "reason"):
            expected = getattr(DECIDED[places], name)
            assert getattr(watched, name).tolist() == pytest.approx(expected.tolist()), name
        assert one.service.watch.standing()["period"] == 0


def test_metrics_say_where_the_period_stands(tmp_path):
    with checks(tmp_path, Store(), CHECKED, LET_OUT) as one:
        metrics = Metrics()
        metrics.stream(one.service.stream)  # before any row
        decide(one, OTHER[0], SAME[0])
        settled(one, known=1)
        metrics.stream(one.service.stream)
        value = metrics.registry.get_sample_value
        assert value("emsco_period_known") == value("emsco_period_rows", {"what": "cheap"}) == 1
        assert value("emsco_period_closed", {"reason": DISAGREEMENTS}) == 0
        assert 0 < value("emsco_period_ceiling") < 1
        assert value("emsco_period_check_rate") == one.service.stream.plan.rate


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"per": ""}, "belong together"),
        ({"max_changed": None}, "belong together"),
        ({"per": "fortnight"}, "--per must be a number of rows, or one of minute, hour, day, got"),
        ({"per": "0"}, "--per must be a number of rows"),
        ({"max_changed": 0}, "with 0, every row would be checked"),
        ({"max_changed": 1000}, "promises nothing"),
        ({"confidence": 1.0}, "--confidence must be between 0 and 1, got 1"),
        ({"shadow": True, "log": ".", "log_values": True}, "--max-changed and --shadow cannot"),
    ],
)
def test_a_promise_that_cannot_be_made_is_refused(changed, message):
    with pytest.raises(ServiceError, match=message):
        Settings(**PROMISE | changed)


def test_models_that_cannot_be_checked_are_refused(tmp_path):
    async def make(cascade, **settings):
        return await Deployment.make(cascade, Store().sources, Settings(**PROMISE | settings))

    plain = CascadeClassifier(design=DESIGN, costs=COSTS).fit(FRAME, LABELS)
    with pytest.raises(ServiceError, match="needs a model whose last stage is a final model"):
        asyncio.run(make(plain))
    with pytest.raises(ServiceError, match="--max-cost must be at least 6 with --max-changed"):
        asyncio.run(make(CASCADE, max_cost=5.0))

    async def with_canary():
        deployed = await make(CASCADE)
        other = await make(make_checked(final=LogisticRegression(C=0.5).fit(FRAME, LABELS)))
        await make_canary(other, deployed, Settings(**PROMISE, canary=tmp_path), None)

    with pytest.raises(ServiceError, match="the canary must have the same final model"):
        asyncio.run(with_canary())
    dump(CASCADE, tmp_path / "model.emsco")  # a file keeps the final model, and so its fingerprint
    loaded = asyncio.run(Deployment.load(
        Settings(**PROMISE, model=tmp_path / "model.emsco", sources=_sources(tmp_path))
    ))  # fmt: skip
    assert loaded.final == final_fingerprint(CASCADE.decider_)


def _sources(folder):
    path = folder / "sources.toml"
    path.write_text('[page]\nkind = "known"\n\n[bureau]\nkind = "known"\n')
    return path


def test_coins_are_fresh_and_no_rate_is_rounded_down():
    drawn = {draw_coin() for _ in range(1000)}
    assert len(drawn) == 1000
    assert 0 <= min(drawn) < 0.05 < 0.95 < max(drawn) < 1


@pytest.mark.parametrize("arrivals", [1.0, 20.0, 500.0])
@pytest.mark.parametrize("expected", [0.0, 25.0, 10_000.0])
def test_every_plan_keeps_the_promise(arrivals, expected):
    for most, error in ((1, 0.01), (100, 0.01), (10_000, 0.001)):
        plan = plan_checks(most, error, arrivals, expected)
        assert chance(most, plan.tolerated, plan.rate) <= error
        least = (1 - plan.rate) * min(1, (plan.tolerated + 1) / plan.rate / arrivals)
        assert plan.ceiling == pytest.approx(least)


def test_a_plan_follows_what_was_measured():
    assert expected_arrivals(29, 1, 12.0) == 12.0
    assert expected_arrivals(30, 30 * 123, 12.0) == 120.0
    assert expected_arrivals(1000, 0, 12.0) == 1.0
    assert expected_disagreements(5, 5, 10_000, 25.0) == 25.0
    assert expected_disagreements(999, 9, 10_000, 25.0) == 95.0


def test_a_store_that_does_not_say_when_it_restarts_is_refused(tmp_path):
    """It may have lost its last writes, and nobody would notice."""

    async def run(url):
        settings = Settings(**PROMISE, state=url, deployment="tests", allow_volatile_state=True)
        state = await open_state(url, deployment="tests")
        try:
            await begin(state)
            await witness_of(settings, [], state)
        finally:
            await state.close()

    with (
        own_redis(tmp_path, "--rename-command", "INFO", "") as own,
        pytest.raises(ServiceError, match="needs a store that says when it was restarted"),
    ):
        asyncio.run(run(own.url))


def test_a_shared_state_without_an_incarnation_is_refused():
    """A new one and one that was emptied look alike."""

    async def run():
        url = f"{REDIS}?prefix=t{uuid.uuid4().hex[:12]}"
        state = await open_state(url, deployment="tests")
        try:
            settings = Settings(**PROMISE, state=url, deployment="tests", allow_volatile_state=True)
            await witness_of(settings, [], state)
        finally:
            await state.close()

    with pytest.raises(ServiceError, match="has no incarnation"):
        asyncio.run(run())
