"""Error responses as problem+json (RFC 9457).

A problem says what is wrong and what to do. It never contains a key, a value or a token.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pydantic_core import to_json

from emsco.exceptions import EmscoError

MEDIA_TYPE = "application/problem+json"
AGAIN = {"Retry-After": "1"}

TITLES = {
    400: "The request is malformed",
    401: "A token is required",
    403: "Proxied requests are not allowed",
    404: "Route not found",
    405: "Method not allowed",
    408: "Timed out while reading the body",
    409: "A request with this id is in progress",
    413: "The body is too large",
    415: "The body must be JSON",
    422: "The request is invalid",
    429: "Too many requests",
    500: "Internal error",
    503: "Service unavailable",
}


class RequestProblem(EmscoError):  # noqa: N818  # the term of RFC 9457
    """A request that cannot be answered."""

    def __init__(
        self, status: int, kind: str, detail: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status, self.kind, self.detail = status, kind, detail
        self.headers = dict(headers or {})

    @property
    def content(self) -> bytes:
        """The problem as JSON."""
        return _to_json(self.status, self.kind, self.detail)

    async def send(self, send: Any) -> None:
        """Send the problem as an ASGI response."""
        content = self.content
        headers = {"content-type": MEDIA_TYPE, "content-length": str(len(content)), **self.headers}
        coded = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": self.status, "headers": coded})
        await send({"type": "http.response.body", "body": content})


@lru_cache(maxsize=256)  # under load, requests must be refused quickly
def _to_json(status: int, kind: str, detail: str) -> bytes:
    title = TITLES.get(status, "Error")
    fields = {"type": f"urn:emsco:{kind}", "title": title, "status": status, "detail": detail}
    return to_json(fields)


# Problems with a fixed text, by kind.
_KNOWN: Mapping[str, tuple[int, str, Mapping[str, str]]] = {
    "queue-full": (429, "The request queue is full; retry in 1 s.", AGAIN),
    "draining": (503, "The service is shutting down; retry, and another one will answer.", AGAIN),
    "running": (409, "A request with this id is in progress; retry in 1 s.", AGAIN),
    "other-body": (422, "This id was used with a different body; use a new id.", {}),
    "state": (503, "The state store does not respond; retry in 1 s.", AGAIN),
    "late-state": (
        503,
        "The state store did not respond within the time that --deadline allows; retry in 1 s.",
        AGAIN,
    ),
    "unexpected": (500, "Internal error; see the server log.", {}),
    "token": (
        401,
        "Send the header `Authorization: Bearer TOKEN` with the token for this route.",
        {"WWW-Authenticate": 'Bearer realm="emsco"'},
    ),
    "host": (
        400,
        "Without tokens, the service answers only requests from this machine: connect to localhost "
        "or 127.0.0.1, or set the tokens.",
        {},
    ),
    "proxy": (
        403,
        "A proxy forwarded this request, and without tokens the service answers only requests from "
        "this machine: set EMSCO_TOKEN_DECIDE, EMSCO_TOKEN_FEEDBACK and EMSCO_TOKEN_METRICS.",
        {},
    ),
}


def problem(kind: str) -> RequestProblem:
    """Return a problem with a fixed text."""
    status, detail, headers = _KNOWN[kind]
    return RequestProblem(status, kind, detail, headers)
