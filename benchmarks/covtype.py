"""A large table: covtype, 581,012 rows in 12 sources, searched on some rows and refitted on all."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator

from sklearn.model_selection import train_test_split

from benchmarks.measure import Result
from emsco import CascadeSearchCV, LocalSearch, evaluate
from emsco.datasets import load_covtype

MAX_ROWS = 10_000
SMALL_ROWS = 4_000  # in all, half of them searched


def run(*, small: bool = False) -> Iterator[Result]:
    """Search on 10,000 rows, refit on three quarters of all, judge on the rest."""
    X, y, costs = load_covtype()
    max_rows, strategy = MAX_ROWS, None
    if small:
        strategy = LocalSearch(evaluations=5_000, fits=100)
        X, _, y, _ = train_test_split(X, y, train_size=SMALL_ROWS, stratify=y, random_state=0)
        max_rows = SMALL_ROWS // 2
    loaded = _peak()
    train, fresh, y_train, y_fresh = train_test_split(X, y, stratify=y, random_state=0)
    refit: list[float] = []

    def watch(state: dict[str, object]) -> None:
        if state["phase"] in ("refit", "done"):
            refit.append(time.perf_counter())

    search = CascadeSearchCV(
        costs=costs,
        search=strategy,
        max_rows=max_rows,
        random_state=0,
        n_jobs=-1,
        callback=watch,
    )
    start = time.perf_counter()
    search.fit(train, y_train)
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    judged = evaluate(search.decide(fresh), y_fresh)
    decided = time.perf_counter() - start
    reference = evaluate(search.cascade(search.all_sources_).decide(fresh), y_fresh)
    facts = {
        "rows": len(y_train),
        "searched_rows": max_rows,
        "search": type(search.search_).__name__,
        "source_sets": search.history_[-1]["source_sets"],
        "refit_seconds": round(refit[-1] - refit[0], 1),
        "loaded_mb": round(loaded),
        "peak_mb": round(_peak()),
    }
    yield Result("covtype.fit_seconds", seconds, facts=facts)
    yield Result("covtype.decide_seconds", decided, facts={"rows": len(y_fresh)})
    yield Result(
        "covtype.price_share",
        judged.cost / costs.total,
        facts={
            "coverage": round(judged.coverage, 4),
            "accuracy": round(judged.accuracy, 4),
            "all_sources_accuracy": round(reference.accuracy, 4),
            "design": str(search.best_candidate_.design),
        },
    )


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
