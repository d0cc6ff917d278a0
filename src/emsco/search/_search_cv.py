"""The estimator that most users need: a table with prices in, a chosen cascade out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from numbers import Integral, Real
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.model_selection import check_cv
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing

from emsco.cascade import Guard
from emsco.core.costs import Costs
from emsco.core.front import Candidate, ParetoFront
from emsco.core.labels import read_groups
from emsco.core.selection import check_names
from emsco.core.threshold import StageThreshold
from emsco.engine import resolve_engine
from emsco.exceptions import SearchError
from emsco.learners import learner_of
from emsco.learners.final_stage import check_final, predict_labels
from emsco.learners.fit_input import read_given
from emsco.learners.folds import Fold
from emsco.rows.columns import is_dataset
from emsco.search._calibration import warn_overconfident
from emsco.search._choice_mixin import ChoosingMixin
from emsco.search._folds import make_folds
from emsco.search._luck import measure_luck, parts_of
from emsco.search._outcome_folds import compared
from emsco.search._problem_spec import ProblemSpec, SearchInput
from emsco.search._progress import Progress
from emsco.search._refit_stages import STAGES, check_refit
from emsco.search._run_id import describe_run
from emsco.search._run_search import run_search
from emsco.search._thresholds import AUTO
from emsco.search._time_estimate import warn_slow
from emsco.search.checkpoint import Checkpoint
from emsco.search.default_rule import AllSources
from emsco.search.fitted_search import FittedSearch
from emsco.search.strategies.exhaustive import Exhaustive, count_sets
from emsco.search.strategies.hybrid import default_search

if TYPE_CHECKING:  # it imports pyarrow
    from emsco.search._subsample import Subsample


class CascadeSearchCV(ChoosingMixin, ClassifierMixin, BaseEstimator):
    """Search which sources to buy in which order, choose one cascade, and decide with it.

    Every design is evaluated on rows that its classifiers were not fitted on: the test folds of
    `cv`. The result is the whole trade-off between accuracy on accepted rows, coverage and cost
    (`front_`), and one point of it, chosen by `select` and fitted on all rows (`best_cascade_`).

    Parameters
    ----------
    estimator : classifier with predict_proba, default=None
        The classifier of a stage. None: logistic regression on encoded columns, which takes
        numbers, text, categories, booleans and missing values as they are.
    costs : Costs, mapping, sequence or path of a TOML file, default=None
        The prices; a mapping or a sequence prices features, by name or position. None: 1 each.
    search : object with run(problem, rng, callback), default=None
        `Exhaustive()`, `EMSCO()`, `LocalSearch()` or `Hybrid()`. None: exhaustive search if there
        are few enough designs, otherwise local search, with at most 1,024 source sets if these are
        fitted one by one. `search_` is the search that was used.
    threshold : float, mapping, list of those, or "auto", default="auto"
        The confidence needed to accept. A list holds alternatives, which share the same fits; each
        candidate has its own. "auto" searches a grid, and then separate thresholds per stage.
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
        The maximum number of rows for the search, drawn with stratification. None: all rows, but
        200,000 of an Arrow data set. The refit always uses all rows.
    select : mapping or callable, default=None
        How to choose: keywords of `ParetoFront.select`, or a function that takes the front and
        returns a candidate. None: the cheapest candidate with a coverage of at least 0.8 that
        rejects no class more than twice as often as all rows, and whose accuracy and recall of
        every class, on accepted rows, exceed those of buying all sources at once and answering
        every row, by a margin (see `caution` of `ParetoFront.select`). If there is no such
        candidate, all sources at once are chosen, with a warning.
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
    history_ : list of dict
        The progress of the search.
    search_ : Search
        The search that was run.
    costs_, classes_, n_splits_ : Costs, ndarray, int
        Prices, labels and number of folds.
    found_ : FittedSearch
        The whole result, frozen. The attributes above are parts of it and of the choice.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The columns seen in `fit`, as in scikit-learn.

    Examples
    --------
    >>> from emsco import CascadeSearchCV
    >>> from emsco.datasets import make_costly_classification
    >>> X, y, costs = make_costly_classification(2000, n_sources=4, random_state=0)
    >>> search = CascadeSearchCV(costs=costs, random_state=0).fit(X[:1000], y[:1000])
    >>> print(search.summary())  # doctest: +SKIP
    >>> search.choose(min_accuracy=0.9).best_candidate_.evaluation.accuracy >= 0.9
    True
    """

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012  # scikit-learn's own shape
        "estimator": [HasMethods(["fit", "predict_proba"]), None],
        "costs": [Costs, Mapping, "array-like", str, PathLike, None],
        "search": [HasMethods(["run"]), None],
        "threshold": [Real, Mapping, list, str],
        "max_stages": [Interval(Integral, 1, None, closed="left")],
        "allow_unused": ["boolean"],
        "max_missed": [Mapping, None],
        "max_rejected": [Mapping, None],
        "cv": ["cv_object"],
        "max_rows": [Interval(Integral, 2, None, closed="left"), None],
        "select": [Mapping, callable, None],
        "luck": ["boolean"],
        "refit": ["boolean", StrOptions({STAGES})],
        "guard": [HasMethods(["fit", "reasons"]), None],
        "final": [HasMethods(["predict"]), None],
        "target": [StrOptions({"labels", "agreement"})],
        "checkpoint": [str, PathLike, None],
        "n_jobs": [Integral, None],
        "engine": [object],  # checked by `resolve_engine`
        "random_state": ["random_state"],
        "callback": [callable, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        costs: Any = None,
        search: Any = None,
        threshold: StageThreshold | list[StageThreshold] | str = AUTO,
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
    def fit(self, X: Any, y: ArrayLike | str | None = None, **params: Any) -> Self:
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
        **params : dict
            Passed on as in `GridSearchCV`: `groups` to the splitter, everything else, such as
            `sample_weight`, to the `fit` of the stages; with metadata routing enabled, to the
            objects that request it. Weights are used in the fits; the search counts rows.
        """
        self._check()
        checkpoint = None if self.checkpoint is None else Checkpoint(self.checkpoint)
        random_state = checkpoint.seeded(self.random_state) if checkpoint else self.random_state
        seeds = check_random_state(random_state)
        drawn = None
        if is_dataset(X):
            drawn = self._draw(X, y, params, seeds)
            X, y, params = drawn.X, drawn.y, drawn.params
        fit_params, split_params = self._routed(params)
        with Progress(self.callback, self.verbose) as progress:
            progress.phase("read")
            data = self._read(X, y, fit_params)._replace(groups=params.get("groups"))
            if drawn is not None:
                data = data._replace(all_rows=drawn.training(data.rows.names))
            training = data.training
            folds = self._fold(data, split_params, seeds)
            posing = self._pose(data, folds)
            problem = posing.problem(training)
            rng = np.random.default_rng(seeds.randint(2**31))
            strategy = default_search(problem) if self.search is None else self.search
            warn_slow(problem, strategy)
            progress.begin_fits(count_sets(problem))
            problem.table.watch(progress.fitted)
            keeping: AbstractContextManager[int] = nullcontext(0)
            if checkpoint is not None:
                run = describe_run(training, data.answers, folds, problem, strategy)
                keeping = checkpoint.keeping(problem.table, run)
            with keeping as n_past:
                if n_past:
                    progress.goes_on(n_past)
                result = run_search(problem, strategy, rng, progress, self.threshold == AUTO)
                reference = AllSources.of(problem)
                result = result._replace(front=compared(problem, result.front))
                warn_overconfident(training.learner, problem)
            walked = isinstance(strategy, Exhaustive)
            n_designs = None if walked else max(e.get("designs", 0) for e in [{}, *result.history])
            luck = None
            if self.luck:
                progress.phase("luck")
                parts = parts_of(folds, training.labels, split_params.get("groups"))
                luck = measure_luck(problem, parts, n_designs, by_stage=self.threshold == AUTO)
            self.__dict__.pop("choice_", None)  # it was chosen from another front
            self.found_ = FittedSearch.of(
                result, reference, data, posing, strategy, self.final, luck
            )
            progress.phase("refit")
            self._choose(self.select, self.refit)
        return self

    def _check(self) -> None:
        """Refuse parameters that contradict each other, before anything takes long."""
        if isinstance(self.select, Mapping):
            check_names(self.select)
        check_refit(self.refit, learner_of(self.estimator))
        if self.final is not None:
            check_final(self.final, self.guard)
        elif not self.needs_labels:
            raise SearchError("target='agreement' needs a final model; give final=model.")

    def _draw(self, dataset: Any, y: Any, params: dict[str, Any], seeds: Any) -> Subsample:
        """Draw the rows to search on from a data set."""
        from emsco.search._subsample import draw

        seed, engine = seeds.randint(2**31), resolve_engine(self.engine, self.n_jobs)
        learner = learner_of(self.estimator)
        return draw(
            dataset, y, params, self.max_rows, seed, learner, self.guard, self.final, engine
        )

    def _read(self, X: Any, y: ArrayLike | str | None, params: dict[str, Any]) -> SearchInput:
        """Read the rows, and get the answers of a final model to them."""
        answers = None if self.final is None else predict_labels(self.final, X, len(X))
        truth = y if self.needs_labels else answers
        layout, rows, costs, training = read_given(
            self,
            X,
            truth,
            learner=learner_of(self.estimator),
            costs=self.costs,
            final=self.final,
            params=params,
        )
        for name in rows.names:
            training.values(name)  # before any fit: infinity raises an error
        return SearchInput(layout, rows, costs, training, answers)

    def _fold(self, data: SearchInput, split_params: dict[str, Any], seeds: Any) -> list[Fold]:
        """Return the folds: the rows to fit on, and the rows to evaluate designs on."""
        labels = data.training.labels
        splitter = check_cv(self.cv, labels, classifier=True)
        if split_params.get("groups") is not None:
            split_params = {
                **split_params,
                "groups": read_groups(split_params["groups"], len(labels)),
            }
        splits = splitter.split(data.rows.table, labels, **split_params)
        return make_folds(splits, labels, self.max_rows, seeds)

    def _pose(self, data: SearchInput, folds: list[Fold]) -> ProblemSpec:
        """Collect everything that defines the problem, except what fits."""
        return ProblemSpec(
            costs=data.costs,
            folds=folds,
            answers=data.answers,
            threshold=self.threshold,
            max_stages=self.max_stages,
            allow_unused=self.allow_unused,
            max_missed=dict(self.max_missed or {}),
            max_rejected=dict(self.max_rejected or {}),
            needs_labels=self.needs_labels,
            engine=self.engine,
            n_jobs=self.n_jobs,
        )

    def get_metadata_routing(self) -> MetadataRouter:
        """Route the parameters of `fit` to the stages' estimators and to the splitter."""
        return (
            MetadataRouter(owner=self)
            .add(
                estimator=learner_of(self.estimator).routed(),
                method_mapping=MethodMapping().add(caller="fit", callee="fit"),
            )
            .add(
                splitter=check_cv(self.cv, classifier=True),
                method_mapping=MethodMapping().add(caller="fit", callee="split"),
            )
        )

    def __sklearn_tags__(self) -> Tags:
        return learner_of(self.estimator).tags(super().__sklearn_tags__())

    def _routed(self, params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Divide what `fit` was given between the stages and the splitter."""
        present = {name: value for name, value in params.items() if value is not None}
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, "fit", **present)
            return dict(routed.estimator.fit), dict(routed.splitter.split)
        groups = present.pop("groups", None)
        return present, {"groups": groups}
