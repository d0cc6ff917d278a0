"""The estimator that most users meet: a table with prices in, a chosen cascade out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from numbers import Integral, Real
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import check_cv
from sklearn.utils import Tags, check_random_state, column_or_1d
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_is_fitted, validate_data

from emsco._columns import (
    Columns,
    container_of,
    known_columns,
    pick_columns,
    plain,
    read_columns,
    refuse_invalid,
    unmask,
)
from emsco._estimator import check_final, without_answers
from emsco._fingerprint import digest_of
from emsco._hashes import hash_keys
from emsco._kept import Kept
from emsco._ledger import Entry, ledger_of
from emsco._rows import FittedRows
from emsco._threshold import StageThreshold
from emsco._training import Training, read_rows, routed_estimator, tags_for
from emsco.cascade import CascadeClassifier, Guard
from emsco.costs import Costs, resolve_costs
from emsco.decisions import Decisions
from emsco.design import StageDesign
from emsco.evaluation import Evaluation, evaluate
from emsco.exceptions import (
    ClassesError,
    SearchError,
    SelectionError,
    nearest,
)
from emsco.front import Candidate, ParetoFront
from emsco.scored import ScoredCandidate, ScoredFront
from emsco.search._calibration import warn_overconfident
from emsco.search._checkpoint import Checkpoint
from emsco.search._choice import AllSources, check_bounds, select_as_asked
from emsco.search._exhaustive import Exhaustive, count_sets
from emsco.search._expected import warn_slow
from emsco.search._fitting import Fold
from emsco.search._folds import make_folds
from emsco.search._hybrid import default_search
from emsco.search._problem import Problem
from emsco.search._progress import Progress
from emsco.search._run import describe_run
from emsco.search._separate import STAGES, Shown, check_refit, most_alike, thresholds_anew
from emsco.search._summary import measured_on, told_choice
from emsco.search._tables import evaluate_afresh, make_table
from emsco.search._thresholds import AUTO, alternatives, thresholds_by_stage


class CascadeSearchCV(ClassifierMixin, BaseEstimator):
    """Search which sources to buy in which order, choose one cascade, and decide by it.

    Every design is evaluated on rows that its classifiers were not fitted on: the test folds of
    `cv`. The result is the whole trade-off between accuracy on what is accepted, coverage and cost
    (`front_`), and one point of it, chosen by `select` and fitted on all rows (`best_cascade_`).

    Parameters
    ----------
    estimator : classifier with predict_proba, default=None
        The classifier of a stage. None: logistic regression on encoded columns, which takes
        numbers, text, categories, booleans and missing values as they are.
    costs : Costs, mapping, sequence or path of a TOML file, default=None
        The prices. A mapping or a sequence prices features, by name or by position. None: every
        feature costs 1.
    search : object with run(problem, rng, callback), default=None
        `Exhaustive()`, `EMSCO()`, `LocalSearch()` or `Hybrid()`. None: every design where they are
        few enough, else local search, with at most 1,024 source sets where these are fitted one by
        one. `search_` says which.
    threshold : float, mapping, list of those, or "auto", default="auto"
        The confidence needed to accept. A list holds alternatives, all from the same fits, and each
        candidate carries its own. "auto" searches a grid, then lets every stage have its own.
    max_stages : int, default=4
        The most stages; never more than there are sources.
    allow_unused : bool, default=True
        Whether a design may leave sources out altogether.
    max_missed : mapping of label to float, default=None
        By true class, the largest share that may be accepted under another label; a design beyond
        it does not count.
    cv : int, splitter or iterable, default=5
        As in scikit-learn. A row that no fold tests does not count, one tested twice counts twice.
    max_rows : int, default=None
        How many rows the search may use, drawn with classes in proportion. None: all. The refit
        takes all rows in any case.
    select : mapping or callable, default=None
        What to choose: keywords of `ParetoFront.select`, or a function of the front that gives a
        candidate. None: the cheapest candidate with coverage of at least 0.8 whose accuracy and
        whose every class's recall, on what it accepts, are not below those of all sources bought at
        once and answering every row; where there is none, that itself, with a warning.
    refit : bool or "stages", default=True
        Whether the chosen stages are fitted on all rows. False: with a one-split `cv` the cascade
        is the very one that was evaluated; with several there is none until `choose(refit=True)`.
        "stages", with a `MaskedClassifier`: the chosen stages are fitted each by itself, evaluated
        on the same folds, and their thresholds chosen anew. All figures are then of these stages:
        `front_` has the chosen design at each threshold; `choose(refit=True)` goes back.
    guard : object with fit(columns) and reasons(columns), default=None
        As in `CascadeClassifier`.
    final : fitted model with predict, default=None
        The model that is there already, as the last stage: it is not changed, sees all sources, and
        answers every row that gets there, so that coverage is 1. Designs then use every source.
    target : {"labels", "agreement"}, default="labels"
        What is right: the label of `y`, or with a final model whatever that answers; then there is
        no `y`, and every logged row can be fitted on. `fit` and `score` ignore one, because
        scikit-learn hands it on; everything else refuses it. By default such a search chooses the
        cheapest candidate that agrees on 99% of the rows.
    checkpoint : str or path, default=None
        A file that keeps what is fitted, as the search goes. A run that was interrupted, even
        killed, and is fitted again with the same data and parameters goes on from there and ends
        in the same front. It stays until you delete it.
    n_jobs : int, default=None
        How many workers fit; None means 1 and -1 one a core. They change nothing but the time.
    engine : Engine, default=None
        What runs the fits. None: workers on this machine.
    random_state : int, RandomState or None, default=None
        The source of all randomness: of the search, and of the rows drawn for it.
    callback : callable, default=None
        Given a dict at every step: `phase`, `source_sets` fitted, `designs` seen, size of the
        `front`, its `hypervolume`, share `done`, `seconds` and `seconds_left`. What it raises stops
        the search.
    verbose : int, default=0
        1 shows progress, as a bar where rich is installed; 2 tells every step.

    Attributes
    ----------
    front_ : ParetoFront
        The candidates that no other beats, as measured on the rows that they were selected on.
    best_candidate_ : Candidate
        The one chosen.
    best_cascade_, best_estimator_ : CascadeClassifier
        The cascade of it, fitted.
    all_sources_ : Candidate
        All sources at once answering every row, on the same rows and folds.
    history_ : list of dict
        How the search went.
    search_ : Search
        The search that was run.
    costs_, classes_, n_splits_ : Costs, ndarray, int
        Prices, labels and number of folds.
    n_features_in_, feature_names_in_ : int, ndarray of str
        What `fit` saw, as in scikit-learn.

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
        "cv": ["cv_object"],
        "max_rows": [Interval(Integral, 2, None, closed="left"), None],
        "select": [Mapping, callable, None],
        "refit": ["boolean", StrOptions({STAGES})],
        "guard": [HasMethods(["fit", "reasons"]), None],
        "final": [HasMethods(["predict"]), None],
        "target": [StrOptions({"labels", "agreement"})],
        "checkpoint": [str, PathLike, None],
        "n_jobs": [Integral, None],
        "engine": [HasMethods(["map"]), None],
        "random_state": ["random_state"],
        "callback": [callable, None],
        "verbose": ["verbose"],
    }

    best_cascade_: CascadeClassifier
    _training: Training | Kept  # where the search was loaded from a file, its rows are gone
    _evaluated: Training | Kept | None
    _found: Shown | None = None  # by the estimator given; in files there is what was shown last

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
        cv: Any = 5,
        max_rows: int | None = None,
        select: Mapping[str, Any] | Callable[[ParetoFront], Candidate] | None = None,
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
        self.cv = cv
        self.max_rows = max_rows
        self.select = select
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
    def fit(self, X: Any, y: ArrayLike | None = None, **params: Any) -> Self:
        """Search, choose, and fit what was chosen.

        Parameters
        ----------
        X : numpy array, pandas or polars frame of shape (n_rows, n_features)
            The rows to search and to fit on.
        y : array of shape (n_rows,)
            Their labels, of at least two classes; ignored where the target is agreement.
        **params : dict
            Handed on as `GridSearchCV` does: `groups` to the splitter, everything else, such as
            `sample_weight`, to the `fit` of the stages; with metadata routing enabled, to whoever
            asked for it. Weights count in the fits; the search counts rows.
        """
        if isinstance(self.select, Mapping):
            check_bounds(self.select)  # before the search, which may take long
        check_refit(self.refit, self.estimator)
        self._check_final()
        answers = None if self.final is None else np.asarray(self.final.predict(X))
        X = without_answers(self.final, X)
        columns, labels = read_rows(self, X, y if self.needs_labels else answers)
        costs = resolve_costs(self.costs, list(columns))
        fit_params, split_params = self._routed(params)
        sources = [costs.columns(name) for name in costs.names]
        training = Training(
            self.estimator, container_of(X), columns, labels, fit_params, sources, final=self.final
        )
        for name in columns:
            training.values(name)  # before any fit: infinity raises
        checkpoint = None if self.checkpoint is None else Checkpoint(self.checkpoint)
        random_state = self.random_state
        seeds = check_random_state(checkpoint.seeded(random_state) if checkpoint else random_state)
        splitter = check_cv(self.cv, labels, classifier=True)
        splits = splitter.split(X, labels, **split_params)
        folds = make_folds(splits, labels, self.max_rows, seeds)
        problem = self._problem(training, costs, folds, answers)
        rng = np.random.default_rng(seeds.randint(2**31))
        self.classes_, self.costs_, self.n_splits_ = training.classes, costs, len(folds)
        self.search_ = default_search(problem) if self.search is None else self.search
        warn_slow(problem, self.search_)
        keeping: AbstractContextManager[int] = nullcontext(0)
        with Progress(self.callback, self.verbose, total_sets=count_sets(problem)) as progress:
            problem.table.on_fit = progress.fitted
            if checkpoint is not None:
                run = describe_run(training, answers, folds, problem, self.search_)
                keeping = checkpoint.keeping(problem.table, run)
            with keeping as n_past:
                if n_past:
                    progress.goes_on(n_past)
                front = self._search(problem, rng, progress)
            n_rows = len(np.unique(np.concatenate([fold.test for fold in folds])))
            self._n_selection_rows = n_rows
            for earlier in ("best_candidate_", "best_cascade_"):
                if hasattr(self, earlier):
                    delattr(self, earlier)  # it was chosen from another front
            told = measured_on(n_rows, len(folds), needs_labels=self.needs_labels)
            self.front_ = ParetoFront(front, costs, told)
            one_split = len(folds) == 1
            self._training, self._tested = training, (folds, answers)
            self._fitted_rows = FittedRows.of(X, columns, _used_by(front, costs, list(columns)))
            self._evaluated = training.take(folds[0].train) if one_split else None
            self._found = self._shown
            progress.phase("refit")
            self._choose(self.select, self.refit)
        return self

    def _search(
        self, problem: Problem, rng: np.random.Generator, progress: Progress
    ) -> ParetoFront:
        """Find the front, and all that needs the table besides."""
        result = self.search_.run(problem, rng, progress.searched)
        front = result.front
        if isinstance(self.threshold, str) and problem.max_stages > 1:
            progress.phase("thresholds")
            # Where every design was walked, only thresholds are left to be found.
            walked = isinstance(self.search_, Exhaustive)
            front = thresholds_by_stage(problem, front, rng, designs=not walked)
            hypervolume = front.hypervolume()
            progress.searched({"front": len(front), "hypervolume": hypervolume, "done": 1.0})
        self.history_ = result.history
        self._reference = AllSources.of(problem)
        self.all_sources_ = self._reference.answering()
        warn_overconfident(self.estimator, problem)
        return front

    def all_sources_at(self, coverage: float) -> Evaluation:
        """Evaluate all sources at once with a reject option: the surest rows, so many, accepted.

        On the same rows and folds as the front, so that a candidate can be held against what its
        coverage alone would give.
        """
        check_is_fitted(self, "front_")
        if not 0 <= coverage <= 1:
            raise SelectionError(f"`coverage` must be from 0 to 1, got {coverage}.")
        return self._reference.at(coverage)

    def choose(
        self, candidate: Candidate | None = None, *, refit: bool | str | None = None, **bounds: Any
    ) -> Self:
        """Choose anew; only source sets not yet fitted are fitted.

        Parameters
        ----------
        candidate : Candidate, default=None
            The one to choose. None: by bounds.
        refit : bool or "stages", default=None
            Whether to fit on all rows; None: as the search was told.
        **bounds : dict
            Keywords of `ParetoFront.select`; none of them: as the search was told.
        """
        check_is_fitted(self, "front_")
        if candidate is not None and bounds:
            raise SelectionError("Give a candidate or bounds to choose one by, not both.")
        check_bounds(bounds)
        refit = self.refit if refit is None else refit
        check_refit(refit, self.estimator)
        self._choose(bounds or self.select if candidate is None else candidate, refit)
        return self

    def cascade(self, candidate: Candidate) -> CascadeClassifier:
        """Build the cascade of any candidate, fitted on all rows given to `fit`.

        With `refit=False` and a one-split `cv`, on the rows that it was evaluated by instead.
        """
        check_is_fitted(self, "front_")
        return self._cascade(candidate, self.refit)

    def decide(self, X: Any) -> Decisions:
        """Decide rows by the chosen cascade: buy stage by stage, exit when confident, or reject."""
        return self._chosen().decide(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Give a label for every row: the last stage bought decides, also where it rejects."""
        return self._chosen(X).predict(X)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Give the probabilities of the last stage bought, a column a class."""
        return self._chosen(X).predict_proba(X)

    @property
    def needs_labels(self) -> bool:
        """Whether labels say what is right; else the final model's answers do."""
        return self.target != "agreement"

    def truth(self, X: Any, y: ArrayLike | None = None) -> NDArray[Any]:
        """Give what is right for each row: its label, or what the final model answers.

        Parameters
        ----------
        X : numpy array, pandas or polars frame
            The rows.
        y : array, default=None
            Their labels. Where the target is agreement there are none, and some are refused.
        """
        if self.needs_labels and y is None:
            raise ClassesError("`y` is needed: the labels of X say what is right.")
        if not self.needs_labels and y is not None:
            raise ClassesError(
                "A search for agreement takes no `y`: right is what the final model answers."
            )
        right: NDArray[Any] = column_or_1d(
            y if self.needs_labels else self.final.predict(X), warn=True
        )
        return right

    def score(
        self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Give the share of rows that `predict` labels right.

        Where the target is agreement, `y` is ignored as in `fit`, because scikit-learn hands it on.
        """
        truth = self.truth(X, y if self.needs_labels else None)
        return float(super().score(X, truth, sample_weight))

    @property
    def best_estimator_(self) -> CascadeClassifier:
        """The chosen cascade, under scikit-learn's name for it."""
        if not hasattr(self, "best_cascade_"):
            raise AttributeError("best_estimator_ comes with a fitted cascade.")
        return self.best_cascade_

    def score_front(self, X: Any, y: ArrayLike | None = None) -> ScoredFront:
        """Hold every candidate of the front against fresh rows.

        What was selected looks better than it is; the table puts both figures side by side, with
        the optimism between them. Each source set is fitted once, whatever the candidates. `y`
        holds the labels of X; where the target is agreement there are none.
        """
        check_is_fitted(self, "front_")
        truth = self.truth(X, y)
        unknown = set(np.unique(truth).tolist()) - set(self.classes_.tolist())
        if unknown:
            said = "`y` holds" if self.needs_labels else "The final model answers"
            raise ClassesError(f"{said} {min(unknown, key=str)!r}, which `fit` did not see.")
        self._note_shown(X)
        fresh = self._fresh_evaluations(X, truth) if len(self.front_) else []
        scored = [ScoredCandidate(c, e) for c, e in zip(self.front_, fresh, strict=True)]
        return ScoredFront(
            scored, f"{self.front_.measured_on} Fresh figures on {len(truth):,} other rows."
        )

    def summary(self) -> str:
        """Say in plain words what was chosen, what it pays, what it rejects and whom it misses."""
        self._check_is_chosen()
        return told_choice(
            self.best_candidate_, self.all_sources_, self.front_, self.costs_, self.classes_
        )

    def get_metadata_routing(self) -> MetadataRouter:
        """Route the parameters of `fit` to the stages' estimators and to the splitter."""
        return (
            MetadataRouter(owner=self)
            .add(
                estimator=routed_estimator(self.estimator),
                method_mapping=MethodMapping().add(caller="fit", callee="fit"),
            )
            .add(
                splitter=check_cv(self.cv, classifier=True),
                method_mapping=MethodMapping().add(caller="fit", callee="split"),
            )
        )

    def __sklearn_tags__(self) -> Tags:
        return tags_for(self.estimator, super().__sklearn_tags__())

    def _routed(self, params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Divide what `fit` was given between the stages and the splitter."""
        given = {name: value for name, value in params.items() if value is not None}
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, "fit", **given)
            return dict(routed.estimator.fit), dict(routed.splitter.split)
        groups = given.pop("groups", None)
        return given, {"groups": groups}

    def _check_final(self) -> None:
        if self.final is None:
            if not self.needs_labels:
                raise SearchError("target='agreement' is with a final model; give final=model.")
            return
        check_final(self.final, self.guard)

    def _problem(
        self,
        training: Training,
        costs: Costs,
        folds: list[Fold],
        answers: NDArray[Any] | None,
    ) -> Problem:
        classes = training.classes.tolist()
        tested = np.concatenate([f.test for f in folds])
        answers = None if answers is None else answers[tested]
        thresholds = alternatives(self.threshold, len(classes), final=self.final is not None)
        max_missed = dict(self.max_missed or {})
        for label, most in max_missed.items():
            if label not in classes:
                known = nearest(label, map(str, classes))
                raise SearchError(f"`max_missed` names {label!r}, which is not a class{known}")
            if not isinstance(most, Real) or not 0 <= float(most) <= 1:
                raise SearchError(f"`max_missed` of {label!r} must be from 0 to 1, got {most!r}.")
        truth = training.labels[tested]
        return Problem(
            make_table(training, folds, truth, thresholds, answers, self.engine, self.n_jobs),
            costs,
            classes,
            thresholds,
            min(int(self.max_stages), len(costs.names)),
            bool(self.allow_unused) and self.final is None,
            max_missed,
        )

    def _choose(self, select: Any, refit: bool | str) -> None:
        given = any(select is candidate for candidate in self.front_)
        shown = self._shown if given or self._found is None else self._found
        candidate = self._select(select, shown)
        if refit == STAGES and shown.is_of_one_model:
            shown = self._separate(shown, candidate.design)
            known = isinstance(select, Candidate)
            candidate = most_alike(shown.front, select) if known else self._select(select, shown)
        fits = refit or shown.evaluated is not None
        rows = shown.fitted_on(refit)
        cascade = self._cascade_on(candidate, rows) if fits else None  # or all stays as it was
        if hasattr(self, "best_cascade_"):
            del self.best_cascade_
        self.front_, self._reference = shown.front, shown.reference
        self.all_sources_ = shown.all_sources
        self._training, self._evaluated = shown.training, shown.evaluated
        self.best_candidate_ = candidate
        if cascade is not None:
            self.best_cascade_ = cascade

    @property
    def _shown(self) -> Shown:
        return Shown(
            self.front_, self._reference, self.all_sources_, self._training, self._evaluated
        )

    def _separate(self, found: Shown, design: StageDesign) -> Shown:
        """Evaluate a design whose stages are fitted each by itself."""
        training = found.by_stage()
        folds, answers = self._tested
        problem = self._problem(training, self.costs_, folds, answers)
        front = thresholds_anew(problem, design, by_stage=self.threshold == AUTO)
        if not len(front):
            raise SelectionError(
                "Fitted each by itself, the chosen stages accept no row as is asked for; choose "
                "another candidate, or keep the one model: refit=True."
            )
        told = f"{found.front.measured_on} Its stages are fitted each by itself."
        reference = AllSources.of(problem)
        return Shown(
            ParetoFront(front, self.costs_, told),
            reference,
            reference.answering(),
            training,
            training.take(folds[0].train) if len(folds) == 1 else None,
        )

    def _select(self, select: Any, shown: Shown) -> Candidate:
        return select_as_asked(
            select,
            shown.front,
            shown.all_sources,
            self._n_selection_rows,
            self.max_missed or {},
            agreement=not self.needs_labels,
        )

    def _cascade(self, candidate: Candidate, refit: bool | str) -> CascadeClassifier:
        return self._cascade_on(candidate, self._shown.fitted_on(refit))

    def _cascade_on(self, candidate: Candidate, training: Training | Kept) -> CascadeClassifier:
        cascade = CascadeClassifier(
            training.estimator,
            design=candidate.design,
            costs=self.costs_,
            threshold=candidate.threshold,
            guard=self.guard,
            final=self.final,
        )
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(cascade, name, getattr(self, name))
        cascade._fit(training)
        if hasattr(self, "_fitted_rows"):  # the first files do not tell
            cascade._fitted_rows = self._fitted_rows
            if isinstance(training, Training):
                used = tuple(cascade._missing_seen)
                cascade._fitted_rows = self._fitted_rows.using(self._training.columns, used)
        return cascade

    def _check_is_chosen(self) -> None:
        check_is_fitted(self, "front_")
        if not hasattr(self, "best_candidate_"):
            raise NotFittedError("Nothing of the front is chosen yet; call choose(...).")

    def _chosen(self, X: Any = None) -> CascadeClassifier:
        """Give the chosen cascade; X, where given, must have the columns that `fit` saw."""
        self._check_is_chosen()
        if not hasattr(self, "best_cascade_"):
            raise NotFittedError(
                f"refit=False with {self.n_splits_} folds leaves no cascade to decide by; "
                "call choose(refit=True)."
            )
        if len(getattr(X, "shape", ())) == 2:
            rest = without_answers(self.final, X)
            validate_data(self, rest, reset=False, skip_check_array=True)
        return self.best_cascade_

    def _fresh_evaluations(self, X: Any, truth: NDArray[Any]) -> list[Evaluation]:
        """Evaluate the front on other rows, as its cascades would decide them."""
        training = self._shown.fitted_on(self.refit)
        if self.guard is not None or isinstance(training, Kept):
            # A guard sees rows, not bits; a file has stages, but no rows to fit others on.
            return [evaluate(self.cascade(c).decide(X), truth) for c in self.front_]
        columns = self._columns_of(X, len(truth))
        answers = None if self.final is None else np.asarray(self.final.predict(X))
        return evaluate_afresh(
            self.front_, training, columns, truth, answers, self.engine, self.n_jobs
        )

    def _note_shown(self, X: Any) -> None:
        """Write down which rows show how the whole front does, before they do.

        Whoever then certifies one cascade on them may have chosen it by what was seen.
        """
        fitted: FittedRows = getattr(self, "_fitted_rows", FittedRows())
        if not fitted.digest:
            return
        named = hasattr(self, "feature_names_in_")
        rows = fitted.look(known_columns(X, fitted.names, named=named), hash_keys(X))
        front = [[c.design.assignment, c.threshold] for c in self.front_]
        with ledger_of(fitted.digest).open() as page:
            page.append([Entry(digest_of(["shown", front]), 0.0, len(front), rows)])

    def _columns_of(self, X: Any, n_rows: int) -> Columns:
        names = list(self._training.columns)
        X = without_answers(self.final, X)
        if container_of(X) == "array":
            X = validate_data(self, unmask(X), reset=False, dtype=None, ensure_all_finite=False)
            columns = read_columns(X, names)
        elif hasattr(self, "feature_names_in_"):
            columns = pick_columns(X, names)
        else:
            validate_data(self, X, reset=False, skip_check_array=True)
            columns = read_columns(X, names)
        if X.shape[0] != n_rows:
            raise ClassesError(f"X has {X.shape[0]} rows but `y` has {n_rows}.")
        for name, column in columns.items():
            seen = self._training.missing_seen(name)
            refuse_invalid(plain(column), name, missing_seen=seen, given=column)
        return columns


def _used_by(front: Iterable[Candidate], costs: Costs, names: list[str]) -> list[str]:
    """Name the columns that some candidate uses."""
    sources = {s for c in front for s in c.design.acquired(c.design.n_stages - 1)}
    used = {column for source in sources for column in costs.columns(source)}
    return [name for name in names if name in used] or names
