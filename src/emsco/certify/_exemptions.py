"""What a user may allow, with a reason: what would otherwise end in a refusal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from emsco.exceptions import CertificateError, Keyword, Parameter, nearest

KNOWN_ROWS = "known rows"
REPEATED_ROWS = "repeated rows"
NEAR_COPIES = "near copies"
UNKNOWN_LABELS = "unknown labels"
NAMES = (KNOWN_ROWS, REPEATED_ROWS, NEAR_COPIES, UNKNOWN_LABELS)


def check_allow(allow: Mapping[str, str] | None) -> dict[str, str]:
    """Check the names and reasons given as `allow=`."""
    allowed: dict[str, str] = {}
    for name, why in _items(allow):
        if name not in NAMES:
            known = ", ".join(map(repr, NAMES))
            raise CertificateError(
                Parameter("allow")
                + f" names {name!r}; what can be allowed is {known}{nearest(name, NAMES)}",
                value=name,
            )
        if not isinstance(why, str) or not why.strip():
            raise CertificateError(
                Parameter("allow")
                + f" must say why {name} are right, as a text: "
                + Keyword("allow", {name: "why"})
                + f"; got {why!r}.",
                value=why,
            )
        allowed[name] = why.strip()
    return allowed


def _items(allow: Any) -> Any:
    if allow is None:
        return ()
    if not isinstance(allow, Mapping):
        raise CertificateError(
            Parameter("allow") + f" must map names to reasons, got {allow!r}.", value=allow
        )
    return allow.items()


def way_out(name: str) -> str:
    """Return the end of a refusal: how to allow it."""
    return " If this is right for your rows, say why: " + Keyword("allow", {name: "why"}) + "."


def sentence(found: str, why: str) -> str:
    """Return the sentence of a certificate about what was allowed."""
    return f"{found} This was allowed, because: {why.rstrip('.')}."
