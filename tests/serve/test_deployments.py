"""Several deployments in one state: separate answers, shared spending."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace

import numpy as np
import pytest
import redis
import sqlalchemy as sa
from commands import call
from processes import World
from served import (
    BUREAU,
    CASCADE,
    COSTS,
    PAGES,
    THOROUGH,
    Store,
    X,
    Y,
    make_cascade,
    served,
)
from stores import POSTGRES, REDIS, http_source, redis_source

from emsco import CascadeClassifier, StageDesign, dump
from emsco.exceptions import ServiceError, StateError
from emsco.live import Sources
from emsco.serve.settings import Settings
from emsco.serve.state import open_state
from emsco.serve.state.state_url import alone

DESIGN = StageDesign.from_stages([["page"], ["bureau"]])
OTHER = CascadeClassifier(design=DESIGN, costs=COSTS, threshold=0.8).fit(
    X, np.array(["calm", "wild"])[Y]
)


@pytest.fixture(params=[REDIS, POSTGRES], ids=["redis", "postgresql"])
def state(request):
    return f"{request.param}?prefix=t{uuid.uuid4().hex[:12]}"


def test_each_deployment_answers_for_itself_under_the_same_id(tmp_path, state):
    """And a label sent to one does not count for the other."""
    body = {"key": THOROUGH, "id": "order-1"}
    with (
        served(tmp_path, Store(paid=True).sources, state=state, deployment="cards") as one,
        served(
            tmp_path, Store(paid=True).sources, cascade=OTHER, state=state, deployment="loans"
        ) as other,
    ):
        labels = [each.decide(**body).json()["decisions"][0]["label"] for each in (one, other)]
        assert labels[0] in ("good", "fraud")
        assert labels[1] in ("calm", "wild")
        # Another body under this id is refused by the one that knows the id, and by nobody else.
        assert one.decide(key=THOROUGH, id="order-2").status_code == 200
        assert one.decide(key=THOROUGH, id="order-2", tenant="shop").status_code == 422
        assert other.decide(key=THOROUGH, id="order-2", tenant="shop").status_code == 200


def test_a_deployment_gives_an_answer_whichever_of_its_models_gave_it(tmp_path, state):
    """As during a rolling upgrade: a repeated request must not be paid for twice."""
    first, second = Store(paid=True), Store(paid=True)
    body = {"key": THOROUGH, "id": "order-1"}
    with served(tmp_path, first.sources, state=state, deployment="cards") as old:
        answer = old.decide(**body).json()
    with served(
        tmp_path, second.sources, cascade=make_cascade(0.9), state=state, deployment="cards"
    ) as new:
        assert new.client.get("/v1/model").json()["model"] != answer["model"]
        assert new.decide(**body).json() == answer
    assert (first.asked["bureau"], second.asked["bureau"]) == ([THOROUGH], [])


def test_a_limit_is_for_all_deployments_that_buy_of_a_source(tmp_path, state):
    terms = {"paid": True, "max_spend": 5.0}
    with (
        served(tmp_path, Store(**terms).sources, state=state, deployment="cards") as one,
        served(tmp_path, Store(**terms).sources, state=state, deployment="loans") as other,
    ):
        decisions = [each.decide(key=THOROUGH).json()["decisions"][0] for each in (one, other)]
    assert [row["reason"] for row in decisions] == ["", "budget: bureau"]


@pytest.mark.parametrize("state", ["redis://host", "postgresql://host/db"])
def test_a_store_that_others_can_share_needs_the_name_of_the_deployment(state):
    with pytest.raises(ServiceError, match=r"needs --deployment NAME"):
        Settings(state=state)
    assert Settings(state=state, deployment="cards").deployment == "cards"
    assert Settings().deployment == "emsco"


@pytest.mark.parametrize("name", ["a:b", " ", "a b", "x" * 65, "-x", "é"])
def test_a_name_that_cannot_be_part_of_other_names_is_refused(name):
    with pytest.raises(ServiceError, match="--deployment must begin with a letter or digit"):
        Settings(deployment=name)


def test_a_second_service_on_a_file_is_refused_and_readers_are_not(tmp_path, monkeypatch):
    with redis_source(PAGES) as page, http_source(BUREAU, paid=True) as (bureau, web):
        sources = Sources({"page": replace(page, url=None, url_env="PAGE_URL"), "bureau": bureau})
        (tmp_path / "sources.toml").write_text(sources.to_toml())
        dump(CASCADE, tmp_path / "model.emsco")
        world = World(tmp_path, web, {"EMSCO_STATE": "", "PAGE_URL": REDIS})
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("PAGE_URL", REDIS)
        monkeypatch.delenv("EMSCO_STATE", raising=False)
        link = tmp_path / "by-another-name.sqlite"
        link.symlink_to("emsco-state.sqlite")
        with world.serve("--deployment", "cards") as one:
            one.wait_ready()
            assert one.decide(key=THOROUGH).status_code == 200
            with world.serve("--state", link) as second:
                assert second.end() == 2
                told = f"is used by the service 'cards' (process {one.process.pid})"
                assert told in "".join(second.lines)
            assert "bureau" in call("spend", "emsco-state.sqlite").out
            one.process.kill()
            one.process.wait(20)
        with alone(tmp_path / "emsco-state.sqlite", "loans"):
            pass  # a process that was killed holds nothing back


def test_an_older_state_is_refused_by_name(state):
    place, _, prefix = state.partition("?prefix=")

    async def main():
        await (await open_state(state)).close()
        if place == REDIS:
            with redis.Redis.from_url(REDIS) as client:
                client.set(f"{prefix}:version", 1)
        else:
            engine = sa.create_engine(POSTGRES.replace("postgresql:", "postgresql+psycopg:"))
            with engine.begin() as connection:
                connection.execute(sa.text(f"UPDATE {prefix}_meta SET value = 1"))
            engine.dispose()
        await (await open_state(state)).close()

    with pytest.raises(StateError, match="has version 1, of an earlier emsco"):
        asyncio.run(main())
