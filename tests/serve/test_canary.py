"""A canary: a key keeps its model, every answer names it, and an alarm withdraws it for good."""

from __future__ import annotations

import asyncio
import json
import signal
import time
import uuid
from dataclasses import replace

import numpy as np
import pytest
from commands import call
from processes import World, counted, shared_state
from served import (
    BUREAU,
    CASCADE,
    KEYS,
    LABELS,
    PAGES,
    Store,
    X,
    best,
    make_cascade,
    served,
    wait_for,
)
from stores import REDIS, http_source, redis_source
from watching import summary as summary_of

from emsco import CascadeClassifier, Costs, Decisions, Source, StageDesign, dump
from emsco.certify import certify
from emsco.exceptions import ServiceError, SourcesError, StateError
from emsco.live import CallableSource, Sources
from emsco.rows.ledger import forget_all
from emsco.serve.audit_watch import AuditWatch
from emsco.serve.canary import KeyDraw, load_models
from emsco.serve.metrics import Metrics
from emsco.serve.rejection_causes import sent_invalid
from emsco.serve.request_bodies import DecideBody
from emsco.serve.service import Service
from emsco.serve.settings import Settings
from emsco.serve.state import open_state

NEW = make_cascade(0.9)
RNG = np.random.default_rng(5)
MANY = 2000
FRESH_Y = RNG.integers(2, size=MANY)
FRESH = np.column_stack([FRESH_Y + RNG.normal(size=MANY), 4 * FRESH_Y + RNG.normal(size=MANY)])
TRUTH = np.array(["good", "fraud"])[FRESH_Y]


def certified(threshold=0.9, on=MANY):
    """Return a model with a certificate, so that it is watched."""
    forget_all()  # here, the same rows do for all models
    cascade = make_cascade(threshold)
    rows = (FRESH[:on], TRUTH[:on])
    cascade.certificate_ = certify(cascade, *rows, accuracy=0.8, random_state=0)
    assert cascade.certificate_.certified
    return cascade


def watch(deployed, state):
    return AuditWatch(
        deployed.monitor, state, model=deployed.digest, audit=1.0, label_after=4.0, cohort=0.1,
        classes=deployed.decider.classes.tolist(),
    )  # fmt: skip


def table(shift=0.0):
    """Return sources that know every number; the page source may return wrong values."""

    def source(column, name, shift):
        async def fetch(keys, _):
            return {key: {name: float(FRESH[key % MANY, column]) + shift} for key in keys}

        return CallableSource(function=fetch)

    return Sources({"page": source(0, "x0", shift), "bureau": source(1, "x1", 0.0)})


def models_of(one, keys):
    """Request keys, and return the model of each."""
    answer = one.decide(keys=keys).json()
    named = [row["model"] for row in answer["decisions"]]
    assert answer["model"] == (named[0] if len(set(named)) == 1 else None)
    return named


def digests(one):
    model = one.client.get("/v1/model").json()
    return model["model"], model["canary"]["model"]


# Who decides what


def test_a_share_is_drawn_by_key_and_secret_alone():
    """A larger share has all keys of a smaller one; another secret or model draws others."""
    keys = [*range(5_000), *(f"customer-{i}" for i in range(5_000))]
    few, many = KeyDraw(0.05, b"s", "m"), KeyDraw(0.3, b"s", "m")
    drawn = {key for key in keys if few(key)}
    assert abs(len(drawn) - 500) < 4 * np.sqrt(10_000 * 0.05 * 0.95)
    assert drawn < {key for key in keys if many(key)}
    for other in (KeyDraw(0.05, b"t", "m"), KeyDraw(0.05, b"s", "n")):
        both = sum(other(key) for key in drawn)
        assert both < 70  # a twentieth of them, by chance
    assert not any(map(KeyDraw(0.0, b"s", "m"), keys))
    assert all(map(KeyDraw(1.0, b"s", "m"), keys))
    assert [few(str(key)) for key in range(100)] == [few(key) for key in range(100)]


