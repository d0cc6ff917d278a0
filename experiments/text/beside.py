"""The same batch processed by BARGAIN (PyPI `bargain`), with its own defaults.

Its accuracy is what emsco calls agreement: the share of all rows of the batch that end with the
answer of the dear model. It is given the label and the confidence of the cheap model for each row.
Its promise is about the batch as it is given back, rows that the dear model answered included.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from emsco import CascadeClassifier, Costs, StageDesign
from emsco.exceptions import require
from experiments.text.dear import Dear
from experiments.text.ours import Outcome


def cheap_model(log: pd.DataFrame, costs: Costs) -> CascadeClassifier:
    """Fit the stage before the dear model by itself: the same fit as in the cascade."""
    design = StageDesign.from_stages([["cheap"]], costs.names)
    model = CascadeClassifier(design=design, costs=costs, threshold=0.6)
    model.fit(log, Dear().predict(log))
    return model


def process(
    probabilities: NDArray[np.float64],
    answers: NDArray[np.int64],
    costs: Costs,
    target: float,
    confidence: float,
    seed: int,
) -> Outcome:
    """Process a batch; count how often the dear model is asked."""
    bargain = require("BARGAIN")
    proxy = _proxy(bargain, probabilities)
    oracle = _oracle(bargain, answers)
    method = bargain.BARGAIN_A(
        proxy, oracle, target=target, delta=1 - confidence, verbose=False, seed=seed
    )
    records = [str(row) for row in range(len(answers))]
    given, asked = method.process(records, return_oracle_usage=True)
    calls = int(np.sum(asked))
    if calls != len(oracle.asked):
        raise SystemExit(f"BARGAIN tells {calls} calls, and made {len(oracle.asked)}.")
    first, last = costs.names
    paid = costs.of([first]) + costs.of([last], paid=[first]) * calls / len(answers)
    changed = int(np.sum(np.array(given) != answers))
    return Outcome(len(oracle.sampled), calls, changed, changed, paid)


def _proxy(bargain: Any, probabilities: NDArray[np.float64]) -> Any:
    """Make BARGAIN's proxy of the probabilities that the cheap model gives."""
    label, confidence = probabilities.argmax(axis=1), probabilities.max(axis=1)

    class Cheap(bargain.Proxy):
        def proxy_func(self, record: str) -> tuple[int, float]:
            row = int(record)
            return int(label[row]), float(confidence[row])

    return Cheap(verbose=False, max_workers=1)


def _oracle(bargain: Any, answers: NDArray[np.int64]) -> Any:
    """Make BARGAIN's oracle of the answers, which counts what it is asked."""

    class Asked(bargain.Oracle):
        def __init__(self) -> None:
            super().__init__(verbose=False, max_workers=1)
            self.asked: set[int] = set()
            self.sampled: set[int] = set()

        def oracle_func(self, record: str, given: Any) -> tuple[bool, int]:
            row = int(record)
            self.asked.add(row)
            if given != "":  # to be checked, not to be labelled: a sample
                self.sampled.add(row)
            return bool(given == answers[row]), int(answers[row])

    return Asked()
