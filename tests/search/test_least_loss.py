"""Under label weights, the least loss in the front is the least over all designs."""

from __future__ import annotations

import numpy as np
import pytest
from problems import every_design

from emsco import Costs, Review, Source
from emsco.core.label_rule import LabelRule
from emsco.learners import learner_of
from emsco.learners.protocol import Fold
from emsco.learners.training import Training
from emsco.search._least_loss import with_least_loss
from emsco.search._problem_spec import ProblemSpec
from emsco.search.strategies.exhaustive import Exhaustive

N_SOURCES, N_ROWS = 4, 600
THRESHOLDS = [0.55, 0.7, 0.8, 0.9, 0.95]
# The number of classes, the share of the rare ones, prices of errors, and of review.
PROBLEMS = [
    (2, 0.1, (5, 100), 12),
    (2, 0.05, (20, 200), 10),
    (2, 0.3, (10, 15), 2),
    (3, 0.2, (10, 40, 60), 3),
    (3, 0.1, (5, 100, 150), 12),
]


@pytest.mark.parametrize("seed", range(len(PROBLEMS)))
def test_the_least_loss_of_all_designs_is_in_the_front(seed):
    """Every design of up to three stages at every threshold, by brute force."""
    n_classes, rare, prices, review = PROBLEMS[seed]
    rng = np.random.default_rng(seed)
    shares = [1 - rare, *[rare / (n_classes - 1)] * (n_classes - 1)]
    y = rng.choice(n_classes, size=N_ROWS, p=shares)
    names = [f"x{i}" for i in range(N_SOURCES)]
    columns = {
        name: y * (0.6 + 0.4 * i) * rng.uniform(0.7, 1.3) + rng.normal(size=N_ROWS)
        for i, name in enumerate(names)
    }
    errors = dict(zip(range(n_classes), map(float, prices), strict=True))
    costs = Costs(
        [Source(name, cost=2.0**i) for i, name in enumerate(names)],
        review=Review(review, accuracy=0.97),
        errors=errors,
    )
    training = Training(learner_of(None), "array", columns, y, {}, [[name] for name in names])
    training = training.judged_by(LabelRule.of(prices))
    halves = np.arange(N_ROWS // 2), np.arange(N_ROWS // 2, N_ROWS)
    spec = ProblemSpec(
        costs=costs,
        folds=[Fold(*halves), Fold(*halves[::-1])],
        answers=None,
        threshold=THRESHOLDS,
        max_stages=3,
        allow_unused=True,
        max_missed={},
        max_rejected={},
        needs_labels=True,
        engine=None,
        n_jobs=None,
    )
    problem = spec.problem(training)
    searched = Exhaustive().run(problem).front
    front = with_least_loss(problem, searched, rng, by_stage=False)
    designs = np.array([design.assignment for design in every_design(problem)], dtype=np.int8)
    every = [c for place in range(len(THRESHOLDS)) for c in problem.candidates(designs, place)]
    assert len(every) == len(THRESHOLDS) * problem.n_designs

    def loss(candidate):
        return candidate.evaluation.loss(review=costs.review, error_cost=errors)

    best = min(map(loss, every))
    assert loss(front.select(by="loss")) == pytest.approx(best, rel=1e-12)
    everything = next(c for c in every if c.design.n_stages == 1 and not c.design.unused)
    assert best < loss(everything)