def test_every_row_is_decided_by_its_model_and_names_it(tmp_path, monkeypatch):
    """Alone, together with others in any order, and in the log; the rest is as without it."""
    monkeypatch.setenv("EMSCO_LOG_KEY", "a secret of the tests")
    with served(tmp_path, Store().sources, canary=NEW, share=0.3, log=tmp_path / "log") as one:
        old, new = digests(one)
        answer = one.decide(keys=KEYS, receipt=True, factors=True, id="order-1").json()
        rows = answer["decisions"]
        assert answer["model"] is None
        assert [row["id"] for row in rows] == [f"order-1-{i}" for i in range(len(KEYS))]
        assert 0.15 < sum(row["model"] == new for row in rows) / len(rows) < 0.45
        assert {row["model"] for row in rows} == {old, new}
        for cascade, model in ((CASCADE, old), (NEW, new)):
            wanted = cascade.decide(X)
            own = [place for place, row in enumerate(rows) if row["model"] == model]
            assert [best(rows[i]) for i in own] == wanted.label[own].tolist()
            for name in ("accepted", "exit_stage", "confidence", "cost"):
                assert [rows[i][name] for i in own] == getattr(wanted, name)[own].tolist()
        assert models_of(one, KEYS[::-1]) == [row["model"] for row in rows][::-1]
        for place in range(20):
            alone = one.decide(key=KEYS[place]).json()
            assert alone["model"] == rows[place]["model"] == alone["decisions"][0]["model"]
        assert one.decide(keys=KEYS, receipt=True, factors=True, id="order-1").json() == answer
    lines = [line for path in (tmp_path / "log").glob("*.jsonl")
             for line in path.read_text().splitlines()]  # fmt: skip
    logged = {entry["id"]: entry["model"] for entry in map(json.loads, lines)}
    assert {row["id"]: row["model"] for row in rows} == {
        id_: model for id_, model in logged.items() if id_.startswith("order-1-")
    }


def test_what_is_known_goes_with_its_row(tmp_path):
    store = Store()
    known = {"x0": X[:, 0].tolist()}
    with served(tmp_path, store.sources, canary=NEW, share=0.5) as one:
        rows = one.decide(keys=KEYS, known=known).json()["decisions"]
        _, new = digests(one)
    assert store.asked["page"] == []
    wanted = {True: NEW.decide(X).label, False: CASCADE.decide(X).label}
    assert [best(row) for row in rows] == [
        wanted[row["model"] == new][place] for place, row in enumerate(rows)
    ]


def test_a_key_keeps_its_model_after_a_restart_and_in_another_process(tmp_path):
    """With one state, even if the share grows: no key goes back to the old model."""
    state = f"{REDIS}?prefix=t{uuid.uuid4().hex[:12]}"
    options = {"canary": NEW, "state": state}
    with (
        served(tmp_path, table(), share=0.2, **options) as one,
        served(tmp_path, table(), share=0.2, **options) as other,
    ):
        _, new = digests(one)
        first = models_of(one, list(range(500)))
        assert models_of(other, list(range(500))) == first
    with served(tmp_path, table(), share=0.2, **options) as one:
        assert models_of(one, list(range(500))) == first
    with served(tmp_path, table(), share=0.6, **options) as one:
        more = models_of(one, list(range(500)))
        assert all(now == new for now, then in zip(more, first, strict=True) if then == new)
        assert 200 < sum(model == new for model in more) < 400


# Watched apart


