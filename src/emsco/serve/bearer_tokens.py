"""Bearer tokens, from the environment: who may ask for decisions, send labels, or read metrics."""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address

from emsco.exceptions import ServiceError
from emsco.serve.problem_json import problem

DECIDE, FEEDBACK, METRICS = "decide", "feedback", "metrics"
VARIABLES = {use: f"EMSCO_TOKEN_{use.upper()}" for use in (DECIDE, FEEDBACK, METRICS)}
_FORWARDED = frozenset({b"forwarded", b"x-real-ip", b"via"})
_LEAST = 16  # letters: shorter ones can be guessed


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a host name or address.

    Examples
    --------
    >>> from emsco.serve.bearer_tokens import is_loopback
    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.com")]
    [True, True, True, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_forwarded(names: Iterable[bytes]) -> bool:
    """Return whether the names of headers, in small letters, say that a proxy passed a request on.

    Examples
    --------
    >>> from emsco.serve.bearer_tokens import is_forwarded
    >>> is_forwarded([b"host", b"x-forwarded-for"]), is_forwarded([b"host", b"accept"])
    (True, False)
    """
    return any(name in _FORWARDED or name.startswith(b"x-forwarded-") for name in names)


@dataclass(frozen=True, repr=False)
class Tokens:
    """The tokens, by use; a use without one is open to everybody.

    Parameters
    ----------
    given : mapping of str to str
        The tokens of "decide", "feedback" and "metrics".

    Examples
    --------
    >>> from emsco.serve.bearer_tokens import Tokens
    >>> tokens = Tokens({"decide": "correct horse battery"})
    >>> tokens.check("decide", b"Bearer correct horse battery")
    >>> tokens.check("feedback", None)
    >>> tokens.check("decide", b"Bearer wrong horse")
    Traceback (most recent call last):
    emsco.serve.problem_json.Problem: Send the header `Authorization: Bearer TOKEN` with the
    token of this route.
    """

    given: Mapping[str, str]

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Tokens:
        """Read the tokens that are set, and refuse those that are too short."""
        environment = os.environ if environment is None else environment
        given = {use: environment[name] for use, name in VARIABLES.items() if environment.get(name)}
        for use, token in given.items():
            if len(token) < _LEAST or not token.isascii() or not token.isprintable():
                raise ServiceError(
                    f"The token in {VARIABLES[use]} must have at least {_LEAST} characters, all of "
                    "them printable ASCII; `openssl rand -hex 32` makes one."
                )
        return cls(given)

    def __repr__(self) -> str:
        return f"Tokens({', '.join(self.given)})"

    def check_host(self, host: str) -> None:
        """Refuse to be reached from other machines while a token is missing."""
        lacking = [name for use, name in VARIABLES.items() if use not in self.given]
        if lacking and not is_loopback(host):
            raise ServiceError(
                f"The host {host} can be reached from other machines, so every use needs a token: "
                f"set the environment variables {', '.join(lacking)}, or leave out --host."
            )

    def check(self, use: str, authorization: bytes | None) -> None:
        """Raise a problem unless a request has the token of a use, compared in constant time."""
        token = self.given.get(use)
        if token is None:
            return
        scheme, _, sent = (authorization or b"").partition(b" ")
        if scheme.lower() != b"bearer" or not hmac.compare_digest(sent.strip(), token.encode()):
            raise problem("token")
