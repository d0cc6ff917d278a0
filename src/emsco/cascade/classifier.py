"""The classifier for one given design: one fitted classifier a stage, exit as soon as sure."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils import Tags
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_is_fitted

from emsco.cascade.decider import Decider, Guard, make_decider
from emsco.learners import learner_of
from emsco.learners.final_stage import check_final, logged, refuse_unused
from emsco.learners.training import Training, check_labels
from emsco.rows.known import FittedRows
from emsco.rows.rows import Layout, Rows
from emsco.words.costs import Costs
from emsco.words.decisions import Decisions
from emsco.words.design import StageDesign
from emsco.words.pricing import resolve_costs
from emsco.words.threshold import Threshold


class CascadeClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that buys features in stages and stops as soon as it is confident.

    Each stage's classifier sees every feature acquired so far. A row leaves at the first stage
    where the probability of the most probable class reaches that class's threshold; a row that is
    confident at none is rejected. `decide` tells the whole truth; `predict` and `predict_proba`
    answer for every row like any scikit-learn classifier: with the exit stage's answer, or the last
    stage's for a rejected row.

    Parameters
    ----------
    estimator : classifier with predict_proba, default=None
        Cloned and fitted once a stage, on that stage's columns in the container that X came in.
        None: logistic regression on encoded columns, which takes numbers, text, categories,
        booleans and missing values as they are.
    design : StageDesign, default=None
        Which sources are bought in which order. None: all at once.
    costs : Costs, mapping, sequence or path of a TOML file, default=None
        The prices. A mapping or a sequence prices features, by name or by position. None: every
        feature costs 1.
    threshold : float, mapping or tuple, default=0.75
        The confidence needed to accept, above 1 / number of classes: one number, one by class as
        {label: number}, or a tuple of those, one a stage. It is not an accuracy: raising it never
        raises coverage and never lowers cost, while accuracy may move either way.
    guard : object with fit(columns) and reasons(columns), default=None
        Learns the training columns; rows for which it gives a reason, and rows with an invalid
        value, are rejected for it. None: an invalid value raises.
    final : fitted model with predict, default=None
        The last stage, on all sources and as it is: it answers every row that gets there, so none
        is rejected. The design must use every source. Wrapped in scikit-learn's `FrozenEstimator`
        it stays fitted where the cascade is cloned.

    Attributes
    ----------
    classes_ : ndarray
        The labels.
    stages_ : tuple of tuple of str
        The sources that each stage buys.
    estimators_ : list of classifiers
        The fitted classifier of each stage.
    costs_ : Costs
        The prices, as resolved for the columns of X.
    design_ : StageDesign
        The design, aligned with `costs_`.
    thresholds_ : ndarray of shape (n_stages, n_classes)
        The threshold of each stage and class.
    guard_ : object
        The fitted guard; only where one was given.
    decider_ : Decider
        All that decides, frozen. The attributes above show parts of it; to set one, or a
        parameter, changes no decision until `fit`.
    fitted_rows_ : FittedRows
        Hashes of the rows that `fit` saw, by which a certificate knows them again.
    n_features_in_, feature_names_in_ : int, ndarray of str
        What `fit` saw, as in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from emsco import CascadeClassifier, StageDesign, evaluate
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(2, size=400)
    >>> cheap, dear = y + rng.normal(size=400), 4 * y + rng.normal(size=400)
    >>> X = np.column_stack([cheap, dear])
    >>> cascade = CascadeClassifier(design=StageDesign([0, 1]), costs=[1, 20], threshold=0.9)
    >>> decisions = cascade.fit(X[:200], y[:200]).decide(X[200:])
    >>> evaluation = evaluate(decisions, y[200:])
    >>> print(f"{evaluation.accuracy:.3f} of {evaluation.coverage:.3f} for {evaluation.cost:.2f}")
    0.966 of 0.880 for 17.50
    """

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012  # scikit-learn's own shape
        "estimator": [HasMethods(["fit", "predict_proba"]), None],
        "design": [StageDesign, None],
        "costs": [Costs, Mapping, "array-like", str, PathLike, None],
        "threshold": [Real, Mapping, tuple],
        "guard": [HasMethods(["fit", "reasons"]), None],
        "final": [HasMethods(["predict"]), None],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        design: StageDesign | None = None,
        costs: Any = None,
        threshold: Threshold = 0.75,
        guard: Guard | None = None,
        final: Any = None,
    ) -> None:
        self.estimator = estimator
        self.design = design
        self.costs = costs
        self.threshold = threshold
        self.guard = guard
        self.final = final

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, **params: Any
    ) -> Self:
        """Fit one classifier a stage.

        Parameters
        ----------
        X : numpy array, pandas or polars frame of shape (n_rows, n_features)
            The training rows.
        y : array of shape (n_rows,)
            Their labels, of at least two classes.
        sample_weight : array of shape (n_rows,), default=None
            How much each row counts, for the encoding and for the fits.
        **params : dict
            Passed on to the `fit` of every stage's estimator.
        """
        learner = learner_of(self.estimator)
        layout, rows = Layout.learn(self, X, y, logged(self.final))
        labels = check_labels(y, len(rows))
        costs = resolve_costs(self.costs, rows.names)
        layout, rows = layout.using(rows, costs.features)
        refuse_unused(layout.unused, self.final)
        if self.final is not None:
            check_final(self.final, self.guard)
        training = Training(
            learner,
            rows.container,
            rows.columns,
            labels,
            self._fit_params(sample_weight, params),
            [costs.columns(name) for name in costs.names],
        )
        design = self.design or StageDesign(np.zeros(len(costs.names), dtype=np.int64))
        self.decider_ = make_decider(
            training, layout, design, costs, self.threshold, guard=self.guard, final=self.final
        )
        self.fitted_rows_ = FittedRows.of(rows, self.decider_.readers)
        return self

    @classmethod
    def of(
        cls,
        decider: Decider,
        fitted_rows: FittedRows,
        *,
        estimator: Any = None,
        threshold: Threshold,
        guard: Guard | None = None,
    ) -> Self:
        """Make the cascade that decides by something fitted already, and has these parameters."""
        cascade = cls(
            estimator,
            design=decider.design,
            costs=decider.costs,
            threshold=threshold,
            guard=guard,
            final=decider.final,
        )
        layout = decider.layout
        cascade.n_features_in_ = len(layout.names)
        if layout.named:
            cascade.feature_names_in_ = np.array(layout.names, dtype=object)
        cascade.decider_, cascade.fitted_rows_ = decider, fitted_rows
        return cascade

    def decide(self, X: Any) -> Decisions:
        """Decide rows: buy stage by stage, exit when confident, reject where never.

        A frame is read by name: the columns of used sources must be there, others are ignored. An
        array is read by position.
        """
        return self._fitted().decide(self._read(X, by_name=True))

    def predict(self, X: Any) -> NDArray[Any]:
        """Give a label for every row: the last stage bought decides, also where it rejects."""
        return self._fitted().decide(self._read(X)).label

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Give the probabilities of the last stage bought, a column a class."""
        return self._fitted().probability(self._read(X))

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels."""
        return self._shown().classes

    @property
    def costs_(self) -> Costs:
        """The prices, as resolved for the columns of X."""
        return self._shown().costs

    @property
    def design_(self) -> StageDesign:
        """The design, aligned with the prices."""
        return self._shown().design

    @property
    def stages_(self) -> tuple[tuple[str, ...], ...]:
        """The sources that each stage buys."""
        return self._shown().design.stages

    @property
    def thresholds_(self) -> NDArray[np.float64]:
        """The threshold of each stage and class."""
        return self._shown().thresholds

    @property
    def estimators_(self) -> list[Any]:
        """The fitted classifier of each stage."""
        return [stage.judge.estimator for stage in self._shown().plan.stages]

    @property
    def guard_(self) -> Any:
        """The fitted guard."""
        guard = self._shown().guard
        if guard is None:
            raise AttributeError("guard_ comes with a guard.")
        return guard

    def get_metadata_routing(self) -> MetadataRouter:
        """Route the parameters of `fit` to the stages' estimators."""
        return MetadataRouter(owner=self).add(
            estimator=learner_of(self.estimator).routed(),
            method_mapping=MethodMapping().add(caller="fit", callee="fit"),
        )

    def __sklearn_tags__(self) -> Tags:
        return learner_of(self.estimator).tags(super().__sklearn_tags__())

    def _fit_params(
        self, sample_weight: ArrayLike | None, params: dict[str, Any]
    ) -> dict[str, Any]:
        """Give what the `fit` of every stage's estimator receives, by scikit-learn's routing."""
        given = params if sample_weight is None else {**params, "sample_weight": sample_weight}
        if get_config()["enable_metadata_routing"]:
            return dict(process_routing(self, "fit", **given).estimator.fit)
        return given

    def _fitted(self) -> Decider:
        check_is_fitted(self, "decider_")
        return self.decider_

    def _shown(self) -> Decider:
        if "decider_" not in self.__dict__:
            raise AttributeError("This comes with a fitted cascade; call fit first.")
        return self.decider_

    def _read(self, X: Any, *, by_name: bool = False) -> Rows:
        decider = self.decider_
        return decider.layout.read(self, X, decider.readers, by_name=by_name)