def test_each_model_has_its_own_monitor_and_feedback_finds_it(tmp_path):
    options = {"canary": certified(), "cascade": certified(0.8), "watch": watch, "share": 0.5}
    with served(tmp_path, table(), **options) as one:
        old, new = digests(one)
        rows = one.decide(keys=list(range(600))).json()["decisions"]
        by = {model: [row for row in rows if row["model"] == model] for model in (old, new)}
        # All labels of the canary are right, all of the other model wrong.
        turned = {"good": "fraud", "fraud": "good"}
        labels = [{"id": row["id"], "label": best(row) if row["model"] == new
                   else turned[best(row)]} for row in rows]  # fmt: skip
        told = one.client.post("/v1/feedback", json={"labels": labels}).json()
        assert told == {"received": 600, "unknown_labels": []}
        assert one.service.watch.counts["labels used"] == 600
        time.sleep(4.3)  # until labels are final
        one.run(one.service.watch.work())
        for model, accuracy in ((old, 0.0), (new, 1.0)):
            found = summary_of(one.service.watch, model)
            assert found["decided"]["rows"] == len(by[model])
            assert found["audited"]["accuracy"] == accuracy
        told = one.client.get("/v1/model").json()
        # The old model's alarm is no reason to take the canary back.
        assert {alarm["model"] for alarm in told["alarms"]} == {old}
        assert told["canary"]["withdrawn"] is None
        assert new in models_of(one, list(range(600)))


# Taken back


def test_an_alarm_takes_it_back_everywhere_and_for_good(tmp_path):
    """In this process, in another, and after a restart; but not with other promises."""
    state = f"{REDIS}?prefix=t{uuid.uuid4().hex[:12]}"
    new_model = certified()
    options = {"canary": new_model, "watch": watch, "share": 0.5, "state": state}
    odd = table(shift=3.0)  # with which every row leaves at the first stage

    def is_withdrawn(one):
        return one.client.get("/v1/model").json()["canary"]["withdrawn"]

    with served(tmp_path, odd, **options) as one, served(tmp_path, odd, **options) as other:
        old, new = digests(one)
        assert set(models_of(one, list(range(400)))) == {old, new}
        one.run(one.service.watch.work())
        wait_for(lambda: is_withdrawn(one) and is_withdrawn(other))
        told = is_withdrawn(one)
        assert told["promise"] == "exits"
        assert is_withdrawn(other) == told
        assert one.client.get("/v1/model").json()["canary"]["share"] == 0.0
        for each in (one, other):
            assert set(models_of(each, list(range(400)))) == {old}
    with served(tmp_path, table(), **options) as one:
        assert is_withdrawn(one) == told
        assert set(models_of(one, list(range(400)))) == {old}
    # The same cascade, certified on other rows, has not broken a promise yet.
    options["canary"] = certified(on=1500)
    with served(tmp_path, table(), **options) as one:
        assert digests(one) == (old, new)
        assert is_withdrawn(one) is None
        assert set(models_of(one, list(range(400)))) == {old, new}


def test_what_alarms_about_both_models_is_no_reason_to_take_it_back(tmp_path):
    """A change of the rows is not the canary's fault; wrong labels always are."""
    ahead = 0.0

    def watch_ahead(deployed, state):
        return AuditWatch(
            deployed.monitor, state, model=deployed.digest, audit=1.0, label_after=1000.0,
            classes=deployed.decider.classes.tolist(), clock=lambda: time.time() + ahead,
        )  # fmt: skip

    options = {"cascade": certified(0.8), "canary": certified(), "share": 0.5}
    with served(tmp_path, table(3.0), watch=watch_ahead, **options) as one:
        old, new = digests(one)
        rows = one.decide(keys=list(range(400))).json()["decisions"]
        one.run(one.service.watch.work())
        followed = one.service.watch.models
        for model in (old, new):
            assert {alarm.what for alarm in followed[model].alarms} == {"exits"}
        canary = one.service.models.canary
        for _ in range(2):
            one.run(look_once(one))
        assert canary.withdrawn is None
        assert set(models_of(one, list(range(400)))) == {old, new}
        turned = {"good": "fraud", "fraud": "good"}
        labels = [{"id": row["id"], "label": turned[best(row)]} for row in rows]
        assert one.client.post("/v1/feedback", json={"labels": labels}).status_code == 200
        ahead = 2000.0  # labels are final
        one.run(one.service.watch.work())
        assert all(alarms(one, model) >= {"accuracy"} for model in (old, new))
        wait_for(lambda: canary.withdrawn is not None)
        assert canary.withdrawn.promise == "accuracy"


