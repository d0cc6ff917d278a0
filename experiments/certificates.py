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
from emsco.certify import Targets, certify_together
from emsco.certify._binomial import cost_upper, lower, tail, upper
from emsco.certify._certify import one_row_a_group
from emsco.certify._order import in_order
from emsco.certify._sequence import passed, shares
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
SMALL = Plan(2, 3_000, 4, 100, (500, 2000), groups=200, splits=2)


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


Places = NDArray[np.intp]  # of candidates in the front, in the order of testing
Mask = NDArray[np.bool_]  # candidates in that order x draws, or draws
Seen = dict[tuple[str, int, str], list[dict[str, Any]]]  # kind, size and setting: by population


def _simulate_all(plan: Plan) -> Seen:
    tasks = [(kind, number) for kind in KINDS for number in range(plan.populations)]
    code = code_of_now()
    # A small run is over before workers have begun.
    workers = Parallel(n_jobs=1 if plan is SMALL else 2)
    found = workers(delayed(_look)(plan, kind, number, code) for kind, number in tasks)
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
    order, among = _Order(front), len(front.selected)
    just_missed = {t: _just_missed(order, accuracy, t) for t, _ in SETTINGS}
    looks = {}
    for size in plan.sizes:
        weights = rng.multinomial(size, np.full(plan.pool, 1 / plan.pool), size=plan.draws)
        counts = count(front, weights.T.astype(np.float32))
        for target, confidence in SETTINGS:
            level = 1 - confidence
            who = order.at(target)
            listed = _listed(who, among, counts, target, level)
            looks[size, f"{target:.2f} / {confidence:.2f}"] = (
                _held_against(accuracy[who] >= target, listed)
                | _compare(front, counts, truth, target, level, who, listed)
                | _false_bounds(front, counts, truth, who, listed, level / (len(who) * _BOUNDS))
            )
            missed = just_missed[target]
            who = order.at(missed)
            looks[size, f"just missed / {confidence:.2f}"] = _held_against(
                accuracy[who] >= missed, _listed(who, among, counts, missed, level)
            )
    return looks


def _listed(who: Places, among: int, counts: Counts, target: float, level: float) -> Mask:
    """Test candidates in order, as `certify` does; say whom each draw certifies, in that order."""
    p_values = tail(counts.errors[who], counts.accepted[who], 1 - target)
    levels = level * shares(len(who), among)
    listed = np.zeros(p_values.shape, dtype=np.bool_)
    for draw in np.flatnonzero(p_values.min(axis=0) <= level):
        listed[passed(levels, p_values[:, draw].tolist().__getitem__), draw] = True
    return listed


def _held_against(keeps: Mask, listed: Mask) -> dict[str, Any]:
    return {
        "issued": listed.any(axis=0),
        "false": listed[~keeps].any(axis=0),
        "considered": len(listed),
    }


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
    who: Places,
    listed: Mask,
) -> dict[str, Any]:
    """Set certificates beside Holm's procedure, the best that there is, and what is naive."""
    p_values = tail(counts.errors, counts.accepted, 1 - target)
    accuracy, coverage = accuracy_of(truth), truth.accepted[:, 0] / truth.rows[0]
    good = coverage[accuracy >= target + BEST]
    most = who[np.where(listed, counts.accepted[who], -1).argmax(axis=0)][listed.any(axis=0)]
    seen: dict[str, Any] = {
        "front": len(p_values),
        "Holm issued": p_values.min(axis=0) <= level / len(p_values),
        "fixed issued": p_values[who[0]] <= level,  # the first that fails ends a fixed sequence
        "coverage": coverage[most],
        "of the best": coverage[most] / good.max() if good.size else [],
    }
    for name, (able, covered) in _naive(front, counts, p_values, target, level).items():
        choice = np.where(able, covered, -1).argmax(axis=0)
        chosen = np.broadcast_to(able.any(axis=0), counts.rows.shape)
        seen[f"{name} chosen"] = chosen
        seen[f"{name} false"] = chosen & (accuracy[choice] < target)
    return seen


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
        self._known: dict[float, Places] = {}

    def at(self, target: float) -> Places:
        if target not in self._known:
            ordered = in_order(self._candidates, Targets(accuracy=target), self._costs)
            self._known[target] = np.array([self._places[id(c)] for c in ordered], dtype=np.intp)
        return self._known[target]


