"""`emsco serve` as a process, for the tests of the service."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import uuid
from contextlib import contextmanager

import httpx
from commands import call
from served import wait_for
from stores import REDIS


class Process:
    """A process of `emsco serve`, and its events."""

    def __init__(self, folder, arguments, environment):
        command = [sys.executable, "-m", "emsco", "serve", "model.emsco"]
        self.process = subprocess.Popen(
            [*command, "--sources", "sources.toml", "--port", "0", *map(str, arguments)],
            cwd=folder, env=os.environ | environment, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.lines = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line)

    @property
    def events(self):
        return [json.loads(line) for line in list(self.lines) if line.startswith("{")]

    def events_named(self, name):
        return [event for event in self.events if event["event"] == name]

    def wait_ready(self, number=1):
        def is_ready():
            assert self.process.poll() is None, "".join(self.lines)
            return len(self.events_named("ready")) >= number

        wait_for(is_ready, 60)
        self.port = self.events_named("ready")[0]["port"]
        self.url = f"http://127.0.0.1:{self.port}"
        self.client = httpx.Client(base_url=self.url, timeout=20)

    def decide(self, **body):
        return self.client.post("/v1/decide", json=body)

    def send(self, number):
        self.process.send_signal(number)

    def end(self):
        """Wait for the process to exit, and return the exit code."""
        code = self.process.wait(40)
        self._reader.join(10)
        return code


class World:
    """A model with its sources in a folder, and a vendor that counts calls."""

    def __init__(self, folder, vendor, environment):
        self.folder, self.vendor, self.environment = folder, vendor, environment
        self.model = folder / "model.emsco"

    @contextmanager
    def serve(self, *arguments, **environment):
        process = Process(self.folder, arguments, self.environment | environment)
        try:
            yield process
        finally:
            if process.process.poll() is None:
                process.process.kill()
            process.process.wait(20)
            if hasattr(process, "client"):
                process.client.close()
            process._reader.join(10)
            process.process.stderr.close()


def shared_state():
    """Return the options for a shared state in Redis, and create it.

    The Redis of tests is not persistent, which a service with paid sources would refuse.
    """
    state = f"{REDIS}?prefix=t{uuid.uuid4().hex[:12]}"
    named = ("--deployment", "tests")
    told = call("state", "init", state, *named)
    assert told.code == 0, told.err
    return ("--state", state, *named, "--allow-volatile-state")


def counted(one, name):
    """Add up the metrics with a name."""
    told = httpx.get(f"http://127.0.0.1:{one.events_named('metrics')[0]['port']}/metrics").text
    lines = [line for line in told.splitlines() if line.startswith(name)]
    return sum(float(line.rpartition(" ")[2]) for line in lines)
