"""A batch processed by emsco: plan how many rows to certify on, certify, decide the rest.

The dear model is asked about the calibration rows, and its answers are given for them. If a cascade
is certified, the cheapest one decides the rest of the batch; if none is, the dear model does.

The promise is about all rows that the calibration rows are drawn from, which is the batch here. So
`Outcome.unlike` counts the rows of the whole batch that the certified cascade decides otherwise
than the dear model, calibration rows included, although the dear model has answered those.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import betabinom  # type: ignore[import-untyped]  # scipy ships no types

from emsco import CascadeSearchCV, Costs
from emsco.certify import certify, required_rows
from emsco.core.front import Candidate
from emsco.exceptions import SelectionWarning
from emsco.rows.ledger import forget_all
from experiments.text.dear import Dear


class Outcome(NamedTuple):
    """What processing a batch took, and how it ended."""

    calibration: int  # rows that the dear model was asked about to find out what can be promised
    calls: int  # of the dear model, those included
    changed: int  # rows with another answer than the dear model's
    unlike: int  # rows that break the promise if they are too many: see each method
    ms: float  # paid per row of the batch


class Plan(NamedTuple):
    """The candidate to have certified, and on how many rows."""

    candidate: Candidate
    rows: int


def search(log: pd.DataFrame, costs: Costs) -> CascadeSearchCV:
    """Search stages before the dear model in the log of its answers, without labels."""
    found = CascadeSearchCV(
        costs=costs, final=Dear(), target="agreement", luck=False, random_state=0
    )
    with warnings.catch_warnings():
        # By itself it asks for 99%, and warns where no candidate has that; a plan chooses later.
        warnings.simplefilter("ignore", SelectionWarning)
        found.fit(log)
    return found


def plan(found: CascadeSearchCV, target: float, confidence: float, batch: int) -> Plan | None:
    """Give the candidate and the number of rows that are expected to cost least in all.

    The more rows, the surer a certificate, without which the dear model decides everything. Only
    figures of the log are used. None: nothing is expected to cost less than the dear model alone.
    """
    dear = dear_alone(found.costs_)
    rows = calibration_rows(target, confidence, batch)
    best, least = None, batch * dear
    for candidate in found.front_:
        e = candidate.evaluation
        chance = certified_chance(rows, e.rows - e.right, e.right)
        rest = chance * e.cost + (1 - chance) * dear
        expected = rows * found.costs_.total + (batch - rows) * rest
        if len(rows) and expected.min() < least:
            best, least = Plan(candidate, int(rows[expected.argmin()])), float(expected.min())
    return best


@cache
def calibration_rows(target: float, confidence: float, batch: int) -> NDArray[np.intp]:
    """Give how many rows it takes to certify what was chosen, if 0, 1, 2, ... of them change.

    What is chosen has half of the allowed error, as if two candidates shared it.
    """
    found: list[int] = []
    while not found or found[-1] < batch:
        found.append(required_rows(target, confidence, errors=len(found), candidates=2))
    return np.array(found[:-1], dtype=np.intp)


def certified_chance(
    rows: NDArray[np.intp], changed: float, unchanged: float
) -> NDArray[np.float64]:
    """Give the chance that at most 0, 1, 2, ... of so many rows change, after those of the log.

    The share that changes is not known; before the log, all shares count as equally likely.
    """
    number = np.arange(len(rows))
    shares = betabinom.pmf(number, rows[:, None], changed + 1, unchanged + 1)
    found: NDArray[np.float64] = np.tril(shares).sum(axis=1)
    return found


def dear_alone(costs: Costs) -> float:
    """Give the price of the dear model where nothing comes before it."""
    return costs.of(["embedding"])


def process(
    found: CascadeSearchCV,
    batch: pd.DataFrame,
    target: float,
    confidence: float,
    way: str = "front",
) -> Outcome:
    """Process a batch; `way` is what the certificate tests."""
    dear = dear_alone(found.costs_)
    planned = plan(found, target, confidence, len(batch))
    if planned is None:
        return Outcome(0, len(batch), 0, 0, dear)
    rows = planned.rows
    spent = rows * found.costs_.total
    forget_all()  # every question stands for a user with rows of their own
    certificate = certify(
        found.choose(planned.candidate),
        batch[:rows],
        agreement=target,
        confidence=confidence,
        way=way,
    )
    if not certificate.certified:
        return Outcome(rows, len(batch), 0, 0, (spent + (len(batch) - rows) * dear) / len(batch))
    best = certificate.select(by="cost").candidate
    decisions = found.cascade(best).decide(batch)
    unlike = decisions.label != found.truth(batch)
    asked = decisions.exit_stage == best.design.n_stages - 1
    return Outcome(
        rows,
        rows + int(np.sum(asked[rows:])),
        int(np.sum(unlike[rows:])),
        int(np.sum(unlike)),
        float(spent + np.sum(decisions.cost[rows:])) / len(batch),
    )
