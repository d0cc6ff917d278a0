"""The state of one call of a live cascade: the values and costs of its rows so far."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco.cascade.decision_loop import Answer, Ask
from emsco.core.decisions import ACCEPTED, BUDGET, DEADLINE, INVALID_VALUE, kind_of, reason_for
from emsco.exceptions import Parameter, SourcesError, quoted
from emsco.live.accounts import RequestContext
from emsco.live.call_limits import JUDGED
from emsco.live.coalescing import CoalescingGate
from emsco.live.fetch_result import Key, as_text, key_text
from emsco.live.live_plan import LivePlan
from emsco.live.purchases import KNOWN, NOT_FETCHED, Purchase, PurchaseBatch, Receipts
from emsco.live.typed_columns import read_spelled, to_column, to_numbers


class Fetched(NamedTuple):
    """What a stage has fetched: a batch of each source, and how long that took, in seconds."""

    batches: dict[str, PurchaseBatch]
    waited: float


class Call:
    """The state of one call of a live cascade: the values and costs of its rows so far.

    `known` are the values that the caller already has, `used` the features that some requests use,
    and `deadline` is the maximum duration of the call, in seconds. What is bought is added to
    `receipts`; `context` is the request that paid calls are made for.
    """

    def __init__(
        self,
        terms: LivePlan,
        gates: Mapping[str, CoalescingGate],
        keys: list[Key],
        known: dict[str, list[Any]],
        used: frozenset[str],
        deadline: float | None,
        receipts: Receipts,
        context: RequestContext,
    ) -> None:
        self._terms, self._gates, self._keys, self._context = terms, gates, keys, context
        self._loop = asyncio.get_running_loop()
        self._until = None if deadline is None else self._loop.time() + deadline
        self._receipts = receipts
        self.read: list[tuple[NDArray[np.intp], dict[str, Any]]] = []  # the input of each stage
        self._paid = np.zeros(0 if terms.max_cost is None else len(keys))  # only for `max_cost`
        self._setups: dict[int, set[str]] = {}
        self._fetched: dict[int, Fetched] = {}  # by stage
        # The values that requests of later sources may use, by feature.
        self._have = known
        self._used = used
        self._known = self._known_sources()
        self._refuse_unmet()

    def _known_sources(self) -> set[str]:
        """Return the sources that are fully known; raise an error if one is known in part."""
        whole = set()
        for name, features in self._terms.features.items() if self._have else ():
            here = [feature for feature in features if feature in self._have]
            if here and len(here) < len(features):
                lacking = [feature for feature in features if feature not in here]
                raise SourcesError(
                    Parameter("known")
                    + f" must have all features of {name!r} or none: it has {here[0]!r}, but not "
                    f"{quoted(lacking)}."
                )
            if here:
                whole.add(name)
        return whole

    def _refuse_unmet(self) -> None:
        """Raise an error, before anything is paid, if a request uses values that are missing."""
        for name in self._terms.bought if self._used else ():
            requires = self._terms.priced[name].requires
            required = [f for other in requires for f in self._terms.costs.columns(other)]
            lacking = sorted(self._gates[name].source.needs - {*self._have, *required})
            if lacking and name not in self._known:
                raise SourcesError(
                    f"Source {name!r} uses {quoted(lacking)}: pass it in "
                    + Parameter("known")
                    + ", or let the source require the one that yields it."
                )

    def values(self) -> list[dict[str, Any]]:
        """Return the values from which each row was decided, as far as they were fetched."""
        found: list[dict[str, Any]] = [{} for _ in self._keys]
        for feature, values in self._decided_by():
            for row, value in values:
                found[row][feature] = value
        return found

    def columns(self) -> dict[str, list[Any]]:
        """Return the values from which rows were decided, by feature; None if not fetched."""
        found: dict[str, list[Any]] = {}
        for feature, values in self._decided_by():
            whole = found.setdefault(feature, [None] * len(self._keys))
            for row, value in values:
                whole[row] = value
        return found

    def _decided_by(self) -> Iterator[tuple[str, Iterator[tuple[int, Any]]]]:
        """Yield each feature that a stage used, with rows and their values."""
        for rows, columns in self.read:
            for feature, column in columns.items():
                yield feature, zip(rows.tolist(), column.tolist(), strict=True)

    async def answer(self, ask: Ask) -> Answer:
        """Fetch what a stage needs, each source after those that it requires."""
        rows = ask.rows.tolist()
        fetched = self._fetched.get(ask.stage)
        batches, seconds = fetched or await self.fetch(ask.stage, rows)
        reasons: dict[int, str] = {}
        for name, batch in batches.items():
            for place, reason in _failed(batch).items():
                reasons.setdefault(place, reason_for(reason, name))
        cost, bought = _charged([*batches.values()])
        waited = np.array([seconds] * len(rows))
        columns, all_reasons = self._read(ask, rows, batches, reasons)
        return Answer(columns, all_reasons, cost, waited, bought)

    async def fetch(self, stage: int, rows: list[int]) -> Fetched:
        """Fetch what a stage needs, once: `answer` takes what was fetched before."""
        begin = self._loop.time()
        batches = await self._fetch_all(stage, rows, begin)
        if self._terms.max_cost is not None:
            self._paid[rows] += _charged([*batches.values()])[0]
        fetched = self._fetched[stage] = Fetched(batches, self._loop.time() - begin)
        return fetched

    def row(self, batches: dict[str, PurchaseBatch], place: int) -> dict[str, Any] | None:
        """Return the values of one row of a stage by feature; None if a source has none."""
        row: dict[str, Any] = {}
        for name, batch in batches.items():
            if batch.reasons[place]:
                return None
            features = self._terms.features[name]
            values = [batch.columns[feature][place] for feature in features]
            if self._is_spelled(name) and self._terms.is_of_numbers[name]:
                values = read_spelled(values) or values
            row.update(zip(features, values, strict=True))
        return row

    async def refuse(self, ask: Ask, reason: str) -> Answer:
        """Reject all rows for a reason, without calling any source."""
        nothing, n_rows = np.zeros(len(ask.rows)), len(ask.rows)
        reasons = np.full(n_rows, reason, dtype=object)
        bought = np.zeros(n_rows, dtype=np.bool_)
        return Answer([nothing] * len(ask.features), reasons, nothing, nothing, bought)

    async def _fetch_all(
        self, stage: int, rows: list[int], begin: float
    ) -> dict[str, PurchaseBatch]:
        """Fetch every source of a stage at once, each after those that it requires."""
        order = self._terms.requirements[stage]
        if len(order) == 1 or self._known.issuperset(order):  # no two requests at once
            return {name: await self._fetch(name, stage, rows, {}, begin) for name in order}
        under_way: dict[str, asyncio.Task[PurchaseBatch]] = {}

        async def fetch(name: str) -> PurchaseBatch:
            # A row without a required source gets the reason of that source.
            failed: dict[int, str] = {}
            for other in order[name]:
                failed = _failed(await under_way[other]) | failed
            return await self._fetch(name, stage, rows, failed, begin)

        for name in order:
            under_way[name] = asyncio.ensure_future(fetch(name))
        found = await asyncio.gather(*under_way.values())
        return dict(zip(order, found, strict=True))

    async def _fetch(
        self, name: str, stage: int, rows: list[int], failed: dict[int, str], begin: float
    ) -> PurchaseBatch:
        """Fetch one source for all rows of a stage but those that have `failed`, by position."""
        places: Sequence[int] = range(len(rows))
        if failed:
            places = [place for place in places if place not in failed]
        extra = None
        if name not in self._known:
            places, extra = self._afforded(name, rows, places, failed)
            if self._until is not None and self._loop.time() >= self._until:
                failed |= dict.fromkeys(places, DEADLINE)
                places = ()
        if not places:
            return PurchaseBatch.failed([failed[i] for i in range(len(rows))], how=NOT_FETCHED)
        some = [rows[place] for place in places]
        if name in self._known:  # sent by the caller, so that it costs nothing
            features = self._terms.features[name]
            columns = {feature: [self._have[feature][row] for row in some] for feature in features}
            n_rows = len(some)
            batch = PurchaseBatch(
                columns, [ACCEPTED] * n_rows, [KNOWN] * n_rows, [0.0] * n_rows, [True] * n_rows
            )
        else:
            batch = await self._bought(name, some, extra)
        waited = self._loop.time() - begin
        self._receipts.purchases.append(Purchase(batch, name, stage, some, waited, time.time()))
        if len(places) == len(rows):
            return batch
        reasons = [failed.get(i, ACCEPTED) for i in range(len(rows))]
        return PurchaseBatch.failed(reasons, how=NOT_FETCHED).replaced(places, batch)

    async def _bought(self, name: str, rows: list[int], extra: list[float] | None) -> PurchaseBatch:
        """Fetch rows, and add the costs of setups to what they cost."""
        gate = self._gates[name]
        values = {need: [self._have[need][row] for row in rows] for need in gate.source.needs}
        keys = [self._keys[row] for row in rows]
        batch = await gate.fetch(keys, values, self._until, self._context)
        for feature in self._used.intersection(batch.columns):  # later requests may use it
            have = self._have.setdefault(feature, [None] * len(self._keys))
            for row, value in zip(rows, batch.columns[feature], strict=True):
                have[row] = as_text(value)
        if extra is None:
            return batch
        costs = zip(batch.paid, extra, strict=True)
        return replace(batch, paid=[paid + more if paid > 0 else paid for paid, more in costs])

    def _afforded(
        self, name: str, rows: list[int], places: Sequence[int], failed: dict[int, str]
    ) -> tuple[Sequence[int], list[float] | None]:
        """Leave out rows over `max_cost`; return the others, and the costs of their setups."""
        source, limit = self._terms.priced[name], self._terms.max_cost
        if limit is None and source.setup is None:
            return places, None
        affordable, extra = [], []
        for place in places:
            opened = self._setups.setdefault(rows[place], set())
            is_new = source.setup is not None and source.setup not in opened
            more = self._terms.costs.setups[source.setup] if is_new else 0.0  # type: ignore[index]
            if limit is not None and self._paid[rows[place]] + source.cost + more > limit:
                failed[place] = BUDGET
                continue
            if source.setup is not None:
                opened.add(source.setup)
            affordable.append(place)
            extra.append(more)
        return affordable, extra

    def _read(
        self, ask: Ask, rows: list[int], batches: dict[str, PurchaseBatch], reasons: dict[int, str]
    ) -> tuple[list[Any], NDArray[np.object_] | None]:
        """Convert fetched values to the columns of the model; invalid values become reasons."""
        places: Sequence[int] = range(len(rows))
        if reasons:
            places = [place for place in places if place not in reasons]
        if not places:
            nothing = np.full(len(rows), np.nan)
            all_reasons = np.array([reasons[place] for place in range(len(rows))], dtype=object)
            return [nothing] * len(ask.features), all_reasons
        columns = self._columns(ask, batches, places, reasons)
        answer = self._terms.decider.examine(columns)
        self._judge(rows, batches, places, reasons, answer.reasons)
        self.read.append((ask.rows[places] if len(places) < len(rows) else ask.rows, columns))
        if not reasons and answer.reasons is None:
            return list(answer.columns), None
        all_reasons = np.full(len(rows), ACCEPTED, dtype=object)
        if answer.reasons is not None:
            all_reasons[places] = answer.reasons
        for place, reason in reasons.items():
            all_reasons[place] = reason
        if len(places) == len(rows):
            return list(answer.columns), all_reasons
        spread = []  # values at the positions of their rows; the rest is never read
        for column in map(np.asarray, answer.columns):
            spread.append(np.zeros(len(rows), dtype=column.dtype))
            spread[-1][places] = column
        return spread, all_reasons

    def _columns(
        self,
        ask: Ask,
        batches: dict[str, PurchaseBatch],
        places: Sequence[int],
        reasons: dict[int, str],
    ) -> dict[str, Any]:
        """Return a column per feature for these rows; add reasons for values of another type."""
        columns: dict[str, Any] = {}
        for name, batch in batches.items():
            features = self._terms.features[name]
            lists = [batch.columns[feature] for feature in features]
            if len(places) < len(batch):
                lists = [[values[place] for place in places] for values in lists]
            spelled = self._is_spelled(name)
            if self._terms.is_of_numbers[name]:
                matrix = to_numbers(lists, spelled=spelled)
                if matrix is not None:
                    columns.update(zip(features, matrix, strict=True))
                    continue
            for feature, values in zip(features, lists, strict=True):
                reader = self._terms.decider.readers.get(feature)
                columns[feature], others = to_column(values, reader, spelled=spelled)
                for i in others:
                    reasons.setdefault(places[i], reason_for(INVALID_VALUE, feature))
        return {feature: columns[feature] for feature in ask.features}

    def _is_spelled(self, name: str) -> bool:
        """Return whether the values of a source are numbers written as text."""
        return name not in self._known and self._gates[name].source.is_spelled

    def report_valid(self, rows: list[int], batches: dict[str, PurchaseBatch]) -> None:
        """Report to the breaker of each source that these rows, a few, got valid values."""
        for name in batches:
            if name not in self._known and self._gates[name].caller.breaker.has_invalid:
                valid = [(key_text(self._keys[row]), False) for row in rows]
                self._gates[name].caller.judged(valid)

    def _judge(
        self,
        rows: list[int],
        batches: dict[str, PurchaseBatch],
        places: Sequence[int],
        reasons: dict[int, str],
        examined: Any,
    ) -> None:
        """Report to the breaker of each source which of the last rows got invalid values."""
        first = max(0, len(places) - JUDGED)
        last = places[first:]
        odd: dict[int, str] = {}
        if reasons or examined is not None:
            for i, place in enumerate(last, first):
                reason = reasons.get(place) or (ACCEPTED if examined is None else examined[i])
                if kind_of(reason) == INVALID_VALUE:
                    odd[place] = reason
        for name in batches.keys() - self._known:
            caller = self._gates[name].caller
            if not (odd or caller.breaker.has_invalid):
                continue
            its = {reason_for(INVALID_VALUE, f) for f in self._terms.features[name]} if odd else ()
            caller.judged(
                [(key_text(self._keys[rows[place]]), odd.get(place) in its) for place in last]
            )


def _failed(batch: PurchaseBatch) -> dict[int, str]:
    """Return the reasons of rows without values, by position; usually none."""
    if not any(batch.reasons):
        return {}
    return {i: reason for i, reason in enumerate(batch.reasons) if reason}


def _charged(
    batches: list[PurchaseBatch],
) -> tuple[NDArray[np.float64], NDArray[np.bool_] | None]:
    """Return the cost of each row, and for which rows something was bought; None: all."""
    cost = np.array(batches[0].paid, dtype=np.float64)
    for batch in batches[1:]:
        cost += batch.paid
    if any(NOT_FETCHED not in batch.how for batch in batches):
        return cost, None
    return cost, np.any([np.array(batch.how) != NOT_FETCHED for batch in batches], axis=0)
