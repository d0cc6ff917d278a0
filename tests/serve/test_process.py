"""`emsco serve` as a process: start, refusals, draining, reloads, and restarts of workers."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from dataclasses import replace

import httpx
import pytest
from commands import call
from processes import World, counted, shared_state
from served import (
    BUREAU,
    CASCADE,
    PAGES,
    QUICK,
    THOROUGH,
    make_cascade,
    make_foreign,
    post,
    raw,
    wait_for,
)
from stores import REDIS, http_source, redis_source

from emsco import dump
from emsco.live import Sources

TOKENS = {f"EMSCO_TOKEN_{use}": f"a token for {use.lower()} only"
          for use in ("DECIDE", "FEEDBACK", "METRICS")}  # fmt: skip


@pytest.fixture
def world(tmp_path):
    with redis_source(PAGES) as page, http_source(BUREAU, paid=True, timeout=5.0) as (bureau, web):
        sources = Sources({"page": replace(page, url=None, url_env="PAGE_URL"), "bureau": bureau})
        (tmp_path / "sources.toml").write_text(sources.to_toml())
        dump(CASCADE, tmp_path / "model.emsco")
        state = {"EMSCO_STATE": "", "PAGE_URL": REDIS}
        yield World(tmp_path, web, state)


def hold(vendor, seconds):
    """Delay the answers of a vendor."""

    def behave(_):
        time.sleep(seconds)

    vendor.behave = behave


def in_thread(work):
    heard = []
    thread = threading.Thread(target=lambda: heard.append(work()), daemon=True)
    thread.start()

    def result():
        thread.join(30)
        return heard[0]

    return result


def test_it_answers_drains_and_ends_well(world):
    """A running request is answered, and so is a new one on an open connection."""
    waiting = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    waiting.bind(str(world.folder / "notify"))
    waiting.settimeout(20)
    with world.serve("--drain", 20, NOTIFY_SOCKET=str(world.folder / "notify")) as one, waiting:
        one.wait_ready()
        assert waiting.recv(100) == b"READY=1"  # as systemd waits for it
        (start,) = one.events_named("start")
        assert (start["host"], start["workers"], start["tokens"]) == ("127.0.0.1", 1, [])
        assert "emsco-state.sqlite, used by this process only" in start["state"]
        assert one.decide(key=THOROUGH).json()["decisions"][0]["cost"] == 6.0
        hold(world.vendor, 1.5)
        calls = len(world.vendor.asked)
        with httpx.Client(base_url=one.url, timeout=20) as other:
            running = in_thread(lambda: other.post("/v1/decide", json={"key": THOROUGH}))
            kept = in_thread(lambda: raw(("127.0.0.1", one.port), post(
                "/v1/decide", {"key": THOROUGH, "id": "order-5", "tenant": "late"})))  # fmt: skip
            wait_for(lambda: len(world.vendor.asked) >= calls + 1)
            one.send(signal.SIGTERM)
            wait_for(lambda: one.events_named("drain"))
            answer = running()
            assert answer.status_code == 200
            assert answer.headers["connection"] == "close"
            assert b"200 OK" in kept()
        assert one.end() == 0
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", one.port))
        assert [event["event"] for event in one.events] == ["start", "ready", "drain", "end"]
        assert all(line.startswith("{") for line in one.lines)
        assert THOROUGH not in "".join(one.lines)
    # What it has kept is there for the next one.
    hold(world.vendor, 0)
    calls = len(world.vendor.asked)
    with world.serve() as next_one:
        next_one.wait_ready()
        body = {"key": THOROUGH, "id": "order-5", "tenant": "late"}
        assert next_one.decide(**body).json()["decisions"][0]["id"] == "order-5-0"
        assert len(world.vendor.asked) == calls
        next_one.send(signal.SIGINT)
        assert next_one.end() == 0


def test_a_signal_reloads_without_a_failed_request(world):
    """Files that are damaged are refused, and say why."""
    with world.serve() as one:
        one.wait_ready()
        ended, statuses = threading.Event(), []

        def ask():
            with httpx.Client(base_url=one.url, timeout=20) as client:
                while not ended.is_set():
                    statuses.append(client.post("/v1/decide", json={"key": QUICK}).status_code)

        asking = [threading.Thread(target=ask) for _ in range(2)]
        for thread in asking:
            thread.start()
        models = {one.client.get("/v1/model").json()["model"]}
        for number in range(4):
            dump(make_cascade(0.81 + number / 100), world.model)
            one.send(signal.SIGHUP)
            wait_for(lambda: len(one.events_named("reload")) > number)  # noqa: B023
            models.add(one.client.get("/v1/model").json()["model"])
            wait_for(lambda: len(statuses) > 5 * (number + 1))  # noqa: B023
        assert len(models) == 5
        world.model.write_bytes(world.model.read_bytes()[:-7])
        one.send(signal.SIGHUP)
        wait_for(lambda: one.events_named("refused"))
        model = one.client.get("/v1/model").json()
        assert model["model"] in models
        assert "cannot be loaded" in model["refused"]["why"]
        assert one.events_named("refused")[0]["why"] == model["refused"]["why"]
        ended.set()
        for thread in asking:
            thread.join(20)
        assert set(statuses) == {200}
        one.send(signal.SIGTERM)
        assert one.end() == 0


def test_a_killed_process_is_ready_again_and_asks_nobody_twice(world):
    hold(world.vendor, 3)
    body = {"key": THOROUGH, "id": "order-6"}
    with world.serve() as one:
        one.wait_ready()
        with socket.create_connection(("127.0.0.1", one.port)) as asking:
            asking.sendall(post("/v1/decide", body))
            wait_for(lambda: world.vendor.asked)
            one.send(signal.SIGKILL)
            one.process.wait(20)
    hold(world.vendor, 0)
    with world.serve() as one:
        one.wait_ready()

        def is_answered():
            nonlocal answer
            answer = one.decide(**body)
            assert answer.status_code in (200, 409)
            return answer.status_code == 200

        answer = None
        wait_for(is_answered, 30)
        assert answer.json()["decisions"][0]["reason"] == "error: bureau"
        assert world.vendor.asked == [THOROUGH]


def test_it_is_refused_in_the_open_without_tokens(world, monkeypatch):
    for name in TOKENS:
        monkeypatch.delenv(name, raising=False)
    options = ("serve", world.model, "--sources", world.folder / "sources.toml", "--port", 0)
    result = call(*options, "--host", "0.0.0.0")
    assert result.code == 2
    assert all(name in result.err for name in TOKENS)
    monkeypatch.setenv("EMSCO_TOKEN_DECIDE", TOKENS["EMSCO_TOKEN_DECIDE"])
    result = call(*options, "--host", "::")
    assert result.code == 2
    assert "EMSCO_TOKEN_FEEDBACK, EMSCO_TOKEN_METRICS" in result.err
    assert "EMSCO_TOKEN_DECIDE" not in result.err
    result = call(*options, "--metrics-port", 0, "--metrics-host", "0.0.0.0")
    assert (result.code, "EMSCO_TOKEN_METRICS" in result.err) == (2, True)
    monkeypatch.setenv("EMSCO_TOKEN_DECIDE", "short")
    result = call(*options)
    assert (result.code, "at least 16 characters" in result.err) == (2, True)
    assert "short" not in result.err


def test_with_tokens_it_answers_in_the_open_and_gives_up_what_takes_too_long(world):
    hold(world.vendor, 4)
    headers = {"Authorization": f"Bearer {TOKENS['EMSCO_TOKEN_DECIDE']}"}
    with world.serve("--host", "0.0.0.0", "--drain", 0.5, **TOKENS) as one:
        one.wait_ready()
        assert one.decide(key=QUICK).status_code == 401
        one.client.headers.update(headers)
        assert one.decide(key=QUICK).status_code == 200
        running = in_thread(lambda: one.decide(key=THOROUGH))
        wait_for(lambda: world.vendor.asked)
        begin = time.monotonic()
        one.send(signal.SIGTERM)
        answer = running()
        assert (answer.status_code, answer.json()["type"]) == (503, "urn:emsco:draining")
        assert one.end() == 0
        assert time.monotonic() - begin < 4
        assert not any(token in "".join(one.lines) for token in TOKENS.values())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--workers", 2], "--workers 2 needs --state redis://"),
        (["--workers", 2, "--state", "file.sqlite"], "--workers 2 needs --state redis://"),
        (["--state", "redis://host"], "needs --deployment NAME"),
        (["--port", 70_000], "--port must be between 0 and 65535"),
        (["--audit", 2], "--audit must be between 0 and 1"),
        (["--deadline", 0], "--deadline must be above 0"),
        (["--log-values"], "--log-values needs --log"),
        (["--folder", "no/such/folder"], "must be a file in a folder that exists"),
        (["--state", "mysql://x"], "A state must be redis://"),
        (["--host", "192.0.2.1"], "EMSCO_TOKEN_DECIDE"),
    ],
)
def test_settings_that_cannot_be_are_refused(world, monkeypatch, options, message):
    monkeypatch.chdir(world.folder)
    monkeypatch.setenv("PAGE_URL", REDIS)
    result = call("serve", world.model, "--sources", "sources.toml", "--port", 0, *options)
    assert result.code == 2
    assert message in result.err


def test_a_port_in_use_and_files_that_are_not_there_are_refused(world, monkeypatch):
    monkeypatch.chdir(world.folder)
    monkeypatch.setenv("PAGE_URL", REDIS)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = call("serve", world.model, "--sources", "sources.toml", "--port", port)
    assert (result.code, "choose another --host or --port" in result.err) == (2, True)
    result = call("serve", "model.emsc", "--sources", "sources.toml", "--port", 0)
    assert (result.code, "model.emsc cannot be loaded" in result.err) == (2, True)
    result = call("serve", world.model, "--sources", "source.toml", "--port", 0)
    assert (result.code, "did you mean 'sources.toml'?" in result.err) == (2, True)


def test_workers_share_a_state_are_restarted_and_reload(world):
    """And none of them outlives the process that has started them."""
    state = shared_state()
    with world.serve("--workers", 2, "--metrics-port", 0, *state) as one:
        one.wait_ready(2)
        pids = {event["pid"] for event in one.events_named("ready")}
        assert len(pids) == 2
        body = {"key": THOROUGH, "id": "order-7"}
        answers = []
        for _ in range(8):  # a new connection each time, for either worker
            with httpx.Client(base_url=one.url, timeout=20) as client:
                answers.append(client.post("/v1/decide", json=body).json())
        assert all(answer == answers[0] for answer in answers)
        assert world.vendor.asked == [THOROUGH]
        assert counted(one, "emsco_decisions_total") == 1
        assert counted(one, "emsco_requests_total") == 8
        dead = min(pids)
        begin = time.monotonic()
        os.kill(dead, signal.SIGKILL)
        one.wait_ready(3)
        assert time.monotonic() - begin < 30
        assert one.events_named("worker died")[0]["worker"] == dead
        dump(make_cascade(0.9), world.model)
        one.send(signal.SIGHUP)
        wait_for(lambda: len(one.events_named("reload")) == 2)
        assert len({event["pid"] for event in one.events_named("reload")}) == 2
        # A worker that is started again must fit to the model that the others use.
        dump(make_foreign(), world.model)
        now = {event["pid"] for event in one.events_named("reload")}
        os.kill(min(now), signal.SIGKILL)
        wait_for(lambda: one.events_named("refused"), 60)
        (told,) = one.events_named("refused")[:1]
        assert (told["level"], "has the labels" in told["why"]) == ("error", True)
        assert one.decide(key=QUICK).json()["decisions"][0]["label"] in ("good", "fraud")
        one.send(signal.SIGKILL)  # the parent alone
        now = {event["pid"] for event in one.events_named("ready")} - {dead}
        one.process.wait(20)

        def are_gone():
            for pid in now:
                try:
                    with open(f"/proc/{pid}/stat") as file:
                        if file.read().rpartition(")")[2].split()[0] != "Z":
                            return False
                except FileNotFoundError:
                    pass
            return True

        wait_for(are_gone, 20)


def test_workers_drain_and_refuse_what_cannot_be_served(world):
    state = shared_state()
    hold(world.vendor, 1.5)
    with world.serve("--workers", 2, *state) as one:
        one.wait_ready(2)
        running = in_thread(lambda: one.decide(key=THOROUGH))
        wait_for(lambda: world.vendor.asked)
        one.send(signal.SIGTERM)
        assert running().status_code == 200
        assert one.end() == 0
        assert len(one.events_named("drain")) == 2
    world.model.write_bytes(b"no model")
    with world.serve("--workers", 2, *state) as one:
        assert one.end() == 2
        assert "cannot be loaded" in one.events_named("refused")[0]["why"]