def alarms(one, model):
    return {alarm.what for alarm in one.service.watch.alarms_of(model)}


async def look_once(one):
    """Check whether the canary must be withdrawn."""
    one.service.models.look()
    await asyncio.sleep(0.1)


def test_garbage_of_one_client_raises_no_alarm_and_takes_nothing_back(tmp_path):
    """By its known values; values of sources count as before."""
    options = {"canary": certified(), "watch": watch, "share": 0.5}
    with served(tmp_path, table(), **options) as one:
        old, new = digests(one)
        keys = list(range(1000))
        decisions = one.decide(keys=keys, known={"x0": ["abc"] * 1000}).json()["decisions"]
        assert {row["reason"] for row in decisions} == {"invalid value: x0"}
        assert {row["model"] for row in decisions} == {old, new}
        one.run(one.service.watch.work())
        one.run(look_once(one))
        watched = one.service.watch
        assert (watched.alarms, one.service.models.canary.withdrawn) == ((), None)
        assert watched.counts["left out invalid value"] == 1000
        assert (summary_of(watched, new)["decided"]["rows"], watched.counts["audited"]) == (0, 0)
        metrics = Metrics()
        metrics.watch(watched)
        shown = metrics.registry.get_sample_value("emsco_left_out_total", {"kind": "invalid value"})
        assert shown == 1000
        # Among rows that are well, only the others count.
        known = {"x0": [*FRESH[:90, 0].tolist(), *["abc"] * 10]}
        one.decide(keys=keys[:100], known=known)
        one.run(watched.work())
        assert sum(summary_of(watched, model)["decided"]["rows"] for model in (old, new)) == 90

    def wrong(keys, _):
        return {key: {"x0": "abc"} for key in keys}

    folder = tmp_path / "by a source"
    folder.mkdir()
    sources = Sources({**table(), "page": CallableSource(function=wrong)})
    with served(folder, sources, **options) as one:
        _, new = digests(one)
        decisions = one.decide(keys=list(range(1000))).json()["decisions"]
        assert {row["reason"] for row in decisions} == {"invalid value: x0"}
        one.run(one.service.watch.work())
        assert alarms(one, new) == {"coverage", "exits"} & alarms(one, new) != set()
        assert one.service.watch.counts["left out invalid value"] == 0


def test_a_key_that_cannot_be_one_is_the_callers():
    """Unless its source is asked with what another source has yielded."""
    reasons = np.array(["", "invalid key: page", "invalid key: bureau", "invalid value: x0"])
    decisions = Decisions(["good"] * 4, reasons == "", [0] * 4, [0.9] * 4, [1.0] * 4,
                          reasons.astype(object))  # fmt: skip
    needs = {"page": frozenset(), "bureau": frozenset({"x0"})}
    assert sent_invalid(decisions, (), needs) == [1]
    assert sent_invalid(decisions, {"x0": [1.0] * 4}, needs) == [1, 2, 3]
    assert sent_invalid(decisions[:1], {"x0": [1.0]}, needs) == []


def test_a_state_that_does_not_answer_does_not_keep_it(tmp_path):
    """The process that knows of it withdraws at once, the others once the state is back."""
    with served(tmp_path, table(3.0), canary=certified(), watch=watch, share=0.5) as one:
        old, _ = digests(one)
        models_of(one, list(range(400)))
        canary, real = one.service.models.canary, one.service.state

        class Gone:
            async def keep(self, *_, **__):
                raise StateError("gone")

            get_value = keep

        canary._state = Gone()
        one.run(one.service.watch.work())
        wait_for(lambda: canary.withdrawn is not None)
        assert not canary.is_settled
        assert set(models_of(one, list(range(400)))) == {old}
        canary._state = real
        wait_for(lambda: canary.is_settled)
    with served(tmp_path, table(), canary=certified(), share=0.5) as one:  # without a watch
        assert one.client.get("/v1/model").json()["canary"]["withdrawn"]["promise"] == "exits"


