"""The classifier for one given design: one fitted classifier per stage, exit when confident."""

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
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_is_fitted

from emsco.cascade.decider import Decider, Guard
from emsco.cascade.stage_plan import make_decider
from emsco.cascade.stake_cap import read_stakes
from emsco.core.costs import Costs
from emsco.core.decisions import Decision, Decisions
from emsco.core.design import StageDesign
from emsco.core.label_rule import BALANCED
from emsco.core.threshold import Threshold
from emsco.core.validation import resolve_costs
from emsco.exceptions import ColumnsError, DecisionsError
from emsco.learners import learner_of
from emsco.learners.final_model import check_final
from emsco.learners.label_weights import weigh
from emsco.learners.logistic import refuse_params
from emsco.learners.protocol import Stages
from emsco.learners.training import read_given
from emsco.rows.columns import container_of, is_dataset
from emsco.rows.fitted_rows import MOST_REMEMBERED, FittedRows
from emsco.rows.rows import Layout, Rows


class CascadeClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that buys features in stages and stops as soon as it is confident.

    Each stage's classifier sees every feature acquired so far. A row leaves at the first stage
    where the probability of the most probable class reaches that class's threshold; a row that is
    confident at no stage is rejected. `decide` returns complete decisions, including rejections;
    `predict` and `predict_proba` answer for every row like any scikit-learn classifier: with the
    answer of the exit stage, or of the last stage for a rejected row.

    Parameters
    ----------
    estimator : classifier with predict_proba, default=None
        Cloned and fitted once per stage, on the columns of that stage, in the same container type
        as X. None: logistic regression on encoded columns, which takes numbers, text, categories,
        booleans and missing values as they are.
    design : StageDesign, default=None
        Which sources are bought in which order. None: all at once.
    costs : Costs, mapping, sequence or path of a TOML file, default=None
        The prices. A mapping or a sequence prices features, by name or by position. None: every
        feature costs 1.
    threshold : float, mapping or tuple, default=0.75
        The confidence needed to accept, above 1 / number of classes: one number, one per class as
        {label: number}, or a tuple of those, one per stage. It is not an accuracy: raising it never
        raises coverage and never lowers cost, while accuracy may change in either direction.
    label_weights : mapping of label to float or "balanced", default=None
        What an error on each class weighs. Class c has the share w_c p_c / sum(w p) of a row; the
        label is the class with the largest share, and a row is accepted if that reaches the
        threshold. "balanced": one over the share of each class. None: the prices of errors in
        `costs`, if any, and otherwise equal. A final model's answers are not weighted.
    guard : object with fit(columns) and reasons(columns), default=None
        Learns the training columns; rows for which it gives a reason, and rows with an invalid
        value, are rejected with that reason. None: an invalid value raises an error.
    final : fitted model with predict, default=None
        An existing model as the last stage, on all sources: it is not changed and answers every row
        that reaches it, so no row is rejected. The design must use every source. Wrapped in
        scikit-learn's `FrozenEstimator`, it stays fitted when the cascade is cloned.

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
        The fitted guard; only if one was given.
    decider_ : Decider
        Everything that decides, frozen. The attributes above show parts of it; setting one of them,
        or a parameter, changes no decision until `fit`.
    fitted_rows_ : FittedRows
        Hashes of the rows seen in `fit`, by which a certificate recognises them.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The columns seen in `fit`, as in scikit-learn.

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
        "label_weights": [Mapping, StrOptions({BALANCED}), None],
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
        label_weights: Mapping[Any, float] | str | None = None,
        guard: Guard | None = None,
        final: Any = None,
    ) -> None:
        self.estimator = estimator
        self.design = design
        self.costs = costs
        self.threshold = threshold
        self.label_weights = label_weights
        self.guard = guard
        self.final = final

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: Any,
        y: ArrayLike | str,
        sample_weight: ArrayLike | str | None = None,
        *,
        engine: Any = None,
        **params: Any,
    ) -> Self:
        """Fit one classifier per stage.

        Parameters
        ----------
        X : numpy array, pandas or polars frame of shape (n_rows, n_features), or Arrow data set
            The training rows. A `pyarrow.dataset.Dataset` may be larger than memory: it is read
            block by block, several times, and only the default classifier can be fitted to it.
        y : array of shape (n_rows,), or str
            Their labels, of at least two classes; of a data set, the column that holds them.
        sample_weight : array of shape (n_rows,), or str, default=None
            The weight of each row, for the encoding and for the fits; of a data set, the column.
        engine : Engine, default=None
            What computes sums over the blocks of a data set. None: this process, one by one. It
            does not change the result.
        **params : dict
            Passed on to the `fit` of every stage's estimator.
        """
        if is_dataset(X):
            return self._fit_blocks(X, y, sample_weight, engine, params)
        if engine is not None:
            raise ColumnsError("`engine` is for the blocks of a data set; leave it out.")
        if self.final is not None:
            check_final(self.final, self.guard)
        fit_params = params if sample_weight is None else {**params, "sample_weight": sample_weight}
        if get_config()["enable_metadata_routing"]:
            fit_params = dict(process_routing(self, "fit", **fit_params).estimator.fit)
        layout, rows, costs, training, _ = read_given(
            self,
            X,
            y,
            learner=learner_of(self.estimator),
            costs=self.costs,
            final=self.final,
            params=fit_params,
        )
        return self._fit_design(*weigh(training, costs, self.label_weights), layout, rows)

    def _fit_blocks(
        self, dataset: Any, y: Any, sample_weight: Any, engine: Any, params: dict[str, Any]
    ) -> Self:
        """Fit to a data set, block by block; a sample of its rows is remembered."""
        from emsco.learners.block_newton import BlockTraining, check_learner, check_types
        from emsco.rows.dataset_blocks import Blocks

        learner = learner_of(self.estimator)
        check_learner(learner, self.guard, self.final)
        refuse_params(params)
        blocks = Blocks.of(dataset, y, sample_weight, engine)
        sample = blocks.sample(MOST_REMEMBERED, 0, blocks.names)
        layout, rows, _ = Layout.learn(self, sample.table.to_pandas(), sample.labels)
        costs = resolve_costs(self.costs, rows.names)
        check_types(costs.types, blocks.schema)
        layout, rows = layout.using(rows, costs.features)
        training = BlockTraining(learner, blocks, rows.names, rows.container)
        return self._fit_design(*weigh(training, costs, self.label_weights), layout, rows)

    def _fit_design(self, stages: Stages, costs: Costs, layout: Layout, rows: Rows) -> Self:
        """Fit the stages of the design, and remember the rows."""
        design = self.design or StageDesign(np.zeros(len(costs.names), dtype=np.int64))
        self.decider_ = make_decider(
            stages, layout, design, costs, self.threshold, guard=self.guard, final=self.final
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
        """Make a cascade from a fitted decider, with these parameters."""
        cascade = cls(
            estimator,
            design=decider.design,
            costs=decider.costs,
            threshold=threshold,
            label_weights=decider.label_weights,
            guard=guard,
            final=decider.final,
        )
        layout = decider.layout
        cascade.n_features_in_ = len(layout.names)
        if layout.named:
            cascade.feature_names_in_ = np.array(layout.names, dtype=object)
        cascade.decider_, cascade.fitted_rows_ = decider, fitted_rows
        return cascade

    def decide(self, X: Any, *, stake: ArrayLike | None = None, factors: bool = False) -> Decisions:
        """Decide rows: buy stage by stage, exit when confident, and otherwise reject.

        A frame is read by name: it must have the columns of the sources used; other columns are
        ignored. An array is read by position. `factors` asks for what each feature contributed to
        each decision, `Decision.factors`, which only linear stages can tell.

        A cascade with a cap on stakes (`Certificate.enforce`) rejects rows above it. It needs the
        stake of every row: `stake`, or the column of X that the cap names.
        """
        decider, rows = self._fitted(), self._read(X, by_name=True)
        decisions = decider.decide(rows, self._stakes(X, stake))
        if not factors:
            return decisions
        return decisions.beside(factors=decider.factors(rows.columns, decisions))

    def decide_one(self, row: Mapping[str, Any]) -> Decision:
        """Decide one row, in microseconds.

        Parameters
        ----------
        row : mapping of str to value, or named tuple
            The values by feature: a dict, a JSON object. What a stage needs is looked up when it is
            reached, so values of later stages may be missing, or be fetched by the mapping.

        Returns
        -------
        Decision
            The same as for a table of this one row.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from emsco import CascadeClassifier, StageDesign
        >>> X, y = load_iris(return_X_y=True)
        >>> cascade = CascadeClassifier(design=StageDesign([1, 1, 0, 0])).fit(X, y)
        >>> decision = cascade.decide_one({"x2": 1.4, "x3": 0.2})
        >>> decision.label, decision.accepted, decision.exit_stage, decision.cost
        (0, True, 0, 2.0)
        """
        if isinstance(row, tuple) and hasattr(row, "_asdict"):
            row = row._asdict()
        if not hasattr(row, "keys"):
            raise ColumnsError(
                "A row must be a mapping of feature to value, or a named tuple, got "
                f"{type(row).__name__}; tables and arrays are for `decide`."
            )
        return self._fitted().one_row.decide(row)

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict a label for every row, by the last stage bought, even if it rejects the row."""
        return self._fitted().decide(self._read(X), self._stakes(X)).label

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probabilities of the last stage bought, one column per class."""
        return self._fitted().probability(self._read(X), self._stakes(X))

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels."""
        return self._fitted().classes

    @property
    def costs_(self) -> Costs:
        """The prices, as resolved for the columns of X."""
        return self._fitted().costs

    @property
    def design_(self) -> StageDesign:
        """The design, aligned with the prices."""
        return self._fitted().design

    @property
    def stages_(self) -> tuple[tuple[str, ...], ...]:
        """The sources that each stage buys."""
        return self._fitted().design.stages

    @property
    def thresholds_(self) -> NDArray[np.float64]:
        """The threshold of each stage and class."""
        return self._fitted().thresholds

    @property
    def estimators_(self) -> list[Any]:
        """The fitted classifier of each stage."""
        return [stage.judge.estimator for stage in self._fitted().plan.stages]

    @property
    def guard_(self) -> Any:
        """The fitted guard."""
        guard = self._fitted().guard
        if guard is None:
            raise AttributeError("guard_ is available only if a guard was given.")
        return guard

    def get_metadata_routing(self) -> MetadataRouter:
        """Route the parameters of `fit` to the stages' estimators."""
        return MetadataRouter(owner=self).add(
            estimator=learner_of(self.estimator).routed(),
            method_mapping=MethodMapping().add(caller="fit", callee="fit"),
        )

    def __sklearn_tags__(self) -> Tags:
        return learner_of(self.estimator).tags(super().__sklearn_tags__())

    def _fitted(self) -> Decider:
        if "decider_" not in self.__dict__:
            check_is_fitted(self, "decider_")  # its error is an AttributeError, too
        return self.decider_

    def _stakes(self, X: Any, stake: ArrayLike | None = None) -> NDArray[np.float64] | None:
        """Return the stake of each row if there is a cap, or raise if it is not there."""
        layout, cap = self.decider_.layout, self.decider_.cap
        if cap is None:
            if stake is not None:
                raise ColumnsError("`stake` is for a cascade with a cap on stakes; leave it out.")
            return None
        if stake is not None:
            read = read_stakes(stake)
            if len(read) != len(X):
                raise DecisionsError(f"There are {len(read)} stakes for {len(X)} rows.")
            return read
        held = layout.names if container_of(X) == "array" else [*layout.names, *X.columns]
        if cap.column not in held:
            raise cap.lacking()
        return read_stakes(layout.read_column(X, cap.column))

    def _read(self, X: Any, *, by_name: bool = False) -> Rows:
        decider = self.decider_
        return decider.layout.read(self, X, decider.readers, by_name=by_name)
