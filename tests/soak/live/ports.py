"""Ports that nobody listens on."""

from __future__ import annotations

import socket


def free_port() -> int:
    """Find a port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
