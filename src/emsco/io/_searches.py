"""Write fitted searches as the JSON and members of a file, and read them back, without rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from emsco.core.costs import Costs
from emsco.core.front import Candidate
from emsco.core.selection import check_names
from emsco.core.stakes import read_stake
from emsco.core.threshold import resolve
from emsco.exceptions import ArtifactError, Code, GuardWarning, Message
from emsco.io._cascades import (
    FINAL,
    checked_guard,
    expect_rows,
    guard_from,
    layout_from,
    rows_to,
    stages_from,
    stages_to,
)
from emsco.io._core_values import (
    MEASURED,
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
    measured_to,
    records_from,
    records_to,
    values_of,
)
from emsco.io._foreign_model import estimator_from, final_from, final_to
from emsco.io._json import from_plain, to_plain
from emsco.io._members import MemberReader, MemberWriter
from emsco.io._row_hashes import known_from
from emsco.learners import AUTO
from emsco.learners.protocol import Stages
from emsco.learners.training import FittedStages
from emsco.search import CascadeSearchCV, strategies, with_yardstick, yardstick_of
from emsco.search.default_rule import AllSources
from emsco.search.fitted_search import Choice, FittedSearch, LearnerStages

# Parameters that are stored if they are plain values. `engine`, `callback` and `checkpoint` belong
# to the machine that ran the search and are never stored.
_IF_ANY = ("label_weights",)  # not stored if None
_PLAIN = (
    "threshold", "max_stages", "allow_unused", "max_missed", "max_rejected", "cv", "max_rows",
    "select", "luck", "refit", "target", "n_jobs", "random_state", "verbose", *_IF_ANY,
)  # fmt: skip
_CHOICE = {"rule", "asked"}  # keys only if there is a choice
_OPTIONAL = frozenset({"learners", "boosted"})  # several learners; what boosted trees would reach
_KEYS = (
    "costs", "parameters", "estimator", "guard", "strategy", "rows", "n_front", "best",
    "candidates", "all_sources", "history", "chosen", "training", "evaluated",
)  # fmt: skip


def search_to(search: CascadeSearchCV, writer: MemberWriter) -> Data:
    """Store a fitted search with every stage that it has fitted so far."""
    check_is_fitted(search, "front_")
    found = search.found_
    candidates = [*found.front, found.all_sources]
    best = None
    if hasattr(search, "best_candidate_"):
        places = [i for i, known in enumerate(candidates) if known is search.best_candidate_]
        best = places[0] if places else len(candidates)
        candidates += [] if places else [search.best_candidate_]
    (first, own), *others = found.learners.items()
    yardstick = yardstick_of(found)
    return final_to(writer, found.final) | {
        "costs": costs_to(found.costs),
        "parameters": _parameters_to(search),
        "estimator": _estimator_to(writer, search.estimator),
        "guard": None if search.guard is None else to_plain(_guard_parameters(search), "the guard"),
        "strategy": _strategy_to(found.strategy),
        "rows": rows_to(writer, found.layout, found.stages, found.rows)
        | {"n_splits": found.n_splits, "n_selected_on": found.n_rows},
        **measured_to(found.front),
        # In parts, because the command line has a word of its own for the call in it.
        "measured_on": [
            {"code": part} if isinstance(part, Code) else part
            for part in Message(found.front.measured_on).parts
        ],
        "n_front": len(found.front),
        "best": best,
        "candidates": candidates_to(writer, candidates, found.costs),
        "all_sources": _reference_to(writer, found.reference),
        "history": records_to(writer, found.history, "the history"),
        **_choice_to(search),
        **_learner_to(search, writer, own),
        **_others_to(search, writer, first, dict(others)),
        **({} if yardstick is None else {"boosted": _reference_to(writer, yardstick)}),
    }


def search_from(data: Data, reader: MemberReader) -> CascadeSearchCV:
    """Read the search back; it can do everything that needs no training rows."""
    chosen = _CHOICE | {"default"} & data.keys() if data.get("best") is not None else set()
    expect_keys(data, *_KEYS, *MEASURED, *chosen, *(FINAL | _OPTIONAL) & data.keys())
    final = final_from(reader, data)
    costs = costs_from(data["costs"])
    rows = expect_rows(data["rows"], "n_splits", "n_selected_on")
    search = CascadeSearchCV(
        _estimator_from(reader, data["estimator"]),
        costs=costs,
        guard=guard_from(data["guard"], "margin", "pool"),
        final=final,
        **_parameters_from(data["parameters"]),
    )
    search._validate_params()
    if isinstance(search.select, Mapping):
        check_names(search.select)
    layout, fitted_rows = layout_from(rows, final), known_from(reader, rows["known"])
    learners = _learners_from(reader, data, rows, final, costs.types)
    classes = next(iter(learners.values())).stages.classes
    n_splits, n_rows = (expect(rows[name], int) for name in ("n_splits", "n_selected_on"))
    if n_splits < 1 or n_rows < 1:
        raise ArtifactError("its search must have at least one split and one row")
    strategy, history = _strategy_from(data["strategy"]), records_from(reader, data["history"])
    reference = _reference_from(data["all_sources"], reader, costs, classes)
    candidates = candidates_from(reader, data["candidates"], costs)
    _check_candidates(candidates, classes.tolist(), learners)
    n_front = expect_place(data["n_front"], len(candidates))
    note = [
        Code(*values_of(part, code=str)) if isinstance(part, dict) else expect(part, str)
        for part in expect(data["measured_on"], list)
    ]
    search.found_ = FittedSearch(
        front=front_from(candidates[:n_front], costs, data | {"measured_on": Message(*note)}),
        reference=reference,
        all_sources=candidates[n_front],
        learners=learners,
        layout=layout,
        rows=fitted_rows,
        n_splits=n_splits,
        n_rows=n_rows,
        strategy=strategy,
        history=history,
        final=final,
    )
    if "boosted" in data:
        yardstick = _reference_from(data["boosted"], reader, costs, classes)
        search.found_ = with_yardstick(search.found_, yardstick)
    search.n_features_in_ = len(layout.names)
    if layout.named:
        search.feature_names_in_ = np.array(layout.names, dtype=object)
    _choose(search, data, candidates[n_front:])
    return search


def _choose(search: CascadeSearchCV, data: Data, others: Sequence[Candidate]) -> None:
    """Restore the choice."""
    if data["best"] is None:
        if data["chosen"] is not None:
            raise ArtifactError("it has a chosen cascade, but no chosen candidate")
        return
    # The front makes new candidates with aligned designs, so the chosen one is taken from there.
    known = [*search.front_, *others]
    best = known[expect_place(data["best"], len(known))]
    bounds = from_plain(data["asked"])
    check_names(expect(bounds, dict))
    rule: Data = {"rule": expect(data["rule"], str), "bounds": bounds}
    rule["is_default"] = expect(data.get("default", False), bool)
    if data["chosen"] is None:
        search.choice_ = Choice(best, **rule)
        return
    is_refitted = {"training": True, "evaluated": False}[data["chosen"]]
    cascade = search.found_.cascade(best, is_refitted, search.guard)
    search.choice_ = Choice(best, cascade, cascade.decider_, is_refitted, **rule)


def _choice_to(search: CascadeSearchCV) -> Data:
    """Store which stages the chosen cascade has, by which rule it was chosen, and the bounds."""
    choice = getattr(search, "choice_", None)
    if choice is None:
        return {"chosen": None}
    chosen = None
    if choice.cascade is not None:
        if choice.cascade.decider_ is not choice.decider:
            raise ArtifactError(
                "`best_cascade_` was changed after the search; dump it separately, or call "
                "choose(...)"
            )
        chosen = "training" if choice.is_refitted else "evaluated"
    bounds = to_plain(dict(choice.bounds), "the bounds of the choice")
    default = {"default": True} if choice.is_default else {}
    return {"chosen": chosen, "rule": choice.rule, "asked": bounds, **default}


def _estimator_to(writer: MemberWriter, estimator: Any) -> Any:
    """Store what stages are clones of: one estimator, or several by name."""
    if isinstance(estimator, str):
        return {"named": estimator}
    if isinstance(estimator, Mapping):
        return {"several": {name: _estimator_to(writer, one) for name, one in estimator.items()}}
    return None if estimator is None else writer.estimator(estimator, "`estimator`")


def _estimator_from(reader: MemberReader, data: Any) -> Any:
    if isinstance(data, dict):
        if data == {"named": AUTO}:
            return AUTO
        (several,) = values_of(data, several=dict)
        return {
            name: None if one is None else estimator_from(reader, one)
            for name, one in several.items()
        }
    return None if data is None else estimator_from(reader, data)


def _learner_to(search: CascadeSearchCV, writer: MemberWriter, own: LearnerStages) -> Data:
    """Store the stages of a learner, fitted on all rows and as evaluated."""
    final = search.found_.final
    evaluated = None
    if own.evaluated is not None:
        evaluated = stages_to(writer, _pruned(search, own.evaluated), final)
    return {
        "training": stages_to(writer, _pruned(search, own.stages), final),
        "evaluated": evaluated,
    }


def _others_to(
    search: CascadeSearchCV, writer: MemberWriter, first: str, others: Mapping[str, LearnerStages]
) -> Data:
    """Store all learners but the first; their label weights may be scaled differently."""
    stored = {
        name: {"label_weights": list(own.stages.rule.weights) or None}
        | _learner_to(search, writer, own)
        for name, own in others.items()
    }
    return {"learners": {"first": first, "others": stored}} if others else {}


def _learners_from(
    reader: MemberReader, data: Data, rows: Data, final: Any, types: Mapping[str, str]
) -> dict[str, LearnerStages]:
    """Read the stages of every learner, by name."""

    def read(stored: Data, about: Data) -> LearnerStages:
        stages = stages_from(reader, stored["training"], about, final, types)
        evaluated = stored["evaluated"]
        if evaluated is not None:
            evaluated = stages_from(reader, evaluated, about, final, types)
        return LearnerStages(stages, evaluated)

    if "learners" not in data:
        return {"": read(data, rows)}
    first, others = values_of(data["learners"], first=str, others=dict)
    learners = {first: read(data, rows)}
    for name, stored in others.items():
        expect_keys(stored, "label_weights", "training", "evaluated")
        about = {**rows, "label_weights": stored["label_weights"]}
        learners[name] = read(stored, about)
    if len(learners) != len(others) + 1 or not others or "" in learners:
        raise ArtifactError("its learners must have different names")
    return learners


def _check_candidates(
    candidates: Sequence[Candidate], classes: list[Any], learners: Mapping[str, LearnerStages]
) -> None:
    """Refuse candidates that cannot be chosen: other classes, learners or forms of thresholds."""
    for candidate in candidates:
        if candidate.learner not in learners:
            raise ArtifactError("its candidates name a learner whose stages it does not have")
        resolve(candidate.threshold, classes, candidate.design.n_stages)
        if not candidate.evaluation.class_rows.keys() <= set(classes):
            raise ArtifactError("its candidates were evaluated on other labels")


def _parameters_to(search: CascadeSearchCV) -> Data:
    """Store parameters that are plain values, and the text of the others for people who read it."""
    plain: Data = {}
    others = {name: getattr(search, name) for name in ("engine", "callback", "checkpoint")}
    for name in _PLAIN:
        value = getattr(search, name)
        if value is None and name in _IF_ANY:
            continue
        try:
            plain[name] = to_plain(value)
        except ArtifactError:
            others[name] = value
    if search.search is not None and _strategy_to(search.search) is None:
        others["search"] = search.search
    return {
        "kept": plain,
        "search": _strategy_to(search.search),
        "left_out": {n: repr(value)[:200] for n, value in others.items() if value is not None},
    }


def _parameters_from(data: Data) -> Data:
    plain, strategy, left_out = values_of(data, kept=dict, search=object, left_out=dict)
    expect_texts(list(left_out.values()))
    if not plain.keys() <= set(_PLAIN):
        raise ArtifactError("it has parameters that are never saved")
    parameters = {name: from_plain(value) for name, value in plain.items()}
    return parameters | {"search": _strategy_from(strategy)}


def _strategy_to(strategy: Any) -> Data | None:
    """Store the parameters of one of emsco's own search strategies; others cannot be restored."""
    name = type(strategy).__name__
    known = strategies()
    if known.get(name) is not type(strategy) or not is_dataclass(strategy):
        return None
    params = {field.name: getattr(strategy, field.name) for field in fields(strategy)}
    parts = {n: _strategy_to(v) if type(v) in known.values() else v for n, v in params.items()}
    return {name: parts}


