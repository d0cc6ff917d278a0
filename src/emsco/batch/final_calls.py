"""Calls of the final model: a function, a model or a live source; some at the same time.

Whatever it is, a call is made for some rows and brings a label for each, or None. A call that
raises an error brings none, and its rows count as failed; a call that a live source does not answer
is such a one. If all calls of a round raise, it may be that the rows are not at fault: the error is
reported instead where nothing is lost by that.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from emsco._utils.progress import tell
from emsco.batch.answers_store import AnswersStore
from emsco.core.decisions import BUDGET, CIRCUIT_OPEN, ERROR, TIMEOUT
from emsco.exceptions import ArtifactError, BatchError, EndpointError, SourcesError, quoted
from emsco.learners.final_model import predict_labels
from emsco.live.coalescing import CoalescingGate, open_gate
from emsco.live.fetch_result import as_text
from emsco.live.source import LiveSource
from emsco.rows.columns import listed

Rows = NDArray[np.intp]
_MODEL_ROWS = 1_000  # in a call of a model in this process
_MANY_ROWS = 10  # that all fail: the model is down, and with a job it can be asked again later
_PAUSE = 1.0  # seconds until a source that failed may be called again
_NOT_ANSWERED = {BUDGET, ERROR, TIMEOUT}  # the source is at fault, not the row


class FinalModel(Protocol):
    """What answers calls: rows in, one label or None for each out."""

    async def __call__(self, rows: Rows) -> Sequence[Any]:
        """Return the label of each row, None where there is none."""


@runtime_checkable
class OpenedFinal(Protocol):
    """A final model that holds connections while it is called, such as a ChatModel."""

    @property
    def concurrency(self) -> int:
        """How many calls it takes at the same time."""

    def open_calls(self) -> AbstractAsyncContextManager[FinalModel]:
        """Open the connections, and give what is called."""


@dataclass(frozen=True)
class Calls:
    """How the final model is called.

    Parameters
    ----------
    final : callable, model or live source
        The final model.
    rows_of : callable
        What it receives for some positions: the rows of X, or the positions.
    keys : sequence or None
        The key of each row, for a live source.
    answer : str
        The feature that is the answer of a live source.
    price : float or None
        The price of a row.
    concurrency : int
        How many calls are made at the same time, at most.
    rows_per_call : int or None
        The rows in a call; None: as many as suits what is called.
    """

    final: Any
    rows_of: Callable[[Rows], Any]
    keys: Sequence[Any] | None = None
    answer: str = "label"
    price: float | None = None
    concurrency: int = 8
    rows_per_call: int | None = None

    @property
    def is_spelled(self) -> bool:
        """Whether every label comes as text, whatever it was."""
        return isinstance(self.final, LiveSource) and self.final.is_spelled

    def size(self, n_rows: int, *, stored: bool) -> int:
        """Return the rows in a call.

        Where answers are stored, a call has one row, so that little is lost if the process is
        killed; otherwise a function gets all at once. A model in this process costs nothing.
        """
        if self.rows_per_call is not None:
            return self.rows_per_call
        if isinstance(self.final, LiveSource):
            return min(self.final.rows_per_call or n_rows, n_rows)
        if isinstance(self.final, OpenedFinal):
            return 1
        if hasattr(self.final, "predict"):
            return _MODEL_ROWS
        return 1 if stored else n_rows

    @property
    def most(self) -> int:
        """How many calls are made at the same time: of the final model itself, if it says so."""
        return self.final.concurrency if isinstance(self.final, OpenedFinal) else self.concurrency

    @asynccontextmanager
    async def open(self) -> AsyncIterator[FinalModel]:
        """Open what is called."""
        if isinstance(self.final, LiveSource):
            gate = open_gate("final", self.final, [self.answer], self.price or 0.0)
            try:
                yield partial(self._fetch, gate)
            finally:
                await gate.close()
            return
        if isinstance(self.final, OpenedFinal):
            async with self.final.open_calls() as call:
                yield partial(self._call_opened, call)
            return
        pool = ThreadPoolExecutor(self.concurrency)
        try:
            yield partial(self._call, pool)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    async def _fetch(self, gate: CoalescingGate, rows: Rows) -> Sequence[Any]:
        assert self.keys is not None
        keys = [self.keys[row] for row in rows.tolist()]
        labels: list[Any] = [None] * len(keys)
        reasons = [CIRCUIT_OPEN] * len(keys)
        while waiting := [i for i, reason in enumerate(reasons) if reason == CIRCUIT_OPEN]:
            found = await gate.fetch([keys[i] for i in waiting], {})
            column = found.columns.get(self.answer, labels)  # none if nothing was answered
            for i, reason, label in zip(waiting, found.reasons, column, strict=False):
                reasons[i], labels[i] = reason, None if reason else as_text(label)
            if CIRCUIT_OPEN in found.reasons:  # those rows were not sent
                await asyncio.sleep(_PAUSE)
        if _NOT_ANSWERED.issuperset(reasons):
            raise SourcesError(f"the source did not answer ({quoted(sorted({*reasons}))})")
        return labels

    async def _call_opened(self, call: Callable[[Any], Any], rows: Rows) -> Sequence[Any]:
        return _in_order(await call(self.rows_of(rows)), rows)

    async def _call(self, pool: ThreadPoolExecutor, rows: Rows) -> Sequence[Any]:
        final, sent = self.final, self.rows_of(rows)
        loop = asyncio.get_running_loop()
        if hasattr(final, "predict"):
            labels = await loop.run_in_executor(pool, predict_labels, final, sent, len(rows))
            return listed(labels)
        if inspect.iscoroutinefunction(final):
            found = await final(sent)
        else:
            found = await loop.run_in_executor(pool, final, sent)
            if inspect.isawaitable(found):  # an object with an async `__call__`
                found = await found
        return _in_order(found, rows)


def _in_order(found: Any, rows: Rows) -> Sequence[Any]:
    """Return one label per row, from a sequence or a mapping of position to label."""
    if isinstance(found, Mapping):
        unknown = found.keys() - set(rows.tolist())
        if unknown:
            one = min(unknown, key=repr)
            raise BatchError(f"The final model answered for row {one!r}, which it was not sent.")
        return [found.get(row) for row in rows.tolist()]
    if isinstance(found, str | bytes) or not hasattr(found, "__len__"):
        raise BatchError(
            f"The final model must return a label for each row, or None, got a "
            f"{type(found).__name__}."
        )
    labels = listed(found)
    if len(labels) != len(rows):
        raise BatchError(
            f"The final model must return a label for each of {len(rows):,} rows, or None where "
            f"it has none; it returned {len(labels):,}."
        )
    return labels


def check_calls(calls: Calls, n_rows: int) -> None:
    """Refuse what cannot be called."""
    final = calls.final
    if isinstance(final, LiveSource):
        if calls.keys is None or len(calls.keys) != n_rows:
            raise BatchError("A live source is asked by key: give `keys`, one for each row.")
        if final.needs or not final.is_fetched:
            raise BatchError(
                "A live source as the final model must answer by key alone; "
                + (
                    f"this one uses {quoted(sorted(final.needs))}."
                    if final.needs
                    else "this one is never called."
                )
            )
    elif not callable(final) and not hasattr(final, "predict"):
        raise BatchError(
            "`final` must be a function of rows, a model with `predict` or a live source, got a "
            f"{type(final).__name__}."
        )
    for name in ("concurrency", "rows_per_call"):
        value = getattr(calls, name)
        if value is not None and (not isinstance(value, int) or value < 1):
            raise BatchError(f"`{name}` must be a whole number from 1 on, got {value!r}.")


async def call_all(
    calls: Calls,
    rows: Rows,
    *,
    what: str,
    store: AnswersStore,
    read: Callable[[Sequence[Any]], Sequence[Any]] = list,
) -> None:
    """Call the final model for all these rows, and record every answer as it comes.

    `read` gives the labels that are recorded, and refuses those that cannot be.
    """
    size = calls.size(len(rows), stored=store.folder is not None)
    parts = iter([rows[start : start + size] for start in range(0, len(rows), size)])
    failed: list[Rows] = []
    errors: list[Exception] = []
    n_done = 0

    async def work(call: FinalModel) -> None:
        nonlocal n_done
        for part in parts:
            store.begin(part.tolist())
            try:
                labels = read(await call(part))
            except (BatchError, EndpointError, ArtifactError):
                raise  # it is not these rows
            except Exception as error:  # it is somebody else's code
                errors.append(error)
                failed.append(part)
                store.end(part.tolist())
            else:
                store.record(list(zip(part.tolist(), labels, strict=True)))
            n_done += len(part)
            report()

    def report() -> None:
        paid = calls.price and f", {n_done * calls.price:.6g} of {len(rows) * calls.price:.6g} paid"
        tell(f"{what}: {n_done:,} of {len(rows):,} rows{paid or ''}", n_done / len(rows))

    report()
    async with calls.open() as call:
        workers = [
            asyncio.create_task(work(call)) for _ in range(min(calls.most, -(-len(rows) // size)))
        ]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
    if not failed:
        return
    is_down = store.folder is not None and len(rows) >= _MANY_ROWS
    if sum(map(len, failed)) == len(rows) and (is_down or not store.answers()):
        raise BatchError(
            f"The final model answered no row: every call raised an error, first "
            f"{type(errors[0]).__name__}: {errors[0]}."
        ) from errors[0]
    store.record([(row, None) for part in failed for row in part.tolist()])
