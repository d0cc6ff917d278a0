"""The HTTP interface: answers, refusals, and that no client can block others."""

from __future__ import annotations

import json
import socket
import threading
import time

import httpx
import numpy as np
import pytest
from served import (
    BUREAU,
    CASCADE,
    KEYS,
    PAGES,
    QUICK,
    THOROUGH,
    Store,
    X,
    best,
    post,
    raw,
    served,
    wait_for,
)
from stores import http_source, redis_source

from emsco import CascadeClassifier, Costs, Decisions, Source
from emsco.core.decisions import KINDS
from emsco.exceptions import StateError
from emsco.live import CallableSource, Sources
from emsco.serve.active_models import decision_rows
from emsco.serve.openapi import description
from emsco.serve.request_limits import MOST_DEPTH, Connection

TOKENS = {use: f"the secret token of {use}" for use in ("decide", "feedback", "metrics")}


@pytest.fixture(scope="module")
def store():
    return Store()


@pytest.fixture(scope="module")
def here(tmp_path_factory, store):
    with served(tmp_path_factory.mktemp("here"), store.sources, max_rows=250) as one:
        yield one


def refused(answer, status, kind):
    """Check that a response is a problem, and return its detail."""
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    data = answer.json()
    assert data.keys() == {"type", "title", "status", "detail"}
    assert (data["status"], data["type"]) == (status, f"urn:emsco:{kind}")
    assert data["detail"].endswith((".", "?", ":", "-"))
    return data["detail"]


# What it answers


def test_rows_are_decided_as_the_table_is(here):
    answer = here.decide(keys=KEYS).json()
    wanted = CASCADE.decide(X)
    got = answer["decisions"]
    assert answer["model"] == here.service.deployed.digest
    assert [one["id"] for one in got] == [f"{answer['id']}-{i}" for i in range(len(KEYS))]
    for name in ("accepted", "exit_stage", "confidence", "cost", "reason"):
        assert [one[name] for one in got] == getattr(wanted, name).tolist()
    assert [best(one) for one in got] == wanted.label.tolist()


def test_a_rejected_row_has_a_guess_and_no_label(here):
    """A client that reads only `label` must not act on rejected rows."""
    got = here.decide(keys=[*KEYS, "nobody"]).json()["decisions"]
    wanted = CASCADE.decide(X)
    assert 0 < wanted.accepted.sum() < len(X)
    for one, accepted, label in zip(got, wanted.accepted, wanted.label, strict=False):
        assert (one["label"], one["guess"]) == ((label, None) if accepted else (None, label))
        assert one["retry"] is False
    nobody = got[-1]  # no stage has judged it
    assert (nobody["label"], nobody["guess"], nobody["retry"]) == (None, None, False)


def test_what_failed_for_a_while_is_asked_again_with_a_new_id(tmp_path):
    """The same id keeps its answer; which reasons pass is said in one place."""
    is_down = True

    def fetch(keys, _):
        if is_down:
            raise ConnectionError
        return {key: BUREAU[key] for key in keys}

    page = CallableSource(function=lambda keys, _: {key: PAGES[key] for key in keys})
    bureau = CallableSource(function=fetch, retries=0)
    with served(tmp_path, Sources({"page": page, "bureau": bureau})) as one:
        first = one.decide(keys=[THOROUGH, QUICK], id="a").json()
        thorough, quick = first["decisions"]
        assert (thorough["reason"], thorough["retry"]) == ("error: bureau", True)
        assert thorough["label"] is None
        assert thorough["guess"] in ("good", "fraud")  # of the page alone
        assert (quick["accepted"], quick["retry"]) == (True, False)
        is_down = False
        assert one.decide(keys=[THOROUGH, QUICK], id="a").json() == first
        (again,) = one.decide(key=THOROUGH, id="b").json()["decisions"]
        assert (again["accepted"], again["retry"]) == (True, False)


@pytest.mark.parametrize("kind", KINDS)
def test_every_reason_passes_or_stays(kind):
    passing = {"timeout", "error", "stale", "circuit open", "budget", "deadline", "state lost"}
    one = Decisions(["good"], [False], [0], [0.6], [1.0], np.array([f"{kind}: page"], dtype=object))
    (told,) = decision_rows(["a-0"], one, receipt=False)
    assert told["retry"] is (kind in passing)


