"""One call of a live cascade: what its rows have and have paid so far."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco.cascade.decision_loop import Answer, Ask
from emsco.core.decisions import ACCEPTED, BUDGET, DEADLINE, INVALID_VALUE, kind_of, reason_for
from emsco.exceptions import SourcesError, quoted
from emsco.live.circuit_breaker import JUDGED
from emsco.live.coalescing import CoalescingGate
from emsco.live.fetch_result import Key, as_text, key_text
from emsco.live.live_plan import LivePlan
from emsco.live.purchases import KNOWN, PurchaseBatch
from emsco.live.receipt import SourceAnswer
from emsco.live.typed_columns import to_column, to_numbers


class _SourceValues(NamedTuple):
    """What one source gave: to which places of the rows asked for, and who got nothing and why."""

    places: Sequence[int]
    batch: PurchaseBatch | None  # None: it was not asked, because rows had it or could not have it
    failed: dict[int, str]
    extra: list[float] | None = None  # for setups


class Call:
    """One call of a live cascade: what its rows have and have paid so far.

    Parameters
    ----------
    terms : LivePlan
        What all calls have in common.
    gates : mapping of source to CoalescingGate
        Where values are fetched.
    keys : list
        The rows.
    known : dict of feature to list
        What the caller has already.
    used : frozenset of str
        The features that some requests use.
    deadline : float, default=None
        How many seconds the call may take. None: no limit.
    """

    def __init__(
        self,
        terms: LivePlan,
        gates: Mapping[str, CoalescingGate],
        keys: list[Key],
        known: dict[str, list[Any]],
        used: frozenset[str],
        deadline: float | None = None,
    ) -> None:
        self._terms, self._gates, self._keys = terms, gates, keys
        self._loop = asyncio.get_running_loop()
        self._until = None if deadline is None else self._loop.time() + deadline
        self.asked: list[SourceAnswer] = []
        self.read: list[tuple[NDArray[np.intp], dict[str, Any]]] = []  # what the stages were given
        self._paid = np.zeros(0 if terms.max_cost is None else len(keys))  # what a limit is for
        self._setups: dict[int, set[str]] = {}
        # What requests of later sources may use, by feature.
        self._have = known
        self._used = used
        self._known = self._known_sources()
        self._refuse_unmet()

    def _known_sources(self) -> set[str]:
        """Name the sources that the caller has wholly; one in part cannot be fetched in part."""
        whole = set()
        for name, features in self._terms.features.items() if self._have else ():
            here = [feature for feature in features if feature in self._have]
            if here and len(here) < len(features):
                lacking = [feature for feature in features if feature not in here]
                raise SourcesError(
                    f"`known` has {here[0]!r} of {name!r}, but not {quoted(lacking)}."
                )
            if here:
                whole.add(name)
        return whole

    def _refuse_unmet(self) -> None:
        """Refuse, before anything is paid, sources whose requests use what nobody has."""
        for name in self._terms.bought if self._used else ():
            requires = self._terms.priced[name].requires
            required = [f for other in requires for f in self._terms.costs.columns(other)]
            lacking = sorted(self._gates[name].source.needs - {*self._have, *required})
            if lacking and name not in self._known:
                raise SourcesError(
                    f"Source {name!r} uses {quoted(lacking)}: give it in `known`, or let it "
                    "require the one that yields it."
                )

    def values(self) -> list[dict[str, Any]]:
        """Give the values that each row was decided by, as far as they were fetched."""
        found: list[dict[str, Any]] = [{} for _ in self._keys]
        for feature, values in self._decided_by():
            for row, value in values:
                found[row][feature] = value
        return found

    def columns(self) -> dict[str, list[Any]]:
        """Give the values that rows were decided by, by feature; None where none was fetched."""
        found: dict[str, list[Any]] = {}
        for feature, values in self._decided_by():
            whole = found.setdefault(feature, [None] * len(self._keys))
            for row, value in values:
                whole[row] = value
        return found

    def _decided_by(self) -> Iterator[tuple[str, Iterator[tuple[int, Any]]]]:
        """Give each feature that a stage was given, with rows and their values."""
        for rows, columns in self.read:
            for feature, column in columns.items():
                yield feature, zip(rows.tolist(), column.tolist(), strict=True)

    async def answer(self, ask: Ask) -> Answer:
        """Fetch what a stage needs, each source after those that it requires."""
        begin = self._loop.time()
        rows = ask.rows.tolist()
        got = await self._fetch_all(ask.stage, rows, begin)
        reasons: dict[int, str] = {}
        for name, one in got.items():
            for place, reason in one.failed.items():
                reasons.setdefault(place, reason_for(reason, name))
        cost, bought = self._charge(rows, got)
        waited = np.array([self._loop.time() - begin] * len(rows))
        columns, told = self._read(ask, rows, got, reasons)
        return Answer(columns, told, cost, waited, bought)

    async def refuse(self, ask: Ask, reason: str) -> Answer:
        """Reject all rows for a reason, and ask no source."""
        nothing, n_rows = np.zeros(len(ask.rows)), len(ask.rows)
        told = np.full(n_rows, reason, dtype=object)
        bought = np.zeros(n_rows, dtype=np.bool_)
        return Answer([nothing] * len(ask.features), told, nothing, nothing, bought)

    async def _fetch_all(
        self, stage: int, rows: list[int], begin: float
    ) -> dict[str, _SourceValues]:
        """Fetch every source of a stage at once, each after those that it requires."""
        order = self._terms.requirements[stage]
        everybody = range(len(rows))
        if len(order) == 1:
            (name,) = order
            return {name: await self._fetch(name, stage, rows, everybody, begin)}
        under_way: dict[str, asyncio.Task[_SourceValues]] = {}

        async def fetch(name: str) -> _SourceValues:
            before = [await under_way[other] for other in order[name]]
            lost = {place for one in before for place in one.failed}
            places = [place for place in everybody if place not in lost] if lost else everybody
            got = await self._fetch(name, stage, rows, places, begin)
            for one in before:  # a row without what is required has the reason of that
                for place, reason in one.failed.items():
                    got.failed.setdefault(place, reason)
            return got

        for name in order:
            under_way[name] = asyncio.ensure_future(fetch(name))
        found = await asyncio.gather(*under_way.values())
        return dict(zip(order, found, strict=True))

    async def _fetch(
        self, name: str, stage: int, rows: list[int], places: Sequence[int], begin: float
    ) -> _SourceValues:
        """Fetch one source for the rows at some places."""
        failed: dict[int, str] = {}
        extra = None
        if name in self._known:
            batch = PurchaseBatch.all_alike(len(places), ACCEPTED, how=KNOWN)
        else:
            places, extra = self._afforded(name, rows, places, failed)
            if self._until is not None and self._loop.time() >= self._until:
                failed |= dict.fromkeys(places, DEADLINE)
                places = []
            if not places:
                return _SourceValues((), None, failed)
            gate = self._gates[name]
            asked = [rows[place] for place in places]
            values = {need: [self._have[need][row] for row in asked] for need in gate.source.needs}
            batch = await gate.fetch([self._keys[row] for row in asked], values, self._until)
            if any(batch.reasons):
                failed |= {p: r for p, r in zip(places, batch.reasons, strict=True) if r}
            self._have_values(asked, batch)
        waited = self._loop.time() - begin
        asked = [rows[place] for place in places]
        self.asked.append(SourceAnswer(name, stage, asked, batch, waited, extra, time.time()))
        return _SourceValues(places, batch, failed, extra)

    def _have_values(self, rows: list[int], batch: PurchaseBatch) -> None:
        """Keep what requests of other sources may use."""
        for feature in self._used.intersection(batch.columns):
            have = self._have.setdefault(feature, [None] * len(self._keys))
            for row, value in zip(rows, batch.columns[feature], strict=True):
                have[row] = as_text(value)

    def _afforded(
        self, name: str, rows: list[int], places: Sequence[int], failed: dict[int, str]
    ) -> tuple[Sequence[int], list[float] | None]:
        """Leave out rows that cannot pay for a source; say what a setup adds for the others."""
        source, limit = self._terms.priced[name], self._terms.max_cost
        if limit is None and source.setup is None:
            return places, None
        kept, extra = [], []
        for place in places:
            opened = self._setups.setdefault(rows[place], set())
            is_new = source.setup is not None and source.setup not in opened
            more = self._terms.costs.setups[source.setup] if is_new else 0.0  # type: ignore[index]
            if limit is not None and self._paid[rows[place]] + source.cost + more > limit:
                failed[place] = BUDGET
                continue
            if source.setup is not None:
                opened.add(source.setup)
            kept.append(place)
            extra.append(more)
        return kept, extra

    def _charge(
        self, rows: list[int], got: dict[str, _SourceValues]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_] | None]:
        """Count what was paid by row, and which rows something was asked for; None: all."""
        (first, *others) = got.values()
        if not others and first.extra is None and len(first.places) == len(rows):  # as usual
            assert first.batch is not None  # as rows were asked for
            cost = np.array(first.batch.paid)
            self._count(rows, cost)
            return cost, None
        cost, bought = np.zeros(len(rows)), np.zeros(len(rows), dtype=np.bool_)
        for one in got.values():
            if one.batch is None:
                continue
            paid = np.array(one.batch.paid)
            if one.extra is not None:  # what opens a setup is paid with the source
                paid += np.where(paid > 0, one.extra, 0.0)
            places = np.array(one.places)
            cost[places] += paid
            bought[places] = True
        self._count(rows, cost)
        return cost, bought

    def _count(self, rows: list[int], cost: NDArray[np.float64]) -> None:
        if self._paid.size:
            self._paid[rows] += cost

    def _read(
        self, ask: Ask, rows: list[int], got: dict[str, _SourceValues], reasons: dict[int, str]
    ) -> tuple[list[Any], NDArray[np.object_] | None]:
        """Read what was fetched, as the model knows its columns; what cannot be is a reason."""
        kept: Sequence[int] = range(len(rows))
        if reasons:
            kept = [place for place in kept if place not in reasons]
        if not kept:
            nothing = np.full(len(rows), np.nan)
            told = np.array([reasons[place] for place in range(len(rows))], dtype=object)
            return [nothing] * len(ask.features), told
        given = self._columns(ask, rows, got, kept, reasons)
        answer = self._terms.decider.examine(given)
        self._judge(rows, got, kept, reasons, answer.reasons)
        self.read.append((ask.rows[kept] if len(kept) < len(rows) else ask.rows, given))
        if not reasons and answer.reasons is None:
            return list(answer.columns), None
        told = np.full(len(rows), ACCEPTED, dtype=object)
        if answer.reasons is not None:
            told[kept] = answer.reasons
        for place, reason in reasons.items():
            told[place] = reason
        if len(kept) == len(rows):
            return list(answer.columns), told
        return [_spread(np.asarray(column), kept, len(rows)) for column in answer.columns], told

    def _columns(
        self,
        ask: Ask,
        rows: list[int],
        got: dict[str, _SourceValues],
        kept: Sequence[int],
        reasons: dict[int, str],
    ) -> dict[str, Any]:
        """Give a column per feature for the rows kept; note values of another type as reasons."""
        columns: dict[str, Any] = {}
        for name, one in got.items():
            features = self._terms.features[name]
            given = self._values(name, features, one, rows, kept)
            spelled = name not in self._known and self._gates[name].source.is_spelled
            if self._terms.is_of_numbers[name]:
                matrix = to_numbers(given, spelled=spelled)
                if matrix is not None:
                    columns.update(zip(features, matrix, strict=True))
                    continue
            for feature, values in zip(features, given, strict=True):
                reader = self._terms.decider.readers.get(feature)
                columns[feature], others = to_column(values, reader, spelled=spelled)
                for i in others:
                    reasons.setdefault(kept[i], reason_for(INVALID_VALUE, feature))
        return {feature: columns[feature] for feature in ask.features}

    def _judge(
        self,
        rows: list[int],
        got: dict[str, _SourceValues],
        kept: Sequence[int],
        reasons: dict[int, str],
        told: Any,
    ) -> None:
        """Tell the callers of sources which of the last rows got invalid values from them."""
        first = max(0, len(kept) - JUDGED)
        last = kept[first:]
        odd: dict[int, str] = {}
        if reasons or told is not None:
            for i, place in enumerate(last, first):
                reason = reasons.get(place) or (ACCEPTED if told is None else told[i])
                if kind_of(reason) == INVALID_VALUE:
                    odd[place] = reason
        for name in got.keys() - self._known:
            its = {reason_for(INVALID_VALUE, f) for f in self._terms.features[name]} if odd else ()
            self._gates[name].caller.judged(
                [(key_text(self._keys[rows[place]]), odd.get(place) in its) for place in last]
            )

    def _values(
        self,
        name: str,
        features: Sequence[str],
        one: _SourceValues,
        rows: list[int],
        kept: Sequence[int],
    ) -> list[list[Any]]:
        """Give the values of each feature for the rows kept."""
        if name in self._known:
            return [[self._have[feature][rows[place]] for place in kept] for feature in features]
        assert one.batch is not None  # as some rows have no reason
        columns = [one.batch.columns[feature] for feature in features]
        if len(one.places) == len(kept) == len(rows):
            return columns
        at = dict(zip(one.places, range(len(one.places)), strict=True))
        return [[values[at[place]] for place in kept] for values in columns]


def _spread(column: NDArray[Any], places: Sequence[int], n_rows: int) -> NDArray[Any]:
    """Put values where their rows are; what stands at the others is never looked at."""
    spread = np.zeros(n_rows, dtype=column.dtype)
    spread[places] = column
    return spread
