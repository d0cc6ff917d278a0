"""What one model must have in common with the next: what clients count on must not be lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from emsco.exceptions import ServiceError, quoted
from emsco.serve.settings import Settings


@dataclass(frozen=True)
class ModelTerms:
    """What clients count on.

    Parameters
    ----------
    labels : tuple
        The labels that answers have.
    is_certified : bool
        Whether a certificate promises something about them.

    Examples
    --------
    >>> from emsco.serve.settings import Settings
    >>> from emsco.serve.model_compatibility import ModelTerms
    >>> before = ModelTerms(("fraud", "good"), is_certified=False)
    >>> ModelTerms(("bad", "good"), is_certified=True).check_after(before, Settings())
    Traceback (most recent call last):
    emsco.exceptions.ServiceError: The new model has the labels 'bad', 'good', and the model in use
    'fraud', 'good': clients know only the latter. Restart the service to use it.
    """

    labels: tuple[Any, ...]
    is_certified: bool

    def check_after(
        self, before: ModelTerms, settings: Settings, *, who: str = "The new model"
    ) -> None:
        """Refuse other labels, and the loss of a certificate unless that is allowed.

        Raises
        ------
        ServiceError
            If clients could not count on what they did before.
        """
        if self.labels != before.labels:
            raise ServiceError(
                f"{who} has the labels {quoted(self.labels)}, and the model in use "
                f"{quoted(before.labels)}: clients know only the latter. Restart the service to "
                "use it."
            )
        if before.is_certified and not self.is_certified and not settings.allow_uncertified:
            raise ServiceError(
                f"{who} has no certificate, and the model in use has one: certify it with `emsco "
                "certify`, or start the service with --allow-uncertified."
            )
