"""A server that speaks the chat completions API over real sockets, with faults, and keeps a bill.

As a program, it answers questions from a file of texts and labels:

    python -m tests.chat.chat_server --answers answers.json --prompt "Is this spam? {text}"
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

FAULTS = (
    "429 with seconds", "429 with a date", "429", "500", "503", "cut before headers",
    "cut in the answer", "slow drip", "no label", "broken JSON", "no usage", "no choices",
    "refused", "filtered", "cut off", "a web page",
)  # fmt: skip
# The client learns what these cost; of the others that are charged, it does not.
COUNTED = ("none", "no label", "no choices", "refused", "filtered", "cut off")
FREE = ("429 with seconds", "429 with a date", "429", "503", "400", "401", "404")
_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Slow Down",
            500: "Error", 503: "Busy", 302: "Found"}  # fmt: skip


class Charge(NamedTuple):
    """A request in the server's own books."""

    digest: str  # of its address and body, by which clients keep its answer
    kind: str  # its fault, "none" if it has none
    tokens_in: int
    tokens_out: int
    at: float


@dataclass
class ChatServer:
    """What the server answers, and what it has charged.

    Parameters
    ----------
    answer : callable
        The label of a question, or None for text that is no label.
    share : float
        The share of requests with a fault.
    faults : tuple of str
        The kinds of faults.
    refuses : tuple of str
        Options of requests that it does not know; it answers with status 400 and names them.
    key : str or None
        The key that it asks for.
    trust : callable or None
        The probability of the label of a question, for log-probabilities.
    special : callable or None
        The response to a request by its number, as status, content and headers; None: the usual.
    delay : float
        The seconds that an answer takes.
    """

    answer: Callable[[str], Any]
    share: float = 0.0
    faults: tuple[str, ...] = FAULTS
    refuses: tuple[str, ...] = ()
    key: str | None = None
    trust: Callable[[str], float] | None = None
    special: Callable[[int], tuple[int, Any, dict[str, str]] | None] | None = None
    delay: float = 0.0
    seed: int = 0
    bill: list[Charge] = field(default_factory=list)
    seen: list[dict[str, Any]] = field(default_factory=list)  # headers and bodies
    kinds: set[str] = field(default_factory=set)
    at_once: int = 0
    most_at_once: int = 0

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self.port = 0
        self._is_over = False

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def charged(self, price_in: float, price_out: float, *, counted: bool | None = None) -> float:
        """Return what it has charged: all, or only what clients were told (`counted`), or not."""
        return math.fsum(
            (charge.tokens_in * price_in + charge.tokens_out * price_out) / 1e6
            for charge in self.bill
            if counted is None or (charge.kind in COUNTED) == counted
        )

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request of a connection after the other."""
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client is gone, or the server ends
        finally:
            writer.transport.abort() if self._is_over else writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            headers = {
                name.strip().lower(): value.strip()
                for name, _, value in (line.partition(":") for line in head.split("\r\n")[1:])
            }
            content = await reader.readexactly(int(headers.get("content-length", 0)))
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            try:
                goes_on = await self._respond(head.split(" ")[1], headers, content, writer)
            finally:
                self.at_once -= 1
            await writer.drain()
            if not goes_on:
                break

    async def _respond(
        self, path: str, headers: Mapping[str, str], content: bytes, writer: asyncio.StreamWriter
    ) -> bool:
        if path == "/bill":
            _send(writer, 200, {"charges": [list(charge) for charge in self.bill]})
            return True
        if path != "/v1/chat/completions":
            _send(writer, 404, _error("There is no such path."))
            return True
        body = json.loads(content)
        self.seen.append({"headers": dict(headers), "body": body})
        if self.key is not None and headers.get("authorization") != f"Bearer {self.key}":
            given = headers.get("authorization", "")
            _send(writer, 401, _error(f"Incorrect API key provided: {given}"))
            return True
        special = self.special(len(self.seen)) if self.special else None
        if special is not None:
            _send(writer, *special)
            return True
        for option in self.refuses:
            if option in body:
                _send(writer, 400, _error(f"Unsupported parameter: {option}. {_hint(option)}"))
                return True
        await asyncio.sleep(self.delay)
        kind = self._rng.choice(self.faults) if self._rng.random() < self.share else "none"
        self.kinds.add(kind)
        return await self._reply(kind, body, content, writer)

    async def _reply(
        self, kind: str, body: dict[str, Any], content: bytes, writer: asyncio.StreamWriter
    ) -> bool:
        if kind in ("429 with seconds", "429 with a date", "429", "503"):
            after = {"429 with seconds": "0.05", "429 with a date": formatdate(usegmt=True)}
            more = {"Retry-After": after[kind]} if kind in after else {}
            _send(writer, int(kind[:3]), _error("Rate limit reached."), more)
            return True
        document = self.document(kind, body, content)
        written = json.dumps(document).encode()
        if kind == "500":
            _send(writer, 500, _error("The server had an error."))
        elif kind == "cut before headers":
            return False
        elif kind == "cut in the answer":
            writer.write(_head(200, len(written), {}) + written[: len(written) // 2])
            return False
        elif kind == "slow drip":
            writer.write(_head(200, len(written), {}))
            for place in range(len(written)):
                writer.write(written[place : place + 1])
                await writer.drain()
                await asyncio.sleep(0.5)
        elif kind == "broken JSON":
            _send(writer, 200, written[:-20])
        elif kind == "a web page":
            page = b"<html><body>Please sign in: spam, ham, yes or no?</body></html>"
            _send(writer, 200, page, {"Content-Type": "text/html"})
        else:
            _send(writer, 200, document)
        return True

    def document(self, kind: str, body: dict[str, Any], content: bytes) -> dict[str, Any]:
        """Make an answer, and charge it."""
        question = body["messages"][1]["content"]
        label = self.answer(question)
        text, finish = self._text(label, body), "stop"
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if kind == "no label" or label is None:
            message["content"] = f"I believe that it is {label}, but {label!r} is only a guess."
        elif kind == "cut off":
            message["content"], finish = text[:-1] if len(text) > 1 else text, "length"
        elif kind == "refused":
            message |= {"content": None, "refusal": f"I cannot say {label}."}
        elif kind == "filtered":
            finish = "content_filter"
        choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": finish}
        if body.get("logprobs") and self.trust is not None and message["content"] == text:
            choice["logprobs"] = {"content": _tokens(text, label, self.trust(question))}
        tokens_in = min(len(content), len(content) // 4 + 7)
        tokens_out = min(body.get("max_tokens") or body["max_completion_tokens"], len(text))
        address = f"{self.base_url}/chat/completions".encode()
        digest = sha256(address + b"\0" + content).hexdigest()
        self.bill.append(Charge(digest, kind, tokens_in, tokens_out, time.time()))
        usage = {"prompt_tokens": tokens_in, "completion_tokens": tokens_out,
                 "total_tokens": tokens_in + tokens_out}  # fmt: skip
        return {
            "id": f"chatcmpl-{len(self.bill)}", "object": "chat.completion",
            "created": int(time.time()), "model": body["model"],
            "choices": [] if kind == "no choices" else [choice],
            **({} if kind == "no usage" else {"usage": usage}),
        }  # fmt: skip

    def _text(self, label: Any, body: dict[str, Any]) -> str:
        if "response_format" in body:
            return json.dumps({"label": label}, ensure_ascii=False)
        return label if isinstance(label, str) else json.dumps(label)

    @contextmanager
    def running(self, port: int = 0) -> Iterator[ChatServer]:
        """Serve from a thread of its own."""
        loop = asyncio.new_event_loop()
        ready, done = threading.Event(), asyncio.Event()

        async def work() -> None:
            server = await asyncio.start_server(self.serve, "127.0.0.1", port, limit=2**24)
            self.port = server.sockets[0].getsockname()[1]
            ready.set()
            await done.wait()
            server.close()
            self._is_over = True
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        thread = threading.Thread(target=loop.run_until_complete, args=(work(),), daemon=True)
        thread.start()
        ready.wait(10)
        try:
            yield self
        finally:
            loop.call_soon_threadsafe(done.set)
            thread.join(10)
            loop.close()


def _tokens(text: str, label: Any, trust: float) -> list[dict[str, Any]]:
    """Split an answer into tokens: unlikely ones around the label, and two for the label itself."""
    own = label if isinstance(label, str) else json.dumps(label)
    before, _, after = text.partition(own)
    middle = max(1, len(own) // 2)
    parts = [(before, -9.0), (own[:middle], math.log(trust)), (own[middle:], 0.0), (after, -9.0)]
    return [
        {"token": part, "logprob": logprob, "bytes": list(part.encode()), "top_logprobs": []}
        for part, logprob in parts
        if part
    ]


def _hint(option: str) -> str:
    return "Use 'max_completion_tokens' instead." if option == "max_tokens" else ""


def _error(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "error", "param": None, "code": None}}


def _head(status: int, size: int, more: Mapping[str, str]) -> bytes:
    headers = {"Content-Type": "application/json", "Content-Length": str(size), **more}
    lines = [f"HTTP/1.1 {status} {_REASONS[status]}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _send(
    writer: asyncio.StreamWriter, status: int, content: Any, more: Mapping[str, str] | None = None
) -> None:
    written = content if isinstance(content, bytes) else json.dumps(content).encode()
    writer.write(_head(status, len(written), more or {}) + written)


def text_in(prompt: str, question: str) -> str:
    """Return the value of the only column of a prompt in a question."""
    before, _, rest = prompt.partition("{")
    return question[len(before) : len(question) - len(rest.partition("}")[2])]


def main() -> None:
    """Serve until the process is ended; the first line has the port."""
    parser = argparse.ArgumentParser(prog="python -m tests.chat.chat_server", description=__doc__)
    parser.add_argument("--answers", type=Path, required=True, help="JSON: text to label")
    parser.add_argument("--prompt", default="{text}", help="the prompt, with one column")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--share", type=float, default=0.0, help="of requests with a fault")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds that an answer takes")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    answers = json.loads(given.answers.read_text(encoding="utf-8"))
    server = ChatServer(
        lambda question: answers.get(text_in(given.prompt, question)),
        share=given.share, delay=given.delay, seed=given.seed,
    )  # fmt: skip
    with server.running(given.port):
        sys.stdout.write(f"{server.port}\n")
        sys.stdout.flush()
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    main()
