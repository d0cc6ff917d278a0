"""Fronts whose candidates decided every row of a pool, so that what is true of them is known.

Calibration rows are drawn from the pool with replacement; the truth about a candidate is then its
figure on the pool, exactly. A front is made once and kept in the folder that `EMSCO_CACHE` names,
or in one for temporary files.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_classification

import emsco
from emsco import Candidate, CascadeSearchCV, Costs, Evaluation, StageDesign
from emsco.certify import certify
from emsco.datasets import make_costly_classification
from emsco.exceptions import EmscoWarning
from emsco.rows.ledger import forget_all
from emsco.words.threshold import lowest, resolve

CLASSES = [0, 1]
KINDS = ("shared", "by class", "by stage")  # of thresholds
_BY_CLASS = (0.6, 0.75, 0.85, 0.92, 0.97)

Bits = NDArray[np.uint8]
Floats = NDArray[np.float32]
Numbers = NDArray[np.float64]


class Front(NamedTuple):
    """A front's selected figures, and what its cascades decide about every pool row."""

    selected: Numbers  # accepted, right, cost; of `rows` rows
    rows: int
    prices: Numbers  # paid up to each stage; the last one again where there are fewer
    truth: NDArray[np.intp]
    accepted: Bits  # packed, a row a candidate
    wrong: Bits
    reached: Bits  # candidates x later stages x packed rows
    drawn: NDArray[np.intp]  # pool rows that certify() was asked on, and whom it certified
    certified: NDArray[np.intp]


def _simulate(kind: str, number: int, pool: int, sources: int) -> Front:
    """Search one population, and decide the pool by every candidate of the front."""
    n_rows = (1000, 400)[number // 2 % 2]
    X, y, costs = _population(number, n_rows + pool, sources)
    thresholds: Any = {
        "shared": [0.55, 0.65, 0.75, 0.8, 0.85, 0.9, 0.93, 0.96, 0.98, 0.99],
        "by class": [{0: a, 1: b} for a in _BY_CLASS for b in _BY_CLASS],
        "by stage": "auto",
    }[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmscoWarning)
        search = CascadeSearchCV(
            costs=costs, threshold=thresholds, max_stages=3, random_state=number
        ).fit(X[:n_rows], y[:n_rows])
    front, rows, truth = search.front_, X[n_rows:], y[n_rows:]
    stages = _Stages(search, rows)
    accepted = np.zeros((len(front), pool), dtype=np.bool_)
    wrong = accepted.copy()
    reached = np.zeros((len(front), 2, pool), dtype=np.bool_)
    prices = np.empty((len(front), 3))
    for i, candidate in enumerate(front):
        design = candidate.design
        undecided = np.ones(pool, dtype=np.bool_)
        needed = resolve(candidate.threshold, CLASSES, design.n_stages)
        for stage in range(design.n_stages):
            if stage:
                reached[i, stage - 1] = undecided
            prices[i, stage:] = costs.of(design.acquired(stage))
            confidence, label = stages.judge(design.acquired(stage))
            sure = undecided & (confidence >= needed[stage][label])
            accepted[i] |= sure
            wrong[i] |= sure & (label != truth)
            undecided &= ~sure
    figures = [(c.evaluation.accepted, c.evaluation.right, c.evaluation.cost) for c in front]
    drawn = np.random.default_rng(number).integers(pool, size=1000)
    # Drawn twice, a row of the pool is two rows: the population has as many of each as one likes.
    keys = np.arange(len(drawn))
    forget_all()  # what was asked of other searches on the pool: here it is every population anew
    certificate = certify(
        search, rows[drawn], truth[drawn], accuracy=0.95, confidence=0.95, keys=keys
    )
    places = {candidate: i for i, candidate in enumerate(front)}
    certified = [places[c.candidate] for c in certificate.candidates]
    return Front(
        np.array(figures),
        n_rows,
        prices,
        truth,
        np.packbits(accepted, axis=-1),
        np.packbits(wrong, axis=-1),
        np.packbits(reached, axis=-1),
        drawn,
        np.array(certified, dtype=np.intp),
    )


def _population(number: int, n_rows: int, n_sources: int) -> tuple[Any, NDArray[np.intp], Costs]:
    """Make a population: where logistic regression is right, or where it is not."""
    rng = np.random.default_rng(number)
    costs = Costs.per_feature([2.0**i for i in range(n_sources)])
    if number % 2:
        X, y = make_classification(
            n_rows,
            n_features=n_sources,
            n_informative=n_sources - 1,
            n_redundant=1,
            flip_y=0.02,
            class_sep=rng.uniform(0.9, 1.6),
            random_state=number,
        )
        return X, y, costs
    X, y, _ = make_costly_classification(
        n_rows, n_sources, class_sep=rng.uniform(0.7, 1.3), random_state=rng
    )
    return X.to_numpy(), y, costs


class _Stages:
    """What each source set says about every pool row: a stage depends on the set alone."""

    def __init__(self, search: CascadeSearchCV, rows: Any) -> None:
        self._search = search
        self._rows = rows
        self._known: dict[tuple[str, ...], tuple[Numbers, NDArray[np.intp]]] = {}

    def judge(self, sources: tuple[str, ...]) -> tuple[Numbers, NDArray[np.intp]]:
        if sources not in self._known:
            names = self._search.costs_.names
            assignment = np.array([0 if name in sources else -1 for name in names])
            at_once = Candidate(
                StageDesign(assignment, names), lowest(len(CLASSES)), Evaluation(0, 0, 0, 0)
            )
            decisions = self._search.cascade(at_once).decide(self._rows)
            self._known[sources] = decisions.confidence, decisions.label
        return self._known[sources]


def kept_front(kind: str, number: int, *, pool: int, sources: int, code: str) -> Front:
    """Give the front of a population, made if it is not kept yet; `code` is that of now."""
    folder = Path(os.environ.get("EMSCO_CACHE") or Path(tempfile.gettempdir()) / "emsco")
    name = f"certificates-{code}-{pool}-{sources}-{kind.replace(' ', '_')}-{number}.npz"
    if (folder / name).is_file():
        with np.load(folder / name) as kept:
            return Front(**{field: kept[field][()] for field in Front._fields})
    front = _simulate(kind, number, pool, sources)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".npz", delete=False) as file:
        np.savez(file, **front._asdict())
    Path(file.name).replace(folder / name)
    return front


