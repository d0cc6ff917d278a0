"""Whether certificates keep their promise where the truth is known, and how often they are issued.

One simulation serves every table: what all candidates of a front decide about a pool of rows.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.stats import binom  # type: ignore[import-untyped]  # scipy ships no types
from sklearn.dummy import DummyClassifier

from emsco import Candidate, CascadeClassifier, Costs, Evaluation, StageDesign
from emsco._binomial import cost_upper, lower, tail, upper
from emsco._sequence import passed, shares
from emsco.certify import Targets, certify, in_order, one_row_a_group
from emsco.datasets import load_thyroid
from experiments.pool import (
    CLASSES,
    KINDS,
    Counts,
    Front,
    Numbers,
    accuracy_of,
    code_of_now,
    count,
    kept_front,
)
from experiments.tables import markdown

SETTINGS = ((0.90, 0.90), (0.95, 0.95), (0.95, 0.99))  # accuracy, confidence
BEST = 0.02  # of accuracy above the target: what a certificate's coverage is held against
_BOUNDS = 6  # told of a candidate with two classes
_MARGIN = 0.999  # of the binomial distribution that false certificates must stay within
_PARTS = ("validity", "bounds", "power", "groups", "constant")


@dataclass(frozen=True)
class Plan:
    """How much is simulated."""

    populations: int
    pool: int  # rows; the truth is exact whatever their number
    sources: int
    draws: int
    sizes: tuple[int, ...]
    groups: int
    splits: int


FULL = Plan(12, 12_000, 5, 100, (200, 500, 2000), groups=4000, splits=100)
SMALL = Plan(2, 4_000, 4, 500, (500, 2000), groups=1000, splits=5)


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Simulate, hold every promise against the truth, and exit with an error if one is broken."""
    plan = SMALL if small else FULL
    parts = [part for part in _PARTS if not only or part in only]
    broken: list[str] = []
    tables = []
    if {"validity", "bounds", "power"} & set(parts):
        seen = _simulate_all(plan)
        made: dict[str, Callable[[Seen, list[str]], str]] = {
            "validity": _validity,
            "bounds": _bounds,
            "power": _power,
        }
        tables += [made[part](seen, broken) for part in parts if part in made]
    if "groups" in parts:
        tables.append(_groups(plan, broken))
    if "constant" in parts:
        tables.append(_constant(plan, broken))
    told = "\n\n".join(tables)
    if broken:
        print(told)
        raise SystemExit("\n".join(["Broken:", *broken]))
    return told


Seen = dict[tuple[str, int, str], list[dict[str, Any]]]  # kind, size and setting: by population


def _simulate_all(plan: Plan) -> Seen:
    tasks = [(kind, number) for kind in KINDS for number in range(plan.populations)]
    code = code_of_now()
    found = Parallel(n_jobs=2)(delayed(_look)(plan, kind, number, code) for kind, number in tasks)
    seen: Seen = defaultdict(list)
    for (kind, number), looks in zip(tasks, found, strict=True):
        for (size, setting), figures in looks.items():
            seen[kind, size, setting].append(figures)
        print(json.dumps({"thresholds": kind, "population": number, "seen": len(looks)}))
    return seen


def _look(plan: Plan, kind: str, number: int, code: str) -> dict[tuple[int, str], dict[str, Any]]:
    """Draw calibration rows, test the front on each draw, and hold the result against the truth."""
    front = kept_front(kind, number, pool=plan.pool, sources=plan.sources, code=code)
    _check_certify(front)
    rng = np.random.default_rng([number, KINDS.index(kind)])
    truth = count(front, np.ones((plan.pool, 1), dtype=np.float32))
    accuracy = accuracy_of(truth)
    order = _Order(front)
    just_missed = {t: _just_missed(order, accuracy, t) for t, _ in SETTINGS}
    looks = {}
    for size in plan.sizes:
        weights = rng.multinomial(size, np.full(plan.pool, 1 / plan.pool), size=plan.draws)
        counts = count(front, weights.T.astype(np.float32))
        for target, confidence in SETTINGS:
            level = 1 - confidence
            tested = _test(order.at(target), counts, accuracy, target, level)
            listed = tested.pop("listed")
            tested |= _compare(front, counts, truth, target, level, listed)
            each = level / (tested["tested"] * _BOUNDS)
            tested |= _false_bounds(front, counts, truth, listed, each)
            looks[size, f"{target:.2f} / {confidence:.2f}"] = tested
            missed = just_missed[target]
            tested = _test(order.at(missed), counts, accuracy, missed, level)
            looks[size, f"just missed / {confidence:.2f}"] = tested
    return looks


