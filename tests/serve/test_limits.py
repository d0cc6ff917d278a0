"""Clients must not take resources from others: places in the queue, threads of the metrics."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from contextlib import ExitStack

import httpx
import pytest

from emsco.serve.metrics import Metrics
from emsco.serve.metrics_server import MetricsServer
from emsco.serve.problem_json import RequestProblem
from emsco.serve.request_limits import Queue


def test_clients_who_leave_a_full_queue_do_no_harm():
    """They disconnect in the moment in which a place is passed on."""

    async def main():
        queue, end = Queue(running=1, waiting=20), asyncio.Event()

        async def ask():
            async with queue:
                await end.wait()

        first, *others = [asyncio.ensure_future(ask()) for _ in range(21)]
        await asyncio.sleep(0)
        with pytest.raises(RequestProblem, match="The request queue is full"):
            await ask()
        end.set()
        await asyncio.sleep(0)  # the first is about to leave, and passes its place on
        for other in others[:-1]:
            other.cancel()
        ended = await asyncio.gather(first, *others, return_exceptions=True)
        assert [type(one) for one in ended] == [type(None), *[asyncio.CancelledError] * 19,
                                                type(None)]  # fmt: skip
        assert (queue.running, queue.waiting) == (0, 0)
        async with queue:
            assert queue.running == 1

    asyncio.run(main())


def test_slow_clients_of_the_metrics_hold_no_threads_and_keep_nobody_out():
    """Two hundred connections that send half a request and stay."""
    server = MetricsServer(Metrics().registry, 0)
    before = threading.active_count()
    try:
        with ExitStack() as held:
            for _ in range(200):
                slow = socket.create_connection(("127.0.0.1", server.port), timeout=5)
                held.enter_context(slow)
                slow.sendall(b"GET /metrics HTTP/1.1\r\nHost: ")
            begin = time.monotonic()
            answer = httpx.get(f"http://127.0.0.1:{server.port}/metrics", timeout=5)
            assert answer.status_code == 200
            assert "emsco_queue_length" in answer.text
            assert time.monotonic() - begin < 5
            assert threading.active_count() - before < 20
    finally:
        server.close()


def test_the_metrics_close_a_connection_that_says_nothing_they_understand():
    server = MetricsServer(Metrics().registry, 0)
    try:
        for sent in (b"\r\n\r\n", b"POST /metrics HTTP/1.1\r\n\r\n", b"x" * 100_000):
            with socket.create_connection(("127.0.0.1", server.port), timeout=5) as one:
                one.sendall(sent)
                try:
                    heard = one.recv(100)
                except ConnectionResetError:
                    heard = b""
                assert heard[:12] in (b"", b"HTTP/1.1 405")
        assert httpx.get(f"http://127.0.0.1:{server.port}/metrics").status_code == 200
    finally:
        server.close()
