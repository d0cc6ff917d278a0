"""How format1.emsco and format1.json were made, once: the file must stay loadable for ever."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd

from emsco import CascadeClassifier, Costs, InputGuard, Review, Source, StageDesign, dump

FIELDS = ("label", "accepted", "exit_stage", "confidence", "cost", "reason", "latency")


def make(folder: Path) -> None:
    """Fit a cascade with everything that a default one can have, and record what it decides."""
    rng = np.random.default_rng(2022)
    truth = rng.integers(3, size=300)
    table = pd.DataFrame(
        {
            "age": 40 + 10 * truth + rng.normal(0, 8, 300),
            "smoker": rng.choice(["yes", "no", "former"], 300),
            "marker": np.where(rng.random(300) < 0.1, np.nan, truth + rng.normal(size=300)),
            "ward": pd.Categorical(rng.integers(3, size=300)),
            "seen": rng.random(300) < 0.2 + 0.3 * truth,
        }
    )
    costs = Costs(
        [
            Source("questions", features=["age", "smoker"], cost=1.0, latency=0.5),
            Source("marker", cost=12.25, setup="blood", requires=["questions"]),
            Source("visit", features=["ward", "seen"], cost=30.0, setup="blood", latency=2.0),
        ],
        setups={"blood": 3.1},
        review=Review(50.0, accuracy=0.98),
        unit="EUR",
    )
    cascade = CascadeClassifier(
        design=StageDesign.from_stages([["questions"], ["marker"], ["visit"]]),
        costs=costs,
        threshold=(0.7, {"ill": 0.6, "\u00fcber": 0.8, "well": 0.65}, 0.5),
        guard=InputGuard(pool=["smoker"]),
    ).fit(table, np.array(["ill", "well", "\u00fcber"])[truth])
    rows = table[:40].copy()
    rows["ward"] = rows["ward"].astype(int)
    rows.loc[3, "age"] = 1e9
    rows.loc[5, "smoker"] = "never asked"
    rows.loc[7, "marker"] = None
    decisions = cascade.decide(rows)
    dump(cascade, folder / "format1.emsco")
    told = {field: getattr(decisions, field).tolist() for field in FIELDS}
    listed = {name: rows[name].astype(object).where(rows[name].notna(), None) for name in rows}
    told["rows"] = {name: column.tolist() for name, column in listed.items()}
    (folder / "format1.json").write_text(json.dumps(told, indent=0), encoding="utf-8")


if __name__ == "__main__":
    make(Path(__file__).parent)
