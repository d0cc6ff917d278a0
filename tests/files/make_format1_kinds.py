"""How the files in format1/ were made, once, by the last emsco that wrote format 1.

One of each kind, and decisions.json with what each decides; they must stay loadable for ever.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.naive_bayes import GaussianNB

from emsco import CascadeClassifier, CascadeSearchCV, InputGuard, StageDesign, dump
from emsco.certify import certify

STAGES = StageDesign.from_stages([["cheap"], ["dear"]])
PRICES = {"cheap": 1.0, "dear": 20.0}


def rows(n_rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Draw rows of two columns and their labels."""
    rng = np.random.default_rng(seed)
    sick = rng.random(n_rows) < 0.5
    table = pd.DataFrame(
        {
            "cheap": np.round(sick + rng.normal(0, 0.8, n_rows), 3),
            "dear": np.round(4 * sick + rng.normal(0, 0.8, n_rows), 3),
        }
    )
    return table, np.where(sick, "sick", "well")


def make(folder: Path) -> None:
    """Write one file of each kind."""
    X, y = rows(120, 0)
    given = {"design": STAGES, "costs": PRICES, "threshold": 0.9}
    models = {
        "cascade": CascadeClassifier(**given).fit(X, y),
        "guarded": CascadeClassifier(**given, guard=InputGuard()).fit(X, y),
        "estimator": CascadeClassifier(GaussianNB(), **given).fit(X, y),
        "certified": CascadeClassifier(**given, guard=InputGuard()).fit(X, y),
        "search": CascadeSearchCV(costs=PRICES, threshold=0.9, cv=2, random_state=0).fit(X, y),
    }
    models["front"] = models["search"].front_
    fresh = rows(200, 1)
    models["certified"].certificate_ = certify(models["certified"], *fresh, accuracy=0.9)
    assert models["certified"].certificate_.certified
    table = rows(12, 2)[0]
    table.loc[1, "cheap"] = 1e9
    told: dict[str, object] = {"rows": table.to_dict("list")}
    for name, model in models.items():
        dump(model, folder / f"{name}.emsco")
        if name != "front":
            told[name] = model.decide(table).to_frame().to_dict("list")
    told["front"] = [str(candidate) for candidate in models["front"]]
    (folder / "decisions.json").write_text(json.dumps(told, indent=0), encoding="utf-8")


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make(Path(__file__).parent / "format1")