def _test(
    order: NDArray[np.intp], counts: Counts, accuracy: Numbers, target: float, level: float
) -> dict[str, Any]:
    """Test the front in every draw, by the functions that `certify` uses."""
    p_values = tail(counts.errors[order], counts.accepted[order], 1 - target)
    levels = level * shares(len(order))
    issued, false, listed = [], [], []
    for draw in range(p_values.shape[1]):
        own = p_values[:, draw].tolist()
        certified = order[passed(levels, own.__getitem__)]
        issued.append(bool(certified.size))
        false.append(bool((accuracy[certified] < target).any()))
        listed.append(certified)
    return {"issued": issued, "false": false, "listed": listed, "tested": len(order)}


def _just_missed(order: _Order, accuracy: Numbers, target: float) -> float:
    """Find a target that the candidate tested first just misses: false is easiest there."""
    for _ in range(50):
        first = accuracy[order.at(target)[0]]
        if first < target <= first + 1e-6:
            break
        target = min(first + 1e-9, 0.9999)
    return float(target)


def _compare(
    front: Front,
    counts: Counts,
    truth: Counts,
    target: float,
    level: float,
    listed: Sequence[NDArray[np.intp]],
) -> dict[str, Any]:
    """Set certificates beside Holm's procedure, the best that there is, and what is naive."""
    p_values = tail(counts.errors, counts.accepted, 1 - target)
    accuracy, coverage = accuracy_of(truth), truth.accepted[:, 0] / truth.rows[0]
    good = coverage[accuracy >= target + BEST]
    seen: dict[str, Any] = defaultdict(list)
    seen["front"] = len(p_values)
    seen["Holm issued"] = p_values.min(axis=0) <= level / len(p_values)
    for draw, certified in enumerate(listed):
        if certified.size:
            most = certified[counts.accepted[certified, draw].argmax()]
            seen["coverage"].append(float(coverage[most]))
            if good.size:
                seen["of the best"].append(float(coverage[most] / good.max()))
        for name, choice in _naive(front, counts, p_values, draw, target, level).items():
            seen[f"{name} chosen"].append(choice is not None)
            seen[f"{name} false"].append(choice is not None and bool(accuracy[choice] < target))
    return dict(seen)


class _Order:
    """Orders a front as `certify` does."""

    def __init__(self, front: Front) -> None:
        design = StageDesign.from_stages([["x0"]])
        self._costs = Costs.per_feature([1.0])
        self._candidates = [
            Candidate(design, 0.75, Evaluation(front.rows, accepted, right, cost * front.rows))
            for accepted, right, cost in front.selected.tolist()
        ]
        self._places = {id(candidate): i for i, candidate in enumerate(self._candidates)}
        self._known: dict[float, NDArray[np.intp]] = {}

    def at(self, target: float) -> NDArray[np.intp]:
        if target not in self._known:
            ordered = in_order(self._candidates, Targets(accuracy=target), self._costs)
            self._known[target] = np.array([self._places[id(c)] for c in ordered], dtype=np.intp)
        return self._known[target]


def _check_certify(front: Front) -> None:
    """Make sure that the simulation certifies what `certify` did on the same rows."""
    weights = np.bincount(front.drawn, minlength=len(front.truth)).astype(np.float32)
    counts = count(front, weights[:, None])
    order = _Order(front).at(0.95)
    p_values = tail(counts.errors[order, 0], counts.accepted[order, 0], 0.05)
    certified = order[passed(0.05 * shares(len(order)), p_values.__getitem__)]
    if not np.array_equal(np.sort(certified), np.sort(front.certified)):
        raise SystemExit("certify() and the simulation differ on the same rows.")


def _naive(
    front: Front, counts: Counts, p_values: Numbers, draw: int, target: float, level: float
) -> dict[str, int | None]:
    """Choose the most covering candidate by figures that were not made for choosing."""
    accepted, errors = counts.accepted[:, draw], counts.errors[:, draw]
    selected, right = front.selected[:, 0], front.selected[:, 1]

    def most(able: NDArray[np.bool_], covered: Numbers) -> int | None:
        return int(np.where(able, covered, -1).argmax()) if able.any() else None

    return {
        "selected": most(right >= target * selected, selected),
        "calibration": most((accepted > 0) & (errors <= (1 - target) * accepted), accepted),
        "one test each": most(p_values[:, draw] <= level, accepted),
    }


