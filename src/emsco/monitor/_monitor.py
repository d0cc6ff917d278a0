"""A watch over a cascade at work: it alarms when what was promised no longer holds."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import exp
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from emsco._columns import is_missing
from emsco._frozen import FrozenMapping
from emsco._table import text_table
from emsco.decisions import Decisions
from emsco.exceptions import MonitorError
from emsco.monitor._watches import Promises, Watch

_FORMAT = 1  # of the state; another number where an older state could not be read any more
_LARGEST = 700.0  # exp(700) still fits a double


@dataclass(frozen=True)
class Alarm:
    """A promise that no longer holds.

    Attributes
    ----------
    what : str
        "accuracy", "coverage", "cost" or "exits".
    at : int
        After how many decisions, or for accuracy after how many labels of accepted rows.
    evidence : float
        How much a gambler would have won who bet against the promise, starting with 1.
    message : str
        What was seen of late, and what was promised.
    """

    what: str
    at: int
    evidence: float
    message: str


class CertificateMonitor:
    """Watches decisions as they happen, and labels as they come, for broken promises.

    It alarms when accuracy among accepted rows or coverage falls below, cost rises above, or the
    traffic of a stage leaves what was promised. As long as all promises hold it alarms with a
    probability of at most `alpha`, ever, however often one looks and however late a change comes:
    the evidence is what a gambler wins who bets against the promise, which no rule of stopping can
    inflate. `alpha` is shared evenly among what is watched.

    Accuracy needs labels of accepted rows, and these must be a fair sample of them: chosen without
    a look at whether the answer was right. Labels that come because someone complained, or only
    where a decision had consequences, are not, and no test can make them so. Choose a random share
    of the accepted rows at the time of the decision, find out their labels, and give the monitor
    those alone. Labels of accepted rows say nothing about rejected ones: for the share missed of a
    class, or to train anew, a random share of the rejected rows must be labelled as well.

    Parameters
    ----------
    accuracy : float, default=None
        The share of accepted rows labelled right that was promised. None: not watched, as below.
    coverage : float, default=None
        The share of rows accepted.
    cost : float, default=None
        The mean paid per row; needs `total`.
    exits : sequence of float, default=None
        The share of rows that leave at each stage; they sum to 1. What is watched is the traffic of
        each stage after the first, in both directions.
    total : float, default=None
        What a row pays that buys everything; one that pays more counts as much.
    rows : float, default=None
        How many rows coverage, cost and exits were estimated on. They are then allowed the error
        of such an estimate, and half of `alpha` is kept for it. None: they are exact.
    candidates : int, default=1
        Among how many the cascade was chosen with a look at those rows: the best of many looks
        better than it is, so the error allowed grows with their number.
    tolerance : float, default=0.0
        By how much coverage and traffic may differ without counting as a change, as a share of
        rows; and cost, as a share of `total`.
    alpha : float, default=0.01
        The probability of any alarm, ever, while the promises hold.
    keep : int, default=100_000
        How many accepted rows may wait for a label; beyond it the oldest are forgotten.

    Attributes
    ----------
    alarms : tuple of Alarm
        The first alarm on each promise.

    Examples
    --------
    >>> import numpy as np
    >>> from emsco import Decisions
    >>> from emsco.monitor import CertificateMonitor
    >>> rng = np.random.default_rng(0)
    >>> def decisions(n, last):
    ...     stage = (rng.random(n) < last).astype(int)
    ...     return Decisions(np.ones(n), np.ones(n, bool), stage, np.ones(n), 1 + 9 * stage)
    >>> monitor = CertificateMonitor(accuracy=0.95, exits=(0.9, 0.1), rows=2000)
    >>> for day in range(5):
    ...     _ = monitor.decided(decisions(1000, last=0.1))
    ...     _ = monitor.labelled(range(1000 * day, 1000 * day + 300), rng.random(300) < 0.96)
    >>> monitor.alarms
    ()
    >>> (alarm,) = monitor.decided(decisions(1000, last=0.2))
    >>> print(alarm.message)
    Stage 1 was bought for 20.3% of the last 765 rows; at most 12.6% are expected.
    >>> import json
    >>> again = CertificateMonitor.from_state(json.loads(json.dumps(monitor.state())))
    >>> again.alarms == monitor.alarms
    True
    """

    def __init__(
        self,
        *,
        accuracy: float | None = None,
        coverage: float | None = None,
        cost: float | None = None,
        exits: Sequence[float] | None = None,
        total: float | None = None,
        rows: float | None = None,
        candidates: int = 1,
        tolerance: float = 0.0,
        alpha: float = 0.01,
        keep: int = 100_000,
    ) -> None:
        self._promises = Promises(
            accuracy=accuracy,
            coverage=coverage,
            cost=cost,
            exits=None if exits is None else tuple(exits),
            total=total,
            rows=rows,
            candidates=candidates,
            tolerance=tolerance,
            alpha=alpha,
            keep=keep,
        )
        self._watches = {watch.what: watch for watch in self._promises.watches()}
        self._alarms: dict[str, Alarm] = {}
        self._pending: OrderedDict[Any, Any] = OrderedDict()
        self._counts = {"decided": 0, "labelled": 0, "unmatched": 0, "forgotten": 0}

    @classmethod
    def of(cls, certificate: Any, cascade: Any, **options: Any) -> Self:
        """Watch a certified cascade: the accuracy promised, and what its calibration rows showed.

        Parameters
        ----------
        certificate : Certificate
            Gives the accuracy that was promised; raises unless it holds for the cascade. Coverage,
            cost and exits are expected to stay as they were on its rows.
        cascade : CascadeClassifier or CascadeSearchCV
            The very cascade at work, or the search that has chosen it.
        **options : dict
            Other parameters of the monitor, and promises to replace these; None: not watched.
        """
        certified = certificate.check(cascade)
        reached, total = np.array([*certified.reached, 0]), certified.prices[-1]
        shown = {
            "accuracy": certificate.targets.accuracy,
            "coverage": certified.evaluation.coverage,
            "cost": certified.evaluation.cost if total else None,
            "exits": ((reached[:-1] - reached[1:]) / reached[0]).tolist(),
            "total": total,
            "rows": certified.evaluation.rows,
            "candidates": certificate.tried,
        }
        return cls(**shown | options)

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """The first alarm on each promise, as they came."""
        return tuple(self._alarms.values())

    @property
    def evidence(self) -> Mapping[str, float]:
        """The evidence against each promise now; it alarms at 1 / its share of `alpha`."""
        return FrozenMapping(
            {what: exp(min(watch.log_evidence, _LARGEST)) for what, watch in self._watches.items()}
        )

    @property
    def counts(self) -> Mapping[str, int]:
        """How many rows were decided, labels used, labels unmatched, and waiting rows forgotten."""
        return FrozenMapping({**self._counts, "waiting": len(self._pending)})

    def decided(self, decisions: Decisions, keys: Iterable[Any] | None = None) -> tuple[Alarm, ...]:
        """Take decisions in, in their order; give the alarms they raise.

        Parameters
        ----------
        decisions : Decisions
            What was decided.
        keys : iterable of int or str, default=None
            What labels will name these rows by. None: their number, counted from 0 over all
            decisions.
        """
        first = self._counts["decided"]
        listed = list(range(first, first + len(decisions))) if keys is None else _listed(keys)
        if len(listed) != len(decisions):
            raise MonitorError(f"{len(decisions)} decisions have {len(listed)} keys.")
        self._refuse_foreign(decisions)
        raised: list[Alarm] = []
        for watch in self._watches.values():
            if watch.what != "accuracy":
                raised += self._add(watch, [mean.numbers(decisions) for mean in watch.means], first)
        self._counts["decided"] += len(decisions)
        if "accuracy" in self._watches:
            self._wait(decisions, listed)
        return self._raise(raised)

    def labelled(self, keys: Iterable[Any], labels: ArrayLike) -> tuple[Alarm, ...]:
        """Take the true labels of earlier rows in; give the alarms they raise.

        A missing label, None or NaN, is no label. One of a row that was rejected, forgotten,
        labelled before or never decided is counted as unmatched, and ignored.

        Parameters
        ----------
        keys : iterable of int or str
            What `decided` called the rows.
        labels : array
            Their labels.
        """
        named, given = _listed(keys), _listed(labels)
        if len(named) != len(given):
            raise MonitorError(f"{len(named)} keys have {len(given)} labels.")
        wrong = []
        for key, label in zip(named, given, strict=True):
            if is_missing(label):
                continue
            if key in self._pending:
                wrong.append(self._pending.pop(key) != label)
            else:
                self._counts["unmatched"] += 1
        first = self._counts["labelled"]
        self._counts["labelled"] += len(wrong)
        watch = self._watches.get("accuracy")
        return self._raise(self._add(watch, [np.array(wrong)], first)) if watch and wrong else ()

    def state(self) -> dict[str, Any]:
        """Give all that the monitor knows as plain values, ready for JSON.

        A few kilobytes, and as many keys and labels as rows wait for one.
        """
        return {
            "format": _FORMAT,
            "promised": asdict(self._promises),
            "counts": dict(self._counts),
            "evidence": {
                what: [mean.evidence.state() for mean in watch.means]
                for what, watch in self._watches.items()
            },
            "alarms": [asdict(alarm) for alarm in self._alarms.values()],
            "waiting": [[key, label] for key, label in self._pending.items()],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Go on where `state` was taken."""
        if state.get("format") != _FORMAT:
            raise MonitorError(f"The state has the format {state.get('format')!r}, not {_FORMAT}.")
        try:
            monitor = cls(**state["promised"])
            for what, watch in monitor._watches.items():
                for mean, kept in zip(watch.means, state["evidence"][what], strict=True):
                    mean.evidence.restore(kept)
            monitor._counts = {name: int(state["counts"][name]) for name in monitor._counts}
            monitor._alarms = {alarm["what"]: Alarm(**alarm) for alarm in state["alarms"]}
            monitor._pending.update((key, label) for key, label in state["waiting"])
        except (KeyError, TypeError, ValueError) as error:
            raise MonitorError(f"The state is incomplete or altered: {error!r}.") from error
        return monitor

    def __repr__(self) -> str:
        rows = [
            [
                what,
                exp(min(watch.log_evidence, _LARGEST)),
                1 / watch.alpha,
                self._alarms[what].at if what in self._alarms else "",
                watch.tell(),
            ]
            for what, watch in self._watches.items()
        ]
        return text_table(["promise", "evidence", "alarm from", "alarm at", "of late"], rows)

    def _add(self, watch: Watch, numbers: Sequence[NDArray[Any]], first: int) -> list[Alarm]:
        """Take numbers in; give the alarm, if it is the first."""
        if watch.what in self._alarms:
            watch.follow(numbers)
            return []
        enough = watch.add(numbers)
        if enough is None:
            return []
        after, log_evidence, told = enough
        alarm = Alarm(watch.what, first + after, exp(min(log_evidence, _LARGEST)), told)
        return [alarm]

    def _raise(self, alarms: list[Alarm]) -> tuple[Alarm, ...]:
        """Keep new alarms, in the order that single rows would have raised them."""
        alarms.sort(key=lambda alarm: alarm.at)
        self._alarms |= {alarm.what: alarm for alarm in alarms}
        return tuple(alarms)

    def _wait(self, decisions: Decisions, keys: Sequence[Any]) -> None:
        """Remember what accepted rows were told, until their labels come."""
        told = zip(keys, decisions.label.tolist(), decisions.accepted.tolist(), strict=True)
        for key, label, accepted in told:
            if key in self._pending:  # decided again: the last decision is the one that counts
                del self._pending[key]
                self._counts["forgotten"] += 1
            if accepted:
                self._pending[key] = label
            if len(self._pending) > self._promises.keep:
                self._pending.popitem(last=False)
                self._counts["forgotten"] += 1

    def _refuse_foreign(self, decisions: Decisions) -> None:
        """Refuse decisions that cannot be those of the cascade that is watched."""
        exits = self._promises.exits
        if exits is not None and decisions.exit_stage.max(initial=0) >= len(exits):
            raise MonitorError(
                f"A row left at stage {decisions.exit_stage.max()}, but {len(exits)} stages are "
                f"expected; watch another cascade by a monitor of its own."
            )
        if not np.isfinite(decisions.cost).all():
            raise MonitorError("Every row must have a finite cost.")


def _listed(values: Any) -> list[Any]:
    """List values as Python's own."""
    if hasattr(values, "tolist"):
        listed: list[Any] = values.tolist()
        return listed
    return [value.item() if isinstance(value, np.generic) else value for value in values]
