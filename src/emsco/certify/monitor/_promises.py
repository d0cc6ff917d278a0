"""The promises about a cascade in use, and which of them can be watched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from emsco.certify.monitor._evidence import upper_bound
from emsco.certify.monitor._input import same_kind
from emsco.certify.monitor._statistics import (
    BoundedMean,
    ChangeRate,
    CostRate,
    ErrorRate,
    MissedRate,
    PromiseEvidence,
    RejectionRate,
    StageTraffic,
)
from emsco.exceptions import MonitorError

ANSWERS_NEEDED = (
    "it needs the final model's answers on a random share of early exits; set `share`, and pass "
    "the answers to `answered`"
)
LABELS_NEEDED = (
    "it needs labels of a random share of all rows, including rejected ones; set `share`, and pass "
    "the labels to `labelled`"
)
LEFT_OUT = "it was left out"
NO_WATCH = (
    "no monitor can watch yet; from time to time, compare decisions with labels of a random share "
    "of all rows, using evaluate"
)
UNBREAKABLE = "it cannot be broken"


@dataclass(frozen=True)
class Promises:
    """The parameters of a `CertificateMonitor`, and what else a certificate promises.

    `min_coverage` and `max_cost` are what a certificate promised, whereas `coverage` and `cost` are
    what its rows showed. `left_out` names promises that the user does not want to be watched, and
    `without_watch` promises that no monitor can watch.
    """

    accuracy: float | None = None
    agreement: float | None = None
    max_missed: Any = None  # once made, pairs of a class and a share: JSON has only text for names
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
    def of(cls, certificate: Any, cascade: Any, options: Mapping[str, Any]) -> Promises:
        """Return what a certificate promises and what its rows showed; `options` override it."""
        certified, targets = certificate.check(cascade), certificate.targets
        reached, total = np.array([*certified.reached, 0]), certified.prices[-1]
        promised = {
            "accuracy": targets.accuracy,
            "agreement": targets.agreement,
            "max_missed": targets.max_missed or None,
            "coverage": certified.evaluation.coverage,
            "cost": certified.evaluation.cost if total else None,
            "exits": ((reached[:-1] - reached[1:]) / reached[0]).tolist(),
        }
        left_out = [
            name
            for name, promise in promised.items()
            if promise is not None and options.get(name, promise) is None
        ]
        classes = [missed_name(label) for label in targets.max_missed]
        known = {*promised, "min_coverage", "max_cost"}
        others = {name: value for name, value in targets.to_dict().items() if name not in known}
        details = {
            "without_watch": [name for other in others.items() for name in _names(*other)],
            "stages": len(certified.reached),
            "total": total,
            "rows": certified.evaluation.rows,
            "candidates": certificate.tried,
            "min_coverage": targets.min_coverage,
            "max_cost": targets.max_cost,
            "left_out": [
                name for one in left_out for name in (classes if one == "max_missed" else [one])
            ],
        }
        return cls(**promised | details | dict(options))

    def __post_init__(self) -> None:
        if self.exits is not None:
            object.__setattr__(self, "exits", tuple(map(float, self.exits)))
        if self.stages is None and self.exits is not None:
            object.__setattr__(self, "stages", len(self.exits))
        object.__setattr__(self, "max_missed", _pairs(self.max_missed or ()))
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
                "Nothing is promised: give accuracy, agreement, max_missed, coverage, cost or "
                "exits."
            )
        names = ("accuracy", "agreement", "coverage", "tolerance")
        shares = {f"`{name}`": getattr(self, name) for name in names}
        shares |= {f"`max_missed` of {label!r}": most for label, most in self.max_missed}
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
        if self.agreement is not None and self.stages is None:
            raise MonitorError(
                "`agreement` needs `stages`: rows that exit at the last stage are decided by the "
                "final model."
            )
        if self.share is None:
            return
        if not 0 < self.share <= 1:
            raise MonitorError(f"`share` must be above 0 and at most 1, got {self.share}.")
        if self.agreement is None and not self.max_missed:
            raise MonitorError(
                "`share` draws rows for `agreement` and `max_missed`, but neither is promised."
            )

    def _promised_names(self) -> list[str]:
        """List the names of what is promised."""
        names = [name for name in ("accuracy", "agreement") if getattr(self, name) is not None]
        names += [missed_name(label) for label, _ in self.max_missed]
        single = ("coverage", "cost", "exits")
        return names + [name for name in single if getattr(self, name) is not None]

    @property
    def lacking(self) -> dict[str, str]:
        """The promises that lack what they could be watched by, with the reason."""
        return self._lacking_share | dict.fromkeys(self.without_watch, NO_WATCH)

    @property
    def _lacking_share(self) -> dict[str, str]:
        """The promises that lack a share of rows to be watched by, with the reason."""
        if self.share is not None:
            return {}
        lacking = {} if self.agreement is None else {"agreement": ANSWERS_NEEDED}
        return lacking | {missed_name(label): LABELS_NEEDED for label, _ in self.max_missed}

    @property
    def not_watched(self) -> dict[str, str]:
        """The reasons why promises are not watched, by name."""
        watched = {watch.what for watch in self.watches()}
        unbreakable = {name: UNBREAKABLE for name in self._promised_names() if name not in watched}
        return dict.fromkeys(self.left_out, LEFT_OUT) | unbreakable | self.lacking

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

        watches = []
        if self.accuracy is not None:
            watches.append(PromiseEvidence("accuracy", [ErrorRate(1 - self.accuracy)], alpha))
        if self.agreement is not None and self.share is not None:
            watches.append(PromiseEvidence("agreement", [ChangeRate(1 - self.agreement)], alpha))
        if self.share is not None:
            watches += [
                PromiseEvidence(missed_name(label), [MissedRate(most, label)], alpha)
                for label, most in self.max_missed
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


def missed_name(label: Any) -> str:
    """Return the name of the promise about a class."""
    return f"missed {label}"


def _names(target: str, value: Any) -> list[str]:
    """Return the names of the promises of a target, one per label if it has labels."""
    word = target.removeprefix("max_").removeprefix("min_")
    labels = value if isinstance(value, Mapping) else ()
    return [f"{word} {label}" for label in labels] or [word]


def _pairs(max_missed: Mapping[Any, float] | Iterable[Any]) -> tuple[tuple[Any, float], ...]:
    """Return pairs of a class and its share; classes must be all text or all numbers."""
    pairs = max_missed.items() if isinstance(max_missed, Mapping) else max_missed
    plain = [(c.item() if isinstance(c, np.generic) else c, share) for c, share in pairs]
    kind = None
    for label, _ in plain:
        kind = same_kind(label, kind)
    return tuple((label, float(share)) for label, share in plain)
