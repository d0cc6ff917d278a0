"""The metrics endpoint for Prometheus, on a separate port, for one process or all workers."""

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

FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # the variable that makes prometheus_client share metrics
_IDLE = 10.0  # seconds that a client has to send its request and read the response
_MOST_CONNECTIONS = 32  # at a time; a further one closes the oldest
_MOST_BYTES = 16_384  # of a request


def share_metrics(folder: Path) -> None:
    """Let worker processes started from now on share their metrics, in files of a folder.

    Call it in the process that starts them, before it imports prometheus_client.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob("*.db"):  # of earlier workers
        left.unlink()
    os.environ[FOLDER] = str(folder)


def forget_worker(pid: int) -> None:
    """Drop the live gauges of a worker that has exited."""
    multiprocess = require("prometheus_client.multiprocess", "serve")
    multiprocess.mark_process_dead(pid)


def listen(host: str, port: int, what: str = "", backlog: int | None = None) -> socket.socket:
    """Open the listening socket of the service, or of its "metrics"."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=backlog)
    except OSError as error:
        use, prefix = (f" for {what}", f"{what}-") if what else ("", "")
        raise ServiceError(
            f"Cannot listen on {host} port {port}{use}: {error.strerror}; choose another "
            f"--{prefix}host or --{prefix}port."
        ) from error


class MetricsServer:
    """Serves `GET /metrics` in one thread, for any number of connections."""

    def __init__(
        self, registry: Any, port: int, host: str = "127.0.0.1", token: str | None = None
    ) -> None:
        self._registry = registry
        self._exposition = require("prometheus_client.exposition", "serve")
        self._tokens = Tokens({} if token is None else {METRICS: token})
        self._connections: dict[asyncio.Task[None], None] = {}  # oldest first
        listening = listen(host, port, "metrics")
        self.port: int = listening.getsockname()[1]
        self._loop, self._ended = asyncio.new_event_loop(), asyncio.Event()
        self._thread = threading.Thread(target=self._run, args=(listening,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the server."""
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    def _run(self, listening: socket.socket) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve(listening))

    async def _serve(self, listening: socket.socket) -> None:
        # The runner cancels connections that are still open at the end.
        server = await asyncio.start_server(self._connected, sock=listening, limit=_MOST_BYTES)
        await self._ended.wait()
        server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, unless it takes too long or too many others arrive."""
        task = asyncio.current_task()
        assert task is not None  # for the type checker
        self._connections[task] = None
        if len(self._connections) > _MOST_CONNECTIONS:
            oldest = next(iter(self._connections))  # slow clients must not block others
            del self._connections[oldest]
            oldest.cancel()
        try:
            async with asyncio.timeout(_IDLE):
                request, headers = _read(await reader.readuntil(b"\r\n\r\n"))
                writer.write(self._answer(request, headers))
                await writer.drain()
        except (OSError, EOFError, ValueError, TimeoutError, asyncio.LimitOverrunError):
            pass  # the client has disconnected, is slow, or does not speak HTTP
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
            return _response(401, b"Send the token for metrics.\n")
        if not self._tokens.by_use and is_forwarded(name.lower().encode() for name in headers):
            return _response(403, b"A proxy forwarded this request: set EMSCO_TOKEN_METRICS.\n")
        if method != "GET":
            return _response(405, b"Use GET.\n")
        if target.partition("?")[0] != "/metrics":
            return _response(404, b"The only route is /metrics.\n")
        encode, kind = self._exposition.choose_encoder(headers.get("Accept", ""))
        return _response(200, encode(_collected(self._registry)), kind)


def _read(head: bytes) -> tuple[str, Message]:
    """Parse the first line and the headers of a request."""
    request, _, headers = head.decode("latin-1").partition("\r\n")
    if len(request.split(" ")) != 3:
        raise ValueError("This is not an HTTP request.")
    return request, Parser().parsestr(headers, headersonly=True)


def _response(status: int, body: bytes, kind: str = "text/plain") -> bytes:
    """Return a response that closes the connection."""
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", f"Content-Type: {kind}",
             f"Content-Length: {len(body)}", "Connection: close"]  # fmt: skip
    if status == 401:
        lines.append("WWW-Authenticate: Bearer")
    return "\r\n".join([*lines, "", ""]).encode() + body


def _collected(registry: Any) -> Any:
    """Return the metrics of one process, or of all workers."""
    if FOLDER not in os.environ:
        return registry
    client = require("prometheus_client", "serve")
    multiprocess = require("prometheus_client.multiprocess", "serve")
    whole = client.CollectorRegistry()
    multiprocess.MultiProcessCollector(whole)
    return whole
