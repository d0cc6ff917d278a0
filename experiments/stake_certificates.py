"""Certificates of shares of a stake, and by group, where the truth is exactly on the boundary.

What a fitted cascade answers is known, so labels are drawn such
that exactly the promised share is wrong: any more, and the promise is false. There, a certificate
may be issued with at most the allowed probability. Where half as much is wrong, it should be.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.stats import binom  # type: ignore[import-untyped]  # scipy ships no types

from emsco import Candidate, CascadeClassifier, Evaluation, StageDesign
from emsco.certify import Targets, certify
from emsco.certify._candidate_counts import CalibrationRows, CandidateCounts
from emsco.certify._group_terms import grouped_rows
from emsco.certify._hypothesis_tests import holm
from emsco.certify._stake_terms import staked_rows, with_cap
from emsco.rows.ledger import forget_all
from emsco.rows.row_hashes import hash_exactly
from experiments import results
from experiments.tables import markdown

DRAWS, SMALL = 2000, 60
SHARE = 0.05  # wrong at the boundary, and allowed of false certificates
_LEAST = 0.01  # of the smallest p-value times the number of cases
_MOST = 10_000.0  # the largest of stakes over four orders of magnitude
_ODDS, _HUGE = 3000, 157.0  # one row in so many has this stake, all others have 1

Numbers = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Numbers]


NAME = "stake_certificates"
_COLUMNS = ("setting", "rows", "draws", "false", "simple", "uncorrected", "issued")
TARGETS = Targets(accuracy=1 - SHARE)
_CHECKED = 3  # draws of each setting on which `certify` must say the same
_NOBODY = Candidate(StageDesign(np.zeros(2, dtype=np.int64)), 0.8, Evaluation(0, 0, 0, 0))


@dataclass(frozen=True)
class StakeCase:
    """A population of stakes, and the share of accepted rows with a stake that is wrong.

    `wrong` makes exactly `SHARE` of the accepted stake up to the cap wrong.
    """

    rows: int
    cap: float
    stakes: Draw
    wrong: Callable[[Numbers], Numbers]


def _over_orders(rng: np.random.Generator, rows: int) -> Numbers:
    return np.exp(rng.uniform(0, np.log(_MOST), rows))


def _one_huge(rng: np.random.Generator, rows: int) -> Numbers:
    return np.where(rng.random(rows) < 1 / _ODDS, _HUGE, 1.0)


def _proportional(stakes: Numbers) -> Numbers:
    """Be wrong in proportion to the stake: E[S w] = slope (M^2 - 1) / 2 log M of log-uniform S."""
    slope = SHARE * (_MOST - 1) / ((_MOST**2 - 1) / 2)
    return np.asarray(slope * stakes)


def _at_small(stakes: Numbers) -> Numbers:
    """Be wrong below a tenth of the largest stake, which is where a tenth of the stake is."""
    edge = _MOST / 10
    return np.where(stakes < edge, SHARE * (_MOST - 1) / (edge - 1), 0.0)


def _at_huge(stakes: Numbers) -> Numbers:
    """Be wrong at the huge stakes, and else as often as is missing to the share."""
    huge = _HUGE / _ODDS
    total = huge + 1 - 1 / _ODDS
    return np.where(stakes > 1, 1.0, max(0.0, SHARE * total - huge) / (1 - 1 / _ODDS))


def _constant_to_the_cap(stakes: Numbers) -> Numbers:
    """Be wrong at all stakes above the cap, which go to review."""
    return np.where(stakes > _MOST / 4, 1.0, SHARE)


STAKES: Mapping[str, StakeCase] = {
    "errors alike": StakeCase(3000, _MOST, _over_orders, lambda s: np.full(len(s), SHARE)),
    "errors at large stakes": StakeCase(3000, _MOST, _over_orders, _proportional),
    "errors at small stakes": StakeCase(3000, _MOST, _over_orders, _at_small),
    "all above the cap wrong": StakeCase(3000, _MOST / 4, _over_orders, _constant_to_the_cap),
    "one huge stake": StakeCase(3000, _HUGE, _one_huge, _at_huge),
    "one huge stake, more rows": StakeCase(15_000, _HUGE, _one_huge, _at_huge),
}


@dataclass(frozen=True)
class GroupCase:
    """Groups with their shares of the rows, and of the accepted rows that are wrong in each."""

    rows: int
    parts: tuple[float, ...]
    wrong: tuple[float, ...]
    every: bool

    @property
    def breaking(self) -> set[int]:
        """The groups at the boundary."""
        return {group for group, share in enumerate(self.wrong) if share == SHARE}


GROUPS: Mapping[str, GroupCase] = {
    "every: one of two": GroupCase(1000, (0.5, 0.5), (0.01, SHARE), every=True),
    "every: one small of two": GroupCase(2000, (0.9, 0.1), (0.01, SHARE), every=True),
    "every: all of five": GroupCase(2000, (0.2,) * 5, (SHARE,) * 5, every=True),
    "list: all of five": GroupCase(2000, (0.2,) * 5, (SHARE,) * 5, every=False),
    "list: two of five": GroupCase(
        2000, (0.2,) * 5, (0.005, 0.005, 0.005, SHARE, SHARE), every=False
    ),
}


_SETTINGS = [*STAKES, *GROUPS]


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Draw, certify, and exit with an error if a promise is false too often."""
    draws = SMALL if small else DRAWS
    workers = Parallel(n_jobs=1 if small else 2)
    rows: list[results.Row] = []
    for number, name in enumerate(_SETTINGS):
        if only and name not in only:
            continue
        seeds = np.random.SeedSequence([45, number]).spawn(draws)
        look = look_at_stakes if name in STAKES else look_at_groups
        looks = workers(delayed(look)(name, seed) for seed in seeds)
        counts = [sum(one[key] for one in looks) for key in looks[0]]
        rows.append(dict(zip(_COLUMNS, [name, _rows(name), draws, *counts], strict=True)))
        print(json.dumps(rows[-1]))
        if not small:
            results.save(NAME, f"python -m experiments {NAME}", rows[-1:], _SETTINGS)
    told = table(rows)
    least = min(float(binom.sf(row["false"] - 1, row["draws"], SHARE)) for row in rows)
    if least * len(rows) < _LEAST:
        print(told)
        raise SystemExit("False certificates are more frequent than allowed.")
    return told


