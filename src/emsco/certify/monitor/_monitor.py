"""A watch over a cascade at work: it alarms when what was promised no longer holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from emsco._ground.frozen import FrozenMapping
from emsco._ground.table import text_table
from emsco.certify.monitor._given import kind_of, listed_keys, listed_labels
from emsco.certify.monitor._promises import UNBREAKABLE, Promises
from emsco.certify.monitor._sample import Accepted, Counted, Sample
from emsco.certify.monitor._watches import DRAWN_ANSWERS, DRAWN_LABELS, LABELS
from emsco.certify.monitor._watching import Alarm, Raised, Watching
from emsco.exceptions import MonitorError, MonitorWarning, warn
from emsco.words.decisions import Decisions

_FORMAT = 2  # of the state; another number where an older state could not be read any more
_DRAWN = {
    DRAWN_ANSWERS: "the final model's answer",
    DRAWN_LABELS: "a label, which rejected rows need too",
}


class CertificateMonitor:
    """Watches decisions as they happen, and labels as they come, for broken promises.

    It alarms when accuracy, agreement or coverage falls below, a share missed or cost rises above,
    or the traffic of a stage leaves what was promised. As long as all promises hold it alarms with
    a probability of at most `alpha`, ever, however often one looks and however late a change comes:
    the evidence is what a gambler wins who bets against the promise, which no rule of stopping can
    inflate. `alpha` is shared evenly among what is watched. `not_watched` names what is promised
    and cannot be watched, and a monitor that could watch nothing is refused.

    Accuracy needs labels of accepted rows, and these must be a fair sample of them: chosen without
    a look at whether the answer was right. Labels that come because someone complained, or only
    where a decision had consequences, are not, and no test can make them so. Choose a random share
    of the accepted rows at the time of the decision, find out their labels, and give the monitor
    those alone.

    Agreement and shares missed need more: the final model's answer on rows that never got to it,
    and labels of rejected rows. So the monitor draws a random `share` of all rows itself, as they
    are decided. `to_answer` and `to_label` name those whose truth it needs; give that by `answered`
    and `labelled`, whenever it comes. It counts in the order of the decisions, so that it does not
    matter which truth comes first. A row whose truth never comes holds back those after it, until
    you `give_up` on it or `keep` more are drawn; then it counts as right, which may hide a change
    but never makes an alarm.

    Parameters
    ----------
    accuracy : float, default=None
        The share of accepted rows labelled right that was promised. None: not watched, as below.
    agreement : float, default=None
        The share of rows decided as the final model, which is the last stage, would; needs `share`.
    max_missed : mapping of label to float, default=None
        By true class, the share of its rows accepted under another label; needs `share`.
    coverage : float, default=None
        The share of rows accepted.
    cost : float, default=None
        The mean paid per row; needs `total`.
    exits : sequence of float, default=None
        The share of rows that leave at each stage; they sum to 1. What is watched is the traffic of
        each stage after the first, in both directions.
    stages : int, default=None
        How many stages there are; None: as many as `exits` has.
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
    share : float, default=None
        The share of rows drawn for agreement and shares missed. None: these are not watched.
    random_state : int, default=None
        Which rows are drawn. None: a seed of its own, which `state` keeps.
    alpha : float, default=0.01
        The probability of any alarm, ever, while the promises hold.
    keep : int, default=100_000
        How many accepted rows may wait for a label, and how many rows drawn for their truth; beyond
        it the oldest are forgotten, or given up.

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
        agreement: float | None = None,
        max_missed: Mapping[Any, float] | None = None,
        coverage: float | None = None,
        cost: float | None = None,
        exits: Sequence[float] | None = None,
        stages: int | None = None,
        total: float | None = None,
        rows: float | None = None,
        candidates: int = 1,
        tolerance: float = 0.0,
        share: float | None = None,
        random_state: int | None = None,
        alpha: float = 0.01,
        keep: int = 100_000,
    ) -> None:
        self._begin(
            Promises(
                accuracy=accuracy,
                agreement=agreement,
                max_missed=max_missed,
                coverage=coverage,
                cost=cost,
                exits=None if exits is None else tuple(exits),
                stages=stages,
                total=total,
                rows=rows,
                candidates=candidates,
                tolerance=tolerance,
                share=share,
                random_state=random_state,
                alpha=alpha,
                keep=keep,
            )
        )
        self._warn_lacking()

    def _begin(self, promises: Promises) -> None:
        self._promises = promises
        self._watching = Watching(promises.watches())
        watches = self._watching.watches.values()
        if not watches:
            reasons = "; ".join(f"{what}: {why}" for what, why in promises.not_watched.items())
            raise MonitorError(f"Nothing can be watched, so no alarm could ever come: {reasons}.")
        share, seed = promises.share or 0.0, promises.random_state or 0
        self._samples = {
            watch.comes_with: Sample(share, seed, promises.keep, _DRAWN[watch.comes_with])
            for watch in watches
            if watch.comes_with in _DRAWN
        }
        self._accepted = Accepted(promises.keep)
        self._counts = {"decided": 0, "labelled": 0, "answered": 0, "unmatched": 0}
        named = [label for label, _ in promises.max_missed]
        self._kind = kind_of(np.array(named, dtype=object), None)  # of labels: text, or numbers

    def _warn_lacking(self) -> None:
        """Say at once what was promised and is not watched."""
        for what, reason in self._promises.lacking.items():
            warn(f"Not watched: {what}, which {reason.removeprefix('it ')}.", MonitorWarning)

    @classmethod
    def of(cls, certificate: Any, cascade: Any, **options: Any) -> Self:
        """Watch a certified cascade: what was promised, and what its calibration rows showed.

        Parameters
        ----------
        certificate : Certificate
            Gives what was promised; raises unless it holds for the cascade. Coverage, cost and
            exits are expected to stay as they were on its rows, besides what was promised of them.
        cascade : CascadeClassifier or CascadeSearchCV
            The very cascade at work, or the search that has chosen it.
        **options : dict
            Other parameters of the monitor, and promises to replace these; None: not watched.
        """
        monitor = cls.__new__(cls)
        monitor._begin(Promises.of(certificate, cascade, options))
        monitor._warn_lacking()
        return monitor

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """The first alarm on each promise, as they came."""
        return tuple(self._watching.alarms.values())

    @property
    def evidence(self) -> Mapping[str, float]:
        """The evidence against each promise now; it alarms at 1 / its share of `alpha`."""
        return FrozenMapping(self._watching.evidence)

    @property
    def counts(self) -> Mapping[str, int]:
        """Rows decided, forgotten, given up and waiting; labels and answers used, or unmatched."""
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
        """Why promises are not watched, by their name.

        One that needs labels or answers is named too while none have come, and one that needs
        rows drawn while fewer than half of them have counted.
        """
        lacking = {
            what: self._rows[watch.comes_with].lacking
            for what, watch in self._watching.watches.items()
            if watch.comes_with in self._rows
        }
        now = {what: why for what, why in lacking.items() if why}
        return FrozenMapping(self._promises.not_watched | now)

    @property
    def _rows(self) -> dict[str, Accepted | Sample]:
        """The rows that wait, by what makes them count."""
        return {LABELS: self._accepted, **self._samples}

    @property
    def to_answer(self) -> tuple[Any, ...]:
        """The keys of early exits that were drawn and wait for the final model's answer."""
        return tuple(self._samples[DRAWN_ANSWERS].waiting) if DRAWN_ANSWERS in self._samples else ()

    @property
    def to_label(self) -> tuple[Any, ...]:
        """The keys of rows, accepted or not, that were drawn and wait for a label."""
        return tuple(self._samples[DRAWN_LABELS].waiting) if DRAWN_LABELS in self._samples else ()

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
        listed = list(range(first, first + len(decisions))) if keys is None else listed_keys(keys)
        if len(listed) != len(decisions):
            raise MonitorError(f"{len(decisions)} decisions have {len(listed)} keys.")
        self._refuse_foreign(decisions)
        self._kind = kind_of(decisions.label, self._kind)
        raised = self._watching.decided(decisions)
        self._counts["decided"] += len(decisions)
        if "accuracy" in self._watching.watches:
            self._accepted.decided(decisions, listed)
        for name, sample in self._samples.items():
            # The final model is the last stage: rows that left there agree with it.
            last = (self._promises.stages or 0) - 1 if name == DRAWN_ANSWERS else None
            rows = sample.decided(decisions, listed, first, last)
            raised += self._watching.counted(name, rows)
        return self._raise(raised)

    def labelled(self, keys: Iterable[Any], labels: ArrayLike) -> tuple[Alarm, ...]:
        """Take the true labels of earlier rows in; give the alarms they raise.

        A missing label, None or NaN, is no label. One of a row that was forgotten, labelled before,
        never decided, or rejected and not drawn is counted as unmatched, and ignored.

        Parameters
        ----------
        keys : iterable of int or str
            What `decided` called the rows.
        labels : array
            Their labels.
        """
        named = listed_keys(keys)
        given = listed_labels(labels, named, self._kind)
        return self._learn_truth("labelled", (LABELS, DRAWN_LABELS), named, given)

    def answered(self, keys: Iterable[Any], answers: ArrayLike) -> tuple[Alarm, ...]:
        """Take in what the final model answers on rows drawn; give the alarms this raises.

        A missing answer, None or NaN, is none. One of a row that does not wait for it is counted as
        unmatched, and ignored.

        Parameters
        ----------
        keys : iterable of int or str
            What `decided` called the rows, as `to_answer` lists them.
        answers : array
            What the final model answers on them.
        """
        named = listed_keys(keys)
        given = listed_labels(answers, named, self._kind)
        return self._learn_truth("answered", (DRAWN_ANSWERS,), named, given)

    def give_up(self, keys: Iterable[Any]) -> tuple[Alarm, ...]:
        """Wait no longer for the truth of rows drawn, which then count as right.

        What waited behind them counts now; give the alarms this raises.
        """
        named = listed_keys(keys)
        raised: list[Raised] = []
        for name, sample in self._samples.items():
            rows = [row for place, key in enumerate(named) for row in sample.gave_up(place, key)]
            raised += self._watching.counted(name, rows)
        return self._raise(raised)

    def state(self) -> dict[str, Any]:
        """Give all that the monitor knows as plain values, ready for JSON.

        A few kilobytes, and as many keys and labels as rows wait for one.
        """
        return {
            "format": _FORMAT,
            "promised": asdict(self._promises),
            "counts": dict(self._counts),
            **self._watching.state(),
            "accepted": self._accepted.state(),
            "drawn": {name: sample.state() for name, sample in self._samples.items()},
            "kind": self._kind,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Go on where `state` was taken."""
        if state.get("format") != _FORMAT:
            raise MonitorError(f"The state has the format {state.get('format')!r}, not {_FORMAT}.")
        try:
            monitor = cls.__new__(cls)
            monitor._begin(Promises(**state["promised"]))
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
        header = ["promise", "evidence", "alarm from", "alarm at", "of late"]
        return text_table(header, self._watching.cells(self.not_watched))

    def _raise(self, raised: Sequence[Raised]) -> tuple[Alarm, ...]:
        """Keep new alarms; each also says what is not watched when the call ends."""
        if not raised:
            return ()
        lacking = [what for what, why in self.not_watched.items() if why != UNBREAKABLE]
        return self._watching.keep(raised, lacking)

    def _learn_truth(
        self, used: str, by: Sequence[str], keys: list[Any], truths: list[Any]
    ) -> tuple[Alarm, ...]:
        """Tell waiting rows what is true of them, and count those that can be counted."""
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
        """Refuse decisions that cannot be those of the cascade that is watched."""
        stages = self._promises.stages
        if stages is not None and decisions.exit_stage.max(initial=0) >= stages:
            raise MonitorError(
                f"A row left at stage {decisions.exit_stage.max()}, but {stages} stages are "
                f"expected; watch another cascade by a monitor of its own."
            )
        if not np.isfinite(decisions.cost).all():
            raise MonitorError("Every row must have a finite cost.")
