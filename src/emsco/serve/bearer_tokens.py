"""Bearer tokens, read from the environment: for decisions, for labels and for metrics."""

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
_MIN_LENGTH = 16  # characters: shorter tokens can be guessed


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is reachable from this machine only."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_forwarded(names: Iterable[bytes]) -> bool:
    """Return whether lower-case header names show that a proxy forwarded the request."""
    return any(name in _FORWARDED or name.startswith(b"x-forwarded-") for name in names)


@dataclass(frozen=True, repr=False)
class Tokens:
    """Bearer tokens by use; a use without a token is open to everyone."""

    by_use: Mapping[str, str]  # tokens for "decide", "feedback" and "metrics"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Tokens:
        """Read the tokens that are set and reject those that are too short."""
        environment = os.environ if environment is None else environment
        tokens = {
            use: environment[name] for use, name in VARIABLES.items() if environment.get(name)
        }
        for use, token in tokens.items():
            if len(token) < _MIN_LENGTH or not token.isascii() or not token.isprintable():
                raise ServiceError(
                    f"The token in {VARIABLES[use]} must have at least {_MIN_LENGTH} characters, "
                    "all printable ASCII; `openssl rand -hex 32` generates one."
                )
        return cls(tokens)

    def __repr__(self) -> str:
        return f"Tokens({', '.join(self.by_use)})"

    def check_host(self, host: str) -> None:
        """Refuse a host that other machines can reach while a token is missing."""
        missing = [name for use, name in VARIABLES.items() if use not in self.by_use]
        if missing and not is_loopback(host):
            raise ServiceError(
                f"The host {host} is reachable from other machines, so every use needs a token: "
                f"set the environment variables {', '.join(missing)}, or omit --host."
            )

    def check(self, use: str, authorization: bytes | None) -> None:
        """Raise a problem unless the request has the token for a use (constant-time comparison)."""
        token = self.by_use.get(use)
        if token is None:
            return
        scheme, _, sent = (authorization or b"").partition(b" ")
        if scheme.lower() != b"bearer" or not hmac.compare_digest(sent.strip(), token.encode()):
            raise problem("token")