# As a process


@pytest.fixture
def world(tmp_path):
    """Write two models to files, with their stores; pages of odd keys are wrong."""
    odd = {f"odd-{i}": {"x0": 6.0} for i in range(200)}
    bureau = {key: {"x1": 0.0} for key in odd}
    with (
        redis_source(PAGES | odd, timeout=30.0) as page,
        http_source(BUREAU | bureau, paid=True, timeout=30.0) as (vendor, web),
    ):
        sources = Sources({"page": replace(page, url=None, url_env="PAGE_URL"), "bureau": vendor})
        (tmp_path / "sources.toml").write_text(sources.to_toml())
        dump(CASCADE, tmp_path / "model.emsco")
        dump(certified(), tmp_path / "new.emsco")
        yield World(tmp_path, web, {"EMSCO_STATE": "", "PAGE_URL": REDIS})


@pytest.mark.nightly
def test_workers_take_it_back_and_a_signal_ends_promotes_and_begins_it(world):
    """Two workers with one state, from the alarm to the next canary."""
    state = shared_state()
    new_file, arguments = world.folder / "new.emsco", ("--canary", "new.emsco", "--share", 0.5)
    with world.serve(*arguments, "--workers", 2, "--metrics-port", 0, *state) as one:
        one.wait_ready(2)
        old, new = digests(one)
        assert {event["model"] for event in one.events_named("canary")} == {new}
        assert set(models_of(one, KEYS)) == {old, new}
        wait_for(lambda: counted(one, "emsco_canary_share") == 0.5)
        for _ in range(3):
            models_of(one, [f"odd-{i}" for i in range(200)])
        # Decisions are counted every five seconds.
        wait_for(lambda: len({e["pid"] for e in one.events_named("canary withdrawn")}) == 2, 60)
        assert {e["promise"] for e in one.events_named("canary withdrawn")} == {"exits"}
        assert any(e["model"] == new for e in one.events_named("alarm"))
        assert set(models_of(one, KEYS)) == {old}
        wait_for(lambda: counted(one, "emsco_canary_share") == 0.0)
        assert "customer-" not in "".join(one.lines)
        one.send(signal.SIGTERM)
        assert one.end() == 0

    def reload(events, name="reload"):
        one.send(signal.SIGHUP)
        wait_for(lambda: len(one.events_named(name)) == events, 30)
        return one.client.get("/v1/model").json()

    with world.serve(*arguments, *state) as one:
        one.wait_ready()
        assert one.events_named("canary withdrawn")  # as it was before the restart
        assert set(models_of(one, KEYS)) == {old}
        assert reload(1)["canary"]["withdrawn"]  # a signal alone does not bring it back
        dump(certified(0.95), new_file)
        model = reload(2)
        third = model["canary"]["model"]
        assert (model["canary"]["withdrawn"], third in (old, new)) == (None, False)
        assert set(models_of(one, KEYS)) == {old, third}
        # A damaged or foreign file is refused, and both models stay.
        content = new_file.read_bytes()
        new_file.write_bytes(content[:-9])
        model = reload(1, "refused")
        assert "cannot be loaded" in model["refused"]["why"]
        assert (model["model"], model["canary"]["model"]) == (old, third)
        design = StageDesign.from_stages([["page"], ["bureau"]])
        costs = Costs([Source("page", cost=1, features=["x0"]),
                       Source("bureau", cost=5, features=["x1"])])  # fmt: skip
        dump(CascadeClassifier(design=design, costs=costs).fit(X, LABELS == "good"), new_file)
        assert "The canary has the labels" in reload(2, "refused")["refused"]["why"]
        assert set(models_of(one, KEYS)) == {old, third}
        # The file of the canary in place of the other one: it is promoted.
        new_file.write_bytes(content)
        world.model.write_bytes(content)
        model = reload(3)
        assert (model["model"], model["canary"], model["refused"]) == (third, None, None)
        assert {one.decide(key=key).json()["model"] for key in KEYS[:20]} == {third}
        # A new file is a new canary, and without its file it ends.
        dump(certified(0.85), new_file)
        assert reload(4)["canary"]["model"] not in (old, new, third)
        new_file.unlink()
        assert reload(5)["canary"] is None
        assert any("has ended" in event.get("text", "") for event in one.events_named("canary"))
        one.send(signal.SIGTERM)
        assert one.end() == 0


