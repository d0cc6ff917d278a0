"""Fitted searches as the JSON and members of a file, and back: stages are kept, rows are not."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from emsco._kept import Kept
from emsco._threshold import resolve
from emsco._training import Training
from emsco.cascade import CascadeClassifier
from emsco.exceptions import ArtifactError, GuardWarning
from emsco.front import Candidate
from emsco.io._bundle import Reader, Writer
from emsco.io._cascades import (
    FINAL,
    checked_guard,
    expect_rows,
    guard_from,
    kept_from,
    kept_to,
    rows_to,
    tell_rows,
)
from emsco.io._foreign import estimator_from, final_from, final_to
from emsco.io._json import from_plain, to_plain
from emsco.io._words import (
    Data,
    candidates_from,
    candidates_to,
    costs_from,
    costs_to,
    expect,
    expect_fields,
    expect_keys,
    expect_place,
    expect_texts,
    front_from,
    records_from,
    records_to,
)
from emsco.search import EMSCO, CascadeSearchCV, Exhaustive, Hybrid, LocalSearch
from emsco.search._choice import AllSources, check_bounds

_STRATEGIES = {kind.__name__: kind for kind in (EMSCO, Exhaustive, Hybrid, LocalSearch)}
# Parameters that are kept where they are plain values; `engine`, `callback` and `checkpoint`, which
# belong to the machine that searched, never are.
_PLAIN = (
    "threshold", "max_stages", "allow_unused", "max_missed", "cv", "max_rows", "select", "refit",
    "target", "n_jobs", "random_state", "verbose",
)  # fmt: skip


_KEYS = (
    "costs", "parameters", "estimator", "guard", "strategy", "rows", "measured_on", "n_front",
    "best", "candidates", "all_sources", "history", "chosen", "training", "evaluated",
)  # fmt: skip


def search_to(search: CascadeSearchCV, writer: Writer) -> Data:
    """Keep a fitted search with every stage that it has fitted so far."""
    check_is_fitted(search, "front_")
    candidates = [*search.front_, search.all_sources_]
    best = None
    if hasattr(search, "best_candidate_"):
        places = [i for i, known in enumerate(candidates) if known is search.best_candidate_]
        best = places[0] if places else len(candidates)
        candidates += [] if places else [search.best_candidate_]
    estimator = search.estimator
    return final_to(writer, search.final) | {
        "costs": costs_to(search.costs_),
        "parameters": _parameters_to(search),
        "estimator": None if estimator is None else writer.estimator(estimator, "`estimator`"),
        "guard": None if search.guard is None else to_plain(_guard_parameters(search), "the guard"),
        "strategy": _strategy_to(search.search_),
        "rows": rows_to(writer, search, search._training)
        | {"n_splits": search.n_splits_, "n_selected_on": search._n_selection_rows},
        "measured_on": search.front_.measured_on,
        "n_front": len(search.front_),
        "best": best,
        "candidates": candidates_to(writer, candidates, search.costs_),
        "all_sources": {
            "truth": writer.array(search._reference.truth.astype(np.int64)),
            "right": writer.array(search._reference.right),
        },
        "history": records_to(writer, search.history_, "the history"),
        "chosen": _chosen_of(search),
        "training": kept_to(writer, _kept_by(search, search._training)),
        "evaluated": (
            None
            if search._evaluated is None
            else kept_to(writer, _kept_by(search, search._evaluated))
        ),
    }


def search_from(data: Data, reader: Reader) -> CascadeSearchCV:
    """Give the search back, in all that needs no training rows."""
    expect_keys(data, *_KEYS, *FINAL & data.keys())
    final = final_from(reader, data)
    costs = costs_from(data["costs"])
    rows = expect_rows(data["rows"], "n_splits", "n_selected_on")
    search = CascadeSearchCV(
        None if data["estimator"] is None else estimator_from(reader, data["estimator"]),
        costs=costs,
        guard=guard_from(data["guard"], "margin", "pool"),
        final=final,
        **_parameters_from(data["parameters"]),
    )
    search._validate_params()
    if isinstance(search.select, Mapping):
        check_bounds(search.select)
    tell_rows(search, rows, reader)
    training = kept_from(reader, data["training"], rows, final)
    evaluated = data["evaluated"]
    search._training = training
    search._evaluated = None if evaluated is None else kept_from(reader, evaluated, rows, final)
    search.classes_, search.costs_ = training.classes, costs
    search.n_splits_ = expect(rows["n_splits"], int)
    search._n_selection_rows = expect(rows["n_selected_on"], int)
    if search.n_splits_ < 1 or search._n_selection_rows < 1:
        raise ArtifactError("it was searched on no rows")
    search.search_ = _strategy_from(data["strategy"])
    search.history_ = records_from(reader, data["history"])
    search._reference = _reference_from(search, data["all_sources"], reader)
    candidates = candidates_from(reader, data["candidates"], costs)
    _check_candidates(candidates, search.classes_.tolist())
    n_front = expect_place(data["n_front"], len(candidates))
    search.front_ = front_from(candidates[:n_front], costs, data["measured_on"])
    search.all_sources_ = candidates[n_front]
    if data["best"] is not None:
        # The front aligns designs anew; what was one of its candidates is so again.
        known = [*search.front_, *candidates[n_front:]]
        search.best_candidate_ = known[expect_place(data["best"], len(known))]
    if data["chosen"] is not None:
        refit = {"training": True, "evaluated": False}[data["chosen"]]
        search.best_cascade_ = search._cascade(search.best_candidate_, refit)
    return search


def _check_candidates(candidates: Sequence[Candidate], classes: list[Any]) -> None:
    """Refuse candidates that could not be chosen: other classes, or thresholds of another shape."""
    for candidate in candidates:
        resolve(candidate.threshold, classes, candidate.design.n_stages)
        if not candidate.evaluation.class_rows.keys() <= set(classes):
            raise ArtifactError("its candidates were evaluated on other labels")


def _parameters_to(search: CascadeSearchCV) -> Data:
    """Keep parameters that are plain values, and tell the others, for whoever reads the file."""
    kept: Data = {}
    others = {name: getattr(search, name) for name in ("engine", "callback", "checkpoint")}
    for name in _PLAIN:
        value = getattr(search, name)
        try:
            kept[name] = to_plain(value)
        except ArtifactError:
            others[name] = value
    if search.search is not None and _strategy_to(search.search) is None:
        others["search"] = search.search
    return {
        "kept": kept,
        "search": _strategy_to(search.search),
        "left_out": {n: repr(value)[:200] for n, value in others.items() if value is not None},
    }


def _parameters_from(data: Data) -> Data:
    expect_keys(data, "kept", "search", "left_out")
    kept, left_out = expect(data["kept"], dict), expect(data["left_out"], dict)
    expect_texts(list(left_out.values()))
    if not kept.keys() <= set(_PLAIN):
        raise ArtifactError("it names parameters that files do not keep")
    parameters = {name: from_plain(value) for name, value in kept.items()}
    return parameters | {"search": _strategy_from(data["search"])}


def _strategy_to(strategy: Any) -> Data | None:
    """Keep a search strategy of emsco's own by its parameters; others cannot come back."""
    name = type(strategy).__name__
    if _STRATEGIES.get(name) is not type(strategy):
        return None
    told = {field.name: getattr(strategy, field.name) for field in fields(strategy)}
    parts = {n: _strategy_to(v) if type(v) in _STRATEGIES.values() else v for n, v in told.items()}
    return {name: parts}


