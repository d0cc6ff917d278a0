"""`emsco live`: decide keys with live sources, and compare live values with a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from emsco.cli._errors import note
from emsco.cli._model_file import load_cascade, model_file
from emsco.cli._options import options
from emsco.cli._output_files import check_outputs
from emsco.cli._print import print_bytes, print_text
from emsco.exceptions import ColumnsError, quoted

if TYPE_CHECKING:
    import pyarrow as pa

    from emsco.cli._key_file import KeyFile
    from emsco.core.decisions import Decisions
    from emsco.live import LiveCascade
    from emsco.live.comparison import Comparison

DIFFERS = 1  # the exit code if live values differ from the table
_BLOCK = 1000  # keys decided at a time
_MOST_REASONS = 5  # that the summary names


@options(
    out="The file to write, .csv or .parquet. Without it, CSV goes to standard output.",
    deadline="The maximum time for the decisions of a block, in seconds.",
    block=typer.Option(min=1, help="The number of keys to decide at a time."),
)
def decide(
    model: Path,
    sources: Path,
    keys: Path,
    key_column: str | None = None,
    out: Path | None = None,
    deadline: float | None = None,
    max_cost: float | None = None,
    block: int = _BLOCK,
    trust: list[str] | None = None,
    force: bool = False,
    newlines_in_cells: bool = False,
) -> None:
    """Decide keys: fetch each stage only for the keys that need it.

    Writes the key, label, accepted, exit_stage, confidence, cost, reason and latency of each row.

    Other columns of --keys that are features of the model, or that requests use, are treated as
    known: a source whose features are all known is not fetched.
    """
    import asyncio

    from emsco._utils.atomic_write import write_whole
    from emsco.cli._decision_stream import csv_parts, parts_for
    from emsco.cli._key_file import as_known, needs_of, read_keys
    from emsco.live import LiveCascade, Sources
    from emsco.live.fetch_all import check_open

    check_outputs([out], [model_file(model), sources, keys], force=force)
    make_parts = csv_parts if out is None else parts_for(out)
    described = Sources.from_toml(sources)
    cascade = load_cascade(model, trust)
    decider = cascade.decider_
    live = LiveCascade(cascade, described, deadline=deadline, max_cost=max_cost)
    asyncio.run(check_open(described, decider.costs, live.terms.bought))
    wanted = {*decider.costs.features, *needs_of(described)}
    read = read_keys(keys, key_column, wanted, newlines_in_cells=newlines_in_cells)
    read = read._replace(known=as_known(read.known, decider.readers))
    schema, tally = _schema(decider, read), LiveCounters(decider.costs.unit)
    try:
        parts = make_parts(schema, _decided(live, read, schema, tally, block))
        if out is not None:
            write_whole(out, parts)
        else:
            for part in parts:
                print_bytes(part)
    finally:
        live.close_now()
    note(f"Written: {out}. {tally.sentence()}" if out is not None else tally.sentence())


@options(
    table=typer.Option(
        help="The rows that the model was trained on, with their keys: CSV or Parquet."
    ),
)
def compare(
    model: Path,
    sources: Path,
    keys: Path,
    table: Path,
    key_column: str | None = None,
    max_spend: float | None = None,
    trust: list[str] | None = None,
    newlines_in_cells: bool = False,
) -> None:
    """Fetch the rows of a training table live, and show where values differ.

    All sources that the model can buy are fetched for every key that is in the table. The exit code
    is 0 if all values are the same, and 1 if a value differs or could not be fetched.
    """
    import asyncio

    from emsco.cli._key_file import needs_of, read_keys
    from emsco.cli._labelled_frame import read_features
    from emsco.cli._table_file import open_rows
    from emsco.live import Sources
    from emsco.live.comparison import align
    from emsco.live.comparison import compare as compare_live
    from emsco.live.live_plan import LivePlan

    described = Sources.from_toml(sources)
    decider = load_cascade(model, trust).decider_
    described.check(decider.costs, LivePlan(decider).bought)
    read_file = partial(read_keys, newlines_in_cells=newlines_in_cells)
    read = read_file(keys, key_column, needs_of(described))
    places, rows = align(read.keys, read_file(table, read.column, ()).keys)
    if len(places) < len(read.keys):
        note(f"emsco: {len(places):,} of {len(read.keys):,} keys are compared; the others are not "
             "in the table, or occur more than once.")  # fmt: skip
    trained_on = open_rows(table, private=True, newlines_in_cells=newlines_in_cells)
    frame = read_features(trained_on, list(decider.readers), readers=decider.readers)
    found = asyncio.run(
        compare_live(
            decider,
            described,
            [read.keys[place] for place in places],
            {name: frame[name].to_numpy()[rows] for name in frame},
            {name: [column[place] for place in places] for name, column in read.known.items()},
            max_spend=max_spend,
        )
    )
    print_text("\n".join(_lines(found, decider.costs.unit)))
    if not found.is_same:
        raise typer.Exit(DIFFERS)


@dataclass
class LiveCounters:
    """Totals of live decisions, added block by block."""

    unit: str = ""
    rows: int = 0
    accepted: int = 0
    paid: float = 0.0
    saved: float = 0.0
    fetched: int = 0
    not_fetched: int = 0
    unknown: Counter[str] = field(default_factory=Counter)  # by source
    unknown_paid: float = 0.0
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, decisions: Decisions) -> None:
        """Count a block of live decisions."""
        from emsco.live.purchases import KNOWN

        self.rows += len(decisions)
        self.accepted += int(decisions.accepted.sum())
        self.paid += float(decisions.cost.sum())
        self.reasons.update(decisions.reason[~decisions.accepted].tolist())
        for receipt in decisions.receipts or ():
            self.saved += receipt.saved
            self.fetched += sum(fetch.how != KNOWN for fetch in receipt.fetches)
            self.not_fetched += len(receipt.not_needed)
            for fetch in receipt.fetches:
                if not fetch.billed:
                    self.unknown[fetch.source] += 1
                    self.unknown_paid += fetch.paid

    def sentence(self) -> str:
        """Format as text."""
        from emsco.live.accounts import money

        if not self.rows:
            return "There were no rows."
        total = self.fetched + self.not_fetched
        text = (
            f"{self.rows:,} rows, {self.accepted / self.rows:.1%} accepted. "
            f"{money(self.paid, self.unit)} paid; {money(self.saved, self.unit)} saved, as "
            f"{self.not_fetched:,} of {total:,} fetches were not needed."
        )
        if self.unknown:
            text += (
                f" Of the amount paid, {money(self.unknown_paid, self.unit)} may not have been "
                f"charged: {sum(self.unknown.values()):,} fetches from {quoted(self.unknown)} got "
                "no answer."
            )
        if self.reasons:
            most = Counter(self.reasons).most_common()
            listed = ", ".join(f"{reason} ({n:,})" for reason, n in most[:_MOST_REASONS])
            rest = sum(n for _, n in most[_MOST_REASONS:])
            text += f" Rejected: {listed}" + (f", other reasons ({rest:,})." if rest else ".")
        return text


def _schema(decider: Any, read: KeyFile) -> pa.Schema:
    """Return the schema of the decisions; the key comes first."""
    import pyarrow as pa

    from emsco.arrow import decision_schema

    fields = {field.name: field.type for field in decision_schema(decider)}
    fields |= {"latency": pa.float64()}
    if read.column in fields:
        raise ColumnsError(
            f"--key-column {read.column}: decisions already have a column with that name; rename "
            "your column."
        )
    return pa.schema({read.column: read.type} | fields)


def _decided(
    live: LiveCascade, read: KeyFile, schema: pa.Schema, tally: LiveCounters, block: int
) -> Iterator[pa.RecordBatch]:
    """Decide keys, block by block."""
    import pyarrow as pa

    from emsco._utils.progress import followed

    for first in followed(range(0, len(read.keys), block), "decide"):
        rows = slice(first, first + block)
        known = {name: column[rows] for name, column in read.known.items()}
        decisions = live.decide_now(read.keys[rows], known)
        tally.add(decisions)
        values = [getattr(decisions, name).tolist() for name in schema.names[1:]]
        columns = zip(schema, [read.keys[rows], *values], strict=True)
        yield pa.RecordBatch.from_arrays(
            [pa.array(values, field.type) for field, values in columns], schema=schema
        )


def _lines(found: Comparison, unit: str) -> list[str]:
    """Format a comparison as text."""
    from emsco._utils.text_table import text_table
    from emsco.live.accounts import money

    columns = [
        [column.name, column.source, rows, f"{differing / rows:.1%}" if rows else "-", verdict]
        for column in found.columns
        for rows, differing, verdict in [column.difference]
    ]
    answers = [
        [one.source, one.n_keys, one.answered, _failures(one.failed), _age(one.median_age),
         _age(one.max_age), "yes" if one.verified else "no"]
        for one in found.sources
    ]  # fmt: skip
    lines = [
        text_table(["column", "source", "rows", "differ", "live values"], columns),
        "",
        text_table(
            ["source", "asked", "answered", "failed", "median age", "max age", "key verified"],
            answers,
        ),
        "",
    ]
    same = sum(column.difference.is_same and column.difference.rows > 0 for column in found.columns)
    sentence = f"{same} of {len(columns)} columns are the same live, for {found.keys:,} keys."
    if found.left:
        sentence += f" {found.left:,} more keys were not fetched, because of --max-spend."
    if found.cost:
        sentence += f" {money(found.cost, unit)} spent."
    if found.unknown:
        sentence += (
            f" Of this, {money(found.unknown, unit)} may not have been charged, because no answer "
            "came."
        )
    return [*lines, sentence]


def _failures(failed: Any) -> str:
    return ", ".join(f"{reason} {count:,}" for reason, count in failed.items()) or "-"


def _age(seconds: float | None) -> str:
    """Format an age in a suitable unit."""
    if seconds is None:
        return "-"
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if abs(seconds) >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"
