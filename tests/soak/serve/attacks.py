"""Requests without the right token, and bodies that are too large, too slow or too deep.

All of them at once, many times over, while well-behaved clients must be answered.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tests.soak.live.bars import Bar, tell
from tests.soak.live.ports import free_port
from tests.soak.serve.client import Answer, read_answer
from tests.soak.serve.generator import load
from tests.soak.serve.process import serving
from tests.soak.serve.world import World

_PART = "bodies"
TOKENS = {use: f"a token for {use} and nothing else" for use in ("decide", "feedback", "metrics")}
ROUTES = {  # the token that each needs, and a body
    ("POST", "/v1/decide"): ("decide", {"key": "site-000001"}),
    ("POST", "/v1/feedback"): ("feedback", {"labels": [{"id": "none", "label": "phishing"}]}),
    ("GET", "/v1/model"): ("decide", None),
    ("GET", "/openapi.json"): ("decide", None),
    ("GET", "/v1/other"): ("decide", None),  # who has no token does not learn what there is
    ("DELETE", "/v1/decide"): ("decide", None),
}
OPEN = (("GET", "/healthz"), ("GET", "/readyz"))
MOST = 1_000_000  # bytes
TIMEOUT, SMALL_TIMEOUT = 10.0, 4.0  # seconds for a body, and for an idle client
SLOWEST = 2.0  # seconds, at the 99th percentile of the others
CLIENTS, RATE = 64, 50.0  # of those who behave, and their requests per second
_PATIENCE = 60.0  # seconds for anything to be refused
_MANY = range(60_000)
CLOSED = "closed"
Attack = Callable[["Attacker"], Coroutine[Any, Any, str]]


@dataclass
class Attacker:
    """Somebody who misbehaves: gives what became of it, a status with a type or "closed"."""

    port: int

    @property
    def head(self) -> bytes:
        """Give a head that lacks its length."""
        token = f"Authorization: Bearer {TOKENS['decide']}"
        return (f"POST /v1/decide HTTP/1.1\r\nHost: localhost\r\n{token}\r\n"
                "Content-Type: application/json\r\n").encode()  # fmt: skip

    async def send(self, content: bytes, more: bytes = b"") -> str:
        """Send a body with its length."""
        length = f"Content-Length: {len(content)}\r\n".encode()
        return await self.whole([self.head + more + length + b"\r\n" + content])

    async def whole(self, parts: list[bytes], pause: float = 0.0) -> str:
        """Send parts one after the other, until there is an answer or the connection ends."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        reading = asyncio.ensure_future(_told(reader))
        try:
            for part in parts:
                if reading.done():
                    break
                writer.write(part)
                try:
                    await writer.drain()
                except OSError:
                    break
                if pause:
                    await asyncio.wait([reading], timeout=pause)
            async with asyncio.timeout(_PATIENCE):
                return await reading
        except TimeoutError:
            return "nothing"
        finally:
            reading.cancel()
            writer.close()


async def _told(reader: asyncio.StreamReader) -> str:
    """Give the status and the type of an answer, or that the connection was closed."""
    try:
        answer = await read_answer(reader)
    except (OSError, EOFError):
        return CLOSED
    return f"{answer.status} {kind_of(answer)}"


def kind_of(answer: Answer) -> str:
    """Give the type of a problem, in short; "" where it is none."""
    if answer.headers.get("content-type") != "application/problem+json":
        return ""
    return str(answer.json["type"]).removeprefix("urn:emsco:")


def _nested(depth: int, opened: bytes = b"[", closed: bytes = b"]") -> bytes:
    return b'{"key": "a", "known": ' + opened * depth + closed * depth + b"}"


def _chunked(n_chunks: int) -> list[bytes]:
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    return [chunk] * n_chunks


async def _slow_body(attacker: Attacker) -> str:
    length = b"Content-Length: 1000\r\n\r\n"
    return await attacker.whole([attacker.head + length, *[b" "] * 200], pause=0.1)


async def _slow_head(attacker: Attacker) -> str:
    return await attacker.whole([attacker.head, *[b"X-A: b\r\n"] * 200], pause=0.1)


async def _endless_head(attacker: Attacker) -> str:
    return await attacker.whole([attacker.head, *[b"X-A: " + b"b" * 8000 + b"\r\n"] * 100])


