"""What was measured, as tables: who wins on each problem, and the means behind it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from statistics import fmean

from experiments.peers.compare import Interval, corrected_interval, outcome
from experiments.peers.methods import METHODS, OURS
from experiments.peers.worth import worth
from experiments.problems import BESIDE, PROBLEMS
from experiments.results import FOLDER, Row, write
from experiments.tables import markdown

COMMAND = "python -m experiments peers"
SPLITS, SUMMARY = "peers_splits", "peers"
CHOSEN = ("price", "accuracy", "coverage")
# How a candidate is chosen: by figures as counted, or by accuracy less one standard error, all
# methods alike; and ours besides as `select` does by itself, against both ways of the others.
COUNTED, LESS_ONE, AS_IT_COMES = "", "less_one_", "own_"
KINDS = {COUNTED: "as counted", LESS_ONE: "less one standard error"}
OWN_KINDS = {
    f"{AS_IT_COMES}counted_": "as counted, ours as it comes",
    f"{AS_IT_COMES}less_one_": "less one standard error, ours as it comes",
}
_FIGURES = (*(kind + figure for kind in KINDS for figure in CHOSEN), "hypervolume")
_LEAST_SPLITS = 3  # before who wins is told
_NONE = Interval(0.0, 0.0, 0.0)


def differences(ours: Mapping[int, Row], its: Mapping[int, Row]) -> dict[str, Interval]:
    """Give the intervals of ours less a method's, over the splits that both have.

    Ours as it comes is compared over the splits that have it, where these are enough.
    """
    both = sorted(ours.keys() & its.keys())
    if len(both) < _LEAST_SPLITS:
        return {}
    ratio = its[both[0]]["fresh"] / its[both[0]]["selection"]
    found = {
        key: corrected_interval([ours[s][key] - its[s][key] for s in both], ratio)
        for key in _FIGURES
    }
    as_it_comes = [s for s in both if ours[s][f"{AS_IT_COMES}price"] != ""]
    if len(as_it_comes) >= _LEAST_SPLITS:
        for (own, kind), figure in product(zip(OWN_KINDS, KINDS, strict=True), CHOSEN):
            key = f"{AS_IT_COMES}{figure}"
            less = [ours[s][key] - its[s][kind + figure] for s in as_it_comes]
            found[own + figure] = corrected_interval(less, ratio)
    return found


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
            for key in (*_FIGURES, *(f"{kind}unmet" for kind in KINDS), "fits", "seconds"):
                row[key] = sum(one[key] for one in own) / len(own)
            as_it_comes = [one for one in own if one[f"{AS_IT_COMES}price"] != ""]
            row[f"{AS_IT_COMES}splits"] = len(as_it_comes)
            for figure in (*CHOSEN, "unmet"):
                key = f"{AS_IT_COMES}{figure}"
                row[key] = fmean(one[key] for one in as_it_comes) if as_it_comes else ""
            intervals = differences(by_split[problem, OURS[base]], its)
            known = intervals and method not in OURS.values()
            for key in (*_FIGURES, *(own + figure for own in OWN_KINDS for figure in CHOSEN)):
                found = intervals.get(key, _NONE) if known else _NONE
                row |= {f"{key}_{part}": value for part, value in found._asdict().items()}
            for kind in (*KINDS, *OWN_KINDS):
                figures = [intervals.get(kind + figure) for figure in CHOSEN] if known else [None]
                row[f"{kind}outcome"] = "" if None in figures else outcome(*figures)
            for beside, kind in zip(OWN_KINDS, KINDS, strict=True):
                row[f"{beside}unmet"] = row[f"{kind}unmet"]
            made.append(row)
    return made


def tables(rows: Sequence[Row]) -> str:
    """Give the tables of win, tie and loss by both ways of choosing, their worth, and the means."""
    made = summarise(rows)
    parts = [_counts(made), *(_outcomes(made, kind) for kind in KINDS), worth(made, KINDS)]
    if any(row[f"{own}outcome"] for own in OWN_KINDS for row in made):
        parts += [*(_outcomes(made, own) for own in OWN_KINDS), worth(made, OWN_KINDS)]
    return "\n\n".join([*parts, _means(made)])


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
    title = f"Price of ours less the method's, chosen {(KINDS | OWN_KINDS)[kind]}, in points"
    return f"{title}:\n\n" + markdown(["problem", *methods], rows)


def _told(row: Row | None, kind: str) -> str:
    if row is None or not row[f"{kind}outcome"]:
        return ""
    mean, high = row[f"{kind}price_mean"], row[f"{kind}price_high"]
    return f"{row[f'{kind}outcome']} {100 * mean:+.1f} ± {100 * (high - mean):.1f}"


def _means(made: Sequence[Row]) -> str:
    header = ["problem", "method", "splits", "price %", "accuracy %", "coverage %", "unmet of 8",
              "less one standard error: price %", "accuracy %", "coverage %", "unmet of 8",
              "as it comes: splits", "price %", "accuracy %", "coverage %", "unmet of 8",
              "hypervolume", "fits", "CPU seconds"]  # fmt: skip
    rows = [
        [
            row["problem"],
            row["method"],
            str(row["splits"]),
            *(cell for kind in KINDS for cell in _shown(row, kind)),
            str(row[f"{AS_IT_COMES}splits"] or ""),
            *_shown(row, AS_IT_COMES),
            f"{row['hypervolume']:.3f}",
            f"{row['fits']:,.0f}",
            f"{row['seconds']:.1f}",
        ]
        for row in made
    ]  # fmt: skip
    return "Means over splits, on fresh rows:\n\n" + markdown(header, rows)


def _shown(row: Row, kind: str) -> list[str]:
    places = {"price": (100, 1), "accuracy": (100, 2), "coverage": (100, 1), "unmet": (1, 1)}
    return [
        "" if row[kind + figure] == "" else f"{scale * row[kind + figure]:.{digits}f}"
        for figure, (scale, digits) in places.items()
    ]


def _counts(made: Sequence[Row]) -> str:
    """Count the problems won, tied and lost, by the price and by the volume of fronts."""

    def counted(method: str, told: Callable[[Row], str]) -> str:
        own = [told(r) for r in made if r["method"] == method and r["problem"] != BESIDE]
        return " / ".join(str(own.count(kind)) for kind in ("win", "tie", "loss"))

    kinds = KINDS | OWN_KINDS
    ways: list[Callable[[Row], str]] = [partial(_outcome, kind) for kind in kinds]
    ways.append(lambda row: _by_volume(row) if row[f"{COUNTED}outcome"] else "")
    header = ["win / tie / loss against", *(f"chosen {told}" for told in kinds.values()),
              "hypervolume"]  # fmt: skip
    rows = [[method, *(counted(method, told) for told in ways)] for method in _compared(made)]
    return markdown(header, rows)


def _outcome(kind: str, row: Row) -> str:
    return str(row[f"{kind}outcome"])


def _by_volume(row: Row) -> str:
    if row["hypervolume_low"] > 0:
        return "win"
    return "loss" if row["hypervolume_high"] < 0 else "tie"
