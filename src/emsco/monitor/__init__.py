"""Alarms when what was promised of a cascade no longer holds, valid whenever one looks."""

from emsco.monitor._monitor import Alarm, CertificateMonitor

__all__ = ["Alarm", "CertificateMonitor"]