def test_one_row_from_stores_with_a_receipt_and_factors(tmp_path):
    """Redis and a service, as a file of sources would have them."""
    with (
        redis_source(PAGES) as page,
        http_source(BUREAU, paid=True) as (bureau, vendor),
        served(tmp_path, Sources({"page": page, "bureau": bureau})) as one,
    ):
        answer = one.decide(key=THOROUGH, receipt=True, factors=True).json()
        (told,) = answer["decisions"]
        assert [fetch["source"] for fetch in told["receipt"]["fetches"]] == ["page", "bureau"]
        assert (told["cost"], told["receipt"]["paid"], told["exit_stage"]) == (6.0, 6.0, 1)
        assert set(told["factors"]["features"]) == {"x0", "x1"}
        (quick,) = one.decide(key=QUICK, receipt=True).json()["decisions"]
        assert (quick["receipt"]["not_needed"], quick["receipt"]["saved"]) == (["bureau"], 5.0)
        assert "factors" not in quick
        assert vendor.asked == [THOROUGH]


def test_what_is_known_is_not_fetched(here, store):
    store.asked["page"].clear()
    place = KEYS.index(THOROUGH)
    (decision,) = here.decide(key=THOROUGH, known={"x0": X[place, 0]}).json()["decisions"]
    assert (decision["label"], decision["cost"]) == (CASCADE.decide(X[[place]]).label[0], 5.0)
    both = here.decide(keys=[QUICK, THOROUGH], known={"x0": X[[0, place], 0].tolist()})
    assert both.status_code == 200
    assert store.asked["page"] == []


def test_a_row_that_is_not_there_is_rejected_and_says_why(here):
    (decision,) = here.decide(key="nobody").json()["decisions"]
    assert (decision["accepted"], decision["reason"]) == (False, "missing: page")


def test_whole_numbers_are_keys_too(tmp_path):
    ages = {7: {"x0": 1.0}}
    source = CallableSource(function=lambda keys, _: {k: ages[k] for k in keys if k in ages})
    costs = Costs([Source("age", cost=1, features=["x0"])])
    cascade = CascadeClassifier(costs=costs).fit(np.array([[0.0], [1.0]] * 20), [0, 1] * 20)
    with served(tmp_path, Sources({"age": source}), cascade=cascade) as one:
        (decision,) = one.decide(key=7).json()["decisions"]
        assert (decision["accepted"], decision["label"]) == (True, 1)
        (decision,) = one.decide(key="7").json()["decisions"]
        assert decision["reason"] == "missing: age"


def test_the_model_is_told(here):
    model = here.client.get("/v1/model").json()
    assert model["labels"] == ["fraud", "good"]
    assert [stage["sources"] for stage in model["stages"]] == [["page"], ["bureau"]]
    assert model["prices"] == {"page": 1.0, "bureau": 5.0}
    assert model["model"] == here.service.deployed.digest
    assert model["promise"].startswith("A certificate of this cascade is about decisions")
    assert (model["certificate"], model["alarms"], model["refused"]) == (None, [], None)


def test_it_says_that_it_lives_and_is_ready(here):
    assert here.client.get("/healthz").json() == {"status": "alive"}
    assert here.client.get("/readyz").json() == {"status": "ready"}


def test_it_is_not_ready_while_its_state_does_not_answer(tmp_path):
    with served(tmp_path, Store().sources) as one:
        real = one.service.state

        class Gone:
            async def ping(self):
                raise StateError("gone")

            async def claim(self, *_):
                raise StateError("gone")

        one.service.state = Gone()
        refused(one.client.get("/readyz"), 503, "state")
        refused(one.decide(key=QUICK, id="a"), 503, "state")
        assert one.client.get("/healthz").status_code == 200
        assert one.decide(key=QUICK).status_code == 200  # it needs no state
        one.service.state = real
        assert one.client.get("/readyz").status_code == 200


# The description


