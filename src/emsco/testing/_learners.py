"""The contract of a learner: a set fitted among many gives the same as the set fitted alone."""

from __future__ import annotations

import warnings
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from emsco.cascade import CascadeClassifier
from emsco.exceptions import ContractError, EmscoWarning, ModelError
from emsco.learners import learner_of
from emsco.learners.protocol import Fold, Learner, Outcomes
from emsco.learners.training import Training
from emsco.search import CascadeSearchCV
from emsco.testing._contract import demand

Columns: TypeAlias = dict[str, NDArray[np.float64]]
Labels: TypeAlias = NDArray[np.int64]

_ROWS = 240
_NAMES = ("a", "b", "c", "d")
_SOURCES = (("a",), ("b", "c"), ("d",))
_EVERY = np.array([[bool(n >> i & 1) for i in range(3)] for n in range(1, 8)])
_TOLERANCE = 1e-6  # of a confidence: batched fits have the same optimum, not the same steps


def check_learner(estimator: Any, *, n_classes: int = 3) -> None:
    """Check a learner against everything that cascades and searches rely on.

    The learner is the one that `estimator.emsco_learner()` returns, or otherwise the one that is
    chosen for the estimator. Fitted for many source sets at once, it must give for each what it
    gives when it is fitted for that set alone. The order of sets, the number of sets requested
    together, and a second request must change nothing, bit for bit. Probabilities must be from 0 to
    1, sum to 1, and depend on nothing but their own row. The rows that it is fitted on must not
    change. A search and a cascade with it must run to the end and agree.

    Parameters
    ----------
    estimator : classifier or None
        The `estimator` as given by a user; None stands for the default classifier.
    n_classes : int, default=3
        The number of classes to check it with, in addition to 2.

    Raises
    ------
    ContractError
        At the first broken promise; the message says which one.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from emsco.testing import check_learner
    >>> check_learner(DecisionTreeClassifier(max_depth=3, random_state=0))
    >>> check_learner(None)
    """
    learner = learner_of(estimator)
    name = f"The learner {type(learner).__name__}"
    for attribute in ("encodes", "is_one_model", "is_calibrated"):
        value = getattr(learner, attribute, None)
        demand(isinstance(value, bool), f"{name}: `{attribute}` must be a bool, is {value!r}.")
    is_size = isinstance(learner.block_rows, int) and learner.block_rows >= 1
    demand(is_size, f"{name}: `block_rows` must be a whole number >= 1.")
    try:
        for classes in sorted({2, n_classes}):
            columns, labels = _rows(classes)
            _check_sets(learner, columns, labels, name)
            _check_stage(learner, columns, labels, name)
            _check_search(estimator, columns, labels, name)
    except ModelError as error:  # its answers are none
        raise ContractError(f"{name}: {error}") from error


def _rows(n_classes: int) -> tuple[Columns, Labels]:
    rng = np.random.default_rng(n_classes)
    labels = rng.permutation(np.arange(_ROWS) % n_classes)
    noise = rng.normal(size=(len(_NAMES), _ROWS))
    columns = {f: labels * (0.4 + 0.3 * i) + noise[i] for i, f in enumerate(_NAMES)}
    return columns, labels


def _training(learner: Learner, columns: Columns, labels: Labels) -> Training:
    return Training(learner, "array", columns, labels, {}, _SOURCES)


