"""Cheap answers: those of the planned exit, whatever the final model would say."""

from __future__ import annotations

import numpy as np
import pytest

from emsco import CascadeClassifier, StageDesign
from emsco.batch.cheap_answers import cheap_answers
from emsco.datasets import make_costly_classification
from emsco.exceptions import BatchError

X, Y, COSTS = make_costly_classification(900, 3, class_sep=1, random_state=0)
NAMES = list(X.columns)
DESIGN = StageDesign.from_stages([NAMES[:1], NAMES[1:2], NAMES[2:]], NAMES)


@pytest.mark.parametrize("threshold", [0.6, 0.9, 0.999])
def test_a_row_accepted_nowhere_ranks_by_its_last_stage(threshold):
    """Thresholds choose the exit alone: label and trust are those of the exit stage."""
    cascade = CascadeClassifier(costs=COSTS, design=DESIGN, threshold=threshold).fit(
        X[:400], Y[:400]
    )
    found, decided = cheap_answers(cascade.decider_, X[400:]), cascade.decide(X[400:])
    shares, bought = [], []
    for stage in DESIGN.stages:  # each sees all that was bought until then
        bought += stage
        alone = CascadeClassifier(costs=COSTS, design=StageDesign.from_stages([bought], NAMES))
        shares.append(alone.fit(X[:400], Y[:400]).predict_proba(X[400:]))
    own = np.array([shares[stage][row] for row, stage in enumerate(decided.exit_stage)])
    assert found.labels == cascade.classes_[own.argmax(axis=1)].tolist()
    assert found.trust == pytest.approx(own.max(axis=1))
    rejected = ~decided.accepted
    assert rejected.any()
    assert (decided.exit_stage[rejected] == 2).all()
    assert (decided.exit_stage < 2).any() or threshold == 0.999


def test_a_column_that_only_the_last_stage_needs_is_named():
    cascade = CascadeClassifier(costs=COSTS, design=DESIGN).fit(X[:400], Y[:400])
    with pytest.raises(BatchError, match=f"X lacks the column '{NAMES[2]}'"):
        cheap_answers(cascade.decider_, X[400:].drop(columns=NAMES[2]))
