"""A body is refused for its first mistake: many mistakes must not delay other requests."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

from emsco.serve.problem_json import RequestProblem
from emsco.serve.request_bodies import BodyParser, DecideBody, FeedbackBody

MANY = range(60_000)
BODIES = {
    "keys": (DecideBody, b'{"keys": [' + b"[]," * 300_000 + b"[]]}"),
    "empty keys": (DecideBody, b'{"keys": [' + b'"",' * 300_000 + b'""]}'),
    "a value": (DecideBody, b'{"key": "a", "known": {"x": [' + b"{}," * 300_000 + b"1]}}"),
    "values": (
        DecideBody,
        b'{"key": "a", "known": {' + b",".join(b'"%d":{}' % n for n in MANY) + b"}}",
    ),
    "fields": (DecideBody, b"{" + b",".join(b'"%d":1' % n for n in MANY) + b"}"),
    "labels": (FeedbackBody, b'{"labels": [' + b'{"id":"","label":[]},' * 45_000 + b"{}]}"),
}
VALID = b'{"keys": [' + b'"a",' * 249_000 + b'"a"]}'


def taken(read, content):
    """Time reading or refusing a body: the best of three."""
    best = float("inf")
    for _ in range(3):
        begin = time.process_time()
        with suppress(RequestProblem):
            read(content)
        best = min(best, time.process_time() - begin)
    return best


@pytest.mark.parametrize("name", BODIES)
def test_many_mistakes_take_about_as_long_as_none(name):
    """Listing all of them takes a hundred times as long as reading a body of the same size."""
    kind, content = BODIES[name]
    with pytest.raises(RequestProblem) as refused:
        BodyParser(kind)(content)
    assert refused.value.status == 422
    assert taken(BodyParser(kind), content) < 12 * taken(BodyParser(DecideBody), VALID)


def test_a_large_body_is_told_its_first_mistake():
    reasons = {}
    for name, (kind, content) in BODIES.items():
        with pytest.raises(RequestProblem) as refused:
            BodyParser(kind)(content)
        reasons[name] = refused.value.detail
    assert reasons["keys"].startswith("`keys`, item 0: must be a list of non-empty texts")
    assert reasons["a value"].startswith("`known`: must be an object")
    assert reasons["values"] == reasons["a value"]
    assert reasons["fields"].startswith("The body has an unknown field; the fields are `key`")
    assert reasons["labels"].startswith("`labels`, item 0: must be a list of")


def test_many_mistakes_in_a_small_body_are_counted_and_not_listed():
    content = b'{"key": "a", "known": {' + b",".join(b'"%d":{}' % n for n in range(2000)) + b"}}"
    with pytest.raises(RequestProblem, match="more than 1,000 mistakes"):
        BodyParser(DecideBody)(content)


def test_a_large_body_without_a_mistake_is_read():
    known = {f"x{n}": [float(n)] * 10 for n in range(2000)}
    content = DecideBody(keys=[str(n) for n in range(10)], known=known).model_dump_json(
        include={"keys", "known"}
    )
    assert len(content) > 65_536
    assert BodyParser(DecideBody)(content.encode()).known == known