def _check_sets(learner: Learner, columns: Columns, labels: Labels, name: str) -> None:
    """Demand that a set's outcomes are its own, whatever is fitted with it."""
    before = {f: column.copy() for f, column in columns.items()}
    half = np.arange(_ROWS) < _ROWS // 2
    folds = [Fold(np.flatnonzero(half), np.flatnonzero(~half))]
    fits = learner.fits(_training(learner, columns, labels), folds)
    demand(fits.n_rows == _ROWS - _ROWS // 2, f"{name}: `n_rows` must count the test rows.")
    is_size = isinstance(fits.chunk, int) and fits.chunk >= 1
    demand(is_size, f"{name}: `chunk` must be a whole number >= 1.")
    confidence, label = fits.outcomes(_EVERY)
    shape = (len(_EVERY), fits.n_rows)
    demand(
        confidence.shape == label.shape == shape,
        f"{name}: outcomes must be sets x rows, {shape}; they are {confidence.shape}.",
    )
    least = 1 / len(np.unique(labels))
    inside = (confidence >= least - _TOLERANCE).all() and (confidence <= 1 + _TOLERANCE).all()
    demand(inside, f"{name}: a confidence is the largest probability, from {least:.2g} to 1.")
    demand((label < len(np.unique(labels))).all(), f"{name}: a label must be the place of a class.")
    again = fits.outcomes(_EVERY)
    demand(_same((confidence, label), again), f"{name}: asked a second time it says otherwise.")
    demand(
        all(np.array_equal(before[f], columns[f]) for f in columns),
        f"{name}: it changes the rows that it is fitted on.",
    )
    fresh = {f: column[~half] for f, column in columns.items()}
    part = _training(learner, columns, labels).take(np.flatnonzero(half))
    for place, members in enumerate(_EVERY):
        features = _features(members)
        judge = learner.judge(part.fit(features), features, part, 0)
        probability = np.column_stack(judge({f: fresh[f] for f in features}))
        alone = probability.max(axis=1)
        demand(
            np.abs(alone - confidence[place]).max() <= _TOLERANCE,
            f"{name}: fitted among others, the set {features} is not the set fitted alone.",
        )
        clear = np.sort(probability, axis=1)[:, -1] - np.sort(probability, axis=1)[:, -2] > 1e-3
        demand(
            (probability.argmax(axis=1) == label[place])[clear].all(),
            f"{name}: among others and alone, the set {features} gives other labels.",
        )


def _same(one: Outcomes, other: Outcomes) -> bool:
    return np.array_equal(one[0], other[0]) and np.array_equal(one[1], other[1])


def _features(members: NDArray[np.bool_]) -> tuple[str, ...]:
    chosen = {f for bought, source in zip(members, _SOURCES, strict=True) if bought for f in source}
    return tuple(name for name in _NAMES if name in chosen)


def _check_stage(learner: Learner, columns: Columns, labels: Labels, name: str) -> None:
    """Demand probabilities, of every row by itself, and that a set is fitted once."""
    training = _training(learner, columns, labels)
    judge = learner.judge(training.fit(_NAMES), _NAMES, training, 0)
    demand(training.fit(_NAMES) is training.fit(_NAMES), f"{name}: a set is fitted once.")
    together = np.column_stack(judge(columns))
    demand(
        together.shape == (_ROWS, len(training.classes)),
        f"{name}: a stage gives a probability for each class and row.",
    )
    demand(
        np.allclose(together.sum(axis=1), 1) and (together >= 0).all(),
        f"{name}: the probabilities of a row must sum to 1.",
    )
    rows = np.arange(0, _ROWS, 17)
    alone = np.vstack(
        [np.column_stack(judge({f: c[row : row + 1] for f, c in columns.items()})) for row in rows]
    )
    demand(
        np.allclose(alone, together[rows], rtol=0, atol=1e-12),
        f"{name}: a row alone is judged otherwise than among others.",
    )


def _check_search(estimator: Any, columns: Columns, labels: Labels, name: str) -> None:
    """Demand that a search runs, and that its cascade is the one fitted by itself."""
    X = np.column_stack(list(columns.values()))
    costs = {f"x{i}": 2.0**i for i in range(len(_NAMES))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmscoWarning)  # few rows, confidences: not the matter here
        search = CascadeSearchCV(
            estimator, costs=list(costs.values()), threshold=[0.6, 0.8], max_stages=2, cv=2,
            random_state=0, select={"by": "accuracy"},
        ).fit(X, labels)  # fmt: skip
        candidate = search.best_candidate_
        cascade = CascadeClassifier(
            estimator, design=candidate.design, costs=search.costs_, threshold=candidate.threshold
        ).fit(X, labels)
    same = np.array_equal(search.decide(X).label, cascade.decide(X).label)
    is_random = getattr(estimator, "random_state", 0) is None
    demand(same or is_random, f"{name}: a search's cascade is not the cascade fitted by itself.")
