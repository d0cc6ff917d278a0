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

from emsco.certify import Targets
from emsco.certify.binomial import cost_upper, lower, tail, upper
from experiments.alone import constant_answers, groups_alike
from experiments.choices import (
    hold,
    listed_by,
    look_at_choices,
    share_of,
    table_of_choices,
    table_of_classes,
)
from experiments.pool import (
    CHECKED,
    CLASSES,
    CONFIDENCE,
    KINDS,
    WAYS,
    Counts,
    Front,
    Numbers,
    Places,
    accuracy_of,
    code_of_now,
    count,
    kept_front,
)
from experiments.tables import markdown

SETTINGS = ((0.90, 0.90), (0.95, 0.95), (0.95, 0.99))  # accuracy, confidence
BEST = 0.02  # of accuracy above the target: what a certificate's coverage is held against
_BOUNDS = 6  # told of a candidate with two classes
_PARTS = ("validity", "bounds", "power", "chosen", "classes", "groups", "constant")


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
    made: dict[str, Callable[[Seen, list[str]], str]] = {
        "validity": _validity,
        "bounds": _bounds,
        "power": _power,
        "chosen": table_of_choices,
        "classes": table_of_classes,
    }
    if made.keys() & set(parts):
        seen = _simulate_all(plan)
        tables += [made[part](seen, broken) for part in parts if part in made]
    if "groups" in parts:
        tables.append(groups_alike(plan.groups, SETTINGS, broken))
    if "constant" in parts:
        tables.append(constant_answers(plan.splits, broken))
    told = "\n\n".join(tables)
    if broken:
        print(told)
        raise SystemExit("\n".join(["Broken:", *broken]))
    return told


Who = NDArray[np.intp]  # places of candidates in the front, in the order of testing
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
    whole = kept_front(kind, number, pool=plan.pool, sources=plan.sources, code=code)
    _check_certify(whole)
    front = whole.alone()
    rng = np.random.default_rng([number, KINDS.index(kind)])
    everybody = count(whole, np.ones((plan.pool, 1), dtype=np.float32))
    truth = count(front, np.ones((plan.pool, 1), dtype=np.float32))
    accuracy = accuracy_of(truth)
    order = Places(front)
    just_missed = {t: _just_missed(order, accuracy, t) for t, _ in SETTINGS}
    looks: dict[tuple[int, str], dict[str, Any]] = {}
    for size in plan.sizes:
        weights = rng.multinomial(size, np.full(plan.pool, 1 / plan.pool), size=plan.draws)
        drawn = count(whole, weights.T.astype(np.float32))
        counts = drawn.alone(whole.on_front)
        for target, confidence in SETTINGS:
            level = 1 - confidence
            who, listed = _listed(order, counts, target, level)
            looks[size, f"{target:.2f} / {confidence:.2f}"] = (
                _held_against(accuracy[who] >= target, listed)
                | _compare(front, counts, truth, target, level, who, listed)
                | _false_bounds(front, counts, truth, who, listed, level / (len(who) * _BOUNDS))
            )
            missed = just_missed[target]
            who, listed = _listed(order, counts, missed, level)
            looks[size, f"just missed / {confidence:.2f}"] = _held_against(
                accuracy[who] >= missed, listed
            )
        choices = look_at_choices(whole, drawn, everybody, SETTINGS)
        looks |= {(size, setting): figures for setting, figures in choices.items()}
    return looks


def _listed(order: Places, counts: Counts, target: float, level: float) -> tuple[Who, Mask]:
    """Test candidates in order, where nothing was chosen; say whom each draw certifies of them."""
    targets = Targets(accuracy=target)
    family, who = order.of(targets, None)
    return who, listed_by(family, who, counts, targets, level)


def _held_against(keeps: Mask, listed: Mask) -> dict[str, Any]:
    return {
        "issued": listed.any(axis=0),
        "false": listed[~keeps].any(axis=0),
        "considered": len(listed),
    }


def _just_missed(order: Places, accuracy: Numbers, target: float) -> float:
    """Find a target that the candidate tested first just misses: false is easiest there."""
    for _ in range(50):
        first = accuracy[order.of(Targets(accuracy=target), None)[1][0]]
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
    who: Who,
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


def _check_certify(front: Front) -> None:
    """Make sure that the simulation certifies what `certify` did on the same rows."""
    weights = np.bincount(front.drawn, minlength=len(front.truth)).astype(np.float32)
    counts, places = count(front, weights[:, None]), Places(front)
    for (way, targets), certified in zip(CHECKED, front.certified, strict=True):
        if front.chosen[list(WAYS).index(way)] < 0:
            continue
        family, who = places.of(targets, way)
        listed = listed_by(family, who, counts, targets, 1 - CONFIDENCE)
        if set(who[listed[:, 0]].tolist()) != set(np.flatnonzero(certified).tolist()):
            raise SystemExit(f"certify() and the simulation differ on the same rows: {targets}.")


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
    front: Front, counts: Counts, truth: Counts, who: Who, listed: Mask, level: float
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


def _bounds_beside(front: Front, counts: Counts, who: Who, level: float) -> list[Numbers]:
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


def _figures(front: Front, truth: Counts, who: Who) -> list[Numbers]:
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
        if "issued" not in populations[0]:
            continue
        level = 1 - float(setting[-4:])
        false = _all(populations, "false")
        hold(false, level, f"false certificates, {kind}, {size} rows, {setting}", broken)
        rows.append(
            [
                kind,
                setting,
                f"{size:,}",
                f"{len(false):,}",
                share_of(false),
                f"{level:.0%}",
                *(
                    ""
                    if setting.startswith("just")
                    else f"{share_of(_all(populations, f'{name} false'))} of "
                    f"{share_of(_all(populations, f'{name} chosen'))}"
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
        if "Holm issued" not in populations[0]:
            continue
        level = 1 - float(setting[-4:])
        repeats = len(_all(populations, "issued"))
        told = []
        for which in ("best bounds false", "bounds false"):
            false = _all(populations, which)
            hold(false, level, f"{which}, {kind}, {size} rows, {setting}", broken)
            told.append(share_of(false))
        rows.append([kind, setting, f"{size:,}", f"{repeats:,}", *told, f"{level:.0%}"])
    header = ["thresholds", "accuracy / confidence", "calibration rows", "repeats",
              "a bound false that is the best listed", "any listed bound false",
              "allowed"]  # fmt: skip
    return "False bounds:\n\n" + markdown(header, rows)


def _power(seen: Seen, broken: list[str]) -> str:
    rows = []
    for (kind, size, setting), populations in seen.items():
        if "Holm issued" not in populations[0]:
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


def _all(populations: Sequence[dict[str, Any]], name: str) -> NDArray[Any]:
    return np.concatenate([np.asarray(population.get(name, [])) for population in populations])
