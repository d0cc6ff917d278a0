"""The same batch processed by spot checks (`emsco.batch`), also with held-out rows of the log.

The cheap model is the one that BARGAIN is given. With held-out rows it is fitted on the others.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco import Costs
from emsco.batch.answers_store import MemoryStore
from emsco.batch.ask import Wish
from emsco.batch.cheap_answers import CheapAnswers
from emsco.batch.log_rows import Log
from emsco.batch.row_marks import RowMarks
from emsco.batch.task import WalkTask
from experiments.text.messages import Division
from experiments.text.ours import Outcome

HELD_OUT = 500


def process(
    cheap: CheapAnswers,
    answers: NDArray[np.int64],
    costs: Costs,
    target: float,
    confidence: float,
    seed: object,
    log: Log | None = None,
) -> Outcome:
    """Process a batch; the seed draws the coins."""
    secret = hashlib.sha256(repr(seed).encode()).digest()
    store = MemoryStore(secret)
    wish = Wish.of(target, confidence, None, None, 1)
    known: list[Any] = [None] * len(cheap)
    task = WalkTask(wish, cheap, store, known, log)
    task.open(RowMarks())
    while (due := task.due()) is not None:
        store.record([(row, int(answers[row])) for row in due.rows.tolist()])
    found = task.result()
    changed = int(np.sum(np.array(found.labels) != answers))
    first, last = costs.names
    paid = costs.of([first]) + costs.of([last], paid=[first]) * found.n_calls / len(cheap)
    return Outcome(found.calls["checks"], found.n_calls, changed, changed, paid)


def answers_of(probabilities: NDArray[np.float64]) -> CheapAnswers:
    """Return the cheap model's labels, and how sure it is."""
    labels = probabilities.argmax(axis=1).tolist()
    return CheapAnswers(labels, probabilities.max(axis=1))


def hold_out(division: Division, draw: int) -> Division:
    """Move rows of the log behind the batch, drawn at random."""
    drawn = np.random.default_rng(draw).permutation(division.log)
    return Division(drawn[HELD_OUT:], np.append(division.batch, drawn[:HELD_OUT]))