def _strategy_from(data: Any) -> Any:
    if data is None:
        return None
    ((name, parts),) = expect(data, dict).items()
    kind = _STRATEGIES[name]
    told = expect_fields(parts, kind)
    return kind(**{n: _strategy_from(v) if isinstance(v, dict) else v for n, v in told.items()})


def _guard_parameters(search: CascadeSearchCV) -> Data:
    guard = checked_guard(search.guard)
    pool = guard.pool if isinstance(guard.pool, tuple) else list(guard.pool)
    return {"margin": guard.margin, "pool": pool}


def _reference_from(search: CascadeSearchCV, data: Data, reader: Reader) -> AllSources:
    expect_keys(data, "truth", "right")
    truth = reader.array(data["truth"], None)
    right = reader.array(data["right"], len(truth))
    known = (truth >= 0) & (truth < len(search.classes_))
    if truth.dtype != np.int64 or right.dtype != np.bool_ or not known.all():
        raise ArtifactError("all sources at once were right on rows that cannot be")
    return AllSources(search.costs_, search.classes_.tolist(), truth.astype(np.intp), right)


def _kept_by(search: CascadeSearchCV, training: Training | Kept) -> Kept:
    """Take from training what its fitted stages need."""
    needed = {name for features in training.fitted for name in features}
    every = training.final is not None
    used = [name for name in training.columns if every or name in needed]
    guard = None
    if search.guard is not None and used:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GuardWarning)  # it was told when the search was fitted
            guard = checked_guard(training.guarded(search.guard, used))
    is_default = training.estimator is None
    return Kept(
        estimator=training.estimator,
        container=training.container,
        classes=training.classes,
        most_frequent=training.most_frequent,
        names=list(training.columns),
        missing={name: training.missing_seen(name) for name in used},
        numbers={} if is_default else training.numeric(used),
        encodings={name: training.encoding(name) for name in used} if is_default else {},
        fitted=training.fitted,
        guard=guard,
        final=training.final,
    )


def _chosen_of(search: CascadeSearchCV) -> str | None:
    """Say whose stages the chosen cascade has."""
    if not hasattr(search, "best_cascade_"):
        return None
    for name, training in (("training", search._training), ("evaluated", search._evaluated)):
        if training is not None and _is_of(search.best_cascade_, training):
            return name
    raise ArtifactError(
        "`best_cascade_` is not as the search fitted it; dump it by itself, or call choose(...)"
    )


def _is_of(cascade: CascadeClassifier, training: Training | Kept) -> bool:
    fitted = [*training.fitted.values(), training.final]
    return all(any(one is known for known in fitted) for one in cascade.estimators_)
