"""What `fit` is given in memory, read and checked: rows, labels, prices and a final model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from emsco.core.costs import Costs
from emsco.core.pricing import resolve_costs
from emsco.learners.final_stage import logged, refuse_unused
from emsco.learners.protocol import Learner
from emsco.learners.training import Training, check_labels
from emsco.rows.rows import Layout, Rows


def read_given(
    owner: Any,
    X: Any,
    y: Any,
    *,
    learner: Learner,
    costs: Any,
    final: Any,
    params: Mapping[str, Any],
) -> tuple[Layout, Rows, Costs, Training]:
    """Read X and y, and match the prices with the columns.

    Returns the layout of X, the rows with the columns of sources, the prices, and the training rows
    for the learner. `owner` is the estimator that is being fitted.
    """
    layout, rows = Layout.learn(owner, X, y, logged(final))
    labels = check_labels(y, len(rows))
    resolved = resolve_costs(costs, rows.names)
    layout, rows = layout.using(rows, resolved.features)
    refuse_unused(layout.unused, final)
    sources = [resolved.columns(name) for name in resolved.names]
    training = Training(learner, rows.container, rows.columns, labels, dict(params), sources)
    return layout, rows, resolved, training
