"""The order in which candidates are tested: fixed before the calibration rows are looked at.

The strictest candidate should not be first: it may accept so few rows that its test fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor

from emsco.certify._binomial import tail
from emsco.certify._targets import Targets
from emsco.core.costs import Costs
from emsco.core.front import Candidate


def in_order(candidates: Sequence[Candidate], targets: Targets, costs: Costs) -> list[Candidate]:
    """Return the candidates whose selected figures meet the targets, the most certain first.

    They are sorted by their p-values on the rows that they were selected on. These p-values are no
    longer valid, but they give a good order. If none meets the targets, return the closest one.
    """
    met = [c for c in candidates if targets.met_by(c.evaluation)]

    def rank(candidate: Candidate) -> tuple[float, float, float]:
        e = candidate.evaluation
        return targets.p_value(e, _cost_guess(candidate, targets, costs)), -e.accepted, e.cost

    return sorted(met, key=rank) if met else [min(candidates, key=rank)]


def _cost_guess(candidate: Candidate, targets: Targets, costs: Costs) -> float:
    """Estimate the p-value of the cost without counts by stage, as if rows paid least or most."""
    most, evaluation, design = targets.max_cost, candidate.evaluation, candidate.design
    first, last = costs.of(design.stages[0]), costs.of(design.acquired(design.n_stages - 1))
    if most is None or last <= most:
        return 0.0
    if most < first:
        return 1.0
    rows = int(evaluation.rows)
    dear = min(floor((evaluation.paid - rows * first) / (last - first)), rows)
    return float(tail(max(dear, 0), rows, (most - first) / (last - first)))
