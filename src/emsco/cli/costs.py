"""`emsco costs`: a file of prices, valid as written, and the latencies measured for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from emsco.cli._errors import in_shell, note
from emsco.cli._options import options
from emsco.cli._output_files import check_outputs
from emsco.cli._print import print_text
from emsco.core.value_type import LONG_TEXT, TEXT_KIND

if TYPE_CHECKING:
    from emsco.live.latencies import LatencyMeasurement
    from emsco.rows.column_findings import ColumnFinding

_HEAD = """\
# The cost of each source per row. Every price is 1 until you change it.
#
# A source is what is bought as a unit. By default it is one column and has its name. A source that
# yields several columns, or that shares a cost with other sources, is written as a table:
#
#   blood = { cost = 5.17, features = ["chol", "sugar"], setup = "draw" }
#
# The shared cost, paid once per row, goes under [setups]. `latency` is how long a source takes, and
# `requires` lists sources that must be bought before it or in the same stage, where it waits for
# them. `type` says what columns hold, if their values mislead: "text" (04300 keeps its zero),
# "number", "category", "date" (the days since 1970-01-01), or "skip" for a column that must not be
# used, such as an id. `kind = "text"` is for long text, such as messages, whose words count.

unit = ""  # of every price, such as "EUR"

[sources]
"""
_TAIL = """
# [setups]
# draw = 2.10

# [review]  # what happens to a rejected row
# cost = 25.0
"""


@options(
    out="The file to write.",
)
def init(
    data: Path,
    label: str,
    out: Path = Path("costs.toml"),
    force: bool = False,
    newlines_in_cells: bool = False,
) -> None:
    """Write a file of prices to fill in: one source per column, each with cost 1."""
    from emsco._utils.atomic_write import write_whole
    from emsco._utils.toml_writer import toml_key
    from emsco.cli._findings import inspect_columns, leaks_of
    from emsco.cli._labelled_frame import read_labelled
    from emsco.cli._table_file import open_rows
    from emsco.exceptions import quoted
    from emsco.rows.column_findings import count_copies

    check_outputs([out], [data], force=force)
    X, y = read_labelled(open_rows(data, newlines_in_cells=newlines_in_cells), label)
    findings = inspect_columns(X, {})
    leaks = leaks_of(X, y, findings, {})
    keys = [toml_key(name) for name in X.columns]
    width = max(map(len, keys), default=0)
    lines = [
        f"{key:<{width}} = {_entry(findings.get(name))}  # "
        f"{_remark(column.to_numpy(), findings.get(name), leaks.get(name))}\n"
        for key, (name, column) in zip(keys, X.items(), strict=True)
    ]
    write_whole(out, [(_HEAD + "".join(lines) + _TAIL).encode()])
    skipped = [name for name, finding in findings.items() if finding.is_left_out]
    note(
        f"{out} lists {len(lines) - len(skipped)} sources, each with price 1. Fill in the real "
        "prices: the search relies on them."
    )
    if skipped:
        note(f'It skips columns of no use as they are (type = "skip"): {quoted(skipped)}.')
    texts = [name for name, finding in findings.items() if finding.type == LONG_TEXT]
    if texts:
        note(f'It reads long text by its words (kind = "{TEXT_KIND}"): {quoted(texts)}.')
    for name in leaks:
        note(
            f"emsco: warning: {name!r} alone tells the classes apart; is it known only when the "
            "label is? Then skip it."
        )
    n_copies = count_copies(X, y)
    if n_copies:
        note(f"emsco: warning: {n_copies:,} rows are copies of other rows; leave copies out.")


def _entry(finding: ColumnFinding | None) -> str:
    """Write what a column costs, and its type if its values mislead."""
    if finding is None:
        return "1"
    if finding.is_left_out:
        return '{ type = "skip" }'
    if finding.type == LONG_TEXT:
        return f'{{ cost = 1, kind = "{TEXT_KIND}" }}'
    return f'{{ cost = 1, type = "{finding.type}" }}'


def _remark(column: Any, finding: ColumnFinding | None, leak: float | None) -> str:
    """Describe a column, to help with filling in its price."""
    if finding is None:
        alone = "" if leak is None else f"; a leak? It tells {leak:.1%} of each class alone"
        return _contents(column) + alone
    from emsco.rows.column_findings import DATES

    hint = '; type = "date" if later dates lie in the same range'
    return finding.text + (hint if finding.kind == DATES else "")


def _is_text(value: object) -> bool:
    return isinstance(value, str)  # not None, nor the NaN that pandas puts in its place


def _contents(column: Any) -> str:
    """Describe the values of a column, to help with filling in its price."""
    is_number = column.dtype.kind == "f"
    present: Any = column[column == column] if is_number else [t for t in column if _is_text(t)]
    share = 1 - len(present) / len(column)
    missing = f", {share:.0%} missing" if len(present) < len(column) else ""
    n_values = len(set(present))
    if is_number:
        summary = f"numbers from {present.min():g} to {present.max():g}"
    else:
        summary = f"text, {n_values} values such as {present[0][:30]!r}"
    is_whole = is_number and bool((present == present.round()).all())
    own = "; unique in every row, so maybe an id" if is_whole and n_values == len(column) else ""
    return summary + missing + own


@options(
    costs="The file of prices; latencies are written to it.",
    rounds=typer.Option(
        min=1, help="How many requests for one row, and for many, are sent to each source."
    ),
)
def measure(
    costs: Path,
    sources: Path,
    keys: Path,
    key_column: str | None = None,
    max_spend: float | None = None,
    rounds: int = 20,
    newlines_in_cells: bool = False,
) -> None:
    """Time sources, and write their latencies into the file of prices.

    The latency of a source is the median time (p50) of a request for one row, in seconds. Nothing
    else in the file is changed.

    Requests for all keys at once, at most 100, are timed too. Sources with `paid = true` are
    measured only within --max-spend, with a single request for many rows.
    """
    import asyncio

    from emsco.cli._key_file import needs_of, read_keys
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
