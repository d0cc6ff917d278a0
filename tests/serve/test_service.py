"""The service without HTTP: one decision per id, replaced models, shared failures."""

from __future__ import annotations

import asyncio
import json
import threading
import uuid
from contextlib import asynccontextmanager

import pytest
from served import CASCADE, KEYS, LABELS, PAGES, QUICK, THOROUGH, Store, X, make_cascade
from stores import REDIS

from emsco import dump
from emsco.certify import certify
from emsco.exceptions import ArtifactError, ServiceError, SourcesError, StateError
from emsco.live import KnownSource, Sources
from emsco.serve import service as module
from emsco.serve.audit_watch import AuditWatch
from emsco.serve.deployment import Deployment
from emsco.serve.problem_json import RequestProblem
from emsco.serve.request_bodies import DecideBody, FeedbackBody
from emsco.serve.service import Service
from emsco.serve.settings import Settings
from emsco.serve.state import open_state


@asynccontextmanager
async def serving(folder, store, *, cascade=CASCADE, watch=False, state=None, **settings):
    """Return a service with a real state."""
    chosen = Settings(folder=folder, state=state, deployment="tests", **settings)
    kept = await open_state(chosen.state_address, deployment=chosen.deployment)
    deployed = await Deployment.make(cascade, store.sources, chosen, kept)
    made = AuditWatch(None, kept, model=deployed.digest, audit=1.0) if watch else None
    service = Service(chosen, deployed, kept, watch=made)
    await service.start()
    try:
        yield service
    finally:
        await service.stop(5)
        await kept.close()


def body(**given):
    return DecideBody(**given)


async def refused(work):
    with pytest.raises(RequestProblem) as caught:
        await work
    return caught.value.status, caught.value.kind


# One decision for one id


def test_the_same_id_gets_the_same_answer_and_buys_nothing(tmp_path):
    store = Store(paid=True)

    async def main():
        async with serving(tmp_path, store) as service:
            first = await service.decide(body(key=THOROUGH, id="order-1", tenant="shop"))
            again = await service.decide(body(key=THOROUGH, id="order-1", tenant="shop"))
            assert again == first
            (spent,) = await service.state.spend()
            assert (spent.source, spent.tenant, spent.paid, spent.open) == ("bureau", "shop", 5, ())
        # Another process that finds the same state.
        async with serving(tmp_path, store) as service:
            assert await service.decide(body(key=THOROUGH, id="order-1", tenant="shop")) == first

    asyncio.run(main())
    assert store.asked == {"page": [THOROUGH], "bureau": [THOROUGH]}


def test_the_same_id_with_another_body_is_refused(tmp_path):
    store = Store()
    bodies = [{"key": QUICK}, {"keys": [THOROUGH]}, {"key": THOROUGH, "tenant": "shop"},
              {"key": THOROUGH, "known": {"x0": 1.0}}, {"key": THOROUGH, "receipt": True},
              {"key": THOROUGH, "factors": True}]  # fmt: skip

    async def main():
        async with serving(tmp_path, store) as service:
            await service.decide(body(key=THOROUGH, id="a"))
            for other in bodies:
                assert await refused(service.decide(body(id="a", **other))) == (422, "other-body")
            store.holds["page"] = threading.Event()
            running = asyncio.ensure_future(service.decide(body(key=THOROUGH, id="b")))
            await asyncio.sleep(0.05)
            assert await refused(service.decide(body(key=QUICK, id="b"))) == (422, "other-body")
            store.holds["page"].set()
            await running

    asyncio.run(main())


def test_the_order_of_what_is_known_does_not_matter():
    one = body(key="a", known={"x0": 1.0, "x1": 2.0})
    assert one.digest == body(key="a", known={"x1": 2.0, "x0": 1.0}).digest
    assert one.digest != body(key="a", known={"x1": 1.0, "x0": 2.0}).digest
    assert body(key="1").digest != body(key=1).digest


def test_equal_ids_at_the_same_time_share_one_decision(tmp_path):
    store = Store(paid=True)
    store.holds["bureau"] = threading.Event()

    async def main():
        async with serving(tmp_path, store, concurrency=1, queue=0) as service:
            asked = [asyncio.ensure_future(service.decide(body(key=THOROUGH, id="a")))
                     for _ in range(5)]  # fmt: skip
            await asyncio.sleep(0.1)
            asked[0].cancel()  # who asked first leaves
            await asyncio.sleep(0.01)
            store.holds["bureau"].set()
            answers = await asyncio.gather(*asked[1:])
            assert all(answer == answers[0] for answer in answers)

    asyncio.run(main())
    assert store.asked["bureau"] == [THOROUGH]


