"""The first steps of `CascadeSearchCV.fit`: check its parameters, and read what it is given."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.model_selection import (
    GroupKFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    check_cv,
)
from sklearn.utils import check_random_state, resample
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.metadata_routing import process_routing

from emsco.core.costs import Costs
from emsco.core.label_rule import BALANCED
from emsco.core.selection import check_names
from emsco.core.validation import read_groups
from emsco.engine import resolve_engine
from emsco.exceptions import ClassesError, ColumnsError, Keyword, Parameter, SearchError
from emsco.learners import AUTO, estimators_of, first_learner
from emsco.learners.final_model import check_final, predict_labels
from emsco.learners.label_weights import weigh
from emsco.learners.protocol import Fold, Stages
from emsco.learners.training import MOST_CLASSES, Training, read_given
from emsco.rows.columns import is_dataset
from emsco.rows.rows import Layout, Rows
from emsco.search._stake_column import Stake, priced_columns, stake_of, without_stake
from emsco.search.checkpoint import Checkpoint
from emsco.search.fitted_search import STAGES, check_refit

SEARCHED_ROWS = 200_000  # of a data set, if `max_rows` is None: coverage is then known to 0.1 point
_GROUPS = "groups"
_WEIGHT = "sample_weight"


PARAMETERS: dict[str, list[Any]] = {
    "estimator": [HasMethods(["fit", "predict_proba"]), Mapping, StrOptions({AUTO}), None],
    "costs": [Costs, Mapping, "array-like", str, PathLike, None],
    "search": [HasMethods(["run"]), None],
    "threshold": [Real, Mapping, list, str],
    "label_weights": [Mapping, StrOptions({BALANCED}), None],
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


class SearchInput(NamedTuple):
    """What a search was given, after it was read and divided into folds."""

    layout: Layout
    rows: Rows
    costs: Costs
    training: Training
    answers: NDArray[Any] | None  # of a final model, one per row
    folds: list[Fold]
    split_groups: ArrayLike | None  # of the rows, as given to the splitter
    groups: ArrayLike | None  # of the rows, as given to `fit`
    all_rows: Stages | None  # for the refit, if the rows are a sample of a data set
    stake: Stake  # of each row; None: every row counts as one
    stake_note: str  # which column it is, and whether it is a feature


def check_parameters(search: Any) -> None:
    """Refuse parameters that contradict each other, before anything takes long."""
    if isinstance(search.select, Mapping):
        check_names(search.select)
    check_refit(search.refit, search.estimator)
    if search.final is not None:
        check_final(search.final, search.guard)
    elif not search.needs_labels:
        raise SearchError("target='agreement' needs a final model; give final=model.")


def open_checkpoint(search: Any) -> tuple[Checkpoint | None, Any]:
    """Read the checkpoint, if any, and return it with the source of randomness."""
    if search.checkpoint is None:
        return None, check_random_state(search.random_state)
    checkpoint = Checkpoint(search.checkpoint)
    return checkpoint, check_random_state(checkpoint.seeded(search.random_state))


def read_input(
    search: Any, X: Any, y: Any, stake: Any, params: dict[str, Any], seeds: Any
) -> SearchInput:
    """Read the rows, get the answers of a final model, and make the folds.

    Of a data set, rows are drawn first.
    """
    learner, blocks = first_learner(search.estimator), None
    if stake is not None and not search.needs_labels:
        raise SearchError(
            "target='agreement' takes no `stake`, because agreement is a share of answers; leave "
            "it out, or search with the target 'labels'."
        )
    if is_dataset(X):
        if stake is not None and not isinstance(stake, str):
            raise ColumnsError(
                f"With a data set, `stake` must be the name of a column, got stake={stake!r:.80}."
            )
        X, y, params, blocks = _draw_sample(search, X, y, params, seeds.randint(2**31))
    at_stake, note = stake_of(X, stake), ""
    if isinstance(stake, str):
        priced = priced_columns(search.costs, [str(name) for name in X.columns])
        X = without_stake(X, stake, priced)
        note = f"column {stake!r}, which is {'also' if stake in priced else 'not'} a feature"
    fit_params, split_params = _routed(search, params)
    answers = None if search.final is None else predict_labels(search.final, X, len(X))
    layout, rows, costs, training, table = read_given(
        search,
        X,
        y if search.needs_labels else answers,
        learner=learner,
        costs=search.costs,
        final=search.final,
        params=fit_params,
    )
    if not search.needs_labels and (search.label_weights is not None or costs.errors):
        raise SearchError(
            "target='agreement' needs equal label weights, because what is right is what the final "
            "model answers; leave out "
            + Parameter("label_weights")
            + " and the prices of errors in `costs`."
        )
    training, costs = weigh(training, costs, search.label_weights)
    for name in rows.names:
        training.values(name)  # before any fit: infinity raises an error
    all_rows = None
    if blocks is not None:
        from emsco.learners.block_newton import BlockTraining, check_types

        check_types(costs.types, blocks.schema)
        all_rows = BlockTraining(learner, blocks, rows.names).judged_by(training.rule)
    folds = _make_folds(search, table, training.labels, split_params, seeds)
    return SearchInput(
        layout,
        rows,
        costs,
        training,
        answers,
        folds,
        split_params.get(_GROUPS),
        params.get(_GROUPS),
        all_rows,
        at_stake,
        note,
    )


def _draw_sample(
    search: Any, dataset: Any, y: Any, params: Mapping[str, Any], seed: int
) -> tuple[Any, NDArray[Any], dict[str, Any], Any]:
    """Draw rows of a data set to search on, with classes in proportion.

    Labels, weights and groups are given by the names of their columns. Returns X, y and parameters
    as if the user had given them, and the blocks of all rows.
    """
    from emsco.learners.block_newton import check_learner
    from emsco.rows.dataset_blocks import Blocks

    engine = resolve_engine(search.engine, search.n_jobs)
    learners = estimators_of(search.estimator, {})
    if len(learners) > 1:
        raise SearchError(
            "A data set is searched with one estimator, because its stages are fitted block by "
            "block; leave out " + Parameter("estimator") + "."
        )
    check_learner(first_learner(search.estimator), search.guard, search.final)
    for name, column in params.items():
        if name not in (_GROUPS, _WEIGHT) or not isinstance(column, str):
            raise ColumnsError(
                f"With a data set, `fit` takes only the names of columns for {_WEIGHT} and "
                f"{_GROUPS}, got {name}={column!r:.80}."
            )
    blocks = Blocks.of(dataset, y, params.get(_WEIGHT), engine)
    n_rows = search.max_rows or SEARCHED_ROWS
    sample = blocks.sample(n_rows, seed, blocks.names, every_class=True)
    frame = sample.table.to_pandas()
    drawn: dict[str, Any] = {}
    if sample.weight is not None:
        drawn[_WEIGHT] = sample.weight
    if _GROUPS in params:
        if params[_GROUPS] not in frame:
            raise ColumnsError(f"The data set has no column {params[_GROUPS]!r} for the groups.")
        drawn[_GROUPS] = frame[params[_GROUPS]].to_numpy()
    return frame, sample.labels, drawn, blocks


def _routed(search: Any, params: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Divide what `fit` was given between the stages and the splitter."""
    present = {name: value for name, value in params.items() if value is not None}
    if get_config()["enable_metadata_routing"]:
        routed = process_routing(search, "fit", **present)
        return dict(routed.estimator.fit), dict(routed.splitter.split)
    groups = present.pop(_GROUPS, None)
    return present, {_GROUPS: groups}


