"""A reload accepts compatible models, refuses all others, and blocks no request."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import asynccontextmanager

import pytest
from served import COSTS, LABELS, X, make_cascade, make_foreign
from stores import REDIS
from test_canary import certified

from emsco import CascadeClassifier, StageDesign, dump
from emsco.exceptions import ServiceError
from emsco.serve.canary import load_models
from emsco.serve.metrics import Metrics
from emsco.serve.server import make_watch
from emsco.serve.service import Service
from emsco.serve.settings import Settings
from emsco.serve.state import open_state

SOURCES = """\
[page]
kind = "redis"
url_env = "EMSCO_TEST_SERVED_REDIS"
key = "page:{key}"

[bureau]
kind = "http"
url = "http://127.0.0.1:9/{key}"
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setenv("EMSCO_TEST_SERVED_REDIS", REDIS)
    (tmp_path / "sources.toml").write_text(SOURCES)
    return {"model": tmp_path / "model.emsco", "sources": tmp_path / "sources.toml"}


@asynccontextmanager
async def serving(files, **options):
    settings = Settings(folder=files["model"].parent, **files | options)
    state = await open_state(settings.state_address)
    service = None
    try:
        deployed, canary = await load_models(settings, state)
        watch = make_watch(settings, deployed, state)
        service = Service(settings, deployed, state, canary=canary, watch=watch, metrics=Metrics())
        await service.start()
        yield service
    finally:
        if service is not None:
            await service.stop()
        await state.close()


def reloads(service, outcome):
    return service.metrics.registry.get_sample_value("emsco_reloads_total", {"outcome": outcome})


def events(capfd, name):
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    return [event for event in lines if event["event"] == name]


def test_other_labels_need_a_restart(files, capfd):
    """Labels must not change for clients, also if a canary's file replaces the model."""
    dump(make_cascade(), files["model"])

    async def main():
        async with serving(files) as service:
            assert (reloads(service, "taken"), reloads(service, "refused")) == (0, 0)
            before = service.model()["model"]
            dump(make_foreign(), files["model"])
            assert not await service.reload()
            assert service.model()["model"] == before
            why = service.model()["refused"]["why"]
            assert "labels" in why
            assert "Restart" in why
            assert (reloads(service, "taken"), reloads(service, "refused")) == (0, 1)
            dump(make_cascade(0.9), files["model"])
            assert await service.reload()
            assert (reloads(service, "taken"), reloads(service, "refused")) == (1, 1)

    asyncio.run(main())
    (told,) = events(capfd, "refused")
    assert told["level"] == "error"


def test_a_certificate_is_lost_only_where_that_is_allowed(files):
    dump(certified(), files["model"])
    lost = make_cascade(0.7)

    async def main(allowed):
        dump(certified(), files["model"])
        async with serving(files, allow_uncertified=allowed) as service:
            before = service.model()["model"]
            dump(lost, files["model"])
            assert await service.reload() is allowed
            assert (service.model()["model"] == before) is not allowed
            if not allowed:
                assert "--allow-uncertified" in service.model()["refused"]["why"]
            # One that has a certificate again, or none as before, is taken in any case.
            dump(certified(0.95) if not allowed else make_cascade(0.75), files["model"])
            assert await service.reload()

    asyncio.run(main(False))
    asyncio.run(main(True))


def test_a_canary_and_its_promotion_follow_the_same_rules(files, tmp_path):
    dump(certified(), files["model"])
    canary = tmp_path / "new.emsco"

    async def main():
        dump(make_cascade(0.7), canary)
        with pytest.raises(ServiceError, match=r"The canary .*--allow-uncertified"):
            async with serving(files, canary=canary):
                pass
        dump(certified(0.95), canary)
        async with serving(files, canary=canary) as service:
            kept = service.models.canary.deployed.digest
            dump(make_cascade(0.7), canary)
            assert not await service.reload()
            assert service.models.canary.deployed.digest == kept
            files["model"].write_bytes(canary.read_bytes())
            assert not await service.reload()
            assert "The new model" in service.model()["refused"]["why"]
            assert reloads(service, "refused") == 2
        dump(certified(), files["model"])
        async with serving(files, canary=canary, allow_uncertified=True) as service:
            files["model"].write_bytes(canary.read_bytes())
            assert await service.reload()
            assert service.models.canary is None

    asyncio.run(main())


def test_other_sources_are_named(files, capfd):
    dump(make_cascade(), files["model"])

    async def main():
        async with serving(files) as service:
            assert await service.reload()  # with the same ones
            files["sources"].write_text(SOURCES.replace("page:{key}", "leaf:{key}"))
            assert await service.reload()
            design = StageDesign.from_stages([["page"]])
            dump(CascadeClassifier(design=design, costs=COSTS).fit(X, LABELS), files["model"])
            assert await service.reload()

    asyncio.run(main())
    told = events(capfd, "sources")
    assert [(one["added"], one["removed"], one["changed"]) for one in told] == [
        ([], [], ["page"]), ([], ["bureau"], []),
    ]  # fmt: skip
    assert {one["level"] for one in told} == {"warning"}


def test_requests_go_on_while_files_are_loaded(files):
    """Loading, checking and warming up happen in other threads, not in the event loop."""
    dump(certified(), files["model"])

    async def main():
        async with serving(files) as service:
            spent = []
            for threshold in (0.95, 0.92, 0.94):
                dump(certified(threshold), files["model"])
                begin = time.thread_time()
                assert await service.reload()
                spent.append(time.thread_time() - begin)
            assert min(spent) < 0.05

    asyncio.run(main())
