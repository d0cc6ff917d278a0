"""Shadow mode: the final model answers, everything is fetched, and the log is usable."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import time
import uuid
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import call
from processes import World, counted
from served import COSTS, LABELS, N, Store, X, served, wait_for
from sklearn.linear_model import LogisticRegression
from stores import REDIS, http_source, redis_source
from watching import summary as summary_of

from emsco import CascadeClassifier, Costs, Source, StageDesign, dump, load
from emsco.certify import certify
from emsco.cli._shadow_log import as_rows
from emsco.live import CallableSource, Sources
from emsco.serve.audit_watch import AuditWatch
from emsco.serve.deployment import Deployment
from emsco.serve.settings import Settings
from emsco.serve.shadow import ShadowMode
from emsco.serve.shadow_log import read_shadow_log

FRAME = pd.DataFrame(X, columns=["x0", "x1"])
FINAL = LogisticRegression().fit(FRAME, LABELS)
PAGE = (Path(__file__).parents[2] / "docs" / "rollout.md").read_text(encoding="utf-8")
SECRET = {"EMSCO_LOG_KEY": "a secret of the tests"}
RNG = np.random.default_rng(11)
FRESH_Y = RNG.integers(2, size=1500)
FRESH = pd.DataFrame(
    np.column_stack([FRESH_Y + RNG.normal(size=1500), 4 * FRESH_Y + RNG.normal(size=1500)]),
    columns=["x0", "x1"],
)
FRESH_KEYS = [f"caller-{i:04}" for i in range(len(FRESH))]
FRESH_PAGES = {key: {"x0": float(x)} for key, x in zip(FRESH_KEYS, FRESH["x0"], strict=True)}
FRESH_BUREAU = {key: {"x1": float(x)} for key, x in zip(FRESH_KEYS, FRESH["x1"], strict=True)}


def make_shadowed(threshold=0.8, costs=COSTS):
    design = StageDesign.from_stages([["page"], ["bureau"]])
    cascade = CascadeClassifier(design=design, costs=costs, threshold=threshold, final=FINAL)
    return cascade.fit(FRAME, LABELS)


CASCADE = make_shadowed()


@pytest.fixture(autouse=True)
def _secret(monkeypatch):
    monkeypatch.setenv("EMSCO_LOG_KEY", SECRET["EMSCO_LOG_KEY"])


@pytest.fixture
def world(tmp_path):
    """Create a model with a final model, its stores, and a vendor that counts calls."""
    with (
        redis_source(FRESH_PAGES, timeout=30.0) as page,
        http_source(FRESH_BUREAU, paid=True, timeout=30.0) as (bureau, web),
    ):
        sources = Sources({"page": replace(page, url=None, url_env="PAGE_URL"), "bureau": bureau})
        (tmp_path / "sources.toml").write_text(sources.to_toml())
        dump(CASCADE, tmp_path / "model.emsco")
        yield World(tmp_path, web, {"EMSCO_STATE": "", "PAGE_URL": REDIS, **SECRET})


@pytest.fixture
def sources():
    """Create the stores alone, for a service in this process."""
    with (
        redis_source(FRESH_PAGES, timeout=30.0) as page,
        http_source(FRESH_BUREAU, paid=True, timeout=30.0) as (bureau, _),
    ):
        yield Sources({"page": page, "bureau": bureau})


def shadowed(tmp_path, sources, cascade=CASCADE, **settings):
    return served(
        tmp_path, sources, cascade=cascade,
        **{"shadow": True, "log": tmp_path / "log", "log_values": True} | settings,
    )  # fmt: skip


SHADOW = ("--shadow", "--log", "log", "--log-values")


def entries(folder, kind="decisions"):
    lines = [line for path in sorted(folder.glob(f"{kind}-*.jsonl"))
             for line in path.read_text().splitlines()]  # fmt: skip
    return [json.loads(line) for line in lines]


def ask(one, keys, size=100, **more):
    """Request many rows, and return the decisions."""
    found = []
    for first in range(0, len(keys), size):
        answer = one.decide(keys=keys[first : first + size], **more)
        assert answer.status_code == 200, answer.text
        found += answer.json()["decisions"]
    return found


def test_the_final_model_answers_and_the_log_is_what_savings_and_certify_take(world, monkeypatch):
    """Through real stores and a real process; every number is that of the table."""
    wanted, offline = FINAL.predict(FRESH), CASCADE.decide(FRESH)
    dump(make_shadowed(0.81), world.folder / "other.emsco")
    with world.serve(*SHADOW, "--metrics-port", 0) as one:
        one.wait_ready()
        told = ask(one, FRESH_KEYS)
        assert one.client.get("/v1/model").json()["shadow"] is True
        labels = [{"id": row["id"], "label": ["good", "fraud"][y]}
                  for row, y in zip(told[:900], FRESH_Y, strict=False)]  # fmt: skip
        assert one.client.post("/v1/feedback", json={"labels": labels}).json()["logged"] == 900
        wrong = {"labels": [{"id": told[0]["id"], "label": "goood"}]}
        told_of = one.client.post("/v1/feedback", json=wrong).json()
        assert told_of == {"received": 1, "unknown_labels": [told[0]["id"]], "logged": 0}
        saved = counted(one, "emsco_shadow_saved_total")
        changed = counted(one, "emsco_shadow_changed_total")
        stages = counted(one, "emsco_shadow_decisions_total")
        digest = one.client.get("/v1/model").json()["model"]
        one.send(signal.SIGTERM)
        assert one.end() == 0
    assert [row["label"] for row in told] == wanted.tolist()
    assert all(row["accepted"] and row["cost"] == 6.0 for row in told)
    assert sorted(world.vendor.asked) == FRESH_KEYS  # everything is fetched, for every row
    logged = entries(world.folder / "log")
    would_be = [entry["shadow"] for entry in logged]
    assert [entry["id"] for entry in logged] == [row["id"] for row in told]
    assert [one["label"] for one in would_be] == offline.label.tolist()
    assert [one["exit_stage"] for one in would_be] == offline.exit_stage.tolist()
    assert [one["cost"] for one in would_be] == offline.cost.tolist()
    assert [one["saved"] for one in would_be] == (6.0 - offline.cost).tolist()
    assert [one["final"] for one in would_be] == (offline.exit_stage == 1).tolist()
    assert [list(entry["values"].values()) for entry in logged] == FRESH.to_numpy().tolist()
    assert {entry["model"] for entry in logged} == {digest}
    assert not any(key in json.dumps(logged) for key in FRESH_KEYS[:20])
    n_changed = int((offline.label != wanted).sum())
    assert 0 < n_changed < 100
    assert (saved, changed, stages) == ((6.0 - offline.cost).sum(), n_changed, len(FRESH))

    # The table of `emsco savings`.
    log = world.folder / "log"
    shown = call("savings", "--log", log, "--changed", world.folder / "changed.csv")
    assert shown.code == 0, shown.err
    assert "decisions left as they were  cost per row  of the bill  would have changed" in shown.out
    cost = offline.cost.mean()
    line = next(line for line in shown.out.splitlines() if f" of {len(FRESH):,} (" in line)
    assert line.split()[:3] == [f"{1 - n_changed / 1500:.2%}", f"{cost:.4g}", f"{cost / 6:.1%}"]
    assert f"{n_changed} of 1,500" in line
    assert "Of 900 rows with a label, your model was right about" in shown.out
    told_changed = pd.read_csv(world.folder / "changed.csv")
    assert (told_changed.before != told_changed.after).all()
    assert len(told_changed) == n_changed
    data = json.loads(call("savings", "--log", log, "--json").out)
    (cascade,) = data["cascades"]
    right = (wanted[:900] == np.array(["good", "fraud"])[FRESH_Y[:900]]).sum()
    assert (cascade["labelled"], cascade["right"]) == (900, right)
    assert cascade["cost"] == pytest.approx(cost)

    # The rows of `emsco certify`, without labels and with them.
    model, certified = world.model, world.folder / "certified.emsco"
    monkeypatch.chdir(world.folder)
    shown_on_page = re.findall(r"^emsco (savings --log .*|certify .*)$", PAGE, flags=re.M)
    assert len(shown_on_page) == 2
    shown, done = (call(*command.replace("0.98", "0.9").split()) for command in shown_on_page)
    assert (shown.code, done.code) == (0, 0), done.out + done.err
    assert "Read: 1,500 rows of" in done.err
    direct = certify(make_shadowed(), FRESH, agreement=0.9, groups=FRESH_KEYS, random_state=0)
    assert direct.sentence in done.out  # what a table with the same rows would certify
    assert load(certified).certificate_.rows == 1500
    again = call("certify", model, log, "--agreement", 0.91, "--groups", "_key")
    assert again.code == 2  # the ledger knows rows of a log as it knows those of a table
    labelled = ("certify", world.folder / "other.emsco", log, "--label", "_truth", "--accuracy",
                0.9, "--groups", "_key")  # fmt: skip
    refused = call(*labelled)
    assert refused.code == 2
    assert "pass --final-fitted-elsewhere" in refused.err
    again = call(*labelled, "--final-fitted-elsewhere")
    assert again.code == 2  # and so it does for another model
    assert "These rows were already used" in again.err
    for ledger in world.folder.glob("*.ledger"):  # as if nothing had been asked yet
        ledger.unlink()
    done = call(*labelled, "--final-fitted-elsewhere")
    assert done.code == 0, done.out + done.err
    assert "Read: 900 rows of" in done.err
    assert "left out: 600 have no label" in done.err


def test_a_log_is_searched_for_better_stages(tmp_path, sources):
    with shadowed(tmp_path, sources) as one:
        ask(one, FRESH_KEYS, 500)
    log, out = tmp_path / "log", tmp_path / "new.emsco"
    (tmp_path / "costs.toml").write_text(COSTS.to_toml())
    options = ("--costs", tmp_path / "costs.toml", "--stages", "logistic", "--agreement", 0.9,
               "--quiet")  # fmt: skip
    found = call("savings", "--log", log, *options)
    assert found.code == 0, found.err
    assert "Of 1,500 rows, 750 were used for the search" in found.out
    assert "at least 90%" in found.out
    assert "_id" not in found.err
    both = call("savings", tmp_path / "log.csv", "--log", log, *options)
    assert (both.code, "Give either a file of rows or --log" in both.err) == (2, True)
    alone = call("savings", "--log", log, "--out", out)
    assert (alone.code, "--log takes --out only together with --costs" in alone.err) == (2, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--shadow"], "--shadow needs --log FOLDER and --log-values"),
        (["--shadow", "--log", "log"], "--shadow needs --log FOLDER and --log-values"),
        ([*SHADOW, "--canary", "new.emsco"], "--shadow and --canary cannot be combined"),
    ],
)
def test_shadow_without_what_it_needs_is_refused(world, monkeypatch, options, message):
    monkeypatch.chdir(world.folder)
    told = call("serve", world.model, "--sources", "sources.toml", "--port", 0, *options)
    assert (told.code, message in told.err) == (2, True)


def test_a_file_without_a_final_model_is_refused(world, monkeypatch):
    """At the start and on a reload; then the model in use stays."""
    monkeypatch.chdir(world.folder)
    monkeypatch.setenv("PAGE_URL", REDIS)
    design = StageDesign.from_stages([["page"], ["bureau"]])
    plain = CascadeClassifier(design=design, costs=COSTS).fit(FRAME, LABELS)
    dump(plain, world.folder / "plain.emsco")
    told = call("serve", "plain.emsco", "--sources", "sources.toml", "--port", 0, *SHADOW)
    assert told.code == 2
    assert "--shadow needs a model whose last stage is a final model" in told.err
    with world.serve(*SHADOW) as one:
        one.wait_ready()
        before = one.client.get("/v1/model").json()["model"]
        dump(plain, world.model)
        one.send(signal.SIGHUP)
        wait_for(lambda: one.events_named("refused"))
        assert "this file has none" in one.events_named("refused")[0]["why"]
        told = one.client.get("/v1/model").json()
        assert (told["model"], told["shadow"]) == (before, True)
        assert one.decide(key=FRESH_KEYS[0]).json()["decisions"][0]["accepted"]


def test_rows_that_fail_are_rejected_recorded_and_left_out(tmp_path, sources):
    """And what is known is neither fetched nor counted as saved."""
    with shadowed(tmp_path, sources) as one:
        ask(one, FRESH_KEYS[:50])
        lost = ask(one, ["nobody-1", "nobody-2"])
        assert {row["reason"] for row in lost} == {"missing: page"}
        quick = int(np.flatnonzero(CASCADE.decide(FRESH).exit_stage == 0)[0])
        known = {"x1": [float(FRESH["x1"][quick])]}
        (told,) = ask(one, [FRESH_KEYS[quick]], known=known)
        assert told["cost"] == 1.0
    logged = entries(tmp_path / "log")
    assert [entry["shadow"] for entry in logged[50:52]] == [None, None]
    assert (logged[52]["shadow"]["saved"], logged[52]["shadow"]["exit_stage"]) == (0.0, 0)
    log = read_shadow_log(tmp_path / "log")
    assert (len(log.rows), log.failed, log.others) == (51, 2, 0)
    shown = call("savings", "--log", tmp_path / "log")
    assert "2 more rows could not be answered and are left out." in shown.out


def test_a_decision_made_again_counts_once_and_half_a_line_is_left_out(tmp_path, sources):
    """As left by a process that is killed while it writes."""
    with shadowed(tmp_path, sources) as one:
        ask(one, FRESH_KEYS[:20])
    (path,) = (tmp_path / "log").glob("decisions-*.jsonl")
    whole = path.read_text().splitlines()
    later = json.loads(whole[0]) | {"time": "2999-01-01", "label": "of the last one"}
    path.write_text("\n".join([*whole, json.dumps(later)]) + "\n" + whole[1][:40])
    log = read_shadow_log(tmp_path / "log")
    assert len(log.rows) == 20
    assert log.rows[-1].answer == "of the last one"
    path.write_text("\n".join([*whole[:3], whole[3][:40], *whole[4:]]) + "\n")
    told = call("savings", "--log", tmp_path / "log")
    assert (told.code, "Line 4 of" in told.err) == (2, True)


def test_other_logs_are_refused_and_others_in_a_log_left_out(tmp_path, sources):
    """Rows for which a cascade bought everything are not a fair sample."""
    log, model = tmp_path / "log", tmp_path / "model.emsco"
    dump(CASCADE, model)
    with shadowed(tmp_path, sources, shadow=False) as one:
        ask(one, FRESH_KEYS[:30])
    for command in (["savings", "--log", log], ["certify", model, log, "--agreement", 0.9]):
        told = call(*command)
        assert (told.code, "has no row that was decided in shadow" in told.err) == (2, True)
    empty = tmp_path / "empty"
    empty.mkdir()
    told = call("savings", "--log", empty)
    assert (told.code, "has no row that was decided in shadow" in told.err) == (2, True)
    with shadowed(tmp_path, sources) as one:
        ask(one, FRESH_KEYS[:40])
    found = read_shadow_log(log)
    assert (len(found.rows), found.others) == (40, 30)
    told = call("savings", "--log", log)
    assert "30 more rows were not decided in shadow and are left out." in told.out


def test_each_cascade_in_a_log_has_its_own_table_and_all_rows_are_certified_on(tmp_path, sources):
    """The last one first; what is certified depends on values, not on who was in shadow."""
    later = make_shadowed(0.95)
    for cascade, keys in ((CASCADE, FRESH_KEYS[:60]), (later, FRESH_KEYS[60:160])):
        with shadowed(tmp_path, sources, cascade) as one:
            ask(one, keys)
    log = read_shadow_log(tmp_path / "log")
    assert log.features == ("x0", "x1")
    last, first = log.summaries()
    for found, cascade, rows in ((first, CASCADE, FRESH[:60]), (last, later, FRESH[60:160])):
        offline = cascade.decide(rows)
        assert (found.rows, found.paid) == (len(rows), 6.0)
        assert found.cost == pytest.approx(offline.cost.mean())
        assert found.early == pytest.approx((offline.exit_stage == 0).mean())
    shown = call("savings", "--log", tmp_path / "log").out
    assert shown.index(last.model[:12]) < shown.index(first.model[:12])
    with as_rows(tmp_path / "log") as copied:
        table = pd.read_parquet(copied)
    assert table[["x0", "x1"]].to_numpy().tolist() == FRESH[:160].to_numpy().tolist()
    assert not copied.exists()
    assert table["_answer"].tolist() == FINAL.predict(FRESH[:160]).tolist()


def test_an_id_is_answered_once_and_logged_once(tmp_path, sources):
    with shadowed(tmp_path, sources) as one:
        first = one.decide(key=FRESH_KEYS[0], id="order-1").json()
        assert one.decide(key=FRESH_KEYS[0], id="order-1").json() == first
    assert [entry["id"] for entry in entries(tmp_path / "log")] == ["order-1-0"]


def test_all_sources_are_fetched_at_the_same_time(tmp_path):
    """So that requests take no longer than without the cascade."""
    begun = []

    def source(column, seconds):
        async def fetch(keys, _):
            begun.append(time.monotonic())
            await asyncio.sleep(seconds)
            return {key: {column: 0.5} for key in keys}

        return CallableSource(function=fetch)

    sources = Sources({"page": source("x0", 0.3), "bureau": source("x1", 0.3)})
    with shadowed(tmp_path, sources, CASCADE) as one:
        begin = time.monotonic()
        assert one.decide(key="a").status_code == 200
        assert time.monotonic() - begin < 0.55
        assert abs(begun[0] - begun[1]) < 0.1


def test_a_setup_that_both_sides_share_is_not_saved(tmp_path):
    """Whichever source was the first to pay for it."""
    costs = Costs(
        [
            Source("page", cost=1, features=["x0"], setup="draw", requires=["free"]),
            Source("free", cost=0, features=["x2"]),
            Source("bureau", cost=5, features=["x1"], setup="draw"),
        ],
        setups={"draw": 10},
    )
    frame = FRAME.assign(x2=0.5 * RNG.normal(size=N))
    final = LogisticRegression().fit(frame, LABELS)
    design = StageDesign.from_stages([["page", "free"], ["bureau"]])
    cascade = CascadeClassifier(design=design, costs=costs, threshold=0.8, final=final)
    cascade.fit(frame, LABELS)

    def source(column):
        async def fetch(keys, _):
            await asyncio.sleep(0.01)
            return {key: {column: float(frame[column][key])} for key in keys}

        return CallableSource(function=fetch)

    sources = Sources({"page": source("x0"), "free": source("x2"), "bureau": source("x1")})
    with shadowed(tmp_path, sources, cascade) as one:
        told = ask(one, list(range(N)))
    assert {row["cost"] for row in told} == {16.0}
    offline = cascade.decide(frame)
    would_be = [entry["shadow"] for entry in entries(tmp_path / "log")]
    assert {11.0, 16.0} == set(offline.cost.tolist())
    assert [row["cost"] for row in would_be] == offline.cost.tolist()
    assert [row["label"] for row in would_be] == offline.label.tolist()


def test_values_that_cannot_be_judged_count_where_the_cascade_needs_them(tmp_path):
    """A text where training had numbers: the final model rejects it, an early exit does not."""
    offline = CASCADE.decide(FRAME)
    quick, thorough = (int(np.flatnonzero(offline.exit_stage == stage)[0]) for stage in (0, 1))
    store = Store()

    async def bureau(keys, _):
        return {key: {"x1": "none"} for key in keys}

    async def page(keys, _):
        return {key: {"x0": X[key, 0]} for key in keys}

    sources = Sources({"page": CallableSource(function=page),
                       "bureau": CallableSource(function=bureau)})  # fmt: skip
    with shadowed(tmp_path, sources, CASCADE) as one:
        told = ask(one, [quick, thorough])
    assert {row["reason"] for row in told} == {"invalid value: x1"}
    assert store.asked["page"] == []
    first, second = (entry["shadow"] for entry in entries(tmp_path / "log"))
    assert (first["label"], first["accepted"], first["reason"]) == (
        offline.label[quick], True, "")  # fmt: skip
    assert (second["accepted"], second["reason"]) == (False, "invalid value: x1")


def test_a_log_that_cannot_be_written_rejects_or_drops(tmp_path):
    (tmp_path / "log").write_text("a file where the folder should be")
    for what, accepted in (("drop", True), ("reject", False)):
        with shadowed(tmp_path, Store().sources, CASCADE, on_log_failure=what) as one:
            (told,) = one.decide(key="customer-0001").json()["decisions"]
            assert told["accepted"] is accepted
            assert told["reason"] == ("" if accepted else "error: log")


def test_agreement_is_watched_by_what_the_final_model_answers(tmp_path):
    """No client needs to send labels, and labels of clients do not mix with the answers."""
    certified = make_shadowed()
    certified.certificate_ = certify(certified, FRESH, agreement=0.9, random_state=0)
    assert certified.certificate_.certified
    rows = 400

    def source(column, shift):
        async def fetch(keys, _):
            return {key: {column: float(FRESH[column][key % 1500]) + shift} for key in keys}

        return CallableSource(function=fetch)

    def watch(deployed, state):
        return AuditWatch(
            deployed.monitor, state, model=deployed.digest, audit=1.0, label_after=4.0, cohort=0.1,
            classes=deployed.decider.classes.tolist(), deployment=uuid.uuid4().hex,
        )  # fmt: skip

    for shift, alarms in ((0.0, False), (3.0, True)):  # pages that lie make stages lie
        sources = Sources({"page": source("x0", shift), "bureau": source("x1", 0.0)})
        folder = tmp_path / str(shift)
        folder.mkdir()
        with shadowed(folder, sources, certified, watch=watch) as one:
            told = ask(one, list(range(rows)))
            labels = [{"id": row["id"], "label": "fraud"} for row in told]
            sent = one.client.post("/v1/feedback", json={"labels": labels}).json()
            assert sent == {"received": rows, "unknown_labels": [], "logged": rows}
            time.sleep(4.3)  # until labels are final
            one.run(one.service.watch.work())
            found = summary_of(one.service.watch, one.service.deployed.digest)
            assert found["audited"]["labelled"] == rows
            assert found["decided"]["rows"] == rows
            raised = [alarm["what"] for alarm in found["alarms"]]
            assert ("agreement" in raised) is alarms, raised
            assert bool(one.client.get("/v1/model").json()["alarms"]) is alarms


def test_a_shadow_needs_a_final_model_that_is_here(tmp_path):
    settings = Settings(shadow=True, log=tmp_path / "log", log_values=True, folder=tmp_path)

    async def main():
        deployed = await Deployment.make(CASCADE, Store().sources, settings)
        assert isinstance(deployed.shadow, ShadowMode)
        assert deployed.digest == (await Deployment.make(
            CASCADE, Store().sources, Settings(folder=tmp_path))).digest  # fmt: skip
        await deployed.close()

    asyncio.run(main())
