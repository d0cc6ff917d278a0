"""`emsco spend`: show what a service has spent on its sources, and settle unknown calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import typer

from emsco.cli._options import options

if TYPE_CHECKING:
    from emsco.serve.state import DaySpending, OpenIntent

_OPEN = (
    "Calls without an outcome. They are in progress, or their process died; the vendor's bill "
    "shows whether they were charged. Until settled, they count as unknown, at full price, and are "
    "not repeated:"
)


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
    import asyncio

    from emsco.cli._print import print_json, print_text

    if settle is not None or charged is not None:
        if settle is None or day is None or charged is None:
            raise typer.BadParameter(
                "--settle needs --day and --charged, and --charged needs --settle."
            )
        unknown = asyncio.run(_settle(state, settle, day, charged))
        print_text(_settled(settle, day, charged, unknown))
        return
    found = asyncio.run(_read(state, day))
    if as_json:
        print_json([asdict(one) for one in found])
    elif not found:
        print_text("Nothing was spent." if day is None else f"Nothing was spent on {day}.")
    else:
        print_text("\n".join(_lines(found)))


async def _read(address: str, day: str | None) -> list[DaySpending]:
    from emsco.serve.state import open_state

    state = await open_state(address, create=False)
    try:
        return await state.spend(day)
    finally:
        await state.close()


async def _settle(address: str, source: str, day: str, charged: float) -> float:
    from emsco.serve.state import open_state

    state = await open_state(address, create=False)
    try:
        return await state.settle(source, day, charged)
    finally:
        await state.close()


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

    rows = [[one.source, one.tenant, one.day] for one in found]
    paid, unknown = ([getattr(one, name) for one in found] for name in ("paid", "unknown"))
    amounts = zip(_amounts(paid, "paid"), _amounts(unknown, "unknown"), strict=True)
    table = [[*row, *two] for row, two in zip(rows, amounts, strict=True)]
    lines = [text_table(["source", "tenant", "day", "paid", "unknown"], table)]
    begun = [intent for one in found for intent in one.open]
    if begun:
        lines += ["", _OPEN, _open_table(begun)]
    return lines


def _open_table(begun: Sequence[OpenIntent]) -> str:
    from emsco._utils.text_table import text_table

    prices = _amounts([one.held for one in begun], "price")
    rows = [
        [_moment(one.at), one.source, one.tenant, one.request, one.rows, price, one.id]
        for one, price in zip(begun, prices, strict=True)
    ]
    return text_table(["begun (UTC)", "source", "tenant", "request", "rows", "price", "call"], rows)


def _amounts(amounts: Sequence[float], head: str) -> list[str]:
    """Format amounts of money, right-aligned under a heading."""
    from emsco.live.accounts import money

    texts = [money(amount, "") for amount in amounts]
    width = max(len(head), *map(len, texts))
    return [text.rjust(width) for text in texts]


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
