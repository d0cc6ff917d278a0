"""The draws: divide the messages, fit cheap stages, process the batch by each method."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from emsco.batch.log_rows import Log
from experiments import results
from experiments.text import beside, cheap, dear, kept, messages, ours, prices, tables, walk
from tests.soak.live.bars import tell

NAME = "text"
COMMAND = "python -m experiments text"
KEYS = ("draw", "target", "confidence")
DRAWS = 200
TARGETS = (0.95, 0.98, 0.99)
CONFIDENCES = (0.9, 0.99)  # BARGAIN's default, and emsco's

# Of the messages with kept embeddings.
_SMALL_DRAWS = 10
_SMALL_BATCH = 160
_SMALL_TARGETS = (0.8, 0.9)


class Task(NamedTuple):
    """A log and a batch with their columns, the transformer's log-odds included."""

    log: pd.DataFrame
    batch: pd.DataFrame


def measure(*, walks_alone: bool = False) -> None:
    """Measure every draw, and keep it as soon as it is there; `walks_alone`: only spot checks."""
    texts, _, _ = messages.load()
    scores, others = kept.load().scores, messages.others(len(texts))
    has_bargain = find_spec("BARGAIN") is not None and not walks_alone
    if not has_bargain:
        print("BARGAIN's figures are those kept.")
        kept_rows = {tuple(row[key] for key in KEYS): row for row in results.load(NAME)}
    for draw in range(DRAWS):
        begin = time.perf_counter()
        division = messages.divide(others, draw)
        task = make_task(texts, scores, division)
        held_out = make_task(texts, scores, walk.hold_out(division, draw))
        asked = (TARGETS, CONFIDENCES)
        rows = list(measure_walks(task, held_out, draw, *asked))
        if not walks_alone:
            others_rows = measure_task(task, draw, *asked, with_bargain=has_bargain)
            rows = [other | row for other, row in zip(others_rows, rows, strict=True)]
        if not has_bargain:
            rows = [kept_rows[tuple(row[key] for key in KEYS)] | row for row in rows]
        results.save(NAME, COMMAND, rows, range(DRAWS))
        tell("draw", draw=draw, seconds=round(time.perf_counter() - begin, 1))
    tables.check(results.load(NAME))


def make_task(
    texts: NDArray[np.object_], scores: NDArray[np.float32], division: messages.Division
) -> Task:
    """Make the columns of a division."""
    made = cheap.columns(texts, dear.answers(scores), division)
    wide = scores.astype(np.float64)
    return Task(
        made.log.assign(embedding=wide[division.log]),
        made.batch.assign(embedding=wide[division.batch]),
    )


def measure_task(
    task: Task,
    draw: int,
    targets: Sequence[float],
    confidences: Sequence[float],
    *,
    with_bargain: bool,
) -> Iterable[results.Row]:
    """Process one batch by every method, for each target and confidence."""
    two = prices.in_two_stages()
    cascade = ours.search(task.log, prices.in_three_stages())
    same = ours.search(task.log, two)
    probabilities = beside.cheap_model(task.log, two).predict_proba(task.batch)
    answers = dear.Dear().predict(task.batch)
    for target, confidence in product(targets, confidences):
        asked = (task.batch, target, confidence)
        found = {
            "cascade": ours.process(cascade, *asked),
            "same": ours.process(same, *asked),
        }
        if with_bargain:
            found["bargain"] = beside.process(
                probabilities, answers, two, target, confidence, seed=draw
            )
        row: results.Row = {"draw": draw, "target": target, "confidence": confidence}
        for method, outcome in found.items():
            row |= {f"{method}_{name}": value for name, value in outcome._asdict().items()}
            row[f"{method}_ms"] = round(outcome.ms, 4)
        yield row


def measure_walks(
    task: Task,
    held_out: Task,
    draw: int,
    targets: Sequence[float],
    confidences: Sequence[float],
) -> Iterable[results.Row]:
    """Process one batch by spot checks: without a log, and with held-out rows of it."""
    two, n_rows = prices.in_two_stages(), len(task.batch)
    alone = walk.answers_of(beside.cheap_model(task.log, two).predict_proba(task.batch))
    every = walk.answers_of(beside.cheap_model(held_out.log, two).predict_proba(held_out.batch))
    cheap, held = every.take(np.arange(n_rows)), every.take(np.arange(n_rows, len(every)))
    answers = dear.Dear().predict(held_out.batch)
    log = Log(held, answers[n_rows:].tolist(), ())
    for target, confidence in product(targets, confidences):
        asked = (answers[:n_rows], two, target, confidence, (draw, target, confidence))
        row: results.Row = {"draw": draw, "target": target, "confidence": confidence}
        for method, outcome in (
            ("walk", walk.process(alone, *asked)),
            ("logged", walk.process(cheap, *asked, log)),
        ):
            row |= {f"{method}_{name}": value for name, value in outcome._asdict().items()}
            row[f"{method}_ms"] = round(outcome.ms, 4)
        yield row


def run_small() -> str:
    """Run the whole chain on messages whose embeddings are kept; nothing is written."""
    texts, _, _ = messages.load()
    found = kept.load()
    scores = np.zeros(len(texts), dtype=np.float32)
    scores[found.embedded] = dear.score(found.embeddings, found.weights)
    differ = dear.answers(scores) != dear.answers(found.scores)
    if differ[found.embedded].any():
        raise SystemExit("Kept embeddings and kept answers of the transformer differ.")
    rows: list[results.Row] = []
    for draw in range(_SMALL_DRAWS):
        division = messages.divide(found.embedded.astype(np.intp), draw, _SMALL_BATCH)
        task = make_task(texts, scores, division)
        rows += measure_task(task, draw, _SMALL_TARGETS, CONFIDENCES[:1], with_bargain=False)
        tell("draw", draw=draw)
    tables.check(rows, _SMALL_BATCH)
    return tables.table(rows, _SMALL_BATCH)
