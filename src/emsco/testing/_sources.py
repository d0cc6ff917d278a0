"""The contract of a live source: the values of the requested keys, and never those of others."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from emsco.core.decisions import ACCEPTED, MISSING
from emsco.exceptions import ContractError
from emsco.live.fetch_result import FetchResult, Key, Values, as_text
from emsco.live.source import LiveSource
from emsco.testing._contract import demand

_ABSENT = "a key that no store has: \U0001f511'\"%{}\\"
_CANCELLED = 100  # fetches, at random moments


def check_source(
    source: LiveSource,
    table: Mapping[Key, Mapping[str, Any]],
    *,
    reasons: Mapping[Key, str] | None = None,
    values: Mapping[Key, Mapping[str, Any]] | None = None,
    n_cancelled: int = _CANCELLED,
) -> None:
    """Check a live source against everything that its users rely on.

    Every key must get its own values, in any order, alone and together with others, also while
    other fetches run and after some were cancelled at random moments. A key that the store does not
    have must be `missing`, and the other keys must still be answered.

    Parameters
    ----------
    source : LiveSource
        The source, with a store that holds `table`.
    table : mapping of key to mapping of feature to value
        The content of the store: at least two keys, all with the same features.
    reasons : mapping of key to str, default=None
        Keys for which the store has no usable answer, with the expected reason.
    values : mapping of key to mapping of feature to value, default=None
        The values that requests use besides the key, if the source needs any.
    n_cancelled : int, default=100
        The number of fetches to cancel.

    Raises
    ------
    ContractError
        At the first broken promise; the message says which one.

    Examples
    --------
    >>> from emsco.live import CallableSource
    >>> from emsco.testing import check_source
    >>> table = {"a": {"age": 3.0}, "b": {"age": 41.0}}
    >>> check_source(CallableSource(function=lambda keys, values: table), table)
    """
    asyncio.run(_SourceContract(source, table, reasons or {}, values or {}).check(n_cancelled))


@dataclass
class _SourceContract:
    """What a source promises, checked by comparing its answers with a table."""

    source: LiveSource
    table: Mapping[Key, Mapping[str, Any]]
    reasons: Mapping[Key, str]
    values: Mapping[Key, Mapping[str, Any]]

    async def check(self, n_cancelled: int) -> None:
        """Ask in every way that a live cascade does."""
        keys = [*self.table, *self.reasons]
        self._client = self.source.open([*next(iter(self.table.values()))])
        try:
            await self.compare_all([], "no keys")
            await self.compare_all(keys, "all keys")
            await self.compare_all(keys[::-1], "keys in another order")
            for key in keys:
                await self.compare_all([key], "a key alone")
            if not self.values:  # a request for a key that nothing is known of cannot be made
                await self.compare_all([keys[0], _ABSENT, keys[-1]], "a key that is not there")
            often = keys * 3
            answers = await asyncio.gather(*(self.ask([key]) for key in often))
            for key, fetched in zip(often, answers, strict=True):
                self.compare([key], fetched, "keys asked for at once")
            await self.check_cancelled(keys, n_cancelled)
        finally:
            await self._client.close()

    async def check_cancelled(self, keys: Sequence[Key], n_cancelled: int) -> None:
        """Cancel fetches at random moments: what they asked for must not reach who asks next."""
        rng, loop = random.Random(0), asyncio.get_running_loop()
        begin = loop.time()
        await self.ask(keys[:1])
        usual = loop.time() - begin
        for _ in range(n_cancelled):
            task = asyncio.ensure_future(self.ask([rng.choice(keys)]))
            await asyncio.sleep(rng.uniform(0, 1.5 * usual))
            task.cancel()
            await self.compare_all([rng.choice(keys)], "a key, after a fetch was cancelled")
            await asyncio.gather(task, return_exceptions=True)

    def ask(self, keys: Sequence[Key]) -> Any:
        """Ask for some keys."""
        values: Values = {n: [self.values[key][n] for key in keys] for n in self.source.needs}
        return self._client.fetch(keys, values)

    async def compare_all(self, keys: Sequence[Key], what: str) -> None:
        """Ask, and compare."""
        try:
            fetched = await self.ask(keys)
        except Exception as error:
            said = self.source.redacted(repr(error))
            raise ContractError(f"Asked for {what}, the source raises {said}.") from error
        self.compare(keys, fetched, what)

    def compare(self, keys: Sequence[Key], fetched: FetchResult, what: str) -> None:
        """Compare an answer with the table."""
        demand(
            len(fetched.reasons) == len(keys), f"Asked for {what}, it gives too many or too few."
        )
        for name, column in fetched.columns.items():
            demand(len(column) == len(keys), f"{name!r} has not a value per key, asked for {what}.")
        for i, key in enumerate(keys):
            expected = self.reasons.get(key, ACCEPTED if key in self.table else MISSING)
            found = fetched.reasons[i]
            demand(found == expected, f"{key!r} is {found!r}, not {expected!r}: {what}.")
            for name, column in fetched.columns.items():
                wanted = self.table[key][name] if expected == ACCEPTED else None
                demand(_same(column[i], wanted), f"{name!r} of {key!r} is another value: {what}.")


def _same(found: Any, wanted: Any) -> bool:
    """Compare values, a number also with the text that spells it: some stores have only text."""
    found = as_text(found)
    if isinstance(found, str) and isinstance(wanted, int | float):
        return float(found) == wanted
    return bool(found == wanted)
