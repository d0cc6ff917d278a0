"""The metrics: of decisions and sources, shared by workers, and no empty panel."""

from __future__ import annotations

import asyncio
import gzip
import json
import math
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest
from prometheus_client.multiprocess import MultiProcessCollector

from emsco import Decisions
from emsco.exceptions import ServiceError
from emsco.live import CallableSource, LiveCascade, Sources
from emsco.serve.metrics import Metrics
from emsco.serve.metrics_server import MetricsServer
from emsco.serve.tracing import Tracing, make_tracing

ROOT = Path(__file__).parents[2]
DECIDING = Path(__file__).with_name("deciding.py")
DASHBOARD = json.loads((ROOT / "contrib/grafana/emsco.json").read_text(encoding="utf-8"))
TOKEN = "a token of at least 16 letters"
SECONDS = 90.0  # until what is awaited must be there


@contextmanager
def deciding(folder, workers=0, **environment):
    """Run a process that decides, and return the port of its metrics."""
    child = subprocess.Popen(
        [sys.executable, str(DECIDING), str(folder / "state.sqlite"), str(workers)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
        start_new_session=True,
    )
    try:
        yield int(child.stdout.readline())
    finally:
        os.killpg(child.pid, 9)
        child.wait()
        child.stdout.close()


def get(port, path="/metrics", **headers):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode()


def until(true, what):
    """Wait until a condition holds, and return its value."""
    end = time.monotonic() + SECONDS
    while not (found := true()):
        assert time.monotonic() < end, what
        time.sleep(0.3)
    return found


def values(port):
    """Return all series."""
    lines = [line for line in get(port).splitlines() if not line.startswith("#")]
    return {series: float(value) for series, value in (line.rsplit(" ", 1) for line in lines)}


@contextmanager
def prometheus(folder, port, token=None):
    """Start a real Prometheus that reads the metrics, and return a function that queries it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        own = free.getsockname()[1]
    bearer = f"\n    authorization: {{credentials: '{token}'}}" if token else ""
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s, scrape_timeout: 1s}\n"
        f"scrape_configs:\n  - job_name: emsco{bearer}\n"
        f"    static_configs: [{{targets: ['127.0.0.1:{port}']}}]\n"
    )
    with (folder / "prometheus.log").open("w") as log:
        server = subprocess.Popen(
            ["prometheus", f"--config.file={folder}/prometheus.yml",
             f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{own}"],
            stdout=log, stderr=log,
        )  # fmt: skip

    def query(expression):
        try:
            found = get(own, f"/api/v1/query?{urllib.parse.urlencode({'query': expression})}")
        except (urllib.error.URLError, ConnectionError):
            assert server.poll() is None, (folder / "prometheus.log").read_text()
            return []
        return [
            one
            for one in json.loads(found)["data"]["result"]
            if math.isfinite(float(one["value"][1]))
        ]

    try:
        yield query
    finally:
        server.terminate()
        server.wait()


def test_no_query_of_the_dashboard_is_empty(tmp_path):
    """Against a real Prometheus, which reads a process that decides rows; with its token."""
    queries = [
        target["expr"].replace("$__rate_interval", "15s").replace("$model", ".*")
        for panel in DASHBOARD["panels"]
        for target in panel.get("targets", ())
    ]
    assert len(queries) > 20
    asked = re.findall(r"emsco_[a-z_]+", " ".join(queries))
    shown = {family.name for family in Metrics().registry.collect()}
    assert {re.sub("_(bucket|total)$", "", name) for name in asked} == shown  # nothing is left out
    variables = DASHBOARD["templating"]["list"][1:]
    queries += [re.fullmatch(r"label_values\((\w+), \w+\)", one["query"])[1] for one in variables]
    with (
        deciding(tmp_path, EMSCO_TOKEN_METRICS=TOKEN) as port,
        prometheus(tmp_path, port, TOKEN) as query,
    ):
        for expression in queries:
            until(lambda expression=expression: query(expression), expression)
        assert len(query("emsco_alarm == 1")) > 0  # the process breaks a promise
        assert query('sum(emsco_rejected_total{by="failure", kind="error"}) > 0')
        assert query('emsco_source_errors_total{source="lab", kind="error"} > 0')
        assert not query("emsco_nothing_of_the_kind")  # so the test can fail
        with pytest.raises(urllib.error.HTTPError, match="401"):
            get(port)
        with pytest.raises(urllib.error.HTTPError, match="401"):
            get(port, Authorization="Bearer another token")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(port, "/", Authorization=f"Bearer {TOKEN}")
        assert "emsco_decisions_total{" in get(port, Authorization=f"bearer {TOKEN}")


def rows_in(files):
    """Count the rows that workers have written to files."""
    found = MultiProcessCollector.merge([str(file) for file in files])
    samples = [
        one for family in found if family.name == "emsco_decisions" for one in family.samples
    ]
    return sum(one.value for one in samples)


def test_workers_have_one_view(tmp_path):
    """What two processes decide is shown together, each gauge once."""
    with deciding(tmp_path, workers=2) as port:

        def counted():
            return [rows_in([file]) for file in (tmp_path / "shared").glob("counter_*.db")]

        before = until(lambda: len(n := counted()) == 2 and min(n) > 0 and n, "both count")
        shown = values(port)
        after = counted()
        rows = sum(n for name, n in shown.items() if name.startswith("emsco_decisions_total{"))
        assert sum(before) <= rows <= sum(after)
        assert rows > max(before)
        assert [name for name in shown if name.startswith("emsco_queue")] == ["emsco_queue_length"]
        assert not [name for name in shown if "pid=" in name]


@pytest.fixture(scope="module")
def shop():
    """Return a live cascade of three sources, one of which often fails, and their values."""
    sys.path.insert(0, str(DECIDING.parent))
    try:
        import deciding as made
    finally:
        sys.path.pop(0)
    return made


def decided(shop, n_rows, live=None):
    live = live or shop.live_cascade()

    async def main():
        async with live:
            parts = [await live.decide([int(key)]) for key in range(n_rows)]
            return live, parts, await live.decide([*range(n_rows)])

    return asyncio.run(main())


def by(reason):
    return "failure" if ":" in reason else "cascade"


def test_what_is_counted_is_what_receipts_say(shop):
    """Row by row and all at once; a row that a failing source rejects saves nothing."""
    live, single, _ = decided(shop, 200)
    whole = Decisions.concatenate(single)
    one_by_one, at_once = Metrics(), Metrics()
    for metrics in (one_by_one, at_once):
        metrics.model(live)
    for decisions in single:
        one_by_one.decided(decisions, 0.001, live.model)
    at_once.decided(whole, 0.001, live.model)
    model = live.model[:12]
    reasons = Counter(whole.reason.tolist())
    assert reasons["error: lab"] > 3
    receipts = [decisions[0] for decisions in single]
    saved = sum(d.receipt.saved for d in receipts if d.reason != "error: lab")
    expected = {
        ("emsco_accepted_total", ()): reasons.pop(""),
        ("emsco_paid_total", ()): whole.cost.sum(),
        ("emsco_saved_total", ()): saved,
        **{("emsco_decisions_total", (("exit_stage", str(stage)),)): n
           for stage, n in Counter(whole.exit_stage.tolist()).items()},
        **{("emsco_rejected_total", (("kind", reason.partition(":")[0]), ("by", by(reason)))): n
           for reason, n in reasons.items()},
    }  # fmt: skip
    for metrics in (one_by_one, at_once):
        for (name, labels), number in expected.items():
            found = metrics.registry.get_sample_value(name, {"model": model, **dict(labels)})
            assert found == pytest.approx(number), (name, labels)
        lost = {"source": "lab", "kind": "error"}
        errors = metrics.registry.get_sample_value("emsco_source_errors_total", lost)
        assert errors == reasons["error: lab"]
    waited = one_by_one.registry.get_sample_value("emsco_source_seconds_count", {"source": "lab"})
    assert waited == sum("lab" in [f.source for f in d.receipt.fetches] for d in receipts)
    at_once.decided(whole[:0], 0.0, live.model)  # no row, nothing to count
    at_once.decided(Decisions(["a"], [True], [9], [1.0], [2.0]), 0.0, "a model without prices")
    other = {"model": "a model with", "exit_stage": "9"}
    assert at_once.registry.get_sample_value("emsco_decisions_total", other) == 1


def test_sources_show_breakers_calls_and_money(shop):
    """With their current values; after a switch to another live cascade, counting continues."""
    metrics = Metrics()

    def one(name, source="lab"):
        return metrics.registry.get_sample_value(name, {"source": source})

    async def down(*_):
        raise ConnectionError

    async def main(live):
        metrics.model(live)
        async with live:
            for key in range(30):
                await live.decide([key])
            metrics.gates(live)
            metrics.gates(live)

    live = shop.live_cascade()
    asyncio.run(main(live))
    calls, paid = one("emsco_source_calls_total"), one("emsco_source_paid_total")
    assert calls > 5
    assert paid == live.spending["lab"].paid > 0
    assert one("emsco_source_unknown") == live.spending["lab"].unknown
    assert one("emsco_breaker_open") == 0
    cascade = live.terms.decider
    broken = CallableSource(function=down, breaker=2)
    other = LiveCascade(cascade, Sources(dict.fromkeys(("cheap", "lab", "scan"), broken)))
    asyncio.run(main(other))
    assert one("emsco_breaker_open", "cheap") == 1
    assert (one("emsco_source_calls_total"), one("emsco_source_paid_total")) == (calls, paid)


def test_a_port_that_is_taken_says_what_to_do():
    """And one that is closed can be taken again."""
    first = MetricsServer(Metrics().registry, 0)
    with pytest.raises(ServiceError, match="choose another --metrics-host or --metrics-port"):
        MetricsServer(Metrics().registry, first.port)
    first.close()
    again = MetricsServer(Metrics().registry, first.port)
    assert "emsco_queue_length 0.0" in get(again.port)
    again.close()


def test_spans_tell_stages_and_no_key(shop, monkeypatch):
    """Only if a collector is configured."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    assert make_tracing() is None
    kept, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracing = Tracing(provider.get_tracer("emsco"))
    begin = time.time()
    live = shop.live_cascade()

    async def main():
        async with live:
            return await live.decide([*range(300)])

    decisions = asyncio.run(main())
    tracing.decided(decisions, begin, time.time(), live.model)
    *stages, whole = kept.get_finished_spans()
    assert [span.name for span in stages] == [f"stage {n}" for n in range(len(stages))]
    assert len(stages) == decisions.exit_stage.max() + 1 > 1
    assert [span.attributes["emsco.sources"] for span in stages][:2] == [("cheap",), ("lab",)]
    reached = [int(np.sum(decisions.exit_stage >= stage)) for stage in range(len(stages))]
    assert [span.attributes["emsco.rows"] for span in stages] == reached
    for span, after in zip(stages, [*stages[1:], None], strict=True):
        assert span.parent.span_id == whole.context.span_id
        assert whole.start_time <= span.start_time + 2e6  # two clocks
        assert span.start_time < span.end_time <= whole.end_time
        assert after is None or span.end_time <= after.start_time + 2e6
    assert whole.attributes["emsco.accepted"] == decisions.accepted.sum()
    known = {"emsco.model", "emsco.rows", "emsco.accepted", "emsco.stage", "emsco.sources",
             "emsco.failed.error"}  # fmt: skip
    assert {name for span in (*stages, whole) for name in span.attributes} <= known


SENDING = """
import time
from emsco import Decisions
from emsco.serve.tracing import make_tracing
tracing = make_tracing()
tracing.decided(Decisions([1], [True], [0], [1.0], [1.0]), time.time() - 1, time.time(), "digest")
"""


def test_spans_reach_the_collector_that_the_environment_names():
    """With OTLP over HTTP; pending spans are sent when the process exits."""
    got = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):  # named by the standard library
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.path, gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            """Be quiet."""

    server = HTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    environment = os.environ | {"OTEL_EXPORTER_OTLP_ENDPOINT": address}
    subprocess.run([sys.executable, "-c", SENDING], check=True, env=environment, timeout=60)
    server.shutdown()
    server.server_close()
    ((path, body),) = got
    assert path == "/v1/traces"
    assert b"decide" in body
    assert b"emsco.model" in body