def _false_bounds(
    front: Front,
    counts: Counts,
    truth: Counts,
    listed: Sequence[NDArray[np.intp]],
    level: float,
) -> dict[str, list[bool]]:
    """Say for every draw whether a bound is false: any that is listed, and the best of each."""
    any_false, best_false = [], []
    for draw, who in enumerate(listed):
        bounds = _bounds_beside(front, counts, draw, who, level)
        true = _figures(front, truth, who)
        false = [bound > figure + 1e-12 for bound, figure in zip(bounds, true, strict=True)]
        any_false.append(any(bool(each.any()) for each in false))
        best_false.append(
            who.size > 0
            and any(bool(each[bound.argmax()]) for each, bound in zip(false, bounds, strict=True))
        )
    return {"bounds false": any_false, "best bounds false": best_false}


def _bounds_beside(
    front: Front, counts: Counts, draw: int, who: NDArray[np.intp], level: float
) -> list[Numbers]:
    """Give the bounds of candidates in a draw, turned so that more is better."""
    rows, accepted = counts.rows[draw], counts.accepted[who, draw]
    reached = np.column_stack([np.full(len(who), rows), *counts.reached[:, who, draw]])
    return [
        lower(accepted - counts.errors[who, draw], accepted, level),
        lower(accepted, rows, level),
        -upper(accepted, rows, level),
        -cost_upper(reached, front.prices[who], level),
        *(
            -upper(counts.missed[label, who, draw], counts.class_rows[label, draw], level)
            for label in CLASSES
        ),
    ]


def _figures(front: Front, truth: Counts, who: NDArray[np.intp]) -> list[Numbers]:
    """Give what is true of the same."""
    rows, accepted = truth.rows[0], truth.accepted[who, 0]
    steps = np.diff(front.prices[who]).T
    return [
        accuracy_of(truth)[who],
        accepted / rows,
        -accepted / rows,
        -(front.prices[who, 0] + (steps * truth.reached[:, who, 0] / rows).sum(axis=0)),
        *(-truth.missed[label, who, 0] / truth.class_rows[label, 0] for label in CLASSES),
    ]


# The tables.


def _validity(seen: Seen, broken: list[str]) -> str:
    rows = []
    for (kind, size, setting), populations in seen.items():
        level = 1 - float(setting[-4:])
        false = _all(populations, "false")
        _hold(false, level, f"false certificates, {kind}, {size} rows, {setting}", broken)
        rows.append(
            [
                kind,
                setting,
                f"{size:,}",
                f"{len(false):,}",
                _share(false),
                f"{level:.0%}",
                *(
                    ""
                    if setting.startswith("just")
                    else f"{_share(_all(populations, f'{name} false'))} of "
                    f"{_share(_all(populations, f'{name} chosen'))}"
                    for name in ("selected", "calibration", "one test each")
                ),
            ]
        )
    header = ["thresholds", "accuracy / confidence", "calibration rows", "repeats",
              "false certificate", "allowed", "chosen by selected figure: false of chosen",
              "by calibration figure", "by one test each, uncorrected"]  # fmt: skip
    return "Certificates for a candidate that misses its target:\n\n" + markdown(header, rows)


def _bounds(seen: Seen, broken: list[str]) -> str:
    rows = []
    for (kind, size, setting), populations in seen.items():
        if setting.startswith("just"):
            continue
        level = 1 - float(setting[-4:])
        repeats = len(_all(populations, "issued"))
        told = []
        for which in ("best bounds false", "bounds false"):
            false = _all(populations, which)
            _hold(false, level, f"{which}, {kind}, {size} rows, {setting}", broken)
            told.append(_share(false))
        rows.append([kind, setting, f"{size:,}", f"{repeats:,}", *told, f"{level:.0%}"])
    header = ["thresholds", "accuracy / confidence", "calibration rows", "repeats",
              "a bound false that is the best listed", "any listed bound false",
              "allowed"]  # fmt: skip
    return "False bounds:\n\n" + markdown(header, rows)