def operations(described):
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def test_examples_of_the_description_work(here):
    described = here.client.get("/openapi.json").json()
    tried = 0
    for path, method, operation in operations(described):
        examples = [None]
        if "requestBody" in operation:
            examples = operation["requestBody"]["content"]["application/json"]["examples"].values()
        for example in examples:
            body = {} if example is None else {"json": example["value"]}
            answer = here.client.request(method, path, **body)
            assert answer.status_code == 200, (path, example, answer.text)
            schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
            needed = described["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
            assert set(needed.get("required", ())) <= answer.json().keys()
            tried += 1
    assert tried == 9


def test_examples_send_what_requests_of_sources_use(tmp_path):
    async def whois(keys, values):
        return {key: {"x0": float(len(name))} for key, name in zip(keys, values["domain"])}  # noqa: B905

    costs = Costs([Source("whois", cost=1, features=["x0"])])
    cascade = CascadeClassifier(costs=costs).fit(np.array([[3.0], [9.0]] * 20), [0, 1] * 20)
    sources = Sources({"whois": CallableSource(function=whois, uses=["domain"])})
    with served(tmp_path, sources, cascade=cascade) as one:
        test_examples_of_the_description_work(one)
        assert "`known`" in refused(one.decide(key="a"), 422, "known")
        (decision,) = one.decide(key="a", known={"domain": "ab.cde.fg"}).json()["decisions"]
        assert decision["label"] == 1


def test_the_description_refers_to_what_it_has(here):
    """Every reference leads somewhere, and every body and answer is described."""
    text = here.client.get("/openapi.json").text
    schemas = json.loads(text)["components"]["schemas"]
    names = {part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert names == schemas.keys()


# Whom it refuses


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({}, "keys"),
        ({"key": "a", "keys": ["a"]}, "keys"),
        ({"keys": []}, "keys"),
        ({"keys": ["a"] * 251}, "keys"),
        ({"key": "a" * 257}, "keys"),
        ({"key": ""}, "body"),
        ({"key": 1.5}, "body"),
        ({"key": True}, "body"),
        ({"key": 2**63}, "body"),
        ({"keys": ["a", None]}, "body"),
        ({"key": "a", "keys": None}, "body"),
        ({"key": None, "keys": ["a"]}, "body"),
        ({"key": "a", "id": None}, "body"),
        ({"key": "a", "secret-field": 1}, "body"),
        ({"key": "a", "id": "not an id"}, "body"),
        ({"key": "a", "id": "i" * 129}, "body"),
        ({"key": "a", "id": ""}, "body"),
        ({"key": "a", "tenant": "t" * 65}, "body"),
        ({"key": "a", "receipt": "yes"}, "body"),
        ({"key": "a", "known": {"x0": {"value": 1}}}, "body"),
        ({"key": "a", "known": {"x0": [1.0]}}, "known"),
        ({"keys": ["a", "b"], "known": {"x0": 1.0}}, "known"),
        ({"keys": ["a", "b"], "known": {"x0": [1.0]}}, "known"),
        ({"key": "a", "known": {"X0": 1.0}}, "known"),
        (["a"], "body"),
        ("a", "body"),
    ],
)
def test_bodies_that_cannot_be_decided_are_named(here, body, kind):
    detail = refused(here.client.post("/v1/decide", json=body), 422, kind)
    assert "secret" not in detail


def test_a_misspelled_feature_is_named_by_what_was_meant(here):
    answer = here.decide(key="a", known={"x_1": 1.0})
    assert "did you mean 'x1'?" in refused(answer, 422, "known")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b'{"key": customer-17}', b"\xff\xfe", b'{"key": "\\ud800"}', b'{"key": "a"}x',
     b'{"key": ' + b"9" * 5000 + b"}"],
)  # fmt: skip
def test_what_is_no_json_is_told_without_repeating_it(here, content):
    headers = {"Content-Type": "application/json"}
    answer = here.client.post("/v1/decide", content=content, headers=headers)
    detail = refused(answer, 400, "json")
    assert "customer" not in detail


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e999"])
def test_numbers_that_json_does_not_have_are_refused(here, value):
    content = f'{{"key": "a", "known": {{"x0": {value}}}}}'.encode()
    headers = {"Content-Type": "application/json"}
    refused(here.client.post("/v1/decide", content=content, headers=headers), 422, "body")


def test_only_json_is_read(here):
    """So that a page in a browser cannot ask without the browser asking first."""
    for headers in (
        {"Content-Type": "text/plain"},
        {},
        {"Content-Type": "application/json", "Content-Encoding": "gzip"},
    ):
        answer = here.client.post("/v1/decide", content=b'{"key": "a"}', headers=headers)
        refused(answer, 415, "media-type")
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    answer = here.client.post("/v1/decide", content=b'{"key": "a"}', headers=headers)
    assert answer.status_code == 200


