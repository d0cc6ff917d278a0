"""Rows of which some are hostile: by their keys, by what is sent beside them, or by their answers.

Every value is another number, so that one that reaches another row is known by its owner. Keys and
regions differ by nothing but case where they can.
"""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from emsco import CascadeClassifier, Costs, Decisions, InputGuard, Source, StageDesign
from emsco.exceptions import GuardWarning

REDIS, JSON, POSTGRES, MARIADB, SQLITE, FUNCTION, HTTP = NAMES = (
    "redis", "json", "postgres", "mariadb", "sqlite", "function", "http",
)  # fmt: skip
STAGES = ((REDIS, FUNCTION), (JSON, POSTGRES), (MARIADB, SQLITE), (HTTP,))
HOSTILE = 0.02  # of the rows, half by what is asked and half by what is answered
_TRAINED = 4_000

# A key, and what is sent beside it; None stands for what the row really has.
BAD_KEYS: tuple[tuple[Any, Any], ...] = (
    ("..", "eu"), (".", "eu"), ("", "eu"), ("%2e%2e", "eu"), ("../../eu/c1", "eu"),
    ("..\\c1", "eu"), ("a\0b", "eu"), ("\udcff", "eu"), (5, "eu"), (0, "eu"),
    (2**70, "eu"), (-1, "eu"),
    ("eu:c1", "eu"), ("c1", "eu:x"), ("c1' OR 1=1 --", "eu"), ("None", "eu"), ("nan", "eu"),
    ("c1 ", "eu"), ("c" * 5_000, "eu"), ("{key}", "eu"), ("*", "eu"), ("c1\r\nX: y", "eu"),
    (None, None), (None, float("nan")), (None, True), (None, False), (None, ""), (None, ".."),
    (None, ["eu"]), (None, "eu "), (None, "None"), (None, 1), (None, float("inf")), (None, "\0"),
)  # fmt: skip

# Ways to answer, at one source each.
DEEP, TWICE, BOOLEAN, HUGE, TEXT, OTHER, LEFT, BOMB, REFUSED, LIST, ABSENT = (
    "deep", "twice", "boolean", "huge", "text", "other", "left", "bomb", "refused", "list",
    "absent",
)  # fmt: skip
BAD_ANSWERS: tuple[tuple[str, str], ...] = (
    (REDIS, LIST), (REDIS, TEXT), (REDIS, OTHER), (REDIS, HUGE), (REDIS, ABSENT),
    (JSON, DEEP), (JSON, TWICE), (JSON, BOOLEAN), (JSON, HUGE), (JSON, TEXT), (JSON, OTHER),
    (JSON, LIST), (POSTGRES, ABSENT), (MARIADB, ABSENT), (SQLITE, ABSENT), (SQLITE, TEXT),
    (FUNCTION, BOOLEAN), (FUNCTION, HUGE), (FUNCTION, TEXT), (FUNCTION, ABSENT),
    (FUNCTION, REFUSED),
    (HTTP, DEEP), (HTTP, TWICE), (HTTP, BOOLEAN), (HTTP, HUGE), (HTTP, TEXT), (HTTP, LEFT),
    (HTTP, BOMB), (HTTP, REFUSED), (HTTP, LIST), (HTTP, ABSENT),
)  # fmt: skip


class Spoiled(NamedTuple):
    """How a row is hostile: by what is asked, or by how one source answers."""

    asked: tuple[Any, Any] | None = None
    source: str = ""
    way: str = ""


class Rows:
    """So many rows, the same in every process.

    Parameters
    ----------
    n_rows : int
        How many.
    """

    def __init__(self, n_rows: int) -> None:
        self.n_rows = n_rows
        rng = np.random.default_rng(37)
        self.values = rng.normal(size=(_TRAINED + n_rows, len(NAMES)))[_TRAINED:]
        rng = np.random.default_rng(38)
        drawn = rng.random(n_rows)
        keys, answers = (
            rng.integers(len(BAD_KEYS), size=n_rows),
            rng.integers(len(BAD_ANSWERS), size=n_rows),
        )
        self.spoiled: dict[int, Spoiled] = {}
        for row in np.flatnonzero(drawn < HOSTILE).tolist():
            if drawn[row] < HOSTILE / 2:
                self.spoiled[row] = Spoiled(BAD_KEYS[keys[row]])
            else:
                self.spoiled[row] = Spoiled(None, *BAD_ANSWERS[answers[row]])

    def name(self, row: int) -> tuple[str, str]:
        """Give the key of a row in the stores, and its region."""
        letter, region = (("c", "eu"), ("C", "eu"), ("c", "us"), ("c", "EU"))[row % 4]
        return f"{letter}{row // 4}", region

    def ask(self, row: int) -> tuple[Any, Any]:
        """Give the key and the region with which a row is asked for."""
        key, region = self.name(row)
        spoiled = self.spoiled.get(row)
        if spoiled is None or spoiled.asked is None:
            return key, region
        bad_key, bad_region = spoiled.asked
        return (key if bad_key is None else bad_key), bad_region

    def way(self, row: int, source: str) -> str:
        """Say how a source answers for a row; "" if as it should."""
        spoiled = self.spoiled.get(row)
        return spoiled.way if spoiled is not None and spoiled.source == source else ""

    def value(self, row: int, source: str) -> float:
        """Give what a source has for a row."""
        return float(self.values[row, NAMES.index(source)])

    def other(self, row: int) -> int:
        """Give another row, whose answer is given for this one."""
        return (row + 4) % self.n_rows

    @cached_property
    def row_of(self) -> dict[tuple[str, str], int]:
        """The row of each key and region."""
        return {self.name(row): row for row in range(self.n_rows)}

    @cached_property
    def cascades(self) -> tuple[CascadeClassifier, CascadeClassifier]:
        """Two cascades, fitted on other rows: in stages, and one that buys everything at once.

        The second asks every source for every row, also with keys that the first stage refuses.
        """
        X = np.random.default_rng(37).normal(size=(_TRAINED, len(NAMES)))
        noise = np.random.default_rng(39).logistic(scale=0.3, size=_TRAINED)
        y = (X.sum(axis=1) + noise > 0).astype(int)
        costs = Costs([Source(name, cost=1 + i) for i, name in enumerate(NAMES)])

        def fitted(stages: list[list[str]], threshold: tuple[float, ...]) -> CascadeClassifier:
            design = StageDesign.from_stages(stages)
            cascade = CascadeClassifier(
                design=design, costs=costs, guard=InputGuard(), threshold=threshold
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", GuardWarning)
                cascade.fit(pd.DataFrame(X, columns=list(NAMES)), y)
            return cascade

        # Such that every stage decides some of the rows, and the last one is asked for many.
        staged = fitted([list(stage) for stage in STAGES], (0.97, 0.97, 0.97, 0.8))
        return staged, fitted([list(NAMES)], (0.8,))

    @cached_property
    def decided(self) -> tuple[Decisions, Decisions]:
        """What each cascade decides on the table of the true values."""
        table = pd.DataFrame(self.values, columns=list(NAMES))
        staged, at_once = (cascade.decide(table) for cascade in self.cascades)
        return staged, at_once
