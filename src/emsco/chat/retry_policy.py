"""When a call is repeated: after 429, 5xx and lost connections, each time later, a few times."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from math import isfinite

LONGEST_PAUSE = 300.0  # seconds that an endpoint may ask to wait; beyond, its quota is used up
_LONGEST = 30.0  # seconds between two attempts, if the endpoint says nothing


@dataclass(frozen=True)
class RetryPolicy:
    """How often a call is repeated, and how long to wait before.

    Parameters
    ----------
    retries : int
        How often at most.
    backoff : float
        The most seconds to wait before the first repetition; each next one may take twice as long.
    """

    retries: int
    backoff: float

    def pause(self, attempt: int, retry_after: float | None) -> float:
        """Return the seconds to wait after an attempt, numbered from 0.

        What the endpoint asks for is kept, with some seconds more at random, so that not all who
        wait come back together.
        """
        most: float = min(self.backoff * 2**attempt, _LONGEST)
        jitter = random.random() * most
        return jitter if retry_after is None else retry_after + min(jitter, self.backoff)


def read_retry_after(value: str | None) -> float | None:
    """Read the header Retry-After, in seconds or as a date; None if it says nothing.

    Examples
    --------
    >>> from emsco.chat.retry_policy import read_retry_after
    >>> read_retry_after("2"), read_retry_after("soon")
    (2.0, None)
    >>> read_retry_after("Wed, 21 Oct 2015 07:28:00 GMT")
    0.0
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            moment = parsedate_to_datetime(value)
        except (ValueError, TypeError, OverflowError):
            return None
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        seconds = moment.timestamp() - time.time()
    return max(0.0, seconds) if isfinite(seconds) else None
