"""One address that is asked over HTTP: the key, a call with a limit on its time, and what came."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from emsco.chat.chat_protocol import PATH, error_text, read_document
from emsco.chat.retry_policy import read_retry_after
from emsco.exceptions import EndpointError, ModelError, require

_MOST_BYTES = 4_000_000  # of an answer
_MOST_TEXT = 300  # characters of what an endpoint says about an error
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class EndpointAnswer(NamedTuple):
    """What came over HTTP: the status, the JSON if it was any, and how long to wait if it says."""

    status: int
    document: Any
    retry_after: float | None
    error: str  # what it says about an error, without the key


class NotSentError(ConnectionError):
    """There was no connection, so nothing was sent and nothing is charged."""


class LostAnswerError(ConnectionError):
    """A request was sent, and its answer did not come whole or in time."""


@dataclass(frozen=True)
class Endpoint:
    """Where a model is asked.

    Parameters
    ----------
    base_url : str
        The address before "/chat/completions".
    api_key_env : str or None
        The environment variable with the key; None: there is no key.
    timeout : float
        The most seconds that a call may take in all.
    """

    base_url: str
    api_key_env: str | None
    timeout: float

    def __post_init__(self) -> None:
        try:
            address = urlsplit(self.base_url)
            _ = address.port
        except (ValueError, AttributeError, TypeError):
            raise ModelError(
                "`base_url` must be a URL, such as http://127.0.0.1:8000/v1."
            ) from None
        if address.scheme not in ("http", "https") or not address.hostname:
            raise ModelError("`base_url` must start with https:// or http:// and have a host.")
        if address.username or address.password or address.query or address.fragment:
            raise ModelError(
                "`base_url` must have no user, password or query, because it is written to files. "
                "The key belongs into the environment variable that `api_key_env` names."
            )
        if self.base_url != self.base_url.strip() or not self.base_url.isprintable():
            raise ModelError("`base_url` must have no spaces or line breaks around it.")
        name = self.api_key_env
        if name is not None and (not isinstance(name, str) or not _VARIABLE.fullmatch(name)):
            # Not shown: it may be the key itself.
            raise ModelError(
                "`api_key_env` must be the name of an environment variable, not the key itself."
            )

    @property
    def url(self) -> str:
        """Where questions are sent."""
        return self.base_url.rstrip("/") + PATH

    def key(self) -> str | None:
        """Read the key from the environment; it is kept nowhere else."""
        if self.api_key_env is None:
            return None
        key = os.environ.get(self.api_key_env)
        if not key:
            raise EndpointError(
                f"The environment variable {self.api_key_env} is not set; put the key of "
                f"{self.base_url} into it, or give another name as `api_key_env`, or None if no "
                "key is needed."
            )
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise EndpointError(
                f"The environment variable {self.api_key_env} holds no key that can be sent: it "
                "has a space, a line break or another character that keys do not have."
            )
        return key

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[EndpointConnection]:
        """Open connections, which are closed at the end."""
        httpx = require("httpx", "llm")
        key = self.key()
        headers = {"content-type": "application/json", "accept": "application/json"}
        if key is not None:
            headers["authorization"] = f"Bearer {key}"
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        async with httpx.AsyncClient(
            headers=headers, timeout=self.timeout, limits=limits, follow_redirects=False
        ) as client:
            yield EndpointConnection(self, client, key)


class EndpointConnection:
    """Open connections to an endpoint."""

    def __init__(self, endpoint: Endpoint, client: Any, key: str | None) -> None:
        self._endpoint, self._client, self._key = endpoint, client, key
        self._httpx = require("httpx", "llm")

    async def post(self, body: bytes) -> EndpointAnswer:
        """Send a question; raise NotSentError or LostAnswerError if no answer comes."""
        httpx = self._httpx
        try:
            async with (
                asyncio.timeout(self._endpoint.timeout),  # in all: an answer may come drop by drop
                self._client.stream("POST", self._endpoint.url, content=body) as response,
            ):
                content = b""
                async for part in response.aiter_bytes():
                    content += part
                    if len(content) > _MOST_BYTES:
                        raise LostAnswerError(f"it answered with more than {_MOST_BYTES:,} bytes")
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise NotSentError(f"it cannot be reached ({type(error).__name__})") from error
        except TimeoutError as error:
            raise LostAnswerError("it did not answer in time") from error
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise LostAnswerError(f"the connection was lost ({type(error).__name__})") from error
        document = read_document(content)
        is_fine = 200 <= response.status_code < 300
        return EndpointAnswer(
            response.status_code,
            document,
            read_retry_after(response.headers.get("retry-after")),
            "" if is_fine else self._without_key(error_text(document)),
        )

    def _without_key(self, text: str) -> str:
        if self._key is not None:
            text = text.replace(self._key, "***")
        text = "".join(c if c.isprintable() else " " for c in text)
        return text[:_MOST_TEXT]
