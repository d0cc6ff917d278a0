"""What the service counts for Prometheus: decisions, money, sources, requests, alarms.

All of it comes from what is at hand: the arrays of decisions, and the counters of sources. No
receipt is made for it. Every series is looked up once and then kept: an increment takes half a
microsecond.
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
from emsco.serve.metrics_server import MetricsServer
from emsco.serve.rejection_causes import FAILURES, is_failure
from emsco.serve.shadow import ShadowAnswer

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_DIGITS = 12  # of a digest, in the label `model`
_MOST_REASONS = 10_000  # that are looked up once; a model has no more columns and sources


class Metrics:
    """What the service counts for Prometheus, in a registry of its own.

    With several worker processes, set up `emsco.serve.metrics_server.share_metrics` before this is
    imported: all of them then count together.

    Examples
    --------
    >>> from emsco import Decisions
    >>> from emsco.serve.metrics import Metrics
    >>> metrics = Metrics()
    >>> metrics.decided(Decisions(["no"], [False], [1], [0.6], [3.5]), seconds=0.004)
    >>> metrics.registry.get_sample_value("emsco_paid_total", {"model": ""})
    3.5
    """

    def __init__(self) -> None:
        client = require("prometheus_client", "serve")
        self.registry = client.CollectorRegistry()
        self._series: dict[tuple[str, tuple[str, ...]], Any] = {}
        self._families: dict[str, Any] = {}
        self._seen: WeakKeyDictionary[Any, dict[str, float]] = WeakKeyDictionary()
        self._models: dict[str, _Model] = {}
        self._latencies: dict[str, Any] = {}
        self._make(client)
        self._decide_seconds = self._one("emsco_decide_seconds").observe
        self._queue = self._one("emsco_queue_length").set
        for outcome in ("taken", "refused"):
            self._one("emsco_reloads_total", outcome)
        for what in (DECISIONS, LABELS):  # shown from the start: an alert needs the 0 before a loss
            self._one("emsco_log_lost_total", what)

    def _make(self, client: Any) -> None:
        for name, told, *labels in _COUNTERS:
            self._families[name] = client.Counter(name, told, labels, registry=self.registry)
        for name, told, mode, *labels in _GAUGES:
            self._families[name] = client.Gauge(
                name, told, labels, registry=self.registry, multiprocess_mode=mode
            )
        for name, told, *labels in _HISTOGRAMS:
            self._families[name] = client.Histogram(
                name, told, labels, registry=self.registry, buckets=_SECONDS
            )

    def _one(self, name: str, *labels: str) -> Any:
        """Return a series, looked up once."""
        found = self._series.get((name, labels))
        if found is None:
            family = self._families[name]
            found = self._series[name, labels] = family.labels(*labels) if labels else family
        return found

    def model(self, live: LiveCascade, model: str | None = None) -> None:
        """Know the prices of a model, so that what it saves is counted; show its sources.

        Parameters
        ----------
        live : LiveCascade
            What decides.
        model : str, default=None
            The digest under which it decides. None: its own.
        """
        costs, model = live.terms.decider.plan.costs, live.model if model is None else model
        self._models[model] = _Model(self._one, model, (costs[-1] - costs).tolist())
        for source in live.terms.bought:
            for kind in sorted(FAILURES):
                self._one("emsco_source_errors_total", source, kind)
            self._one("emsco_source_seconds", source)
            self._one("emsco_breaker_open", source).set(0)

    def decided(self, decisions: Decisions, seconds: float, model: str = "") -> None:
        """Count the decisions of one call.

        Parameters
        ----------
        decisions : Decisions
            The decisions.
        seconds : float
            How long the call took.
        model : str, default=""
            The digest of the model.
        """
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
            counted.add_many(decisions)
        for asked in getattr(decisions.receipts, "asked", ()):
            if FETCHED in asked.batch.how:
                observe = self._latencies.get(asked.source)
                if observe is None:
                    observe = self._one("emsco_source_seconds", asked.source).observe
                    self._latencies[asked.source] = observe
                observe(asked.waited)

    def shadowed(self, shadowed: ShadowAnswer, model: str) -> None:
        """Count what a cascade would have decided, changed and saved in shadow."""
        short, would_be = model[:_DIGITS], shadowed.would_be
        for stage, rows in enumerate(np.bincount(would_be.exit_stage[would_be.accepted]).tolist()):
            if rows:
                self._one("emsco_shadow_decisions_total", short, str(stage)).inc(rows)
        self._one("emsco_shadow_changed_total", short).inc(int(shadowed.changed.sum()))
        self._one("emsco_shadow_saved_total", short).inc(float(shadowed.saved.sum()))

    def canary(self, model: str, share: float) -> None:
        """Show the share of keys that a canary decides."""
        self._one("emsco_canary_share", model[:_DIGITS]).set(share)

    def request(self, status: int) -> None:
        """Count an answer, by its status."""
        self._one("emsco_requests_total", str(status)).inc()

    def reloaded(self, outcome: str) -> None:
        """Count a reload: "taken" or "refused"."""
        self._one("emsco_reloads_total", outcome).inc()

    def queue(self, length: int) -> None:
        """Show how many requests wait."""
        self._queue(length)

    def state(self, witness: Witness) -> None:
        """Show whether the state has lost its data; call it every second or so."""
        self._one("emsco_state_lost").set(witness.is_lost)
        seen = self._seen.setdefault(witness, {})
        self._advance("emsco_state_moved_total", "", seen, witness.moved)

    def gates(self, *lives: LiveCascade) -> None:
        """Show what the sources of live cascades have done; call it every second or so."""
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
        """Show what logs of decisions have lost; call it every second or so."""
        for log in logs:
            seen = self._seen.setdefault(log, {})
            for what, entries in log.lost.items():
                self._advance("emsco_log_lost_total", what, seen, entries)

    def watch(self, watch: AuditWatch) -> None:
        """Show what the watch knows; call it every second or so."""
        seen = self._seen.setdefault(watch, {})
        self._advance("emsco_audited_total", "", seen, watch.counts["audited"])
        for outcome in OUTCOMES:
            told = watch.counts[f"labels {outcome}"]
            self._advance("emsco_labels_total", outcome, seen, told)
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
            shown = {"labelled": total.accuracy, "at worst": total.accuracy_at_worst}
            for of, share in shown.items():
                self._one("emsco_accuracy", short, of).set(np.nan if share is None else share)

    def _advance(self, name: str, label: str, seen: dict[str, float], value: float) -> None:
        """Let a counter follow another one, which may have begun anew."""
        key = f"{name} {label}"
        before = seen.get(key, 0.0)
        seen[key] = value
        series = self._one(name, label) if label else self._one(name)
        series.inc(value - before if value >= before else value)

    def serve(self, port: int, host: str = "127.0.0.1", token: str | None = None) -> MetricsServer:
        """Answer Prometheus at http://host:port/metrics, in a thread; `close` ends it.

        Parameters
        ----------
        port : int
            The port; 0 takes a free one.
        host : str, default="127.0.0.1"
            The address.
        token : str, default=None
            The bearer token that Prometheus must send. None: everybody may read.
        """
        return MetricsServer(self.registry, port, host, token)


class _Model:
    """The series of one model.

    Parameters
    ----------
    one : callable
        Gives a series.
    model : str
        The digest of the model.
    savings : list of float, default=()
        What a row saves that leaves at each stage; empty where prices are not known.
    """

    def __init__(self, one: Callable[..., Any], model: str, savings: Sequence[float] = ()) -> None:
        self._one, self._name, self._savings = one, model[:_DIGITS], savings
        self._accepted = one("emsco_accepted_total", self._name).inc
        self._paid = one("emsco_paid_total", self._name).inc
        self._saved = one("emsco_saved_total", self._name).inc
        self._stages = [self._stage(stage) for stage in range(len(savings))]
        self._reasons: dict[str, tuple[Any, ...]] = {}

    def _stage(self, stage: int) -> Any:
        return self._one("emsco_decisions_total", self._name, str(stage)).inc

    def add_one(self, decisions: Decisions) -> None:
        """Count a single row, which most calls have."""
        (stage,), (accepted,) = decisions.exit_stage.tolist(), decisions.accepted.tolist()
        (cost,) = decisions.cost.tolist()
        if stage < len(self._stages):
            self._stages[stage]()
        else:
            self._stage(stage)()
        if cost:
            self._paid(cost)
        if accepted:
            self._accepted()
        elif self._rejected(decisions.reason.tolist()[0], 1):
            return  # a failing source saves nothing
        if stage < len(self._savings) and self._savings[stage]:
            self._saved(self._savings[stage])

    def add_many(self, decisions: Decisions) -> None:
        """Count the rows of a call."""
        rows = np.bincount(decisions.exit_stage).tolist()
        self._paid(float(decisions.cost.sum()))
        self._accepted(int(np.count_nonzero(decisions.accepted)))
        for stage, number in enumerate(rows):
            if number:
                self._stage(stage)(number)
        rejected = ~decisions.accepted
        if rejected.any():
            for reason, number in Counter(decisions.reason[rejected].tolist()).items():
                if self._rejected(reason, number):
                    failed = np.bincount(decisions.exit_stage[decisions.reason == reason])
                    rows = [n - lost for n, lost in zip_longest(rows, failed.tolist(), fillvalue=0)]
        self._saved(sum(n * saving for n, saving in zip(rows, self._savings, strict=False)))

    def _rejected(self, reason: str, rows: int) -> bool:
        """Count rows that were rejected; return whether a failing source did it."""
        series = self._reasons.get(reason)
        if series is None:
            series = self._reason(reason)
        for one in series:
            one.inc(rows)
        return len(series) > 1

    def _reason(self, reason: str) -> tuple[Any, ...]:
        """Return what is counted for a reason: two things, where a source failed."""
        kind, _, source = reason.partition(": ")
        by = "failure" if is_failure(reason) else "cascade"
        series = [self._one("emsco_rejected_total", self._name, kind, by)]
        if by == "failure":
            series.append(self._one("emsco_source_errors_total", source, kind))
        if len(self._reasons) < _MOST_REASONS:
            self._reasons[reason] = tuple(series)
        return tuple(series)


_COUNTERS = (
    ("emsco_decisions_total", "Rows decided, by exit stage.", "model", "exit_stage"),
    ("emsco_accepted_total", "Rows accepted.", "model"),
    ("emsco_rejected_total", "Rows rejected, by the kind of reason; by the cascade, or because a "
     "source failed.", "model", "kind", "by"),
    ("emsco_paid_total", "What rows have cost.", "model"),
    ("emsco_saved_total", "What the sources would have cost that rows did not need; rows that a "
     "failing source rejected save nothing.", "model"),
    ("emsco_shadow_decisions_total", "Rows that the cascade would have decided in shadow, by exit "
     "stage.", "model", "exit_stage"),
    ("emsco_shadow_changed_total", "Rows that it would have answered otherwise than the final "
     "model.", "model"),
    ("emsco_shadow_saved_total", "What it would have saved.", "model"),
    ("emsco_source_errors_total", "Rows rejected because a source failed.", "source", "kind"),
    ("emsco_source_calls_total", "Calls to a source.", "source"),
    ("emsco_source_retries_total", "Calls that repeat one that failed.", "source"),
    ("emsco_source_paid_total", "What a source has charged.", "source"),
    ("emsco_requests_total", "Requests, by the status of the answer.", "status"),
    ("emsco_reloads_total", "Reloads, by whether the files were taken or refused.", "outcome"),
    ("emsco_state_moved_total", "How often the store was restarted, or another server took over."),
    ("emsco_log_lost_total", "Entries of the log that could not be written: decisions, or labels.",
     "what"),
    ("emsco_audited_total", "Rows marked for the audit."),
    ("emsco_left_out_total", "Rows with a key or value by their caller that cannot be one; they "
     "count for no promise.", "kind"),
    ("emsco_labels_total", "Labels sent, by what became of them.", "outcome"),
)  # fmt: skip
_GAUGES = (
    ("emsco_state_lost", "1 where the state has lost its data, and paid calls have stopped.",
     "livemax"),
    ("emsco_queue_length", "Requests that wait.", "livesum"),
    ("emsco_breaker_open", "1 where a failing source is left alone.", "livemax", "source"),
    ("emsco_source_unknown", "What a source may have charged for calls without an answer.", "sum",
     "source"),
    ("emsco_canary_share", "The share of keys that a canary decides; 0 where it was taken back.",
     "mostrecent", "model"),
    ("emsco_alarm", "1 where a promise no longer holds.", "mostrecent", "model", "promise"),
    ("emsco_evidence", "The evidence against a promise.", "mostrecent", "model", "promise"),
    ("emsco_audited_rows", "Audited rows of closed cohorts.", "mostrecent", "model", "what"),
    ("emsco_accuracy", "The accuracy of audited accepted rows: of those with a label, and if all "
     "others were wrong.", "mostrecent", "model", "of"),
)  # fmt: skip
_HISTOGRAMS = (
    ("emsco_decide_seconds", "How long calls took."),
    ("emsco_source_seconds", "How long rows waited for a source.", "source"),
)
