"""`emsco costs measure`: time sources, and write their latencies into the file of prices."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from emsco.cli._errors import in_shell, note
from emsco.cli._key_file import KeyColumn, KeysFile, MaxSpend, SourcesFile
from emsco.cli._options import NewlinesInCells

if TYPE_CHECKING:
    from emsco.live.latencies import LatencyMeasurement

_ROUNDS = 20


def measure(
    costs: Annotated[Path, typer.Argument(help="The file of prices; latencies are written to it.")],
    sources: SourcesFile,
    keys: KeysFile,
    key_column: KeyColumn = None,
    max_spend: MaxSpend = None,
    rounds: Annotated[
        int,
        typer.Option(
            min=1, help="How many requests for one row, and for many, are sent to each source."
        ),
    ] = _ROUNDS,
    newlines_in_cells: NewlinesInCells = False,
) -> None:
    """Time sources, and write their latencies into the file of prices.

    The latency of a source is the median time (p50) of a request for one row, in seconds. Nothing
    else in the file is changed.

    Requests for all keys at once, at most 100, are timed too. Sources with `paid = true` are
    measured only within --max-spend, with a single request for many rows.
    """
    import asyncio

    from emsco.cli._key_file import needs_of, read_keys
    from emsco.cli._print import print_text
    from emsco.cli.search import load_costs
    from emsco.exceptions import SourcesError, quoted
    from emsco.live import Sources
    from emsco.live.accounts import money
    from emsco.live.latencies import measure as measure_sources
    from emsco.live.latencies import write_latencies

    prices, described = load_costs(costs), Sources.from_toml(sources)
    read = read_keys(keys, key_column, needs_of(described), newlines_in_cells=newlines_in_cells)
    found = asyncio.run(
        measure_sources(
            prices, described, read.keys, read.known, rounds=rounds, max_spend=max_spend
        )
    )
    print_text(_table(found))
    if found.cost:
        message = f"{money(found.cost, prices.unit)} spent."
        if found.unknown:
            message += f" Of this, {money(found.unknown, prices.unit)} may not have been charged."
        note(message)
    for timing in found.timings:
        if timing.problem:
            note(f"emsco: {timing.source!r} was not measured: {in_shell(timing.problem)}.")
    if not found.latencies:
        raise SourcesError(f"No source could be measured; {costs} is unchanged.")
    write_latencies(costs, found.latencies)
    note(f"Written: {costs}, with the latency of {quoted(found.latencies)} in seconds.")
    others = [s.name for s in prices.sources if s.latency and s.name not in found.latencies]
    if others or (prices.review is not None and prices.review.latency):
        listed = quoted([*others, *(["review"] if prices.review and prices.review.latency else [])])
        note(f"emsco: the latency of {listed} is unchanged; make sure that it is in seconds too.")


def _table(found: LatencyMeasurement) -> str:
    from emsco._utils.text_table import text_table
    from emsco.live.latencies import quantile

    rows = [
        [
            timing.source,
            len(timing.one),
            *(_ms(quantile(timing.one, share)) for share in (0.5, 0.95)),
            timing.rows if timing.many else "-",
            *(_ms(quantile(timing.many, share)) for share in (0.5, 0.95)),
            sum(timing.failed.values()),
        ]
        for timing in found.timings
    ]
    head = ["source", "requests", "p50 ms", "p95 ms", "rows at once", "p50 ms", "p95 ms", "failed"]
    return text_table(head, rows)


def _ms(seconds: float | None) -> Any:
    return "-" if seconds is None else 1000 * seconds
