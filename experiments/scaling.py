"""How far one machine goes, and what lies beyond it: sums from constants that were measured here.

`results/scaling.toml` holds the constants, each with the command that measured it; most are seconds
of a core, which a busy machine changes little. `--only measure` measures those that need no long
run again. `--only rows=5e8 sources=30 per_second=100` does the sums for sizes of your own, and
takes constants of your own in the same way.
"""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from experiments.tables import markdown

CONSTANTS = Path(__file__).parent / "results" / "scaling.toml"
FOLDS = 5
BOOSTED_FITS = 500  # source sets of a search with slow fits: `LocalSearch(fits=500)`
STAGES = 4  # refitted on all rows
HEADROOM = 2  # cores for serving, of those that are busy on average at the peak
DAY, MONTH = 86_400, 30 * 86_400  # seconds
HOUR = 3600


@dataclass(frozen=True)
class Size:
    """What somebody has: rows to fit on and to score, sources, and decisions at the peak."""

    name: str
    rows: float
    sources: float
    per_second: float
    max_rows: float  # that the search takes
    cores: float  # of one machine


SIZES = (
    Size("laptop", 200_000, 15, 1, 200_000, 8),
    Size("bank", 200e6, 60, 2_000, 200_000, 32),
    # A billion a day, of which a busy hour has twice its share.
    Size("internet company", 1e9, 40, 2e9 / DAY, 200_000, 64),
)


