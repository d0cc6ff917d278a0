"""One model for every source set, trained on rows whose sources are hidden at random."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar  # type: ignore[import-untyped]  # scipy has no types
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from emsco.core.label_rule import EQUAL, LabelRule
from emsco.exceptions import ClassesError, ColumnsError
from emsco.learners._tree_walk import predict_proba_of
from emsco.learners.estimator_learner import EstimatorLearner, EstimatorStage, read_probabilities
from emsco.learners.protocol import Fold, Learner, Outcomes, SetFits
from emsco.learners.training import Training
from emsco.rows.columns import assemble
from emsco.rows.rows import read_matrix

Numbers = NDArray[np.float64]
Sets = NDArray[np.bool_]  # one row per source set, one column per source

_AT_ONCE = 2**20  # values judged at a time: all trees read them, so they must stay in cache
_HELD_OUT = 0.1  # of the rows: a fit on far fewer would be more overconfident than one on all
_ROWS = 1_000_000  # copies of rows, by default: a set is learned from the copies that have it
_REPEATS = (16, 64)  # at least and at most
_LEAST_ROWS = 30  # of each class; with fewer, confidences are not corrected


class MaskedClassifier(ClassifierMixin, BaseEstimator):
    """One classifier for every source set, at the price of one fit. Experimental.

    It is trained on several copies of the rows, each with different sources hidden. The columns of
    a hidden source are missing, and one additional column per source says whether it was bought, so
    that "not bought" differs from "bought and missing". Sets of one source are drawn twice as often
    as sets of two, and so on, because a row with few sources teaches less about other sets than a
    row with many.

    As the `estimator` of `CascadeSearchCV` it is fitted once per fold, whatever the number of
    source sets; as that of `CascadeClassifier`, once for all stages. Both pass it the sources. A
    classifier fitted for a single set is somewhat better; `CascadeSearchCV(refit="stages")` fits
    the chosen stages in that way and evaluates them again.

    Parameters
    ----------
    estimator : classifier with predict_proba that takes missing values, default=None
        The classifier fitted on the rows with hidden sources. None: 300 gradient boosted trees of
        up to 255 leaves, about eight times scikit-learn's default, because one model has to replace
        many.
    repeats : int, default=None
        The number of copies of the rows to train on. None: as many as give a million rows, but at
        least 16 and at most 64.
    random_state : int, RandomState or None, default=None
        The source of randomness, such as the draw of the hidden sources.

    Attributes
    ----------
    classes_ : ndarray
        The labels.
    estimator_ : classifier
        The fitted classifier.
    temperatures_ : ndarray
        How overconfident sets of 1, 2, ... sources were on held-out rows; confidences are
        corrected for it.
    source_ : ndarray of int
        The source that each column belongs to.
    bought_ : ndarray of bool
        Whether each source is used for predictions: all are, except in what `having` returns.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The columns of these sources, as in scikit-learn.

    Examples
    --------
    >>> from emsco import CascadeClassifier, MaskedClassifier, StageDesign
    >>> from emsco.datasets import make_costly_classification
    >>> X, y, costs = make_costly_classification(600, n_sources=3, random_state=0)
    >>> masked = MaskedClassifier(repeats=4, random_state=0)
    >>> cascade = CascadeClassifier(masked, design=StageDesign([0, 1, 2]), costs=costs).fit(X, y)
    >>> len({id(stage.estimator_) for stage in cascade.estimators_})
    1
    """

    # Its path in skops files and in fingerprints of cascades, wherever the code is.
    __module__ = "emsco.masked"

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012  # scikit-learn's own shape
        "estimator": [HasMethods(["fit", "predict_proba"]), None],
        "repeats": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self, estimator: Any = None, *, repeats: int | None = None, random_state: Any = None
    ) -> None:
        self.estimator = estimator
        self.repeats = repeats
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        sources: Sequence[Sequence[int]] | None = None,
    ) -> Self:
        """Fit one model on rows whose sources are hidden at random.

        Parameters
        ----------
        X : array or frame of numbers of shape (n_rows, n_features)
            The rows, with all columns; NaN is a value that was bought but is missing.
        y : array of shape (n_rows,)
            Their labels.
        sample_weight : array of shape (n_rows,), default=None
            How much each row counts.
        sources : sequence of sequences of int, default=None
            The positions of each source's columns. None: every column is its own source.
        """
        X, labels = read_matrix(self, X, y)
        check_classification_targets(labels)
        self.classes_ = np.unique(labels)
        if len(self.classes_) < 2:
            raise ClassesError("`y` must have at least 2 classes, got 1 class.")
        self.source_ = _source_of_columns(sources, X.shape[1])
        self.bought_ = np.ones(self.source_.max() + 1, dtype=np.bool_)
        seeds = check_random_state(self.random_state)
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, X)
        self.temperatures_ = self._learn_temperatures(X, labels, weight, seeds)
        self.estimator_ = self._fit_hidden(X, labels, weight, seeds)
        return self

    def predict_proba(self, X: Any) -> Numbers:
        """Return the probability of each class, one column per class, from the sources in use."""
        probability: Numbers = self._judge(self._whole(X), self.bought_[None])[0]
        return probability

    def predict_proba_of(self, X: Any, sets: Sets) -> Numbers:
        """Return the probabilities for each of many source sets: sets x rows x classes.

        X has all columns; columns of sources that are not in a set are ignored for that set.
        """
        whole, sets = self._whole(X), np.asarray(sets, dtype=np.bool_)
        boosted = self.estimator_
        has_trees = type(boosted) is HistGradientBoostingClassifier
        # Trees that test only numbers, and no more sets than a word has bits.
        if has_trees and boosted.is_categorical_ is None and sets.shape[1] <= 64:
            bare = predict_proba_of(boosted, whole, sets, self.source_)
            return _tempered(bare, self.temperatures_[sets.sum(axis=1) - 1, None])
        return self._judge(whole, sets)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row."""
        probability = self.predict_proba(X)
        labels: NDArray[Any] = self.classes_[probability.argmax(axis=1)]
        return labels

    def having(self, columns: Iterable[int]) -> MaskedClassifier:
        """Return the same model for rows that have only the columns of the sources bought."""
        check_is_fitted(self)
        held = np.isin(np.arange(len(self.source_)), list(columns))
        view = copy(self)
        view.bought_ = np.isin(np.arange(len(self.bought_)), self.source_[held])
        if not (view.bought_[self.source_] == held).all():
            raise ColumnsError("`columns` must hold all columns of a source, or none of them.")
        view.n_features_in_ = int(held.sum())
        if hasattr(self, "feature_names_in_"):
            view.feature_names_in_ = self.feature_names_in_[held]
        return view

    def separate(self) -> Any:
        """Return an unfitted classifier for a single source set: the same kind, calibrated too."""
        alone = self.estimator
        if alone is None:
            alone = HistGradientBoostingClassifier(random_state=self.random_state)
        return CalibratedClassifierCV(clone(alone), method="sigmoid", ensemble=False)

    def emsco_learner(self) -> Learner:
        """Return the learner that fits the stages of a cascade with one such model."""
        return MaskedLearner(self)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _fit_hidden(self, X: Numbers, labels: NDArray[Any], weight: Any, seeds: Any) -> Any:
        """Fit on copies of the rows, each with other sources hidden."""
        rows = np.tile(np.arange(len(X)), self._copies(len(X)))
        sets = _draw_sets(len(rows), len(self.bought_), seeds)
        params = {} if weight is None else {"sample_weight": weight[rows]}
        if self.estimator is not None:
            unfitted = clone(self.estimator)
        else:  # no early stopping: copies of one row would be on both sides of its split
            unfitted = HistGradientBoostingClassifier(
                max_iter=300,
                max_leaf_nodes=255,
                early_stopping=False,
                random_state=seeds.randint(2**31),
            )
        return unfitted.fit(_hidden(X[rows], sets, self.source_), labels[rows], **params)

    def _learn_temperatures(
        self, X: Numbers, labels: NDArray[Any], weight: Any, seeds: Any
    ) -> Numbers:
        """Learn how overconfident sets of each size are, on rows held out of a separate fit.

        If there are too few rows to hold any out, confidences are not corrected.
        """
        temperatures = np.ones(len(self.bought_))
        if np.unique(labels, return_counts=True)[1].min() < _LEAST_ROWS:
            return temperatures
        train, held_out = train_test_split(
            np.arange(len(X)), test_size=_HELD_OUT, stratify=labels, random_state=seeds
        )
        fitted = self._fit_hidden(
            X[train], labels[train], None if weight is None else weight[train], seeds
        )
        rows = np.tile(held_out, self._copies(len(X)))
        sets = _draw_sets(len(rows), len(self.bought_), seeds)
        probability = self._probability(fitted, X[rows], sets)
        truth = np.searchsorted(self.classes_, labels[rows])
        counted = np.ones(len(rows)) if weight is None else weight[rows]
        for size in range(1, len(temperatures) + 1):
            own = sets.sum(axis=1) == size
            if counted[own].any():
                temperatures[size - 1] = _temperature(probability[own], truth[own], counted[own])
        return temperatures

    def _copies(self, n_rows: int) -> int:
        if self.repeats is not None:
            return int(self.repeats)
        least, most = _REPEATS
        return min(max(_ROWS // n_rows, least), most)

    def _whole(self, X: Any) -> Numbers:
        """Return rows with every column; columns of sources that were not bought are missing."""
        check_is_fitted(self)
        X = read_matrix(self, X, reset=False)
        if self.bought_.all():
            whole: Numbers = X
            return whole
        whole = np.full((len(X), len(self.source_)), np.nan)
        whole[:, self.bought_[self.source_]] = X
        return whole

    def _judge(self, X: Numbers, sets: Sets) -> Numbers:
        """Judge rows by sets, in calls that fit into the cache."""
        n_rows = len(X)
        probability = np.empty((len(sets) * n_rows, len(self.classes_)))
        step = max(_AT_ONCE // (X.shape[1] + sets.shape[1]), 1)
        for start in range(0, len(probability), step):
            pairs = np.arange(start, min(start + step, len(probability)))
            own = sets[pairs // n_rows]
            bare = self._probability(self.estimator_, X[pairs % n_rows], own)
            probability[pairs] = _tempered(bare, self.temperatures_[own.sum(axis=1) - 1])
        return probability.reshape(len(sets), n_rows, -1)

    def _probability(self, fitted: Any, X: Numbers, sets: Sets) -> Numbers:
        """Return the probabilities of rows that have only the sources of their set."""
        answer = fitted.predict_proba(_hidden(X, sets, self.source_))
        return read_probabilities(fitted, answer, self.classes_, len(X))


class MaskedLearner(EstimatorLearner):
    """Fits a `MaskedClassifier` once and uses it for any set of sources."""

    is_one_model = True
    is_calibrated = True
    takes_label_weights = True

    def fit(self, training: Training, features: tuple[str, ...], number: int | None = None) -> Any:
        """Return the model, fitted once, for rows that have these columns."""
        del number
        if "model" not in training.shared:
            training.shared["model"] = _fit_one(training)
        return training.shared["model"].having(training.names.index(name) for name in features)

    def fits(self, training: Training, folds: Sequence[Fold]) -> SetFits:
        """Fit one model per fold, which predicts for every set."""
        training.refuse_missing_class(folds)
        names = tuple(training.columns)
        fitted = tuple(_fit_one(training.take(fold.train)) for fold in folds)
        tested = [fold.tested(training.columns, names) for fold in folds]
        tables = tuple(assemble(training.container, names, rows) for rows in tested)
        return MaskedFits(fitted, tables, sum(len(f.test) for f in folds), training.rule)

    def separate(self) -> Learner:
        """Return a learner that fits a calibrated classifier of the same kind for each set."""
        return EstimatorLearner(self.estimator.separate())


def _fit_one(training: Training) -> Any:
    """Fit a clone on all columns, and pass it the positions of each source's columns."""
    names = tuple(training.columns)
    place = {name: i for i, name in enumerate(names)}
    sources = [[place[column] for column in columns] for columns in training.sources]
    params = training.params | {"sources": sources or None}
    estimator = clone(training.learner.estimator)
    stage = EstimatorStage(estimator, None, training.container, names, training.classes)
    return stage.fit(training.columns, training.labels, params).estimator


@dataclass(frozen=True)
class MaskedFits:
    """One classifier per fold, fitted once, that predicts for every set."""

    fitted: tuple[Any, ...]  # a `MaskedClassifier` a fold
    test: tuple[Any, ...]  # rows with all columns, one table per fold
    n_rows: int
    rule: LabelRule = EQUAL

    chunk = 256  # sets per task: enough to share a walk through the trees, few enough for workers
    is_slow = False

    @property
    def parts(self) -> tuple[MaskedFits, ...]:
        """One for each fold."""
        folds = zip(self.fitted, self.test, strict=True)
        return tuple(MaskedFits((masked,), (rows,), len(rows), self.rule) for masked, rows in folds)

    def outcomes(self, sets: NDArray[np.bool_]) -> Outcomes:
        """Return confidences and label codes, sets x evaluation rows."""
        folds = zip(self.fitted, self.test, strict=True)
        probability = np.concatenate([own.predict_proba_of(rows, sets) for own, rows in folds], 1)
        winner, _, share = self.rule.judge(list(np.moveaxis(probability, 2, 0)))
        return share, winner.astype(np.uint8)


def _source_of_columns(sources: Sequence[Sequence[int]] | None, n_columns: int) -> NDArray[np.intp]:
    """Return the source of each column."""
    if sources is None:
        return np.arange(n_columns)
    named = [column for columns in sources for column in columns]
    if sorted(named) != list(range(n_columns)) or not all(len(columns) for columns in sources):
        raise ColumnsError(
            f"`sources` must name each of the {n_columns} columns once, and no source may be empty."
        )
    source = np.empty(n_columns, dtype=np.intp)
    for number, columns in enumerate(sources):
        source[list(columns)] = number
    return source


def _draw_sets(n_sets: int, n_sources: int, seeds: Any) -> Sets:
    """Draw source sets: a size with a probability proportional to 1 / size, then a set of it."""
    sizes = np.arange(1, n_sources + 1)
    often = 1 / sizes
    drawn_sizes = seeds.choice(sizes, size=n_sets, p=often / often.sum())
    rank = seeds.random_sample((n_sets, n_sources)).argsort(axis=1).argsort(axis=1)
    drawn: Sets = rank < drawn_sizes[:, None]
    return drawn


def _tempered(probability: Numbers, temperature: Numbers) -> Numbers:
    """Lower confidences by a temperature above 1, raise them by one below; the order stays."""
    with np.errstate(divide="ignore"):
        score = np.log(probability) / temperature[..., None]
    score = np.exp(score - score.max(axis=-1, keepdims=True))
    tempered: Numbers = score / score.sum(axis=-1, keepdims=True)
    return tempered


def _temperature(probability: Numbers, truth: NDArray[np.intp], weight: Numbers) -> float:
    """Return the temperature at which the true labels are most likely."""

    def loss(log_temperature: float) -> float:
        tempered = _tempered(probability, np.exp([log_temperature]))
        likely = np.maximum(tempered[np.arange(len(truth)), truth], 1e-300)
        return float(-(weight * np.log(likely)).sum())

    return float(np.exp(minimize_scalar(loss, bounds=(-1.5, 1.5), method="bounded").x))


def _hidden(X: Numbers, sets: Sets, source: NDArray[np.intp]) -> Numbers:
    """Hide the sources that a row's set lacks, and add one column per source: bought or not."""
    rows = np.empty((len(X), X.shape[1] + sets.shape[1]))
    rows[:, : X.shape[1]] = X
    rows[:, : X.shape[1]][~sets[:, source]] = np.nan
    rows[:, X.shape[1] :] = sets
    return rows
