"""Alarms when what was promised of a cascade no longer holds, valid whenever one looks."""

from emsco.certify.monitor._monitor import CertificateMonitor
from emsco.certify.monitor._watching import Alarm

__all__ = ["Alarm", "CertificateMonitor"]