def _make_folds(
    search: Any, table: Any, labels: NDArray[Any], params: Mapping[str, Any], seeds: Any
) -> list[Fold]:
    """Return the folds: the rows to fit on and to evaluate, of all rows or of `max_rows`."""
    splitter, max_rows = check_cv(search.cv, labels, classifier=True), search.max_rows
    if params.get(_GROUPS) is not None:
        params = {**params, _GROUPS: read_groups(params[_GROUPS], len(labels))}
    _refuse_few_rows(splitter, labels, params.get(_GROUPS))
    parts = [
        (np.asarray(train, dtype=np.intp), np.asarray(test, dtype=np.intp))
        for train, test in splitter.split(table, labels, **params)
    ]
    if max_rows is not None and max_rows < len(labels):
        drawn = _draw_rows(labels, max_rows, seeds)
        parts = [(train[drawn[train]], test[drawn[test]]) for train, test in parts]
    folds = [Fold(train, test) for train, test in parts if len(train) and len(test)]
    if not folds:
        raise SearchError(Parameter("cv") + " leaves no rows to evaluate designs on.")
    return folds


def _refuse_few_rows(splitter: Any, labels: NDArray[Any], groups: NDArray[Any] | None) -> None:
    """Refuse rows that cannot be divided into folds."""
    counts = np.unique(labels, return_counts=True)[1]
    if len(counts) > MOST_CLASSES:
        raise ClassesError(
            f"`y` may have at most {MOST_CLASSES} classes, got {len(counts)}; merge rare classes, "
            "or divide a number into ranges."
        )
    n_splits = getattr(splitter, "n_splits", 0)
    if isinstance(splitter, StratifiedKFold | StratifiedGroupKFold) and counts.max() < n_splits:
        raise ClassesError(
            Keyword("cv", n_splits)
            + f" needs {n_splits} rows of a class, but the largest of {len(counts)} classes has "
            f"{counts.max()}; add rows, merge classes, or use fewer folds."
        )
    n_groups = n_splits if groups is None else len(np.unique(groups))
    if isinstance(splitter, GroupKFold | StratifiedGroupKFold) and n_groups < n_splits:
        raise SearchError(
            Keyword("cv", n_splits)
            + f" needs {n_splits} groups, but there are {n_groups}; use fewer folds."
        )


def _draw_rows(labels: NDArray[Any], n_rows: int, seeds: Any) -> NDArray[np.bool_]:
    """Mark rows drawn with classes in proportion."""
    rows = np.arange(len(labels))
    chosen = resample(rows, replace=False, n_samples=n_rows, stratify=labels, random_state=seeds)
    lost = sorted(set(labels.tolist()) - set(labels[chosen].tolist()), key=str)
    if lost:
        raise ClassesError(f"max_rows={n_rows} leaves no row of the class {lost[0]!r}; allow more.")
    drawn = np.zeros(len(labels), dtype=np.bool_)
    drawn[chosen] = True
    return drawn
