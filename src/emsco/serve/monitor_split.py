"""A certificate's monitor in two parts: one fed by labels, one fed by decisions.

Accuracy, agreement and missed shares wait for the labels of audited rows, for weeks. Coverage, cost
and exit stages are visible in all decisions immediately. The parts are updated at different times,
so they are stored separately in the state. Every promise keeps its share of `alpha`: together, the
two parts raise false alarms no more often than the whole.
"""

from __future__ import annotations

import warnings
from typing import Any

from emsco.certify import Certificate
from emsco.certify.monitor import Alarm, CertificateMonitor
from emsco.exceptions import MonitorError, MonitorWarning

_BY_LABELS = {"accuracy": None, "agreement": None, "max_missed": ()}
_BY_DECISIONS: dict[str, Any] = {"coverage": None, "cost": None, "exits": None}


def monitor_of(certificate: Any, cascade: Any, *, alpha: float = 0.01) -> CertificateMonitor | None:
    """Return the monitor of a cascade's certificate, for rows drawn by the service."""
    if not isinstance(certificate, Certificate) or not certificate.certified:
        return None
    targets = certificate.targets
    # All rows that it gets have been drawn already.
    is_drawn = targets.agreement is not None or targets.max_missed
    drawn = {"share": 1.0, "random_state": 0} if is_drawn else {}
    with warnings.catch_warnings():
        # Promises that cannot be watched are reported by `not_watched`.
        warnings.simplefilter("ignore", MonitorWarning)
        try:
            return CertificateMonitor.of(certificate, cascade, alpha=alpha, **drawn)
        except MonitorError:
            return None


def by_labels(monitor: CertificateMonitor) -> CertificateMonitor | None:
    """Return the part fed by labels, which gets only audited rows, or None.

    Examples
    --------
    >>> from emsco.monitor import CertificateMonitor
    >>> from emsco.serve.monitor_split import by_decisions, by_labels
    >>> whole = CertificateMonitor(accuracy=0.95, coverage=0.9, exits=(0.8, 0.2), rows=2000)
    >>> list(by_labels(whole).evidence), list(by_decisions(whole).evidence)
    (['accuracy'], ['coverage', 'exits'])
    """
    promised = monitor.state()["promised"]
    share = {"share": 1.0, "random_state": 0} if promised["share"] is not None else {}
    return _part(monitor, _BY_LABELS, _BY_DECISIONS | share)


def by_decisions(monitor: CertificateMonitor) -> CertificateMonitor | None:
    """Return the part fed by decisions, which gets all rows, or None."""
    others = {"share": None, "left_out": (), "without_watch": ()}
    return _part(monitor, _BY_DECISIONS, _BY_LABELS | others)


def by_rows(alarm: Alarm) -> bool:
    """Return whether decisions raised an alarm: a change of the rows may then be the cause."""
    return _name(alarm.what) in _BY_DECISIONS


def _part(
    monitor: CertificateMonitor, names: dict[str, Any], changed: dict[str, Any]
) -> CertificateMonitor | None:
    """Return a monitor of some promises, with their share of alpha."""
    if monitor.counts["decided"]:
        raise MonitorError("The monitor has already seen decisions; use a new one.")
    state = monitor.state()
    promised = state["promised"]
    here, in_all = _number(promised, names), _number(promised, _BY_LABELS | _BY_DECISIONS)
    if not {_name(what) for what in monitor.evidence} & names.keys():
        return None  # none of these promises was made, or none can be broken
    alpha = promised["alpha"] * here / in_all
    return CertificateMonitor.from_state(
        state | {"promised": promised | changed | {"alpha": alpha}}
    )


def _number(promised: dict[str, Any], names: dict[str, Any]) -> int:
    """Count the promises that share alpha; `max_missed` makes one per class."""
    drawn = () if promised["share"] is None else ("agreement",)
    single = [n for n in names if n in ("accuracy", *drawn, *_BY_DECISIONS)]
    classes = len(promised["max_missed"]) if drawn and "max_missed" in names else 0
    return sum(promised[name] is not None for name in single) + classes


def _name(what: str) -> str:
    """Return the parameter that makes a promise: `missed fraud` is one of `max_missed`."""
    return "max_missed" if what.startswith("missed ") else what
