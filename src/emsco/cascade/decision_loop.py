"""The one decision loop: it asks for values, never fetches them, and ends in `Decisions`.

The loop is a generator. It yields an `Ask`: which rows are still undecided, and which sources the
next stage needs for them. A driver fetches the values from a matrix, a database or a service, and
sends an `Answer` back. The loop judges, accepts the rows that are confident enough and asks again
for the rest, until all are accepted or no stage is left. So every driver, offline or live, decides
in the same way, and what is not needed is never asked for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco.cascade.stake_cap import StakeCap
from emsco.core.decisions import ACCEPTED, LOW_CONFIDENCE, Decisions
from emsco.core.label_rule import EQUAL, LabelRule
from emsco.exceptions import DecisionsError
from emsco.learners.protocol import Judge
from emsco.rows.columns import Column, Columns


class Ask(NamedTuple):
    """What the loop needs next: the values of some sources for the rows still undecided."""

    stage: int
    rows: NDArray[np.intp]
    sources: tuple[str, ...]
    features: tuple[str, ...]


class Answer(NamedTuple):
    """What a driver found: a column for each feature asked for, with a value for each row.

    `reasons` says why a row cannot be judged, "" if it can be; None if all can be. Such a row is
    rejected for that reason, and its values are never looked at.

    `cost` and `latency` are what each row paid and waited at this stage alone, and `bought` says
    for which rows anything was bought. None: as planned, for all rows. A row for which nothing was
    bought keeps the exit stage that it had before.
    """

    columns: Sequence[Column]
    reasons: NDArray[np.object_] | None = None
    cost: NDArray[np.float64] | None = None
    latency: NDArray[np.float64] | None = None
    bought: NDArray[np.bool_] | None = None

    @property
    def is_as_planned(self) -> bool:
        """Whether everything was bought, at the planned cost and latency."""
        return self.cost is None and self.latency is None and self.bought is None


@dataclass(frozen=True)
class Stage:
    """One stage, ready to decide."""

    sources: tuple[str, ...]  # bought here
    features: tuple[str, ...]  # what they yield
    judge: Judge  # every column acquired so far -> the probability of each class
    threshold: NDArray[np.float64]  # one, or one per class
    cost: float  # paid up to and including this stage
    latency: float = 0.0  # waited up to and including this stage


@dataclass(frozen=True)
class Plan:
    """Everything that the loop knows about a cascade."""

    stages: tuple[Stage, ...]
    classes: NDArray[Any]
    default: int = 0  # the class of a row that no stage could judge
    rule: LabelRule = EQUAL  # how probabilities become labels
    cap: StakeCap | None = None  # rows above it are rejected before anything is bought

    @cached_property
    def costs(self) -> NDArray[np.float64]:
        """The cost of a row that exits at each stage."""
        return np.array([stage.cost for stage in self.stages])

    @cached_property
    def latencies(self) -> NDArray[np.float64] | None:
        """The latency of a row that exits at each stage; None if all are 0."""
        latencies = np.array([stage.latency for stage in self.stages])
        return latencies if latencies.any() else None

    def unknown(self, n_rows: int) -> Verdict:
        """Return the verdict on rows that no stage has judged."""
        nothing = np.zeros(n_rows)
        share = None if self.rule.is_equal else np.zeros(n_rows)
        accepted = np.zeros(n_rows, dtype=np.bool_)
        return Verdict(np.full(n_rows, self.default), nothing, accepted, share)


class Verdict(NamedTuple):
    """The label of each row, its probability, whether the row is accepted, and the label's share.

    The share is None if labels have equal weights; it is the probability then.
    """

    winner: NDArray[Any]
    confidence: NDArray[np.float64]
    accepted: NDArray[np.bool_]
    share: NDArray[np.float64] | None = None

    @classmethod
    def of(
        cls,
        probability: Sequence[NDArray[np.float64]],
        threshold: NDArray[np.float64],
        rule: LabelRule,
    ) -> Verdict:
        """Judge rows by the probability of each class."""
        winner, confidence, share = rule.judge(probability)
        needed = threshold if threshold.size == 1 else threshold.take(winner)
        return cls(winner, confidence, share >= needed, None if rule.is_equal else share)


def decide_rows(
    plan: Plan,
    n_rows: int,
    *,
    probability: NDArray[np.float64] | None = None,
    stakes: Any = None,
) -> Generator[Ask, Answer, Decisions]:
    """Decide rows; `probability`, rows x classes, receives the probabilities of the exit stage.

    A plan with a cap needs the stake of every row.
    """
    rows = np.arange(n_rows)
    exit_stage = np.zeros(n_rows, dtype=np.intp)
    known: Verdict | None = None
    failures: list[tuple[NDArray[np.intp], NDArray[np.object_]]] = []
    kept_out = _above_cap(plan, n_rows, stakes)
    if kept_out is not None:
        failures.append((kept_out.rows, kept_out.reasons))
        rows = np.delete(rows, kept_out.rows)
    held: dict[str, Column] = {}
    spending: Spending | None = None
    last = len(plan.stages) - 1
    for number, stage in enumerate(plan.stages):
        if not rows.size:
            break
        answer = yield Ask(number, rows, stage.sources, stage.features)
        _hold(held, answer, stage.features, rows.size)
        if spending is None and not answer.is_as_planned:
            spending = Spending.before(plan, number, exit_stage, rows)
        if spending is not None:
            spending.add(plan, number, rows, answer)
        if number:
            exit_stage[rows if answer.bought is None else rows[answer.bought]] = number
        if answer.reasons is not None:
            failed = answer.reasons != ACCEPTED
            failures.append((rows[failed], answer.reasons[failed]))
            rows, held = _keep(~failed, rows, held)
            if not rows.size:
                break
        probabilities = stage.judge(held)
        if probability is not None:
            probability[rows] = np.column_stack(probabilities)
        verdict = Verdict.of(probabilities, stage.threshold, plan.rule)
        if rows.size == n_rows:
            known = verdict
        else:
            known = known or plan.unknown(n_rows)
            for field, values in zip(known, verdict, strict=True):
                if field is not None:
                    field[rows] = values
        if number < last:
            rows, held = _keep(~verdict.accepted, rows, held)
    known = known or plan.unknown(n_rows)
    reason: NDArray[np.object_] | None = None
    if failures:
        reason = np.array([LOW_CONFIDENCE, ACCEPTED], dtype=object)[known.accepted.view(np.int8)]
        for failed_rows, reasons in failures:
            reason[failed_rows] = reasons
    if spending is None:
        waited = None if plan.latencies is None else plan.latencies.take(exit_stage)
        spending = Spending(plan.costs.take(exit_stage), waited)
    if kept_out is not None:
        spending.cost[kept_out.rows] = 0.0
        if spending.latency is not None:
            spending.latency[kept_out.rows] = 0.0
    return Decisions.trusted(
        label=plan.classes.take(known.winner),
        accepted=known.accepted,
        exit_stage=exit_stage,
        confidence=known.confidence,
        cost=spending.cost,
        reason=reason,
        latency=spending.latency,
        share=known.share,
    )


class KeptOut(NamedTuple):
    """The rows that are rejected before anything is bought, and why."""

    rows: NDArray[np.intp]
    reasons: NDArray[np.object_]


def _above_cap(plan: Plan, n_rows: int, stakes: Any) -> KeptOut | None:
    """Return the rows whose stake is above the cap or not known; None if there are none."""
    if plan.cap is None:
        return None
    if stakes is None:
        raise plan.cap.lacking()
    reasons = plan.cap.reasons(stakes)
    if len(reasons) != n_rows:
        raise DecisionsError(f"There are {len(reasons)} stakes for {n_rows} rows.")
    rows = np.flatnonzero(reasons != ACCEPTED)
    return KeptOut(rows, reasons[rows]) if rows.size else None


class Spending(NamedTuple):
    """What each row has paid and waited so far."""

    cost: NDArray[np.float64]
    latency: NDArray[np.float64] | None

    @classmethod
    def before(
        cls, plan: Plan, number: int, exit_stage: NDArray[np.intp], rows: NDArray[np.intp]
    ) -> Spending:
        """Return what rows have spent before a stage, if all of it was as planned."""
        cost, latency = plan.costs.take(exit_stage), np.zeros(len(exit_stage))
        if plan.latencies is not None:
            latency = plan.latencies.take(exit_stage)
        if not number:
            cost[rows] = latency[rows] = 0.0  # nothing is bought yet
        return cls(cost, latency)

    def add(self, plan: Plan, number: int, rows: NDArray[np.intp], answer: Answer) -> None:
        """Add what a stage cost each row: as answered, or as planned if it was bought."""
        stage, before = plan.stages[number], plan.stages[number - 1] if number else None
        planned_cost = stage.cost - (before.cost if before else 0.0)
        planned_latency = stage.latency - (before.latency if before else 0.0)
        bought = 1.0 if answer.bought is None else answer.bought
        self.cost[rows] += planned_cost * bought if answer.cost is None else answer.cost
        waited = planned_latency * bought if answer.latency is None else answer.latency
        if self.latency is not None:
            self.latency[rows] += waited


def _hold(held: dict[str, Column], answer: Answer, features: tuple[str, ...], n_rows: int) -> None:
    """Store the columns of an answer; refuse an answer of the wrong length."""
    if len(answer.columns) != len(features):
        raise DecisionsError(f"A driver answered {len(answer.columns)} columns for {features}.")
    for feature, column in zip(features, answer.columns, strict=True):
        if len(column) != n_rows:
            raise DecisionsError(
                f"A driver answered {len(column)} values of {feature!r} for {n_rows} rows."
            )
        held[feature] = column
    if answer.reasons is None and answer.is_as_planned:
        return
    for name, values in zip(Answer._fields[1:], answer[1:], strict=True):
        if values is not None and len(values) != n_rows:
            raise DecisionsError(f"A driver answered {len(values)} `{name}` for {n_rows} rows.")


def _keep(
    mask: NDArray[np.bool_], rows: NDArray[np.intp], held: dict[str, Column]
) -> tuple[NDArray[np.intp], dict[str, Column]]:
    """Keep some of the rows, and their values in the columns held."""
    (places,) = mask.nonzero()
    if places.size == rows.size:
        return rows, held
    if not places.size:
        return places, {}
    return rows[places], {name: column[places] for name, column in held.items()}


def drive(loop: Generator[Ask, Answer, Decisions], answer: Callable[[Ask], Answer]) -> Decisions:
    """Drive the loop with a function that answers at once."""
    try:
        ask = next(loop)
        while True:
            ask = loop.send(answer(ask))
    except StopIteration as end:
        decisions: Decisions = end.value
        return decisions


async def drive_async(
    loop: Generator[Ask, Answer, Decisions], answer: Callable[[Ask], Awaitable[Answer]]
) -> Decisions:
    """Drive the loop with a function that has to wait for what it answers."""
    try:
        ask = next(loop)
        while True:
            ask = loop.send(await answer(ask))
    except StopIteration as end:
        decisions: Decisions = end.value
        return decisions


def decide_block(
    plan: Plan,
    columns: Columns,
    *,
    examine: Callable[[Columns], NDArray[np.object_] | None] | None = None,
    probability: NDArray[np.float64] | None = None,
    stakes: Any = None,
) -> Decisions:
    """Drive the loop over columns in memory; `examine` says which rows must not be judged."""
    n_rows = len(next(iter(columns.values())))

    def answer(ask: Ask) -> Answer:
        everything = ask.rows.size == n_rows
        found = {f: columns[f] if everything else columns[f][ask.rows] for f in ask.features}
        return Answer(list(found.values()), None if examine is None else examine(found))

    return drive(decide_rows(plan, n_rows, probability=probability, stakes=stakes), answer)
