"""How much of what a search finds is luck: search again without some rows, and look at those.

The best of many candidates is best partly because the rows at hand happen to suit it. A search
without a part of the rows is fooled in the same way, and the part left out shows by how much. No
source set is fitted for that: what the sets say about the rows is known, and only the choice among
designs and thresholds is made again.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import StratifiedGroupKFold

from emsco.learners.folds import Fold
from emsco.search._problem import Problem
from emsco.search._thresholds import descend_by_stage
from emsco.search._view import TableView
from emsco.search.strategies.exhaustive import count_sets
from emsco.search.strategies.local import LocalSearch

_PARTS = 5
_COVERAGES = (0.8, 0.85, 0.9, 0.95)
_BELOW_BEST = (0.0, 0.01, 0.02, 0.03, 0.04, 0.06)
# Designs that a search again evaluates at each threshold, and with a threshold of each stage's own:
# the fewest, which suffice where every set is fitted, and the most. In between a twentieth of what
# the search itself did, so that the five parts together take a quarter of it. With less freedom
# than the search had, less luck is seen: with 57 sources (spambase), 200 designs a threshold see
# 0.5 standard errors where 1,000 see 1.2, and four times as many with own thresholds 1.5.
_LEAST = (200, 15_000)
_MOST = (3_000, 50_000)
_SHARE = 20
# Where few sets are fitted of many that there are, a search among them sees little of what the
# search itself could choose by, and takes long to find designs that it can evaluate.
_MOST_SOURCES = 100
_SETS_A_SOURCE = 4


def parts_of(
    folds: list[Fold], labels: NDArray[np.intp], groups: ArrayLike | None
) -> list[NDArray[np.bool_]]:
    """Say for each part which evaluation rows are in it: test folds, where they are 3 to 10.

    Else five parts of distinct rows, with classes in proportion and groups whole. A row that
    several folds test is in a part with all its copies.
    """
    tested = np.concatenate([fold.test for fold in folds])
    if 3 <= len(folds) <= 10:
        parts = [fold.test for fold in folds]
    else:
        rows = np.unique(tested)
        parts = [rows[held_out] for held_out in _stratified(labels[rows], rows, groups)]
    return [np.isin(tested, part) for part in parts]


def _stratified(
    labels: NDArray[np.intp], rows: NDArray[np.intp], groups: ArrayLike | None
) -> list[NDArray[np.intp]]:
    """Part rows, which classes may be too rare to be in every part of."""
    if groups is not None:
        named = np.asarray(groups)[rows]
        n_parts = min(_PARTS, len(np.unique(named)))
        if n_parts < 2:
            return []
        splitter = StratifiedGroupKFold(n_parts, shuffle=True, random_state=0)
        return [held_out for _, held_out in splitter.split(rows, labels, named)]
    if len(rows) < 2 * _PARTS:
        return []
    # Rows of a class are dealt out in turn, in an order that is drawn.
    order = np.random.default_rng(0).permutation(len(rows))
    order = order[np.argsort(labels[order], kind="stable")]
    return [np.sort(order[part::_PARTS]) for part in range(_PARTS)]


def measure_luck(
    problem: Problem, parts: list[NDArray[np.bool_]], n_designs: int | None, *, by_stage: bool
) -> float | None:
    """Give the optimism of choices, in standard errors of accuracy; None where it cannot be seen.

    That is where there are no choices, more than 100 sources, or fewer than four fitted sets a
    source and not all of them.

    Parameters
    ----------
    problem : Problem
        What was searched; source sets are looked up in its table, and none is fitted.
    parts : list of bool arrays
        Which rows each search leaves out.
    n_designs : int or None
        How many designs the search evaluated at a threshold; None: every one, so that all sets are
        fitted.
    by_stage : bool
        Whether every stage may have a threshold of its own.
    """
    if n_designs is not None and not _sees_enough(problem):
        return None
    rng = np.random.default_rng(0)  # its own: nothing else depends on whether luck is measured
    evaluations = _effort(n_designs, problem.n_thresholds)
    gained = errors = 0.0
    for part in parts:
        if not part.any() or part.all():
            continue
        outside = replace(problem, table=TableView(problem.table, ~part))
        rows = _search(outside, evaluations, rng, by_stage=by_stage)
        if not len(rows):
            continue
        which = rows[:, problem.n_sources :].astype(np.int64)
        there = outside.evaluate(rows[:, : problem.n_sources], which)
        inside = replace(problem, table=TableView(problem.table, part))
        here = inside.evaluate(rows[:, : problem.n_sources], which)
        for chosen in _choices(there.accepted, there.right, there.paid, outside.n_rows):
            m, r = int(there.accepted[chosen]), int(there.right[chosen])
            p = (r + 1) / (m + 2)
            gained += r / m * here.accepted[chosen] - here.right[chosen]
            errors += float(np.sqrt(p * (1 - p) / m)) * here.accepted[chosen]
    return float(gained / errors) if errors else None


def _sees_enough(problem: Problem) -> bool:
    """Say whether enough sets are fitted for searching again among them."""
    every = count_sets(problem)
    needed = _SETS_A_SOURCE * problem.n_sources
    needed = needed if every is None else min(every, needed)
    return problem.n_sources <= _MOST_SOURCES and len(problem.table) >= needed


def _effort(n_designs: int | None, n_thresholds: int) -> tuple[int, int]:
    """Say how many designs a search again may evaluate: a share of what the search did."""
    did = (0, 0) if n_designs is None else (n_designs, n_designs * n_thresholds)
    at_threshold, own = (
        min(max(each // _SHARE, least), most)
        for each, least, most in zip(did, _LEAST, _MOST, strict=True)
    )
    return at_threshold, own


def _search(
    problem: Problem, evaluations: tuple[int, int], rng: np.random.Generator, *, by_stage: bool
) -> NDArray[np.int8]:
    """Search shortly; rows are a design, then the place of each stage's threshold."""
    at_threshold, own = evaluations
    local = LocalSearch(at_threshold, fits=0)
    first, shares = local.begin(problem)
    starts, found = first, []
    for threshold in range(problem.n_thresholds):
        designs = local.descend(problem, rng, threshold, starts, shares[threshold], [])
        which = np.full((len(designs), problem.max_stages), threshold, dtype=np.int8)
        found.append(np.hstack([designs, which]))
        starts = np.vstack([first, designs])
    together = np.vstack(found)
    if not by_stage or problem.max_stages == 1:
        return together
    return descend_by_stage(problem, together, rng, designs=True, evaluations=own)


def _choices(
    accepted: NDArray[np.int64], right: NDArray[np.int64], paid: NDArray[np.int64], n_rows: int
) -> list[int]:
    """Choose as a user might: the cheapest near the best accuracy, at several coverages."""
    chosen = []
    order = np.argsort(paid, kind="stable")
    accuracy = right / np.maximum(accepted, 1)
    for coverage in _COVERAGES:
        able = order[accepted[order] >= coverage * n_rows]
        if not len(able):
            continue
        best = accuracy[able].max()
        chosen += [int(able[np.argmax(accuracy[able] >= best - below)]) for below in _BELOW_BEST]
    return chosen
