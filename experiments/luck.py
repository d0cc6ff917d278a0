"""Why a choice on few rows disappoints: what freedom costs, what folds tell, what twenty show.

On Pima with Turney's prices, by the targets and splits of the comparison with other methods.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from emsco import Evaluation
from emsco._training import Training
from emsco.search._tables import evaluate_afresh
from emsco.search._thresholds import alternatives
from experiments.peers.all_sources import all_sources
from experiments.peers.compare import Target, choose, hypervolume, judge, make_targets, spread
from experiments.peers.method import Base, Figures, Task
from experiments.peers.methods import METHODS
from experiments.peers.ours import Cascades, run_search, search_cascades
from experiments.peers.problems import make_task
from experiments.tables import markdown, percent


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Make the tables asked for, all of them where none is. Small: one split of KDD."""
    parts = {"freedom": (_freedom, 9), "folds": (_folds, 4), "volume": (_volume, 4)}
    problem = "KDD" if small else "Pima, Turney"
    return "\n\n".join(
        table(problem, range(1 if small else splits))
        for name, (table, splits) in parts.items()
        if not only or name in only
    )


def _freedom(problem: str, splits: Sequence[int]) -> str:
    """Search with fewer stages and thresholds: fresh figures, chosen as it is and cautiously."""
    one = alternatives("auto", 2, final=False)
    options: dict[str, dict[str, Any]] = {
        "as it comes": {},
        "one threshold for all stages": {"threshold": one},
        "at most two stages": {"max_stages": 2},
        "both": {"threshold": one, "max_stages": 2},
    }
    rows = []
    for name, chosen in options.items():
        seen = defaultdict(list)
        for split in splits:
            task, X, truth = make_task(problem, "linear", split)
            everything = all_sources(task)
            targets = make_targets(everything.out_of_fold[0], task.y)
            search = run_search(task, **chosen)
            offer = Cascades(task, search, search.front_, 0, 0)
            for error_on in (None, len(task.y)):
                numbers = [choose(offer.figures, target, error_on) for target in targets]
                fresh = judge(offer, numbers, everything, targets, X, truth)
                seen[error_on is None].append(fresh)
        told = [percent([f[i] for f in seen[plain]]) for plain in (True, False) for i in (2, 0)]
        rows.append([name, *told])
    header = ["search", "price", "accuracy", "cautiously: price", "accuracy"]
    return "What freedom costs, logistic, on fresh rows:\n\n" + markdown(header, rows)


def _folds(problem: str, splits: Sequence[int]) -> str:
    """Choose on four folds and look at the fifth, and hold what that sees against fresh rows."""
    rows = []
    bases: dict[str, Base] = {"logistic": "linear", "boosted": "trees"}
    for kind, base in bases.items():
        selected, fresh, estimates = [], [], []
        for split in splits:
            task, X, truth = make_task(problem, base, split)
            everything = all_sources(task)
            targets = make_targets(everything.out_of_fold[0], task.y)
            offer = search_cascades(task)
            numbers = [choose(offer.figures, target) for target in targets]
            met = [offer.figures[n].accuracy for n in numbers if n is not None]
            selected.append(float(np.mean(met)))
            fresh.append(judge(offer, numbers, everything, targets, X, truth).accuracy)
            estimates.append(_left_out(task, offer, targets))
        optimism = np.subtract(selected, fresh)
        rows.append([kind, percent(selected), percent(fresh), percent(optimism.tolist()),
                     percent(estimates)])  # fmt: skip
    header = ["stages", "selected accuracy", "fresh", "optimism", "seen by leaving a fold out"]
    return "What folds tell:\n\n" + markdown(header, rows)


def _left_out(task: Task, offer: Cascades, targets: Sequence[Target]) -> float:
    """Give by how much choices on four folds are less accurate on the fifth."""
    front, everything = offer.search.front_, offer.search._training
    assert isinstance(everything, Training)
    by_fold = []
    for train, test in task.folds:
        columns = {name: column[test] for name, column in everything.columns.items()}
        training = everything.take(train)
        by_fold.append(evaluate_afresh(front, training, columns, task.y[test], None, None, None))
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


def _volume(problem: str, splits: Sequence[int]) -> str:
    """Hold the volume of twenty candidates against that of all, on selection rows."""
    rows = []
    for name in ("ours-linear", "l1"):
        base, make = METHODS[name]
        sizes, whole, twenty = [], [], []
        for split in splits:
            task, _, _ = make_task(problem, base, split)
            figures = make(task).figures
            every = spread(figures, len(figures))
            sizes.append(len(every))
            whole.append(hypervolume([figures[n] for n in every], task.y))
            twenty.append(hypervolume([figures[n] for n in spread(figures)], task.y))
        rows.append([name, f"{np.mean(sizes):.0f}", percent(whole), percent(twenty)])
    header = ["method", "candidates no other beats", "volume of all", "of twenty"]
    return "What twenty candidates show, on selection rows:\n\n" + markdown(header, rows)
