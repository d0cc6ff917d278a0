"""Alarms when what was promised of a cascade no longer holds, valid whenever one looks."""

from emsco.monitor._monitor import CertificateMonitor
from emsco.monitor._watching import Alarm

__all__ = ["Alarm", "CertificateMonitor"]
