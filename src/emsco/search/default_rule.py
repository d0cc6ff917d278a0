"""The choice from a front, by bounds or by default, and the reference it is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco.core.caution import AUTO, less_margin, shares_of, standard_errors
from emsco.core.costs import Costs
from emsco.core.design import StageDesign
from emsco.core.evaluation import Evaluation
from emsco.core.front import Candidate, ParetoFront
from emsco.core.measures import MEASURES
from emsco.core.selection import Bounds, Figures, margin_text
from emsco.core.threshold import lowest
from emsco.exceptions import (
    Code,
    Keyword,
    Message,
    SelectionError,
    SelectionWarning,
    warn,
)
from emsco.search._problem import Problem
from emsco.search.lost_classes import loses, warn_of_lost_classes
from emsco.search.paired_test import CLASS_SLACK, ENOUGH_ROWS, SLACK, not_worse

LEAST_COVERAGE = 0.8
LEAST_AGREEMENT = 0.99  # with a final model
FEW_ROWS = 500
# What it may reject of a class: this share, or twice the share of all rows if that is more.
FAIR_REJECTION = 0.05
FAIR_ROWS = 1 / FAIR_REJECTION  # in a smaller class, one row is more than that share
CHOSEN_BY_HAND = "Rule: this candidate was given."


@dataclass(frozen=True)
class AllSources:
    """All sources bought at once: the reference for a cascade, on the same rows and folds."""

    costs: Costs
    classes: Sequence[Any]
    truth: NDArray[np.intp]  # from the most to the least confident row
    right: NDArray[np.bool_]
    label: NDArray[np.intp]  # the label that was assigned
    stake: NDArray[np.floating[Any]] | None = None  # in the same order; None: rows are counted

    @classmethod
    def of(cls, problem: Problem) -> AllSources:
        """Look all sources up in a problem's table."""
        everything = np.ones((1, problem.n_sources), dtype=np.bool_)
        confidence, label = problem.table.outcomes(everything)
        order = np.argsort(-confidence[0], kind="stable")
        truth = problem.table.truth[order]
        said = label[0][order].astype(np.intp)
        stakes = problem.table.stakes
        stake = None if stakes is None else stakes.units[order] * stakes.unit
        return cls(problem.costs, problem.classes, truth, said == truth, said, stake)

    def answering(self) -> Candidate:
        """Return the candidate that answers every row."""
        design = StageDesign(np.zeros(len(self.costs.names), dtype=np.int64), self.costs.names)
        return Candidate(design, lowest(len(self.classes)), self.at(1.0))

    def at(self, coverage: float) -> Evaluation:
        """Evaluate at a coverage: the least confident rows are rejected, but paid for."""
        if not 0 <= coverage <= 1:
            raise SelectionError(f"`coverage` must be from 0 to 1, got {coverage}.")
        accepted = self.n_accepted(coverage)
        by_row = self._evaluation(accepted, None)
        if self.stake is None:
            return by_row
        squares = self._evaluation(accepted, self.stake**2)
        return replace(self._evaluation(accepted, self.stake), by_row=by_row, squares=squares)

    def n_accepted(self, coverage: float) -> int:
        """Return the number of rows accepted at a coverage, which may be one of the stake."""
        if self.stake is None:
            return round(coverage * len(self.truth))
        covered = np.concatenate([[0.0], np.cumsum(self.stake)])
        return int(np.argmin(np.abs(covered - coverage * covered[-1])))

    def _evaluation(self, accepted: int, weight: NDArray[np.floating[Any]] | None) -> Evaluation:
        """Evaluate with the most confident rows accepted."""
        truth, right = self.truth[:accepted], self.right[:accepted]
        most = None if weight is None else weight[:accepted]
        good = None if most is None else most[right]
        latency, n_rows = self.costs.latency_of(self.costs.names), len(self.truth)
        class_rows = self._by_label(self.truth, weight)
        class_accepted = self._by_label(truth, most)
        class_right = self._by_label(truth[right], good)
        return Evaluation(
            rows=sum(class_rows.values()),
            accepted=sum(class_accepted.values()),
            right=sum(class_right.values()),
            paid=self.costs.total * n_rows,
            class_rows=class_rows,
            class_accepted=class_accepted,
            class_right=class_right,
            waited=latency * n_rows,
            worst_latency=latency,
            label_accepted=self._by_label(self.label[:accepted], most),
        )

    def _by_label(
        self, codes: NDArray[np.intp], weight: NDArray[np.floating[Any]] | None
    ) -> dict[Any, float]:
        counts = np.bincount(codes, weight, minlength=len(self.classes))
        return dict(zip(self.classes, counts.tolist(), strict=True))


