"""What was measured, as tables: who wins on each problem, and the means behind it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from experiments.peers.compare import Interval, corrected_interval, outcome
from experiments.peers.methods import METHODS, OURS
from experiments.peers.worth import worth
from experiments.problems import BESIDE, PROBLEMS
from experiments.results import FOLDER, Row, write
from experiments.tables import markdown

COMMAND = "python -m experiments peers"
SPLITS, SUMMARY = "peers_splits", "peers"
_CHOSEN = ("price", "accuracy", "coverage")
_KINDS = ("", "cautious_")  # of choosing
_FIGURES = (*(kind + figure for kind in _KINDS for figure in _CHOSEN), "hypervolume")
_LEAST_SPLITS = 3  # before who wins is told


def differences(ours: Mapping[int, Row], its: Mapping[int, Row]) -> dict[str, Interval]:
    """Give the intervals of ours less a method's, over the splits that both have."""
    both = sorted(ours.keys() & its.keys())
    if len(both) < _LEAST_SPLITS:
        return {}
    ratio = its[both[0]]["fresh"] / its[both[0]]["selection"]
    return {
        key: corrected_interval([ours[s][key] - its[s][key] for s in both], ratio)
        for key in _FIGURES
    }


def summarise(rows: Sequence[Row]) -> list[Row]:
    """Give a row a problem and method: its means, ours less its, and who wins."""
    by_split: defaultdict[tuple[str, str], dict[int, Row]] = defaultdict(dict)
    for measured in rows:
        by_split[measured["problem"], measured["method"]][measured["split"]] = measured
    made = []
    for problem in (*PROBLEMS, BESIDE):
        for method, (base, _) in METHODS.items():
            its = by_split[problem, method]
            own = list(its.values())
            if not own:
                continue
            row: Row = {"problem": problem, "method": method, "splits": len(own)}
            row["selection"] = own[0]["selection"]
            for key in (*_FIGURES, "unmet", "cautious_unmet", "fits", "seconds"):
                row[key] = sum(one[key] for one in own) / len(own)
            intervals = differences(by_split[problem, OURS[base]], its)
            known = intervals and method not in OURS.values()
            for key in _FIGURES:
                found = intervals[key] if known else Interval(0.0, 0.0, 0.0)
                row |= {f"{key}_{part}": value for part, value in found._asdict().items()}
            for kind in _KINDS:
                own_figures = [intervals[kind + figure] for figure in _CHOSEN] if known else []
                row[f"{kind}outcome"] = outcome(*own_figures) if known else ""
            made.append(row)
    return made


def tables(rows: Sequence[Row]) -> str:
    """Give the tables of win, tie and loss by both ways of choosing, their worth, and the means."""
    made = summarise(rows)
    outcomes = [_outcomes(made, kind) for kind in _KINDS]
    return "\n\n".join([_counts(made), *outcomes, worth(made), _means(made)])


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


def _compared(made: Sequence[Row]) -> list[str]:
    present = {row["method"] for row in made} - set(OURS.values())
    return [method for method in METHODS if method in present]


def _outcomes(made: Sequence[Row], kind: str) -> str:
    """Ours against each method: outcome, and the difference in price, in points, ± its interval."""
    methods = _compared(made)
    found = {(row["problem"], row["method"]): row for row in made}
    rows = []
    for problem in dict.fromkeys(row["problem"] for row in made):
        cells = [found.get((problem, method)) for method in methods]
        rows.append([problem, *(_told(row, kind) for row in cells)])
    title = "Chosen cautiously: price" if kind else "Price"
    return f"{title}, ours less the method's, in points:\n\n" + markdown(
        ["problem", *methods], rows
    )


def _told(row: Row | None, kind: str) -> str:
    if row is None or not row[f"{kind}outcome"]:
        return ""
    mean, high = row[f"{kind}price_mean"], row[f"{kind}price_high"]
    return f"{row[f'{kind}outcome']} {100 * mean:+.1f} ± {100 * (high - mean):.1f}"


def _means(made: Sequence[Row]) -> str:
    header = ["problem", "method", "splits", "price %", "accuracy %", "coverage %", "unmet of 8",
              "cautiously: price %", "accuracy %", "coverage %", "unmet of 8", "hypervolume",
              "fits", "CPU seconds"]  # fmt: skip
    rows = [
        [
            row["problem"],
            row["method"],
            str(row["splits"]),
            *(
                f"{scale * row[kind + figure]:.{digits}f}"
                for kind in _KINDS
                for figure, scale, digits in (
                    ("price", 100, 1), ("accuracy", 100, 2), ("coverage", 100, 1), ("unmet", 1, 1)
                )
            ),
            f"{row['hypervolume']:.3f}",
            f"{row['fits']:,.0f}",
            f"{row['seconds']:.1f}",
        ]
        for row in made
    ]  # fmt: skip
    return "Means over splits, on fresh rows:\n\n" + markdown(header, rows)


def _counts(made: Sequence[Row]) -> str:
    """Count the problems won, tied and lost, by the price and by the volume of fronts."""

    def counted(method: str, told: Callable[[Row], str]) -> str:
        own = [told(r) for r in made if r["method"] == method and r["problem"] != BESIDE]
        return " / ".join(str(own.count(kind)) for kind in ("win", "tie", "loss"))

    ways: list[Callable[[Row], str]] = [
        lambda row: row["outcome"],
        lambda row: row["cautious_outcome"],
        lambda row: _by_volume(row) if row["outcome"] else "",
    ]
    header = ["win / tie / loss against", "price", "chosen cautiously", "hypervolume"]
    rows = [[method, *(counted(method, told) for told in ways)] for method in _compared(made)]
    return markdown(header, rows)


def _by_volume(row: Row) -> str:
    if row["hypervolume_low"] > 0:
        return "win"
    return "loss" if row["hypervolume_high"] < 0 else "tie"
