"""What a part must show: the bar, what was measured, and whether it is met."""

from __future__ import annotations

import json
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
