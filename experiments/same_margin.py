"""NSGA-II and ours, chosen by the same rule with the same margin: price, accuracy, coverage.

Both search the same rows of a split, with the same folds and the same grid of thresholds. Then
`select` chooses from each front for the eight targets of the comparison: once as counted, once with
the margin that ours has by default, which is measured on our front and used for both.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from emsco.core.caution import AUTO, standard_errors
from experiments.peers.all_sources import all_sources
from experiments.peers.compare import Target, corrected_interval, make_targets
from experiments.peers.method import Codes, Decided, Scored, figures_of, threshold_at
from experiments.peers.nsga2 import nsga2
from experiments.peers.ours import Cascades, search_cascades
from experiments.peers.problems import make_task
from experiments.peers.tables import SPLITS as COMPARED
from experiments.problems import PROBLEMS
from experiments.results import FOLDER, Row, load, save
from experiments.tables import markdown

NAME = "same_margin"
COMMAND = "python -m experiments same_margin"
KEYS = ("case", "method")
# A split of the other four takes four to eight times as long as one of these, on average.
LONG = ("Cleveland", "thyroid", "spambase", "Synthetic50")
SPLITS = 3
CASES = [f"{name}/{split}" for split in range(SPLITS) for name in PROBLEMS if name not in LONG]
OURS, THEIRS, ALL = "ours-linear", "nsga2", "all-linear"
COUNTED, WITH_MARGIN = "counted", "margin"
FIGURES = ("price", "accuracy", "less_all", "coverage", "refused")


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Measure what is not kept yet, 25 minutes in all, and give both tables. Small: one split.

    `only` names problems, or a problem and a split: "Pima" or "Pima/1". The small one is of KDD and
    is not kept.
    """
    if small:
        return table([*measure("KDD", 0)])
    kept = {row["case"] for row in load(NAME)} if (FOLDER / f"{NAME}.csv").exists() else set()
    for case in CASES:
        problem, split = case.rsplit("/", 1)
        if case in kept or (only and not {problem, case} & set(only)):
            continue
        rows = [*measure(problem, int(split))]
        print(*map(json.dumps, rows), sep="\n", flush=True)
        save(NAME, COMMAND, rows, CASES)
    return f"{table_of_comparison(load(COMPARED))}\n\n{table(load(NAME))}"


def measure(problem: str, split: int) -> Iterator[Row]:
    """Search a split in both ways, and hold what is chosen from each front against fresh rows."""
    task, X, truth = make_task(problem, "linear", split)
    everything = all_sources(task)
    targets = make_targets(everything.out_of_fold[0], task.y)
    whole = everything.score(0, X)
    ours, seconds = _timed(lambda: search_cascades(task))
    margin = standard_errors(AUTO, ours.search.front_.luck)
    budget = replace(task, evaluations=ours.evaluations, fits=ours.fits)
    theirs, their_seconds = _timed(lambda: nsga2(budget, luck=False))
    for name, offer, took in ((OURS, ours, seconds), (THEIRS, theirs, their_seconds)):
        row: Row = {"case": f"{problem}/{split}", "method": name, "margin": margin}
        for kind, caution in ((COUNTED, 0.0), (WITH_MARGIN, margin)):
            found = judge(offer, caution, whole, targets, X, truth)
            row |= {f"{kind}_{figure}": value for figure, value in found.items()}
        yield row | {"fits": offer.fits, "seconds": round(took, 2)}


def _timed(search: Any) -> tuple[Cascades, float]:
    """Give what a search finds, and the seconds of the processor that it took."""
    start = time.process_time()
    found: Cascades = search()
    return found, time.process_time() - start


