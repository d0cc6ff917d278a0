"""Whether a choice keeps on fresh rows what it was asked for, and what caution costs.

Every split searches once, on half of the rows, and is asked for eight targets by several rules and
for its own default; what each would choose is then held against the other half.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from emsco import Candidate, CascadeSearchCV, Evaluation, evaluate
from emsco.datasets import load_hepatitis
from emsco.exceptions import EmscoWarning, SelectionError
from emsco.search.choice import select_as_asked
from emsco.words.caution import wilson
from experiments.peers.all_sources import all_sources
from experiments.peers.compare import Interval, Target, corrected_interval, make_targets
from experiments.peers.method import Thresholded, figures_of
from experiments.peers.ours import run_search
from experiments.peers.problems import make_task
from experiments.problems import LOADERS, PROBLEMS
from experiments.results import FOLDER, Row, load, save
from experiments.tables import markdown

COMMAND = "python -m experiments promise"
NAME = "promise"
FIRST_SEED = 1_000  # the study that the rule comes from had others
COVERAGES = (0.8, 0.85, 0.9, 0.95)
FEW = ("Heart", "Pima", "Credit", "Cleveland", "Pima, Turney", "Hepatitis")
SPLITS = {name: 20 if name in (*FEW, "spambase") else 5 for name in (*PROBLEMS, "Hepatitis")}
CASES = [f"{name}/{split}" for name, splits in SPLITS.items() for split in range(splits)]
WILSON = 1.645  # 95%, one-sided

LOADERS.setdefault("Hepatitis", load_hepatitis)

Rule = Callable[[CascadeSearchCV, Target], Candidate | None]


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Measure what is not kept yet, and give the tables. Small: a split of KDD, not kept.

    `only` names problems, or a problem and a split: "Heart" or "Heart/3".
    """
    if small:
        rows = list(measure("KDD", 0))
        return tables(rows)
    kept = {row["case"] for row in load(NAME)} if (FOLDER / f"{NAME}.csv").exists() else set()
    for case in CASES:
        problem, split = case.rsplit("/", 1)
        if case in kept or (only and not {problem, case} & set(only)):
            continue
        rows = []
        for row in measure(problem, int(split)):
            rows.append(row)
            print(json.dumps(row), flush=True)
        save(NAME, COMMAND, rows, CASES)
    return tables(load(NAME))


def measure(problem: str, split: int) -> Iterator[Row]:
    """Search one split, and hold what every rule chooses against its fresh rows."""
    task, X, truth = make_task(problem, "linear", FIRST_SEED + split)
    search = run_search(task)
    fresh = dict(zip(map(id, search.front_), _fresh(search, X, truth), strict=True))
    everything = all_sources(task)
    targets = make_targets(everything.out_of_fold[0], task.y, COVERAGES)
    head = {"case": f"{problem}/{split}", "problem": problem, "split": split}
    luck = search.front_.luck
    for name, rule in RULES.items():
        judged = [
            _judged(rule(search, target), target, fresh, everything, X, truth) for target in targets
        ]
        means = {key: float(np.mean([one[key] for one in judged])) for key in judged[0]}
        yield {**head, "asked": "targets", "rule": name, **means, "luck": luck, "optimism": ""} | (
            {"optimism": _optimism(search, targets, fresh)} if name == "caution=0" else {}
        )
    for name, caution in (("caution=0", 0.0), ("auto", "auto")):
        yield {**head, "asked": "default", "rule": name} | _default(
            search, caution, fresh, X, truth
        )


def _fresh(search: CascadeSearchCV, X: Any, truth: Any) -> list[Evaluation]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmscoWarning)
        return [scored.fresh for scored in search.score_front(X, truth)]


def _by_caution(caution: float | str) -> Rule:
    def rule(search: CascadeSearchCV, target: Target) -> Candidate | None:
        try:
            return search.front_.select(
                min_coverage=target.coverage, min_accuracy=target.accuracy, caution=caution
            )
        except SelectionError:
            return None

    return rule


def _by_wilson(search: CascadeSearchCV, target: Target) -> Candidate | None:
    """Ask that Wilson's lower bound of accuracy meets the target."""
    evaluations = [c.evaluation for c in search.front_]
    low, _ = wilson([e.right for e in evaluations], [e.accepted for e in evaluations], WILSON)
    meets = [
        c
        for c, bound in zip(search.front_, low, strict=True)
        if bound >= target.accuracy and c.evaluation.coverage >= target.coverage
    ]
    return min(meets, key=lambda c: c.evaluation.cost, default=None)


RULES: dict[str, Rule] = {
    "caution=0": _by_caution(0.0),
    "caution=1": _by_caution(1.0),
    "caution=2": _by_caution(2.0),
    "Wilson, 95%": _by_wilson,
    "auto": _by_caution("auto"),
}


