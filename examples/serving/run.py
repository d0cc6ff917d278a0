"""From a model that buys everything to a service that does not, in one run on one machine.

Stores, a vendor and `emsco serve` are started, customers come, a store dies and comes back. What is
printed is what was saved, what was rejected, and why.

    python examples/serving/run.py

It needs emsco[serve], psycopg, redis-server and PostgreSQL, and takes a minute. `--stay` leaves the
service running in the end, to look at its metrics.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import uuid
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from stores import PostgresStore, RedisStore, Vendor, wait_until

from emsco import CascadeSearchCV, Costs, Source, dump

COSTS = Costs(
    [
        Source("profile", cost=0.01, features=["age", "chargebacks"]),
        Source("orders", cost=0.10, features=["placed", "amount"]),
        Source("bureau", cost=1.00, features=["score", "inquiries"]),
    ],
    unit="EUR",
)
SOURCES = """
[profile]
kind = "redis"
url_env = "PROFILE_URL"
key = "profile:{key}"
key_field = "id"
timeout = 20.0

[orders]
kind = "sql"
url_env = "ORDERS_URL"
query = "SELECT * FROM orders WHERE id IN :keys"
key_field = "id"
timeout = 20.0

[bureau]
kind = "http"
url = "BUREAU/v1/{key}"
key_field = "/id"
paid = true
timeout = 20.0
"""
BLOCK = 50  # customers in a request
WIDTH = 110  # of what is printed


def say(text: str = "") -> None:
    """Print, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def customers(n_rows: int, seed: int) -> tuple[pd.DataFrame, Any]:
    """Make up customers, every fourth of them a fraud: dearer sources know more."""
    rng = np.random.default_rng(seed)
    fraud = (rng.random(n_rows) < 0.25).astype(float)
    noise = rng.normal(size=(6, n_rows))
    frame = pd.DataFrame(
        {
            "age": 40 - 8 * fraud + 6 * noise[0],
            "chargebacks": 1.6 * fraud + 0.8 * noise[1],
            "placed": 12 - 5 * fraud + 3 * noise[2],
            "amount": 80 + 60 * fraud + 40 * noise[3],
            "score": 600 - 130 * fraud + 50 * noise[4],
            "inquiries": 1 + 2 * fraud + noise[5],
        }
    ).round(2)
    return frame, np.where(fraud > 0, "fraud", "good")


def make_model(folder: Path) -> None:
    """Fit the model that there is today, and search for stages before it."""
    train, labels = customers(3000, seed=0)
    today = make_pipeline(StandardScaler(), LogisticRegression()).fit(train, labels)
    search = CascadeSearchCV(
        costs=COSTS, final=today, target="agreement", max_stages=3, cv=3, random_state=0,
        select={"min_accuracy": 0.99, "by": "cost"},
    )  # fmt: skip
    search.fit(customers(3000, seed=1)[0])
    dump(search.best_cascade_, folder / "model.emsco")


