"""Scikit-learn scorers that account for rejection, computed from `decide`.

Each is called as `scorer(estimator, X, y, sample_weight=None)`, so it can be passed directly as the
`scoring` of `cross_validate` or `GridSearchCV`. The estimator is anything with a `decide` method,
or a scikit-learn pipeline that ends in it. Higher is better for `accepted_accuracy` and `coverage`
only; where scikit-learn maximises, use `negative` of the others.

>>> from functools import partial
>>> import numpy as np
>>> from sklearn.model_selection import cross_validate
>>> from emsco import CascadeClassifier, StageDesign
>>> from emsco.metrics import accepted_accuracy, coverage, mean_cost, missed
>>> rng = np.random.default_rng(0)
>>> sick = rng.random(400) < 0.4
>>> X = np.column_stack([sick + rng.normal(size=400), 4 * sick + rng.normal(size=400)])
>>> y = np.where(sick, "sick", "well")
>>> cascade = CascadeClassifier(design=StageDesign([0, 1]), costs=[1, 20], threshold=0.9)
>>> scoring = {
...     "accuracy": accepted_accuracy,
...     "coverage": coverage,
...     "cost": mean_cost,
...     "missed": partial(missed, label="sick"),
... }
>>> scores = cross_validate(cascade, X, y, scoring=scoring)
>>> for name in scoring:
...     print(f"{name:8} {scores['test_' + name].mean():6.3f}")
accuracy  0.988
coverage  0.880
cost     18.550
missed    0.028
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma  # type: ignore[import-untyped]  # scipy ships no types
from sklearn.pipeline import Pipeline

from emsco.core.costs import Review
from emsco.core.decisions import Decisions
from emsco.core.evaluation import Evaluation, evaluate
from emsco.exceptions import DecisionsError, nearest_class

Scorer: TypeAlias = Callable[..., float]


def accepted_accuracy(
    estimator: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
) -> float:
    """Return the share of accepted rows that are labelled right; 0 if nothing is accepted."""
    return _evaluation(estimator, X, y, sample_weight).accuracy


def coverage(estimator: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    """Return the share of rows accepted."""
    return _evaluation(estimator, X, y, sample_weight).coverage


def mean_cost(
    estimator: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
) -> float:
    """Return the mean cost of sources per row, rejected rows included. Lower is better."""
    return _evaluation(estimator, X, y, sample_weight).cost


def missed(
    estimator: Any,
    X: Any,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    label: Any = None,
) -> float:
    """Return the share of a true class's rows accepted under another label. Lower is better.

    `functools.partial(missed, label="sick")` is the scorer for one class. If no row has that class,
    an error is raised, because a share of no rows would look like safety. If `label` is None, the
    share is that of the class with the largest one.
    """
    shares = _evaluation(estimator, X, y, sample_weight).missed
    if label is None:
        return max(shares.values(), default=0.0)
    if label not in shares:
        raise DecisionsError(
            f"{label!r} is not a class of the rows scored" + nearest_class(label, shares)
        )
    return shares[label]


def aurc(estimator: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    """Return the area under the risk-coverage curve. Lower is better, 0 is perfect.

    Rows are sorted from the most to the least confident: accepted before rejected, then by
    confidence. If E(k) is the number of wrong labels among the first k of n rows, accepted or not,
    the risk at the coverage k / n is E(k) / k, and the area is the mean of the risks::

        (E(1) / 1 + E(2) / 2 + ... + E(n) / n) / n

    Among rows that tie in this order E grows linearly, which gives the mean over all their orders.
    A weight counts as that many rows. Unlike for a rate, the scale of the weights therefore
    matters: weights that sum to 1 stand for a single row. For weights that are not whole numbers,
    the sums of 1 / k are continued by the digamma function.

    References
    ----------
    Geifman, Uziel and El-Yaniv, *Bias-Reduced Uncertainty Estimation for Deep Neural Classifiers*,
    ICLR 2019, which measures confidence by this area and by its excess over the smallest possible
    area.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from emsco import Decisions
    >>> from emsco.metrics import aurc
    >>> sure = [0.9, 0.8, 0.6]
    >>> decisions = Decisions(["a", "b", "b"], [True, True, False], [0] * 3, sure, cost=[1] * 3)
    >>> cascade = SimpleNamespace(decide=lambda X: decisions)
    >>> print(f"{aurc(cascade, None, ['a', 'a', 'b']):.4f} = (0/1 + 1/2 + 1/3) / 3")
    0.2778 = (0/1 + 1/2 + 1/3) / 3
    """
    decisions = _decide(estimator, X)
    if not evaluate(decisions, y, sample_weight=sample_weight).rows:  # also checks y and weights
        return 0.0
    weight = np.ones(len(decisions)) if sample_weight is None else np.asarray(sample_weight, float)
    order = np.lexsort((-decisions.confidence, ~decisions.accepted))
    order = order[weight[order] > 0]
    confidence, accepted = decisions.confidence[order], decisions.accepted[order]
    less_sure = (confidence[1:] != confidence[:-1]) | (accepted[1:] != accepted[:-1])
    block = np.concatenate([[0], np.cumsum(less_sure)])
    wrong = weight * (decisions.label != np.asarray(y))
    rows, errors = np.bincount(block, weight[order]), np.bincount(block, wrong[order])
    # Within a block E(k) / k is share + excess / k, and 1 / k sums to a difference of digammas.
    covered, share = np.cumsum(rows), errors / rows
    before = covered - rows
    excess = np.cumsum(errors) - errors - share * before
    area = errors + excess * (digamma(covered + 1) - digamma(before + 1))
    return float(area.sum() / covered[-1])


def expected_loss(
    estimator: Any,
    X: Any,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    error_cost: float | Mapping[Any, float] | ArrayLike = 0.0,
    review: Review | None = None,
) -> float:
    """Return the mean expense per row when errors and review have prices. Lower is better.

    `error_cost` and `review` are those of `Evaluation.loss`; set them with `functools.partial`. If
    `review` is None, the review of the estimator's `costs_` is used. `error_cost` may also be an
    array with the price of an error on each row of X, such as its amount.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from emsco import Decisions
    >>> from emsco.metrics import expected_loss
    >>> decisions = Decisions(["a", "b"], [True, True], [0, 0], [0.9, 0.8], cost=[1, 1])
    >>> cascade = SimpleNamespace(decide=lambda X: decisions)
    >>> expected_loss(cascade, None, ["a", "a"], error_cost=[4, 40_000])
    20001.0
    """
    if review is None:
        review = getattr(getattr(_last(estimator), "costs_", None), "review", None)
    if not isinstance(error_cost, Mapping) and np.ndim(error_cost):
        decisions = _decide(estimator, X)
        prices = np.asarray(error_cost)
        if prices.shape == (len(decisions),) and not prices.any():
            return evaluate(decisions, y, sample_weight=sample_weight).loss(review=review)
        by_price = evaluate(decisions, y, sample_weight=sample_weight, stake=error_cost)
        return by_price.loss(review=review, error_cost=1.0)
    evaluation = _evaluation(estimator, X, y, sample_weight)
    return evaluation.loss(review=review, error_cost=error_cost)


def negative(scorer: Scorer) -> Scorer:
    """Return one of these scorers with its sign reversed, for searches, which maximise.

    Examples
    --------
    >>> from functools import partial
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import GridSearchCV
    >>> from emsco import CascadeClassifier, Review
    >>> from emsco.metrics import expected_loss, negative
    >>> loss = negative(partial(expected_loss, error_cost=200, review=Review(10)))
    >>> loss
    negative(expected_loss, error_cost=200, review=Review(cost=10.0, latency=0.0, accuracy=1.0))
    >>> grid = {"threshold": [0.5, 0.7, 0.9, 0.99]}
    >>> search = GridSearchCV(CascadeClassifier(), grid, scoring=loss)
    >>> search.fit(*load_iris(return_X_y=True)).best_params_
    {'threshold': 0.7}
    """
    return _Negative(scorer)


@dataclass(frozen=True, repr=False)
class _Negative:
    """A class and not a closure, so that workers can unpickle it."""

    scorer: Scorer

    # scikit-learn passes weights on only if the signature names them.
    def __call__(
        self, estimator: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> float:
        return -self.scorer(estimator, X, y, sample_weight=sample_weight)

    def __repr__(self) -> str:
        scorer, options = self.scorer, ""
        if isinstance(scorer, partial):
            options = "".join(f", {name}={value!r}" for name, value in scorer.keywords.items())
            scorer = scorer.func
        return f"negative({getattr(scorer, '__name__', repr(scorer))}{options})"


def _last(estimator: Any) -> Any:
    """Return the estimator that decides: the last step of a pipeline, or the estimator itself."""
    return _last(estimator[-1]) if isinstance(estimator, Pipeline) else estimator


def _decide(estimator: Any, X: Any) -> Decisions:
    """Decide rows; in a pipeline, after its earlier steps."""
    if isinstance(estimator, Pipeline):
        return _decide(estimator[-1], estimator[:-1].transform(X) if len(estimator) > 1 else X)
    if not hasattr(estimator, "decide"):
        raise DecisionsError(
            "The scorers of emsco.metrics need an estimator with `decide`, which "
            f"{type(estimator).__name__} lacks; score a CascadeClassifier, or a pipeline ending "
            "in one."
        )
    decisions: Decisions = estimator.decide(X)
    return decisions


def _evaluation(
    estimator: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None
) -> Evaluation:
    return evaluate(_decide(estimator, X), y, sample_weight=sample_weight)
