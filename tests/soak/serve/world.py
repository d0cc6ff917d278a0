"""What is served: phishing sites in two stages, one in Redis, one at a vendor that sends bills."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from emsco import CascadeClassifier, Costs, Source, StageDesign, dump
from emsco.datasets import load_phishing
from emsco.live import HTTPSource, RedisSource, Sources
from tests.soak.live.stores import PostgresServer, RedisServer
from tests.soak.live.vendor import BILLED, PLAIN, Vendor

URL, WHOIS = "url", "whois"
PRICES = {URL: 0.0, WHOIS: 3.0}
THRESHOLDS = (0.95, 0.6)  # such that about half of the rows need the vendor
_PATIENCE = 60.0  # seconds: nothing fails here because the machine is busy
PAGE_URL, LOG_KEY = "EMSCO_EXPERIMENT_REDIS", "EMSCO_LOG_KEY"  # environment variables


@cache
def fitted(
    threshold: float = THRESHOLDS[0], most: int | None = None
) -> tuple[Any, CascadeClassifier]:
    """Fit the cascade on every second row; give the other rows, and the cascade.

    With `most`, a source has so many features, and not all of them.
    """
    X, y, costs = load_phishing()
    priced = Costs([
        Source(name, cost=PRICES[name], features=costs.columns(name)[:most]) for name in PRICES
    ])  # fmt: skip
    X = X[[feature for name in PRICES for feature in priced.columns(name)]]
    cascade = CascadeClassifier(
        design=StageDesign.from_stages([[name] for name in PRICES]), costs=priced,
        threshold=(threshold, THRESHOLDS[1]),
    )  # fmt: skip
    return X[1::2], cascade.fit(X[::2], y[::2])


@dataclass(frozen=True)
class World:
    """Stores, a vendor, and a folder with a model and its sources."""

    folder: Path
    redis: RedisServer
    postgres: PostgresServer
    vendor: Vendor
    keys: list[str]

    @property
    def environment(self) -> dict[str, str]:
        """Give what a service needs to know besides."""
        return {PAGE_URL: self.redis.url(), LOG_KEY: "a secret of the experiment"}

    @property
    def model(self) -> Path:
        """Give the file of the model."""
        return self.folder / "model.emsco"

    def states(self, name: str) -> dict[str, str]:
        """Give the addresses of states of this name, by kind; "" is a file of the service."""
        redis, postgres = self.redis.url(), self.postgres.url().replace("+asyncpg", "")
        return {
            "no --state": "",
            "Redis": f"{redis}?prefix={name}",
            "PostgreSQL": f"{postgres.partition('?')[0]}?sslmode=disable&prefix={name}",
        }

    def write_sources(self, **terms: Any) -> None:
        """Write how sources are fetched, with other terms for the vendor."""
        page = RedisSource(
            url_env=PAGE_URL, key="url:{key}", key_field="id", timeout=_PATIENCE, concurrency=64
        )
        whois = HTTPSource(
            url=f"{self.vendor.url}/v1/{{key}}", key_field="/id", price_field="/price", paid=True,
            billed=BILLED, timeout=_PATIENCE, concurrency=64, breaker=1_000_000,
        )  # fmt: skip
        sources = Sources({URL: page, WHOIS: replace(whois, **terms)})
        (self.folder / "sources.toml").write_text(sources.to_toml(), encoding="utf-8")

    def charges(self) -> int:
        """Count what the vendor has billed."""
        return len(self.vendor.bill())


@contextmanager
def made(n_keys: int) -> Iterator[World]:
    """Start stores and a vendor, fill them with so many keys, and write model and sources."""
    folder = Path(tempfile.mkdtemp(prefix="emsco-serve-"))
    folder.chmod(0o755)  # PostgreSQL runs as another user
    servers: list[RedisServer | PostgresServer] = []
    try:
        postgres = PostgresServer(folder / "postgres")
        servers.append(postgres)
        redis = RedisServer(folder / "redis")
        servers.append(redis)
        for server in servers:
            server.wait()
        with Vendor(folder) as vendor:
            keys = _fill(redis, vendor, n_keys)
            world = World(folder, redis, postgres, vendor, keys)
            dump(fitted()[1], world.model)
            world.write_sources()
            yield world
    finally:
        for server in servers:
            server.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _fill(redis: RedisServer, vendor: Vendor, n_keys: int) -> list[str]:
    """Give each key a row, many keys the same one: a bill tells keys apart."""
    X, cascade = fitted()
    costs = cascade.decider_.costs
    rows = {name: X[list(costs.columns(name))].to_dict("records") for name in PRICES}
    keys = [f"site-{number:06d}" for number in range(n_keys)]
    documents = {}
    with redis.admin() as admin:
        pipeline = admin.pipeline(transaction=False)
        for number, key in enumerate(keys):
            row = number % len(X)
            pipeline.hset(f"url:{key}", mapping={"id": key, **rows[URL][row]})
            documents[key] = {"id": key, "price": PRICES[WHOIS], **rows[WHOIS][row]}
            if number % 1000 == 999:
                pipeline.execute()
        pipeline.execute()
    vendor.sell({PLAIN: documents}, PRICES[WHOIS])
    return keys
