"""A certificate that an earlier emsco kept in a file: it can be read, but not checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from emsco.exceptions import CertificateError

_CANNOT_BE_CHECKED = (
    "This certificate is of an earlier format and cannot be checked: it does not show whether it "
    "is about this cascade, so certify the cascade again, on rows that were not used yet."
)


@dataclass(frozen=True)
class OlderCertificate:
    """A certificate from a file of format 1: its promise can be read, but not checked.

    Such a file identifies its cascade by another kind of fingerprint, made in part from pickled
    objects.

    Parameters
    ----------
    content : mapping
        The content of the file: the sentence and any other entries.

    Examples
    --------
    >>> from emsco.certify import OlderCertificate
    >>> print(OlderCertificate({"sentence": "All is well."}).sentence)
    All is well. This certificate is of an earlier format and cannot be checked: it does not show
    whether it is about this cascade, so certify the cascade again, on rows that were not used yet.
    """

    content: Mapping[str, Any]

    @property
    def sentence(self) -> str:
        """The promise as it was written, with a note that it cannot be checked."""
        return f"{self.content.get('sentence', '')} {_CANNOT_BE_CHECKED}".lstrip()

    def holds_for(self, model: object) -> bool:  # noqa: ARG002
        """Return False, because it cannot be checked."""
        return False

    def check(self, model: object) -> NoReturn:  # noqa: ARG002
        """Raise an error, because it cannot be checked."""
        raise CertificateError(_CANNOT_BE_CHECKED)
