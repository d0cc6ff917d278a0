"""`emsco state` and `emsco spend`: the state that services share, and what was spent by it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from emsco.cli._options import options
from emsco.cli._print import print_json, print_text

if TYPE_CHECKING:
    from emsco.serve.incarnation import Incarnation
    from emsco.serve.state import DaySpending, State

Answer = TypeVar("Answer")

_OPEN = (
    "Calls without an outcome. They are in progress, or their process died; the vendor's bill "
    "shows whether they were charged. Until settled, they count as unknown, at full price, and are "
    "not repeated:"
)


@options()
def init(state: str, deployment: str) -> None:
    """Initialize the state of a deployment, once, before its first service starts.

    A service with paid sources never does this itself, because it could not tell a new state from
    one that has lost its data. Do not run it at every start.
    """
    from emsco.serve.incarnation import begin

    _write(state, deployment, begin, "initialized")


@options()
def accept(state: str, deployment: str) -> None:
    """Accept a state that has lost its data, or a different state, and resume paid calls.

    Find out first what was lost. Requests whose ids are no longer in the state are decided and paid
    for again, and the daily limits start over.
    """
    from emsco.serve.incarnation import accept

    _write(state, deployment, accept, "accepted")


def _write(
    state: str,
    deployment: str,
    write: Callable[[State], Awaitable[Incarnation]],
    done: str,
) -> None:
    from emsco.serve.settings import Settings

    name = Settings(state=state, deployment=deployment).deployment  # checked
    new = _ask(state, write, deployment=name)
    print_text(f"The state of {deployment} is {done}: incarnation {new.id}.")


def _ask(address: str, question: Callable[[State], Awaitable[Answer]], **how: Any) -> Answer:
    """Open a state, ask it, and close it."""
    import asyncio

    from emsco.serve.state import open_state

    async def answer() -> Answer:
        state = await open_state(address, **how)
        try:
            return await question(state)
        finally:
            await state.close()

    return asyncio.run(answer())


@options(
    state=typer.Argument(
        envvar="EMSCO_STATE",
        help="The state of the service: redis://..., postgresql://..., or an SQLite file.",
    ),
    day="The day (UTC), such as 2026-01-31. Without it, all days.",
    settle=typer.Option(
        metavar="SOURCE",
        help="Settle the unknown amount of this source on --day, by the vendor's bill.",
    ),
    charged="With --settle: how much of the unknown amount was charged, or 0.",
)
def spend(
    state: str,
    day: str | None = None,
    settle: str | None = None,
    charged: float | None = None,
    as_json: bool = False,
) -> None:
    """Show what a service has spent on each source, by tenant and day.

    "paid" is what answers cost; "unknown" is what calls without an answer may have cost. Calls
    that have no outcome yet are listed below the table.

    Unknown amounts count towards the limit of their day and never expire. When you have the bill,
    settle them with --settle SOURCE --day DAY --charged AMOUNT.
    """
    if settle is not None or charged is not None:
        if settle is None or day is None or charged is None:
            raise typer.BadParameter(
                "--settle needs --day and --charged, and --charged needs --settle."
            )
        unknown = _ask(state, lambda s: s.settle(settle, day, charged), create=False)
        print_text(_settled(settle, day, charged, unknown))
        return
    found = _ask(state, lambda s: s.spend(day), create=False)
    if as_json:
        print_json([asdict(one) for one in found])
    elif not found:
        print_text("Nothing was spent." if day is None else f"Nothing was spent on {day}.")
    else:
        print_text("\n".join(_lines(found)))


def _settled(source: str, day: str, charged: float, unknown: float) -> str:
    from emsco.live.accounts import money

    if not unknown:
        return f"Nothing is unknown for {source} on {day}."
    free = money(max(0.0, unknown - charged), "")
    return (
        f"Of {money(unknown, '')} unknown for {source} on {day}, {money(charged, '')} was charged "
        f"and {free} was not."
    )


def _lines(found: Sequence[DaySpending]) -> list[str]:
    """Format spending as text."""
    from emsco._utils.text_table import text_table

    paid = _amounts([one.paid for one in found], "paid")
    unknown = _amounts([one.unknown for one in found], "unknown")
    rows = [
        [one.source, one.tenant, one.day, *amounts]
        for one, *amounts in zip(found, paid, unknown, strict=True)
    ]
    lines = [text_table(["source", "tenant", "day", "paid", "unknown"], rows)]
    begun = [intent for one in found for intent in one.open]
    if begun:
        prices = _amounts([one.held for one in begun], "price")
        calls = [
            [_moment(one.at), one.source, one.tenant, one.request, one.rows, price, one.id]
            for one, price in zip(begun, prices, strict=True)
        ]
        head = ["begun (UTC)", "source", "tenant", "request", "rows", "price", "call"]
        lines += ["", _OPEN, text_table(head, calls)]
    return lines


def _amounts(amounts: Sequence[float], head: str) -> list[str]:
    """Format amounts of money, right-aligned under a heading."""
    from emsco.live.accounts import money

    texts = [money(amount, "") for amount in amounts]
    width = max(len(head), *map(len, texts))
    return [text.rjust(width) for text in texts]


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
