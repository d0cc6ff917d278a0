"""Whether a choice keeps on fresh rows what it was asked for, and what caution costs.

Every split searches once, on half of the rows, and is asked for eight targets by several rules, for
bounds on each class, and for its own default; what each would choose is then compared with the
other half. For agreement a model is fitted on half of the searched rows, the rest is searched.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator

from emsco import Candidate, CascadeSearchCV, Evaluation, evaluate
from emsco.core.caution import wilson
from emsco.datasets import load_hepatitis, load_thyroid
from emsco.exceptions import EmscoWarning, SelectionError
from emsco.search.default_rule import select_as_asked
from experiments.headline import boosted_trees
from experiments.peers.all_sources import all_sources
from experiments.peers.compare import Interval, Target, corrected_interval, make_targets
from experiments.peers.method import Thresholded, figures_of
from experiments.peers.ours import run_search
from experiments.peers.problems import load as load_problem
from experiments.peers.problems import make_task, split_rows
from experiments.problems import LOADERS, PROBLEMS, filled
from experiments.results import FOLDER, Row, load, save
from experiments.tables import markdown

COMMAND = "python -m experiments promise"
NAME = "promise"
FIRST_SEED = 1_000  # the study that the rule comes from had others
COVERAGES = (0.8, 0.85, 0.9, 0.95)
THREE = "thyroid, 3 classes"  # told beside the others
FEW = ("Heart", "Pima", "Credit", "Cleveland", "Pima, Turney", "Hepatitis")
SPLITS = {name: 20 if name in (*FEW, "spambase") else 5 for name in (*PROBLEMS, "Hepatitis", THREE)}
CASES = [f"{name}/{split}" for name, splits in SPLITS.items() for split in range(splits)]
WILSON = 1.645  # 95%, one-sided
LEAST_COVERAGE = 0.8  # asked for beside bounds on a class, as the default choice does
MOST_REJECTED = 0.25
AGREEMENTS = (0.9, 0.95, 0.98)
WITH_MODEL = ("Pima", "KDD", "phishing", "thyroid", "magic")  # agreement is measured on

GROUPS = {
    "few rows": [name for name in SPLITS if name in FEW],
    "many rows": [name for name in SPLITS if name not in (*FEW, THREE)],
    "three classes": [THREE],
}
BOUNDS = ("max_missed", "max_rejected", "min_precision")
# What is asked for: how its first figure is called, and when a choice has kept it.
ASKED = {
    "targets": ("fresh accuracy less the target", "at most a point below"),
    "max_missed": ("share asked for less the fresh one", "kept"),
    "max_rejected": ("share asked for less the fresh one", "kept"),
    "min_precision": ("fresh precision less that asked for", "kept"),
    "agreement": ("fresh agreement less that asked for", "kept"),
    "default": ("fresh accuracy less that of all sources", "at most a point below"),
}

LOADERS.setdefault("Hepatitis", filled(load_hepatitis))
LOADERS.setdefault(THREE, partial(load_thyroid, classes=3))

Rule = Callable[[CascadeSearchCV, Target], Candidate | None]


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Measure what is not kept yet, and give the tables. Small: a split of KDD, not kept.

    `only` names problems, or a problem and a split: "Heart" or "Heart/3".
    """
    if small:
        return tables([*measure("KDD", 0)])
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
    luck = float("nan") if search.front_.luck is None else search.front_.luck
    for name, rule in RULES.items():
        judged = [
            _judged(rule(search, target), target, fresh, everything, X, truth) for target in targets
        ]
        row = {**head, "asked": "targets", "rule": name, **_means(judged)}
        if name == "caution=0":
            row |= {"luck": luck, "optimism": _optimism(search, targets, fresh)}
        yield row
    for name, caution in (("caution=0", 0.0), ("auto", "auto")):
        yield {**head, "asked": "default", "rule": name} | _default(
            search, caution, fresh, X, truth
        )
    for row in _by_class(search, fresh, X, truth):
        yield head | row
    if problem in WITH_MODEL and split < 5:
        for row in _agreement(problem, FIRST_SEED + split):
            yield head | row


def _fresh(search: CascadeSearchCV, X: Any, truth: Any) -> list[Evaluation]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmscoWarning)
        return [scored.fresh for scored in search.score_front(X, truth)]


def _by_caution(caution: float | str) -> Rule:
    def rule(search: CascadeSearchCV, target: Target) -> Candidate | None:
        return _select(search, caution, min_coverage=target.coverage, min_accuracy=target.accuracy)

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


CAUTIONS: dict[str, float | str] = {
    "caution=0": 0.0,
    "caution=1": 1.0,
    "caution=2": 2.0,
    "auto": "auto",
}
RULES: dict[str, Rule] = {
    **{name: _by_caution(caution) for name, caution in CAUTIONS.items()},
    "Wilson, 95%": _by_wilson,
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
        "luck": "",
        "optimism": "",
    }


def _by_class(
    search: CascadeSearchCV, fresh: dict[int, Evaluation], X: Any, truth: Any
) -> Iterator[Row]:
    """Ask for each class for what all sources have, or for little rejected; look at fresh rows."""
    everything = search.all_sources_.evaluation
    whole = evaluate(search.cascade(search.all_sources_).decide(X), truth)
    asked: dict[str, dict[Any, float]] = {
        "max_missed": dict(everything.missed),
        "max_rejected": dict.fromkeys(everything.class_rows, MOST_REJECTED),
        "min_precision": dict(everything.precision),
    }
    for bound, by_label in asked.items():
        for rule, caution in CAUTIONS.items():
            judged = []
            for label, share in by_label.items():
                if not 0 < share < 1:  # such bounds are compared as counted, with any caution
                    continue
                limit: Any = {bound: {label: share}}
                chosen = _select(search, caution, min_coverage=LEAST_COVERAGE, **limit)
                own = whole if chosen is None else fresh[id(chosen)]
                found = getattr(own, bound.partition("_")[2])[label]
                above = found - share if bound == "min_precision" else share - found
                judged.append(_figures(above, own, chosen is None, search.costs_.total))
            if judged:
                yield {"asked": bound, "rule": rule, **_means(judged)}


