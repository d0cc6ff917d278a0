"""What a client is told when a request cannot be answered: problem+json (RFC 9457).

A problem says what is wrong and what to do. It never repeats a key, a value or a token.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pydantic_core import to_json

from emsco.exceptions import EmscoError

MEDIA_TYPE = "application/problem+json"
AGAIN = {"Retry-After": "1"}

_TITLES = {
    400: "The request cannot be read",
    401: "A token is needed",
    403: "The request came through a proxy",
    404: "There is no such route",
    405: "The route does not take this method",
    408: "The body took too long",
    409: "The same id is being decided",
    413: "The body is too large",
    415: "The body must be JSON",
    422: "The request cannot be decided as it is",
    429: "Too many requests",
    500: "An unexpected error",
    503: "The service cannot answer now",
}


class RequestProblem(EmscoError):  # noqa: N818  # RFC 9457 calls it so
    """A request that is not answered as asked.

    Parameters
    ----------
    status : int
        The HTTP status.
    kind : str
        What is wrong, in short: the last part of `type`.
    detail : str
        What is wrong and what to do.
    headers : mapping of str to str, default=None
        Headers that belong to the status, such as Retry-After.

    Examples
    --------
    >>> from emsco.serve.problem_json import RequestProblem
    >>> problem = RequestProblem(413, "body-size", "Send at most 1000 bytes.")
    >>> problem.content.decode()
    '{"type":"urn:emsco:body-size","title":"The body is too large","status":413,"detail":"Send at most 1000 bytes."}'
    """  # noqa: E501  # the output of an example is one line

    def __init__(
        self, status: int, kind: str, detail: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status, self.kind, self.detail = status, kind, detail
        self.headers = dict(headers or {})

    @property
    def content(self) -> bytes:
        """The problem as JSON."""
        return _written(self.status, self.kind, self.detail)

    async def send(self, send: Any) -> None:
        """Answer by ASGI."""
        content = self.content
        headers = {"content-type": MEDIA_TYPE, "content-length": str(len(content)), **self.headers}
        coded = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": self.status, "headers": coded})
        await send({"type": "http.response.body", "body": content})


@lru_cache(maxsize=256)  # whoever is refused in a rush is refused quickly
def _written(status: int, kind: str, detail: str) -> bytes:
    title = _TITLES.get(status, "A problem")
    told = {"type": f"urn:emsco:{kind}", "title": title, "status": status, "detail": detail}
    return to_json(told)


# Problems whose words are always the same, by kind.
_KNOWN: Mapping[str, tuple[int, str, Mapping[str, str]]] = {
    "queue-full": (429, "As many requests wait as may wait; ask again after a second.", AGAIN),
    "draining": (503, "The service is ending; ask again, and another one will answer.", AGAIN),
    "running": (409, "A request with this id is being decided; ask again after a second.", AGAIN),
    "other-body": (422, "A request with this id had another body; give each its own id.", {}),
    "state": (503, "The state that keeps ids does not answer; ask again after a second.", AGAIN),
    "late-state": (
        503,
        "The state that keeps ids and counts money does not answer in the time that --deadline "
        "leaves; ask again after a second.",
        AGAIN,
    ),
    "unexpected": (500, "Something failed that nobody foresaw; the log says where.", {}),
    "token": (
        401,
        "Send the header `Authorization: Bearer TOKEN` with the token of this route.",
        {"WWW-Authenticate": 'Bearer realm="emsco"'},
    ),
    "host": (
        400,
        "Without tokens, only this machine is answered: ask for localhost or 127.0.0.1, or set "
        "the tokens.",
        {},
    ),
    "proxy": (
        403,
        "A proxy has passed this request on, and without tokens only this machine is answered: "
        "set the tokens EMSCO_TOKEN_DECIDE, EMSCO_TOKEN_FEEDBACK and EMSCO_TOKEN_METRICS.",
        {},
    ),
}


def problem(kind: str) -> RequestProblem:
    """Return a problem whose words are always the same.

    Examples
    --------
    >>> from emsco.serve.problem_json import problem
    >>> problem("queue-full").status
    429
    """
    status, detail, headers = _KNOWN[kind]
    return RequestProblem(status, kind, detail, headers)


def statuses() -> Mapping[int, str]:
    """Return the statuses of problems with their titles, for the OpenAPI description."""
    return dict(_TITLES)
