"""Whether bounds on gaps between groups are kept as often as their margin says, on made data.

*drawn*: what is decided about each row is drawn with known chances, so that the true gap is just
above its bound, the worst case. A choice must then be refused as often as the margin says: after z
standard errors it passes with a probability of at most 1 - Phi(z). It ends with an error if that is
exceeded more often than chance explains: the smallest exact p-value times the number of cases must
be at least 0.01. Beside it is how often a bound twice as wide is met, and how often it would be if
the margin were corrected for the number of pairs (Bonferroni).

*searched*: whole searches. The values of a smaller group are noisier, so cascades reject and miss
more of its rows. The truth is counted on 20,000 other rows of the same population. *tight*: the
bound is the median of the true gaps of the candidates, so half of them break it.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom  # type: ignore[import-untyped]  # scipy has no types
from sklearn.model_selection import StratifiedShuffleSplit

from emsco import Breakdown, CascadeSearchCV, Decisions, Evaluation, evaluate
from emsco.core.gap import GapBound, read_max_gap
from emsco.core.selection import Figures
from emsco.datasets import make_costly_classification
from emsco.exceptions import EmscoWarning, SelectionError
from experiments.results import Row, load, save
from experiments.tables import exact_interval, markdown

NAME, COMMAND = "gaps", "python -m experiments gaps"
LEAST = 0.01  # of the smallest p-value times the number of cases
TINY = 1e-6  # by how much the true gap is above its bound
CAUTIONS = (1.0, 1.645, 2.326)
NORMAL = NormalDist()


class Setting(NamedTuple):
    """The rows of a class in each group, and the true share of a measure in each."""

    measure: str
    rows: tuple[int, ...]
    shares: tuple[float, ...]

    @property
    def limit(self) -> float:
        """The bound, which the true gap is just above."""
        return max(self.shares) - min(self.shares) - TINY


SETTINGS: Mapping[str, Setting] = {
    "two groups": Setting("rejected", (300, 300), (0.15, 0.10)),
    "a minority is rejected more": Setting("rejected", (1000, 60), (0.10, 0.20)),
    "a minority is rejected less": Setting("rejected", (1000, 60), (0.20, 0.10)),
    "few are missed": Setting("missed", (800, 150), (0.01, 0.03)),
    "five groups, one differs": Setting("rejected", (400,) * 5, (0.20, 0.10, 0.10, 0.10, 0.10)),
    "five groups, two ends": Setting("rejected", (400,) * 5, (0.20, 0.20, 0.15, 0.10, 0.10)),
    "coverage of ten groups": Setting("coverage", (200,) * 10, (0.95, *(0.90,) * 9)),
}
DRAWS, SMALL_DRAWS = 500, 100

SEARCHES, SMALL_SEARCHES = 500, 4
LIMITS: Mapping[str, float] = {"rejected": 0.12, "missed": 0.08}
SEARCH_CAUTIONS: Sequence[float | str] = (0.0, 1.0, "auto", 2.0)
THRESHOLDS: list[float | Mapping[Any, float]] = [0.55, 0.65, 0.75, 0.85, 0.9, 0.95]
N_ROWS, N_TRUTH = 2_000, 20_000
NOISE, MINORITY = 0.6, 0.3
LEAST_COVERAGE = 0.6
CASES = [*(f"drawn: {name}" for name in SETTINGS), "searched", "tight"]


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Measure both; `only` names one of them. Small: fewer draws and searches, not kept."""
    rows: list[Row] = []
    if not only or "drawn" in only:
        for name in SETTINGS:
            rows += _kept(_drawn(name, SMALL_DRAWS if small else DRAWS), small=small)
        _check([row for row in rows if row["case"].startswith("drawn")])
    for case in ("searched", "tight"):
        if not only or case in only:
            rows += _kept(_searched(SMALL_SEARCHES if small else SEARCHES, case), small=small)
    return table(rows if small or only else load(NAME))


def _kept(rows: Iterator[Row], *, small: bool) -> list[Row]:
    """Print rows, and keep them unless they are of small draws."""
    listed = list(rows)
    for row in listed:
        print(json.dumps(row), flush=True)
    if not small:
        save(NAME, COMMAND, listed, CASES)
    return listed


def _drawn(name: str, draws: int) -> Iterator[Row]:
    """Draw evaluations whose true gap is just above the bound, and count those that pass."""
    setting, rng = SETTINGS[name], np.random.default_rng(list(SETTINGS).index(name))
    figures = {
        group: Figures([_evaluation(setting.measure, n, k) for k in rng.binomial(n, share, draws)])
        for group, (n, share) in enumerate(zip(setting.rows, setting.shares, strict=True))
    }
    n_pairs = len(setting.rows) * (len(setting.rows) - 1)
    for z in CAUTIONS:
        allowed = 1 - NORMAL.cdf(z)
        corrected = NORMAL.inv_cdf(1 - allowed / n_pairs)
        wider = 2 * setting.limit
        yield {
            "case": f"drawn: {name}",
            "caution": f"{z:g}",
            "draws": draws,
            "passed": _passing(setting, figures, setting.limit, z),
            "allowed": allowed,
            "met_if_twice": _passing(setting, figures, wider, z),
            "met_if_twice_corrected": _passing(setting, figures, wider, corrected),
            "refused": "",
            "gap_over": "",
        }


