"""Where Prometheus reads the metrics: a port of its own, for one process or for all workers."""

from __future__ import annotations

import os
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from emsco.exceptions import ServiceError, require
from emsco.serve.problems import Problem
from emsco.serve.tokens import METRICS, Tokens

FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # the variable by which prometheus_client knows of workers
_IDLE = 10.0  # seconds that a client has to ask


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
    """Answers `GET /metrics`, in a thread.

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
        handler = _handler(registry, Tokens({} if token is None else {METRICS: token}))
        server = _ServerV6 if ":" in host else _Server
        try:
            self._server = server((host, port), handler)
        except OSError as error:
            raise ServiceError(
                f"Cannot listen on {host} port {port} for metrics: {error.strerror}; give another "
                "--metrics-host or --metrics-port."
            ) from error
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, *_: Any) -> None:
        """Say nothing of clients who have left."""


class _ServerV6(_Server):
    address_family = socket.AF_INET6


def _handler(registry: Any, tokens: Tokens) -> type[BaseHTTPRequestHandler]:
    exposition = require("prometheus_client.exposition", "serve")

    class Handler(BaseHTTPRequestHandler):
        timeout = _IDLE

        def do_GET(self) -> None:  # named by the standard library
            """Show the metrics."""
            try:
                sent = self.headers.get("Authorization")
                tokens.check(METRICS, None if sent is None else sent.encode("latin-1"))
            except Problem:
                self._answer(401, b"Send the token of the metrics.\n", "text/plain")
                return
            if self.path.partition("?")[0] != "/metrics":
                self._answer(404, b"Ask for /metrics.\n", "text/plain")
                return
            encode, kind = exposition.choose_encoder(self.headers.get("Accept", ""))
            self._answer(200, encode(_collected(registry)), kind)

        def _answer(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            if status == 401:
                self.send_header("WWW-Authenticate", "Bearer")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    return Handler


def _collected(registry: Any) -> Any:
    """Return what one process counts, or all workers together."""
    if FOLDER not in os.environ:
        return registry
    client = require("prometheus_client", "serve")
    multiprocess = require("prometheus_client.multiprocess", "serve")
    whole = client.CollectorRegistry()
    multiprocess.MultiProcessCollector(whole)
    return whole