def load_constants() -> dict[str, float]:
    """Read the constants."""
    told = tomllib.loads(CONSTANTS.read_text(encoding="utf-8"))
    return {name: float(constant["value"]) for name, constant in told.items()}


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Print the sums for three sizes, or for your own; `--only measure` measures constants."""
    if only and only[0] == "measure":
        from experiments.scaling_measure import measure

        return measure(only[1:], small=small)
    constants, sizes = _given(only or [], load_constants())
    return "\n\n".join(tables(constants, sizes))


def tables(
    constants: dict[str, float] | None = None, sizes: Iterable[Size] = SIZES
) -> tuple[str, str]:
    """Give both tables: what one machine does, and what each size takes."""
    known = load_constants() if constants is None else constants
    chosen = list(sizes)
    columns = [[*_sums(known, size)] for size in chosen]
    names = [name for name, _ in columns[0]]
    rows = [[name, *(column[i][1] for column in columns)] for i, name in enumerate(names)]
    return _limits(known), markdown(["", *(size.name for size in chosen)], rows)


def _limits(known: dict[str, float]) -> str:
    """Say what a machine of eight cores does in an hour."""
    seconds = 8 * HOUR
    searched = 200_000
    default = _search(known, searched, 20) / 8
    boosted = seconds / (FOLDS * known["fit_boosted"] * searched / 100_000)
    rows = [
        ["search, default classifier, 20 sources, 200,000 rows", f"{_time(default)} in all"],
        ["fit source sets, boosted trees, 200,000 rows, 5 folds", f"{boosted:,.0f} sets"],
        ["refit four stages, 50 columns", f"{_count(seconds / _refit(known, 50) * 1e6)} rows"],
        ["score rows, Parquet to Parquet", f"{_count(seconds * known['score'])} rows"],
        ["decide live", f"{8 * known['serve'] / HEADROOM:,.0f} per second, half of them idle"],
    ]
    return markdown(["8 cores, one hour", "are enough for"], rows)


def _sums(known: dict[str, float], size: Size) -> Iterable[tuple[str, str]]:
    """Give the lines of one size."""
    yield "rows, sources", f"{_count(size.rows)}, {size.sources:g}"
    yield "decisions per second at the peak", f"{size.per_second:,.0f}"
    yield "cores of one machine", f"{size.cores:g}"
    share = min(size.max_rows, size.rows)
    default = _search(known, share, size.sources)
    yield "rows that are searched (`max_rows`)", _count(share)
    yield "search, default classifier, one machine", _time(default / size.cores)
    boosted = BOOSTED_FITS * FOLDS * known["fit_boosted"] * share / 100_000
    yield (
        f"search, boosted trees, {BOOSTED_FITS} source sets: one machine",
        _time(boosted / size.cores),
    )
    on_ray = known["ray_start"] + boosted * known["ray_fit"] / (10 * size.cores)
    yield "the same on ten such machines with Ray", _time(on_ray)
    refit = size.rows / 1e6 * _refit(known, size.sources)
    yield "refit the chosen stages on all rows, one machine", _time(refit / size.cores)
    scored = size.rows / known["score"] * size.sources / 12
    read = size.rows * known["row_bytes"] * size.sources / 12 / 1e6 / known["network"]
    yield "score all rows once: computing, one machine", _time(scored / size.cores)
    yield "score all rows once: reading over its network", _time(read)
    slower = "network" if read > scored / size.cores else "cores"
    yield "what saturates first when scoring", slower
    paid = scored / known["ray_score"] / HOUR * known["core_hour"]
    yield "price of scoring all rows once", f"{paid:,.2f} $"
    cores = max(size.per_second / known["serve"] * HEADROOM, 1)
    yield "cores to decide live, with headroom", f"{math.ceil(cores):,}"
    live = math.ceil(cores) * MONTH / HOUR * known["core_hour"]
    yield "price of these per month", f"{live:,.0f} $"
    yield "what they would run", _advice(size, boosted, scored, cores)


def _search(known: dict[str, float], rows: float, sources: float) -> float:
    """Give the core-seconds of a search: sets fitted, by rows and by the square of columns."""
    sets = min(math.pow(2, sources) - 1, known["sets"])
    return sets * known["fit_default"] * rows / 10_000 * math.pow(sources / 12, 2)


def _refit(known: dict[str, float], sources: float) -> float:
    """Give the core-seconds of fitting all stages on a million rows: each has more columns."""
    stages = sum(math.pow(i / STAGES, 2) for i in range(1, STAGES + 1))
    return known["refit"] * stages * math.pow(sources / 50, 2)


def _advice(size: Size, boosted: float, scored: float, cores: float) -> str:
    """Say what a size needs beside one process."""
    parts = []
    if boosted / size.cores > HOUR:
        parts.append("Ray for boosted searches")
    if scored / size.cores > HOUR:
        parts.append("Ray for scoring")
    if cores > size.cores:
        parts.append(f"{math.ceil(cores / size.cores)} machines of `emsco serve`")
    elif cores > 1:
        parts.append(f"`emsco serve --workers {math.ceil(cores)}`, twice for failures")
    return "; ".join(parts) or "one process"


def _given(
    only: list[str], constants: dict[str, float]
) -> tuple[dict[str, float], tuple[Size, ...]]:
    """Read sizes and constants that a reader has given as name=value."""
    own = ("rows", "sources", "per_second", "max_rows", "cores")
    fields: dict[str, float] = {}
    for text in only:
        name, sign, value = text.partition("=")
        if not sign or (name not in own and name not in constants):
            known = ", ".join([*own, *constants])
            raise SystemExit(f"Give measure, or name=value with a name of {known}; got {text!r}.")
        if name in own:
            fields[name] = float(value)
        else:
            constants = constants | {name: float(value)}
    if not fields:
        return constants, SIZES
    base = replace(SIZES[0], name="yours", cores=float(os.cpu_count() or 1))
    return constants, (replace(base, **fields),)  # type: ignore[arg-type]  # numbers only


def _time(seconds: float) -> str:
    for most, unit, length in ((120, "s", 1), (2 * HOUR, "min", 60), (2 * DAY, "h", HOUR)):
        if seconds < most:
            return (
                f"{seconds / length:.2g} {unit}"
                if seconds < 1
                else f"{seconds / length:.0f} {unit}"
            )
    return f"{seconds / DAY:,.0f} days"


def _count(number: float) -> str:
    for least, word in ((1e9, "billion"), (1e6, "million")):
        if number >= least:
            return f"{number / least:.3g} {word}"
    return f"{number:,.0f}"
