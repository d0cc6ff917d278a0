"""What a watch has counted, for the tests of the audit."""

from __future__ import annotations

from dataclasses import asdict

COUNTED = ("unlabelled", "accuracy", "accuracy_at_worst")


def summary(watch, model):
    """Return what a watch knows of a model as JSON data."""
    followed = watch.models[model]
    cohorts, traffic = followed.cohorts.value, followed.traffic.value
    rejected = traffic.rows - traffic.accepted - traffic.failed
    decided = {name: getattr(traffic, name) for name in ("rows", "accepted", "failed")}
    return {
        "alarms": [asdict(alarm) for alarm in followed.alarms],
        "evidence": followed.evidence,
        "decided": {**decided, "rejected": rejected},
        "audited": _fields(cohorts.total),
        "cohorts": [_fields(cohort) for cohort in cohorts.recent],
    }


def _fields(cohort):
    return asdict(cohort) | {name: getattr(cohort, name) for name in COUNTED}
