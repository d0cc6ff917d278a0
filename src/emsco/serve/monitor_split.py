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
from emsco.certify.monitor import Alarm, CertificateMonitor, watchable
from emsco.core.measure import DRAWN_ANSWERS, DRAWN_LABELS, LABELS
from emsco.exceptions import MonitorError, MonitorWarning

_BY_DECISIONS: dict[str, Any] = {"coverage": None, "cost": None, "exits": None}


def monitor_of(certificate: Any, cascade: Any, *, alpha: float = 0.01) -> CertificateMonitor | None:
    """Return the monitor of a cascade's certificate, for rows drawn by the service.

    Parameters
    ----------
    certificate : Certificate or None
        The certificate.
    cascade : CascadeClassifier or CascadeSearchCV
        The cascade in use.
    alpha : float, default=0.01
        The maximum probability of any alarm, ever, while the promises hold.

    Returns
    -------
    CertificateMonitor or None
        None: nothing is certified, or nothing of it can be watched.
    """
    if not isinstance(certificate, Certificate) or not certificate.certified:
        return None
    targets = certificate.targets
    # All rows that it gets have been drawn already.
    is_drawn = any(m.watched_by in (DRAWN_ANSWERS, DRAWN_LABELS) for m, _ in targets.measures())
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
    return _part(monitor, _by_labels(), _BY_DECISIONS | share)


def by_decisions(monitor: CertificateMonitor) -> CertificateMonitor | None:
    """Return the part fed by decisions, which gets all rows, or None."""
    others = {"share": None, "left_out": (), "without_watch": ()}
    return _part(monitor, _BY_DECISIONS, _by_labels() | others)


def by_rows(alarm: Alarm) -> bool:
    """Return whether decisions raised an alarm: a change of the rows may then be the cause."""
    return alarm.what in _BY_DECISIONS


def _by_labels() -> dict[str, Any]:
    """Return the promises that wait for labels, and the values that stand for none."""
    return {name: () if measure.is_by_class else None for name, measure in watchable().items()}


def _part(
    monitor: CertificateMonitor, names: dict[str, Any], changed: dict[str, Any]
) -> CertificateMonitor | None:
    """Return a monitor of some promises, with their share of alpha."""
    if monitor.counts["decided"]:
        raise MonitorError("The monitor has already seen decisions; use a new one.")
    state = monitor.state()
    promised = state["promised"]
    here, in_all = _number(promised, names), _number(promised, _by_labels() | _BY_DECISIONS)
    if not any((what in _BY_DECISIONS) == (names is _BY_DECISIONS) for what in monitor.evidence):
        return None  # none of these promises was made, or none can be broken
    alpha = promised["alpha"] * here / in_all
    return CertificateMonitor.from_state(
        state | {"promised": promised | changed | {"alpha": alpha}}
    )


def _number(promised: dict[str, Any], names: dict[str, Any]) -> int:
    """Count the promises that share alpha; one by class counts for each class."""
    count = 0
    for name in names:
        measure, value = watchable().get(name), promised.get(name)
        is_drawn = measure is not None and measure.watched_by != LABELS
        if value is not None and not (is_drawn and promised["share"] is None):
            count += len(value) if measure is not None and measure.is_by_class else 1
    return count
