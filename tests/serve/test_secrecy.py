"""Clients and readers of the state or of messages learn nothing that is not theirs."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sqlite3
import stat
import uuid

import httpx
import pytest
from served import KEYS, QUICK, Store, served
from stores import POSTGRES, REDIS

from emsco.exceptions import SourcesError, StateError
from emsco.live.decision_log import DecisionLog
from emsco.serve.audit_watch import AuditWatch
from emsco.serve.metrics import Metrics
from emsco.serve.metrics_server import MetricsServer
from emsco.serve.request_bodies import DecideBody
from emsco.serve.shared_values import state_key
from emsco.serve.state import open_state

SECRET = "a secret of the tests, long enough"


def watch(deployed, state):
    return AuditWatch(
        deployed.monitor, state, model=deployed.digest, audit=0.5, label_after=1000.0, seed=1,
        classes=deployed.decider.classes.tolist(),
    )  # fmt: skip


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    with served(tmp_path_factory.mktemp("here"), Store().sources, watch=watch) as one:
        yield one


def problem(answer, status, kind):
    assert (answer.status_code, answer.json()["type"]) == (status, f"urn:emsco:{kind}")
    return answer.json()["detail"]


# Labels


def test_feedback_says_the_same_of_audited_rows_others_and_those_to_come(here):
    """Metrics count the outcomes of labels; their senders learn nothing about the draw."""

    def send(label, *ids):
        labels = [{"id": one, "label": label} for one in ids]
        return here.client.post("/v1/feedback", json={"labels": labels})

    rows = here.decide(keys=KEYS[:40], id="some").json()["decisions"]
    counts = here.service.watch.counts
    told, outcomes = set(), set()
    for one in [*(row["id"] for row in rows), *(f"later-{i}" for i in range(20))]:
        before = dict(counts)
        told.add(send("good", one).text)
        outcomes |= {name for name in counts if counts[name] != before.get(name, 0)}
    assert outcomes == {"labels used", "labels not audited", "labels unknown"}
    assert told == {'{"received":1,"unknown_labels":[]}'}
    assert send("good", rows[0]["id"], "later-0").json() == {"received": 2, "unknown_labels": []}
    # Whether a label is one of the model's is told for all alike, too.
    ids = [row["id"] for row in rows[:10]]
    answer = send("Good", *ids)
    assert (answer.status_code, answer.json()) == (200, {"received": 10, "unknown_labels": ids})
    assert counts["labels unknown label"] == 10


def test_a_label_that_is_too_long_is_refused(here):
    body = {"labels": [{"id": "a-0", "label": "x" * 257}]}
    detail = problem(here.client.post("/v1/feedback", json=body), 422, "body")
    assert "256" in detail


# Who asks


FORWARDED = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Anything", "X-Real-IP", "Via")


def test_without_tokens_a_request_that_a_proxy_passed_on_is_refused(here, tmp_path):
    for name in FORWARDED:
        for method, path in (
            ("POST", "/v1/decide"),
            ("POST", "/v1/feedback"),
            ("GET", "/v1/model"),
        ):
            answer = here.client.request(
                method, path, json={"key": QUICK}, headers={name: "1.2.3.4"}
            )
            assert "tokens" in problem(answer, 403, "proxy")
        for path in ("/healthz", "/readyz"):
            assert here.client.get(path, headers={name: "1.2.3.4"}).status_code == 200
    token = "the token of decisions"
    with served(tmp_path, Store().sources, tokens={"decide": token}) as one:
        headers = {"Authorization": f"Bearer {token}", "X-Forwarded-For": "1.2.3.4"}
        assert (
            one.client.post("/v1/decide", json={"key": QUICK}, headers=headers).status_code == 200
        )
        labels = {"labels": [{"id": "a-0", "label": "good"}]}
        answer = one.client.post("/v1/feedback", json=labels, headers=headers)
        problem(answer, 403, "proxy")  # this use has no token


def test_without_a_token_metrics_that_a_proxy_asks_for_are_refused():
    for token, status in ((None, 403), ("the token of metrics", 200)):
        server = MetricsServer(Metrics().registry, 0, token=token)
        headers = {"Via": "1.1 proxy", "Authorization": f"Bearer {token}"}
        answer = httpx.get(f"http://127.0.0.1:{server.port}/metrics", headers=headers)
        server.close()
        assert answer.status_code == status


@pytest.mark.parametrize("tenant", ["a\0b", "a\nb", "\x1b[31m", "\x7f", "\x85"])
def test_control_characters_in_a_tenant_are_refused(here, tenant):
    assert "control" in problem(here.decide(key=QUICK, tenant=tenant), 422, "body")
    assert here.decide(key=QUICK, tenant="Käufer & Söhne/2").status_code == 200


# The state


@pytest.mark.parametrize("scheme", ["redis", "postgresql"])
@pytest.mark.parametrize("password", ["q7/zk", "q7?zk", "q7#zk", "q7@zk", "4711/zk", "q7/x@x?x@zk"])
def test_no_message_shows_a_password(scheme, password):
    """Even if it was not percent-encoded, and the URL means something else."""
    with pytest.raises(StateError) as caught:
        asyncio.run(open_state(f"{scheme}://meier:{password}@127.0.0.1:1/0?password={password}"))
    error = caught.value
    while error is not None:
        shown = str(error)
        assert not any(part in shown for part in ("meier", "q7", "zk", "4711"))
        error = error.__cause__


def test_only_its_owner_reads_the_files_of_a_state(tmp_path, monkeypatch):
    """New ones, and one that an earlier version has left open to all."""
    monkeypatch.delenv("EMSCO_STATE_KEY", raising=False)
    before = os.umask(0o022)
    try:
        for old in (False, True):
            folder = tmp_path / str(old)
            folder.mkdir()
            if old:
                (folder / "emsco-state.sqlite").touch(0o644)
            with served(folder, Store().sources) as one:
                assert one.decide(key=QUICK, id="order-1").status_code == 200
                files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
                assert set(files.values()) == {0o600}
                assert files.keys() >= {"emsco-state.sqlite", "emsco-state.sqlite-wal"}
    finally:
        os.umask(before)


def claimed(folder):
    """Read what a state stores of request bodies."""
    with sqlite3.connect(folder / "emsco-state.sqlite") as connection:
        return dict(connection.execute("SELECT id, body FROM emsco_claims").fetchall())


def test_who_reads_the_state_cannot_try_out_keys(tmp_path, monkeypatch):
    """A body is kept by an HMAC: the hash of the body itself is nowhere, in two states two."""
    monkeypatch.delenv("EMSCO_STATE_KEY", raising=False)
    found = []
    for name in ("one", "other"):
        folder = tmp_path / name
        folder.mkdir()
        for _ in range(2):  # also after a restart
            with served(folder, Store().sources) as one:
                assert one.decide(key=QUICK, id="order-1").status_code == 200
        found.append(claimed(folder)["order-1"])
    guessed = DecideBody(key=QUICK)
    told = [QUICK, None, [], "", False, False]
    plain = hashlib.sha256(json.dumps(told, separators=(",", ":")).encode()).hexdigest()
    assert guessed.digest == plain  # so it could be tried out
    assert plain not in found
    assert found[0] != found[1]


def key_of(address):
    """Open a state, and return its key."""

    async def main():
        state = await open_state(address)
        try:
            return await state_key(state)
        finally:
            await state.close()

    return asyncio.run(main())


def test_a_state_belongs_to_its_key(tmp_path, monkeypatch):
    """A process with another one is refused, with every kind of state."""
    addresses = [str(tmp_path / "state.sqlite")]
    addresses += [f"{store}?prefix=k{uuid.uuid4().hex[:12]}" for store in (REDIS, POSTGRES)]
    for address in addresses:
        monkeypatch.setenv("EMSCO_STATE_KEY", SECRET)
        assert [key_of(address) for _ in range(2)] == [SECRET.encode()] * 2
        for key, told in ((SECRET[::-1], "EMSCO_STATE_KEY"), ("", "EMSCO_STATE_KEY"),
                          ("x", "EMSCO_STATE_KEY must have at least 16")):  # fmt: skip
            monkeypatch.setenv("EMSCO_STATE_KEY", key)
            with pytest.raises(StateError, match=told) as caught:
                key_of(address)
            assert SECRET not in str(caught.value)


def test_without_a_key_a_shared_state_keeps_one_and_says_so(monkeypatch, capsys):
    monkeypatch.delenv("EMSCO_STATE_KEY", raising=False)
    address, other = (f"{REDIS}?prefix=k{uuid.uuid4().hex[:12]}" for _ in range(2))
    assert key_of(address) == key_of(address) != key_of(other)
    assert "Set EMSCO_STATE_KEY" in json.loads(capsys.readouterr().err.splitlines()[0])["text"]


def test_a_state_whose_key_file_is_lost_is_refused(tmp_path, monkeypatch):
    monkeypatch.delenv("EMSCO_STATE_KEY", raising=False)
    address = str(tmp_path / "state.sqlite")
    assert key_of(address) == key_of(address)
    file = tmp_path / "state.sqlite.key"
    content = file.read_text()
    file.write_text("no key")
    with pytest.raises(StateError, match=r"state\.sqlite\.key cannot be used"):
        key_of(address)
    file.unlink()
    with pytest.raises(StateError, match=r"restore its file .*state\.sqlite\.key"):
        key_of(address)
    assert not file.exists()
    file.write_text(content)
    assert key_of(address) == bytes.fromhex(content)


def test_a_short_key_of_the_log_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("EMSCO_LOG_KEY", "x")
    with pytest.raises(SourcesError, match="EMSCO_LOG_KEY must have at least 16"):
        DecisionLog(tmp_path)
    monkeypatch.setenv("EMSCO_LOG_KEY", SECRET)
    assert len(DecisionLog(tmp_path).hidden("a")) == 64
