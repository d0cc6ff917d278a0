"""Clients that ask over one connection each, as quickly as Python can, and see every failure."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any, Self

_END = b"\r\n\r\n"


class Broken(Exception):  # noqa: N818  # nobody's error: the service was killed
    """The connection has ended before the answer, or was refused."""


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """Read the body."""
        return json.loads(self.body)


async def read_answer(reader: asyncio.StreamReader) -> Answer:
    """Read an answer."""
    head = (await reader.readuntil(_END)).decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in head[1:] if line)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Answer(int(head[0].split(" ", 2)[1]), headers, body)


class Client:
    """One connection, which is opened anew when it is broken.

    Parameters
    ----------
    port : int
        The port of the service on this machine.
    token : str, default=None
        The token that is sent. None: none is.
    """

    def __init__(self, port: int, token: str | None = None) -> None:
        self.port, self._token = port, token
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def decide(self, body: dict[str, Any]) -> Answer:
        """Ask for a decision."""
        return await self.ask("POST", "/v1/decide", body)

    async def ask(self, method: str, path: str, body: Any = None) -> Answer:
        """Ask, and wait for the answer."""
        content = b"" if body is None else json.dumps(body).encode()
        head = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(content)}"]
        if body is not None:
            head.append("Content-Type: application/json")
        if self._token is not None:
            head.append(f"Authorization: Bearer {self._token}")
        return await self.send("\r\n".join(head).encode() + _END + content)

    async def send(self, request: bytes) -> Answer:
        """Send bytes, and wait for the answer."""
        try:
            if self._writer is None:
                self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self.port)
            assert self._reader is not None  # both are opened together
            self._writer.write(request)
            answer = await read_answer(self._reader)
        except (OSError, EOFError, asyncio.LimitOverrunError) as error:
            self.close()
            raise Broken(type(error).__name__) from None
        if answer.headers.get("connection") == "close":
            self.close()
        return answer

    def close(self) -> None:
        """Close the connection."""
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