async def _endless_body(attacker: Attacker) -> str:
    return await attacker.whole(
        [attacker.head + b"Transfer-Encoding: chunked\r\n\r\n", *_chunked(200)]
    )


def _body(content: bytes) -> Attack:
    return lambda attacker: attacker.send(content)


def _cut(attacker: Attacker) -> Coroutine[Any, Any, str]:
    return attacker.whole([attacker.head + b"Content-Length: 1000000000000\r\n\r\n{"])


# By name: what is done, and what must become of it.
ATTACKS: dict[str, tuple[Attack, tuple[str, ...]]] = {
    "a body that is too large": (_body(b" " * (MOST + 1)), ("413 body-size",)),
    "one that says it is": (_cut, ("413 body-size",)),
    "one without a length": (_endless_body, ("413 body-size",)),
    "a body that comes slowly": (_slow_body, ("408 body-time",)),
    "headers that come slowly": (_slow_head, (CLOSED,)),
    "headers without an end": (_endless_head, ("400 ", CLOSED)),
    "a connection that says nothing": (lambda attacker: attacker.whole([]), (CLOSED,)),
    "lists in lists": (_body(_nested(400_000)), ("400 body-depth",)),
    "objects in objects": (_body(_nested(100_000, b'{"a":', b"}")), ("400 body-depth",)),
    "17 levels": (_body(_nested(17)), ("400 body-depth",)),
    "lists without an end": (_body(b"[" * MOST), ("400 body-depth", "400 json")),
    "many mistakes in keys": (_body(b'{"keys": [' + b"[]," * 300_000 + b"[]]}"), ("422 body",)),
    "many mistakes in a value": (
        _body(b'{"key": "a", "known": {"x": [' + b"{}," * 300_000 + b"1]}}"), ("422 body",),
    ),
    "many mistakes in values": (
        _body(b'{"key": "a", "known": {' + b",".join(b'"%d":{}' % n for n in _MANY) + b"}}"),
        ("422 body",),
    ),
    "many unknown fields": (
        _body(b"{" + b",".join(b'"%d":1' % n for n in _MANY) + b"}"), ("422 body",),
    ),
    "too many keys": (_body(json.dumps({"keys": ["a"] * 1001}).encode()), ("422 keys",)),
    "no JSON": (_body(b"key=a"), ("400 json",)),
    "no UTF-8": (_body(b'{"key": "\xff\xfe"}'), ("400 json",)),
    "half of a surrogate": (_body(b'{"key": "\\ud800"}'), ("400 json", "422 body")),
    "no number": (_body(b'{"key": "a", "known": {"x": NaN}}'), ("400 json", "422 body")),
    "a number with 900,000 digits": (_body(b'{"key": ' + b"9" * 900_000 + b"}"),
                                    ("400 json", "422 body")),
    "an unknown field": (_body(b'{"key": "a", "admin": true}'), ("422 body",)),
    "nothing": (_body(b""), ("400 json",)),
    "a compressed body": (
        lambda attacker: attacker.send(b"{}", b"Content-Encoding: gzip\r\n"), ("415 media-type",),
    ),
}  # fmt: skip

WAITING = (
    "a body that comes slowly", "headers that come slowly", "a connection that says nothing",
)  # fmt: skip


async def wrong_tokens(port: int, metrics: int) -> tuple[int, list[str]]:
    """Ask every route with every token, and with none; give the number, and what is wrong."""
    right = f"Bearer {TOKENS['decide']}"
    headers: dict[str, str | None] = {
        "none": None, "empty": "Bearer", "other scheme": "Basic abc", "longer": f"{right}x",
        "shorter": right[:-1], "not ASCII": "Bearer \xe9\xff",
    }  # fmt: skip
    headers |= {use: f"Bearer {token}" for use, token in TOKENS.items()}
    asked = [(port, *route, *needed) for route, needed in ROUTES.items()]
    asked.append((metrics, "GET", "/metrics", "metrics", None))
    asked += [(port, *route, "", None) for route in OPEN]
    wrong, n_asked = [], 0
    for at, method, path, use, body in asked:
        for name, header in headers.items():
            status, kind = await _asked(at, method, path, body, header)
            n_asked += 1
            is_refused = status == 401 and (at == metrics or kind == "token")
            if is_refused is (name == use or not use):
                wrong.append(f"{method} {path}, token {name}: {status} {kind}")
    return n_asked, wrong


