"""Cheap answers: what the stages before the final model say of each row, and how sure they are.

Thresholds choose only where a row exits. Its answer is that of the exit stage, also where it is not
accepted, and its trust the estimated probability that the answer is right.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco.cascade import Decider
from emsco.cascade.decision_loop import Answer, Ask
from emsco.core.decisions import ACCEPTED, LOW_CONFIDENCE
from emsco.exceptions import BatchError
from emsco.rows.columns import listed


@dataclass(frozen=True)
class CheapAnswers:
    """The cheap answer to each row, and its trust; None and NaN for a row without an answer.

    Parameters
    ----------
    labels : list
        The answers.
    trust : array of float
        How sure they are: the larger, the more trusted.
    """

    labels: list[Any]
    trust: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: NDArray[np.intp]) -> CheapAnswers:
        """Return some of the rows."""
        return replace(self, labels=[self.labels[i] for i in rows.tolist()], trust=self.trust[rows])


def read_answers(answers: Any, trust: Any) -> CheapAnswers:
    """Read somebody's own answers and scores."""
    labels = listed(answers) if hasattr(answers, "__len__") else list(answers)
    try:
        scores = np.array(trust if _is_plain(trust) else listed(trust), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BatchError(f"`trust` must be a number for each answer: {error}.") from error
    if scores.shape != (len(labels),):
        raise BatchError(
            f"`trust` must be a number for each of {len(labels):,} answers, got {scores.shape}."
        )
    return CheapAnswers(labels, scores)


def are_shares(trust: NDArray[np.float64]) -> bool:
    """Return whether one less the trust can be the expected share of wrong answers."""
    known = trust[~np.isnan(trust)]
    return bool(len(known) and known.min() >= 0 and known.max() <= 1)


def _is_plain(values: Any) -> bool:
    """Return whether numpy reads values at once: none can be masked or NA."""
    return type(values) is np.ndarray and values.dtype.kind in "fiu"


def cheap_answers(decider: Decider, X: Any) -> CheapAnswers:
    """Decide rows by the stages before the final model, or by all stages if there is none.

    A row that cannot be judged (a guard rejects it, or a value is invalid) has no answer.
    """
    before = before_final(decider)
    rows = before.layout.read_known(X)
    lacking = [name for name in before.readers if name not in rows.columns]
    if lacking:
        raise BatchError(f"X lacks the column {lacking[0]!r}, which a stage needs.")

    def answer(ask: Ask) -> Answer:
        everything = len(ask.rows) == len(rows)
        found = {name: rows.columns[name] for name in ask.features}
        if not everything:
            found = {name: _take(column, ask.rows) for name, column in found.items()}
        return before.examine(found)

    decisions = before.drive(len(rows), answer)
    judged = np.isin(decisions.reason.astype(str), (ACCEPTED, LOW_CONFIDENCE))
    labels = listed(decisions.label)
    if not judged.all():
        labels = [label if is_one else None for label, is_one in zip(labels, judged, strict=True)]
    return CheapAnswers(labels, np.where(judged, decisions.confidence, np.nan))


def _take(column: Any, rows: NDArray[np.intp]) -> Any:
    return column.take(rows) if isinstance(column, np.ndarray) else column[rows]


def before_final(decider: Decider) -> Decider:
    """Return what decides before a final model; without one, all of it."""
    if decider.final is None:
        return decider
    stages = decider.plan.stages[:-1]
    if not stages:
        raise BatchError(
            "This cascade has no stage before its final model, so it has no cheap answers: choose "
            "a candidate with at least two stages."
        )
    features = {name for stage in stages for name in stage.features}
    return replace(
        decider,
        plan=replace(decider.plan, stages=stages),
        readers={name: reader for name, reader in decider.readers.items() if name in features},
        layout=replace(decider.layout, answers=None),
    )


def price_of_final(decider: Decider) -> float | None:
    """Return what the final model of a cascade costs a row, beyond the stages before it."""
    costs = decider.plan.costs
    if decider.final is None or len(costs) < 2:
        return None
    return float(costs[-1] - costs[-2])


def walk_order(trust: NDArray[np.float64], random_order: NDArray[np.intp]) -> NDArray[np.intp]:
    """Order rows, the most trusted first; ties stand in a random order, which knows no answers."""
    return random_order[np.argsort(-trust[random_order], kind="stable")]
