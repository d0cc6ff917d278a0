"""The promises about a cascade in use, and which of them can be watched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from numbers import Integral
from typing import Any

import numpy as np

from emsco._utils.frozen_mapping import FrozenMapping
from emsco.certify.monitor._alarms import (
    BadRate,
    BoundedMean,
    CostRate,
    PromiseEvidence,
    RejectionRate,
    StageTraffic,
)
from emsco.certify.monitor._evidence import upper_bound
from emsco.certify.monitor._sample import same_kind
from emsco.core.measure import DECISIONS, DRAWN_ANSWERS, DRAWN_LABELS, Measure
from emsco.core.measures import certifiable
from emsco.exceptions import MonitorError, nearest

ANSWERS_NEEDED = (
    "needs the final model's answers on a random share of early exits; set `share`, and pass "
    "the answers to `answered`"
)
LABELS_NEEDED = (
    "needs labels of a random share of all rows, including rejected ones; set `share`, and pass "
    "the labels to `labelled`"
)
_LACKING = {DRAWN_ANSWERS: ANSWERS_NEEDED, DRAWN_LABELS: LABELS_NEEDED}  # without a share of rows
LEFT_OUT = "it was left out"
NO_WATCH = (
    "no monitor can watch yet; from time to time, compare decisions with labels of a random share "
    "of all rows, using evaluate"
)
UNBREAKABLE = "it cannot be broken"


@dataclass(frozen=True)
class Promises:
    """The parameters of a `CertificateMonitor`, and what else a certificate promises.

    `targets` has the promises about what is right, by keyword; those by class are pairs of a class
    and a share, because JSON has only text for names. `min_coverage` and `max_cost` are what a
    certificate promised, whereas `coverage` and `cost` are what its rows showed. `left_out` names
    promises that the user does not want to be watched, and `without_watch` promises that no monitor
    can watch.
    """

    targets: Mapping[str, Any] = FrozenMapping()
    coverage: float | None = None
    cost: float | None = None
    exits: tuple[float, ...] | None = None
    stages: int | None = None
    total: float | None = None
    rows: float | None = None
    candidates: int = 1
    tolerance: float = 0.0
    share: float | None = None
    random_state: int | None = None
    alpha: float = 0.01
    keep: int = 100_000
    min_coverage: float | None = None
    max_cost: float | None = None
    left_out: tuple[str, ...] = ()
    without_watch: tuple[str, ...] = ()

    @classmethod
    def read(cls, promised: Mapping[str, Any]) -> Promises:
        """Read parameters, in which targets have keywords of their own, as in `to_dict`."""
        others = [field.name for field in fields(cls)][1:]
        known = [*watchable(), *others]
        for name in promised:
            if name not in known:
                raise TypeError(f"A monitor has no parameter {name!r}{nearest(name, known)}")
        targets = {name: promised[name] for name in watchable() if promised.get(name) is not None}
        parameters = {name: value for name, value in promised.items() if name in others}
        return cls(targets=FrozenMapping(targets), **parameters)

    def to_dict(self) -> dict[str, Any]:
        """Return all parameters as plain values."""
        none = {"accuracy": None, "agreement": None, "max_missed": ()}
        others = {field.name: getattr(self, field.name) for field in fields(self)[1:]}
        return {**none, **self.targets, **others}

    @classmethod
    def of(cls, certificate: Any, cascade: Any, options: Mapping[str, Any]) -> Promises:
        """Return what a certificate promises and what its rows showed; `options` override it."""
        certified, targets = certificate.check(cascade), certificate.targets
        if certificate.stake is not None:
            raise MonitorError(
                "A monitor counts rows, and this certificate counts the stake "
                f"{certificate.stake.column!r}; certify shares of rows to have them watched."
            )
        if certificate.groups is not None:
            raise MonitorError(
                "A monitor watches all rows together, and this certificate is by the groups of "
                f"{certificate.groups.column!r}; watch each group with a monitor of its own, "
                "CertificateMonitor(accuracy=...), which gets the rows of that group."
            )
        reached, total = np.array([*certified.reached, 0]), certified.prices[-1]
        promised = {
            **{m.target: value for m, value in targets.measures() if m.target in watchable()},
            "coverage": certified.evaluation.coverage,
            "cost": certified.evaluation.cost if total else None,
            "exits": ((reached[:-1] - reached[1:]) / reached[0]).tolist(),
        }
        left_out = [
            name
            for name, promise in promised.items()
            if promise is not None and options.get(name, promise) is None
        ]
        measures = dict(targets.measures())
        names = {measure.target: _names(measure, value) for measure, value in measures.items()}
        unwatched = [measure.target for measure in measures if not measure.watched_by]
        details = {
            "without_watch": [name for target in unwatched for name in names[target]],
            "stages": len(certified.reached),
            "total": total,
            "rows": certified.evaluation.rows,
            "candidates": certificate.tried,
            "min_coverage": targets.min_coverage,
            "max_cost": targets.max_cost,
            "left_out": [name for one in left_out for name in names.get(one, [one])],
        }
        return cls.read(promised | details | dict(options))

    def __post_init__(self) -> None:
        if self.exits is not None:
            object.__setattr__(self, "exits", tuple(map(float, self.exits)))
        if self.stages is None and self.exits is not None:
            object.__setattr__(self, "stages", len(self.exits))
        targets = {
            name: _pairs(value) if watchable()[name].is_by_class else value
            for name, value in self.targets.items()
        }
        object.__setattr__(self, "targets", FrozenMapping(targets))
        object.__setattr__(self, "left_out", tuple(self.left_out))
        object.__setattr__(self, "without_watch", tuple(self.without_watch))
        if self.random_state is not None:
            seed = self.random_state
            if not isinstance(seed, Integral) or seed < 0:
                raise MonitorError(f"`random_state` must be a whole number >= 0, got {seed!r}.")
            object.__setattr__(self, "random_state", int(seed))
        elif self.share is not None:
            seed = int(np.random.SeedSequence().generate_state(1)[0])
            object.__setattr__(self, "random_state", seed)
        self._check_promises()
        self._check_sample()
        if self.rows is not None and not self.rows > 0:
            raise MonitorError(f"`rows` must be above 0, got {self.rows}.")
        if self.candidates < 1:
            raise MonitorError(f"`candidates` must be at least 1, got {self.candidates}.")
        if not 0 < self.alpha < 1:
            raise MonitorError(f"`alpha` must be between 0 and 1, got {self.alpha}.")
        if self.keep < 1:
            raise MonitorError(f"`keep` must be at least 1, got {self.keep}.")

    def _check_promises(self) -> None:
        if not self._promised_names():
            raise MonitorError(
                f"Nothing is promised: give {', '.join(watchable())}, coverage, cost or exits."
            )
        shares: dict[str, float | None] = {
            f"`{measure.target}`" + f" of {label!r}" * (label is not None): share
            for measure, label, share in self.answers()
        }
        shares |= {"`coverage`": self.coverage, "`tolerance`": self.tolerance}
        for name, share in shares.items():
            if share is not None and not 0 <= share <= 1:
                raise MonitorError(f"{name} must be from 0 to 1, got {share}.")
        if self.cost is not None:
            total = self.total or 0.0
            if not (0 <= self.cost <= total and 0 < total < np.inf):
                raise MonitorError(
                    f"`cost` must be between 0 and `total`, the cost of a row that buys "
                    f"everything; got {self.cost} and {self.total}."
                )
        if self.exits is not None and (
            not all(share >= 0 for share in self.exits) or not abs(sum(self.exits) - 1) < 1e-6
        ):
            raise MonitorError(f"`exits` must be shares that sum to 1, got {self.exits}.")
        if self.exits is not None and self.stages != len(self.exits):
            raise MonitorError(
                f"There are {self.stages} stages, but `exits` has {len(self.exits)}."
            )

    def _check_sample(self) -> None:
        if "agreement" in self.targets and self.stages is None:
            raise MonitorError(
                "`agreement` needs `stages`: rows that exit at the last stage are decided by the "
                "final model."
            )
        if self.share is None:
            return
        if not 0 < self.share <= 1:
            raise MonitorError(f"`share` must be above 0 and at most 1, got {self.share}.")
        if not any(measure.watched_by in _LACKING for measure, _, _ in self.answers()):
            drawn = [
                f"`{n}`" for n, measure in watchable().items() if measure.watched_by in _LACKING
            ]
            raise MonitorError(
                f"`share` draws rows for {' and '.join(drawn)}, but none of them is promised."
            )

    def answers(self) -> list[tuple[Measure, Any, float]]:
        """List the promises about what is right: the measure, the class or None, the promise."""
        return [
            (measure, *pair)
            for name, measure in watchable().items()
            if (value := self.targets.get(name)) is not None
            for pair in (value if measure.is_by_class else [(None, value)])
        ]

    def _promised_names(self) -> list[str]:
        """List the names of what is promised."""
        names = [measure.name_of(label) for measure, label, _ in self.answers()]
        single = ("coverage", "cost", "exits")
        return names + [name for name in single if getattr(self, name) is not None]

    @property
    def lacking(self) -> dict[str, str]:
        """Why promises lack what they could be watched by, in words that follow "which"."""
        return self._lacking_share | dict.fromkeys(self.without_watch, NO_WATCH)

    @property
    def _lacking_share(self) -> dict[str, str]:
        """The promises that lack a share of rows to be watched by, with the reason."""
        if self.share is not None:
            return {}
        return {
            measure.name_of(label): _LACKING[measure.watched_by]
            for measure, label, _ in self.answers()
            if measure.watched_by in _LACKING
        }

    @property
    def not_watched(self) -> dict[str, str]:
        """The reasons why promises are not watched, by name."""
        watched = {watch.what for watch in self.watches()}
        unbreakable = {name: UNBREAKABLE for name in self._promised_names() if name not in watched}
        lacking = {name: f"it {why}" for name, why in self._lacking_share.items()}
        others = dict.fromkeys(self.without_watch, NO_WATCH)
        return dict.fromkeys(self.left_out, LEFT_OUT) | unbreakable | lacking | others

    def watches(self) -> list[PromiseEvidence]:
        """Return a watch for each promise; `alpha` is divided evenly among them."""
        n_watched = len(self._promised_names()) - len(self._lacking_share)
        alpha = self.alpha / max(n_watched, 1)
        # A false alarm needs a wrong estimate or false evidence: half of alpha for each.
        after_estimate = alpha if self.rows is None else alpha / 2

        def bound(share: float, parts: int = 1) -> float:
            share = min(max(share, 0.0), 1.0)
            if self.rows is not None:
                share = upper_bound(share, self.rows, alpha / 2 / parts / self.candidates)
            return share + self.tolerance

        watches = [
            PromiseEvidence(measure.name_of(label), [BadRate(measure, label, promised)], alpha)
            for measure, label, promised in self.answers()
            if self.share is not None or measure.watched_by not in _LACKING
        ]
        if self.coverage is not None:
            most = 1.0 if self.min_coverage is None else 1 - self.min_coverage
            rejected = RejectionRate(min(bound(1 - self.coverage), most))
            watches.append(PromiseEvidence("coverage", [rejected], after_estimate))
        if self.cost is not None and self.total is not None:
            most = 1.0 if self.max_cost is None else self.max_cost / self.total
            paid = CostRate(min(bound(self.cost / self.total), most), self.total)
            watches.append(PromiseEvidence("cost", [paid], after_estimate))
        if self.exits is not None:
            reaching = np.cumsum(self.exits[::-1])[::-1][1:].tolist()
            traffic: list[BoundedMean] = []
            for stage, share in enumerate(reaching, start=1):
                both = 2 * len(reaching)
                traffic.append(StageTraffic(bound(share, both), stage, more=True))
                traffic.append(StageTraffic(bound(1 - share, both), stage, more=False))
            watches.append(PromiseEvidence("exits", traffic, after_estimate))
        # A bound of 1 cannot be exceeded.
        return [watch for watch in watches if watch.means]


def watchable() -> dict[str, Measure]:
    """Return the measures that truths of rows show, by the keyword of their promise."""
    return {n: m for n, m in certifiable().items() if m.watched_by not in ("", DECISIONS)}


def _names(measure: Measure, value: Any) -> list[str]:
    """Return the names of the promises of a target, one per label if it has labels."""
    return [measure.name_of(label) for label in (value if measure.is_by_class else [None])]


def _pairs(shares: Mapping[Any, float] | Iterable[Any]) -> tuple[tuple[Any, float], ...]:
    """Return pairs of a class and its share; classes must be all text or all numbers."""
    pairs = shares.items() if isinstance(shares, Mapping) else shares
    plain = [(c.item() if isinstance(c, np.generic) else c, share) for c, share in pairs]
    kind = None
    for label, _ in plain:
        kind = same_kind(label, kind)
    return tuple((label, float(share)) for label, share in plain)
