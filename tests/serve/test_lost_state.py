"""A state that has lost its data, is full or is slow: what is reported, and what is not bought."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace

import pytest
from commands import call
from own_redis import own_redis
from processes import World, counted
from served import BUREAU, CASCADE, PAGES, QUICK, THOROUGH, Store, served, wait_for
from stores import REDIS, http_source, redis_source

from emsco import dump
from emsco.exceptions import ServiceError
from emsco.live import Sources
from emsco.serve.deployment import Deployment
from emsco.serve.incarnation import Witness, begin, witness_of
from emsco.serve.settings import Settings
from emsco.serve.shared_values import shared_secret
from emsco.serve.state import open_state

NAMED = ("--deployment", "cards")


@pytest.fixture
def world(tmp_path):
    with redis_source(PAGES) as page, http_source(BUREAU, paid=True, timeout=5.0) as (bureau, web):
        sources = Sources({"page": replace(page, url=None, url_env="PAGE_URL"), "bureau": bureau})
        (tmp_path / "sources.toml").write_text(sources.to_toml())
        dump(CASCADE, tmp_path / "model.emsco")
        yield World(tmp_path, web, {"EMSCO_STATE": "", "PAGE_URL": REDIS})


@pytest.fixture
def store(tmp_path):
    folder = tmp_path / "redis"
    folder.mkdir()
    with own_redis(folder) as one:
        yield one


def row(answer):
    assert answer.status_code == 200, answer.text
    (decision,) = answer.json()["decisions"]
    return decision


def test_a_state_that_was_emptied_stops_paid_calls_until_it_is_accepted(world, store):
    """And one that was only restarted, with all it had, does not."""
    result = call("state", "init", store.url, *NAMED)
    assert result.code == 0, result.err
    with world.serve(*NAMED, "--metrics-port", 0, EMSCO_STATE=store.url) as one:
        one.wait_ready()
        assert row(one.decide(key=THOROUGH, id="order-1"))["accepted"]
        assert counted(one, "emsco_state_lost") == 0

        store.kill()
        store.start()
        wait_for(lambda: one.events_named("state moved"))
        wait_for(lambda: counted(one, "emsco_state_moved_total") == 1)
        assert row(one.decide(key=THOROUGH, id="order-2"))["accepted"]
        assert world.vendor.asked == [THOROUGH, THOROUGH]

        store.admin.flushall()
        again = row(one.decide(key=THOROUGH, id="order-1"))
        assert (again["accepted"], again["reason"]) == (False, "state lost: bureau")
        assert row(one.decide(key=QUICK))["accepted"]
        wait_for(lambda: one.events_named("state lost"))
        wait_for(lambda: counted(one, "emsco_state_lost") == 1)
        ready = one.client.get("/readyz")
        assert (ready.status_code, ready.json()["state"]) == (200, "lost")
        assert row(one.decide(key=THOROUGH))["reason"] == "state lost: bureau"
        assert world.vendor.asked == [THOROUGH, THOROUGH]  # nothing was bought again

        assert call("state", "init", store.url, *NAMED).code == 0  # as a script would do
        time.sleep(1.2)
        assert row(one.decide(key=THOROUGH))["reason"] == "state lost: bureau"
        result = call("state", "init", store.url, *NAMED)
        assert (result.code, "already has an incarnation" in result.err) == (2, True)
        result = call("state", "accept", store.url, *NAMED)
        assert result.code == 0, result.err
        wait_for(lambda: one.events_named("state accepted"))
        assert row(one.decide(key=THOROUGH, id="order-3"))["accepted"]
        wait_for(lambda: counted(one, "emsco_state_lost") == 0)
        assert "state" not in one.client.get("/readyz").json()
        # Who has lost nothing goes on where the state is accepted once more.
        assert call("state", "accept", store.url, *NAMED).code == 0
        wait_for(lambda: len(one.events_named("state accepted")) == 2)
        assert len(one.events_named("state lost")) == 1


async def watched(folder, address, *, paid=True, **more):
    """Start as `emsco serve` does, up to the witness of the state."""
    settings = Settings(folder=folder, state=address, deployment="cards", **more)
    state = await open_state(address, deployment="cards")
    deployed = await Deployment.make(CASCADE, Store(paid=paid).sources, settings, state)
    try:
        return await witness_of(settings, [deployed], state)
    finally:
        await deployed.close()
        await state.close()


def test_a_service_never_begins_a_state_by_itself_for_paid_sources(tmp_path, store):
    with pytest.raises(ServiceError, match="run `emsco state init --deployment cards`"):
        asyncio.run(watched(tmp_path, store.url))
    assert asyncio.run(watched(tmp_path, store.url, paid=False)) is not None
    # Whoever pays for nothing has begun it, and all others find it.
    assert asyncio.run(watched(tmp_path, store.url)) is not None


def test_a_redis_that_is_known_to_lose_is_refused_for_paid_sources(tmp_path, store, capfd):
    store.admin.config_set("appendonly", "no")
    assert call("state", "init", store.url, *NAMED).code == 0
    with pytest.raises(ServiceError, match="--allow-volatile-state"):
        asyncio.run(watched(tmp_path, store.url))
    for allowed in ({"allow_volatile_state": True}, {"paid": False}):
        assert asyncio.run(watched(tmp_path, store.url, **allowed)) is not None
        assert "writes nothing to disk" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("options", "losing", "told"),
    [
        ([], [], []),
        (["--appendonly", "no"], ["writes nothing to disk"], []),
        (["--appendonly", "no", "--save", "60 1"], [], ["writes no append-only file"]),
        (["--maxmemory", "1gb", "--maxmemory-policy", "volatile-ttl"], ["may evict"], []),
        (["--rename-command", "CONFIG", "", "--appendonly", "no"], [], ["hides whether"]),
    ],
)
def test_what_may_be_lost_is_known_or_told(tmp_path, options, losing, told):
    async def main(address):
        state = await open_state(address)
        try:
            return await state.concerns()
        finally:
            await state.close()

    with own_redis(tmp_path, *options) as one:
        found = asyncio.run(main(one.url))
    for is_known, wanted in ((True, losing), (False, told)):
        texts = [concern.text for concern in found if concern.loses is is_known]
        assert len(texts) == len(wanted)
        assert all(words in text for words, text in zip(wanted, texts, strict=True))


def test_secrets_are_put_back_into_a_state_that_was_emptied(store):
    """Or a process that starts later would draw other keys for the canary."""

    async def main():
        state = await open_state(store.url, deployment="cards")
        other = await open_state(store.url, deployment="cards")
        try:
            witness = Witness(state, await begin(state))
            secret = await shared_secret(state, "canary:cards:secret")
            store.admin.flushall()
            await witness.look()
            assert witness.is_lost
            assert await shared_secret(other, "canary:cards:secret") == secret
        finally:
            await state.close()
            await other.close()

    asyncio.run(main())


# Full, and slow


def test_a_state_without_room_is_not_ready(tmp_path, store):
    with served(tmp_path, Store(paid=True).sources, state=store.url) as one:
        assert one.client.get("/readyz").status_code == 200
        store.admin.config_set("maxmemory", "1mb")
        wait_for(lambda: one.client.get("/readyz").status_code == 503)
        assert one.decide(key=THOROUGH, id="order-1").status_code == 503
        store.admin.config_set("maxmemory", "0")
        wait_for(lambda: one.client.get("/readyz").status_code == 200)
        assert row(one.decide(key=THOROUGH, id="order-1"))["accepted"]


@pytest.mark.parametrize("id_", [{"id": "order-1"}, {}], ids=["claim", "begin"])
def test_a_deadline_covers_the_state_and_blames_it(tmp_path, store, id_):
    sold = Store(paid=True)
    with served(tmp_path, sold.sources, state=store.url, deadline=0.3) as one:
        assert row(one.decide(key=THOROUGH))["accepted"]
        store.admin.execute_command("CLIENT", "PAUSE", 1800, "ALL")
        begin = time.monotonic()
        answer = one.decide(key=THOROUGH, **id_)
        assert time.monotonic() - begin < 1.6
        assert (answer.status_code, answer.json()["type"]) == (503, "urn:emsco:late-state")
        assert "within the time that --deadline allows" in answer.json()["detail"]
        store.admin.close()
        time.sleep(max(0.0, begin + 1.9 - time.monotonic()))
        assert row(one.decide(key=THOROUGH))["accepted"]
        # Nothing was bought for a client that had been told to ask again.
        if not id_:
            assert len(sold.asked["bureau"]) == 2


def test_a_value_that_was_bought_is_used_although_the_state_is_slow_to_count_it(tmp_path, store):
    sold = Store(paid=True)
    held = sold.holds["bureau"] = asyncio.Event()
    with served(tmp_path, sold.sources, state=store.url, deadline=0.8) as one:
        heard = []
        asking = threading.Thread(target=lambda: heard.append(one.decide(key=THOROUGH)))
        asking.start()
        wait_for(lambda: sold.asked["bureau"])
        store.admin.execute_command("CLIENT", "PAUSE", 1500, "ALL")
        held.set()
        asking.join(20)
        assert row(heard[0])["accepted"]
