"""`decide` against bare numpy: a million rows at once, and one row through the loop."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Result, best_times
from emsco import CascadeClassifier, StageDesign
from emsco.cascade.decision_loop import Answer, Ask, decide_rows, drive

ROWS = 1_000_000
FEATURES = 15
STAGES = 4
BLOCK = 65_536
THRESHOLD = 0.75

Stages = list[tuple[NDArray[np.intp], NDArray[np.float64], float]]


def problem() -> tuple[NDArray[np.float64], CascadeClassifier, Stages]:
    """Make rows, a cascade fitted on 2,000 of them, and its stages as columns, w and b."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, FEATURES))
    slopes = np.linspace(1.0, 0.3, FEATURES)
    y = (X[:2000] @ slopes + rng.logistic(size=2000) > 0).astype(int)
    design = StageDesign(np.arange(FEATURES) * STAGES // FEATURES)
    cascade = CascadeClassifier(design=design, threshold=THRESHOLD).fit(X[:2000], y)
    stages = []
    for number, estimator in enumerate(cascade.estimators_):
        columns = np.flatnonzero(design.assignment <= number)
        names = [f"x{column}" for column in columns]
        encodings: list[Any] = [cascade.decider_.readers[name].encoding for name in names]
        w = estimator.coef_[0] / [encoding.scale for encoding in encodings]
        b = estimator.intercept_[0] - w @ [encoding.centre for encoding in encodings]
        stages.append((columns, w, float(b)))
    return X, cascade, stages


def reference(X: NDArray[np.float64], stages: Stages, threshold: float) -> int:
    """Count the rows rejected by the program that `decide` is held against."""
    rejected = 0
    for start in range(0, len(X), BLOCK):
        A = X[start : start + BLOCK]
        for columns, w, b in stages:
            z = A[:, columns] @ w + b
            p = 1 / (1 + np.exp(-z))
            A = A[np.maximum(p, 1 - p) < threshold]
        rejected += len(A)
    return rejected


def reference_row(row: NDArray[np.float64], stages: Stages, threshold: float) -> bool:
    """Do the bare arithmetic of one row, stage after stage until it is accepted."""
    for columns, w, b in stages:
        z = row[columns] @ w + b
        p = 1 / (1 + np.exp(-z))
        if np.maximum(p, 1 - p) >= threshold:
            return True
    return False


def run(*, small: bool = False) -> list[Result]:  # noqa: ARG001  # seconds as it is
    """Measure a million rows, one row through the loop, and one row through `decide`."""
    X, cascade, stages = problem()
    decisions = cascade.decide(X)
    # The folded weights differ in the last bit, so a row on the very threshold may differ.
    assert abs(int((~decisions.accepted).sum()) - reference(X, stages, THRESHOLD)) <= 2
    ours, theirs = best_times(
        lambda: cascade.decide(X), lambda: reference(X, stages, THRESHOLD), rounds=11
    )
    exits = np.bincount(decisions.exit_stage, minlength=STAGES) / ROWS
    results = [
        Result(
            "decide, a million rows, against bare numpy",
            ours / theirs,
            1.25,
            facts={"seconds": round(ours, 4), "exits": exits.round(3).tolist()},
        )
    ]
    return results + _one_row(X, cascade, stages, decisions.exit_stage)


def _one_row(
    X: NDArray[np.float64], cascade: CascadeClassifier, stages: Stages, exits: NDArray[Any]
) -> list[Result]:
    results = []
    for stage in (0, STAGES - 1):
        at = int(np.flatnonzero(exits == stage)[0])
        rows = X[at : at + 1].copy()
        values = {name: rows[:, i] for i, name in enumerate(cascade.decider_.layout.names)}

        def answer(ask: Ask, values: dict[str, Any] = values) -> Answer:
            return Answer([values[feature] for feature in ask.features])

        def loop(answer: Any = answer) -> None:
            for _ in range(200):
                drive(decide_rows(cascade.decider_.plan, 1), answer)

        def bare(row: NDArray[np.float64] = rows[0]) -> None:
            for _ in range(200):
                reference_row(row, stages, THRESHOLD)

        def whole(rows: NDArray[np.float64] = rows) -> None:
            for _ in range(200):
                cascade.decide(rows)

        ours, theirs, all_of_it = (t / 200 for t in best_times(loop, bare, whole, rounds=15))
        facts = {"stages": stage + 1, "bare_microseconds": round(theirs * 1e6, 2)}
        facts |= {"microseconds": round(ours * 1e6, 2)}
        results.append(
            Result("one row through the loop, against bare numpy", ours / theirs, 8, facts=facts)
        )
        facts = {"stages": stage + 1, "microseconds": round(all_of_it * 1e6, 2)}
        results.append(Result("decide(X[:1]), against bare numpy", all_of_it / theirs, facts=facts))
    return results
