"""Which addresses processes listen on, as Linux tells it."""

from __future__ import annotations

import ipaddress
import os
import sys
from contextlib import suppress
from pathlib import Path

from experiments.nodes import descendants

LISTEN = "0A"


def address_of(text):
    """Read an address of /proc/net/tcp: words of four bytes, each in the machine's order."""
    words = [bytes.fromhex(text[i : i + 8]) for i in range(0, len(text), 8)]
    raw = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    address = ipaddress.ip_address(raw)
    return getattr(address, "ipv4_mapped", None) or address


def sockets_of(pid):
    found = set()
    with suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                target = os.readlink(link)
                if target.startswith("socket:["):
                    found.add(target[8:-1])
    return found


def family():
    """List this process and those that it has started, and those that they have."""
    return [os.getpid(), *descendants(os.getpid())]


def listening(pids):
    """Give the address and the port of every TCP socket on which some processes listen."""
    inodes = {inode for pid in pids for inode in sockets_of(pid)}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == LISTEN and words[9] in inodes:
                host, port = words[1].split(":")
                found.add((address_of(host), int(port, 16)))
    return found
