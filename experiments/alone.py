"""Certificates of one cascade: of rows that belong together, and of one that always says the same.

A part of `certificates`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.dummy import DummyClassifier

from emsco import CascadeClassifier
from emsco.certify import Targets, certify_together
from emsco.certify._certify_together import one_row_a_group
from emsco.certify.binomial import tail
from emsco.datasets import load_thyroid
from emsco.rows.ledger import forget_all
from experiments.choices import hold, share_of
from experiments.tables import markdown


def groups_alike(repeats: int, settings: Sequence[tuple[float, float]], broken: list[str]) -> str:
    """Simulate rows of groups, of which every one is right with the group's own probability."""
    rng = np.random.default_rng(0)
    together = 1 / 0.3 - 1  # the sum of Beta's parameters for an intra-class correlation of 0.3
    n_groups, rows = 200, []
    for target, confidence in settings:
        for size in (5, 20):
            groups = np.repeat(np.arange(n_groups), size)
            false: dict[str, list[bool]] = {"one row a group": [], "all rows": []}
            for _ in range(repeats):
                # At the target itself, the hardest case that must not be certified.
                probability = rng.beta(together * target, together * (1 - target), n_groups)
                wrong = rng.random(len(groups)) >= np.repeat(probability, size)
                seed = np.random.RandomState(rng.integers(2**31))
                for name, rows_used in (
                    ("one row a group", one_row_a_group(groups, seed)),
                    ("all rows", np.arange(len(groups))),
                ):
                    p_value = tail(wrong[rows_used].sum(), len(rows_used), 1 - target)
                    false[name].append(bool(p_value <= 1 - confidence))
            hold(
                np.array(false["one row a group"]),
                1 - confidence,
                f"groups of {size}, {target} / {confidence}",
                broken,
            )
            rows.append(
                [
                    f"{target:.2f} / {confidence:.2f}",
                    str(size),
                    f"{repeats:,}",
                    *(share_of(np.array(found)) for found in false.values()),
                    f"{1 - confidence:.0%}",
                ]
            )
    header = ["accuracy / confidence", "rows a group", "repeats", "false with `groups`",
              "false without", "allowed"]  # fmt: skip
    return "200 groups whose rows resemble one another:\n\n" + markdown(header, rows)


def constant_answers(splits: int, broken: list[str]) -> str:
    """Certify a classifier that always says the same, on random halves of thyroid."""
    X, y, costs = load_thyroid()
    asked = {
        "accuracy 0.9": Targets(accuracy=0.9),
        "accuracy 0.9, sick missed at most 0.5": Targets(accuracy=0.9, max_missed={"sick": 0.5}),
        "sick missed at most 0.9": Targets(max_missed={"sick": 0.9}),
    }
    issued: dict[str, int] = dict.fromkeys(asked, 0)
    for split in range(splits):
        forget_all()  # every split is another study
        order = np.random.default_rng(split).permutation(len(y))
        train, fresh = order[: len(y) // 2], order[len(y) // 2 :]
        model = CascadeClassifier(DummyClassifier(strategy="prior"), costs=costs)
        model.fit(X.iloc[train], y[train])
        answers = certify_together(model, X.iloc[fresh], y[fresh], list(asked.values()))
        for name, answer in zip(asked, answers, strict=True):
            issued[name] += answer.certified
    broken += [f"constant: {name}" for name, count in issued.items() if "sick" in name and count]
    rows = [[name, f"{splits}", f"{count}"] for name, count in issued.items()]
    return "A constant classifier on thyroid:\n\n" + markdown(["asked", "splits", "issued"], rows)
