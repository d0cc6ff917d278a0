"""OpenTelemetry spans, one per stage of a decision, if a collector is configured.

Spans are created from the decisions afterwards. They contain names, times and numbers of rows, but
no keys, values or labels.
"""

from __future__ import annotations

import os
from collections import Counter
from importlib.util import find_spec
from itertools import groupby
from typing import Any

from emsco.core.decisions import Decisions, kind_of
from emsco.exceptions import require

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_NANO = 1_000_000_000


def make_tracing() -> Tracing | None:
    """Return the tracing, or None if no collector is configured.

    A collector is configured by setting a tracer provider, or by the environment variable
    OTEL_EXPORTER_OTLP_ENDPOINT.
    """
    if find_spec("opentelemetry") is None and ENDPOINT not in os.environ:
        return None
    trace = require("opentelemetry.trace")
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider):  # none was set
        if ENDPOINT not in os.environ:
            return None
        provider = _exporting()
        trace.set_tracer_provider(provider)
    return Tracing(provider.get_tracer("emsco"))


def _exporting() -> Any:
    """Return a provider that sends spans to the collector named in the environment."""
    sdk = require("opentelemetry.sdk.trace")
    export = require("opentelemetry.sdk.trace.export")
    otlp = require("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    resources = require("opentelemetry.sdk.resources")
    name = os.environ.get("OTEL_SERVICE_NAME", "emsco")
    provider = sdk.TracerProvider(resource=resources.Resource.create({"service.name": name}))
    provider.add_span_processor(export.BatchSpanProcessor(otlp.OTLPSpanExporter()))
    return provider


class Tracing:
    """Creates spans for decisions."""

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer
        self._within = require("opentelemetry.trace").set_span_in_context

    def decided(self, decisions: Decisions, begin: float, end: float, model: str = "") -> None:
        """Create the spans of a call: one for the whole call, with one per stage inside."""
        whole = self._tracer.start_span(
            "decide",
            start_time=int(begin * _NANO),
            attributes={
                "emsco.model": model,
                "emsco.rows": len(decisions),
                "emsco.accepted": int(decisions.accepted.sum()),
            },
        )
        within = self._within(whole)
        calls = sorted(getattr(decisions.receipts, "purchases", ()), key=lambda one: one.stage)
        for stage, group in groupby(calls, key=lambda one: one.stage):
            own = list(group)
            failed = Counter(
                kind_of(reason) for one in own for reason in one.batch.reasons if reason
            )
            span = self._tracer.start_span(
                f"stage {stage}",
                context=within,
                start_time=int(min(one.now - one.waited for one in own) * _NANO),
                attributes={
                    "emsco.stage": stage,
                    "emsco.sources": [one.source for one in own],
                    "emsco.rows": max(len(one.rows) for one in own),
                    **{f"emsco.failed.{kind}": rows for kind, rows in failed.items()},
                },
            )
            span.end(int(max(one.now for one in own) * _NANO))
        whole.end(int(end * _NANO))