def _judged(
    chosen: Candidate | None,
    target: Target,
    fresh: dict[int, Evaluation],
    everything: Thresholded,
    X: Any,
    truth: Any,
) -> dict[str, float]:
    """Hold a choice against a target on fresh rows; refused, all sources reject down to it."""
    total = everything.task.costs.total
    if chosen is None:
        figures = figures_of(everything.score(0, X).decide(target.threshold), truth, total)
        accuracy, coverage, price = figures
    else:
        e = fresh[id(chosen)]
        accuracy, coverage, price = e.accuracy, e.coverage, e.cost / total
    above = accuracy - target.accuracy
    return {
        "above": above,
        "within": float(above >= -0.01),
        "coverage": coverage,
        "price": price,
        "refused": float(chosen is None),
        "worst": float("nan"),
    }


def _optimism(
    search: CascadeSearchCV, targets: Sequence[Target], fresh: dict[int, Evaluation]
) -> float:
    """Give how many standard errors the choices as counted were too good."""
    gained = errors = 0.0
    for target in targets:
        chosen = RULES["caution=0"](search, target)
        if chosen is None:
            continue
        m, r = chosen.evaluation.accepted, chosen.evaluation.right
        p = (r + 1) / (m + 2)
        gained += r / m - fresh[id(chosen)].accuracy
        errors += float(np.sqrt(p * (1 - p) / m))
    return gained / errors if errors else float("nan")


def _default(
    search: CascadeSearchCV, caution: float | str, fresh: dict[int, Evaluation], X: Any, truth: Any
) -> Row:
    """Hold the default choice against all sources answering every row, on fresh rows."""
    found = search.found_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmscoWarning)
        chosen = select_as_asked(
            {"caution": caution}, found.front, found.all_sources, found.n_rows, {}, agreement=False
        ).candidate
        whole = evaluate(search.cascade(found.all_sources).decide(X), truth)
    own = whole if chosen is found.all_sources else fresh[id(chosen)]
    worst = min(own.recall[c] - whole.recall[c] for c in whole.class_rows if own.class_accepted[c])
    return {
        "above": own.accuracy - whole.accuracy,
        "within": float(own.accuracy - whole.accuracy >= -0.01),
        "coverage": own.coverage,
        "price": own.cost / search.costs_.total,
        "refused": float(chosen is found.all_sources),
        "worst": worst,
        "luck": search.front_.luck or float("nan"),
        "optimism": "",
    }


def tables(rows: Sequence[Row]) -> str:
    """Give a table of targets, one of default choices, and one of luck."""
    groups = {
        "few rows": [name for name in SPLITS if name in FEW],
        "many rows": [name for name in SPLITS if name not in FEW],
    }
    known = {row["problem"] for row in rows}
    parts = []
    for asked, header in (("targets", "fresh accuracy less the target"), ("default", "less all")):
        lines = []
        for group, names in groups.items():
            for name in [*(n for n in names if n in known), group]:
                own = [r for r in rows if r["asked"] == asked and r["problem"] in _of(name, names)]
                rules = dict.fromkeys(row["rule"] for row in own)
                lines += [[name, rule, *_line(own, rule)] for rule in rules]
        heads = ["problem", "rule", f"{header}, points", "worst class", "within a point %",
                 "price %", "refused %", "gain over caution=0"]  # fmt: skip
        parts.append(markdown(heads, lines))
    lines = []
    for name in (n for n in SPLITS if n in known):
        of_splits = [r for r in rows if r["problem"] == name and r["optimism"] != ""]
        lines.append(
            [name, *(_told([row[key] for row in of_splits], 1) for key in ("luck", "optimism"))]
        )
    parts.append(markdown(["problem", "luck", "true optimism, standard errors"], lines))
    return "\n\n".join(parts)


def _of(name: str, names: Sequence[str]) -> Sequence[str]:
    return [name] if name in SPLITS else names


def _line(rows: Sequence[Row], rule: str) -> list[str]:
    """Give the figures of a rule; a group's are means over its problems, split by split."""
    own, base = _by_split(rows, rule), _by_split(rows, "caution=0")
    columns = [own[:, i] for i in range(own.shape[1])]
    above, worst, within, price, refused = columns
    shown = [_told(above), _told(worst), f"{100 * within.mean():.0f}"]
    return [*shown, _told(price), f"{100 * refused.mean():.0f}", _told(above - base[:, 0])]


def _by_split(rows: Sequence[Row], rule: str) -> np.ndarray[Any, Any]:
    keys = ("above", "worst", "within", "price", "refused")
    splits = sorted({row["split"] for row in rows})
    return np.array(
        [
            np.mean(
                [[r[key] for key in keys] for r in rows if (r["rule"], r["split"]) == (rule, s)],
                axis=0,
            )
            for s in splits
        ]
    )


def _told(values: Sequence[float] | np.ndarray[Any, Any], scale: float = 100.0) -> str:
    """Print a mean with its interval, corrected for splits that share rows."""
    numbers = scale * np.asarray(values, dtype=np.float64)
    if np.isnan(numbers).all():
        return "-"
    found: Interval = corrected_interval(numbers.tolist(), 1.0)
    if not np.isfinite(found.low):
        return f"{found.mean:.2f}"
    return f"{found.mean:.2f} ({found.low:.2f} to {found.high:.2f})"
