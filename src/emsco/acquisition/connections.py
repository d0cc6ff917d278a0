"""Connections to a service, each used by one request at a time and thrown away when that is ended.

httpx has a pool of its own, and its pool loses a place whenever a request is cancelled (httpcore
1.0, issue 1093 of its tracker): after as many timeouts as it has places, every later request would
wait for ever. So each connection is a client of its own, and those that are free stand in a list.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

from emsco.exceptions import require

MOST_BYTES = 2**24  # of an answer


class Response(NamedTuple):
    """The answer of a service."""

    status: int
    body: bytes


class Connections:
    """Connections to a service.

    Parameters
    ----------
    headers : mapping of str to str
        What every request carries.
    timeout : float
        The maximum number of seconds to wait for the next part of an answer.
    """

    def __init__(self, headers: Mapping[str, str], timeout: float) -> None:
        self._httpx = require("httpx", "live")
        self._headers, self._timeout = dict(headers), timeout
        self._verified = self._httpx.create_ssl_context()  # slow to make, so made once
        # The first takes long, because libraries are imported: not while others wait.
        self._free: list[Any] = [self._new()]
        self._ending: set[asyncio.Task[None]] = set()

    async def request(self, method: str, url: str, **options: Any) -> Response:
        """Make a request, and read its answer whole.

        Raises
        ------
        TimeoutError
            If the service does not answer in time.
        ConnectionError
            If there is no whole answer, or it is too large.
        """
        client = self._free.pop() if self._free else self._new()
        try:
            response = await client.send(client.build_request(method, url, **options), stream=True)
            body = bytearray()
            async for part in response.aiter_bytes():
                body += part
                if len(body) > MOST_BYTES:
                    raise ConnectionError(f"The answer is larger than {MOST_BYTES} bytes.")
        except BaseException as error:
            # What is still on its way must not reach the next request.
            self._end(client)
            if isinstance(error, self._httpx.TimeoutException):
                raise TimeoutError("The service does not answer.") from None
            if isinstance(error, self._httpx.HTTPError | self._httpx.InvalidURL):
                raise ConnectionError(f"The request failed: {type(error).__name__}.") from None
            raise
        self._free.append(client)
        return Response(response.status_code, bytes(body))

    def _new(self) -> Any:
        transport = self._httpx.AsyncHTTPTransport(
            verify=self._verified, trust_env=False, limits=self._httpx.Limits(max_connections=1)
        )
        return self._httpx.AsyncClient(
            headers=self._headers,
            timeout=self._timeout,
            transport=transport,
            follow_redirects=False,
            trust_env=False,
        )

    def _end(self, client: Any) -> None:
        """Close a connection, without waiting for it."""
        ending = asyncio.get_running_loop().create_task(client.aclose())
        self._ending.add(ending)  # the loop itself does not hold it
        ending.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """Close every connection."""
        while self._free:
            self._end(self._free.pop())
        await asyncio.gather(*self._ending, return_exceptions=True)
