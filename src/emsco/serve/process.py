"""The main process of `emsco serve`, which starts and restarts the workers."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from emsco.exceptions import EmscoError, ServiceError
from emsco.serve.bearer_tokens import METRICS, VARIABLES, Tokens, is_loopback
from emsco.serve.events import ERROR, WARNING, log_event, take_over_logging, where
from emsco.serve.metrics_server import MetricsServer, forget_worker, listen, share_metrics
from emsco.serve.model_compatibility import ModelTerms
from emsco.serve.settings import Settings

READY = "ready"  # the message of a worker to its parent
REFUSED, FAILED = 2, 70  # exit codes, the same as for other commands
_LOOK = 0.2  # seconds between checks of workers and signals
_MOST_PAUSE = 30.0  # maximum seconds before a worker that fails at start is restarted
_AFTER = 5.0  # seconds that workers have to exit after draining
_BACKLOG = 2048


def run(settings: Settings) -> int:
    """Serve until a signal ends it, and return the exit code."""
    tokens = Tokens.from_environment()
    tokens.check_host(settings.host)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until there is something to reload
    is_open = settings.metrics_port is not None and METRICS not in tokens.by_use
    if is_open and not is_loopback(settings.metrics_host):
        raise ServiceError(
            f"The metrics at {settings.metrics_host} are reachable from other machines: set the "
            f"environment variable {VARIABLES[METRICS]}, or omit --metrics-host."
        )
    with listen(settings.host, settings.port, backlog=_BACKLOG) as listening:
        if settings.workers > 1:
            _log_start(settings, listening, tokens)
            with _metrics(settings, tokens):
                return Parent(settings, listening).run()
        return _serve(settings, tokens, listening)


@contextmanager
def _metrics(settings: Settings, tokens: Tokens) -> Iterator[None]:
    """Share metrics among workers, and serve them."""
    if settings.metrics_port is None:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="emsco-metrics-") as folder:
        share_metrics(Path(folder))
        host, token = settings.metrics_host, tokens.by_use.get(METRICS)
        server = MetricsServer(None, settings.metrics_port, host, token)
        log_event("metrics", host=host, port=server.port)
        try:
            yield
        finally:
            server.close()


def _log_start(settings: Settings, listening: socket.socket, tokens: Tokens) -> None:
    host, port = listening.getsockname()[:2]
    state = "the store given by --state, shared with other processes"
    if not settings.is_shared:
        state = (
            f"{settings.state_address}, used by this process only: ids, budgets and failing "
            "sources are not shared with others"
        )
    log_event(
        "start", host=host, port=port, workers=settings.workers, model=str(settings.model),
        state=state, tokens=sorted(tokens.by_use), shadow=settings.shadow,
    )  # fmt: skip


def _serve(
    settings: Settings,
    tokens: Tokens,
    listening: socket.socket,
    pipe: Connection | None = None,
    before: ModelTerms | None = None,
) -> int:
    """Serve in this process; a worker reports to its parent through a pipe."""
    gc.disable()  # until `set_aside`: the start takes a tenth less time
    import uvloop

    from emsco.serve.server import serve

    def ready() -> None:
        host, port = listening.getsockname()[:2]
        log_event("ready", host=host, port=port)
        if pipe is None:
            notify_systemd()
        else:
            pipe.send(READY)

    def taken(standing: ModelTerms) -> None:
        if pipe is not None:
            with suppress(OSError):  # the parent has exited, and so will this process
                pipe.send(standing)

    take_over_logging()
    showwarning, warnings.showwarning = warnings.showwarning, _as_event
    try:
        if pipe is None:
            _log_start(settings, listening, tokens)
        parent = None if pipe is None else pipe.fileno()
        served = serve(settings, tokens, [listening], ready=ready, parent=parent, before=before,
                       taken=taken)  # fmt: skip
        uvloop.run(served)
    except asyncio.CancelledError:  # a signal arrived before there was anything to drain
        pass
    finally:
        warnings.showwarning = showwarning
        gc.enable()
    log_event("end")
    return 0


def notify_systemd() -> None:
    """Tell systemd that the service is ready, if systemd has asked for that."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = f"\0{address[1:]}"
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.connect(address)
        channel.sendall(b"READY=1")


def _as_event(message: Warning | str, *_: Any, **__: Any) -> None:
    log_event("warning", WARNING, text=str(message))


