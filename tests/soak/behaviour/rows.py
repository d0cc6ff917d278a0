"""Rows with every kind of column, made up, their prices, and the containers that hold rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from emsco import Costs, Review, Source, StageDesign

COSTS = Costs(
    [
        Source("questions", features=["age", "smoker", "town"], cost=1, latency=0.5),
        Source("visits", cost=2.1, requires=["questions"]),
        Source("marker", cost=12.25, setup="blood", latency=2),
        Source("ward", features=["ward", "seen"], cost=30, setup="blood"),
        Source("scan", cost=100),
    ],
    setups={"blood": 3.1},
    review=Review(50.0, accuracy=0.98),
    unit="EUR",
)
DESIGN = StageDesign.from_stages([["questions"], ["marker", "visits"], ["ward", "scan"]])


def patients(n_rows: int, seed: int) -> tuple[Any, NDArray[Any]]:
    """Make rows of three classes: numbers, text, categories, booleans, and empty cells."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(3, size=n_rows)
    towns = np.array(["Basel", "Chur, GR", "NA", None], dtype=object)
    table = pd.DataFrame(
        {
            "age": (45 + 10 * truth + rng.normal(0, 8, n_rows)).round(),
            "smoker": rng.random(n_rows) < 0.2 + 0.2 * truth,
            "town": towns[np.minimum(rng.integers(4, size=n_rows) + (truth == 1), 3)],
            "visits": rng.integers(0, 9, n_rows) + truth,
            "marker": (2 * truth + rng.normal(0, 1, n_rows)).round(3),
            "ward": pd.Categorical(rng.integers(1, 4, size=n_rows)),
            "seen": rng.choice(["yes", "no", "later"], n_rows),
            "scan": (3 * truth + rng.normal(0, 1, n_rows)).round(3),
        }
    )
    table.loc[rng.random(n_rows) < 0.1, "marker"] = np.nan
    return table, np.array(["ill", "well", "\u00fcber"])[truth]


def as_polars(frame: Any) -> Any:
    """Turn a pandas frame into one of polars."""
    import polars

    lists = {n: column.astype(object).where(column.notna(), None) for n, column in frame.items()}
    return polars.DataFrame({name: values.to_list() for name, values in lists.items()})


def as_array(frame: Any) -> NDArray[Any]:
    """Turn a pandas frame into an array: of numbers where it holds nothing else."""
    array: NDArray[Any] = frame.to_numpy(dtype=float if is_numbers(frame) else object)
    return array


def is_numbers(frame: Any) -> bool:
    """Say whether a pandas frame holds numbers only."""
    return all(dtype.kind in "fiub" for dtype in frame.dtypes)
