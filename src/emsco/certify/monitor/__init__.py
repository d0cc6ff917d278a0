"""Alarms when a promise about a cascade no longer holds, valid however often you look."""

from emsco.certify.monitor._alarms import Alarm
from emsco.certify.monitor._monitor import CertificateMonitor
from emsco.certify.monitor._promises import watchable

__all__ = ["Alarm", "CertificateMonitor", "watchable"]