def _power(seen: Seen, broken: list[str]) -> str:
    rows = []
    for (kind, size, setting), populations in seen.items():
        if setting.startswith("just"):
            continue
        by_population = [
            (float(np.mean(p["issued"])), float(np.mean(p["Holm issued"]))) for p in populations
        ]
        ours, holm = np.mean(by_population, axis=0)
        worst = min(a - b for a, b in by_population)
        what = f"{kind}, {size} rows, {setting}: issued {ours:.1%}, Holm {holm:.1%}"
        if ours < holm or (0.01 <= holm <= 0.9 and ours <= holm):
            broken.append(what)
        ratio = _all(populations, "of the best")
        if size == 2000 and ratio.size and ratio.mean() < 0.9:
            broken.append(f"{kind}, {size} rows, {setting}: coverage {ratio.mean():.2f} of best")
        covered = _all(populations, "coverage")
        tested = np.mean([p["tested"] for p in populations])
        front = np.mean([p["front"] for p in populations])
        rows.append(
            [
                kind,
                setting,
                f"{size:,}",
                f"{front:,.0f}",
                f"{tested:,.0f}",
                f"{holm:.1%}",
                f"{ours:.1%}",
                f"{100 * worst:+.1f}",
                f"{covered.mean():.2f}" if covered.size else "",
                f"{ratio.mean():.2f}" if ratio.size else "",
            ]
        )
    header = ["thresholds", "accuracy / confidence", "calibration rows", "candidates", "tested",
              "Holm issues", "issued", "least more than Holm in a population, points",
              "coverage when issued", "of the best at target + 2 points"]  # fmt: skip
    return "How often a certificate is issued:\n\n" + markdown(header, rows)


def _groups(plan: Plan, broken: list[str]) -> str:
    """Simulate rows of groups, of which every one is right with the group's own probability."""
    rng = np.random.default_rng(0)
    together = 1 / 0.3 - 1  # the sum of Beta's parameters for an intra-class correlation of 0.3
    n_groups, rows = 200, []
    for target, confidence in SETTINGS:
        for size in (5, 20):
            groups = np.repeat(np.arange(n_groups), size)
            false: dict[str, list[bool]] = {"one row a group": [], "all rows": []}
            for _ in range(plan.groups):
                # At the target itself, the hardest case that must not be certified.
                probability = rng.beta(together * target, together * (1 - target), n_groups)
                wrong = rng.random(len(groups)) >= np.repeat(probability, size)
                seed = np.random.RandomState(rng.integers(2**31))
                for name, rows_used in (
                    ("one row a group", one_row_a_group(groups, seed)),
                    ("all rows", np.arange(len(groups))),
                ):
                    p_value = tail(wrong[rows_used].sum(), len(rows_used), 1 - target)
                    false[name].append(bool(p_value <= 1 - confidence))
            _hold(
                np.array(false["one row a group"]),
                1 - confidence,
                f"groups of {size}, {target} / {confidence}",
                broken,
            )
            rows.append(
                [
                    f"{target:.2f} / {confidence:.2f}",
                    str(size),
                    f"{plan.groups:,}",
                    *(_share(np.array(found)) for found in false.values()),
                    f"{1 - confidence:.0%}",
                ]
            )
    header = ["accuracy / confidence", "rows a group", "repeats", "false with `groups`",
              "false without", "allowed"]  # fmt: skip
    return "200 groups whose rows resemble one another:\n\n" + markdown(header, rows)


def _constant(plan: Plan, broken: list[str]) -> str:
    """Certify a classifier that always says the same, on random halves of thyroid."""
    X, y, costs = load_thyroid()
    asked: dict[str, dict[str, Any]] = {
        "accuracy 0.9": {"accuracy": 0.9},
        "accuracy 0.9, sick missed at most 0.5": {"accuracy": 0.9, "max_missed": {"sick": 0.5}},
        "sick missed at most 0.9": {"max_missed": {"sick": 0.9}},
    }
    issued: dict[str, int] = dict.fromkeys(asked, 0)
    for split in range(plan.splits):
        order = np.random.default_rng(split).permutation(len(y))
        train, fresh = order[: len(y) // 2], order[len(y) // 2 :]
        model = CascadeClassifier(DummyClassifier(strategy="prior"), costs=costs)
        model.fit(X.iloc[train], y[train])
        for name, targets in asked.items():
            certificate = certify(model, X.iloc[fresh], y[fresh], share=1 / 3, **targets)
            issued[name] += certificate.certified
    broken += [f"constant: {name}" for name, count in issued.items() if "sick" in name and count]
    rows = [[name, f"{plan.splits}", f"{count}"] for name, count in issued.items()]
    return "A constant classifier on thyroid:\n\n" + markdown(["asked", "splits", "issued"], rows)


def _all(populations: Sequence[dict[str, Any]], name: str) -> NDArray[Any]:
    return np.concatenate([np.asarray(population.get(name, [])) for population in populations])


def _share(happened: NDArray[Any]) -> str:
    return f"{100 * happened.mean():.2f}%" if happened.size else ""


def _hold(happened: NDArray[np.bool_], level: float, what: str, broken: list[str]) -> None:
    """Note where something happened more often than its level and its margin allow."""
    if happened.sum() > binom.ppf(_MARGIN, len(happened), level):
        broken.append(f"{what}: {_share(happened)} of {len(happened):,}, allowed {level:.2%}")