def table(rows: Sequence[results.Row]) -> str:
    """Lay out stakes, then groups, then how surprising the most frequent false promise is."""
    tables = []
    for cases, others in (
        (STAKES, ["false, counting rows", "false, cap = largest of the sample"]),
        (GROUPS, ["false, all rows together", "false, a test each, no correction"]),
    ):
        told = [
            [row["setting"], f"{row['rows']:,}"]
            + [f"{100 * row[key] / row['draws']:.1f}%" for key in _COLUMNS[3:]]
            for row in rows
            if row["setting"] in cases
        ]
        if told:
            header = ["setting", "rows", "false", *others, "issued at half the errors"]
            tables.append(markdown(header, told))
    least = min(float(binom.sf(row["false"] - 1, row["draws"], SHARE)) for row in rows)
    return "\n\n".join([*tables, _verdict(least, len(rows), rows[0]["draws"])])


def _rows(name: str) -> int:
    return STAKES[name].rows if name in STAKES else GROUPS[name].rows


def _verdict(least: float, cases: int, draws: int) -> str:
    return (
        f"{draws:,} draws a setting at 95% accuracy and confidence: the smallest one-sided exact "
        f"p-value of more than {SHARE:.0%} false is {least:.3g}, times {cases} cases "
        f"{min(1.0, least * cases):.3g}."
    )