def test_routes_and_methods_that_are_not_there(here):
    refused(here.client.get("/v1/decided"), 404, "route")
    refused(here.client.post("/v1/decide/"), 404, "route")
    answer = here.client.get("/v1/decide")
    refused(answer, 405, "method")
    assert answer.headers["allow"] == "POST"
    refused(here.client.post("/v1/model"), 405, "method")


def test_labels_are_checked(here):
    for body in ({}, {"labels": []}, {"labels": [{"id": "a-0"}]},
                 {"labels": [{"id": "a-0", "label": None}]},
                 {"labels": [{"id": "a-0", "label": "good", "note": "secret"}]}):  # fmt: skip
        assert "secret" not in refused(here.client.post("/v1/feedback", json=body), 422, "body")
    body = {"labels": [{"id": f"a-{i}", "label": "good"} for i in range(251)]}
    refused(here.client.post("/v1/feedback", json=body), 422, "labels")


def test_every_status_is_described(here):
    """Those that the tests above have seen, and those that follow."""
    described = description(here.service.deployed, here.service.settings)
    seen = {
        "/v1/decide": {400, 401, 408, 409, 413, 415, 422, 429, 503},
        "/v1/feedback": {400, 401, 408, 413, 415, 422, 503},
        "/v1/model": {401},
        "/readyz": {503},
    }
    for path, _, operation in operations(described):
        told = {int(status) for status in operation["responses"]}
        assert seen.get(path, set()) | {200} <= told


def test_each_route_has_its_token(tmp_path):
    with served(tmp_path, Store().sources, tokens=TOKENS) as one:
        routes = {
            ("POST", "/v1/decide"): "decide",
            ("GET", "/v1/model"): "decide",
            ("GET", "/openapi.json"): "decide",
            ("POST", "/v1/feedback"): "feedback",
        }
        for (method, path), use in routes.items():
            body = {"json": {"key": QUICK}} if path == "/v1/decide" else {}
            if path == "/v1/feedback":
                body = {"json": {"labels": [{"id": "a-0", "label": "good"}]}}
            given = {name: f"Bearer {token}" for name, token in TOKENS.items()}
            others = [value for name, value in given.items() if name != use]
            near = [f"Basic {TOKENS[use]}", f"{given[use]}x", given[use][:-1]]
            wrong = ["", "Bearer", *near, *others]
            for value in wrong:
                headers = {"Authorization": value} if value else {}
                answer = one.client.request(method, path, headers=headers, **body)
                detail = refused(answer, 401, "token")
                assert answer.headers["www-authenticate"] == 'Bearer realm="emsco"'
                assert TOKENS[use] not in detail
            for right in (given[use], given[use].replace("Bearer", "bearer")):
                answer = one.client.request(method, path, headers={"Authorization": right}, **body)
                assert answer.status_code == 200
        for path in ("/healthz", "/readyz"):
            assert one.client.get(path, headers={"Host": "probe.example"}).status_code == 200
        for path in ("/", "/v1/decided", "/docs", "//v1/model", "/v1/model/", "/v1%2Fmodel"):
            refused(one.client.get(path), 401, "token")
        # With tokens, the name by which it is asked does not matter.
        headers = {"Host": "emsco.example", "Authorization": f"Bearer {TOKENS['decide']}"}
        assert one.client.get("/v1/model", headers=headers).status_code == 200


def test_a_use_without_a_token_is_for_this_machine_alone(tmp_path):
    given = {"feedback": TOKENS["feedback"]}
    with served(tmp_path, Store().sources, tokens=given) as one:
        assert one.decide(key=QUICK).status_code == 200
        answer = one.client.get("/v1/model", headers={"Host": "evil.example"})
        refused(answer, 400, "host")
        refused(one.client.post("/v1/feedback", json={}), 401, "token")


def test_without_tokens_only_this_machine_is_answered(here):
    """A web page must not reach it under the page's own host name."""
    for host in ("evil.example", "evil.example:8000", "", "127.0.0.1.evil.example", "[::2]"):
        refused(here.client.get("/v1/model", headers={"Host": host}), 400, "host")
    for host in ("localhost", "localhost:1", "127.0.0.1:9", "[::1]:8000"):
        assert here.client.get("/v1/model", headers={"Host": host}).status_code == 200


# That nobody can stop it for others


@pytest.fixture(scope="module")
def strict(tmp_path_factory):
    limits = {"max_body": 2000, "body_timeout": 0.5, "idle_timeout": 1.0}
    with served(tmp_path_factory.mktemp("strict"), Store().sources, **limits) as one:
        yield one


