"""The live cascade: fetches what the next stage needs, for the rows that need it, and decides.

Whatever goes wrong with a source ends in a rejected row with a reason, never in a guess and never
in an exception.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from emsco.acquisition.fetched import Key
from emsco.acquisition.gate import Bought, Gate
from emsco.acquisition.receipt import KNOWN, Asked, Receipts
from emsco.acquisition.sources import Sources
from emsco.cascade import Decider
from emsco.cascade.fingerprint import digest_of, fingerprint
from emsco.cascade.loop import Answer, Ask, decide_rows, drive_async
from emsco.exceptions import SourcesError, quoted
from emsco.words.decisions import ACCEPTED, BUDGET, DEADLINE, Decisions, reason_for


class LiveCascade:
    """A cascade that fetches its sources while it decides.

    Parameters
    ----------
    cascade : CascadeClassifier, or CascadeSearchCV
        The fitted cascade; of a search, the chosen one.
    sources : Sources
        How each source is fetched.
    max_cost : float, default=None
        The most that a decision may cost. A row that would need more is rejected. None: no limit.
    deadline : float, default=None
        How many seconds a decision may take. A row that would need more is rejected. None: no
        limit.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from emsco import CascadeClassifier, StageDesign
    >>> from emsco.acquisition import CallableSource, LiveCascade, Sources
    >>> X, y = load_iris(return_X_y=True)
    >>> cascade = CascadeClassifier(design=StageDesign([1, 1, 0, 0])).fit(X, y)
    >>> def column(place):
    ...     def fetch(keys, values):
    ...         return {key: {f"x{place}": X[key, place]} for key in keys}
    ...     return CallableSource(function=fetch)
    >>> sources = Sources({f"x{place}": column(place) for place in range(4)})
    >>> live = LiveCascade(cascade, sources)
    >>> decisions = live.decide_now(keys=[3, 70, 149])
    >>> bool((decisions.label == cascade.predict(X[[3, 70, 149]])).all())
    True
    >>> decisions[0].receipt.not_needed
    ('x0', 'x1')
    >>> live.close_now()
    """

    def __init__(
        self,
        cascade: Any,
        sources: Sources | Mapping[str, Any],
        *,
        max_cost: float | None = None,
        deadline: float | None = None,
    ) -> None:
        cascade = getattr(cascade, "best_cascade_", cascade)
        decider: Decider = cascade.decider_
        if decider.layout.answers is not None:
            raise SourcesError("A cascade before logged answers decides tables, not live rows.")
        self._decider, self._costs = decider, decider.costs
        self._sources = sources if isinstance(sources, Sources) else Sources(sources)
        self._bought = tuple(s for stage in decider.plan.stages for s in stage.sources)
        self._sources.check(self._costs, self._bought)
        self._max_cost, self._deadline = max_cost, deadline
        self._model, self._prices = fingerprint(decider), digest_of(self._costs.to_toml())
        self._gates: dict[str, Gate] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: _LoopThread | None = None

    async def __aenter__(self) -> Self:
        self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _open(self) -> dict[str, Gate]:
        loop = asyncio.get_running_loop()
        if self._gates is not None and self._loop is not loop:
            raise SourcesError(
                "A live cascade belongs to the event loop that it was opened in; close it, or "
                "make another one."
            )
        self._loop = loop
        if self._gates is None:
            by_name = {source.name: source for source in self._costs.sources}
            self._gates = {
                name: Gate(self._sources[name], self._costs.columns(name), by_name[name].cost)
                for name in self._bought
            }
        return self._gates

    async def close(self) -> None:
        """Close every connection."""
        gates, self._gates = self._gates, None
        await asyncio.gather(*(gate.close() for gate in (gates or {}).values()))

    async def decide(self, keys: Sequence[Key], known: Any = None) -> Decisions:
        """Decide the rows that keys name.

        Parameters
        ----------
        keys : sequence
            Texts or whole numbers.
        known : frame, or mapping of feature to values, default=None
            What the caller has already, a value per key. A source wholly known is free and is not
            fetched; one that is known in part is refused.
        """
        gates = self._open()
        keys = list(keys)
        call = _Call(self, gates, keys, _read_known(known, len(keys)))
        decisions = await drive_async(decide_rows(self._decider.plan, len(keys)), call.answer)
        receipts = Receipts(
            call.asked, len(keys), self._bought, self._costs, self._prices, self._model
        )
        index = np.empty(len(keys), dtype=object)
        index[:] = keys
        return decisions.indexed(index).receipted(receipts)

    def decide_now(self, keys: Sequence[Key], known: Any = None) -> Decisions:
        """Decide from code that is not async; the event loop runs in a thread of its own."""
        if self._thread is None:
            self._thread = _LoopThread()
        decided: Decisions = self._thread.run(self.decide(keys, known))
        return decided

    def close_now(self) -> None:
        """Close what `decide_now` has opened."""
        if self._thread is not None:
            self._thread.run(self.close())
            self._thread.stop()
            self._thread = None


def _read_known(known: Any, n_rows: int) -> dict[str, list[Any]]:
    """Read what the caller has already."""
    if known is None:
        return {}
    names = known.columns if hasattr(known, "columns") else known
    read = {str(name): list(known[name]) for name in names}
    for name, column in read.items():
        if len(column) != n_rows:
            raise SourcesError(f"`known` has {len(column)} values of {name!r} for {n_rows} keys.")
    return read


class _Call:
    """One call of `decide`: what its rows have and have paid so far."""

    def __init__(
        self,
        live: LiveCascade,
        gates: dict[str, Gate],
        keys: list[Key],
        known: dict[str, list[Any]],
    ) -> None:
        self._live, self._gates, self._keys = live, gates, keys
        self._decider, self._costs = live._decider, live._costs
        self._loop = asyncio.get_running_loop()
        self._until = None if live._deadline is None else self._loop.time() + live._deadline
        self.asked: list[Asked] = []
        self._paid = np.zeros(len(keys))
        self._setups: list[set[str]] = [set() for _ in keys]
        # Every value that the rows have, by feature: what later requests may use.
        self._have: dict[str, list[Any]] = known
        self._known = self._known_sources()
        self._refuse_unmet()

    def _known_sources(self) -> set[str]:
        """Name the sources that the caller has wholly; one in part cannot be fetched in part."""
        whole = set()
        for name in self._live._bought:
            features = self._costs.columns(name)
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
        by_name = {source.name: source for source in self._costs.sources}
        for name in self._live._bought:
            required = [f for other in by_name[name].requires for f in self._costs.columns(other)]
            lacking = sorted(self._gates[name].source.needs - {*self._have, *required})
            if lacking and name not in self._known:
                raise SourcesError(
                    f"Source {name!r} uses {quoted(lacking)}: give it in `known`, or let it "
                    "require the one that yields it."
                )

    async def answer(self, ask: Ask) -> Answer:
        """Fetch what a stage needs, each source after those that it requires."""
        begin = self._loop.time()
        rows = ask.rows.tolist()
        reasons: dict[int, str] = {}
        spent = np.zeros(len(self._keys))
        touched = np.zeros(len(self._keys), dtype=np.bool_)
        left = list(ask.sources)
        by_name = {source.name: source for source in self._costs.sources}
        while left:
            ready = [n for n in left if not set(by_name[n].requires) & set(left)]
            fine = [row for row in rows if row not in reasons]
            found = await asyncio.gather(*(self._fetch(n, ask.stage, fine, begin) for n in ready))
            for name, (failed, paid, asked) in zip(ready, found, strict=True):
                for row, reason in failed.items():
                    reasons.setdefault(row, reason_for(reason, name))
                spent += paid
                touched |= asked
            left = [name for name in left if name not in ready]
        waited = np.full(len(rows), self._loop.time() - begin)
        return self._answered(ask, rows, reasons, spent[ask.rows], waited, touched[ask.rows])

    async def _fetch(
        self, name: str, stage: int, rows: list[int], begin: float
    ) -> tuple[dict[int, str], NDArray[np.float64], NDArray[np.bool_]]:
        """Fetch one source for some rows: who got nothing and why, what was paid, who was asked."""
        n_rows = len(self._keys)
        paid, asked = np.zeros(n_rows), np.zeros(n_rows, dtype=np.bool_)
        failed: dict[int, str] = {}
        if name in self._known:
            self._note(
                name, stage, rows, [Bought(None, how=KNOWN)] * len(rows), [0.0] * len(rows), begin
            )
            asked[rows] = True
            return failed, paid, asked
        rows, extra = self._afforded(name, rows, failed)
        if rows and self._until is not None and self._loop.time() >= self._until:
            failed |= dict.fromkeys(rows, DEADLINE)
            rows = []
        if not rows:
            return failed, paid, asked
        gate = self._gates[name]
        values = {need: [self._have[need][row] for row in rows] for need in gate.source.needs}
        got = await gate.fetch([self._keys[row] for row in rows], values, self._until)
        for feature in gate.features:
            self._have.setdefault(feature, [None] * n_rows)
        for row, bought, more in zip(rows, got, extra, strict=True):
            more = more if bought.paid else 0.0  # what opens a setup is paid with the source
            paid[row] = bought.paid + more
            asked[row] = True
            self._paid[row] += paid[row]
            if bought.reason != ACCEPTED:
                failed[row] = bought.reason
                continue
            assert bought.values is not None  # as there is no reason why not
            for feature, value in zip(gate.features, bought.values, strict=True):
                self._have[feature][row] = value
        self._note(name, stage, rows, got, extra, begin)
        return failed, paid, asked

    def _afforded(
        self, name: str, rows: list[int], failed: dict[int, str]
    ) -> tuple[list[int], list[float]]:
        """Leave out rows for which a source is too dear; what a setup adds, for the others."""
        (source,) = [source for source in self._costs.sources if source.name == name]
        kept, extra = [], []
        for row in rows:
            more = 0.0
            if source.setup is not None and source.setup not in self._setups[row]:
                more = self._costs.setups[source.setup]
            limit = self._live._max_cost
            if limit is not None and self._paid[row] + source.cost + more > limit:
                failed[row] = BUDGET
                continue
            if source.setup is not None:
                self._setups[row].add(source.setup)
            kept.append(row)
            extra.append(more)
        return kept, extra

    def _note(
        self,
        name: str,
        stage: int,
        rows: list[int],
        got: list[Bought],
        extra: list[float],
        begin: float,
    ) -> None:
        waited = self._loop.time() - begin
        self.asked.append(Asked(name, stage, rows, got, waited, extra, time.time()))

    def _answered(
        self,
        ask: Ask,
        rows: list[int],
        reasons: dict[int, str],
        cost: NDArray[np.float64],
        waited: NDArray[np.float64],
        bought: NDArray[np.bool_],
    ) -> Answer:
        """Read what was fetched, as the model knows its columns; what cannot be is a reason."""
        fine = np.array([row not in reasons for row in rows], dtype=np.bool_)
        given = {
            f: _column([self._have[f][row] for row in rows if row not in reasons])
            for f in ask.features
            if fine.any()
        }
        told = np.array([reasons.get(row, ACCEPTED) for row in rows], dtype=object)
        if not fine.any():
            nothing = np.full(len(rows), np.nan)
            return Answer([nothing] * len(ask.features), told, cost, waited, bought)
        answer = self._decider.examine(given)
        if answer.reasons is not None:
            told[fine] = answer.reasons
        if fine.all():
            return Answer(
                answer.columns, told if (told != ACCEPTED).any() else None, cost, waited, bought
            )
        columns = [_spread(np.asarray(column), fine) for column in answer.columns]
        return Answer(columns, told, cost, waited, bought)


def _column(values: list[Any]) -> NDArray[np.object_]:
    """Make a column of whatever came; a list is a value like any other, and none that is known."""
    column = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        column[i] = value
    return column


def _spread(column: NDArray[Any], fine: NDArray[np.bool_]) -> NDArray[Any]:
    """Put values where their rows are; what stands at the others is never looked at."""
    spread = np.zeros(len(fine), dtype=column.dtype)
    spread[fine] = column
    return spread


class _LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Any) -> Any:
        """Run a coroutine there, and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def stop(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
