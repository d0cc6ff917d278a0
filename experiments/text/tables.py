"""What the draws show, in one table; and whether promises were broken more often than allowed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, binomtest  # type: ignore[import-untyped]  # scipy ships no types

from emsco import Costs
from experiments import results
from experiments.results import Row
from experiments.tables import markdown
from experiments.text import messages, prices

# By name in the file: how it is shown.
METHODS = {
    "cascade": "emsco, three stages",
    "same": "emsco, two stages",
    "walk": "emsco, spot checks",
    "logged": "emsco, spot checks, 500 rows held out",
    "bargain": "BARGAIN",
}
IN_A_BATCH = ("walk", "logged", "bargain")  # promise something about this batch alone
HEADER = (
    "agreement, confidence", "method", "calibration rows", "calls avoided %", "of the rest %",
    "none avoided", "ms per message", "promise broken", "% (95% interval)", "allowed %",
    "rest below", "lowest of a batch %",
)  # fmt: skip


def report() -> str:
    """Give the table of the results kept, and the prices."""
    costs = Costs.from_toml(prices.FILE)
    told = ", ".join(f"{name} {costs.of([name]):g}" for name in costs.names)
    return f"Prices in {costs.unit}: {told}.\n\n{table(results.load('text'))}"


def table(rows: Sequence[Row], batch: int = messages.BATCH) -> str:
    """Lay out a line for each target, confidence and method."""
    lines = [
        [f"{target:g}, {confidence:g}", METHODS[method], *_figures(asked, method, batch)]
        for (target, confidence), asked in by_question(rows).items()
        for method in _methods(rows)
    ]
    return markdown(HEADER, lines)


def by_question(rows: Sequence[Row]) -> dict[tuple[float, float], list[Row]]:
    """Give the rows of each target and confidence."""
    found: dict[tuple[float, float], list[Row]] = {}
    for row in rows:
        found.setdefault((row["target"], row["confidence"]), []).append(row)
    return found


def _methods(rows: Sequence[Row]) -> list[str]:
    return [method for method in METHODS if f"{method}_calls" in rows[0]]


def _figures(asked: Sequence[Row], method: str, batch: int) -> list[str]:
    """Print the figures of one method at one target."""
    calibration, calls, changed, ms = (
        column(asked, f"{method}_{name}") for name in ("calibration", "calls", "changed", "ms")
    )
    avoided = 100 * (1 - calls / batch)
    rest = 100 * (1 - (calls - calibration) / (batch - calibration))
    broken = count_broken(asked, method, batch)
    low, high = binomtest(broken, len(asked)).proportion_ci(method="exact")
    below = column(asked, f"{method}_changed") > allowed(asked, batch - calibration)
    return [
        f"{calibration.mean():.0f}",
        f"{avoided.mean():.1f} ± {standard_error(avoided):.1f}",
        f"{rest.mean():.1f}",
        str((calls == batch).sum()),
        f"{ms.mean():.2f}",
        f"{broken} of {len(asked)}",
        f"{100 * broken / len(asked):.1f} ({100 * low:.1f} to {100 * high:.1f})",
        f"{100 * (1 - asked[0]['confidence']):.0f}",
        "-" if method in IN_A_BATCH else str(below.sum()),
        f"{100 * (1 - changed.max() / batch):.2f}",
    ]


def column(rows: Sequence[Row], name: str) -> NDArray[np.float64]:
    """Give one figure of every row."""
    return np.array([row[name] for row in rows], dtype=np.float64)


def standard_error(values: NDArray[np.float64]) -> float:
    """Give the standard error of a mean over draws."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def allowed(asked: Sequence[Row], n_rows: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Give how many of so many rows may change."""
    return (1 - column(asked, "target")) * n_rows + 1e-9  # the target itself is met


def count_broken(asked: Sequence[Row], method: str, batch: int = messages.BATCH) -> int:
    """Count the draws in which a method agreed less than it had promised."""
    return int(np.sum(column(asked, f"{method}_unlike") > allowed(asked, float(batch))))


def check(rows: Sequence[Row], batch: int = messages.BATCH) -> None:
    """End with an error if emsco broke a promise more often than chance explains."""
    for (target, confidence), asked in by_question(rows).items():
        for method in _methods(rows):
            broken = count_broken(asked, method, batch)
            if method != "bargain" and broken > binom.ppf(0.999, len(asked), 1 - confidence):
                raise SystemExit(f"{METHODS[method]} broke {target} in {broken} of {len(asked)}.")