def test_each_model_may_have_sources_of_its_own(tmp_path, monkeypatch):
    """They stand in one file; a name that neither knows is refused, and so is a further need."""
    monkeypatch.setenv("PAGE_URL", REDIS)
    costs = Costs([Source("page", cost=1, features=["x0"]), Source("lab", cost=2, features=["x1"])])
    design = StageDesign.from_stages([["page"], ["lab"]])
    other = CascadeClassifier(design=design, costs=costs, threshold=0.9).fit(X, LABELS)
    dump(CASCADE, tmp_path / "model.emsco")
    dump(other, tmp_path / "new.emsco")
    settings = Settings(
        model=tmp_path / "model.emsco", canary=tmp_path / "new.emsco", share=0.5, folder=tmp_path,
        sources=tmp_path / "sources.toml",
    )  # fmt: skip

    async def models():
        state = await open_state(settings.state_address)
        deployed, canary = await load_models(settings, state)
        service = Service(settings, deployed, state, canary=canary)
        try:
            body = DecideBody(keys=KEYS, known={"x0": X[:, 0].tolist()})
            return deployed, canary, await service.decide(body)
        finally:
            await service.stop()
            await state.close()

    with (
        redis_source(PAGES, timeout=30.0) as page,
        redis_source(BUREAU, timeout=30.0) as lab,
        http_source(BUREAU, timeout=30.0) as (bureau, _),
    ):

        def write(**sources):
            (tmp_path / "sources.toml").write_text(
                Sources(
                    {
                        name: replace(one, url=None, url_env="PAGE_URL")
                        if one.url == REDIS else one for name, one in sources.items()
                    }
                ).to_toml()
            )  # fmt: skip

        write(page=page, bureau=bureau, lab=lab)
        deployed, canary, answer = asyncio.run(models())
        assert (deployed.bought, canary.deployed.bought) == (["page", "bureau"], ["page", "lab"])
        wanted = {deployed.digest: CASCADE.decide(X), canary.deployed.digest: other.decide(X)}
        assert [best(row) for row in answer["decisions"]] == [
            wanted[row["model"]].label[place] for place, row in enumerate(answer["decisions"])
        ]
        write(page=page, bureau=bureau, lab=lab, labs=lab)
        with pytest.raises(SourcesError, match="The costs have no source 'labs'"):
            asyncio.run(models())
        write(page=page, bureau=bureau, lab=replace(lab, key=lab.key + ":{country}"))
        with pytest.raises(ServiceError, match="The canary needs 'country' in `known`"):
            asyncio.run(models())


def test_what_cannot_be_a_canary_is_refused(world, monkeypatch):
    monkeypatch.chdir(world.folder)
    monkeypatch.setenv("PAGE_URL", REDIS)
    monkeypatch.delenv("EMSCO_STATE", raising=False)
    options = ("serve", world.model, "--sources", "sources.toml", "--port", 0)
    for more, message in (
        (["--canary", "new.emsc"], "new.emsc cannot be loaded"),
        (["--canary", "new.emsco", "--share", 1.5], "--share must be between 0 and 1"),
    ):
        result = call(*options, *more)
        assert (result.code, message in result.err) == (2, True), result.err
