"""A private Redis server for tests that kill, empty or fill it."""

from __future__ import annotations

import subprocess
import time
from contextlib import contextmanager

import redis
from served import free_port


class OwnRedis:
    """A Redis server that is durable unless options say otherwise."""

    def __init__(self, folder, *options):
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1",
                         "--dir", str(folder), "--save", "", "--appendonly", "yes",
                         "--appendfsync", "always", *options]  # fmt: skip
        self.start()

    def start(self):
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        self.admin = redis.Redis(port=self.port)
        until = time.monotonic() + 20
        while True:
            try:
                self.admin.ping()
                return
            except redis.RedisError:
                assert time.monotonic() < until
                time.sleep(0.02)

    def kill(self):
        self.admin.close()
        self._process.kill()
        self._process.wait(20)


@contextmanager
def own_redis(folder, *options):
    one = OwnRedis(folder, *options)
    try:
        yield one
    finally:
        one.kill()
