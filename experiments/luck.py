"""Why a choice on few rows disappoints: what freedom costs, what folds tell, what twenty show.

On Pima with Turney's prices, by the targets and splits of the comparison with other methods.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from emsco import Evaluation
from emsco.learners.training import Training
from emsco.search._problem_spec import evaluate_afresh
from emsco.search._thresholds import alternatives
from experiments.peers.all_sources import all_sources
from experiments.peers.compare import Target, choose, hypervolume, judge, make_targets, spread
from experiments.peers.method import Base, Figures, Task
from experiments.peers.methods import METHODS
from experiments.peers.ours import Cascades, run_search, search_cascades
from experiments.peers.problems import make_task
from experiments.results import Row, load, save
from experiments.tables import markdown, percent

PROBLEM = "Pima, Turney"
COMMAND = "python -m experiments luck"


class Part(NamedTuple):
    """Something measured split by split, for some cases: kept in a file, told in a table."""

    title: str
    splits: int
    case: str  # what the rows of a split are told apart by
    columns: dict[str, str]  # the figures of a row, as the table calls them
    measure: Callable[[str, int], Iterator[Row]]

    def table(self, rows: Sequence[Row]) -> str:
        """Give a line a case: the means over splits, with intervals; counts as they are."""
        lines = []
        for case in dict.fromkeys(row[self.case] for row in rows):
            own = [row for row in rows if row[self.case] == case]
            lines.append([case, *(_told([row[key] for row in own]) for key in self.columns)])
        return f"{self.title}:\n\n" + markdown([self.case, *self.columns.values()], lines)


def _told(values: Sequence[float]) -> str:
    return f"{np.mean(values):.0f}" if isinstance(values[0], int) else percent(values)


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Measure the parts asked for, all of them where none is. Small: one split of KDD, not kept."""
    tables = []
    for name, part in PARTS.items():
        if only and name not in only:
            continue
        rows: list[Row] = []
        for split in range(1 if small else part.splits):
            rows = []
            for row in part.measure("KDD" if small else PROBLEM, split):
                rows.append(row)
                print(json.dumps({"part": name} | row), flush=True)
            if not small:
                save(kept(name), f"{COMMAND} --only {name}", rows, range(part.splits))
        tables.append(part.table(rows if small else load(kept(name))))
    return "\n\n".join(tables)


def kept(name: str) -> str:
    """Name the file of a part's results."""
    return f"luck_{name}"


def _freedom(problem: str, split: int) -> Iterator[Row]:
    """Search with fewer stages and thresholds: fresh figures of both ways to choose."""
    one = alternatives("auto", 2, final=False)
    options: dict[str, dict[str, Any]] = {
        "as it comes": {},
        "one threshold for all stages": {"threshold": one},
        "at most two stages": {"max_stages": 2},
        "both": {"threshold": one, "max_stages": 2},
    }
    task, X, truth = make_task(problem, "linear", split)
    everything = all_sources(task)
    targets = make_targets(everything.out_of_fold[0], task.y)
    for name, chosen in options.items():
        search = run_search(task, **chosen)
        offer = Cascades(task, search, search.front_, 0, 0)
        row: Row = {"split": split, "search": name}
        for kind, error_on in (("", None), ("less_one_", len(task.y))):
            numbers = [choose(offer.figures, target, error_on) for target in targets]
            fresh = judge(offer, numbers, everything, targets, X, truth)
            row |= {f"{kind}price": fresh.price, f"{kind}accuracy": fresh.accuracy}
        yield row


def _folds(problem: str, split: int) -> Iterator[Row]:
    """Choose on four folds and look at the fifth, and hold what that sees against fresh rows."""
    bases: dict[str, Base] = {"logistic": "linear", "boosted": "trees"}
    for kind, base in bases.items():
        task, X, truth = make_task(problem, base, split)
        everything = all_sources(task)
        targets = make_targets(everything.out_of_fold[0], task.y)
        offer = search_cascades(task)
        numbers = [choose(offer.figures, target) for target in targets]
        selected = float(np.mean([offer.figures[n].accuracy for n in numbers if n is not None]))
        fresh = judge(offer, numbers, everything, targets, X, truth).accuracy
        yield {
            "split": split,
            "stages": kind,
            "selected": selected,
            "fresh": fresh,
            "optimism": selected - fresh,
            "seen": _left_out(task, offer, targets),
        }


def _left_out(task: Task, offer: Cascades, targets: Sequence[Target]) -> float:
    """Give by how much choices on four folds are less accurate on the fifth."""
    front, everything = offer.search.front_, offer.search.found_.stages
    assert isinstance(everything, Training)
    by_fold = []
    for train, test in task.folds:
        columns = {name: column[test] for name, column in everything.columns.items()}
        training = everything.take(train)
        by_fold.append(
            evaluate_afresh(front, front.costs, training, columns, task.y[test], None, None, None)[
                0
            ]
        )
    total = task.costs.total
    falls: list[float] = []
    for number, left_out in enumerate(by_fold):
        others = [fold for i, fold in enumerate(by_fold) if i != number]
        figures = [_joined(parts, total) for parts in zip(*others, strict=True)]
        falls += [
            figures[chosen].accuracy - left_out[chosen].accuracy
            for chosen in (choose(figures, target) for target in targets)
            if chosen is not None and left_out[chosen].accepted
        ]
    return float(np.mean(falls))


def _joined(parts: Sequence[Evaluation], total: float) -> Figures:
    rows, accepted, right, paid = np.sum(
        [(p.rows, p.accepted, p.right, p.paid) for p in parts], axis=0
    )
    return Figures(right / max(accepted, 1), accepted / rows, paid / rows / total)


def _volume(problem: str, split: int) -> Iterator[Row]:
    """Hold the volume of twenty candidates against that of all, on selection rows."""
    for name in ("ours-linear", "l1"):
        base, make = METHODS[name]
        task, _, _ = make_task(problem, base, split)
        figures = make(task).figures
        every = spread(figures, len(figures))
        yield {
            "split": split,
            "method": name,
            "candidates": len(every),
            "all": hypervolume([figures[n] for n in every], task.y),
            "twenty": hypervolume([figures[n] for n in spread(figures)], task.y),
        }


PARTS = {
    "freedom": Part(
        "What freedom costs, logistic, on fresh rows",
        9,
        "search",
        {
            "price": "price",
            "accuracy": "accuracy",
            "less_one_price": "less one standard error: price",
            "less_one_accuracy": "accuracy",
        },
        _freedom,
    ),
    "folds": Part(
        "What folds tell",
        4,
        "stages",
        {
            "selected": "selected accuracy",
            "fresh": "fresh",
            "optimism": "optimism",
            "seen": "seen by leaving a fold out",
        },
        _folds,
    ),
    "volume": Part(
        "What twenty candidates show, on selection rows",
        4,
        "method",
        {
            "candidates": "candidates no other beats",
            "all": "volume of all",
            "twenty": "of twenty",
        },
        _volume,
    ),
}
