"""A certificate that an earlier emsco kept in a file: it can be read, but not checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from emsco.exceptions import CertificateError

_CANNOT_BE_CHECKED = (
    "This certificate is of an earlier format and cannot be checked: nothing tells whether it is "
    "about this cascade, so certify the cascade anew, on rows not used yet."
)


@dataclass(frozen=True)
class OlderCertificate:
    """A certificate out of a file of format 1: its promise can be read, but not checked.

    Such a file named its cascade by a fingerprint of another kind, partly of pickled objects.

    Parameters
    ----------
    content : mapping
        What the file kept: the sentence, and whatever stood beside it.

    Examples
    --------
    >>> from emsco.certify import OlderCertificate
    >>> print(OlderCertificate({"sentence": "All is well."}).sentence)
    All is well. This certificate is of an earlier format and cannot be checked: nothing tells
    whether it is about this cascade, so certify the cascade anew, on rows not used yet.
    """

    content: Mapping[str, Any]

    @property
    def sentence(self) -> str:
        """The promise as it was written, and that it cannot be checked."""
        return f"{self.content.get('sentence', '')} {_CANNOT_BE_CHECKED}".lstrip()

    def holds_for(self, model: object) -> bool:  # noqa: ARG002
        """Say no: it cannot be told."""
        return False

    def check(self, model: object) -> NoReturn:  # noqa: ARG002
        """Raise: it cannot be told."""
        raise CertificateError(_CANNOT_BE_CHECKED)
