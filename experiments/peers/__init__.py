"""Methods held against ours on thirteen problems, as PROTOCOL.md fixes it.

A line of JSON a problem, split and method is appended to `peers.jsonl` among the results, so that a
run can be interrupted and goes on where it was. When it ends, what is measured takes the place of
what was kept of the same problem, split and method; the rest of what was kept stays.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import replace
from itertools import product

from experiments.peers.all_sources import all_sources
from experiments.peers.compare import N_SPLITS, choose, judge, judge_front, make_targets
from experiments.peers.methods import METHODS, OURS
from experiments.peers.ours import Cascades
from experiments.peers.problems import make_task
from experiments.peers.tables import (
    AS_IT_COMES,
    CHOSEN,
    COUNTED,
    LESS_ONE,
    SPLITS,
    save_tables,
    tables,
)
from experiments.problems import BESIDE, PROBLEMS
from experiments.results import FOLDER, Row, load

LOG = FOLDER / "peers.jsonl"
Key = tuple[str, int, str]


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Compare what is asked for, as "Heart", "Heart:l1" or ":l1", and not yet in the log.

    Small: three methods on one split of one problem, not kept.
    """
    if small:
        few = ("ours-linear", "all-linear", "stages-linear")
        return tables([measure("KDD", 0, name) for name in few])
    kept, known = read_kept(), read_log()
    asked = [(p, m) for p in (*PROBLEMS, BESIDE) for m in METHODS if _is_asked(p, m, only)]
    for split, (problem, name) in product(range(N_SPLITS), asked):
        if (problem, split, name) in known:
            continue
        ours = (kept | known).get((problem, split, OURS["linear"]), {})
        row = measure(problem, split, name, ours.get("evaluations", 0), ours.get("fits", 0))
        known[problem, split, name] = row
        with LOG.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)
    rows = list((kept | read_log()).values())  # read again: others may have run beside
    save_tables(rows)
    return tables(rows)


def read_kept() -> dict[Key, Row]:
    """Read the results of earlier runs."""
    return _by_key(load(SPLITS)) if (FOLDER / f"{SPLITS}.csv").exists() else {}


def read_log() -> dict[Key, Row]:
    """Read what is measured by now; a last line that was cut off does not count."""
    lines = LOG.read_text(encoding="utf-8").split("\n")[:-1] if LOG.exists() else []
    return _by_key(json.loads(line) for line in lines)


def _by_key(rows: Iterable[Row]) -> dict[Key, Row]:
    return {(row["problem"], row["split"], row["method"]): row for row in rows}


def measure(problem: str, split: int, method: str, evaluations: int = 0, fits: int = 0) -> Row:
    """Let one method learn on the selection rows of a split, and judge it on the fresh ones.

    Evaluations and fits are what our own search had there, for a search that is to have as many.
    """
    base, make = METHODS[method]
    task, X, truth = make_task(problem, base, split)
    everything = all_sources(task)
    targets = make_targets(everything.out_of_fold[0], task.y)
    start = time.process_time()  # of the processor: others may be at work beside
    offer = make(replace(task, evaluations=evaluations, fits=fits))
    figures = offer.figures
    seconds = time.process_time() - start
    chosen = {
        COUNTED: [choose(figures, target) for target in targets],
        LESS_ONE: [choose(figures, target, len(task.y)) for target in targets],
    }
    if method in OURS.values():
        assert isinstance(offer, Cascades)
        chosen[AS_IT_COMES] = [offer.choose(target) for target in targets]
    judged: Row = {}
    for kind, numbers in chosen.items():
        found = judge(offer, numbers, everything, targets, X, truth)._asdict()
        judged |= {f"{kind}{key}": value for key, value in found.items()}
        judged[f"{kind}unmet"] = numbers.count(None)
    for figure in (*CHOSEN, "unmet"):
        judged.setdefault(f"{AS_IT_COMES}{figure}", "")
    return {
        "problem": problem,
        "method": method,
        "split": split,
        **judged,
        "hypervolume": judge_front(offer, X, truth, task.costs.total),
        "candidates": len(figures),
        "fits": offer.fits,
        "evaluations": getattr(offer, "evaluations", 0),
        "seconds": round(seconds, 2),
        "selection": len(task.y),
        "fresh": len(truth),
    }


def _is_asked(problem: str, method: str, only: Iterable[str] | None) -> bool:
    if only is None:
        return problem != BESIDE or METHODS[method][0] == "linear"
    return bool({problem, f"{problem}:{method}", f":{method}"} & set(only))