def _check_certify(front: Front) -> None:
    """Make sure that the simulation certifies what `certify` did on the same rows."""
    weights = np.bincount(front.drawn, minlength=len(front.truth)).astype(np.float32)
    who = _Order(front).at(0.95)
    listed = _listed(who, len(front.selected), count(front, weights[:, None]), 0.95, 1 - 0.95)
    if not np.array_equal(who[listed[:, 0]], front.certified):
        raise SystemExit("certify() and the simulation differ on the same rows.")


def _naive(
    front: Front, counts: Counts, p_values: Numbers, target: float, level: float
) -> dict[str, tuple[Mask, Numbers]]:
    """Say who may be chosen, and by which coverage, where figures were not made for choosing."""
    accepted, errors = counts.accepted, counts.errors
    selected, right = front.selected[:, :1], front.selected[:, 1:2]
    return {
        "selected": (right >= target * selected, selected),
        "calibration": ((accepted > 0) & (errors <= (1 - target) * accepted), accepted),
        "one test each": (p_values <= level, accepted),
    }


def _false_bounds(
    front: Front, counts: Counts, truth: Counts, who: Places, listed: Mask, level: float
) -> dict[str, Mask]:
    """Say for every draw whether a bound is false: any that is listed, and the best of each."""
    ever = np.flatnonzero(listed.any(axis=1))
    if not ever.size:
        never = np.zeros(listed.shape[1], dtype=np.bool_)
        return {"bounds false": never, "best bounds false": never}
    who, listed = who[ever], listed[ever]
    any_false = best_false = np.zeros(listed.shape[1], dtype=np.bool_)
    bounds = _bounds_beside(front, counts, who, level)
    for bound, figure in zip(bounds, _figures(front, truth, who), strict=True):
        false = listed & (bound > figure[:, None] + 1e-12)
        best = np.where(listed, bound, -np.inf).argmax(axis=0)
        any_false = any_false | false.any(axis=0)
        best_false = best_false | np.take_along_axis(false, best[None], axis=0)[0]
    return {"bounds false": any_false, "best bounds false": best_false}


def _bounds_beside(front: Front, counts: Counts, who: Places, level: float) -> list[Numbers]:
    """Give the bounds of candidates in every draw, turned so that more is better."""
    rows, accepted = counts.rows, counts.accepted[who]
    later = np.moveaxis(counts.reached[:, who], 0, -1)
    reached = np.concatenate([np.broadcast_to(rows, accepted.shape)[..., None], later], axis=-1)
    return [
        lower(accepted - counts.errors[who], accepted, level),
        lower(accepted, rows, level),
        -upper(accepted, rows, level),
        -cost_upper(reached, front.prices[who, None], level),
        *(-upper(counts.missed[label][who], counts.class_rows[label], level) for label in CLASSES),
    ]


def _figures(front: Front, truth: Counts, who: Places) -> list[Numbers]:
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
        considered = np.mean([p["considered"] for p in populations])
        front = np.mean([p["front"] for p in populations])
        rows.append(
            [
                kind,
                setting,
                f"{size:,}",
                f"{front:,.0f}",
                f"{considered:,.0f}",
                f"{holm:.1%}",
                f"{_all(populations, 'fixed issued').mean():.1%}",
                f"{ours:.1%}",
                f"{100 * worst:+.1f}",
                f"{covered.mean():.2f}" if covered.size else "",
                f"{ratio.mean():.2f}" if ratio.size else "",
            ]
        )
    header = ["thresholds", "accuracy / confidence", "calibration rows", "front", "tested",
              "Holm issues", "a fixed sequence issues", "issued",
              "least more than Holm in a population, points", "coverage when issued",
              "of the best at target + 2 points"]  # fmt: skip
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
    asked = {
        "accuracy 0.9": Targets(accuracy=0.9),
        "accuracy 0.9, sick missed at most 0.5": Targets(accuracy=0.9, max_missed={"sick": 0.5}),
        "sick missed at most 0.9": Targets(max_missed={"sick": 0.9}),
    }
    issued: dict[str, int] = dict.fromkeys(asked, 0)
    for split in range(plan.splits):
        order = np.random.default_rng(split).permutation(len(y))
        train, fresh = order[: len(y) // 2], order[len(y) // 2 :]
        model = CascadeClassifier(DummyClassifier(strategy="prior"), costs=costs)
        model.fit(X.iloc[train], y[train])
        answers = certify_together(model, X.iloc[fresh], y[fresh], list(asked.values()))
        for name, answer in zip(asked, answers, strict=True):
            issued[name] += answer.certified
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
