"""Searches of every kind on small parts of the thirteen problems, and all that they answer."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import ShuffleSplit, train_test_split

from emsco import (
    EMSCO,
    CascadeClassifier,
    CascadeSearchCV,
    Costs,
    Hybrid,
    InputGuard,
    LocalSearch,
    MaskedClassifier,
    ParetoFront,
    Source,
    dump,
    evaluate,
    load,
)
from emsco.certify import certify, fingerprint
from emsco.datasets import CostlyData, load_covtype, make_costly_classification
from experiments.problems import LOADERS, PROBLEMS
from tests.soak.behaviour.case import Case, Part, tell_file, tell_outcome, tell_warnings
from tests.soak.behaviour.rows import as_array, as_polars, is_numbers

ROWS = 400  # at most
FRESH = 0.4  # of them
FEATURES = 6  # of a source at most
ALONE = 5  # rows that are decided one by one, too
DAMAGED = (None, float("inf"), 1e12, "no such word", 10**400)
TRUSTED = [
    "emsco.masked.MaskedClassifier",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
]


class Data(NamedTuple):
    """Rows to search on, their prices, and fresh rows."""

    X: Any
    y: NDArray[Any]
    costs: Costs
    X_fresh: Any
    y_fresh: NDArray[Any]


@dataclass(frozen=True)
class Kind:
    """A way to search: its parameters, given the rows, and the most sources that it is given."""

    sources: int
    parameters: Callable[[Data], dict[str, Any]]
    numbers: bool = False  # whether its estimator takes nothing else


def _trees(n_trees: int = 4) -> Any:
    """Make an estimator of trees; scikit-learn's single tree is pickled otherwise each time."""
    return HistGradientBoostingClassifier(
        max_iter=n_trees, learning_rate=0.3, max_leaf_nodes=6, random_state=0
    )


def _guarded(data: Data) -> dict[str, Any]:
    labels = np.unique(data.y).tolist()
    thresholds = {label: 0.55 + 0.2 * (i == 0) for i, label in enumerate(labels)}
    return {
        "guard": InputGuard(),
        "threshold": [0.6, thresholds],
        "max_missed": {labels[0]: 0.6},
        "select": {"min_coverage": 0.3},
        "cv": 2,
    }


KINDS = {
    "default": Kind(5, lambda _: {}),
    "local search": Kind(
        16, lambda _: {"search": LocalSearch(evaluations=1500, fits=120), "threshold": [0.6, 0.8]}
    ),
    "genetic search": Kind(
        10,
        lambda _: {
            "search": EMSCO(population=30, generations=5),
            "threshold": 0.7,
            "allow_unused": False,
            "cv": 3,
        },
    ),
    "hybrid search, one split": Kind(
        8,
        lambda _: {
            "search": Hybrid(
                EMSCO(population=20, generations=3), LocalSearch(evaluations=500, fits=60)
            ),
            "cv": ShuffleSplit(1, random_state=0),
            "refit": False,
            "max_rows": 150,
        },
    ),
    "own estimator": Kind(
        3, lambda _: {"estimator": _trees(), "cv": 3, "threshold": [0.6, 0.8]}, numbers=True
    ),
    "one model": Kind(
        4,
        lambda _: {
            "estimator": MaskedClassifier(_trees(), repeats=4, random_state=0),
            "cv": 2,
            "threshold": [0.6, 0.75, 0.9],
        },
        numbers=True,
    ),
    "one model, separate stages": Kind(
        3,
        lambda _: {
            "estimator": MaskedClassifier(_trees(), repeats=4, random_state=0),
            "cv": 2,
            "threshold": [0.51, 0.7, 0.9],  # by the lowest some rows are accepted in any case
            "refit": "stages",
        },
        numbers=True,
    ),
    "final model": Kind(
        5,
        lambda data: {"final": _trees(20).fit(data.X, data.y), "target": "agreement", "cv": 3},
        numbers=True,
    ),
    "guard": Kind(5, _guarded),
}


