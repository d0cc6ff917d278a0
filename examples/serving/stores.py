"""What the example starts: a Redis, a PostgreSQL, and a vendor who charges for every answer."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psycopg
import redis

Record = Mapping[str, float]


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


def wait_until(is_so: Any, what: str, seconds: float = 60.0) -> None:
    """Wait until something is so; what raises is not so yet."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with suppress(Exception):
            if is_so():
                return
        time.sleep(0.05)
    raise RuntimeError(f"{what} is not there after {seconds:g} seconds.")


class RedisStore:
    """A Redis with a hash per customer."""

    def __init__(self, folder: Path, records: Mapping[str, Record]) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
                   "--dir", str(folder)]  # fmt: skip
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        store = redis.Redis(port=self.port)
        wait_until(store.ping, "Redis")
        with store, store.pipeline() as pipeline:
            for key, record in records.items():
                pipeline.hset(f"profile:{key}", mapping={"id": key, **record})
            pipeline.execute()

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


class PostgresStore:
    """A PostgreSQL with a row per customer, which can be killed and started again."""

    def __init__(self, folder: Path, records: Mapping[str, Record]) -> None:
        self.port = free_port()
        self.url = f"postgresql+asyncpg://postgres@127.0.0.1:{self.port}/postgres?ssl=disable"
        self._data = folder / "postgres"
        self._data.mkdir()
        # PostgreSQL refuses to run as root.
        self._as: dict[str, Any] = {}
        if os.getuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(self._data, user.pw_uid, user.pw_gid)
            folder.chmod(0o755)
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        command = [_binary("initdb"), "-N", "-A", "trust", "-U", "postgres", "-D", str(self._data)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/", **self._as)
        self.start()
        features = list(next(iter(records.values())))
        columns = ", ".join(f"{name} double precision" for name in features)
        with self._connect() as connection:
            connection.execute(f"CREATE TABLE orders (id text PRIMARY KEY, {columns})")
            copy = f"COPY orders (id, {', '.join(features)}) FROM STDIN"
            with connection.cursor() as cursor, cursor.copy(copy) as rows:
                for key, record in records.items():
                    rows.write_row((key, *(record[name] for name in features)))

    def _connect(self) -> psycopg.Connection[Any]:
        where = {"host": "127.0.0.1", "port": self.port, "user": "postgres", "dbname": "postgres"}
        return psycopg.connect(**where, autocommit=True)  # type: ignore[arg-type]

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = {"listen_addresses": "127.0.0.1", "port": self.port, "fsync": "off",
                    "unix_socket_directories": ""}  # fmt: skip
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self._process = subprocess.Popen(
            [_binary("postgres"), "-D", str(self._data), *options],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", **self._as,
        )  # fmt: skip
        wait_until(lambda: self._connect().close() is None, "PostgreSQL")

    def kill(self) -> None:
        """Let it die at once, with all its connections."""
        self._process.send_signal(3)  # SIGQUIT: its children die with it, without a farewell
        self._process.wait()

    def close(self) -> None:
        """End it."""
        if self._process.poll() is None:
            self.kill()


class Vendor:
    """A service on the web that charges for every answer, and keeps its own bill."""

    def __init__(self, records: Mapping[str, Record], price: float) -> None:
        self.price = price
        self.answers = 0
        vendor = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:  # named by the standard library
                """Answer for one customer."""
                key = self.path.rpartition("/")[2]
                record = records.get(key)
                body = json.dumps({"id": key, **(record or {})}).encode()
                if record is not None:
                    vendor.answers += 1
                self.send_response(200 if record is not None else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def bill(self) -> float:
        """What the vendor charges for all answers so far."""
        return self.answers * self.price

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()


def _binary(name: str) -> str:
    """Find a program of PostgreSQL, which Debian keeps out of the path."""
    found = shutil.which(name) or next(
        (str(path) for path in sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))), None
    )
    if found is None:
        raise RuntimeError(f"{name} is not there; install PostgreSQL.")
    return found