class Serving:
    """`emsco serve`, and a client."""

    def __init__(self, folder: Path, environment: dict[str, str], *options: str) -> None:
        command = [sys.executable, "-m", "emsco", "serve", *options, "--sources", "sources.toml",
                   "--port", "0"]  # fmt: skip
        self._process = subprocess.Popen(
            command, cwd=folder, env=os.environ | environment, stderr=subprocess.PIPE, text=True
        )
        self.events: list[dict[str, Any]] = []
        threading.Thread(target=self._read, daemon=True).start()
        wait_until(lambda: self.told("ready"), "emsco serve", seconds=120)
        port = self.told("ready")[0]["port"]
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if line.startswith("{"):
                self.events.append(json.loads(line))

    def told(self, name: str) -> list[dict[str, Any]]:
        """Return events of a name."""
        return [event for event in self.events if event["event"] == name]

    def decide(self, keys: list[str]) -> list[dict[str, Any]]:
        """Ask for customers, some at a time, each request with an id that can be repeated."""
        rows = []
        for first in range(0, len(keys), BLOCK):
            some = keys[first : first + BLOCK]
            body = {"keys": some, "receipt": True, "id": uuid.uuid4().hex}
            answer = self._client.post("/v1/decide", json=body)
            rows += answer.raise_for_status().json()["decisions"]
        return rows

    def feedback(self, labels: list[dict[str, str]]) -> None:
        """Send true labels."""
        self._client.post("/v1/feedback", json={"labels": labels}).raise_for_status()

    def metrics(self) -> dict[str, float]:
        """Read what Prometheus reads."""
        text = httpx.get(self.metrics_url).text
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    @property
    def metrics_url(self) -> str:
        """Where Prometheus reads."""
        return f"http://127.0.0.1:{self.told('metrics')[0]['port']}/metrics"

    def end(self) -> None:
        """Let it drain, and end."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)
        self._client.close()


def emsco(folder: Path, *arguments: str) -> None:
    """Run a command, show it, and show what it prints."""
    say(f"   $ emsco {' '.join(arguments)}")
    done = subprocess.run(
        [sys.executable, "-m", "emsco", *arguments], cwd=folder, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    for line in done.stdout.splitlines():
        for part in textwrap.wrap(line, WIDTH) if len(line) > WIDTH else [line]:
            say(f"   {part}".rstrip())


def summary(rows: list[dict[str, Any]]) -> str:
    """Say what became of rows."""
    accepted = sum(row["accepted"] for row in rows)
    paid = sum(row["cost"] for row in rows)
    return f"{len(rows):,} customers: {accepted:,} answered, {paid:,.2f} EUR paid"


def in_shadow(folder: Path, environment: dict[str, str], keys: list[str], labels: Any) -> None:
    """Let the model of today answer, record the cascade, and certify it on what was recorded."""
    say("1. In shadow: today's model answers, and what the cascade would do is recorded.")
    options = ("model.emsco", "--shadow", "--log", "log", "--log-values")
    service = Serving(folder, environment, *options)
    rows = service.decide(keys)
    say(f"   {summary(rows)}.")
    sent = zip(rows, labels, strict=True)
    service.feedback([{"id": row["id"], "label": str(label)} for row, label in list(sent)[:500]])
    service.end()
    emsco(folder, "savings", "--log", "log")
    say()
    say("2. Certified on the rows of that log, with the share that was asked for beforehand.")
    emsco(folder, "certify", "model.emsco", "log", "--agreement", "0.97", "--groups", "_key",
          "--out", "certified.emsco")  # fmt: skip
    say()


def in_use(service: Serving, keys: list[str], vendor: Vendor) -> None:
    """Let the cascade answer."""
    before = vendor.bill
    rows = service.decide(keys)
    paid = sum(row["cost"] for row in rows)
    saved = sum(row["receipt"]["saved"] for row in rows)
    stages = Counter(row["exit_stage"] for row in rows)
    told = ", ".join(f"{stages[stage]:,} after stage {stage}" for stage in sorted(stages))
    say("3. In use: the cascade answers, and buys what it needs.")
    say(f"   {summary(rows)}: {told}.")
    say(f"   Saved: {saved:,.2f} of {paid + saved:,.2f} EUR ({saved / (paid + saved):.1%}).")
    bureau = sum(
        fetch["paid"] for row in rows for fetch in row["receipt"]["fetches"]
        if fetch["source"] == "bureau"
    )  # fmt: skip
    say(f"   The bureau's own bill: {vendor.bill - before:,.2f} EUR; by receipts: {bureau:,.2f}.")
    say()


def broken(service: Serving, keys: list[str], orders: PostgresStore) -> None:
    """Kill a store, ask, start it again, and ask until everybody is answered."""
    say("4. PostgreSQL is killed. Who does not need it is answered; who does is rejected.")
    orders.kill()
    rows = service.decide(keys)
    why = sorted({row["reason"] for row in rows if not row["accepted"]})
    say(f"   {summary(rows)}, {sum(not row['accepted'] for row in rows):,} rejected.")
    say(f"   Why: {', '.join(why)}.")
    say()
    say("5. PostgreSQL is back, and is asked again by itself.")
    orders.start()
    wait_until(lambda: all(row["accepted"] for row in service.decide(keys)), "The service")
    say(f"   {summary(service.decide(keys))}.")
    say()


def shown(service: Serving) -> None:
    """Show some of what Prometheus reads."""
    say("6. What Prometheus reads, in part:")
    kept = ("emsco_decisions_total", "emsco_rejected_total", "emsco_paid_total",
            "emsco_saved_total", "emsco_breaker_open")  # fmt: skip
    for name, value in sorted(service.metrics().items()):
        if name.startswith(kept):
            say(f"   {name} {value:,.2f}")


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stay", action="store_true", help="leave the service running")
    parser.add_argument("--rows", type=int, default=1500, help="customers in each step")
    arguments = parser.parse_args()
    keys = [f"customer-{i:05}" for i in range(2 * arguments.rows)]
    frame, labels = customers(len(keys), seed=2)
    records = {
        name: {
            key: dict(zip(own, row, strict=True))
            for key, row in zip(keys, frame[own].to_numpy().tolist(), strict=True)
        }
        for name in COSTS.names
        for own in [list(COSTS.columns(name))]
    }
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that everything is ended
    folder = Path(tempfile.mkdtemp(prefix="emsco-example-"))
    with ExitStack() as ending:
        ending.callback(shutil.rmtree, folder, ignore_errors=True)
        profile = RedisStore(folder, records["profile"])
        ending.callback(profile.close)
        orders = PostgresStore(folder, records["orders"])
        ending.callback(orders.close)
        vendor = Vendor(records["bureau"], price=1.0)
        ending.callback(vendor.close)
        make_model(folder)
        (folder / "sources.toml").write_text(SOURCES.replace("BUREAU", vendor.url))
        environment = {"PROFILE_URL": profile.url, "ORDERS_URL": orders.url, "EMSCO_STATE": "",
                       "EMSCO_LOG_KEY": "a secret of your own"}  # fmt: skip
        say(f"Today, three sources are bought for every customer, for {COSTS.total:.2f} EUR:")
        say("a profile (Redis), orders (PostgreSQL) and a bureau (HTTP, paid per answer).\n")
        half = len(keys) // 2
        in_shadow(folder, environment, keys[:half], labels[:half])
        service = Serving(folder, environment, "certified.emsco", "--metrics-port", "0")
        ending.callback(service.end)
        in_use(service, keys[half:], vendor)
        broken(service, keys[half : half + 300], orders)
        wait_until(lambda: "emsco_breaker_open" in str(service.metrics()), "The metrics")
        shown(service)
        if arguments.stay:
            say(f"\nThe metrics are at {service.metrics_url}; end with Ctrl+C.")
            with suppress(KeyboardInterrupt):
                threading.Event().wait()


if __name__ == "__main__":
    main()
