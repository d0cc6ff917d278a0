"""Label weights as people state them, made the rule by which stages label rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from emsco.core.costs import Costs
from emsco.core.label_rule import LabelRule, by_class, rule_for
from emsco.learners.protocol import Fold
from emsco.learners.training import Training

_FACTORS = tuple(2.0**power for power in (0, -1, 1, -2, 2, -3, 3))  # the first of the best


class _Weighable(Protocol):
    """Rows to fit on, in memory or as a data set."""

    @property
    def classes(self) -> NDArray[Any]: ...
    @property
    def class_shares(self) -> list[float]: ...
    def judged_by(self, rule: LabelRule) -> Any: ...


Rows = TypeVar("Rows", bound=_Weighable)


def weigh(
    rows: Rows, costs: Costs, label_weights: Mapping[Any, float] | str | None
) -> tuple[Rows, Costs]:
    """Return rows that are labelled by weights, and the prices with those of errors by class.

    Without `label_weights`, the prices of errors are the weights.
    """
    classes = rows.classes.tolist()
    if costs.errors:
        costs = replace(costs, errors=by_class(costs.errors, classes, "`errors` of the costs"))
    weights = label_weights if label_weights is not None else costs.errors or None
    rule = rule_for(weights, classes, rows.class_shares)
    return (rows if rule.is_equal else rows.judged_by(rule)), costs


def fitted_to(training: Training, folds: Sequence[Fold]) -> Training:
    """Return rows whose label weights suit a classifier that is not calibrated.

    The weights of all classes but the most frequent one are multiplied by the factor, from 1/8 to
    8, with which all sources have the least loss on rows that they were not fitted on.
    """
    rule = training.rule
    if rule.is_equal or training.learner.is_calibrated:
        return training
    fits = training.learner.fits(training, folds)
    if not hasattr(fits, "probability"):
        return training
    probability = fits.probability(np.ones(len(training.sources), dtype=np.bool_))
    truth = training.codes[np.concatenate([fold.test for fold in folds])]
    weights = np.array(rule.weights)
    rules = []
    for factor in _FACTORS:
        scaled = weights * factor
        scaled[training.most_frequent] = weights[training.most_frequent]
        rules.append(LabelRule.of(scaled.tolist()))
    losses = [weights[truth][r.judge(list(probability.T)).winner != truth].sum() for r in rules]
    return training.judged_by(rules[int(np.argmin(losses))])