def code_of_now() -> str:
    """Tell the code by which fronts are made: those of another version must not be used."""
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for path in sorted(Path(emsco.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


class Counts(NamedTuple):
    """Counts of every candidate in every draw of calibration rows."""

    rows: Numbers  # a draw
    accepted: Numbers
    errors: Numbers
    missed: Numbers  # classes x candidates x draws
    class_rows: Numbers  # classes x draws
    reached: Numbers  # later stages x candidates x draws


def count(front: Front, weights: Floats) -> Counts:
    """Count in every draw; `weights` says how often it holds each pool row."""
    pool, draws = weights.shape

    def total(bits: Bits, weights: Floats) -> Numbers:
        plain = np.unpackbits(bits, axis=-1, count=pool).astype(np.float32)
        counted: Numbers = np.rint(plain @ weights).astype(np.float64)
        return counted

    ones = weights * (front.truth == 1)[:, None]
    both = total(front.wrong, np.hstack([weights, ones]))
    errors, missed = both[:, :draws], both[:, draws:]
    rows = weights.sum(axis=0).astype(np.float64)
    return Counts(
        rows,
        total(front.accepted, weights),
        errors,
        np.array([errors - missed, missed]),
        np.array([rows - ones.sum(axis=0), ones.sum(axis=0)]),
        np.array([total(front.reached[:, stage], weights) for stage in range(2)]),
    )


def accuracy_of(truth: Counts) -> Numbers:
    """Give the accuracy of every candidate."""
    return 1 - (truth.errors / np.maximum(truth.accepted, 1))[:, 0]
