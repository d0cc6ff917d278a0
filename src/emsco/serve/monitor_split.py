"""A certificate's monitor in two parts: what labels feed, and what decisions feed.

Accuracy, agreement and shares missed wait for labels of audited rows, for weeks. Coverage, cost and
the traffic of stages are seen in all decisions, at once. Each part has its own pace, and so its own
place in the state. Every promise keeps its share of `alpha`: the two parts together alarm without a
cause no more often than the whole.
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
    """Return the monitor of a cascade's certificate, for rows that the service draws.

    Parameters
    ----------
    certificate : Certificate or None
        What is promised.
    cascade : CascadeClassifier or CascadeSearchCV
        The cascade in use.
    alpha : float, default=0.01
        The maximum probability of any alarm, ever, while the promises hold.

    Returns
    -------
    CertificateMonitor or None
        None: nothing is certified, or nothing that could be watched.
    """
    if not isinstance(certificate, Certificate) or not certificate.certified:
        return None
    targets = certificate.targets
    # All rows that it is shown were drawn already.
    is_drawn = targets.agreement is not None or targets.max_missed
    drawn = {"share": 1.0, "random_state": 0} if is_drawn else {}
    with warnings.catch_warnings():
        # What nobody can watch is told by `not_watched`.
        warnings.simplefilter("ignore", MonitorWarning)
        try:
            return CertificateMonitor.of(certificate, cascade, alpha=alpha, **drawn)
        except MonitorError:
            return None


def by_labels(monitor: CertificateMonitor) -> CertificateMonitor | None:
    """Return the part that labels feed, which is shown audited rows alone; None: there is none.

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
    """Return the part that decisions feed, which is shown all rows; None: there is none."""
    others = {"share": None, "left_out": (), "without_watch": ()}
    return _part(monitor, _BY_DECISIONS, _BY_LABELS | others)


def by_rows(alarm: Alarm) -> bool:
    """Return whether decisions have raised an alarm: other rows may be the cause of it."""
    return _name(alarm.what) in _BY_DECISIONS


def _part(
    monitor: CertificateMonitor, kept: dict[str, Any], changed: dict[str, Any]
) -> CertificateMonitor | None:
    """Return a monitor of some promises, with their share of alpha."""
    if monitor.counts["decided"]:
        raise MonitorError("The monitor has seen decisions already; give a new one.")
    state = monitor.state()
    promised = state["promised"]
    here, in_all = _number(promised, kept), _number(promised, _BY_LABELS | _BY_DECISIONS)
    if not {_name(what) for what in monitor.evidence} & kept.keys():
        return None  # none of these promises was made, or none of them can be broken
    alpha = promised["alpha"] * here / in_all
    return CertificateMonitor.from_state(
        state | {"promised": promised | changed | {"alpha": alpha}}
    )


def _number(promised: dict[str, Any], names: dict[str, Any]) -> int:
    """Count promises that share alpha; `max_missed` is one a class."""
    drawn = () if promised["share"] is None else ("agreement",)
    single = [n for n in names if n in ("accuracy", *drawn, *_BY_DECISIONS)]
    classes = len(promised["max_missed"]) if drawn and "max_missed" in names else 0
    return sum(promised[name] is not None for name in single) + classes


def _name(what: str) -> str:
    """Return the parameter that makes a promise: `missed fraud` is one of `max_missed`."""
    return "max_missed" if what.startswith("missed ") else what