def status_of(heard):
    return int(heard.split(b" ", 2)[1])


def test_a_body_that_is_too_large_is_refused_by_its_size(strict):
    answer = strict.client.post("/v1/decide", json={"key": "a" * 2000})
    assert "2,000 bytes" in refused(answer, 413, "body-size")
    # The rest of it is not taken for the next request.
    assert strict.decide(key=QUICK).status_code == 200


def test_a_body_that_does_not_say_its_size_is_refused_once_it_is_too_large(strict):
    def parts():
        for _ in range(5):
            yield b'{"key": "' + b"a" * 490

    headers = {"Content-Type": "application/json"}
    answer = strict.client.post("/v1/decide", content=parts(), headers=headers)
    refused(answer, 413, "body-size")
    assert strict.decide(key=QUICK).status_code == 200


@pytest.mark.parametrize("path", ["/v1/decide", "/v1/feedback"])
def test_a_body_that_never_ends_is_refused_while_others_are_answered(strict, path):
    head = post(path, b"x" * 100)[:-90]  # ten of a hundred bytes
    heard = []
    slow = threading.Thread(target=lambda: heard.append(raw(strict.address, head)))
    begin = time.monotonic()
    slow.start()
    while slow.is_alive():
        assert strict.decide(key=QUICK).status_code == 200
    assert status_of(heard[0]) == 408
    assert b"urn:emsco:body-time" in heard[0]
    assert 0.4 < time.monotonic() - begin < 5


def test_a_client_that_says_nothing_is_let_go(strict):
    begin = time.monotonic()
    assert raw(strict.address, b"") == b""
    assert raw(strict.address, b"POST /v1/decide HTTP/1.1\r\nHost: local") == b""
    assert 1.8 < time.monotonic() - begin < 12


def test_headers_without_an_end_are_refused(strict):
    endless = b"POST /v1/decide HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: aaaaaaaa\r\n" * 10_000
    assert status_of(raw(strict.address, endless)) == 400
    assert strict.decide(key=QUICK).status_code == 200


def test_a_client_that_does_not_read_is_let_go(tmp_path):
    """Its responses exceed the socket buffers."""
    with served(tmp_path, Store().sources, idle_timeout=0.5) as one:
        asked = post("/v1/decide", {"keys": KEYS, "receipt": True}).replace(
            b"Connection: close", b"Connection: keep-alive"
        )
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(one.address)
            connection.settimeout(10)
            with pytest.raises((ConnectionResetError, BrokenPipeError)):
                connection.sendall(asked * 20_000)
        assert one.decide(key=QUICK).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 1999,
        b'{"known":' * 200,
        b'{"key": "a", "known": {"x0": ' + b"[" * 900 + b"]" * 900 + b"}}",
        b'{"a": [{"b": ' * (MOST_DEPTH // 3 + 2) + b"1" + b"}]}" * (MOST_DEPTH // 3 + 2),
    ],
)
def test_deep_bodies_are_refused_before_they_are_parsed(strict, body):
    headers = {"Content-Type": "application/json"}
    answer = strict.client.post("/v1/decide", content=body, headers=headers)
    assert f"deeper than {MOST_DEPTH}" in refused(answer, 400, "body-depth")


@pytest.mark.parametrize(
    "body", [b"[]" * 900, b"]" * 1900, b'"' + b"[" * 1900, b'{"a": "' + b'\\"[' * 600, b"[" * 16]
)
def test_brackets_that_are_no_depth_are_no_json(strict, body):
    headers = {"Content-Type": "application/json"}
    refused(strict.client.post("/v1/decide", content=body, headers=headers), 400, "json")


def test_deep_and_long_bodies_take_no_time(tmp_path):
    """A megabyte of brackets is scanned by C functions."""
    with served(tmp_path, Store().sources) as one:
        headers = {"Content-Type": "application/json"}
        for body in (b"[" * 999_999, b"[]" * 499_999, b'"\\' * 499_999, b'{"a":' * 199_999):
            begin = time.monotonic()
            answer = one.client.post("/v1/decide", content=body, headers=headers)
            assert answer.status_code == 400
            assert time.monotonic() - begin < 1.5


def test_brackets_in_texts_are_no_depth(here):
    answer = here.client.post("/v1/decide", json={"key": "[" * 100 + "{" * 100 + '"\\'})
    assert answer.status_code == 200


# The queue


