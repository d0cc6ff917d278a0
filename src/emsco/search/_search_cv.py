"""The estimator that most users need: a table with prices in, a chosen cascade out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.metrics import accuracy_score
from sklearn.model_selection import check_cv
from sklearn.utils import Tags
from sklearn.utils.metadata_routing import MetadataRequest, MetadataRouter, MethodMapping
from sklearn.utils.validation import check_is_fitted

import emsco.search._steps as steps
from emsco.cascade import CascadeClassifier, Guard
from emsco.core.costs import Costs
from emsco.core.decisions import Decisions
from emsco.core.evaluation import Evaluation
from emsco.core.front import Candidate, ParetoFront
from emsco.core.scored_front import ScoredFront
from emsco.core.threshold import StageThreshold
from emsco.learners import first_learner
from emsco.rows.fitted_rows import FittedRows
from emsco.search._fresh_rows import describe, score_candidates, truth_of
from emsco.search._problem import Search
from emsco.search._progress import Progress
from emsco.search._run import pose, run_search
from emsco.search._thresholds import AUTO
from emsco.search.fitted_search import (
    Choice,
    FittedSearch,
    choose,
    choose_again,
    chosen_cascade,
    part_of_result,
)


class CascadeSearchCV(ClassifierMixin, BaseEstimator):
    """Search which sources to buy in which order, choose one cascade, and decide with it.

    Designs are evaluated on rows that their classifiers were not fitted on, the test folds of `cv`.
    The result is the trade-off between accuracy on accepted rows, coverage and cost (`front_`), and
    one point of it, chosen by `select` and fitted on all rows (`best_cascade_`).

    Parameters
    ----------
    estimator : classifier with predict_proba, "auto" or mapping of name to one, default=None
        The classifier of a stage. None: logistic regression on encoded columns, which takes
        numbers, text, categories, booleans and missing values as they are. "auto": it and boosted
        trees; with several, each candidate of the one front says which it has.
    costs : Costs, mapping, sequence or path of a TOML file, default=None
        The prices; a mapping or a sequence prices features, by name or position. None: 1 each.
    search : object with run(problem, rng, callback), default=None
        `Exhaustive()`, `EMSCO()`, `LocalSearch()` or `Hybrid()`. None: exhaustive for few designs,
        otherwise local, with at most 1,024 source sets if these are fitted one by one.
    threshold : float, mapping, list of those, or "auto", default="auto"
        The confidence needed to accept. A list holds alternatives, which share the same fits; each
        candidate has its own. "auto" searches a grid, and then separate thresholds per stage.
    label_weights : mapping of label to float or "balanced", default=None
        As in `CascadeClassifier`. With an estimator that is not calibrated they are scaled.
    max_stages : int, default=4
        The maximum number of stages; it is limited to the number of sources.
    allow_unused : bool, default=True
        Whether a design may leave sources unused.
    max_missed : mapping of label to float, default=None
        Per true class, the maximum share accepted under another label; no design may exceed it.
    max_rejected : mapping of label to float, default=None
        Per true class, the maximum share accepted at no stage; no design may exceed it.
    cv : int, splitter or iterable, default=5
        As in scikit-learn. A row in no test fold does not count; a row in two counts twice.
    max_rows : int, default=None
        The maximum number of rows for the search, drawn with stratification. None: all rows (of an
        Arrow data set 200,000), but fewer, with a warning, if fits would take over four minutes of
        one core: never below 10,000, or 300 of any class. The refit always uses all rows.
    select : mapping or callable, default=None
        How to choose: keywords of `ParetoFront.select`, or a function that takes the front and
        returns a candidate. None: the least loss, if errors and review have prices; otherwise the
        cheapest candidate that accepts 80% of the rows, loses no class, and is shown to be not
        worse than all sources at once answering every row, overall and in every class; if there is
        none, all sources at once, with a warning. The user guide has the exact rule.
    luck : bool, default=True
        Whether to repeat the search without parts of the rows, without new fits, to measure how
        much of the result is luck (`front_.luck`); `select` requires a margin of that size.
    refit : bool or "stages", default=True
        Whether the chosen stages are fitted on all rows. False: with a one-split `cv`, the cascade
        is the one that was evaluated; with several, there is none until `choose(refit=True)`.
        "stages", with a `MaskedClassifier`: the chosen stages are fitted separately, evaluated on
        the same folds, and their thresholds are chosen again. All figures then describe these
        stages: `front_` has the chosen design at each threshold; `choose(refit=True)` undoes this.
    guard : object with fit(columns) and reasons(columns), default=None
        As in `CascadeClassifier`.
    final : fitted model with predict, default=None
        An existing model as the last stage: it is not changed, sees all sources, and answers every
        row that reaches it, so the coverage is 1. Designs then use every source.
    target : {"labels", "agreement"}, default="labels"
        What counts as right: the label in `y`, or the answer of the final model. With "agreement"
        no `y` is needed, so every logged row can be used to fit. `fit` and `score` then ignore `y`,
        because scikit-learn passes it on; all other methods refuse it. By default, such a search
        chooses the cheapest candidate that agrees on 99% of the rows.
    checkpoint : str or path, default=None
        A file that keeps fitted results. If a run is interrupted, even killed, fitting again in the
        same way continues from there, to the same front. The file stays until you delete it.
    n_jobs : int, default=None
        The number of workers; None means 1, -1 means one per core. It does not change the result.
    engine : Engine, default=None
        What runs the fits. None: workers on this machine.
    random_state : int, RandomState or None, default=None
        The source of all randomness: of the search, and of the rows drawn for it.
    callback : callable, default=None
        Called at every step with a dict: `phase`, `source_sets` fitted, `designs` seen, size of
        `front`, `hypervolume`, share `done`, `seconds`, `seconds_left`. An exception raised by it
        stops the search.
    verbose : int, default=0
        1 shows progress, as a bar if rich is installed; 2 reports every step.

    Attributes
    ----------
    front_ : ParetoFront
        The non-dominated candidates, as measured on the rows that they were selected on.
    best_candidate_ : Candidate
        The chosen candidate.
    best_cascade_, best_estimator_ : CascadeClassifier
        Its fitted cascade.
    all_sources_ : Candidate
        All sources bought at once and answering every row, on the same rows and folds.
    history_, search_, costs_, classes_, n_splits_ : list, Search, Costs, ndarray, int
        The progress of the search and what was run, prices, labels and number of folds.
    found_ : FittedSearch
        The whole result, frozen. The attributes above are parts of it and of the choice;
        `n_features_in_` and `feature_names_in_` are as in scikit-learn.

    Examples
    --------
    >>> from emsco import CascadeSearchCV
    >>> from emsco.datasets import make_costly_classification
    >>> X, y, costs = make_costly_classification(2000, n_sources=4, random_state=0)
    >>> search = CascadeSearchCV(costs=costs, random_state=0).fit(X[:1000], y[:1000])
    >>> print(search.summary())  # doctest: +SKIP
    >>> search = search.choose(min_accuracy=0.85, min_coverage=0.7)
    >>> chosen = search.best_candidate_.evaluation
    >>> bool(chosen.accuracy >= 0.85 and chosen.coverage >= 0.7)
    True
    """

    _parameter_constraints = steps.PARAMETERS

    def __init__(
        self,
        estimator: Any = None,
        *,
        costs: Any = None,
        search: Any = None,
        threshold: StageThreshold | list[StageThreshold] | str = AUTO,
        label_weights: Mapping[Any, float] | str | None = None,
        max_stages: int = 4,
        allow_unused: bool = True,
        max_missed: Mapping[Any, float] | None = None,
        max_rejected: Mapping[Any, float] | None = None,
        cv: Any = 5,
        max_rows: int | None = None,
        select: Mapping[str, Any] | Callable[[ParetoFront], Candidate] | None = None,
        luck: bool = True,
        refit: bool | str = True,
        guard: Guard | None = None,
        final: Any = None,
        target: str = "labels",
        checkpoint: str | PathLike[str] | None = None,
        n_jobs: int | None = None,
        engine: Any = None,
        random_state: Any = None,
        callback: Callable[[dict[str, Any]], object] | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.costs = costs
        self.search = search
        self.threshold = threshold
        self.label_weights = label_weights
        self.max_stages = max_stages
        self.allow_unused = allow_unused
        self.max_missed = max_missed
        self.max_rejected = max_rejected
        self.cv = cv
        self.max_rows = max_rows
        self.select = select
        self.luck = luck
        self.refit = refit
        self.guard = guard
        self.final = final
        self.target = target
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.engine = engine
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: Any,
        y: ArrayLike | str | None = None,
        *,
        stake: ArrayLike | str | None = None,
        **params: Any,
    ) -> Self:
        """Search, choose a candidate, and fit its cascade.

        Parameters
        ----------
        X : numpy array, pandas or polars frame of shape (n_rows, n_features), or Arrow data set
            The rows for the search and the fits. A `pyarrow.dataset.Dataset` may be larger than
            memory: `max_rows` of its rows are searched on, drawn with classes in proportion, and
            the chosen stages are fitted to all rows, block by block, by the default classifier.
        y : array of shape (n_rows,), or str
            Their labels, of at least two classes; ignored if the target is agreement. Of a data
            set, labels, weights and groups are given by the names of their columns.
        stake : array of shape (n_rows,), or str, default=None
            What is at stake on each row, such as an amount of money, or the column of X that holds
            it, which is a feature only if `costs` price it. Accuracy, coverage, missed, rejected
            and precision are then shares of the stake, in the search and in every figure; the cost
            is the mean per row, as it is paid by row. None: shares of rows.
        **params : dict
            Passed on as in `GridSearchCV`: `groups` to the splitter, everything else, such as
            `sample_weight`, to the `fit` of the stages; with metadata routing enabled, to the
            objects that request it. `stake` counts, `sample_weight` fits: weights change what is
            fitted, and no figure.
        """
        steps.check_parameters(self)
        checkpoint, seeds = steps.open_checkpoint(self)
        with Progress(self.callback, self.verbose) as progress:
            progress.phase("read")
            data = steps.read_input(self, X, y, stake, params, seeds)
            spec = pose(self, data)
            self.found_ = run_search(self, data, spec, seeds, checkpoint, progress)
            self.__dict__.pop("choice_", None)  # it was chosen from another front
            progress.phase("refit")
            self.found_, self.choice_ = choose(self, self.found_, self.select, self.refit)
        return self

    def choose(
        self, candidate: Candidate | None = None, *, refit: bool | str | None = None, **bounds: Any
    ) -> Self:
        """Choose another candidate; only source sets not yet fitted are fitted.

        Parameters
        ----------
        candidate : Candidate, default=None
            The candidate to choose. None: choose by bounds.
        refit : bool or "stages", default=None
            Whether to fit on all rows; None: as set for the search.
        **bounds : dict
            Keywords of `ParetoFront.select`. Without any, or with `caution` alone, the rule of the
            search is used, with that caution.
        """
        self.found_, self.choice_ = choose_again(self, candidate, refit, bounds)
        return self

    def cascade(self, candidate: Candidate) -> CascadeClassifier:
        """Build the cascade of any candidate, fitted on all rows given to `fit`.

        With `refit=False` and a one-split `cv`, it is fitted on the training rows of that split.
        """
        check_is_fitted(self, "front_")
        return self.found_.cascade(candidate, self.refit, self.guard)

    def decide(self, X: Any, *, factors: bool = False) -> Decisions:
        """Decide rows with the chosen cascade: buy stages, exit when confident, or reject.

        `factors` asks for what each feature contributed to each decision, `Decision.factors`.
        """
        return chosen_cascade(self).decide(X, factors=factors)

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict a label for every row, by the last stage bought, even if it rejects the row."""
        return chosen_cascade(self, X).predict(X)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probabilities of the last stage bought, one column per class."""
        return chosen_cascade(self, X).predict_proba(X)

    def score(
        self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the share of all rows that `predict` labels right, rejected ones included.

        As `scoring` of `GridSearchCV`, take a scorer that accounts for rejection: `coverage`,
        `accepted_accuracy`, `aurc`, `missed`, `negative(expected_loss)` of `emsco.metrics`. If the
        target is agreement, `y` is ignored as in `fit`, because scikit-learn passes it on.
        """
        truth = self.truth(X, y if self.needs_labels else None)
        return float(accuracy_score(truth, self.predict(X), sample_weight=sample_weight))

    @property
    def needs_labels(self) -> bool:
        """Whether labels define what is right; otherwise the final model's answers do."""
        return self.target != "agreement"

    def truth(self, X: Any, y: ArrayLike | None = None) -> NDArray[Any]:
        """Return the truth for each row: its label, or the final model's answer.

        Parameters
        ----------
        X : numpy array, pandas or polars frame
            The rows.
        y : array, default=None
            Their labels. If the target is agreement, `y` must be None.
        """
        return truth_of(self, X, y)

    def summary(
        self,
        X: Any = None,
        y: ArrayLike | None = None,
        *,
        stake: ArrayLike | str | None = None,
        population: Mapping[Any, float] | None = None,
    ) -> str:
        """Describe in plain words what was chosen and why, its cost, and its rejects and misses.

        Parameters
        ----------
        X : numpy array, pandas or polars frame, default=None
            Fresh rows. The summary then also describes the chosen cascade on these rows, and the
            figures that differ by more than two standard errors. For certificates, these rows then
            count as having shown the whole front, because another choice may follow from them.
        y : array, default=None
            The labels of X; None if the target is agreement.
        stake : array or str, default=None
            What is at stake on the fresh rows, as in `fit`; needed if `fit` was given stakes.
        population : mapping of label to float, default=None
            The shares of classes among future rows, if X has other shares; the figures on fresh
            rows are weighted to them. The front and the choice are not weighted, and certificates
            take no population.
        """
        return describe(self, X, y, population, stake)

    def score_front(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        stake: ArrayLike | str | None = None,
        population: Mapping[Any, float] | None = None,
    ) -> ScoredFront:
        """Evaluate every candidate of the front on fresh rows.

        Selected figures look better than they are; the table shows both side by side, with the
        optimism between them. Each source set is fitted once, however many candidates use it.

        Parameters
        ----------
        X : numpy array, pandas or polars frame
            The fresh rows.
        y : array, default=None
            Their labels; None if the target is agreement. A label that `fit` did not see is counted
            as a class of its own, of which no row is right, and is warned of.
        stake : array or str, default=None
            What is at stake on the fresh rows, as in `fit`; needed if `fit` was given stakes.
        population : mapping of label to float, default=None
            The shares of classes among future rows, if X has other shares, as in `evaluate`. Fresh
            figures are weighted to them, so the optimism then also includes the effect of other
            shares. Selected figures are not weighted, and certificates take no population.
        """
        return score_candidates(self, X, y, population, stake)

    def all_sources_at(self, coverage: float) -> Evaluation:
        """Evaluate all sources at once, accepting only the given share of most confident rows.

        With stakes, it is the share of the stake that is nearest to the given one. The rows and
        folds are those of the front, so that a candidate can be compared with what rejecting as
        many rows would give by itself.
        """
        check_is_fitted(self, "front_")
        return self.found_.reference.at(coverage)

    found_: FittedSearch
    choice_: Choice
    front_: ParetoFront = part_of_result("front", "The non-dominated candidates.")
    all_sources_: Candidate = part_of_result(
        "all_sources", "All sources at once answering every row."
    )
    history_: list[dict[str, Any]] = part_of_result("history", "The progress of the search.")
    search_: Search = part_of_result("strategy", "The search that was run.")
    costs_: Costs = part_of_result("costs", "The prices.")
    classes_: NDArray[Any] = part_of_result("classes", "The labels.")
    n_splits_: int = part_of_result("n_splits", "The number of folds.")
    fitted_rows_: FittedRows = part_of_result("rows", "Hashes of the rows seen in `fit`.")

    @property
    def best_candidate_(self) -> Candidate:
        """The chosen candidate."""
        if "choice_" not in self.__dict__:
            raise AttributeError("This attribute is available only after a choice; call choose().")
        return self.choice_.candidate

    @property
    def best_cascade_(self) -> CascadeClassifier:
        """The cascade of the chosen candidate."""
        cascade = self.choice_.cascade if hasattr(self, "best_candidate_") else None
        if cascade is None:
            raise AttributeError("best_cascade_ is available only after a refit.")
        return cascade

    best_estimator_ = best_cascade_  # scikit-learn's name for it

    def get_metadata_routing(self) -> MetadataRouter:
        """Route the parameters of `fit` to the search itself, its estimators and the splitter."""
        fit, split = (MethodMapping().add(caller="fit", callee=c) for c in ("fit", "split"))
        own = MetadataRequest(owner=type(self).__name__)  # older versions copy the owner
        for name, alias in self._get_metadata_request().fit.requests.items():  # `stake`
            own.fit.add_request(param=name, alias=alias)
        router = MetadataRouter(owner=self).add_self_request(own)
        router.add(estimator=first_learner(self.estimator).routed(), method_mapping=fit)
        return router.add(splitter=check_cv(self.cv, classifier=True), method_mapping=split)

    def __sklearn_tags__(self) -> Tags:
        return first_learner(self.estimator).tags(super().__sklearn_tags__())
