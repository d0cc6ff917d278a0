"""A log that cannot be written: losses are counted and reported, and nothing is bought in vain."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import resource
from contextlib import contextmanager

import pytest
from processes import World, counted, shared_state
from served import BUREAU, CASCADE, DECIDED, KEYS, PAGES, QUICK, Store, wait_for
from stores import http_source
from test_shadow import CASCADE as SHADOWED

from emsco import dump
from emsco.live import LiveCascade, Sources, decision_log
from emsco.serve.settings import Settings
from emsco.serve.shadow import ShadowMode

NOTHING = resource.RLIM_INFINITY


@pytest.fixture(autouse=True)
def _secret(monkeypatch):
    monkeypatch.setenv("EMSCO_LOG_KEY", "a secret of the tests")


def lines(folder, kind="decisions"):
    """Read the log; no line of it is broken."""
    return [
        json.loads(line)
        for path in folder.glob(f"{kind}-*.jsonl")
        for line in path.read_text().splitlines()
    ]


def size(folder):
    """Return the size of the largest file."""
    return max((path.stat().st_size for path in folder.glob("*.jsonl")), default=0)


@contextmanager
def full(room, process=0):
    """Limit the file size of a process, which makes the disk look full to the log."""
    before = resource.prlimit(process, resource.RLIMIT_FSIZE)
    resource.prlimit(process, resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.prlimit(process, resource.RLIMIT_FSIZE, before)


def test_a_loss_is_counted_and_told_once_when_it_begins_and_when_it_ends(tmp_path, caplog):
    """Decisions go on."""
    live = LiveCascade(CASCADE, Store().sources, log=tmp_path)
    live.decide_now(KEYS[:3])
    caplog.set_level(logging.INFO)
    with full(size(tmp_path) + 10):
        for first in range(10, 40, 10):
            decided = live.decide_now(KEYS[first : first + 10])
            assert (decided.label == DECIDED.label[first : first + 10]).all()
        assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert live.log_dropped == 30
    for key in KEYS[50:53]:
        live.decide_now([key])
    live.close_now()
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert "cannot be written" in told[0]
    assert str(tmp_path) in told[0]
    assert "is written again; 30 entries were lost" in told[1]
    assert len(lines(tmp_path)) == 6


def test_where_a_log_is_required_nothing_is_bought_without_room_for_it(tmp_path):
    """Rows are rejected before any source is called; with space again, they are decided."""
    store = Store(paid=True)
    live = LiveCascade(CASCADE, store.sources, log=tmp_path, on_log_failure="reject")
    live.decide_now(KEYS[:3])
    asked = {name: list(keys) for name, keys in store.asked.items()}
    with full(size(tmp_path) + 10):
        decided = live.decide_now(KEYS[10:20])
        assert store.asked == asked
        assert not decided.accepted.any()
        assert set(decided.reason) == {"error: log"}
        assert not decided.cost.any()
        assert decided.index.tolist() == KEYS[10:20]
        assert decided[0].receipt.fetches == ()
        assert live.log_dropped == 10
    again = live.decide_now(KEYS[10:20])
    live.close_now()
    assert (again.reason == DECIDED.reason[10:20]).all()
    assert len(lines(tmp_path)) == 13


def test_calls_at_once_do_not_count_on_the_same_room(tmp_path):
    """With room for some of them, as many are bought as are logged."""
    store = Store(paid=True)
    store.holds["page"] = asyncio.Event()

    async def story():
        live = LiveCascade(CASCADE, store.sources, log=tmp_path, on_log_failure="reject")
        with full(20_000):
            calls = [asyncio.ensure_future(live.decide([key])) for key in KEYS[:40]]
            await asyncio.sleep(0.5)
            store.holds["page"].set()
            decided = [(await call)[0] for call in calls]
        await live.close()
        return decided

    decided = asyncio.run(story())
    bought = [row for row in decided if row.cost]
    refused = [row for row in decided if row.reason == "error: log"]
    assert 0 < len(refused) < 40
    assert len(bought) + len(refused) == 40
    assert len(store.asked["page"]) == len(bought) == len(lines(tmp_path))


def test_in_shadow_nothing_is_bought_either(tmp_path):
    """Shadow mode has a separate log."""
    store = Store(paid=True)
    settings = Settings(
        log=tmp_path, log_values=True, shadow=True, folder=tmp_path, on_log_failure="reject"
    )
    shadow = ShadowMode(SHADOWED.decider_, store.sources, settings, "digest")

    async def story():
        first = await shadow.decide(KEYS[:2], None, call="a")
        calls = len(store.asked["page"])
        with full(size(tmp_path) + 10):
            second = await shadow.decide(KEYS[2:9], None, call="b")
            assert await shadow.keep_labels([("a-0", "good"), ("a-1", "good")]) == 2
            assert len(store.asked["page"]) == calls
        with full(10):
            assert await shadow.keep_labels([("a-0", "good"), ("a-1", "good")]) == 0
        third = await shadow.decide(KEYS[2:9], None, call="c")
        await shadow.live.close()
        return first, second, third

    first, second, third = asyncio.run(story())
    assert first.answered.accepted.all()
    assert set(second.answered.reason) == {"error: log"}
    assert set(second.would_be.reason) == {"error: log"}
    assert third.answered.accepted.all()
    assert dict(shadow.log.lost) == {"decisions": 7, "labels": 2}
    assert len(lines(tmp_path)) == 9


def test_two_containers_never_write_one_file(tmp_path):
    """Every one of them has a process 1, and all may share a folder."""
    for _ in range(2):
        spec = importlib.util.spec_from_file_location("log_of_a_container", decision_log.__file__)
        container = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(container)
        for _ in range(2):  # as before and after a reload
            asyncio.run(container.DecisionLog(tmp_path).write_labels([("a", "good")]))
    found = [path.read_text().count("\n") for path in tmp_path.iterdir()]
    assert found == [2, 2]


def test_a_service_tells_it_by_events_and_a_metric(tmp_path):
    """One event when it begins, and one with what was lost when it ends."""
    dump(CASCADE, tmp_path / "model.emsco")
    folder = tmp_path / "log"
    with (
        http_source(PAGES, paid=True) as (page, vendor),
        http_source(BUREAU, paid=True) as (bureau, _),
    ):
        (tmp_path / "sources.toml").write_text(Sources({"page": page, "bureau": bureau}).to_toml())
        world = World(tmp_path, vendor, {})
        options = ("--log", "log", "--metrics-port", 0, *shared_state())
        with world.serve(*options) as one:
            one.wait_ready()
            assert one.decide(key=QUICK).json()["decisions"][0]["accepted"]
            assert counted(one, "emsco_log_lost_total") == 0
            with full(size(folder) + 10, one.process.pid):
                for number in range(5):
                    (row,) = one.decide(key=QUICK, id=f"o-{number}").json()["decisions"]
                    assert row["accepted"]
                assert one.decide(keys=KEYS[:5]).status_code == 200
            assert one.decide(key=QUICK).json()["decisions"][0]["accepted"]
            wait_for(lambda: counted(one, 'emsco_log_lost_total{what="decisions"}') == 10)
            (failed,) = one.events_named("log failed")
            (resumed,) = one.events_named("log resumed")
            assert (failed["level"], failed["folder"]) == ("error", "log")
            assert "large" in failed["why"]
            assert resumed["lost"] == 10
    assert len(lines(folder)) == 2
