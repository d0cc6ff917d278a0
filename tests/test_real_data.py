"""Real tables fit and decide as they are, without preprocessing by the user."""

from __future__ import annotations

import pandas as pd

from emsco import CascadeClassifier, Costs, Source, StageDesign, evaluate


def split(frame, seed=0):
    shuffled = frame.sample(frac=1, random_state=seed)
    y = shuffled.pop("label")
    half = len(shuffled) // 2
    return shuffled[:half], y[:half], shuffled[half:], y[half:]


def test_cleveland_with_its_missing_cells(data_folder):
    frame = pd.read_csv(data_folder / "heart_cleveland.csv")
    assert frame.isna().sum().sum() == 6
    X, y, X_fresh, y_fresh = split(frame)
    immediate = ["age", "sex", "cp", "trestbps"]
    design = StageDesign.from_stages([immediate, [c for c in X if c not in immediate]])
    cascade = CascadeClassifier(design=design, threshold=0.8)
    # Both halves must know that ca and thal can be missing.
    for column in ("ca", "thal"):
        assert X[column].isna().any()
    evaluation = evaluate(cascade.fit(X, y).decide(X_fresh), y_fresh)
    assert evaluation.accuracy > 0.8
    assert evaluation.cost < 13


def test_kdd_with_its_text_columns(data_folder):
    frame = pd.read_csv(data_folder / "kddcup99_dedup.csv.gz")
    assert len(frame) == 145_586
    text = [c for c in frame if not pd.api.types.is_numeric_dtype(frame[c])]
    assert len(text) == 3
    X, y, X_fresh, y_fresh = split(frame)
    columns = list(X)
    costs = Costs(
        [
            Source("header", features=columns[:9], cost=1),
            Source("content", features=columns[9:22], cost=10),
            Source("time_window", features=columns[22:31], cost=5),
            Source("host_window", features=columns[31:], cost=20),
        ]
    )
    design = StageDesign.from_stages([["header"], ["time_window"], ["host_window", "content"]])
    cascade = CascadeClassifier(design=design, costs=costs, threshold=0.95)
    evaluation = evaluate(cascade.fit(X, y).decide(X_fresh), y_fresh)
    assert evaluation.accuracy > 0.99
    assert evaluation.coverage > 0.97
    assert evaluation.cost < 0.1 * costs.total