class Selection(NamedTuple):
    """A candidate, the rule by which it was chosen, and the bounds that were asked for."""

    candidate: Candidate
    rule: str
    bounds: Mapping[str, Any]
    is_default: bool = False


def select_as_asked(
    select: Any,
    front: ParetoFront,
    all_sources: Candidate,
    n_rows: int,
    limits: Mapping[str, Mapping[Any, float]],
    *,
    agreement: bool,
) -> Selection:
    """Choose as `select` says: a candidate, bounds, a function of the front, or None (the default).

    With the target `agreement`, the default is the cheapest candidate that agrees often enough with
    the final model. `limits` are the limits that every design of the front meets, by name.
    `caution` alone is not a bound: it is the margin of the default choice. A choice that loses a
    class is warned of, unless the candidate itself was given.
    """
    if isinstance(select, Candidate):
        return Selection(select, CHOSEN_BY_HAND, {})
    selection = _selected(select, front, all_sources, n_rows, limits, agreement=agreement)
    warn_of_lost_classes(
        selection.candidate.evaluation,
        all_sources.evaluation,
        {**limits, **selection.bounds},
        is_reviewed=selection.bounds.get("by") == "loss",
    )
    return selection


def _selected(
    select: Any,
    front: ParetoFront,
    all_sources: Candidate,
    n_rows: int,
    limits: Mapping[str, Mapping[Any, float]],
    *,
    agreement: bool,
) -> Selection:
    """Choose by bounds, by a function of the front, or by default."""
    within = Message(" and ").join(
        Keyword(name, dict(shares)) for name, shares in limits.items() if shares
    )
    if within and not len(front):
        raise SelectionError(
            "No design accepts any row within "
            + within
            + "; allow larger shares, or search other thresholds."
        )
    if callable(select):
        candidate = select(front)
        if not isinstance(candidate, Candidate):
            raise SelectionError(f"`select` must return a Candidate, got {candidate!r}.")
        return Selection(candidate, "Rule: chosen by the function given as `select`.", {})
    options = dict(select or {})
    errors = dict(front.costs.errors)
    is_default = not options.keys() - {"caution"}
    if is_default and not agreement and errors and front.costs.review is not None and len(front):
        options |= {"by": "loss"}
        is_default = False
    if options.get("by") == "loss" and errors:
        options.setdefault("error_cost", errors)
    if is_default:
        z = standard_errors(options.get("caution", AUTO), front.luck)
        if not agreement:
            chosen = select_by_default(front, all_sources, n_rows, within, z)
            return chosen._replace(is_default=True)
        return select_by_agreement(front, all_sources, options, z)
    candidate = front.select(**options)
    bounds = {name: value for name, value in options.items() if name != "caution"}
    z = standard_errors(options.get("caution", AUTO), front.luck)
    return Selection(candidate, Bounds(**bounds).sentence(z, len(front)), options)


def rejects_unfairly(figures: Figures, label: Any, repeats: float) -> NDArray[np.bool_]:
    """Return which candidates reject more of a class than 5%, and more than twice as often as all.

    Otherwise recall among accepted rows could be had by rejecting the class. In a class of fewer
    than 20 rows the excess must be more than a standard error, because it may be unlucky.
    """
    away, rows = MEASURES["rejected"].effective(figures, label, repeats)
    fair = np.maximum(FAIR_REJECTION, 2 * shares_of(figures.rows - figures.accepted, figures.rows))
    own = np.where(rows >= FAIR_ROWS, shares_of(away, rows), less_margin(away, rows, 1.0))
    unfair: NDArray[np.bool_] = own > fair + 1e-9  # shares that are equal may round differently
    return unfair


def may_be_default(
    figures: Figures, reference: Evaluation, z: float, repeats: float
) -> NDArray[np.bool_]:
    """Return which candidates accept enough rows, are not worse, and are fair to every class."""
    good = not_worse(figures, reference, z, repeats)
    good &= shares_of(figures.accepted, figures.rows) >= LEAST_COVERAGE
    for label in reference.class_rows:
        good &= ~loses(figures, label) & ~rejects_unfairly(figures, label, repeats)
    return good


