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
from emsco.certify import Targets, certify_together
from emsco.certify._hypothesis_family import UNSAID, Family, Floors, kept_by
from emsco.core.selection import Bounds
from emsco.core.threshold import lowest, resolve
from emsco.datasets import make_costly_classification
from emsco.exceptions import EmscoWarning, SelectionError
from emsco.rows.ledger import forget_all

CLASSES = [0, 1]
KINDS = ("shared", "by class", "by stage")  # of thresholds
_BY_CLASS = (0.6, 0.75, 0.85, 0.92, 0.97)

_COVERAGE = 0.7  # asked for where a candidate is chosen by bounds
# How one is chosen: by default, or as the cheapest with so much accuracy.
WAYS: dict[str, float | None] = {"default": None, "0.90 asked": 0.90, "0.95 asked": 0.95}
CHECKED = (  # what certify() was asked, and after which choice: the simulation must agree
    ("default", Targets(accuracy=0.95)),
    ("0.90 asked", Targets(accuracy=0.90)),
    ("default", Targets(max_rejected={1: 0.4}, min_precision={1: 0.9})),
)
CONFIDENCE = 0.95
_AGAIN = {"repeated rows": "rows are drawn from the pool with replacement"}

Bits = NDArray[np.uint8]
Floats = NDArray[np.float32]
Numbers = NDArray[np.float64]


class Front(NamedTuple):
    """A front's selected figures, and what its cascades decide about every pool row.

    All sources at once come last, where they were chosen and are not on the front.
    """

    selected: Numbers  # accepted, right, cost; accepted and right of class 1; of `rows` rows
    rows: int
    ones: int  # rows of class 1 among them
    on_front: int
    chosen: NDArray[np.intp]  # a place for each of `WAYS`; -1 where nothing can be had so
    keeps: NDArray[np.bool_]  # who keeps what was chosen so: a row for each of `WAYS`
    prices: Numbers  # paid up to each stage; the last one again where there are fewer
    truth: NDArray[np.intp]
    accepted: Bits  # packed, a row a candidate
    wrong: Bits
    reached: Bits  # candidates x later stages x packed rows
    drawn: NDArray[np.intp]  # pool rows that certify() was asked on
    certified: NDArray[np.bool_]  # whom it certified: a row for each of `CHECKED`

    def alone(self) -> Front:
        """Leave out what is not on the front."""
        n = self.on_front
        parts = ("selected", "prices", "accepted", "wrong", "reached")
        kept = {part: getattr(self, part)[:n] for part in parts}
        return self._replace(**kept, keeps=self.keeps[:, :n])

    def candidates(self) -> list[Candidate]:
        """Give candidates that have these figures, and nothing else of their own."""
        design = StageDesign.from_stages([["x0"]])
        n, ones = self.rows, self.ones
        return [
            Candidate(
                design,
                0.5 + place * 1e-6,  # so that no two are equal
                Evaluation(
                    n, accepted, right, cost * n,
                    class_rows={0: n - ones, 1: ones},
                    class_accepted={0: accepted - own, 1: own},
                    class_right={0: right - own_right, 1: own_right},
                ),
            )
            for place, (accepted, right, cost, own, own_right) in enumerate(self.selected.tolist())
        ]  # fmt: skip


