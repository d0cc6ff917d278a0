"""Decisions compared with the truth, of all rows or of each group of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from emsco.core.breakdown import Breakdown, break_down
from emsco.core.decisions import Decisions
from emsco.core.evaluation import Evaluation, evaluate_known
from emsco.core.group_labels import read_group_labels
from emsco.core.validation import read_given_labels, refuse_other_kind, warn_similar


@overload
def evaluate(
    decisions: Decisions,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    population: Mapping[Any, float] | None = None,
    by: None = None,
) -> Evaluation: ...


@overload
def evaluate(
    decisions: Decisions,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    population: Mapping[Any, float] | None = None,
    by: Any,
) -> Breakdown: ...


def evaluate(
    decisions: Decisions,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    population: Mapping[Any, float] | None = None,
    by: Any = None,
) -> Evaluation | Breakdown:
    """Compare decisions with the truth.

    Parameters
    ----------
    decisions : Decisions
        The decision about each row.
    y : array
        The true label of each row. A label that no decision has is a class of its own, of which no
        row is right.
    sample_weight : array, default=None
        How much each row counts. None: every row counts 1.
    population : mapping of label to float, default=None
        The shares of the classes among future rows, if these rows were drawn differently, for
        example half of them fraud. The rows are then weighted so that the classes have these
        shares; classes that are not named divide the rest in proportion to their rows here. None:
        the shares that the rows have.
    by : array, default=None
        The group of each row: any hashable labels, such as the sex of a person. The result is then
        a `Breakdown`, with the evaluation of each group. Rows without a group (None, NaN) are a
        group of their own, None.

    Examples
    --------
    >>> from emsco import Decisions, evaluate
    >>> decisions = Decisions(["a", "b"], [True, False], [0, 1], [0.9, 0.6], [1.0, 3.0])
    >>> evaluation = evaluate(decisions, ["a", "a"])
    >>> evaluation.accuracy, evaluation.coverage, evaluation.cost
    (1.0, 0.5, 2.0)
    >>> evaluate(decisions, ["a", "b"], population={"a": 0.9}).coverage
    0.9
    >>> evaluate(decisions, ["a", "a"], by=["old", "young"])["young"].coverage
    0.0
    """
    truth = np.asarray(read_given_labels(y))
    known, decided = np.unique(truth).tolist(), np.unique(decisions.label).tolist()
    refuse_other_kind(known, decided)
    warn_similar(known, decided)
    if by is None:
        return evaluate_known(decisions, truth, sample_weight=sample_weight, population=population)
    groups = read_group_labels(by, len(decisions))
    return break_down(decisions, truth, groups, sample_weight=sample_weight, population=population)
