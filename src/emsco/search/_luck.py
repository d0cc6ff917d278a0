"""How much of what a search finds is luck: repeat it without some rows, and look at those rows.

The best of many candidates is best partly because the rows at hand happen to suit it. A search
without a part of the rows is misled in the same way, and the part left out shows by how much. No
source set is fitted for this: the outcomes of all sets are known, and only designs and thresholds
are chosen again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import StratifiedGroupKFold

from emsco._utils.progress import followed, part_of
from emsco.core.measures import MEASURES
from emsco.exceptions import SearchError
from emsco.learners.protocol import Fold
from emsco.search._candidate_rows import divided
from emsco.search._outcome_table import OutcomeTable, Sets, pack
from emsco.search._problem import Counts, Problem
from emsco.search._thresholds import descend_by_stage
from emsco.search.strategies._archive import History
from emsco.search.strategies.exhaustive import count_sets
from emsco.search.strategies.local_search import LocalSearch

_PARTS = 5
_COVERAGES = (0.8, 0.85, 0.9, 0.95)
_BELOW_BEST = (0.0, 0.01, 0.02, 0.03, 0.04, 0.06)
# The number of designs that a repeated search evaluates at each threshold, and with separate
# thresholds per stage: the minimum, which is enough if every set is fitted, and the maximum. In
# between, it is a twentieth of what the search itself evaluated, so that five parts take a quarter
# of its time. A search with less freedom shows less luck: with 57 sources (spambase), 200 designs
# per threshold show 0.5 standard errors, 1,000 show 1.2, and four times as many designs with
# separate thresholds 1.5.
_LEAST = (200, 15_000)
_MOST = (3_000, 50_000)
_SHARE = 20
# If only few of many sets are fitted, a repeated search has too little choice among them, and takes
# long to find designs that it can evaluate.
_MOST_SOURCES = 100
_SETS_A_SOURCE = 4


def parts_of(
    folds: list[Fold], labels: NDArray[np.intp], groups: ArrayLike | None
) -> list[NDArray[np.bool_]]:
    """Return for each part which evaluation rows are in it: the test folds, if there are 3 to 10.

    Otherwise there are five parts of distinct rows, with classes in proportion and whole groups. A
    row that is in several test folds is in one part with all its copies.
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
    """Divide rows into parts; a class may be too rare to be in every part."""
    if groups is not None:
        named = np.asarray(groups)[rows]
        n_parts = min(_PARTS, len(np.unique(named)))
        if n_parts < 2:
            return []
        splitter = StratifiedGroupKFold(n_parts, shuffle=True, random_state=0)
        return [held_out for _, held_out in splitter.split(rows, labels, named)]
    if len(rows) < 2 * _PARTS:
        return []
    # The rows of each class are dealt out to the parts in turn, in random order.
    order = np.random.default_rng(0).permutation(len(rows))
    order = order[np.argsort(labels[order], kind="stable")]
    return [np.sort(order[part::_PARTS]) for part in range(_PARTS)]


