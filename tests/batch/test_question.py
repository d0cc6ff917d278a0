"""The walk as a machine, against a slow and obvious one."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from emsco.batch.promises import NEVER, NO_LABEL, Promise
from emsco.batch.question import CHECKS, MORE, REST, HeldOutRows, Question, no_answers
from emsco.batch.spot_checks import Terms

YES = 1


@st.composite
def questions(draw):
    """Draw a question and the truth of all its rows."""
    n_rows = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    cheap = rng.integers(-1, 3, n_rows).astype(np.int32)
    known = rng.random(n_rows) < draw(st.sampled_from([0, 0.2]))
    order = rng.permutation(np.flatnonzero(~known & (cheap != NO_LABEL)))
    kinds = draw(st.lists(st.sampled_from(["agreement", "missed", "false"]), min_size=1,
                          max_size=3, unique=True))  # fmt: skip
    promises = tuple(
        Promise(kind, NO_LABEL if kind == "agreement" else YES,
                Fraction(draw(st.integers(1, 5)), 10), draw(st.integers(1, 5)), 0.1)
        for kind in kinds
    )  # fmt: skip
    terms = Terms(draw(st.sampled_from([0.0, 0.2, 0.6, 1.0])),
                  tuple(draw(st.integers(0, 3)) for _ in kinds), 0.0, 0.0)  # fmt: skip
    held = None
    if n_held := draw(st.sampled_from([0, 0, 5])):
        held = HeldOutRows(
            rng.integers(0, 3, n_held).astype(np.int32),
            rng.integers(-1, 3, n_held).astype(np.int32),
            np.sort(rng.integers(0, len(order) + 1, n_held)),
        )
    labels = ("no", "yes", "perhaps")
    secret = rng.bytes(32)
    question = Question(labels, cheap, order, known, promises, terms, secret, held)
    return question, rng.choice([-1, 0, 1, 2], n_rows, p=[0.1, 0.5, 0.2, 0.2]).astype(np.int32)


def begun(question, truth):
    """Return final answers before anything was sent: those that were known."""
    final = no_answers(question)
    final[question.known] = truth[question.known]
    return final


def disagrees(promise, cheap, final):
    """Say in words of one row whether it disagrees."""
    if final == NO_LABEL:
        return True
    if promise.kind == "agreement":
        return cheap != final
    if promise.kind == "missed":
        return final == YES and cheap != YES
    return cheap == YES and final != YES


def slow_stop(question, truth):
    """Walk down the order row by row, for each promise; the earliest stop counts."""
    stops = []
    for promise, tolerated in zip(question.promises, question.terms.tolerated, strict=True):
        seen, stop = 0, len(question.order)
        for rank, row in enumerate([*question.order, None]):
            if question.held_out is not None:
                held = question.held_out
                here = held.above == rank
                pairs = zip(held.cheap[here], held.final[here], strict=True)
                seen += sum(disagrees(promise, *pair) for pair in pairs)
                if seen > tolerated:
                    stop = rank
                    break
            if row is None:
                break
            seen += question.checked[rank] and disagrees(promise, question.cheap[row], truth[row])
            if seen > tolerated:
                stop = rank
                break
        stops.append(stop)
    return min(stops)


@given(questions())
def test_the_walk_is_the_obvious_one(case):
    question, truth = case
    assert question.stop(truth) == slow_stop(question, truth)


@given(questions())
def test_rows_are_sent_once_in_rounds_and_all_that_must_be_are(case):
    question, truth = case
    final, sent, names = begun(question, truth), set(), []
    while (due := question.due(final)) is not None:
        rows = due.rows.tolist()
        assert rows
        assert not sent & set(rows)
        assert not question.known[due.rows].any()
        sent |= set(rows)
        names.append(due.name)
        final[due.rows] = truth[due.rows]
    further = [each.name for each in question.further(final)]
    assert names == [name for name in (CHECKS, REST) if name in names] + further
    assert len(set(names)) == len(names)
    kept = set(np.flatnonzero(final == NEVER).tolist())
    above = set(question.order[: slow_stop(question, truth)].tolist())
    assert kept <= above - set(question.checks.tolist())
    if MORE not in names:
        assert kept == above - set(question.checks.tolist())
    assert all(standing.holds for standing in question.standings(final))


@given(questions(), st.integers(0, 2**32))
def test_answers_in_any_order_and_parts_end_in_the_same(case, seed):
    """As when a process is killed at any point: only what has come counts."""
    question, truth = case
    rng = np.random.default_rng(seed)
    whole, parts = begun(question, truth), begun(question, truth)
    while (due := question.due(whole)) is not None:
        whole[due.rows] = truth[due.rows]
    while (due := question.due(parts)) is not None:
        some = rng.permutation(due.rows)[: rng.integers(1, len(due.rows) + 1)]
        parts[some] = truth[some]
    assert (whole == parts).all()
    assert [each.name for each in question.further(parts)] == [
        each.name for each in question.further(whole)
    ]


@given(questions())
def test_the_digest_holds_all_that_decides(case):
    question, _ = case
    other = [
        replace(question, labels=(*question.labels, "more")),
        replace(question, cheap=(question.cheap + 1).astype(np.int32)),
        replace(question, known=~question.known),
        replace(question, promises=(*question.promises, question.promises[0])),
        replace(question, terms=question.terms.__class__(0.35, question.terms.tolerated, 0, 0)),
        replace(question, terms=question.terms.__class__(
            question.terms.rate, tuple(c + 1 for c in question.terms.tolerated), 0, 0)),
    ]  # fmt: skip
    if len(question.order) > 1:
        other.append(replace(question, order=question.order[::-1]))
    assert len({question.digest, *(each.digest for each in other)}) == len(other) + 1
