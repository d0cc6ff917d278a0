"""Shadow mode: the final model answers, and the decisions of the cascade are only recorded.

All sources are fetched at once, and the final model answers every row, as it does without a
cascade. From the same values, the cascade computes what it would have answered, and at which stage.
Both are logged with the values, so that the savings can be counted and certified before anyone
relies on the cascade.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco.cascade import Decider
from emsco.cascade.decision_loop import Answer, Ask
from emsco.core.decisions import ACCEPTED, INVALID_VALUE, Decisions, reason_for
from emsco.exceptions import ServiceError
from emsco.live import LiveCascade, Sources
from emsco.live.accounts import Accounts
from emsco.live.decision_log import NO_LOG, DecisionLog, HeldWrites
from emsco.live.fetch_result import Key
from emsco.live.purchases import Receipt
from emsco.live.typed_columns import to_column
from emsco.serve.settings import Settings


class ShadowAnswer(NamedTuple):
    """The answers of the final model, and the decisions that the cascade would have made."""

    answered: Decisions  # by the final model
    would_be: Decisions  # by the cascade; a row that failed is rejected here, too

    @property
    def saved(self) -> NDArray[np.float64]:
        """The amount that the cascade would have saved per row; 0 for rows that failed."""
        saved: NDArray[np.float64] = self.answered.cost - self.would_be.cost
        return np.where(self.would_be.accepted, saved, 0.0)

    @property
    def changed(self) -> NDArray[np.bool_]:
        """Whether the cascade would have answered each row differently."""
        changed: NDArray[np.bool_] = self.answered.label != self.would_be.label
        return changed & self.would_be.accepted & self.answered.accepted


def all_at_once(decider: Decider) -> Decider:
    """Return a decider that fetches all sources at once and lets the final model answer."""
    if decider.final is None:
        raise ServiceError(
            "--shadow needs a model whose last stage is a final model, which answers while the "
            "stages before it are only recorded; this file has none. Create one with `emsco "
            "savings --out` or CascadeSearchCV(final=...), or omit --shadow."
        )
    stages = decider.plan.stages
    everything = replace(
        stages[-1],
        sources=tuple(name for stage in stages for name in stage.sources),
        features=tuple(name for stage in stages for name in stage.features),
    )
    return replace(decider, plan=replace(decider.plan, stages=(everything,)))


class ShadowMode:
    """Answers with a final model, and records what the cascade before it would have decided."""

    def __init__(
        self,
        decider: Decider,
        sources: Sources,
        settings: Settings,
        digest: str,
        accounts: Accounts | None = None,
    ) -> None:
        assert settings.log is not None  # checked by the settings
        self.live = LiveCascade(
            all_at_once(decider),
            sources,
            max_cost=settings.max_cost,
            deadline=settings.deadline,
            accounts=accounts,
        )
        self._decider, self._digest, self._sources = decider, digest, sources
        self.log = DecisionLog(settings.log, settings.on_log_failure)
        stages = decider.plan.stages
        self._source_of = {
            feature: name for name in self.live.terms.bought
            for feature in decider.costs.columns(name)
        }  # fmt: skip
        self._early = [
            frozenset(name for stage in stages[: last + 1] for name in stage.sources)
            for last in range(len(stages))
        ]

    async def decide(
        self, keys: Sequence[Key], known: Any, *, held: HeldWrites | None = None, **options: Any
    ) -> ShadowAnswer:
        """Answer with the final model, and record what the cascade would have decided.

        The options are those of `LiveCascade.decide`.
        """
        values: list[dict[str, Any]] = []
        async with self.log.room(len(keys)) as is_there:
            refused = ACCEPTED if is_there else NO_LOG
            answered = await self.live.decide(
                keys, known, values=values, refused=refused, **options
            )
            shadowed = ShadowAnswer(answered, self._would_be(answered, values, set(known or ())))
            if refused:
                return shadowed
            entries = self._entries(shadowed, values)
            is_logged = await self.log.write(answered, values, entries, held=held)
        if not is_logged and self.log.rejects:
            return shadowed._replace(answered=answered.rejected(NO_LOG))
        return shadowed

    async def keep_labels(self, labels: Sequence[tuple[str, Any]]) -> int:
        """Write true labels to the log by decision id, and return how many were written."""
        return len(labels) if await self.log.write_labels(labels) else 0

    def _would_be(
        self, answered: Decisions, values: Sequence[dict[str, Any]], known: set[str]
    ) -> Decisions:
        """Decide with the cascade from the fetched values; rows that failed have none."""
        rows = [row for row, own in enumerate(values) if own]
        label, accepted = answered.label.copy(), np.zeros(len(answered), dtype=np.bool_)
        stage, confidence = np.zeros(len(answered), dtype=np.intp), np.zeros(len(answered))
        cost, reason = answered.cost.copy(), answered.reason.copy()
        share = None if self._decider.plan.rule.is_equal else np.zeros(len(answered))
        if rows:
            own = [values[row] for row in rows]
            decided = self._decider.drive(len(rows), partial(self._answer, values=own, known=known))
            label[rows], accepted[rows] = decided.label, decided.accepted
            stage[rows], confidence[rows] = decided.exit_stage, decided.confidence
            reason[rows] = decided.reason
            if share is not None:
                share[rows] = decided.share
            for row in rows:
                cost[row] -= self._saved(answered.receipts[row], stage[row])  # type: ignore[index]
        return Decisions(label, accepted, stage, confidence, cost, reason, share=share)

    def _answer(self, ask: Ask, values: Sequence[dict[str, Any]], known: set[str]) -> Answer:
        """Answer the cascade with values fetched for all stages, read and checked as it does."""
        rows = [values[row] for row in ask.rows.tolist()]
        columns: dict[str, NDArray[Any]] = {}
        odd: dict[int, str] = {}  # of a type unseen in training
        for feature in ask.features:
            source = self._sources[self._source_of[feature]]
            columns[feature], others = to_column(
                [row[feature] for row in rows],
                self._decider.readers.get(feature),
                spelled=feature not in known and source.is_spelled,
            )
            for place in others:
                odd.setdefault(place, reason_for(INVALID_VALUE, feature))
        answer = self._decider.examine(columns)
        if not odd:
            return answer
        reasons = answer.reasons
        if reasons is None:
            reasons = np.full(len(rows), ACCEPTED, dtype=object)
        reasons[list(odd)] = list(odd.values())
        return answer._replace(reasons=reasons)

    def _saved(self, receipt: Receipt, stage: int) -> float:
        """Return the amount paid for sources beyond a stage."""
        costs, early = self._decider.costs, self._early[stage]
        paid = [fetch for fetch in receipt.fetches if fetch.paid]
        late = [fetch for fetch in paid if fetch.source not in early]
        priced = self.live.terms.priced
        # The source fetched first has paid for a setup that sources of both parts may share.
        shared = [fetch.source for fetch in late if priced[fetch.source].setup is not None]
        had = [fetch.source for fetch in paid if fetch.source in early]
        alone = sum(fetch.paid for fetch in late if fetch.source not in shared)
        return alone + (costs.of(shared, paid=had) if shared else 0.0)

    def _entries(
        self, shadowed: ShadowAnswer, values: Sequence[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return the additional fields of log entries: the cascade's digest and decision."""
        names = [name for name in shadowed.would_be.fields if name != "latency"]
        columns = (getattr(shadowed.would_be, name).tolist() for name in names)
        rows = (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
        saved, last = shadowed.saved.tolist(), len(self._early) - 1
        more = (
            {"saved": saved[i], "final": row["exit_stage"] == last} | row
            for i, row in enumerate(rows)
        )
        return [
            {"model": self._digest, "shadow": row if own else None}
            for row, own in zip(more, values, strict=True)
        ]