def _strategy_from(data: Any) -> Any:
    if data is None:
        return None
    ((name, parts),) = expect(data, dict).items()
    kind: Any = strategies()[name]
    params = expect_fields(parts, kind)
    return kind(**{n: _strategy_from(v) if isinstance(v, dict) else v for n, v in params.items()})


def _guard_parameters(search: CascadeSearchCV) -> Data:
    guard = checked_guard(search.guard)
    pool = guard.pool if isinstance(guard.pool, tuple | str) else list(guard.pool)
    return {"margin": guard.margin, "pool": pool}


def _reference_to(writer: MemberWriter, reference: AllSources) -> Data:
    data = {
        "truth": writer.array(reference.truth.astype(np.int64)),
        "right": writer.array(reference.right),
    }
    if len(reference.classes) > 2:  # else `right` implies it
        data["label"] = writer.array(reference.label.astype(np.int64))
    if reference.stake is not None:
        data["stake"] = writer.array(np.asarray(reference.stake, dtype=np.float64))
    return data


def _reference_from(
    data: Data, reader: MemberReader, costs: Costs, classes: NDArray[Any]
) -> AllSources:
    later = {"stake"} & expect(data, dict).keys()
    expect_keys(data, "truth", "right", *(["label"] if len(classes) > 2 else []), *later)
    truth = reader.array(data["truth"], None)
    right = reader.array(data["right"], len(truth))
    known = (truth >= 0) & (truth < len(classes))
    if truth.dtype != np.int64 or right.dtype != np.bool_ or not known.all():
        raise ArtifactError("its results for all sources do not match its classes")
    if len(classes) > 2:
        label = reader.array(data["label"], len(truth))
        known = (label >= 0) & (label < len(classes)) & ((label == truth) == right)
        if label.dtype != np.int64 or not known.all():
            raise ArtifactError("its labels for all sources do not match its results for them")
        label = label.astype(np.intp)
    else:
        label = np.where(right, truth, 1 - truth).astype(np.intp)
    stake = None
    if later:
        stake = reader.array(data["stake"], len(truth))
        if stake.dtype != np.float64:
            raise ArtifactError("its stakes must be numbers")
        stake = read_stake(stake, len(truth))
    return AllSources(costs, classes.tolist(), truth.astype(np.intp), right, label, stake)


def _pruned(search: CascadeSearchCV, stages: Stages) -> FittedStages:
    """Return the stages with only what they need to decide."""
    needed = {name for features in stages.fitted for name in features}
    every = search.found_.final is not None
    used = [name for name in stages.names if every or name in needed]
    guard = None
    if search.guard is not None and used:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GuardWarning)  # given when the search was fitted
            guard = checked_guard(stages.guarded(search.guard, used))
    return FittedStages(
        learner=stages.learner,
        container=stages.container,
        classes=stages.classes,
        most_frequent=stages.most_frequent,
        names=stages.names,
        readers={name: stages.reader(name) for name in used},
        fitted=stages.fitted,
        guard=guard,
        rule=stages.rule,
    )