def _evaluation(measure: str, n_rows: int, n_counted: int) -> Evaluation:
    """Make an evaluation of one class, in which so many rows count for a measure."""
    n, k = int(n_rows), int(n_counted)
    accepted = {"rejected": n - k, "missed": n, "coverage": k}[measure]
    right = accepted - k if measure == "missed" else accepted
    return Evaluation(n, accepted, right, n, {"a": n}, {"a": accepted}, {"a": right})


def _passing(setting: Setting, figures: Mapping[Any, Figures], limit: float, z: float) -> int:
    """Count the draws that meet a bound."""
    label = None if setting.measure == "coverage" else "a"
    (wanted,) = read_max_gap({setting.measure: limit}, ["a"])
    bound = GapBound(wanted.measure, limit, label)
    return int((bound.values(figures, z, 1.0) <= limit).sum())


def _searched(n_searches: int, case: str) -> Iterator[Row]:
    """Search made data many times, and count whose choice keeps the bounds in truth."""
    seen: dict[float | str, list[float]] = {caution: [] for caution in SEARCH_CAUTIONS}
    refused = dict.fromkeys(SEARCH_CAUTIONS, 0)
    for seed in range(n_searches):
        X, y, groups, costs = made(seed)
        search = CascadeSearchCV(
            costs=costs,
            threshold=THRESHOLDS,
            cv=StratifiedShuffleSplit(1, test_size=0.5, random_state=seed),
            refit=False,  # the cascade that was evaluated is the one that is judged
            random_state=seed,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EmscoWarning)
            search.fit(X[:N_ROWS], y[:N_ROWS])
            fresh = X[N_ROWS:], y[N_ROWS:], groups[N_ROWS:]
            limits = LIMITS if case == "searched" else _median_gap(search, *fresh)
            for caution in SEARCH_CAUTIONS:
                try:
                    search.choose(
                        max_gap=limits,
                        by=groups[:N_ROWS],
                        min_coverage=LEAST_COVERAGE,
                        caution=caution,
                    )
                except SelectionError:
                    refused[caution] += 1
                    continue
                seen[caution].append(excess(search.decide(fresh[0]), *fresh[1:], limits))
    for caution, overs in seen.items():
        yield {
            "case": case,
            "caution": str(caution),
            "draws": len(overs),
            "passed": sum(over > 0 for over in overs),
            "allowed": "" if caution == "auto" else 1 - NORMAL.cdf(float(caution)),
            "met_if_twice": "",
            "met_if_twice_corrected": "",
            "refused": refused[caution],
            "gap_over": float(np.mean(overs)) if overs else "",
        }


def made(seed: int) -> tuple[Any, NDArray[Any], NDArray[Any], Any]:
    """Make rows of two groups, of which the smaller one has noisier values."""
    X, y, costs = make_costly_classification(
        N_ROWS + N_TRUTH, n_sources=3, class_sep=2, random_state=seed
    )
    rng = np.random.default_rng(seed)
    groups = np.where(rng.random(len(y)) < MINORITY, "few", "many")
    noise = NOISE * X.to_numpy().std(axis=0) * rng.standard_normal(X.shape)
    return X + noise * (groups == "few")[:, None], y, groups, costs


def _median_gap(
    search: CascadeSearchCV, X: Any, y: NDArray[Any], groups: NDArray[Any]
) -> dict[str, float]:
    """Return the median of the true gaps of rejected shares, of candidates that may be chosen."""
    scored = [
        one.groups
        for one in search.score_front(X, y, by=groups)
        if one.groups is not None and one.selected.coverage >= LEAST_COVERAGE
    ]
    return {"rejected": float(np.median([largest(parts, "rejected") for parts in scored]))}


def largest(parts: Breakdown, measure: str) -> float:
    """Return the largest true gap of a measure, over classes."""
    return max(gap.difference for gap in parts.gaps if gap.measure == measure)


def excess(
    decisions: Decisions,
    truth: NDArray[Any],
    groups: NDArray[Any],
    limits: Mapping[str, float],
) -> float:
    """Return by how much the largest true gap is above its bound; below it if negative."""
    parts = evaluate(decisions, truth, by=groups)
    return max(largest(parts, measure) - limit for measure, limit in limits.items())


def _check(rows: Sequence[Row]) -> None:
    """End with an error if bounds are met in vain more often than chance explains."""
    p_values = [binom.sf(row["passed"] - 1, row["draws"], row["allowed"]) for row in rows]
    if min(p_values) * len(p_values) < LEAST:
        worst = rows[int(np.argmin(p_values))]
        raise SystemExit(f"A bound is met in vain too often: {worst}, p {min(p_values):.3g}.")


def table(rows: Sequence[Row]) -> str:
    """Lay out how often bounds were broken, and what wider ones would give."""
    lines = []
    for row in rows:
        low, high = exact_interval(row["passed"], row["draws"]) if row["draws"] else (0.0, 1.0)
        share = row["passed"] / row["draws"] if row["draws"] else 0.0
        lines.append([
            row["case"],
            str(row["caution"]),
            f"{row['draws']:,}",
            f"{share:.1%} ({100 * low:.1f} to {100 * high:.1f})",
            "" if row["allowed"] == "" else f"{row['allowed']:.1%}",
            *(
                "" if row[name] == "" else f"{row[name] / row['draws']:.0%}"
                for name in ("met_if_twice", "met_if_twice_corrected")
            ),
            str(row["refused"]),
            "" if row["gap_over"] == "" else f"{100 * row['gap_over']:.1f}",
        ])  # fmt: skip
    header = ["case", "caution", "draws", "broken %", "margin allows", "met if twice as wide",
              "with Bonferroni", "refused", "mean gap over its bound, points"]  # fmt: skip
    return markdown(header, lines)
