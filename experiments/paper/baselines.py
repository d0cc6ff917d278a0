"""What the paper holds EMSCO against, where it is told well enough to be made again.

Greedy Miser and the tree of classifiers are not: their figures are the paper's alone.
"""

from __future__ import annotations

import warnings

import numpy as np
import sklearn
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from emsco import Evaluation
from emsco.datasets import CostlyData
from emsco.search import Problem
from experiments.paper.cases import Rows, Split

_VERSION = tuple(map(int, sklearn.__version__.split(".")[:2]))
L1 = {"l1_ratio": 1.0} if _VERSION >= (1, 8) else {"penalty": "l1"}  # renamed there


def fitness(evaluation: Evaluation, total: float) -> float:
    """Give the norm by which the paper tunes: accuracy, coverage and the share of cost saved."""
    saved = 1 - evaluation.cost / total
    return float(np.sqrt(evaluation.accuracy**2 + evaluation.coverage**2 + saved**2))


def cost_ordered(test: Problem) -> Evaluation:
    """Judge CO-T: one stage for each price, the cheapest first."""
    prices = np.array([source.cost for source in test.costs.sources])
    stages = np.unique(prices, return_inverse=True)[1].astype(np.int8)
    return test.candidates(stages[None])[0].evaluation


def lasso(data: CostlyData, split: Split, threshold: float) -> Evaluation:
    """Judge CaCT LASSO: what an L1 penalty leaves, bought at once; tuned where designs are.

    The paper's lambda = 0, 0.1, ..., 10 is taken as scikit-learn's 1 / C, columns scaled.
    """
    models = [_l1(data, split, penalty) for penalty in np.arange(101) / 10]
    selected = [_judge(model, data, split.selection, threshold) for model in models]
    best = models[np.argmax([fitness(one, data.costs.total) for one in selected])]
    return _judge(best, data, split.test, threshold)


def _l1(data: CostlyData, split: Split, penalty: float) -> Pipeline:
    strength = 1 / penalty if penalty else 1e6
    model = make_pipeline(
        StandardScaler(),
        LogisticRegression(C=strength, solver="liblinear", random_state=0, **L1),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(np.asarray(data.X)[split.train], data.y[split.train])


def _judge(model: Pipeline, data: CostlyData, rows: Rows, threshold: float) -> Evaluation:
    probability = model.predict_proba(np.asarray(data.X)[rows])
    accepted = probability.max(axis=1) >= threshold
    right = accepted & (model.classes_[probability.argmax(axis=1)] == data.y[rows])
    bought = np.flatnonzero(model[-1].coef_[0])
    paid = data.costs.of([data.costs.names[i] for i in bought]) * len(rows)
    return Evaluation(len(rows), int(accepted.sum()), int(right.sum()), paid)