def judge(
    offer: Cascades, caution: float, whole: Scored, targets: Sequence[Target], X: Any, truth: Codes
) -> dict[str, float]:
    """Choose for each target with a margin, and give the means of the figures on fresh rows.

    Where no candidate meets a target, all sources reject down to its coverage. `less_all` is the
    accuracy less that of all sources when they accept as many of the fresh rows, the surest first.
    """
    total = offer.task.costs.total
    known: dict[int, Decided] = {}
    judged, refused = [], 0
    for target in targets:
        number = offer.choose(target, caution)
        if number is None:
            decided, refused = whole.decide(target.threshold), refused + 1
        else:
            if number not in known:
                known[number] = offer.decide(number, X)
            decided = known[number]
        own = figures_of(decided, truth, total)
        as_many = whole.decide(threshold_at(whole, own.coverage))
        less = own.accuracy - figures_of(as_many, truth, total).accuracy
        judged.append([own.price, own.accuracy, less, own.coverage])
    means = [*np.mean(judged, axis=0).tolist(), refused]
    return dict(zip(FIGURES, means, strict=True))


def table(rows: Sequence[Row]) -> str:
    """Give two lines a problem: as counted, and with the margin that ours has by default."""
    choices = [
        {"problem": row["case"].rsplit("/", 1)[0], "kind": kind, "method": row["method"]}
        | {"margin": row["margin"] if kind == WITH_MARGIN else 0.0}
        | {figure: row[f"{kind}_{figure}"] for figure in FIGURES}
        | {key: row[key] for key in ("fits", "seconds")}
        for row in rows
        for kind in (COUNTED, WITH_MARGIN)
    ]
    return _table(choices, "accuracy less that of all sources accepting as many")


def table_of_comparison(rows: Sequence[Row]) -> str:
    """Give the same of what the comparison with other methods has kept: all problems and splits.

    There the margin is none or one standard error, and all sources are those of the comparison,
    chosen as counted for the same targets.
    """
    by_key = {(row["problem"], row["method"], row["split"]): row for row in rows}
    choices = [
        {"problem": problem, "kind": kind, "method": method, "margin": margin}
        | {figure: row[f"{kind}{figure}"] for figure in ("price", "coverage")}
        | {"less_all": row[f"{kind}accuracy"] - by_key[problem, ALL, split]["accuracy"]}
        | {"refused": row[f"{kind}unmet"], "fits": row["fits"], "seconds": row["seconds"]}
        for (problem, method, split), row in by_key.items()
        if problem in PROBLEMS and method in (OURS, THEIRS)
        for kind, margin in (("", 0.0), ("less_one_", 1.0))
    ]
    return _table(choices, "accuracy less that of all sources for the same targets")


def _table(choices: Sequence[Row], accuracy: str) -> str:
    """Lay out choices of both methods, those of a problem and a kind of margin in a line."""
    header = ["problem", "splits", "margin", "price %", "difference", f"{accuracy}, points",
              "difference", "coverage %", "targets refused, of 8", "fits",
              "CPU seconds"]  # fmt: skip
    lines = []
    for problem, kind in dict.fromkeys((row["problem"], row["kind"]) for row in choices):
        own = [row for row in choices if (row["problem"], row["kind"]) == (problem, kind)]
        pair = tuple([row for row in own if row["method"] == method] for method in (OURS, THEIRS))
        lines.append(
            [
                problem,
                str(len(own) // 2),
                f"{np.mean([row['margin'] for row in own]):.1f}",
                _both(pair, "price", ".1f", 100),
                _less(pair, "price"),
                _both(pair, "less_all", "+.1f", 100),
                _less(pair, "less_all"),
                _both(pair, "coverage", ".1f", 100),
                _both(pair, "refused", ".1f"),
                _both(pair, "fits", ",.0f"),
                _both(pair, "seconds", ".1f"),
            ]
        )
    return markdown(header, lines)


def _both(pair: Sequence[Sequence[Row]], key: str, text: str, scale: float = 1.0) -> str:
    """Print the mean of ours, and that of NSGA-II."""
    return " / ".join(format(scale * np.mean([row[key] for row in own]), text) for own in pair)


def _less(pair: Sequence[Sequence[Row]], key: str) -> str:
    """Print ours less NSGA-II, split by split, in points, with an interval."""
    found = corrected_interval([100 * (a[key] - b[key]) for a, b in zip(*pair, strict=True)], 1.0)
    if not np.isfinite(found.low):
        return f"{found.mean:+.1f}"
    return f"{found.mean:+.1f} ± {found.high - found.mean:.1f}"
