"""Servers for the benchmark of the service: each answers `POST /v1/decide`, one row a request."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
import uvloop
from fastapi import FastAPI, Response
from pydantic import BaseModel
from pydantic_core import to_json

from benchmarks.decide import THRESHOLD
from benchmarks.live import PREFIX, URL, problem
from emsco import CascadeClassifier, Costs, Source, StageDesign
from emsco.live import CallableSource, Sources
from emsco.serve.app import make_app
from emsco.serve.bearer_tokens import Tokens
from emsco.serve.deployment import Deployment
from emsco.serve.request_limits import Connection
from emsco.serve.server import Server, make_watch
from emsco.serve.service import Service
from emsco.serve.settings import Settings
from emsco.serve.state import open_state

JSON = "application/json"
# As long as the answer of the service to one row.
CONSTANT = to_json({
    "id": "f" * 32, "model": "0" * 64, "decisions": [{
        "id": f"{'f' * 32}-0", "label": 1, "accepted": True, "guess": None, "reason": "",
        "retry": False, "confidence": 0.9723, "cost": 1.0, "exit_stage": 0, "latency": 0.000312,
    }],
})  # fmt: skip


def keys() -> list[str]:
    """Name the rows."""
    return [f"row{number}" for number in range(1000)]


async def memory(listening: socket.socket) -> None:
    """Serve a cascade of one stage, whose source is a table in memory."""
    X, _, _, _ = problem(None)
    names = [f"x{number}" for number in range(X.shape[1])]
    y = (X @ np.linspace(1.0, 0.3, X.shape[1]) > 0).astype(int)
    costs = Costs([Source("table", cost=1.0, features=names)])
    design = StageDesign.from_stages([["table"]])
    cascade = CascadeClassifier(design=design, costs=costs, threshold=THRESHOLD).fit(X, y)
    table = {
        key: dict(zip(names, row.tolist(), strict=True)) for key, row in zip(keys(), X, strict=True)
    }

    async def fetch(asked: Sequence[Any], _: Any) -> dict[Any, dict[str, float]]:
        return {key: table[key] for key in asked}

    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(folder=Path(folder))
        state = await open_state(settings.state_address)
        sources = Sources({"table": CallableSource(function=fetch)})
        deployed = await Deployment.make(cascade, sources, settings, state)
        watch = make_watch(settings, deployed, state)
        service = Service(settings, deployed, state, watch=watch)
        await service.start()
        app = make_app(service, Tokens({}))

        @app.post("/constant")  # passes all that every other request passes
        async def constant() -> Response:
            return Response(CONSTANT, media_type=JSON)

        server = Server(_config(app, Connection), service, lambda: None)
        await server.serve([listening])


async def constant(listening: socket.socket) -> None:
    """Answer every request with the same bytes, by FastAPI with nothing around it."""
    app = FastAPI()

    @app.post("/v1/decide")
    async def decide() -> Response:
        return Response(CONSTANT, media_type=JSON)

    await _serve(app, listening)


class Ask(BaseModel):
    """What the endpoint written by hand takes."""

    key: str


async def hand(listening: socket.socket) -> None:
    """Serve the stages as one would write it for them alone: one pipeline and one product each."""
    import redis.asyncio

    _, cascade, stages, costs = problem(None)
    prices = [source.cost for source in costs.sources]
    labels = cascade.classes_.tolist()
    bought, plan = 0.0, []
    have: list[int] = []
    for number, (columns, w, b) in enumerate(stages):
        bought += prices[number]
        have += columns.tolist()
        plan.append((number, [f"x{i}" for i in columns], np.array(w), b, bought))
    client = redis.asyncio.Redis.from_url(URL)
    app = FastAPI()

    @app.post("/v1/decide")
    async def decide(ask: Ask) -> Response:
        values: list[float] = []
        p, stage, cost = 0.0, 0, 0.0
        for stage, fields, w, b, cost in plan:  # noqa: B007  # all are used after the loop
            async with client.pipeline(transaction=False) as pipeline:
                pipeline.hmget(f"{PREFIX}:{stage}:{ask.key}", fields)
                (reply,) = await pipeline.execute()
            values += [float(value) for value in reply]
            p = float(1 / (1 + np.exp(-(np.array(values) @ w + b))))
            if max(p, 1 - p) >= THRESHOLD:
                break
        confidence = max(p, 1 - p)
        accepted = confidence >= THRESHOLD
        told = {
            "id": os.urandom(16).hex(), "label": labels[p >= 0.5], "accepted": accepted,
            "reason": "" if accepted else "low confidence", "confidence": confidence, "cost": cost,
            "exit_stage": stage,
        }  # fmt: skip
        return Response(to_json(told), media_type=JSON)

    await _serve(app, listening)


async def _serve(app: FastAPI, listening: socket.socket) -> None:
    await uvicorn.Server(_config(app, "httptools")).serve([listening])


def _config(app: FastAPI, http: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app, http=http, ws="none", lifespan="off", log_config=None, access_log=False,
        server_header=False, proxy_headers=False,
    )  # fmt: skip


if __name__ == "__main__":
    chosen = {"memory": memory, "constant": constant, "hand": hand}[sys.argv[1]]
    with socket.create_server(("127.0.0.1", int(sys.argv[2])), backlog=1024) as open_socket:
        uvloop.run(chosen(open_socket))
