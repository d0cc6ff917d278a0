"""What was measured, as tables: who wins on each problem, and the means behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from experiments.peers.compare import N_SPLITS, Interval, corrected_interval, outcome
from experiments.peers.methods import METHODS, OURS
from experiments.peers.problems import BESIDE, PROBLEMS
from experiments.results import FOLDER, Row, write
from experiments.tables import markdown

COMMAND = "python -m experiments peers"
SPLITS, SUMMARY = "peers_splits", "peers"
_FIGURES = ("price", "accuracy", "coverage", "hypervolume")


def differences(rows: Sequence[Row], problem: str, method: str) -> dict[str, Interval]:
    """Give the intervals of ours less a method's, over the splits that both have."""
    ours = _by_split(rows, problem, OURS[METHODS[method][0]])
    its = _by_split(rows, problem, method)
    both = sorted(ours.keys() & its.keys())
    if len(both) < N_SPLITS:
        return {}  # nobody wins before all are there
    ratio = its[both[0]]["fresh"] / its[both[0]]["selection"]
    return {
        key: corrected_interval([ours[s][key] - its[s][key] for s in both], ratio)
        for key in _FIGURES
    }


def summarise(rows: Sequence[Row]) -> list[Row]:
    """Give a row a problem and method: its means, ours less its, and who wins."""
    made = []
    for problem in (*PROBLEMS, BESIDE):
        for method in METHODS:
            own = list(_by_split(rows, problem, method).values())
            if not own:
                continue
            row: Row = {"problem": problem, "method": method, "splits": len(own)}
            for key in (*_FIGURES, "unmet", "fits", "seconds"):
                row[key] = sum(one[key] for one in own) / len(own)
            intervals = differences(rows, problem, method)
            known = intervals and method not in OURS.values()
            for key in _FIGURES:
                found = intervals[key] if known else Interval(0.0, 0.0, 0.0)
                row |= {f"{key}_{part}": value for part, value in found._asdict().items()}
            row["outcome"] = outcome(*(intervals[k] for k in _FIGURES[:3])) if known else ""
            made.append(row)
    return made


def tables(rows: Sequence[Row]) -> str:
    """Give the tables of win, tie and loss, of the means, and of the counts."""
    made = summarise(rows)
    return "\n\n".join([_outcomes(made), _means(made), _counts(made)])


def save_tables(rows: Sequence[Row]) -> None:
    """Keep what was measured, split by split, and its summary."""
    order = list(METHODS)
    names = (*PROBLEMS, BESIDE)
    ordered = sorted(
        rows, key=lambda r: (names.index(r["problem"]), order.index(r["method"]), r["split"])
    )
    if ordered:
        write(SPLITS, COMMAND, ordered)
        write(SUMMARY, COMMAND, summarise(ordered))
        (FOLDER / f"{SUMMARY}.md").write_text(tables(ordered) + "\n", encoding="utf-8")


def _by_split(rows: Sequence[Row], problem: str, method: str) -> dict[int, Row]:
    return {r["split"]: r for r in rows if r["problem"] == problem and r["method"] == method}


def _compared(made: Sequence[Row]) -> list[str]:
    present = {row["method"] for row in made} - set(OURS.values())
    return [method for method in METHODS if method in present]


def _outcomes(made: Sequence[Row]) -> str:
    """Ours against each method: outcome, and the difference in price, in points, ± its interval."""
    methods = _compared(made)
    found = {(row["problem"], row["method"]): row for row in made}
    rows = []
    for problem in dict.fromkeys(row["problem"] for row in made):
        cells = [problem]
        for method in methods:
            row = found.get((problem, method))
            cells.append(_told(row) if row and row["outcome"] else "")
        rows.append(cells)
    return "Price, ours less the method's, in points:\n\n" + markdown(["problem", *methods], rows)


def _told(row: Row) -> str:
    half = 100 * (row["price_high"] - row["price_mean"])
    return f"{row['outcome']} {100 * row['price_mean']:+.1f} ± {half:.1f}"


def _means(made: Sequence[Row]) -> str:
    header = ["problem", "method", "splits", "price %", "accuracy %", "coverage %", "hypervolume",
              "unmet of 8", "fits", "CPU seconds"]  # fmt: skip
    rows = [
        [
            row["problem"],
            row["method"],
            str(row["splits"]),
            f"{100 * row['price']:.1f}",
            f"{100 * row['accuracy']:.2f}",
            f"{100 * row['coverage']:.1f}",
            f"{row['hypervolume']:.3f}",
            f"{row['unmet']:.1f}",
            f"{row['fits']:,.0f}",
            f"{row['seconds']:.1f}",
        ]
        for row in made
    ]
    return "Means over splits, on fresh rows:\n\n" + markdown(header, rows)


def _counts(made: Sequence[Row]) -> str:
    def counted(method: str) -> list[Any]:
        own = [
            row["outcome"] for row in made if row["method"] == method and row["problem"] != BESIDE
        ]
        return [str(own.count(kind)) for kind in ("win", "tie", "loss")]

    header = ["method", "win", "tie", "loss"]
    rows = [[method, *counted(method)] for method in _compared(made)]
    return "Problems won, tied and lost:\n\n" + markdown(header, rows)