def measure_luck(
    problem: Problem, parts: list[NDArray[np.bool_]], n_designs: int | None, *, by_stage: bool
) -> float | None:
    """Return the optimism of choices in standard errors of accuracy; None if it is unknown.

    It is unknown if there is nothing to choose from, with more than 100 sources, and if fewer than
    four source sets per source are fitted, unless these are all.

    `parts` are the rows that each repeated search leaves out, and `n_designs` is the number of
    designs that the search evaluated at a threshold; None: all, so that all sets are fitted.
    """
    did = (0, 0)
    if n_designs is not None:
        every, needed = count_sets(problem), _SETS_A_SOURCE * problem.n_sources
        needed = needed if every is None else min(every, needed)
        if problem.n_sources > _MOST_SOURCES or len(problem.table) < needed:
            return None
        did = n_designs, n_designs * problem.n_thresholds
    rng = np.random.default_rng(0)  # separate, so that measuring luck changes nothing else
    at_threshold, own = (
        min(max(each // _SHARE, least), most)
        for each, least, most in zip(did, _LEAST, _MOST, strict=True)
    )
    gained = errors = 0.0
    by_stage = by_stage and problem.max_stages > 1
    at_one = at_threshold * problem.n_thresholds
    middle = at_one / (at_one + own) if by_stage else 1.0
    for i, part in enumerate(parts):
        if not part.any() or part.all():
            continue
        outside = replace(problem, table=TableView(problem.table, ~part))
        with part_of("luck", i / len(parts), (i + middle) / len(parts)):
            rows = _search(outside, at_threshold, rng)
        if by_stage:
            with part_of("luck", (i + middle) / len(parts), (i + 1) / len(parts)):
                rows = descend_by_stage(outside, rows, rng, designs=True, evaluations=own)
        if not len(rows):
            continue
        there = outside.evaluate(*divided(problem, rows))
        inside = replace(problem, table=TableView(problem.table, part))
        here = inside.evaluate(*divided(problem, rows))
        choices = _choices(there.accepted, there.right, there.paid, outside.whole)
        rows_there = _effective(outside, rows, choices, there)
        for chosen in choices:
            m, r = rows_there[chosen]
            p = (r + 1) / (m + 2)
            gained += r / m * here.accepted[chosen] - here.right[chosen]
            errors += float(np.sqrt(p * (1 - p) / m)) * here.accepted[chosen]
    return float(gained / errors) if errors else None


def _search(problem: Problem, evaluations: int, rng: np.random.Generator) -> NDArray[np.int8]:
    """Run a short search; a row is a design, followed by the position of each stage's threshold."""
    local = LocalSearch(evaluations, fits=0)
    first, shares = local.begin(problem)
    starts, found = first, []
    for threshold in followed(range(problem.n_thresholds), "luck"):
        designs = local.descend(problem, rng, threshold, starts, shares[threshold], History())
        which = np.full((len(designs), problem.max_stages), threshold, dtype=np.int8)
        found.append(np.hstack([designs, which]))
        starts = np.vstack([first, designs])
    return np.vstack(found)


def _effective(
    problem: Problem, rows: NDArray[np.int8], choices: list[int], counts: Counts
) -> dict[int, tuple[float, float]]:
    """Return the accepted and the right rows of each choice; of stakes, as many equal rows."""
    places = sorted(set(choices))
    if problem.table.stakes is None:
        return {i: (int(counts.accepted[i]), int(counts.right[i])) for i in places}
    accuracy, found = MEASURES["accuracy"], problem.candidates(*divided(problem, rows[places]))
    pairs = [accuracy.effective(candidate.evaluation) for candidate in found]
    return {i: (float(m), float(r)) for i, (r, m) in zip(places, pairs, strict=True)}


def _choices(
    accepted: NDArray[np.int64], right: NDArray[np.int64], paid: NDArray[np.int64], whole: int
) -> list[int]:
    """Choose as a user might: the cheapest near the best accuracy, at several coverages."""
    chosen = []
    order = np.argsort(paid, kind="stable")
    accuracy = right / np.maximum(accepted, 1)
    for coverage in _COVERAGES:
        able = order[accepted[order] >= coverage * whole]
        if not len(able):
            continue
        best = accuracy[able].max()
        chosen += [int(able[np.argmax(accuracy[able] >= best - below)]) for below in _BELOW_BEST]
    return chosen


class TableView(OutcomeTable):
    """A table restricted to some of its rows; it cannot fit.

    The bits of all rows stay in place, but only these rows are undecided at the start.
    """

    def __init__(self, table: OutcomeTable, within: NDArray[np.bool_]) -> None:
        self.__dict__.update(table.__dict__)
        self.truth = table.truth[within]
        self.everyone = pack(within[None])[0]
        self.class_masks = table.class_masks & self.everyone
        if table.stakes is not None:
            self.stakes = replace(table.stakes, units=table.stakes.units[within])

    def outcomes(self, sets: Sets) -> Any:
        """Refuse, because confidences are those of all rows."""
        raise SearchError(f"A view has bits, no confidences of {len(sets)} source sets.")

    def _add(self, sets: Sets, keys: NDArray[Any]) -> None:  # noqa: ARG002
        raise SearchError(f"A view was asked for {len(sets)} source sets that are not fitted.")