def _agreement(problem: str, seed: int) -> Iterator[Row]:
    """Search in front of boosted trees, and compare fresh rows with the agreement asked for."""
    X, y, costs = load_problem(problem, "trees")
    selection, rows = split_rows(y, seed)
    seen, log = selection[::2], selection[1::2]
    model = FrozenEstimator(boosted_trees().fit(X.iloc[seen], y[seen]))
    search = CascadeSearchCV(
        costs=costs,
        final=model,
        target="agreement",
        select=lambda front: front[0],
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmscoWarning)
        search.fit(X.iloc[log])
        scored = search.score_front(X.iloc[rows])
    fresh = dict(zip(map(id, search.front_), (s.fresh for s in scored), strict=True))
    final = fresh[id(max(search.front_, key=lambda c: c.evaluation.cost))]
    for rule, caution in CAUTIONS.items():
        judged = []
        for share in AGREEMENTS:
            chosen = _select(search, caution, min_accuracy=share)
            own = final if chosen is None else fresh[id(chosen)]
            above = (1.0 if chosen is None else own.accuracy) - share
            judged.append(_figures(above, own, chosen is None, costs.total))
        yield {"asked": "agreement", "rule": rule, **_means(judged)}


def _select(search: CascadeSearchCV, caution: float | str, **bounds: Any) -> Candidate | None:
    try:
        return search.front_.select(caution=caution, **bounds)
    except SelectionError:
        return None


def _figures(above: float, own: Evaluation, is_refused: bool, total: float) -> dict[str, float]:
    """Give the figures of one choice; refused, all sources answer at the full price."""
    return {
        "above": above,
        "within": float(above >= 0),
        "coverage": 1.0 if is_refused else own.coverage,
        "price": 1.0 if is_refused else own.cost / total,
        "refused": float(is_refused),
        "worst": float("nan"),
    }


def _means(judged: Sequence[dict[str, float]]) -> Row:
    """Give the means of many choices, as a row has them."""
    means = {key: float(np.mean([one[key] for one in judged])) for key in judged[0]}
    return {**means, "luck": "", "optimism": ""}


def tables(rows: Sequence[Row]) -> str:
    """Give a table each of targets, bounds on classes, agreement, default choices, and luck."""
    known = [name for name in SPLITS if name in {row["problem"] for row in rows}]
    parts = []
    for asked, (title, within) in ASKED.items():
        own = [row for row in rows if row["asked"] == asked]
        shown = [] if asked in BOUNDS else [name for name in known if name != THREE]
        lines = []
        for group, names in GROUPS.items():
            present = {row["problem"] for row in own} & set(names)
            lines += [
                [name, rule, *_line([row for row in own if row["problem"] == name], rule)]
                for name in shown
                if name in present
                for rule in ("caution=0", "auto")
            ]
            of_group = _in_step([row for row in own if row["problem"] in present])
            rules = dict.fromkeys(row["rule"] for row in of_group)
            lines += [[f"**{group}**", rule, *_line(of_group, rule)] for rule in rules]
        heads = ["problem", "rule", f"{title}, points", f"{within} %",
                 "price %", "refused %", "gain over caution=0", "worst class"]  # fmt: skip
        parts.append(f"{asked}:\n\n{markdown(*_without_empty(heads, lines))}")
    lines = []
    for name in known:
        of_splits = [r for r in rows if r["problem"] == name and r["optimism"] != ""]
        lines.append(
            [name, *(_told([row[key] for row in of_splits], 1) for key in ("luck", "optimism"))]
        )
    heads = ["problem", "luck", "true optimism, standard errors"]
    parts.append(f"luck:\n\n{markdown(heads, lines)}")
    return "\n\n".join(parts)


def _without_empty(
    heads: list[str], lines: Sequence[list[str]]
) -> tuple[list[str], list[list[str]]]:
    """Leave out columns in which nothing stands."""
    kept = [i for i in range(len(heads)) if any(line[i] != "-" for line in lines)]
    return [heads[i] for i in kept], [[line[i] for i in kept] for line in lines]


def _in_step(rows: Sequence[Row]) -> list[Row]:
    """Keep the splits that every problem has, so that each counts alike."""
    splits: dict[str, set[int]] = {}
    for row in rows:
        splits.setdefault(row["problem"], set()).add(row["split"])
    common = set.intersection(*splits.values()) if splits else set()
    return [row for row in rows if row["split"] in common]


def _line(rows: Sequence[Row], rule: str) -> list[str]:
    """Give the figures of a rule; a group's are means over its problems, split by split."""
    own, base = _by_split(rows, rule), _by_split(rows, "caution=0")
    columns = [own[:, i] for i in range(own.shape[1])]
    above, worst, within, price, refused = columns
    shares = [f"{100 * within.mean():.0f}", _told(price), f"{100 * refused.mean():.0f}"]
    return [_told(above), *shares, _told(above - base[:, 0]), _told(worst)]


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