def work(
    settings: Settings, listening: socket.socket, parent: Connection, before: ModelTerms | None
) -> None:
    """Serve as one of several workers, and exit."""
    code = FAILED
    try:
        code = _serve(settings, Tokens.from_environment(), listening, parent, before)
    except EmscoError as error:
        log_event("refused", ERROR, why=str(error))
        code = REFUSED
    except Exception as error:
        log_event("unexpected", ERROR, error=where(error))
    sys.exit(code)


@dataclass
class _Worker:
    """A worker, and the pipe that reports its readiness and, when closed, its parent's exit."""

    process: Any
    pipe: Connection
    is_ready: bool = False
    is_behind: bool = False  # whether it may have loaded files that were replaced since


class Parent:
    """Starts workers, forwards signals to them, and restarts those that die."""

    def __init__(self, settings: Settings, listening: socket.socket) -> None:
        self._settings, self._listening = settings, listening
        self._context = multiprocessing.get_context("spawn")
        self._workers: list[_Worker] = []
        self._signals: list[int] = []
        self._was_ready = False
        self._standing: ModelTerms | None = None  # of the model that workers use
        self._pause, self._next = 0.0, 0.0  # the delay before a restart, and the time of the next

    def run(self) -> int:
        """Run until a signal ends it, and return the exit code."""
        taken = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        before = {name: signal.signal(name, self._note) for name in taken}
        try:
            while len(self._workers) < self._settings.workers:
                self._start()
            return self._watch()
        finally:
            self._end()
            for name, handler in before.items():
                signal.signal(name, handler)

    def _note(self, number: int, _: Any) -> None:
        self._signals.append(number)

    def _start(self) -> None:
        here, there = multiprocessing.Pipe()
        process = self._context.Process(
            target=work, args=(self._settings, self._listening, there, self._standing), daemon=False
        )
        process.start()
        there.close()
        self._workers.append(_Worker(process, here))

    def _watch(self) -> int:
        while True:
            wait([worker.process.sentinel for worker in self._workers], timeout=_LOOK)
            while self._signals:
                if self._signals.pop(0) != signal.SIGHUP:
                    return 0
                self._reload()
            self._hear()
            code = self._bury()
            if code is not None:
                return code
            if len(self._workers) < self._settings.workers and time.monotonic() >= self._next:
                self._start()

    def _hear(self) -> None:
        """Receive the messages of workers: that they are ready, and which model they use."""
        for worker in self._workers:
            while worker.pipe.poll():
                try:
                    heard = worker.pipe.recv()
                except (EOFError, OSError):  # the worker has exited
                    break
                if isinstance(heard, ModelTerms):
                    self._standing = heard  # a restarted worker must be compatible with it
                    continue
                worker.is_ready = True
                if not self._was_ready and all(one.is_ready for one in self._workers):
                    self._was_ready = True
                    notify_systemd()
                self._pause = 0.0
                if worker.is_behind:
                    os.kill(worker.process.pid, signal.SIGHUP)

    def _bury(self) -> int | None:
        """Remove workers that have exited; return an exit code if none is to be restarted."""
        for worker in [one for one in self._workers if not one.process.is_alive()]:
            self._workers.remove(worker)
            code = worker.process.exitcode
            worker.pipe.close()
            log_event("worker died", WARNING, worker=worker.process.pid, code=code)
            if self._settings.metrics_port is not None:
                forget_worker(worker.process.pid)
            if not self._was_ready:
                return code if code in (REFUSED, FAILED) else FAILED
            if not worker.is_ready:  # the next one may fail, too
                self._pause = min(_MOST_PAUSE, max(0.5, 2 * self._pause))
            self._next = time.monotonic() + self._pause
        return None

    def _reload(self) -> None:
        for worker in self._workers:
            if worker.is_ready and worker.process.is_alive():
                os.kill(worker.process.pid, signal.SIGHUP)
            worker.is_behind = not worker.is_ready

    def _end(self) -> None:
        """Let workers drain, and kill those that do not exit."""
        for worker in self._workers:
            worker.process.terminate()
        until = time.monotonic() + self._settings.drain + _AFTER
        for worker in self._workers:
            worker.process.join(max(0.0, until - time.monotonic()))
            if worker.process.is_alive():
                log_event("worker killed", ERROR, worker=worker.process.pid)
                worker.process.kill()
                worker.process.join()
            worker.pipe.close()
        log_event("end")