def test_more_than_may_wait_are_refused_at_once(tmp_path):
    store = Store()
    store.holds["page"] = threading.Event()
    with served(tmp_path, store.sources, concurrency=2, queue=3) as one:
        answers = []

        def ask():
            with httpx.Client(base_url=one.url, timeout=20) as client:
                answers.append(client.post("/v1/decide", json={"key": QUICK}).status_code)

        threads = [threading.Thread(target=ask) for _ in range(5)]
        for thread in threads:
            thread.start()
        wait_for(lambda: (one.service.queue.running, one.service.queue.waiting) == (2, 3))
        begin = time.monotonic()
        for body in ({"key": QUICK}, {"key": QUICK, "id": "a"}):
            answer = one.client.post("/v1/decide", json=body)
            refused(answer, 429, "queue-full")
            assert answer.headers["retry-after"] == "1"
        assert time.monotonic() - begin < 1
        assert one.client.get("/readyz").status_code == 200
        store.holds["page"].set()
        for thread in threads:
            thread.join(20)
        assert answers == [200] * 5
        assert one.decide(key=QUICK, id="a").status_code == 200
        assert (one.service.queue.running, one.service.queue.waiting) == (0, 0)


def leave(one, body, condition):
    """Send a request, and disconnect when a condition holds."""
    with socket.create_connection(one.address) as connection:
        connection.sendall(post("/v1/decide", body))
        wait_for(condition)


@pytest.mark.parametrize("http", [Connection, "httptools", "h11"])
def test_a_client_that_has_gone_buys_no_further_stage(tmp_path, http):
    """Its connection reports it, or ASGI's `receive` does with another server."""
    store = Store()
    store.holds["page"] = threading.Event()
    with served(tmp_path, store.sources, http=http) as one:
        leave(one, {"key": THOROUGH}, lambda: store.asked["page"])
        wait_for(lambda: one.service.queue.running == 0)
        store.holds["page"].set()
        assert one.decide(key=QUICK).status_code == 200
        assert store.asked["bureau"] == []


def test_a_client_that_has_gone_leaves_the_queue(tmp_path):
    store = Store()
    store.holds["page"] = threading.Event()
    with served(tmp_path, store.sources, concurrency=1, queue=1) as one:
        with socket.create_connection(one.address) as first:
            first.sendall(post("/v1/decide", {"key": QUICK}))
            wait_for(lambda: one.service.queue.running == 1)
            leave(one, {"key": THOROUGH}, lambda: one.service.queue.waiting == 1)
            wait_for(lambda: one.service.queue.waiting == 0)
            store.holds["page"].set()
            assert status_of(first.recv(65536)) == 200
        assert store.asked["page"] == [QUICK]


def test_with_an_id_the_decision_goes_on_and_its_answer_is_kept(tmp_path):
    store = Store(paid=True)
    store.holds["bureau"] = threading.Event()
    with served(tmp_path, store.sources) as one:
        body = {"key": THOROUGH, "id": "order-1"}
        leave(one, body, lambda: store.asked["bureau"])
        store.holds["bureau"].set()
        (decision,) = one.decide(**body).json()["decisions"]
        assert (decision["id"], decision["exit_stage"], decision["cost"]) == (
            "order-1-0",
            1,
            6.0,
        )
        assert one.decide(**body).json()["decisions"] == [decision]
        assert store.asked["bureau"] == [THOROUGH]


def test_an_unexpected_error_is_told_without_its_text(tmp_path, capfd):
    with served(tmp_path, Store().sources) as one:

        async def fail(*_, **__):
            raise RuntimeError("customer-17 has a secret")

        one.service.feedback = fail
        answer = one.client.post("/v1/feedback", json={"labels": [{"id": "a-0", "label": "x"}]})
        refused(answer, 500, "unexpected")
        one.service.decide = fail
        refused(one.decide(key=QUICK), 500, "unexpected")
        assert one.client.get("/healthz").status_code == 200
    logged = capfd.readouterr().err
    assert "RuntimeError at app.py" in logged
    assert "customer-17" not in logged


def test_clients_of_http_1_0_and_several_requests_on_a_connection(here):
    heard = raw(here.address, b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n")
    assert status_of(heard) == 200
    one = post("/v1/decide", {"key": QUICK}).replace(b"Connection: close\r\n", b"")
    last = post("/v1/decide", {"key": THOROUGH})
    heard = raw(here.address, one + one + last)
    assert heard.count(b"HTTP/1.1 200 OK") == 3
