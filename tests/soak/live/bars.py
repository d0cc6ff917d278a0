"""What a part must show: the bar, what was measured, and whether it is met."""

from __future__ import annotations

import importlib
import json
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from experiments.tables import markdown


class Bar(NamedTuple):
    """One line of the table at the end."""

    what: str
    bar: str
    measured: str
    met: bool


def tell(part: str, **figures: Any) -> None:
    """Print figures as they come, one JSON object a line."""
    print(json.dumps({"part": part} | figures), flush=True)


def table_of(bars: list[Bar]) -> str:
    """Give the table of all bars."""
    rows = [[bar.what, bar.bar, bar.measured, "yes" if bar.met else "no"] for bar in bars]
    return markdown(["what", "bar", "measured", "met"], rows)


def run_parts(
    package: str,
    parts: Mapping[str, str],
    made: AbstractContextManager[Any],
    *,
    small: bool,
    only: list[str] | None,
) -> str:
    """Measure every part, and give one table; end with an error if a bar is missed.

    Parameters
    ----------
    package : str
        Where the modules are.
    parts : mapping of str to str
        The module of each part, whose `measure` is given what is made.
    made : context manager
        Makes what all parts need, such as stores.
    small : bool
        Whether to measure at the size that CI does.
    only : list of str or None
        The parts to measure. None: all of them.
    """
    unknown = [name for name in only or () if name not in parts]
    if unknown:
        raise SystemExit(f"There is no part {unknown[0]!r}; there are {', '.join(parts)}.")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # so that stores are ended too
    bars: list[Bar] = []
    with made as world:
        for name, module in parts.items():
            if only and name not in only:
                continue
            begin = time.perf_counter()
            part = importlib.import_module(f"{package}.{module}")
            bars += part.measure(world, small=small)
            tell(name, took=round(time.perf_counter() - begin, 1))
    report = table_of(bars)
    missed = [bar.what for bar in bars if not bar.met]
    if missed:
        raise SystemExit(f"{report}\n\nMissed: {'; '.join(missed)}.")
    return report
