"""Repeated calls: what the endpoint asks for is kept, and the time between grows within bounds."""

from __future__ import annotations

import time
from email.utils import formatdate

import pytest

from emsco.chat.retry_policy import RetryPolicy, read_retry_after


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("2", 2.0), ("0.5", 0.5), ("0", 0.0), ("-3", 0.0), ("nan", None), ("inf", None), ("", None),
     ("soon", None), (None, None), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
     ("Wed, 99 Oct 2015 07:28:00 GMT", None)],
)  # fmt: skip
def test_retry_after_is_read(value, seconds):
    assert read_retry_after(value) == seconds


def test_retry_after_may_be_a_date():
    found = read_retry_after(formatdate(time.time() + 20, usegmt=True))
    assert 17 <= found <= 20


def test_pauses_grow_and_end():
    policy = RetryPolicy(20, 0.5)
    for attempt in range(20):
        pauses = [policy.pause(attempt, None) for _ in range(200)]
        assert min(pauses) >= 0
        assert max(pauses) <= min(30, 0.5 * 2**attempt)
        assert max(pauses) > min(30, 0.5 * 2**attempt) / 2
    assert all(7 <= policy.pause(9, 7.0) <= 7.5 for _ in range(50))