def cheapest_as_good(front: ParetoFront, reference: Candidate, z: float) -> Candidate | None:
    """Choose the cheapest candidate that accepts most rows and is not worse than the reference.

    It must have a coverage of at least 0.8, label more than a tenth of every class right, reject no
    more of a class than 5% or twice the share of all rows, and be shown to be not worse by `z`
    standard errors in accuracy and in the recall of every class. None: no candidate is.
    """
    if not len(front):
        return None
    figures = front.figures
    places = np.flatnonzero(may_be_default(figures, reference.evaluation, z, front.repeats))
    if not places.size:
        return None
    cost = shares_of(figures.paid, figures.rows)[places]
    accuracy = shares_of(figures.right, figures.accepted)[places]
    return front[int(places[np.lexsort([-figures.accepted[places], -accuracy, cost])[0]])]


def select_by_agreement(
    front: ParetoFront, final: Candidate, bounds: Mapping[str, Any], z: float
) -> Selection:
    """Choose the cheapest candidate that agrees often enough, or else the final model alone."""
    rule = Bounds(min_accuracy=LEAST_AGREEMENT).sentence(z, len(front))
    try:
        return Selection(front.select(**bounds, min_accuracy=LEAST_AGREEMENT), rule, {})
    except SelectionError:
        warn(
            f"No cascade is shown to agree with the final model on {LEAST_AGREEMENT:.0%} of the "
            "rows, so the final model alone was chosen; "
            + Code("choose(...)")
            + " takes another candidate of the front, and "
            + Code("choose(caution=0)")
            + " takes the cheapest whose counts reach that share.",
            SelectionWarning,
        )
        rule = f"{rule[:-1]}; no candidate meets it, so the final model alone was chosen."
        return Selection(final, rule, {})


def select_by_default(
    front: ParetoFront, all_sources: Candidate, n_rows: int, limits: str, z: float
) -> Selection:
    """Choose the cheapest candidate that is not worse than all sources, or else all sources.

    `n_rows` is the number of rows that the choice is based on. With `limits`, falling back to all
    sources could break these limits, so it is not done.
    """
    if n_rows < FEW_ROWS:
        warn(
            f"The choice was made on {n_rows} rows, fewer than {FEW_ROWS}, so it may do worse on "
            "new rows; compare it with fresh rows using " + Code("score_front(X, y)") + ".",
            SelectionWarning,
        )
    rule = _rule(front, z)
    chosen = cheapest_as_good(front, all_sources, z)
    if chosen is not None:
        return Selection(chosen, f"{rule}.", {})
    if limits and z:
        chosen = cheapest_as_good(front, all_sources, 0.0)
        if chosen is not None:
            warn(
                "No design within "
                + limits
                + " is shown to be not worse than all sources at once, so the cheapest whose "
                "counts are not worse was chosen, which may be luck.",
                SelectionWarning,
            )
            rule = f"{rule}; no candidate meets it, so the margin was dropped."
            return Selection(chosen, rule, {})
    if limits:
        raise SelectionError(
            "No design within "
            + limits
            + f" accepts {LEAST_COVERAGE:.0%} of the rows without losing a class or rejecting too "
            "much of it, and is not worse than all sources at once; allow larger shares, or relax "
            "something else with " + Keyword("select") + "."
        )
    warn(
        f"No cascade accepts {LEAST_COVERAGE:.0%} of the rows without losing a class or rejecting "
        "too much of it, and is shown to be not worse than all sources at once, so all sources at "
        "once were chosen; "
        + Code("choose(...)")
        + " takes another candidate of the front, and "
        + Code("choose(caution=0)")
        + " takes the cheapest whose counts are not worse.",
        SelectionWarning,
    )
    rule = f"{rule}; no candidate meets it, so all sources at once were chosen."
    return Selection(all_sources, rule, {})


def _rule(front: ParetoFront, z: float) -> str:
    """Describe the rule of the default choice."""
    margin = f"by {margin_text(z)} on the same rows" if z else "as counted"
    return (
        f"Rule: the cheapest of {len(front):,} candidates that accepts at least "
        f"{LEAST_COVERAGE:.0%} of the rows, labels over a tenth of each class right, rejects no "
        f"more of a class than {FAIR_REJECTION:.0%} or twice the share of all rows, whichever is "
        f"larger, and is not worse than all sources at once, {margin}: at most {100 * SLACK:g} "
        f"points in accuracy, and {100 * CLASS_SLACK:g} in a class of at least {ENOUGH_ROWS} rows, "
        "0 in a smaller one (or it is right on all rows on which all sources are right)"
    )