@cache
def _cascade() -> CascadeClassifier:
    """Fit a cascade that rejects some rows."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=400)
    X = np.column_stack([y + rng.normal(size=400), 2 * y + rng.normal(size=400)])
    fitted: CascadeClassifier = CascadeClassifier(threshold=0.8).fit(X, y)
    return fitted


def _drawn(
    cascade: CascadeClassifier, rng: np.random.Generator, wrong: Numbers
) -> tuple[Numbers, NDArray[Any]]:
    """Draw rows, and labels of which the cascade gets these shares wrong."""
    X = np.column_stack([2 * rng.normal(size=len(wrong)), 3 * rng.normal(size=len(wrong))])
    label = cascade.predict(X)
    return X, np.where(rng.random(len(wrong)) < wrong, 1 - label, label)


def _passed(
    cascade: CascadeClassifier,
    X: Numbers,
    y: NDArray[Any],
    *,
    stake: Numbers | None = None,
    cap: float | None = None,
    by: NDArray[Any] | None = None,
    every: bool = True,
) -> set[Any]:
    """Test as `certify` does, without its checks of the rows; {None} is a certificate of all."""
    layout = cascade.decider_.layout
    hashes = hash_exactly(layout.read_known(X).columns) + hash_exactly({"label": y})
    staked = staked_rows(stake, cap, X, layout, hashes)
    rows = CalibrationRows(X, y, staked, grouped_rows(by, X, layout, len(X), every=every))
    capped = cascade if staked is None else with_cap(cascade, staked.cap)
    counts = CandidateCounts.of(_NOBODY, capped, rows)
    if not every:
        p_values = counts.p_values(TARGETS)
        through, _ = holm([*p_values.values()], SHARE)
        return {group for group, is_so in zip(p_values, through, strict=True) if is_so}
    if counts.p_value(TARGETS) > SHARE:
        return set()
    return set(counts.by_group) or {None}


def _certified(cascade: CascadeClassifier, X: Numbers, y: NDArray[Any], **asked: Any) -> set[Any]:
    """Certify, with all checks of the rows."""
    forget_all()  # every draw stands for a user of its own
    certificate = certify(cascade, X, y, accuracy=1 - SHARE, confidence=1 - SHARE, **asked)
    return set(certificate.groups_passed) or {None} if certificate.certified else set()


def look_at_stakes(name: str, seed: np.random.SeedSequence) -> dict[str, bool]:
    """Certify at the boundary, in two ways that do not keep the promise, and at half of it."""
    case, rng, cascade = STAKES[name], np.random.default_rng(seed), _cascade()
    stakes = case.stakes(rng, case.rows)
    X, y = _drawn(cascade, rng, case.wrong(stakes))
    asked: dict[str, Any] = {"stake": stakes, "cap": case.cap}
    own = _passed(cascade, X, y, **asked)
    found = {
        "false": bool(own),
        "by rows": bool(_passed(cascade, X, y)),
        "cap of the sample": bool(_passed(cascade, X, y, stake=stakes, cap=float(stakes.max()))),
    }
    if seed.spawn_key[-1] < _CHECKED:
        _demand_same(own, _certified(cascade, X, y, **asked), name)
    half = np.where(stakes > case.cap, 1.0, case.wrong(stakes) / 2)
    X, y = _drawn(cascade, rng, half)
    return found | {"power": bool(_passed(cascade, X, y, **asked))}


def look_at_groups(name: str, seed: np.random.SeedSequence) -> dict[str, bool]:
    """Certify by group where some groups are at the boundary, and where none is."""
    case, rng, cascade = GROUPS[name], np.random.default_rng(seed), _cascade()
    group = rng.choice(len(case.parts), p=case.parts, size=case.rows)
    wrong = np.array(case.wrong)
    X, y = _drawn(cascade, rng, wrong[group])
    asked: dict[str, Any] = {"by": group, "every": case.every}
    own = _passed(cascade, X, y, **asked)
    alone = (_passed(cascade, X[group == g], y[group == g]) for g in case.breaking)
    found = {
        "false": bool(own & case.breaking),
        "all rows": bool(_passed(cascade, X, y)),
        "a test each": any(alone),
    }
    if seed.spawn_key[-1] < _CHECKED:
        _demand_same(own, _certified(cascade, X, y, **asked), name)
    X, y = _drawn(cascade, rng, np.minimum(wrong, SHARE / 2)[group])
    return found | {"power": _passed(cascade, X, y, **asked) >= case.breaking}


def _demand_same(simulated: set[Any], certified: set[Any], name: str) -> None:
    if simulated != certified:
        raise SystemExit(f"certify() and the simulation differ on the same rows: {name}.")
