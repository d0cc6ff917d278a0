"""Alarms when a promise no longer holds."""

from emsco.certify.monitor import Alarm, CertificateMonitor

__all__ = ["Alarm", "CertificateMonitor"]
