"""Prometheus metrics: decisions, money, sources, requests and alarms.

They are computed from the arrays of decisions and the counters of sources, without creating
receipts. Every series is looked up once and cached: an increment takes half a microsecond.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from emsco.core.decisions import INVALID_KEY, INVALID_VALUE, Decisions
from emsco.exceptions import require
from emsco.live import LiveCascade
from emsco.live.decision_log import DECISIONS, LABELS, DecisionLog
from emsco.live.purchases import FETCHED
from emsco.serve.audit_watch import OUTCOMES, AuditWatch
from emsco.serve.incarnation import Witness
from emsco.serve.rejection_causes import FAILURES, is_failure
from emsco.serve.shadow import ShadowAnswer
from emsco.serve.stream_checks import CLOSED, StreamChecks

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_DIGITS = 12  # of a digest, in the label `model`


class Metrics:
    """The Prometheus metrics of the service, in a separate registry.

    With several worker processes, call `emsco.serve.metrics_server.share_metrics` before this is
    imported: their counts are then added up.
    """

    def __init__(self) -> None:
        client = require("prometheus_client", "serve")
        self.registry = client.CollectorRegistry()
        self._series: dict[tuple[str, tuple[str, ...]], Any] = {}
        self._families: dict[str, Any] = {}
        self._seen: WeakKeyDictionary[Any, dict[str, float]] = WeakKeyDictionary()
        self._models: dict[str, _Model] = {}
        registry = self.registry
        for name, text, *labels in _COUNTERS:
            self._families[name] = client.Counter(name, text, labels, registry=registry)
        for name, text, mode, *labels in _GAUGES:
            self._families[name] = client.Gauge(
                name, text, labels, registry=registry, multiprocess_mode=mode
            )
        for name, text, *labels in _HISTOGRAMS:
            self._families[name] = client.Histogram(
                name, text, labels, registry=registry, buckets=_SECONDS
            )
        self._decide_seconds = self._one("emsco_decide_seconds").observe
        self._queue = self._one("emsco_queue_length").set
        for outcome in ("taken", "refused"):
            self._one("emsco_reloads_total", outcome)
        for what in (DECISIONS, LABELS):  # present from the start: an alert needs the initial 0
            self._one("emsco_log_lost_total", what)

    def _one(self, name: str, *labels: str) -> Any:
        """Return a series from the cache."""
        found = self._series.get((name, labels))
        if found is None:
            family = self._families[name]
            found = self._series[name, labels] = family.labels(*labels) if labels else family
        return found

    def model(self, live: LiveCascade, model: str | None = None) -> None:
        """Register a model: its prices, to count savings, and its sources."""
        costs, model = live.terms.decider.plan.costs, live.model if model is None else model
        self._models[model] = _Model(self._one, model, (costs[-1] - costs).tolist())
        for source in live.terms.bought:
            for kind in sorted(FAILURES):
                self._one("emsco_source_errors_total", source, kind)
            self._one("emsco_source_seconds", source)
            self._one("emsco_breaker_open", source).set(0)

    def decided(self, decisions: Decisions, seconds: float, model: str = "") -> None:
        """Count the decisions of one call."""
        n_rows = len(decisions)
        if not n_rows:
            return
        counted = self._models.get(model)
        if counted is None:
            counted = self._models[model] = _Model(self._one, model)
        self._decide_seconds(seconds)
        if n_rows == 1:
            counted.add_one(decisions)
        else:
            counted.add(decisions)
        for one in getattr(decisions.receipts, "purchases", ()):
            if FETCHED in one.batch.how:
                self._one("emsco_source_seconds", one.source).observe(one.waited)

    def shadowed(self, shadowed: ShadowAnswer, model: str) -> None:
        """Count what a cascade in shadow would have decided, changed and saved."""
        short, would_be = model[:_DIGITS], shadowed.would_be
        for stage, rows in enumerate(np.bincount(would_be.exit_stage[would_be.accepted]).tolist()):
            if rows:
                self._one("emsco_shadow_decisions_total", short, str(stage)).inc(rows)
        self._one("emsco_shadow_changed_total", short).inc(int(shadowed.changed.sum()))
        self._one("emsco_shadow_saved_total", short).inc(float(shadowed.saved.sum()))

    def canary(self, model: str, share: float) -> None:
        """Set the share of keys that a canary decides."""
        self._one("emsco_canary_share", model[:_DIGITS]).set(share)

    def request(self, status: int) -> None:
        """Count a response by status."""
        self._one("emsco_requests_total", str(status)).inc()

    def reloaded(self, outcome: str) -> None:
        """Count a reload: "taken" or "refused"."""
        self._one("emsco_reloads_total", outcome).inc()

    def queue(self, length: int) -> None:
        """Set the number of waiting requests."""
        self._queue(length)

    def state(self, witness: Witness) -> None:
        """Update whether the state has lost its data; call it about once a second."""
        self._one("emsco_state_lost").set(witness.is_lost)
        seen = self._seen.setdefault(witness, {})
        self._advance("emsco_state_moved_total", "", seen, witness.moved)

    def gates(self, *lives: LiveCascade) -> None:
        """Update the metrics of sources; call it about once a second."""
        is_open: dict[str, bool] = {}
        unknown: Counter[str] = Counter()
        for live in lives:
            seen = self._seen.setdefault(live, {})
            for source, gate in live.gates.items():
                is_open[source] = gate.caller.breaker.is_open or is_open.get(source, False)
                self._advance("emsco_source_calls_total", source, seen, gate.caller.calls)
                self._advance("emsco_source_retries_total", source, seen, gate.caller.retried)
            for source, spending in live.spending.items():
                self._advance("emsco_source_paid_total", source, seen, spending.paid)
                unknown[source] += spending.unknown  # type: ignore[assignment]  # of any number
        for source, is_so in is_open.items():
            self._one("emsco_breaker_open", source).set(is_so)
        for source, money in unknown.items():
            self._one("emsco_source_unknown", source).set(money)

    def logs(self, *logs: DecisionLog) -> None:
        """Update the losses of decision logs; call it about once a second."""
        for log in logs:
            seen = self._seen.setdefault(log, {})
            for what, entries in log.lost.items():
                self._advance("emsco_log_lost_total", what, seen, entries)

    def watch(self, watch: AuditWatch) -> None:
        """Update the metrics of the watch; call it about once a second."""
        seen = self._seen.setdefault(watch, {})
        self._advance("emsco_audited_total", "", seen, watch.counts["audited"])
        for outcome in OUTCOMES:
            count = watch.counts[f"labels {outcome}"]
            self._advance("emsco_labels_total", outcome, seen, count)
        for kind in (INVALID_VALUE, INVALID_KEY):
            self._advance("emsco_left_out_total", kind, seen, watch.counts[f"left out {kind}"])
        for model, followed in watch.models.items():
            short = model[:_DIGITS]
            alarms = {alarm.what for alarm in followed.alarms}
            for what, evidence in followed.evidence.items():
                self._one("emsco_alarm", short, what).set(what in alarms)
                self._one("emsco_evidence", short, what).set(evidence)
            total = followed.cohorts.value.total
            counted = {"labelled": total.labelled + total.rejected_labelled,
                       "unlabelled": total.unlabelled, "failed": total.failed}  # fmt: skip
            for what, rows in counted.items():
                self._one("emsco_audited_rows", short, what).set(rows)
            shares = {"labelled": total.accuracy, "at worst": total.accuracy_at_worst}
            for of, share in shares.items():
                self._one("emsco_accuracy", short, of).set(np.nan if share is None else share)

    def stream(self, stream: StreamChecks) -> None:
        """Update where the period of spot checks stands; call it about once a second."""
        standing = stream.description()
        self._one("emsco_period_ceiling").set(standing["ceiling"])
        self._one("emsco_period_arrivals").set(standing["arrivals"])
        if stream.period is None:
            return
        for name in ("known", "under_way", "tolerated", "check_rate"):
            self._one(f"emsco_period_{name}").set(standing[name])
        for what in ("cheap", "checked", "final"):
            self._one("emsco_period_rows", what).set(standing[what])
        self._one("emsco_period_number").set(standing["period"])
        self._one("emsco_period_end_seconds").set(stream.period.ends or np.nan)
        for why in CLOSED:
            self._one("emsco_period_closed", why).set(standing["closed"] == why)

    def _advance(self, name: str, label: str, seen: dict[str, float], value: float) -> None:
        """Advance a counter to another one, which may have restarted from zero."""
        key = f"{name} {label}"
        before = seen.get(key, 0.0)
        seen[key] = value
        series = self._one(name, label) if label else self._one(name)
        series.inc(value - before if value >= before else value)


class _Model:
    """The series of one model, and what a row saves that exits at each stage, if that is known."""

    def __init__(self, one: Callable[..., Any], model: str, savings: Sequence[float] = ()) -> None:
        self._one, self._name, self._savings = one, model[:_DIGITS], savings
        self._accepted = one("emsco_accepted_total", self._name).inc
        self._paid = one("emsco_paid_total", self._name).inc
        self._saved = one("emsco_saved_total", self._name).inc
        for stage in range(len(savings)):
            one("emsco_decisions_total", self._name, str(stage))

    def add_one(self, decisions: Decisions) -> None:
        """Count a call with a single row, the usual case, three times as fast as `add`."""
        (stage,), (accepted,) = decisions.exit_stage.tolist(), decisions.accepted.tolist()
        self._one("emsco_decisions_total", self._name, str(stage)).inc()
        self._paid(decisions.cost.tolist()[0])
        if accepted:
            self._accepted()
        elif self._rejected(decisions.reason.tolist()[0], 1):
            return  # a failing source saves nothing
        if stage < len(self._savings):
            self._saved(self._savings[stage])

    def add(self, decisions: Decisions) -> None:
        """Count the rows of a call."""
        rows = np.bincount(decisions.exit_stage).tolist()
        self._paid(float(decisions.cost.sum()))
        self._accepted(int(np.count_nonzero(decisions.accepted)))
        for stage, number in enumerate(rows):
            if number:
                self._one("emsco_decisions_total", self._name, str(stage)).inc(number)
        rejected = ~decisions.accepted
        if rejected.any():
            for reason, number in Counter(decisions.reason[rejected].tolist()).items():
                if self._rejected(reason, number):
                    failed = np.bincount(decisions.exit_stage[decisions.reason == reason])
                    rows = [n - lost for n, lost in zip_longest(rows, failed.tolist(), fillvalue=0)]
        self._saved(sum(n * saving for n, saving in zip(rows, self._savings, strict=False)))

    def _rejected(self, reason: str, rows: int) -> bool:
        """Count rejected rows; return whether a failing source is the cause."""
        kind, _, source = reason.partition(": ")
        by = "failure" if is_failure(reason) else "cascade"
        self._one("emsco_rejected_total", self._name, kind, by).inc(rows)
        if by == "failure":
            self._one("emsco_source_errors_total", source, kind).inc(rows)
        return by == "failure"


_COUNTERS = (
    ("emsco_decisions_total", "Rows decided, by exit stage.", "model", "exit_stage"),
    ("emsco_accepted_total", "Rows accepted.", "model"),
    ("emsco_rejected_total", "Rows rejected, by the kind of reason; by the cascade, or because a "
     "source failed.", "model", "kind", "by"),
    ("emsco_paid_total", "Amount paid for rows.", "model"),
    ("emsco_saved_total", "Price of the sources that rows did not need; rows rejected because of a "
     "failing source save nothing.", "model"),
    ("emsco_shadow_decisions_total", "Rows that the cascade would have decided in shadow, by exit "
     "stage.", "model", "exit_stage"),
    ("emsco_shadow_changed_total", "Rows that the cascade would have answered differently from the "
     "final model.", "model"),
    ("emsco_shadow_saved_total", "Amount that the cascade would have saved.", "model"),
    ("emsco_source_errors_total", "Rows rejected because a source failed.", "source", "kind"),
    ("emsco_source_calls_total", "Calls to a source.", "source"),
    ("emsco_source_retries_total", "Retries of failed calls.", "source"),
    ("emsco_source_paid_total", "Amount charged by a source.", "source"),
    ("emsco_requests_total", "Requests, by status of the response.", "status"),
    ("emsco_reloads_total", "Reloads, by whether the files were taken or refused.", "outcome"),
    ("emsco_state_moved_total", "Restarts of the store, or changes to another server."),
    ("emsco_log_lost_total", "Log entries that could not be written: decisions or labels.",
     "what"),
    ("emsco_audited_total", "Rows marked for the audit."),
    ("emsco_left_out_total", "Rows with an invalid key or value sent by the caller; they count for "
     "no promise.", "kind"),
    ("emsco_labels_total", "Labels received, by outcome.", "outcome"),
)  # fmt: skip
_GAUGES = (
    ("emsco_state_lost", "1 if the state has lost its data and paid calls have stopped.",
     "livemax"),
    ("emsco_queue_length", "Waiting requests.", "livesum"),
    ("emsco_breaker_open", "1 if calls to a failing source are paused.", "livemax", "source"),
    ("emsco_source_unknown", "Amount that a source may have charged for calls without an answer.",
     "sum", "source"),
    ("emsco_canary_share", "The share of keys that a canary decides; 0 if it was withdrawn.",
     "mostrecent", "model"),
    ("emsco_alarm", "1 if a promise no longer holds.", "mostrecent", "model", "promise"),
    ("emsco_evidence", "The evidence against a promise.", "mostrecent", "model", "promise"),
    ("emsco_audited_rows", "Audited rows of closed cohorts.", "mostrecent", "model", "what"),
    ("emsco_accuracy", "The accuracy of audited accepted rows: of those with a label, and if all "
     "others were wrong.", "mostrecent", "model", "of"),
    ("emsco_period_number", "The number of the period of spot checks.", "mostrecent"),
    ("emsco_period_end_seconds", "When the period ends, in seconds since 1970; NaN if it counts "
     "rows.", "mostrecent"),
    ("emsco_period_known", "Checks of the period that disagreed.", "mostrecent"),
    ("emsco_period_under_way", "Checks under way.", "mostrecent"),
    ("emsco_period_tolerated", "How many checks may disagree or be under way for a row to be "
     "admitted.", "mostrecent"),
    ("emsco_period_check_rate", "The probability that an admitted row is checked.", "mostrecent"),
    ("emsco_period_rows", "Rows of the period: answered cheaply, checked, or left to the final "
     "model.", "mostrecent", "what"),
    ("emsco_period_closed", "1 if the final model answers until the period ends, by reason.",
     "mostrecent", "reason"),
    ("emsco_period_arrivals", "Rows that are expected to arrive during a check.", "mostrecent"),
    ("emsco_period_ceiling", "The share of calls of the final model that the next period can avoid "
     "at most.", "mostrecent"),
)  # fmt: skip
_HISTOGRAMS = (
    ("emsco_decide_seconds", "Duration of calls."),
    ("emsco_source_seconds", "Time that rows waited for a source.", "source"),
)
