"""A table as banks have it: 17 columns, one of them text; and a cascade that decides its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco import CascadeClassifier, Costs, Source, StageDesign
from emsco.exceptions import require

FITTED = 4_000  # rows
TOWNS = ["Basel", "Bern", "Chur", "Geneva", "Thun"]
STAGES = [["form"], ["bureau"], ["history"], ["visit"]]
COSTS = Costs(
    [
        Source("form", features=["x0", "x1", "n0", "town"], cost=1),
        Source("bureau", features=["x2", "x3", "x4", "n1"], cost=5),
        Source("history", features=["x5", "x6", "x7", "n2"], cost=10),
        Source("visit", features=["x8", "x9", "x10", "n3"], cost=60),
    ]
)


def applicants(n_rows: int) -> tuple[dict[str, Any], NDArray[Any]]:
    """Draw rows as columns, an id the first of them, and their labels."""
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {"id": np.arange(n_rows)}
    columns |= {f"x{i}": rng.normal(size=n_rows).round(4) for i in range(11)}
    columns |= {f"n{i}": rng.integers(0, 50, n_rows) for i in range(4)}
    columns["town"] = np.array(TOWNS, dtype=object)[rng.integers(0, len(TOWNS), n_rows)]
    score = sum(columns[f"x{i}"] * (1.2 - i / 12) for i in range(11))
    score = score + (columns["n0"] - 25) / 15 + (columns["town"] == "Bern")
    return columns, np.where(score + rng.logistic(size=n_rows) > 0, "good", "bad")


def fit(columns: dict[str, Any], y: NDArray[Any]) -> CascadeClassifier:
    """Fit a cascade of four stages on the first 4,000 rows."""
    X = require("pandas").DataFrame(
        {name: columns[name][:FITTED] for name in columns if name != "id"}
    )
    cascade = CascadeClassifier(design=StageDesign.from_stages(STAGES, COSTS.names), costs=COSTS)
    cascade.fit(X, y[:FITTED])
    return cascade
