"""Certificates where a candidate was chosen first, and where they are about classes.

A part of `certificates`: the same populations and draws of calibration rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom  # type: ignore[import-untyped]  # scipy ships no types

from emsco.certify import Targets
from emsco.certify._hypothesis_family import Family, passed
from emsco.certify.binomial import lower, tail, upper
from experiments.pool import WAYS, Counts, Front, Numbers, Places
from experiments.tables import markdown

_MARGIN = 0.999  # of the binomial distribution that false certificates must stay within
_LESS = 0.03  # of repeats: so much less often others may be certified than before
_CONFIDENCE = 0.95
_SHARE = {"max_rejected": 0.4, "min_precision": 0.9}  # of class 1, asked for

Who = NDArray[np.intp]
Mask = NDArray[np.bool_]
Seen = Mapping[tuple[str, int, str], list[dict[str, Any]]]


def p_values_of(targets: Targets, counts: Counts, who: Who) -> Numbers:
    """Give the p-values of candidates in every draw: the largest of one a target."""
    asked = [np.zeros((len(who), counts.rows.size))]
    if targets.accuracy is not None:
        asked.append(tail(counts.errors[who], counts.accepted[who], 1 - targets.accuracy))
    for label, most in targets.max_rejected.items():
        asked.append(tail(counts.rejected[label][who], counts.class_rows[label], most))
    for label, least in targets.min_precision.items():
        # With two classes, what is wrong under a label are the other one's errors.
        wrong, given = counts.missed[1 - label][who], counts.given[label][who]
        asked.append(tail(wrong, given, 1 - least))
    largest: Numbers = np.max(asked, axis=0)
    return largest


def listed_by(family: Family, who: Who, counts: Counts, targets: Targets, level: float) -> Mask:
    """Test candidates as `certify` does; say whom each draw certifies, in the order of testing."""
    p_values = p_values_of(targets, counts, who)
    listed = np.zeros(p_values.shape, dtype=np.bool_)
    for draw in np.flatnonzero(p_values.min(axis=0) <= level):
        own = p_values[:, draw].tolist()
        listed[passed(level * family.shares, own.__getitem__), draw] = True
    return listed


def look_at_choices(
    front: Front, counts: Counts, truth: Counts, settings: Sequence[tuple[float, float]]
) -> dict[str, dict[str, Any]]:
    """Certify after each way of choosing, and hold the result against the truth and against before.

    `truth` has what is counted on the whole pool.
    """
    places, looks = Places(front), {}
    for way, own in zip(WAYS, front.chosen.tolist(), strict=True):
        if own < 0:
            continue
        for target, confidence in settings:
            if WAYS[way] not in (None, target):
                continue
            level = 1 - confidence
            asked = Targets(accuracy=target)
            now = _told(*places.of(asked, way), counts, truth, asked, level, own)
            left = _told(*places.before(asked, way), counts, truth, asked, level, own)
            all_of_it = _told(*places.of(asked, None), counts, truth, asked, level, own)
            looks[f"chosen: {way} / {target:.2f} / {confidence:.2f}"] = now | {
                "before": left,
                "unfiltered before": all_of_it,
            }
            missed = Targets(accuracy=_just_above(_true("accuracy", truth)[own]))
            looks[f"chosen: {way} / just missed / {confidence:.2f}"] = _told(
                *places.of(missed, way), counts, truth, missed, level, own
            )
    level = 1 - _CONFIDENCE
    for name, share in _SHARE.items():
        own = int(front.chosen[0])
        hard = _true(name, truth)[own]
        hard = hard - 1e-9 if name == "max_rejected" else _just_above(hard)
        for told, asked_share in ((f"{share:.2f}", share), ("just missed", float(hard))):
            if not 0 < asked_share < 1:
                continue
            by_label: Any = {name: {1: asked_share}}
            asked = Targets(**by_label)
            family, who = places.of(asked, "default")
            figures = _told(family, who, counts, truth, asked, level, own)
            looks[f"classes: {name} / {told} / {_CONFIDENCE:.2f}"] = figures | _false_bounds(
                name, who, counts, truth, figures.pop("listed"), level
            )
    return looks


def _just_above(share: float) -> float:
    return min(float(share) + 1e-9, 0.9999)


def _true(name: str, truth: Counts) -> Numbers:
    """Give what is true of every candidate."""
    if name == "max_rejected":
        share: Numbers = truth.rejected[1] / truth.class_rows[1]
        return share[:, 0]
    part, whole = {
        "accuracy": (truth.errors, truth.accepted),
        "min_precision": (truth.missed[0], truth.given[1]),
    }[name]
    wrong: Numbers = part / np.maximum(whole, 1)
    return 1 - wrong[:, 0]


def _keeps(targets: Targets, truth: Counts) -> Mask:
    """Say who keeps the targets in truth."""
    keeps = np.ones(len(truth.accepted), dtype=np.bool_)
    if targets.accuracy is not None:
        keeps &= _true("accuracy", truth) >= targets.accuracy
    for most in targets.max_rejected.values():
        keeps &= _true("max_rejected", truth) <= most
    for least in targets.min_precision.values():
        keeps &= _true("min_precision", truth) >= least
    return keeps


def _told(
    family: Family,
    who: Who,
    counts: Counts,
    truth: Counts,
    targets: Targets,
    level: float,
    own: int,
) -> dict[str, Any]:
    listed = listed_by(family, who, counts, targets, level)
    keeps = _keeps(targets, truth)[who]
    return {
        "false": listed[~keeps].any(axis=0),
        "chosen issued": listed[who == own].any(axis=0),
        "others issued": listed[who != own].any(axis=0),
        "tested": len(who),
        "chosen tested": bool((who == own).any()),
        "chosen is first": bool(who[0] == own),
        "listed": listed,
    }


def _false_bounds(
    name: str, who: Who, counts: Counts, truth: Counts, listed: Mask, level: float
) -> dict[str, Mask]:
    """Say for every draw whether a bound of what was asked is false, of any that is listed."""
    each = level / (len(who) * 7)  # four, one a class, and the one asked for
    true = _true(name, truth)[who, None]
    if name == "max_rejected":
        bound = upper(counts.rejected[1][who], counts.class_rows[1], each)
        false = bound < true - 1e-12
    else:
        given, wrong = counts.given[1][who], counts.missed[0][who]
        false = lower(given - wrong, given, each) > true + 1e-12
    return {"bounds false": (listed & false).any(axis=0)}


# The tables.


def table_of_choices(seen: Seen, broken: list[str]) -> str:
    """Tell how often what was chosen is certified, and others, beside how often before."""
    rows, together = [], defaultdict(list)
    for (kind, size, setting), populations in seen.items():
        if not setting.startswith("chosen: "):
            continue
        level = 1 - float(setting[-4:])
        name = setting.removeprefix("chosen: ")
        false = _all(populations, lambda p: p["false"])
        hold(false, level, f"false, {kind}, {size} rows, chosen by {name}", broken)
        told = [kind, name, f"{size:,}", f"{len(false):,}", share_of(false), f"{level:.0%}"]
        if "before" not in populations[0]:
            rows.append([*told, *[""] * 6])
            continue
        tested = np.mean([p["chosen tested"] for p in populations])
        issued = {
            (who, when): _all(populations, lambda p, w=who, k=when: _of(p, k)[f"{w} issued"])
            for who in ("chosen", "others")
            for when in ("now", "before", "unfiltered before")
        }
        together[name, size].append(issued)
        rows.append(
            [
                *told,
                f"{tested:.0%}",
                *(share_of(issued["chosen", when]) for when in ("before", "now")),
                *(
                    share_of(issued["others", when])
                    for when in ("unfiltered before", "before", "now")
                ),
            ]
        )
    for (name, size), found in together.items():
        now, before = (_pooled(found, "chosen", k).mean() for k in ("now", "before"))
        if now < before:
            broken.append(
                f"chosen by {name}, {size} rows: certified {now:.2%}, before {before:.2%}"
            )
    less = {
        what: 100 * (_pooled(found, "others", "before") - _pooled(found, "others", "now")).mean()
        for what, found in [("all", list(chain(*together.values()))), *together.items()]
    }
    if less["all"] > 100 * _LESS:
        broken.append(f"others are certified less often by {less['all']:.2f} points")
    told_less = (
        f"Another than the chosen is certified less often than before by {less['all']:.2f} points "
        f"over all repeats, by {max(less.values()):.2f} in the worst setting."
    )
    header = [
        "thresholds", "chosen / accuracy / confidence", "calibration rows", "repeats",
        "false certificate", "allowed", "chosen is tested", "chosen certified before", "now",
        "another certified before", "of the same left", "now",
    ]  # fmt: skip
    return f"Where a candidate was chosen first. {told_less}\n\n" + markdown(header, rows)


def table_of_classes(seen: Seen, broken: list[str]) -> str:
    """Tell how often a promise about a class is false, and how often one is given."""
    rows = []
    for (kind, size, setting), populations in seen.items():
        if not setting.startswith("classes: "):
            continue
        level, name = 1 - float(setting[-4:]), setting.removeprefix("classes: ")
        told = []
        for which in ("false", "bounds false"):
            false = _all(populations, lambda p, which=which: p[which])
            hold(false, level, f"{which}, {kind}, {size} rows, {name}", broken)
            told.append(share_of(false))
        issued = _all(populations, lambda p: p["chosen issued"] | p["others issued"])
        repeats = f"{len(issued):,}"
        rows.append([kind, name, f"{size:,}", repeats, *told, f"{level:.0%}", share_of(issued)])
    header = [
        "thresholds", "of class 1 / share / confidence", "calibration rows", "repeats",
        "false certificate", "a bound false", "allowed", "issued",
    ]  # fmt: skip
    return "Promises about a class:\n\n" + markdown(header, rows)


def _of(population: dict[str, Any], when: str) -> Any:
    """Give what was seen of a population in one order."""
    return population if when == "now" else population[when]


def _pooled(found: Sequence[dict[tuple[str, str], Any]], who: str, when: str) -> NDArray[Any]:
    """Put repeats together."""
    return np.concatenate([issued[who, when] for issued in found]).astype(np.float64)


def _all(populations: Sequence[dict[str, Any]], of: Callable[..., Any]) -> NDArray[Any]:
    return np.concatenate([of(population) for population in populations])


def share_of(happened: NDArray[Any]) -> str:
    """Print how often something happened."""
    return f"{100 * happened.mean():.2f}%" if happened.size else ""


def hold(happened: NDArray[np.bool_], level: float, what: str, broken: list[str]) -> None:
    """Note where something happened more often than its level and its margin allow."""
    if happened.sum() > binom.ppf(_MARGIN, len(happened), level):
        broken.append(f"{what}: {share_of(happened)} of {len(happened):,}, allowed {level:.2%}")
