"""One server process: start-up, readiness, draining and reloading."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Any

import uvicorn

from emsco.serve.app import make_app
from emsco.serve.audit_watch import AuditWatch
from emsco.serve.bearer_tokens import METRICS, Tokens
from emsco.serve.canary import load_models
from emsco.serve.deployment import Deployment
from emsco.serve.events import ERROR, log_event, where
from emsco.serve.incarnation import witness_of
from emsco.serve.metrics import Metrics
from emsco.serve.metrics_server import MetricsServer
from emsco.serve.model_compatibility import ModelTerms
from emsco.serve.request_limits import Connection
from emsco.serve.service import Service
from emsco.serve.settings import Settings
from emsco.serve.state import State, open_state
from emsco.serve.state.state_url import alone, state_file
from emsco.serve.tracing import make_tracing

_LAST_CALL = 1.0  # seconds in which open connections are told to close


class Server(uvicorn.Server):
    """A uvicorn server that can be drained and closes idle connections."""

    def __init__(self, config: uvicorn.Config, service: Service, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._service, self._ready = service, ready
        self._until = 0.0  # when draining ends

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals to `serve`: uvicorn would exit by the signal instead of with code 0."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to answer requests, and report readiness."""
        await super().startup(sockets)
        set_aside()
        self._ready()

    async def on_tick(self, counter: int) -> bool:
        """Close idle connections, once a second."""
        if counter % 10 == 0:
            for connection in list(self.server_state.connections):
                if isinstance(connection, Connection):
                    connection.close_if_idle(self._service.settings.idle_timeout)
        return await super().on_tick(counter)

    def drain(self) -> None:
        """Finish the requests in progress, then exit."""
        if self.should_exit:
            return
        settings, service = self._service.settings, self._service
        self._until = asyncio.get_running_loop().time() + settings.drain
        running = service.queue.running + service.queue.waiting
        log_event("drain", running=running, seconds=settings.drain)
        service.is_draining = self.should_exit = True

    @property
    def left(self) -> float:
        """The seconds left for draining."""
        return max(0.0, self._until - asyncio.get_running_loop().time())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, let clients finish, and shut down."""
        for server in self.servers:
            server.close()
        # A request may just be arriving on an open connection: its response closes the connection,
        # and only connections that stay silent are closed without a response.
        self.server_state.is_last = True  # type: ignore[attr-defined]  # read by `Connection`
        silent = asyncio.get_running_loop().time() + min(_LAST_CALL, self.left)
        while self.server_state.connections and asyncio.get_running_loop().time() < silent:
            await asyncio.sleep(0.02)
        self.config.timeout_graceful_shutdown = self.left  # type: ignore[assignment]  # any number
        await super().shutdown(sockets)


def set_aside() -> None:
    """Exclude all current objects, such as libraries and the model, from garbage collection.

    Scanning them takes a tenth of a second, in which no request is answered, and under load that
    would happen every other second. Garbage left by an earlier model is collected first.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    gc.enable()  # it was off while everything was loaded


async def serve(
    settings: Settings,
    tokens: Tokens,
    sockets: list[socket.socket],
    *,
    ready: Callable[[], None],
    taken: Callable[[ModelTerms], None],
    parent: int | None,
    before: ModelTerms | None,
) -> None:
    """Serve until a signal ends it, or until the parent process closes its file descriptor.

    `ready` is called once requests are answered, `taken` with the terms of the model in use, before
    `ready` and after each reload. `before` are the terms of the model that other processes use.
    """
    async with _opened(settings) as state:
        with _starting():
            deployed, canary = await load_models(settings, state)
            if before is not None:
                deployed.standing.check_after(before, settings)
            taken(deployed.standing)
            models = [deployed] if canary is None else [deployed, canary.deployed]
            witness = await witness_of(settings, models, state)
            watch = make_watch(settings, deployed, state)
            metrics, exporter = make_metrics(settings, tokens)
            service = Service(
                settings, deployed, state, canary=canary, watch=watch, metrics=metrics,
                tracing=make_tracing(), witness=witness,
            )  # fmt: skip
            await service.start()
        server = Server(_config(settings, make_app(service, tokens)), service, ready)
        try:
            with _signals(server, service, parent, taken):
                await server.serve(sockets)
        finally:
            await service.stop(server.left)
            if exporter is not None:
                exporter.close()


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[State]:
    """Open the state; an SQLite file is locked for this service."""
    with _starting(), ExitStack() as held:
        if not settings.is_shared:
            held.enter_context(alone(state_file(settings.state_address), settings.deployment))
        state = await open_state(settings.state_address, deployment=settings.deployment)
        try:
            yield state
        finally:
            await state.close()


def _config(settings: Settings, app: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=Connection,
        lifespan="off",  # the service is started and stopped here
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=max(1, round(settings.idle_timeout)),
    )


def make_watch(settings: Settings, deployed: Deployment, state: State) -> AuditWatch:
    """Create the watch over a deployed model."""
    return AuditWatch(
        deployed.monitor,
        state,
        model=deployed.digest,
        classes=deployed.decider.classes.tolist(),
        deployment=settings.deployment,
        audit=settings.audit,
        label_after=settings.label_after,
    )


def make_metrics(settings: Settings, tokens: Tokens) -> tuple[Metrics | None, MetricsServer | None]:
    """Create the metrics, and serve them unless the parent of the workers does."""
    if settings.metrics_port is None:
        return None, None
    metrics = Metrics()
    if settings.workers > 1:
        return metrics, None
    token, host = tokens.by_use.get(METRICS), settings.metrics_host
    exporter = MetricsServer(metrics.registry, settings.metrics_port, host, token)
    log_event("metrics", host=host, port=exporter.port)
    return metrics, exporter


@contextmanager
def _starting() -> Generator[None, None, None]:
    """Exit at once on a signal, as there is nothing to drain yet."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None  # for the type checker
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, task.cancel)
    loop.add_signal_handler(signal.SIGHUP, lambda: None)  # the files are about to be loaded anyway
    yield


@contextmanager
def _signals(
    server: Server, service: Service, parent: int | None, taken: Callable[[ModelTerms], None]
) -> Generator[None, None, None]:
    """Drain on SIGTERM and SIGINT, or when the parent has exited; reload on SIGHUP."""
    loop = asyncio.get_running_loop()

    wanted = asyncio.Event()  # a reload; those asked for during another are one

    async def reload() -> None:
        while True:
            await wanted.wait()
            wanted.clear()
            # `set_aside` is not called again: scanning all objects would block every request, and
            # a model and its cascade are few objects.
            try:
                if await service.reload():
                    taken(service.deployed.standing)
            except Exception as error:
                log_event("unexpected", ERROR, error=where(error))

    reloading = asyncio.ensure_future(reload())
    handlers: dict[signal.Signals, Callable[[], None]] = {
        signal.SIGTERM: server.drain,
        signal.SIGINT: server.drain,
        signal.SIGHUP: wanted.set,
    }
    for name, handler in handlers.items():
        loop.add_signal_handler(name, handler)
    if parent is not None:
        loop.add_reader(parent, server.drain)
    try:
        yield
    finally:
        if parent is not None:
            loop.remove_reader(parent)
        for name in handlers:
            loop.remove_signal_handler(name)
        reloading.cancel()
