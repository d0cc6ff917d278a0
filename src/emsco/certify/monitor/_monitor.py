"""A monitor of a cascade in use, which raises an alarm when a promise no longer holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from emsco._utils.frozen_mapping import FrozenMapping
from emsco._utils.text_table import text_table
from emsco.certify.monitor._alarms import Alarm, AlarmBoard, Raised
from emsco.certify.monitor._promises import UNBREAKABLE, Promises
from emsco.certify.monitor._sample import (
    AcceptedRows,
    AuditSample,
    Counted,
    kind_of,
    listed_keys,
    listed_labels,
)
from emsco.core.decisions import Decisions
from emsco.core.measure import DRAWN_ANSWERS, DRAWN_LABELS, LABELS
from emsco.exceptions import MonitorError, MonitorWarning, warn

_FORMAT = 2  # of the state
_DRAWN = {
    DRAWN_ANSWERS: "the final model's answer",
    DRAWN_LABELS: "a label, which rejected rows need too",
}


class CertificateMonitor:
    """Watches decisions and labels as they arrive, and raises an alarm if a promise is broken.

    It alarms if accuracy, agreement or coverage falls below, a share missed or the cost rises
    above, or the traffic of a stage leaves what was promised. While all promises hold, the
    probability of any alarm, ever, is at most `alpha`, however often you look and however late a
    change comes: the evidence is the gain of a gambler who bets against the promise, which no
    stopping rule can inflate. `alpha` is shared evenly among the promises watched. `not_watched`
    lists promises that cannot be watched; a monitor that could watch nothing is refused.

    Accuracy needs labels of accepted rows, and these must be a fair sample: chosen without knowing
    whether the answer was right. Labels that come from complaints, or only where a decision had
    consequences, are not a fair sample, and no test can make them one. Choose a random share of the
    accepted rows at the time of the decision, find out their labels, and give only those.

    Agreement and shares missed need more: the final model's answer on rows that never reached it,
    and labels of rejected rows. So the monitor itself draws a random `share` of all rows as they
    are decided. `to_answer` and `to_label` list the rows whose truth it needs; pass it to
    `answered` and `labelled` whenever it arrives. Rows count in the order of their decisions, so it
    does not matter which truth arrives first. A row whose truth never arrives holds back those
    after it, until you `give_up` on it or `keep` more rows are drawn; it then counts as right,
    which may hide a change but never causes an alarm.

    Parameters
    ----------
    accuracy : float, default=None
        The promised share of accepted rows labelled right. None: not watched, as for the others.
    agreement : float, default=None
        The share of rows decided as the final model (the last stage) would; needs `share`.
    max_missed : mapping of label to float, default=None
        Per true class, the share of its rows accepted under another label; needs `share`.
    **targets
        Any other promise about what is right, by the keyword of its measure in `certify`.
    coverage : float, default=None
        The share of rows accepted.
    cost : float, default=None
        The mean cost per row; needs `total`.
    exits : sequence of float, default=None
        The share of rows that exit at each stage; they sum to 1. The traffic of each stage after
        the first is watched, in both directions.
    stages : int, default=None
        The number of stages; None: the length of `exits`.
    total : float, default=None
        The cost of a row that buys everything; a row that costs more counts as this much.
    rows : float, default=None
        The number of rows on which coverage, cost and exits were estimated. The error of such an
        estimate is then allowed, and half of `alpha` is kept for it. None: they are exact.
    candidates : int, default=1
        The number of candidates among which the cascade was chosen by looking at those rows: the
        best of many looks better than it is, so the allowed error grows with their number.
    tolerance : float, default=0.0
        By how much coverage and traffic may differ without counting as a change, as a share of
        rows; and cost, as a share of `total`.
    share : float, default=None
        The share of rows drawn for agreement and shares missed. None: these are not watched.
    random_state : int, default=None
        The seed of the rows drawn. None: a random seed, which `state` keeps.
    alpha : float, default=0.01
        The maximum probability of any alarm, ever, while the promises hold.
    keep : int, default=100_000
        How many accepted rows may wait for a label, and how many drawn rows for their truth; beyond
        that, the oldest are forgotten or given up.

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

    def __init__(self, **promises: Any) -> None:
        self._begin(Promises.read(promises))
        self._warn_lacking()

    def _begin(self, promises: Promises) -> None:
        self._promises = promises
        self._watching = AlarmBoard(promises.watches())
        watches = self._watching.watches.values()
        if not watches:
            reasons = "; ".join(f"{what}: {why}" for what, why in promises.not_watched.items())
            raise MonitorError(f"Nothing can be watched, so no alarm is possible: {reasons}.")
        share, seed = promises.share or 0.0, promises.random_state or 0
        self._samples = {
            watch.watched_by: AuditSample(share, seed, promises.keep, _DRAWN[watch.watched_by])
            for watch in watches
            if watch.watched_by in _DRAWN
        }
        self._accepted = AcceptedRows(promises.keep)
        self._counts = {"decided": 0, "labelled": 0, "answered": 0, "unmatched": 0}
        named = [label for _, label, _ in promises.answers() if label is not None]
        self._kind = kind_of(np.array(named, dtype=object), None)  # of labels: text, or numbers

    def _warn_lacking(self) -> None:
        """Warn about promises that are not watched."""
        for what, reason in self._promises.lacking.items():
            warn(f"Not watched: {what}, which {reason}.", MonitorWarning)

    @classmethod
    def of(cls, certificate: Any, cascade: Any, **options: Any) -> Self:
        """Watch a certified cascade: its promises, and the figures of its calibration rows.

        Parameters
        ----------
        certificate : Certificate
            Gives the promises; it must hold for the cascade. Coverage, cost and exits are expected
            to stay as they were on its rows, in addition to what was promised about them.
        cascade : CascadeClassifier or CascadeSearchCV
            The cascade in use, or the search that has chosen it.
        **options : dict
            Other parameters of the monitor, and promises to replace these; None: not watched.
        """
        monitor = cls.__new__(cls)
        monitor._begin(Promises.of(certificate, cascade, options))
        monitor._warn_lacking()
        return monitor

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """The first alarm on each promise, in the order they were raised."""
        return tuple(self._watching.alarms.values())

    @property
    def evidence(self) -> Mapping[str, float]:
        """The current evidence against each promise; the alarm is at 1 / its share of `alpha`."""
        return FrozenMapping(self._watching.evidence)

    @property
    def counts(self) -> Mapping[str, int]:
        """Rows decided, forgotten, given up and waiting; labels and answers used or unmatched."""
        return FrozenMapping(
            {
                **self._counts,
                "forgotten": self._accepted.forgotten,
                "given_up": sum(sample.given_up for sample in self._samples.values()),
                "waiting": len(self._accepted.waiting.keys() | set(self.to_label)),
                "unanswered": len(self.to_answer),
            }
        )

    @property
    def not_watched(self) -> Mapping[str, str]:
        """The reasons why promises are not watched, by name.

        This includes promises that need labels or answers as long as none have arrived, and those
        that need drawn rows as long as fewer than half of these have counted.
        """
        lacking = {
            what: self._rows[watch.watched_by].lacking
            for what, watch in self._watching.watches.items()
            if watch.watched_by in self._rows
        }
        now = {what: why for what, why in lacking.items() if why}
        return FrozenMapping(self._promises.not_watched | now)

    @property
    def _rows(self) -> dict[str, AcceptedRows | AuditSample]:
        """The waiting rows, by what they wait for."""
        return {LABELS: self._accepted, **self._samples}

    @property
    def to_answer(self) -> tuple[Any, ...]:
        """The keys of drawn early exits that wait for the final model's answer."""
        return tuple(self._samples[DRAWN_ANSWERS].waiting) if DRAWN_ANSWERS in self._samples else ()

    @property
    def to_label(self) -> tuple[Any, ...]:
        """The keys of drawn rows, accepted or not, that wait for a label."""
        return tuple(self._samples[DRAWN_LABELS].waiting) if DRAWN_LABELS in self._samples else ()

    def decided(self, decisions: Decisions, keys: Iterable[Any] | None = None) -> tuple[Alarm, ...]:
        """Add decisions in their order, and return the alarms they raise.

        Parameters
        ----------
        decisions : Decisions
            The decisions.
        keys : iterable of int or str, default=None
            The keys by which labels will refer to these rows. None: their number, counted from 0
            over all decisions.
        """
        first = self._counts["decided"]
        listed = list(range(first, first + len(decisions))) if keys is None else listed_keys(keys)
        if len(listed) != len(decisions):
            raise MonitorError(f"{len(decisions)} decisions have {len(listed)} keys.")
        self._refuse_foreign(decisions)
        self._kind = kind_of(decisions.label, self._kind)
        raised = self._watching.decided(decisions)
        self._counts["decided"] += len(decisions)
        if any(watch.watched_by == LABELS for watch in self._watching.watches.values()):
            self._accepted.decided(decisions, listed)
        for name, sample in self._samples.items():
            # The final model is the last stage: rows that exit there agree with it.
            last = (self._promises.stages or 0) - 1 if name == DRAWN_ANSWERS else None
            rows = sample.decided(decisions, listed, first, last)
            raised += self._watching.counted(name, rows)
        return self._raise(raised)

    def labelled(self, keys: Iterable[Any], labels: ArrayLike) -> tuple[Alarm, ...]:
        """Add the true labels of earlier rows, and return the alarms they raise.

        A missing label (None or NaN) is skipped. The label of a row that was forgotten, labelled
        before, never decided, or rejected and not drawn is counted as unmatched and ignored.

        Parameters
        ----------
        keys : iterable of int or str
            The keys of the rows, as given to `decided`.
        labels : array
            Their labels.
        """
        named = listed_keys(keys)
        truths = listed_labels(labels, named, self._kind)
        return self._learn_truth("labelled", (LABELS, DRAWN_LABELS), named, truths)

    def answered(self, keys: Iterable[Any], answers: ArrayLike) -> tuple[Alarm, ...]:
        """Add the final model's answers on drawn rows, and return the alarms they raise.

        A missing answer (None or NaN) is skipped. The answer on a row that does not wait for one is
        counted as unmatched and ignored.

        Parameters
        ----------
        keys : iterable of int or str
            The keys of the rows, as listed by `to_answer`.
        answers : array
            The final model's answers on them.
        """
        named = listed_keys(keys)
        truths = listed_labels(answers, named, self._kind)
        return self._learn_truth("answered", (DRAWN_ANSWERS,), named, truths)

    def give_up(self, keys: Iterable[Any]) -> tuple[Alarm, ...]:
        """Stop waiting for the truth of drawn rows, which then count as right.

        Rows that waited behind them count now; return the alarms that this raises.
        """
        named = listed_keys(keys)
        raised: list[Raised] = []
        for name, sample in self._samples.items():
            rows = [row for place, key in enumerate(named) for row in sample.gave_up(place, key)]
            raised += self._watching.counted(name, rows)
        return self._raise(raised)

    def state(self) -> dict[str, Any]:
        """Return the state of the monitor as plain values, ready for JSON.

        It takes a few kilobytes, plus a key and a label for every waiting row.
        """
        return {
            "format": _FORMAT,
            "promised": self._promises.to_dict(),
            "counts": dict(self._counts),
            **self._watching.state(),
            "accepted": self._accepted.state(),
            "drawn": {name: sample.state() for name, sample in self._samples.items()},
            "kind": self._kind,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Continue from a `state`."""
        if state.get("format") != _FORMAT:
            raise MonitorError(f"The state has the format {state.get('format')!r}, not {_FORMAT}.")
        try:
            monitor = cls.__new__(cls)
            monitor._begin(Promises.read(state["promised"]))
            monitor._watching.restore(state)
            monitor._counts = {name: int(state["counts"][name]) for name in monitor._counts}
            monitor._accepted.restore(state["accepted"])
            for name, sample in monitor._samples.items():
                sample.restore(state["drawn"][name])
            monitor._kind = state["kind"]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise MonitorError(f"The state is incomplete or altered: {error!r}.") from error
        return monitor

    def __repr__(self) -> str:
        header = ["promise", "evidence", "alarm from", "alarm at", "recently"]
        return text_table(header, self._watching.cells(self.not_watched))

    def _raise(self, raised: Sequence[Raised]) -> tuple[Alarm, ...]:
        """Store new alarms; each one also says what is not watched at the end of the call."""
        if not raised:
            return ()
        lacking = [what for what, why in self.not_watched.items() if why != UNBREAKABLE]
        return self._watching.keep(raised, lacking)

    def _learn_truth(
        self, used: str, by: Sequence[str], keys: list[Any], truths: list[Any]
    ) -> tuple[Alarm, ...]:
        """Set the truth of waiting rows, and count those that can be counted."""
        waiting = {name: own for name, own in self._rows.items() if name in by}
        counted: dict[str, list[Counted]] = {name: [] for name in waiting}
        for place, (key, truth) in enumerate(zip(keys, truths, strict=True)):
            if truth is None:
                continue
            asking = [name for name, own in waiting.items() if key in own.waiting]
            for name in asking:
                counted[name] += waiting[name].learn_truth(place, key, truth)
            self._counts[used if asking else "unmatched"] += 1
        return self._raise(
            [one for name, own in counted.items() for one in self._watching.counted(name, own)]
        )

    def _refuse_foreign(self, decisions: Decisions) -> None:
        """Refuse decisions that cannot come from the cascade that is watched."""
        stages = self._promises.stages
        if stages is not None and decisions.exit_stage.max(initial=0) >= stages:
            raise MonitorError(
                f"A row exited at stage {decisions.exit_stage.max()}, but {stages} stages are "
                f"expected; use a separate monitor for another cascade."
            )
        if not np.isfinite(decisions.cost).all():
            raise MonitorError("Every row must have a finite cost.")