async def _asked(
    port: int, method: str, path: str, body: Any, header: str | None
) -> tuple[int, str]:
    content = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    head += f"Content-Length: {len(content)}\r\nContent-Type: application/json\r\n"
    head += "" if header is None else f"Authorization: {header}\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head.encode("latin-1") + b"\r\n" + content)
    read = await reader.read()
    writer.close()
    first, _, body_read = read.partition(b"\r\n\r\n")
    status = int(first.split(b" ", 2)[1])
    is_problem = b"application/problem+json" in first.lower()
    return status, json.loads(body_read)["type"].removeprefix("urn:emsco:") if is_problem else ""


async def _attack(port: int, times: int) -> dict[str, Counter[str]]:
    """Attack in all ways at once; give what became of each."""
    attacker = Attacker(port)
    became: dict[str, Counter[str]] = {name: Counter() for name in ATTACKS}

    async def attack(name: str, times: int) -> None:
        for _ in range(times):
            became[name][await ATTACKS[name][0](attacker)] += 1

    # Those who wait do so all at once; the others come one after the other, all kinds at once.
    waiting = (attack(name, 1) for name in WAITING for _ in range(times))
    others = (attack(name, times) for name in ATTACKS if name not in WAITING)
    await asyncio.gather(*waiting, *others)
    return became


def unexpected(became: dict[str, Counter[str]]) -> dict[str, dict[str, int]]:
    """Give what became of attacks that were not refused as they must be."""
    return {
        name: dict(found)
        for name, found in became.items()
        if not found or any(one not in ATTACKS[name][1] for one in found)
    }


def measure(world: World, *, small: bool) -> list[Bar]:
    """Attack in all ways at once, 30 times each; `--small`, three times each."""
    times, metrics = (3 if small else 30), free_port()
    timeout = str(SMALL_TIMEOUT if small else TIMEOUT)
    options = ["--max-body", str(MOST), "--body-timeout", timeout, "--idle-timeout", timeout,
               "--metrics-port", str(metrics)]  # fmt: skip
    tokens = {f"EMSCO_TOKEN_{use.upper()}": token for use, token in TOKENS.items()}
    with serving(world, *options, environment=tokens) as process:
        n_asked, wrong = asyncio.run(wrong_tokens(process.port, metrics))
        with ThreadPoolExecutor(1) as pool:
            asking = pool.submit(
                load, process.port, world.keys[:3000], 6.0 if small else 40.0, clients=CLIENTS,
                rate=RATE, token=TOKENS["decide"],
            )  # fmt: skip
            began = time.monotonic()
            became = asyncio.run(_attack(process.port, times))
            took = time.monotonic() - began
            good = asking.result()
        events = process.events.copy()
        code = process.end()
        text = json.dumps(process.events) + "".join(process.other)
    wrongly = unexpected(became)
    unforeseen = [event for event in events if event["event"] == "unexpected"]
    shown = [use for use, token in TOKENS.items() if token in text]
    failures = good.sent - good.statuses.get(200, 0)
    p99 = good.p99.get(200, float("inf"))
    tell(_PART, tokens=n_asked, wrong=wrong, became=became, unexpected=wrongly, shown=shown,
         attacked=took, asked=good.seconds, good=good.sent, statuses=good.statuses, lost=good.lost,
         p50=good.p50, p99=good.p99, unforeseen=unforeseen, code=code)  # fmt: skip
    total = sum(found.total() for found in became.values())
    return [
        Bar(f"{n_asked} requests on every route with every token: answered otherwise than 401 "
            "where they must be, or 401 where not", "0", str(len(wrong)),
            not wrong and not shown),
        Bar(f"{len(ATTACKS)} kinds of attacks at once, {total} in all: kinds not refused by name",
            "0", f"{len(wrongly)}" + (f": {next(iter(wrongly.items()))}" if wrongly else ""),
            not wrongly and not unforeseen and not code),
        Bar("others meanwhile: requests not answered; p99 of the answered",
            f"0; within {SLOWEST:g} s",
            f"{failures} of {good.sent:,}; {1000 * p99:.0f} ms",
            not failures and good.sent > 100 and p99 <= SLOWEST),
    ]  # fmt: skip
