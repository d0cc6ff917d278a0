"""Where Prometheus reads the metrics: a port of its own, for one process or for all workers."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from email.message import Message
from email.parser import Parser
from http import HTTPStatus
from pathlib import Path
from typing import Any

from emsco.exceptions import ServiceError, require
from emsco.serve.bearer_tokens import METRICS, Tokens, is_forwarded
from emsco.serve.problem_json import RequestProblem

FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # the variable by which prometheus_client knows of workers
_IDLE = 10.0  # seconds that a client has to ask and to read
_MOST_CONNECTIONS = 32  # at a time; another one pushes the oldest out
_MOST_BYTES = 16_384  # of a request


def share_metrics(folder: Path) -> None:
    """Let worker processes that are started from now on count together, in files of a folder.

    Call it in the process that starts them, before it imports prometheus_client.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob("*.db"):  # by workers that ran before
        left.unlink()
    os.environ[FOLDER] = str(folder)


def forget_worker(pid: int) -> None:
    """Show no longer how many requests wait in a worker that has ended."""
    multiprocess = require("prometheus_client.multiprocess", "serve")
    multiprocess.mark_process_dead(pid)


class MetricsServer:
    """Answers `GET /metrics`, in one thread, however many connections there are.

    Parameters
    ----------
    registry : CollectorRegistry or None
        What is shown by one process. Where workers count together, all they count is shown.
    port : int
        The port; 0 takes a free one.
    host : str, default="127.0.0.1"
        The address.
    token : str, default=None
        The bearer token that must be sent. None: everybody may read.
    """

    def __init__(
        self, registry: Any, port: int, host: str = "127.0.0.1", token: str | None = None
    ) -> None:
        self._registry, self._exposition = (
            registry,
            require("prometheus_client.exposition", "serve"),
        )
        self._tokens = Tokens({} if token is None else {METRICS: token})
        self._connections: dict[asyncio.Task[None], None] = {}  # the oldest first
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            listening = socket.create_server((host, port), family=family)
        except OSError as error:
            raise ServiceError(
                f"Cannot listen on {host} port {port} for metrics: {error.strerror}; give another "
                "--metrics-host or --metrics-port."
            ) from error
        self.port: int = listening.getsockname()[1]
        self._loop, self._ended = asyncio.new_event_loop(), asyncio.Event()
        self._thread = threading.Thread(target=self._run, args=(listening,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    def _run(self, listening: socket.socket) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve(listening))

    async def _serve(self, listening: socket.socket) -> None:
        # What still runs in the end is cancelled by the runner.
        server = await asyncio.start_server(self._connected, sock=listening, limit=_MOST_BYTES)
        await self._ended.wait()
        server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a connection once, unless it takes too long or is pushed out."""
        task = asyncio.current_task()
        assert task is not None  # for the type checker
        self._connections[task] = None
        if len(self._connections) > _MOST_CONNECTIONS:
            oldest = next(iter(self._connections))  # a client who is slow keeps no other one out
            del self._connections[oldest]
            oldest.cancel()
        try:
            async with asyncio.timeout(_IDLE):
                request, headers = _read(await reader.readuntil(b"\r\n\r\n"))
                writer.write(self._answer(request, headers))
                await writer.drain()
        except (OSError, EOFError, ValueError, TimeoutError, asyncio.LimitOverrunError):
            pass  # it has left, is slow, or speaks no HTTP
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            self._connections.pop(task, None)
            writer.close()

    def _answer(self, request: str, headers: Message) -> bytes:
        method, target = request.split(" ")[:2]
        try:
            sent = headers.get("Authorization")
            self._tokens.check(METRICS, None if sent is None else sent.encode("latin-1"))
        except RequestProblem:
            return _written(401, b"Send the token of the metrics.\n")
        if not self._tokens.given and is_forwarded(name.lower().encode() for name in headers):
            return _written(403, b"Set EMSCO_TOKEN_METRICS: a proxy has passed this on.\n")
        if method != "GET":
            return _written(405, b"Only GET is answered.\n")
        if target.partition("?")[0] != "/metrics":
            return _written(404, b"Ask for /metrics.\n")
        encode, kind = self._exposition.choose_encoder(headers.get("Accept", ""))
        return _written(200, encode(_collected(self._registry)), kind)


def _read(head: bytes) -> tuple[str, Message]:
    """Read the first line and the headers of a request."""
    request, _, headers = head.decode("latin-1").partition("\r\n")
    if len(request.split(" ")) != 3:
        raise ValueError("No request of HTTP.")
    return request, Parser().parsestr(headers, headersonly=True)


def _written(status: int, body: bytes, kind: str = "text/plain") -> bytes:
    """Write an answer, after which the connection is closed."""
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", f"Content-Type: {kind}",
             f"Content-Length: {len(body)}", "Connection: close"]  # fmt: skip
    if status == 401:
        lines.append("WWW-Authenticate: Bearer")
    return "\r\n".join([*lines, "", ""]).encode() + body


def _collected(registry: Any) -> Any:
    """Return what one process counts, or all workers together."""
    if FOLDER not in os.environ:
        return registry
    client = require("prometheus_client", "serve")
    multiprocess = require("prometheus_client.multiprocess", "serve")
    whole = client.CollectorRegistry()
    multiprocess.MultiProcessCollector(whole)
    return whole
