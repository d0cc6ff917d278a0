"""A service for hostile rows, in a process of its own: it answers some of them as it should not."""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
from typing import Any
from urllib.parse import unquote

from tests.soak.live.child import Child, serve
from tests.soak.live.hostile_rows import (
    ABSENT,
    BOMB,
    BOOLEAN,
    DEEP,
    HTTP,
    HUGE,
    LEFT,
    LIST,
    REFUSED,
    TEXT,
    TWICE,
    Rows,
)
from tests.soak.live.ports import free_port

NESTED = "[" * 50_000 + "]" * 50_000
TOO_LARGE = 10**400


class HostileVendor(Child):
    """The service, as who asks it sees it.

    Parameters
    ----------
    n_rows : int
        How many rows it knows.
    """

    def __init__(self, n_rows: int) -> None:
        self.port = free_port()
        super().__init__("tests.soak.live.hostile_vendor", str(self.port), str(n_rows))


def document(rows: Rows, row: int, source: str) -> str | None:
    """Give the JSON that a source has for a row, spoiled as it is; None if it has none."""
    way, (key, _), value = rows.way(row, source), rows.name(row), rows.value(row, source)
    held: Any = {"id": key, source: value}
    match way:
        case _ if way == ABSENT:
            return None
        case _ if way == TWICE:
            return f'{{"id": "{key}", "{source}": {-value}, "{source}": {value}}}'
        case _ if way == DEEP:
            return f'{{"id": "{key}", "{source}": {value}, "more": {NESTED}}}'
        case _ if way == BOOLEAN:
            held[source] = True
        case _ if way == HUGE:
            held[source] = TOO_LARGE
        case _ if way == TEXT:
            held[source] = str(value)
        case _ if way == LIST:
            held = [held]
    return json.dumps(held)


class _Vendor:
    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._bomb = gzip.compress(gzip.compress(b" " * 50_000_000, 1), 1)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request after the other."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._answer(head.split(b" ", 2)[1].decode()))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def _answer(self, target: str) -> bytes:
        """Give an answer as bytes; a row that nobody has is not found."""
        *before, region, key = (unquote(part) for part in target.split("/"))
        row = self._rows.row_of.get((key, region))
        if before != ["", "v1"] or row is None:
            return _framed(b"{}", b"404 Not Found")
        way = self._rows.way(row, HTTP)
        if way == REFUSED:
            return _framed(b"{}", b"400 Bad Request" if row % 2 else b"422 Unprocessable")
        if way == BOMB:
            return _framed(self._bomb, more=b"Content-Encoding: gzip, gzip\r\n")
        told = document(self._rows, row, HTTP)
        if told is None:
            return _framed(b"{}", b"410 Gone")
        left = document(self._rows, self._rows.other(row), HTTP) if way == LEFT else None
        return _framed(told.encode()) + (_framed(left.encode()) if left else b"")


def _framed(body: bytes, status: bytes = b"200 OK", more: bytes = b"") -> bytes:
    return b"HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n%s" % (status, more, len(body), body)


async def _main(port: int, n_rows: int) -> None:
    vendor = _Vendor(Rows(n_rows))
    server = await asyncio.start_server(vendor.serve, "127.0.0.1", port, limit=2**20)
    async with server:
        await serve({})


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]), int(sys.argv[2])))