class Places:
    """Who is tested of a front, as `certify` says, by their places."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self._all = front.candidates()
        self._costs = Costs.per_feature([1.0])
        self._places = {id(candidate): i for i, candidate in enumerate(self._all)}

    def of(self, targets: Targets, way: str | None) -> tuple[Family, NDArray[np.intp]]:
        """Give whom `certify` tests after a choice, and their places; None: without one."""
        chosen, floors, keeps = None, Floors(), None
        if way is not None:
            number = list(WAYS).index(way)
            chosen, keeps = self._all[self._front.chosen[number]], self._front.keeps[number]
            floors = floors_after(way)
        return self._placed(targets, chosen, floors, keeps)

    def before(self, targets: Targets, way: str) -> tuple[Family, NDArray[np.intp]]:
        """Give whom it tested before there was a place for what was chosen, of the same left."""
        return self._placed(targets, None, floors_after(way), None)

    def _placed(
        self,
        targets: Targets,
        chosen: Candidate | None,
        floors: Floors,
        keeps: NDArray[np.bool_] | None,
    ) -> tuple[Family, NDArray[np.intp]]:
        front = self._all[: self._front.on_front]

        def is_kept(candidate: Candidate) -> bool:
            return keeps is None or bool(keeps[self._places[id(candidate)]])

        family = Family.of(front, chosen, floors, targets, self._costs, is_kept)
        places = [self._places[id(candidate)] for candidate in family.candidates]
        return family, np.array(places, dtype=np.intp)


def floors_after(way: str) -> Floors:
    """Give what candidates are left out by after a choice."""
    asked = WAYS[way]
    if asked is None:
        return Floors((), UNSAID, is_said=False)
    return Floors(tuple(Bounds(min_accuracy=asked).limits), _COVERAGE)


def _simulate(kind: str, number: int, pool: int, sources: int) -> Front:
    """Search one population, and decide the pool by every candidate of the front."""
    n_rows = (1000, 400)[number // 2 % 2]
    X, y, costs = _population(number, n_rows + pool, sources)
    thresholds: Any = {
        "shared": [0.55, 0.65, 0.75, 0.8, 0.85, 0.9, 0.93, 0.96, 0.98, 0.99],
        "by class": [{0: a, 1: b} for a in _BY_CLASS for b in _BY_CLASS],
        "by stage": "auto",
    }[kind]
    search = CascadeSearchCV(
        costs=costs, threshold=thresholds, max_stages=3, random_state=number, luck=False
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmscoWarning)
        search.fit(X[:n_rows], y[:n_rows])
        made = [(_choose(search, way), kept_by(search, search.best_candidate_)) for way in WAYS]
    chosen = [candidate for candidate, _ in made]
    front, rows, truth = search.front_, X[n_rows:], y[n_rows:]
    everybody = [*front, *[search.all_sources_] * (search.all_sources_ in chosen)]
    stages = _Stages(search, rows)
    accepted = np.zeros((len(everybody), pool), dtype=np.bool_)
    wrong = accepted.copy()
    reached = np.zeros((len(everybody), 2, pool), dtype=np.bool_)
    prices = np.empty((len(everybody), 3))
    for i, candidate in enumerate(everybody):
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
    figures = [
        (e.accepted, e.right, e.cost, e.class_accepted[1], e.class_right[1])
        for e in (candidate.evaluation for candidate in everybody)
    ]
    drawn = np.random.default_rng(number).integers(pool, size=1000)
    return Front(
        np.array(figures),
        n_rows,
        int(front[0].evaluation.class_rows[1]),
        len(front),
        np.array([-1 if c is None else everybody.index(c) for c in chosen], dtype=np.intp),
        np.array([[keeps(c) for c in everybody] for _, keeps in made]),
        prices,
        truth,
        np.packbits(accepted, axis=-1),
        np.packbits(wrong, axis=-1),
        np.packbits(reached, axis=-1),
        drawn,
        _certified(search, rows[drawn], truth[drawn], everybody),
    )


def _choose(search: CascadeSearchCV, way: str) -> Candidate | None:
    asked = WAYS[way]
    try:
        if asked is None:
            return search.choose().best_candidate_
        return search.choose(min_accuracy=asked, min_coverage=_COVERAGE).best_candidate_
    except SelectionError:
        return None


def _certified(
    search: CascadeSearchCV, X: Any, y: NDArray[np.intp], everybody: list[Candidate]
) -> NDArray[np.bool_]:
    """Ask certify() itself, after each choice."""
    # Drawn twice, a row of the pool is two rows: the population has as many of each as one likes.
    keys = np.arange(len(y))
    found = np.zeros((len(CHECKED), len(everybody)), dtype=np.bool_)
    for own, (way, targets) in zip(found, CHECKED, strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EmscoWarning)
            if _choose(search, way) is None:
                continue
        forget_all()  # what was asked before on the pool: here it is every population anew
        (answer,) = certify_together(
            search, X, y, [targets], confidence=CONFIDENCE, keys=keys, allow=_AGAIN
        )
        own[[everybody.index(c.candidate) for c in answer.candidates]] = True
    return found


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
    rejected: Numbers  # the same
    class_rows: Numbers  # classes x draws
    reached: Numbers  # later stages x candidates x draws

    def alone(self, n: int) -> Counts:
        """Leave out all but the first candidates."""
        return self._replace(
            accepted=self.accepted[:n],
            errors=self.errors[:n],
            missed=self.missed[:, :n],
            rejected=self.rejected[:, :n],
            reached=self.reached[:, :n],
        )

    @property
    def given(self) -> Numbers:
        """How many rows are accepted under each label: right ones, and the other's errors."""
        accepted = self.class_rows[:, None] - self.rejected
        own: Numbers = accepted - self.missed + self.missed[::-1]
        return own


def count(front: Front, weights: Floats) -> Counts:
    """Count in every draw; `weights` says how often it holds each pool row."""
    pool = len(weights)

    def total(bits: Bits, weights: Floats) -> Numbers:
        plain = np.unpackbits(bits, axis=-1, count=pool).astype(np.float32)
        counted: Numbers = np.rint(plain @ weights).astype(np.float64)
        return counted

    ones = weights * (front.truth == 1)[:, None]
    errors, missed = np.hsplit(total(front.wrong, np.hstack([weights, ones])), 2)
    accepted, of_ones = np.hsplit(total(front.accepted, np.hstack([weights, ones])), 2)
    rows, n_ones = (own.sum(axis=0).astype(np.float64) for own in (weights, ones))
    class_rows = np.array([rows - n_ones, n_ones])
    return Counts(
        rows,
        accepted,
        errors,
        np.array([errors - missed, missed]),
        class_rows[:, None] - np.array([accepted - of_ones, of_ones]),
        class_rows,
        np.array([total(front.reached[:, stage], weights) for stage in range(2)]),
    )


def accuracy_of(truth: Counts) -> Numbers:
    """Give the accuracy of every candidate."""
    return 1 - (truth.errors / np.maximum(truth.accepted, 1))[:, 0]
