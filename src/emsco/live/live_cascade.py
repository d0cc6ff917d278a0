"""The live cascade: fetches the sources of each stage for undecided rows, and decides.

Any failure of a source rejects the row with a reason; it never leads to a guess or an exception.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from emsco.cascade import decider_of
from emsco.cascade.decision_loop import decide_rows, drive_async
from emsco.core.decisions import ACCEPTED, Decisions
from emsco.exceptions import Parameter, SourcesError
from emsco.live.accounts import NO_REQUEST, Accounts, OwnAccounts, RequestContext
from emsco.live.call import Call
from emsco.live.coalescing import CoalescingGate, open_gate
from emsco.live.decision_log import DECISIONS, DROP, NO_LOG, DecisionLog, HeldWrites
from emsco.live.fetch_result import Key
from emsco.live.few_rows import MOST_ROWS, decide_fetched_rows, decide_known_rows
from emsco.live.live_plan import LivePlan
from emsco.live.purchases import Receipts, SourceSpending
from emsco.live.sources import Sources


class LiveCascade:
    """A cascade that fetches its sources while it decides.

    Parameters
    ----------
    cascade : CascadeClassifier, or CascadeSearchCV
        The fitted cascade; of a search, the chosen one.
    sources : Sources
        How each source is fetched.
    max_cost : float, default=None
        The maximum cost of a decision. A row that would need more is rejected. None: no limit.
    deadline : float, default=None
        The maximum duration of a decision, in seconds. A row that would need more is rejected.
        None: no limit.
    log : path, default=None
        The folder to which decisions are appended, as JSON lines. A key appears as its HMAC, with
        the secret in the environment variable EMSCO_LOG_KEY. None: nothing is logged.
    log_values : bool, default=False
        Whether the log also contains the values of features.
    on_log_failure : {"drop", "reject"}, default="drop"
        What happens to decisions that cannot be logged: they are returned and counted in
        `log_dropped`, or their rows are rejected before anything is bought.
    accounts : Accounts, default=None
        Count daily spending and failing sources, if several processes share them. None: accounts
        of this process alone.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from emsco import CascadeClassifier, StageDesign
    >>> from emsco.live import CallableSource, LiveCascade, Sources
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
        log: str | os.PathLike[str] | None = None,
        log_values: bool = False,
        on_log_failure: str = DROP,
        accounts: Accounts | None = None,
    ) -> None:
        decider = decider_of(cascade)
        if decider.layout.answers is not None:
            raise SourcesError(
                "A cascade in front of logged answers can decide tables only, not live rows."
            )
        _check_limits(max_cost=max_cost, deadline=deadline)
        self._terms = LivePlan(decider, max_cost)
        self._sources = sources if isinstance(sources, Sources) else Sources(sources)
        self._sources.check(self._terms.costs, self._terms.bought)
        needs = (self._sources[name].needs for name in self._terms.bought)
        self._used = frozenset(feature for needed in needs for feature in needed)
        self._deadline = deadline
        self._log = None if log is None else DecisionLog(log, on_log_failure)
        self._log_values = log_values
        self._gates: dict[str, CoalescingGate] | None = None
        self._spending: dict[str, SourceSpending] = {}
        self._accounts = OwnAccounts() if accounts is None else accounts
        self._left_alone: set[str] = set()  # sources that fail for other processes
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: _LoopThread | None = None

    def __repr__(self) -> str:
        return f"LiveCascade(model={self._terms.model[:12]!r}, sources={list(self._sources)})"

    @property
    def model(self) -> str:
        """The digest of the cascade."""
        return self._terms.model

    @property
    def terms(self) -> LivePlan:
        """The data that all decisions share: the model, its sources and their prices."""
        return self._terms

    @property
    def gates(self) -> Mapping[str, CoalescingGate]:
        """The gate of each source, while this live cascade is open."""
        return MappingProxyType(self._gates or {})

    @property
    def promise(self) -> str:
        """What a certificate of the cascade means for live decisions."""
        return self._terms.promise

    @property
    def spending(self) -> Mapping[str, SourceSpending]:
        """The spending on each source since this live cascade was created."""
        return MappingProxyType(self._spending)

    def leave_alone(self, failing: Collection[str]) -> None:
        """Stop calling sources that fail for other processes, and resume those that recovered."""
        for name, gate in (self._gates or {}).items():
            if name in failing:
                gate.caller.breaker.open()
                self._left_alone.add(name)
            elif name in self._left_alone:
                gate.caller.breaker.close()
                self._left_alone.remove(name)

    @property
    def log_dropped(self) -> int:
        """The number of decisions that could not be written to the log."""
        return 0 if self._log is None else self._log.lost[DECISIONS]

    @property
    def log(self) -> DecisionLog | None:
        """The log of decisions; None: nothing is logged."""
        return self._log

    async def __aenter__(self) -> Self:
        self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _open(self) -> dict[str, CoalescingGate]:
        loop = asyncio.get_running_loop()
        if self._gates is not None and self._loop is not loop:
            raise SourcesError(
                "A live cascade must be used in the event loop in which it was opened; close it, "
                "or create another one."
            )
        self._loop = loop
        if self._gates is None:
            terms = self._terms
            self._gates = {
                name: open_gate(
                    name, self._sources[name], terms.features[name], terms.priced[name].cost,
                    self._spending.setdefault(name, SourceSpending()), self._accounts,
                )
                for name in terms.bought
            }  # fmt: skip
        return self._gates

    async def close(self) -> None:
        """Close every connection."""
        gates, self._gates = self._gates, None
        await asyncio.gather(*(gate.close() for gate in (gates or {}).values()))

    async def decide(
        self,
        keys: Sequence[Key],
        known: Any = None,
        *,
        call: str | Sequence[str] | None = None,
        factors: bool = False,
        values: list[dict[str, Any]] | None = None,
        refused: str = ACCEPTED,
        held: HeldWrites | None = None,
        context: RequestContext = NO_REQUEST,
    ) -> Decisions:
        """Decide the rows with these keys.

        Parameters
        ----------
        keys : sequence
            Strings or integers.
        known : frame, or mapping of feature to values, default=None
            The values that the caller already has, one per key. A source that is fully known is
            free and is not fetched; one that is known in part raises an error.
        call : str, or sequence of str, default=None
            The id of the call, with which the ids of its decisions begin, or the ids of its
            decisions. None: a new one.
        factors : bool, default=False
            Whether decisions say how much each feature contributed (`Decision.factors`).
        values : list, default=None
            A list that receives, for each key, the values by feature from which it was decided.
        refused : str, default=""
            A reason for which all rows are rejected, without calling any source.
        held : list, default=None
            A list that receives a function that writes the log. None: it is written now.
        context : RequestContext
            The request that paid calls are made for.
        """
        room = nullcontext(True) if self._log is None else self._log.room(len(keys))
        async with room as is_there:
            refused = refused if is_there else NO_LOG
            gates, keys = self._open(), _read_keys(keys)
            have = _read_known(known, len(keys))
            terms, receipts = self._terms, Receipts(self._terms, len(keys), call)
            needs_values = factors or values is not None or self._log_values
            decisions = None
            has_cap = terms.decider.cap is not None  # which the decision loop enforces
            are_few = 0 < len(keys) <= MOST_ROWS and not (refused or needs_values or has_cap)
            if are_few:
                decisions = decide_known_rows(terms, have, receipts)
            if decisions is None:
                made = Call(terms, gates, keys, have, self._used, self._deadline, receipts, context)
                if are_few:
                    decisions = await decide_fetched_rows(terms.decider, made, len(keys))
            if decisions is None:
                answer = partial(made.refuse, reason=refused) if refused else made.answer
                loop = decide_rows(terms.decider.plan, len(keys), stakes=_stakes(terms, have))
                decisions = await drive_async(loop, answer)
            index = np.empty(len(keys), dtype=object)
            index[:] = keys
            decisions = decisions.beside(index=index, receipts=receipts)
            if factors:
                contributions = terms.decider.factors(made.columns(), decisions)
                decisions = decisions.beside(factors=contributions)
            if values is not None:
                values += made.values()
            if self._log is None or refused == NO_LOG:
                return decisions
            logged = made.values() if self._log_values else None
            is_logged = await self._log.write(decisions, logged, held=held)
        return decisions if is_logged or not self._log.rejects else decisions.rejected(NO_LOG)

    def decide_now(self, keys: Sequence[Key], known: Any = None) -> Decisions:
        """Decide from code that is not async; the event loop runs in a separate thread."""
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


