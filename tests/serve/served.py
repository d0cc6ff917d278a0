"""A small model behind a real server with real sources, for the tests of the service."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from contextlib import contextmanager

import httpx
import numpy as np
import uvicorn
import uvloop

from emsco import CascadeClassifier, Costs, Source, StageDesign
from emsco.live import CallableSource, Sources
from emsco.serve.app import make_app
from emsco.serve.bearer_tokens import Tokens
from emsco.serve.canary import make_canary
from emsco.serve.deployment import Deployment
from emsco.serve.request_limits import Connection
from emsco.serve.server import Server
from emsco.serve.service import Service
from emsco.serve.settings import Settings
from emsco.serve.state import open_state
from emsco.serve.stream_checks import draw_coin

N = 200
RNG = np.random.default_rng(3)
Y = RNG.integers(2, size=N)
X = np.column_stack([Y + RNG.normal(size=N), 4 * Y + RNG.normal(size=N)])
LABELS = np.array(["good", "fraud"])[Y]
KEYS = [f"customer-{i:04}" for i in range(N)]
COSTS = Costs([Source("page", cost=1, features=["x0"]), Source("bureau", cost=5, features=["x1"])])
PAGES = {key: {"x0": float(x)} for key, x in zip(KEYS, X[:, 0], strict=True)}
BUREAU = {key: {"x1": float(x)} for key, x in zip(KEYS, X[:, 1], strict=True)}


def make_cascade(threshold=0.8, rows=slice(None)):
    design = StageDesign.from_stages([["page"], ["bureau"]])
    cascade = CascadeClassifier(design=design, costs=COSTS, threshold=threshold)
    return cascade.fit(X[rows], LABELS[rows])


def make_foreign():
    """Return a model with labels that the others do not have."""
    design = StageDesign.from_stages([["page"], ["bureau"]])
    return CascadeClassifier(design=design, costs=COSTS).fit(X, LABELS == "good")


CASCADE = make_cascade()
DECIDED = CASCADE.decide(X)
QUICK = KEYS[int(np.flatnonzero(DECIDED.exit_stage == 0)[0])]  # decided by the page alone
THOROUGH = KEYS[int(np.flatnonzero(DECIDED.exit_stage == 1)[0])]  # needs the bureau


class Store:
    """Two in-memory sources, which record their requests and can be delayed."""

    def __init__(self, **terms):
        self.asked = {"page": [], "bureau": []}
        self.holds = {"page": None, "bureau": None}  # events that answers wait for
        self.sources = Sources(
            {
                "page": CallableSource(function=self._function("page", PAGES)),
                "bureau": CallableSource(function=self._function("bureau", BUREAU), **terms),
            }
        )

    def _function(self, name, table):
        async def fetch(keys, _):
            self.asked[name] += keys
            while self.holds[name] is not None and not self.holds[name].is_set():
                await asyncio.sleep(0.005)
            return {key: table[key] for key in keys if key in table}

        return fetch


class Served:
    """A service in a separate thread."""

    def __init__(self, url, service, call):
        self.url, self.service = url, service
        self._call = call
        self.client = httpx.Client(base_url=url, timeout=20)

    def run(self, work):
        """Run a coroutine in the event loop of the service, and return its result."""
        return self._call(work)

    def decide(self, **body):
        return self.client.post("/v1/decide", json=body)

    @property
    def address(self):
        host, port = self.url.removeprefix("http://").split(":")
        return host, int(port)


@contextmanager
def served(
    folder,
    sources,
    *,
    cascade=CASCADE,
    canary=None,
    tokens=None,
    watch=None,
    state=None,
    http=Connection,
    coin=draw_coin,
    **settings,
):
    """Serve a model with a real server on a free port."""
    chosen = Settings(**{"folder": folder, "drain": 2.0, "port": 0} | settings)
    loop, started, ended = uvloop.new_event_loop(), threading.Event(), threading.Event()
    held = {}

    async def run():
        held["state"] = await open_state(
            state or chosen.state_address, deployment=chosen.deployment
        )
        deployed = await Deployment.make(cascade, sources, chosen, held["state"])
        made = None if watch is None else watch(deployed, held["state"])
        beside = None
        if canary is not None:
            other = await Deployment.make(canary, sources, chosen, held["state"])
            beside = await make_canary(other, deployed, chosen, held["state"])
        service = held["service"] = Service(
            chosen, deployed, held["state"], canary=beside, watch=made, coin=coin
        )
        await service.start()
        app = make_app(service, Tokens(tokens or {}))
        config = uvicorn.Config(app, http=http, lifespan="off", log_config=None,
                                access_log=False, timeout_keep_alive=30)  # fmt: skip
        server = held["server"] = Server(config, service, started.set)
        with socket.create_server(("127.0.0.1", 0)) as listening:
            held["port"] = listening.getsockname()[1]
            await server.serve([listening])
        await service.stop(server.left)
        await held["state"].close()

    def work():
        try:
            loop.run_until_complete(run())
        except BaseException as error:
            held["error"] = error
        finally:
            started.set()
            ended.set()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert started.wait(60)
    if "error" in held:
        raise held["error"]

    def call(work):
        return asyncio.run_coroutine_threadsafe(work, loop).result(30)

    one = Served(f"http://127.0.0.1:{held['port']}", held["service"], call)
    try:
        yield one
    finally:
        one.client.close()
        if not ended.is_set():
            loop.call_soon_threadsafe(held["server"].drain)
        thread.join(30)
        assert ended.is_set()
        loop.close()
        if "error" in held:
            raise held["error"]


def best(row):
    """Return the label of an accepted row, or the best guess for a rejected one."""
    return row["label"] if row["accepted"] else row["guess"]


def wait_for(condition, seconds=10.0):
    """Wait until a condition holds."""
    pause = threading.Event()
    for _ in range(int(seconds / 0.01)):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("It did not become so.")


def raw(address, *parts, pause=0.0, timeout=20.0):
    """Send raw bytes, and return the response until the connection is closed."""
    with socket.create_connection(address, timeout=timeout) as connection:
        for part in parts:
            connection.sendall(part)
            threading.Event().wait(pause)
        heard = b""
        while True:
            try:
                more = connection.recv(65536)
            except ConnectionResetError:
                return heard
            if not more:
                return heard
            heard += more


def post(path, body, *headers):
    """Return the bytes of a request that closes its connection."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        "Connection: close",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def free_port():
    """Return a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
