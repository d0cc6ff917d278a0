"""Look before asking: the target is chosen by what `score_front` has shown on the same rows.

A front of cascades is shown on calibration rows, and then that figure is asked about which looks
best beside the one it was selected by: of which cascade, of which kind and of which class. The
target is as tight as a certificate can be that pays for every cascade shown, and one that pays for
every figure of each. The truth is known, because rows are drawn from a pool with replacement.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta  # type: ignore[import-untyped]  # scipy ships no types
from sklearn.datasets import make_classification

from emsco import Candidate, CascadeSearchCV, Costs, Evaluation, evaluate
from emsco.certify import certify
from emsco.exceptions import EmscoWarning
from emsco.rows.ledger import forget_all
from experiments.tables import exact_interval, markdown

CLASSES = (6, 12)
CONFIDENCES = (0.9, 0.99)
RUNS, SMALL_RUNS = 400, 20
PAYING = ("cascades", "figures")  # for what the level is divided when a target is chosen
_AGAIN = {"repeated rows": "rows are drawn from the pool with replacement"}
_FITTED, _POOL, _ROWS = 1000, 20_000, 600


class Figure(NamedTuple):
    """A share of rows to which something bad happens, as it can be asked about."""

    name: str
    label: Any
    events: float
    rows: float

    @property
    def share(self) -> float:
        """How often it happens; always, if there are no rows."""
        return self.events / self.rows if self.rows else 1.0

    def target(self, level: float) -> tuple[dict[str, Any], float]:
        """Give the tightest target that passes at a level, and the share that it allows."""
        allowed = float(beta.ppf(1 - level, self.events + 1, self.rows - self.events)) + 1e-9
        asked = 1 - allowed if self.name in ("accuracy", "min_precision") else allowed
        return {self.name: asked if self.label is None else {self.label: asked}}, allowed


def figures(found: Evaluation) -> Iterator[Figure]:
    """List all shares that can be asked about."""
    yield Figure("accuracy", None, found.accepted - found.right, found.accepted)
    for label, rows in found.class_rows.items():
        accepted, right = found.class_accepted[label], found.class_right[label]
        given = found.label_accepted.get(label, 0)
        yield Figure("max_missed", label, accepted - right, rows)
        yield Figure("max_rejected", label, rows - accepted, rows)
        yield Figure("min_precision", label, given - right, given)


class Population:
    """A search, and what is true of every candidate of its front."""

    def __init__(self, n_classes: int) -> None:
        X, y = make_classification(
            _FITTED + _POOL, 4, n_informative=4, n_redundant=0, n_classes=n_classes,
            n_clusters_per_class=1, class_sep=1.5, flip_y=0.05, random_state=n_classes,
        )  # fmt: skip
        costs = Costs.per_feature([2.0**i for i in range(4)])
        search = CascadeSearchCV(
            costs=costs, threshold=0.6, max_stages=1, luck=False, random_state=0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EmscoWarning)
            self.search = search.fit(X[:_FITTED], y[:_FITTED])
        self.pool, self.labels = X[_FITTED:], y[_FITTED:]
        self.candidates: list[Candidate] = list(self.search.front_)
        self.truth = [
            list(figures(evaluate(self.search.cascade(c).decide(self.pool), self.labels)))
            for c in self.candidates
        ]

    def draw(self, rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
        """Draw calibration rows."""
        drawn = rng.integers(len(self.pool), size=_ROWS)
        return self.pool[drawn], self.labels[drawn]


def run(*, small: bool, only: list[str] | None = None) -> str:  # noqa: ARG001
    """Look, choose and ask again and again; fail if too many promises are false."""
    runs, rows, broken = SMALL_RUNS if small else RUNS, [], []
    for n_classes in CLASSES[:1] if small else CLASSES:
        population = Population(n_classes)
        for paying, confidence in product(PAYING, CONFIDENCES):
            came = [_ask(population, confidence, seed, paying) for seed in range(runs)]
            issued, false = sum(c is not None for c in came), sum(c is False for c in came)
            low, high = exact_interval(false, runs)
            line = {
                "classes": n_classes, "target pays for": paying,
                "allowed": round(1 - confidence, 4), "runs": runs,
                "issued": issued, "false": false, "interval": [round(low, 4), round(high, 4)],
            }  # fmt: skip
            print(json.dumps(line), flush=True)
            rows.append(
                [str(n_classes), paying, f"{1 - confidence:.0%}", f"{issued / runs:.1%}",
                 f"{false / runs:.1%}", f"{low:.1%} to {high:.1%}"]
            )  # fmt: skip
            if low > 1 - confidence:
                broken.append(
                    f"{n_classes} classes, {paying}, {1 - confidence:.0%}: {false} of {runs}"
                )
    if broken:
        raise SystemExit(f"More promises are false than allowed: {'; '.join(broken)}")
    return markdown(
        ["classes", "target pays for", "allowed", "issued", "false", "95% interval"], rows
    )


def _ask(population: Population, confidence: float, seed: int, paying: str) -> bool | None:
    """Return whether a promise that was chosen by looking is true; None if none was made."""
    forget_all()
    search = population.search
    X, y = population.draw(np.random.default_rng(seed))
    fresh = {id(one.candidate): one.fresh for one in search.score_front(X, y)}
    luck = []
    for place, candidate in enumerate(population.candidates):
        known = figures(candidate.evaluation)
        for shown, selected, true in zip(
            figures(fresh[id(candidate)]), known, population.truth[place], strict=True
        ):
            # As an analyst knows it: how much better a figure looks here than where it was
            # selected, in standard errors. What is certain has nothing to be chosen for.
            usual = selected.share
            spread = np.sqrt(max(usual * (1 - usual), 1e-4) / max(shown.rows, 1))
            luck.append(((usual - shown.share) / spread, place, shown, true))
    _, place, shown, true = max(luck, key=lambda one: one[0])
    n_figures = 1 if paying == "cascades" else 3 + 3 * len(search.classes_)
    n_tried = len(search.front_) * n_figures
    asked, allowed = shown.target((1 - confidence) / n_tried / 1.0001)
    model = search.cascade(population.candidates[place])
    certificate = certify(model, X, y, confidence=confidence, keys=np.arange(len(y)),
                          allow=_AGAIN, **asked)  # fmt: skip
    return true.share <= allowed if certificate.certified else None