def _seven_classes() -> CostlyData:
    """Take as many rows of each cover type: the rarest would have none."""
    X, y, costs = load_covtype(classes=7)
    each = [np.flatnonzero(y == label)[: ROWS // 7] for label in np.unique(y)]
    rows = np.concatenate(each)
    return CostlyData(X.iloc[rows].reset_index(drop=True), y[rows], costs)


MORE: dict[str, Callable[[], CostlyData]] = {
    "three classes": lambda: make_costly_classification(
        300, 6, features_per_source=2, n_classes=3, class_sep=2.0, random_state=0
    ),
    "seven classes": _seven_classes,
}
SMALL = [
    ("three classes", "default"), ("Cleveland", "guard"), ("Pima, Turney", "own estimator"),
    ("Heart", "final model"), ("three classes", "one model, separate stages"),
]  # fmt: skip


def cases(*, small: bool) -> Iterator[tuple[str, Case]]:
    """Give every kind of search on every problem."""
    every = [(problem, kind) for problem in (*PROBLEMS, *MORE) for kind in KINDS]
    for problem, kind in SMALL if small else every:
        yield f"{problem}: {kind}", partial(_search, problem, kind)


@cache
def _load(problem: str) -> tuple[Any, NDArray[Any], Costs]:
    """Load a problem; of its rows 400 at most, with classes in proportion."""
    X, y, costs = (LOADERS | MORE)[problem]()
    frame = pd.DataFrame(X, columns=None if hasattr(X, "columns") else costs.names)
    if len(y) > ROWS:
        rows = np.arange(len(y))
        rows, _ = train_test_split(rows, train_size=ROWS, stratify=y, random_state=0)
        frame, y = frame.iloc[rows].reset_index(drop=True), y[rows]
    return frame, y, costs


def _draw(problem: str, kind: str) -> Data:
    """Take as many sources of a problem as a kind of search is given, and rows of its own.

    What is asked of rows is known to all models that were fitted on the same ones.
    """
    frame, y, costs = _load(problem)
    few = _cut(costs, KINDS[kind], frame)
    X = frame[[column for source in few.names for column in few.columns(source)]]
    searched, fresh = train_test_split(
        np.arange(len(y)),
        test_size=FRESH,
        stratify=y,
        random_state=crc32(f"{problem}: {kind}".encode()),
    )
    return Data(
        X.iloc[searched].reset_index(drop=True),
        y[searched],
        few,
        X.iloc[fresh].reset_index(drop=True),
        y[fresh],
    )


def _cut(costs: Costs, kind: Kind, frame: Any) -> Costs:
    """Leave the first sources, with the first of their columns."""
    kept: dict[str, Source] = {}
    for whole in costs.sources:
        source = replace(whole, features=costs.columns(whole)[:FEATURES])
        readable = not kind.numbers or is_numbers(frame[list(source.features)])
        if len(kept) < kind.sources and readable and set(source.requires) <= set(kept):
            kept[source.name] = source
    used = {source.setup for source in kept.values()}
    setups = {name: price for name, price in costs.setups.items() if name in used}
    return Costs(list(kept.values()), setups=setups, unit=costs.unit)


def _search(problem: str, kind: str, n_jobs: int) -> Iterator[Part]:
    data = _draw(problem, kind)
    given: dict[str, Any] = {"costs": data.costs, "random_state": 0, "n_jobs": n_jobs}
    search = CascadeSearchCV(**given | KINDS[kind].parameters(data))
    labels = data.y_fresh if search.needs_labels else None
    told = tell_warnings(lambda: search.fit(data.X, data.y if search.needs_labels else None))
    yield "warnings", lambda: told
    yield "front", lambda: search.front_
    yield "table of the front", lambda: repr(search.front_)
    yield "history", lambda: search.history_
    yield "choice", lambda: search.best_candidate_
    yield "all sources", lambda: search.all_sources_
    yield "all sources, rejecting", lambda: search.all_sources_at(0.8)
    yield "summary", search.summary
    yield "cascade", lambda: repr(search.best_cascade_)
    yield "fingerprint", lambda: fingerprint(search.best_cascade_)
    yield from _decisions(search, data)
    certified = partial(_certified, search, data, labels)
    yield "certificate", partial(tell_outcome, certified)  # a front may show too little for one
    yield "fresh figures", lambda: search.score_front(data.X_fresh, labels)
    yield "score", lambda: search.score(data.X_fresh, labels)
    yield "choices made anew", lambda: [_chosen(search, data, number) for number in range(4)]
    yield "nothing within bounds", lambda: tell_outcome(lambda: search.choose(max_cost=-1))
    yield from _files(search, data, labels)


def _decisions(search: CascadeSearchCV, data: Data) -> Iterator[Part]:
    """Decide fresh rows out of every container, at once and alone."""
    rows, array = data.X_fresh, as_array(data.X_fresh)
    yield "decisions, pandas", lambda: search.decide(rows)
    yield "decisions, numpy", lambda: search.decide(array)
    yield "decisions, polars", lambda: search.decide(as_polars(rows))
    yield (
        "decisions, row by row",
        lambda: [search.decide(row(i)) for i in range(ALONE)
                 for row in (lambda i: rows.iloc[[i]], lambda i: array[i : i + 1])],
    )  # fmt: skip
    yield "labels", lambda: search.predict(rows)
    yield "probabilities", lambda: search.predict_proba(rows)
    yield "evaluation", lambda: evaluate(search.decide(rows), search.best_cascade_.predict(rows))
    yield "odd rows", lambda: _of_odd_rows(search, rows)
    lacking = rows.iloc[:, :0]
    yield "rows without columns", lambda: tell_outcome(lambda: search.decide(lacking))


def _files(search: CascadeSearchCV, data: Data, labels: Any) -> Iterator[Part]:
    """Keep cascade, search and front in files, and let what was loaded answer."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.emsco"
        for name, model in (
            ("cascade", search.best_cascade_),
            ("search", search),
            ("front", search.front_),
        ):
            dump(model, path)
            yield f"file of the {name}", partial(tell_file, path)
            again = load(path, trusted=TRUSTED)
            if isinstance(again, ParetoFront):
                yield "loaded front", partial(list, again)
                continue
            yield f"loaded {name}", partial(again.decide, data.X_fresh)
            yield f"loaded {name}, odd rows", partial(_of_odd_rows, again, data.X_fresh)
            cascade = again if isinstance(again, CascadeClassifier) else again.best_cascade_
            yield f"fingerprint of the loaded {name}", partial(fingerprint, cascade)
            if isinstance(again, CascadeSearchCV):
                scored = partial(again.score_front, data.X_fresh, labels)
                yield "fresh figures of the loaded search", partial(tell_outcome, scored)
                last = partial(_chosen, again, data, 3)
                yield "another choice of the loaded search", partial(tell_outcome, last)
                yield "summary of the loaded search", again.summary


def _forget_questions() -> None:
    """Let the same rows answer again, in an emsco that has a ledger and names it as today."""
    ledger = sys.modules.get("emsco.rows.ledger")
    getattr(ledger, "forget_all", lambda: None)()


def _certified(search: CascadeSearchCV, data: Data, labels: Any) -> list[object]:
    asked: dict[str, Any] = {"accuracy": 0.7} if search.needs_labels else {"agreement": 0.8}
    _forget_questions()  # other searches are asked about the same rows
    certificate = certify(search, data.X_fresh, labels, confidence=0.9, random_state=0, **asked)
    return [certificate.sentence, repr(certificate), certificate.to_data()]


def _chosen(search: CascadeSearchCV, data: Data, number: int) -> list[object]:
    """Choose a candidate of the front anew, fit it, and decide by it."""
    candidate = search.front_[number * (len(search.front_) - 1) // 3]
    return [candidate, search.cascade(candidate).decide(data.X_fresh)]


def _of_odd_rows(model: Any, rows: Any) -> dict[str, str]:
    """Decide rows with values that cannot be judged, and all of them as text."""
    odd = {repr(value)[:20]: _damage(rows, value) for value in DAMAGED}
    odd["text"] = rows.map(str)
    return {name: tell_outcome(partial(model.decide, frame)) for name, frame in odd.items()}


def _damage(frame: Any, value: object) -> Any:
    """Put a value into a few cells, one in every column at least."""
    damaged = frame.astype(object)
    for column in range(damaged.shape[1]):
        damaged.iloc[column % ALONE, column] = value
    return damaged