def _check_limits(**limits: float | None) -> None:
    for name, limit in limits.items():
        is_number = isinstance(limit, int | float) and not isinstance(limit, bool)
        if limit is not None and not (is_number and limit > 0):
            raise SourcesError(
                Parameter(name) + f" must be a number above 0, or None, got {limit!r}.", value=limit
            )


def _read_keys(keys: Sequence[Key]) -> list[Key]:
    """Check that keys are strings or integers; an error must not contain them."""
    read = [key.item() if isinstance(key, np.generic) else key for key in keys]
    for kind in set(map(type, read)):
        if not issubclass(kind, str | int | bytes) or kind is bool:
            raise SourcesError(f"Keys must be strings or integers, got a {kind.__name__}.")
    return read


def _read_known(known: Any, n_rows: int) -> dict[str, list[Any]]:
    """Read the values that the caller already has."""
    if known is None:
        return {}
    names = known.columns if hasattr(known, "columns") else known
    read = {str(name): _listed(known[name]) for name in names}
    for name, column in read.items():
        if len(column) != n_rows:
            raise SourcesError(
                Parameter("known")
                + f" must have one value per key, got {len(column)} values of {name!r} for "
                f"{n_rows} keys."
            )
    return read


def _stakes(terms: LivePlan, known: Mapping[str, list[Any]]) -> list[Any] | None:
    """Return the stakes of rows, which the caller of a cascade with a cap must send."""
    cap = terms.decider.cap
    if cap is None:
        return None
    if cap.column not in known:
        raise SourcesError(
            f"The cascade accepts no row with a stake above {cap.cap:g}, so every row needs its "
            f"stake: give {cap.column!r} in " + Parameter("known") + "."
        )
    return known[cap.column]


def _listed(column: Any) -> list[Any]:
    to_list = getattr(column, "tolist", None) or getattr(column, "to_list", None)
    return list(column if to_list is None else to_list())


class _LoopThread:
    """An event loop in a separate thread."""

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
