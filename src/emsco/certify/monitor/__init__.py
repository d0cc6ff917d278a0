"""Alarms when a promise about a cascade no longer holds, valid however often you look."""

from emsco.certify.monitor._monitor import CertificateMonitor
from emsco.certify.monitor._watching import Alarm

__all__ = ["Alarm", "CertificateMonitor"]
