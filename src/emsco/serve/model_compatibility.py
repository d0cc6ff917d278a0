"""Checks that a new model keeps the labels and the certificate that clients rely on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from emsco.exceptions import ServiceError, quoted
from emsco.serve.settings import Settings


@dataclass(frozen=True)
class ModelTerms:
    """The properties of a model that clients rely on."""

    labels: tuple[Any, ...]
    is_certified: bool

    def check_after(
        self, before: ModelTerms, settings: Settings, *, who: str = "The new model"
    ) -> None:
        """Refuse different labels, and the loss of a certificate unless that is allowed."""
        if self.labels != before.labels:
            raise ServiceError(
                f"{who} has the labels {quoted(self.labels)}, but the model in use has "
                f"{quoted(before.labels)}, which clients rely on; restart the service to change "
                "them."
            )
        if before.is_certified and not self.is_certified and not settings.allow_uncertified:
            raise ServiceError(
                f"{who} has no certificate, but the model in use has one: certify it with `emsco "
                "certify`, or start the service with --allow-uncertified."
            )