def test_two_processes_do_not_decide_the_same_id_at_once(tmp_path):
    store, other = Store(), Store()
    store.holds["page"] = threading.Event()

    async def main():
        async with serving(tmp_path, store) as first, serving(tmp_path, other) as second:
            running = asyncio.ensure_future(first.decide(body(key=QUICK, id="a")))
            await asyncio.sleep(0.2)
            assert await refused(second.decide(body(key=QUICK, id="a"))) == (409, "running")
            store.holds["page"].set()
            answer = await running
            assert await second.decide(body(key=QUICK, id="a")) == answer
        assert other.asked["page"] == []

    asyncio.run(main())


def test_what_a_dead_process_may_have_bought_is_not_bought_again(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LEASE", 0.3)
    store, other = Store(paid=True), Store(paid=True)
    store.holds["bureau"] = threading.Event()

    async def main():
        async with serving(tmp_path, store) as first:
            for task in first._background:  # a dead process renews nothing
                task.cancel()
            running = asyncio.ensure_future(first.decide(body(key=THOROUGH, id="a")))
            await asyncio.sleep(0.8)
            assert store.asked["bureau"] == [THOROUGH]
            async with serving(tmp_path, other) as second:
                (told,) = (await second.decide(body(key=THOROUGH, id="a")))["decisions"]
                assert (told["accepted"], told["reason"]) == (False, "error: bureau")
                assert other.asked["bureau"] == []
                (spent,) = await second.state.spend()
                assert (spent.paid, spent.unknown, len(spent.open)) == (0, 5, 1)
            store.holds["bureau"].set()
            # Who was believed dead gives the answer that was given.
            assert (await running)["decisions"] == [told]

    asyncio.run(main())


def test_a_claim_is_renewed_while_a_decision_takes_long(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LEASE", 0.3)
    store, other = Store(), Store()
    store.holds["page"] = threading.Event()

    async def main():
        async with serving(tmp_path, store) as first, serving(tmp_path, other) as second:
            running = asyncio.ensure_future(first.decide(body(key=QUICK, id="a")))
            await asyncio.sleep(1.0)
            assert await refused(second.decide(body(key=QUICK, id="a"))) == (409, "running")
            store.holds["page"].set()
            await running

    asyncio.run(main())


def test_an_id_whose_request_was_refused_can_be_used_again(tmp_path):
    async def domains(keys, _):
        return {key: {"x0": 1.0} for key in keys}

    async def main():
        store = Store()
        page = store.sources["page"]
        needing = type(page)(function=domains, uses=["domain"])
        store.sources = Sources({"page": needing, "bureau": store.sources["bureau"]})
        async with serving(tmp_path, store) as service:
            assert await refused(service.decide(body(key="a", id="x"))) == (422, "known")
            known = {"domain": "example.org"}
            assert (await service.decide(body(key="a", id="x", known=known)))["id"] == "x"

    asyncio.run(main())


def test_without_an_id_each_request_has_its_own(tmp_path):
    async def main():
        async with serving(tmp_path, Store()) as service:
            ids = {(await service.decide(body(key=QUICK)))["id"] for _ in range(20)}
            assert len(ids) == 20
            assert all(len(one) == 32 for one in ids)

    asyncio.run(main())


def test_a_state_that_does_not_answer_lets_nothing_be_bought(tmp_path):
    store = Store(paid=True)

    async def main():
        async with serving(tmp_path, store) as service:
            real = service.state.begin

            async def begin(*_):
                raise StateError("gone")

            service.state.begin = begin
            assert await refused(service.decide(body(key=THOROUGH))) == (503, "state")
            assert store.asked["bureau"] == []
            service.state.begin = real
            (told,) = (await service.decide(body(key=THOROUGH)))["decisions"]
            assert told["accepted"]

    asyncio.run(main())


def test_the_log_has_every_decision_and_no_key(tmp_path, monkeypatch):
    monkeypatch.setenv("EMSCO_LOG_KEY", "a secret for the log")

    async def main():
        async with serving(tmp_path, Store(), log=tmp_path / "log") as service:
            answer = await service.decide(body(keys=KEYS[:3], id="order-9"))
            assert len(answer["decisions"]) == 3

    asyncio.run(main())
    (file,) = (tmp_path / "log").iterdir()
    lines = file.read_text().splitlines()
    # Those of the request, and not the row that it was warmed with.
    assert [json.loads(line)["id"] for line in lines] == [f"order-9-{i}" for i in range(3)]
    assert not any(key in file.read_text() for key in KEYS)


# Labels


def test_labels_reach_the_watch_and_unknown_ones_are_named(tmp_path):
    async def main():
        async with serving(tmp_path, Store(), watch=True) as service:
            answer = await service.decide(body(key=QUICK))
            (one,) = answer["decisions"]
            labels = [{"id": one["id"], "label": "good"}, {"id": "nobody-0", "label": "good"}]
            told = await service.feedback(FeedbackBody(labels=labels))
            assert told == {"received": 2, "unknown_labels": []}
            counts = service.watch.counts
            assert (counts["labels used"], counts["labels unknown"]) == (1, 1)
            wrong = FeedbackBody(labels=[{"id": one["id"], "label": 17}])
            told = await service.feedback(wrong)
            assert told == {"received": 1, "unknown_labels": [one["id"]]}
            assert (counts["labels used"], counts["labels unknown label"]) == (1, 1)

    asyncio.run(main())


def test_a_decision_counts_once_however_often_it_is_asked_for(tmp_path):
    async def main():
        async with serving(tmp_path, Store(), watch=True) as service:
            for _ in range(3):
                await service.decide(body(keys=KEYS[:10], id="a"))
            await service.watch.work()
            assert service.watch.counts["audited"] == 10

    asyncio.run(main())


# Models that change places


def test_a_model_takes_over_between_requests(tmp_path):
    """The previous one finishes its requests, and then closes."""
    store, new_store = Store(), Store()
    store.holds["page"] = threading.Event()

    async def main():
        async with serving(tmp_path, store) as service:
            old = service.deployed
            running = asyncio.ensure_future(service.decide(body(key=QUICK)))
            await asyncio.sleep(0.05)
            new = await Deployment.make(make_cascade(0.9), new_store.sources, service.settings)
            service.replace(new)
            assert new.digest != old.digest
            assert (await service.decide(body(key=QUICK)))["model"] == new.digest
            assert old._closing is None
            store.holds["page"].set()
            assert (await running)["model"] == old.digest
            await asyncio.wait_for(old._closing, 5)
            assert service.model()["model"] == new.digest

    asyncio.run(main())


def written(folder, cascade, sources="", name="model.emsco"):
    dump(cascade, folder / name)
    (folder / "sources.toml").write_text(sources)
    return {"model": folder / name, "sources": folder / "sources.toml"}


SOURCES = """\
[page]
kind = "redis"
url_env = "EMSCO_TEST_SERVED_REDIS"
key = "page:{key}"

[bureau]
kind = "http"
url = "http://127.0.0.1:9/{key}"
"""


def test_files_are_loaded_anew_and_refused_ones_leave_the_model_in_use(
    tmp_path, monkeypatch, capfd
):
    monkeypatch.setenv("EMSCO_TEST_SERVED_REDIS", REDIS)
    files = written(tmp_path, CASCADE, SOURCES)

    async def main():
        settings = Settings(folder=tmp_path, **files)
        state = await open_state(settings.state_address)
        deployed = await Deployment.load(settings, state)
        service = Service(settings, deployed, state)
        first = service.model()
        dump(make_cascade(0.95), files["model"])
        assert await service.reload()
        second = service.model()
        assert second["model"] != first["model"]
        good = files["model"].read_bytes()
        for damage in (good[:-1], good[:500] + b"x" + good[501:], b"", b"PK"):
            files["model"].write_bytes(damage)
            assert not await service.reload()
            told = service.model()
            assert told["model"] == second["model"]
            assert str(files["model"]) in told["refused"]["why"]
        files["model"].unlink()
        assert not await service.reload()
        files["model"].write_bytes(good)
        files["sources"].write_text(SOURCES.replace("[bureau]", "[office]"))
        assert not await service.reload()
        assert "'office'" in service.model()["refused"]["why"]
        files["sources"].write_text(SOURCES.replace("EMSCO_TEST_SERVED_REDIS", "EMSCO_NO_SUCH"))
        assert not await service.reload()
        assert "EMSCO_NO_SUCH" in service.model()["refused"]["why"]
        files["sources"].write_text(SOURCES)
        assert await service.reload()
        assert service.model()["refused"] is None
        await service.stop()
        await state.close()

    asyncio.run(main())
    events = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert [event["event"] for event in events] == ["reload", *["refused"] * 7, "reload"]


def test_a_model_is_refused_with_what_to_do(tmp_path, monkeypatch):
    async def load(**files):
        return await Deployment.load(Settings(folder=tmp_path, **files))

    files = written(tmp_path, CASCADE, SOURCES)
    with pytest.raises(SourcesError, match="EMSCO_TEST_SERVED_REDIS is not set"):
        asyncio.run(load(**files))
    monkeypatch.setenv("EMSCO_TEST_SERVED_REDIS", REDIS)
    with pytest.raises(SourcesError, match=r"did you mean 'sources.toml'"):
        asyncio.run(load(**files | {"sources": tmp_path / "source.toml"}))
    with pytest.raises(ArtifactError, match="No such file"):
        asyncio.run(load(**files | {"model": tmp_path / "no.emsco"}))
    with pytest.raises(ServiceError, match="must be a cascade, got a Store"):
        asyncio.run(Deployment.make(Store(), Store().sources, Settings()))
    with pytest.raises(SourcesError, match="EMSCO_LOG_KEY is not set"):
        asyncio.run(load(**files, log=tmp_path / "log"))


def test_clients_must_send_what_nobody_fetches(tmp_path):
    """The description says so, and a row without it is rejected, not guessed."""
    store = Store()
    store.sources = Sources({**store.sources, "page": KnownSource()})

    async def ask():
        async with serving(tmp_path, store) as service:
            known = {"x0": PAGES[QUICK]["x0"]}
            sent = await service.decide(body(key=QUICK, known=known))
            not_sent = await service.decide(body(key=QUICK))
            return service.model()["needed"], sent["decisions"], not_sent["decisions"]

    needed, (sent,), (not_sent,) = asyncio.run(ask())
    assert needed == ["x0"]
    assert (sent["accepted"], sent["cost"]) == (True, 0.0)
    assert (not_sent["accepted"], not_sent["reason"], not_sent["cost"]) == (
        False, "missing: page", 0.0,
    )  # fmt: skip
    assert store.asked == {"page": [], "bureau": []}


def test_a_certificate_of_another_cascade_is_refused():
    """A certificate that is not valid must not be shown as valid."""
    fitted = make_cascade(rows=slice(0, 100))
    certificate = certify(fitted, X[100:], LABELS[100:], accuracy=0.5)
    assert certificate.certified

    async def main():
        fitted.certificate_ = certificate
        deployed = await Deployment.make(fitted, Store().sources, Settings())
        told = deployed.description["certificate"]
        assert (told["holds"], told["problem"]) == (True, "")
        assert told["sentence"] == certificate.sentence
        assert deployed.monitor is not None
        await deployed.close()
        other = make_cascade(rows=slice(0, 90))
        other.certificate_ = certificate
        with pytest.raises(ServiceError, match="certificate"):
            await Deployment.make(other, Store().sources, Settings())

    asyncio.run(main())


# Shared failures


def test_a_source_that_fails_elsewhere_is_left_alone_until_it_answers(tmp_path):
    address = f"{REDIS}?prefix=t{uuid.uuid4().hex[:12]}"
    store = Store()

    async def main():
        async with serving(tmp_path, store, state=address) as service:
            other = await open_state(address)
            await other.is_well("bureau", well=False)
            await asyncio.sleep(0.7)
            (told,) = (await service.decide(body(key=THOROUGH)))["decisions"]
            assert (told["reason"], store.asked["bureau"]) == ("circuit open: bureau", [])
            await other.is_well("bureau", well=True)
            await asyncio.sleep(0.7)
            (told,) = (await service.decide(body(key=THOROUGH)))["decisions"]
            assert told["accepted"]
            await other.close()

    asyncio.run(main())


# The end


def test_decisions_without_clients_are_finished_before_the_end(tmp_path):
    store = Store(paid=True)
    store.holds["bureau"] = threading.Event()

    async def main():
        async with serving(tmp_path, store) as service:
            asked = asyncio.ensure_future(service.decide(body(key=THOROUGH, id="a")))
            await asyncio.sleep(0.05)
            asked.cancel()
            asyncio.get_running_loop().call_later(0.2, store.holds["bureau"].set)
        async with serving(tmp_path, store) as service:
            (told,) = (await service.decide(body(key=THOROUGH, id="a")))["decisions"]
            assert told["exit_stage"] == 1

    asyncio.run(main())
    assert store.asked["bureau"] == [THOROUGH]
