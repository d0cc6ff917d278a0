"""Redis, PostgreSQL and MariaDB of our own, on other ports: started, killed and started again."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pymysql  # type: ignore[import-untyped]  # ships no types
import redis

from tests.soak.live.ports import free_port

PASSWORD = "pass-0f8e7c1b"  # of every store: nothing may ever show it
_PATIENCE = 60.0  # seconds for a server to start on a busy machine


class Server(ABC):
    """A store of our own: a server that listens on a port of 127.0.0.1.

    Parameters
    ----------
    folder : Path
        Where its files are.
    user : str or None
        Who runs it, if we are root and the server refuses to be run by root.
    """

    user: str | None = None

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir()
        if self._as:
            os.chown(folder, self._as["user"], self._as["group"])
        self.make()
        self.start()

    @property
    def _as(self) -> dict[str, Any]:
        """Say who runs it; nobody else where we are not root."""
        if self.user is None or os.geteuid() != 0:
            return {}
        known = pwd.getpwnam(self.user)
        return {"user": known.pw_uid, "group": known.pw_gid, "extra_groups": []}

    @abstractmethod
    def make(self) -> None:
        """Make its files."""

    @abstractmethod
    def command(self) -> list[str]:
        """Give the command that runs it."""

    @abstractmethod
    def answers(self) -> bool:
        """Say whether it answers, or raise why not."""

    def run(self, command: list[str]) -> None:
        """Run a command to its end, as the user of the server."""
        done = subprocess.run(
            command, capture_output=True, cwd=self.folder, check=False, **self._as
        )
        if done.returncode:
            raise RuntimeError(f"{command[0]} failed: {done.stderr.decode()[-2000:]}")

    def start(self) -> None:
        """Start it, without waiting."""
        with (self.folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                self.command(), stdout=output, stderr=output, cwd=self.folder, **self._as
            )

    def wait(self) -> None:
        """Wait until it answers."""
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                if self.answers():
                    return
            except Exception as error:
                if time.monotonic() > until:
                    output = (self.folder / "output").read_text(errors="replace")
                    raise RuntimeError(
                        f"{type(self).__name__}: {error}\n{output[-2000:]}"
                    ) from error
            time.sleep(0.02)

    def is_open(self) -> bool:
        """Say whether something listens on its port."""
        with socket.socket() as trying:
            return trying.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        """Kill it with -9, with all processes that it has started."""
        if self._process is None:
            return
        for process in [*_children(self._process.pid), self._process.pid]:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._process.wait()
        self._process = None


class RedisServer(Server):
    """A Redis that keeps what it holds when it is killed."""

    def make(self) -> None:
        """Make nothing: it makes its files itself."""

    def command(self) -> list[str]:
        """Give the command that runs it."""
        return ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
                "--appendonly", "yes", "--appendfsync", "no", "--requirepass", PASSWORD,
                "--dir", str(self.folder)]  # fmt: skip

    def admin(self, db: int = 0) -> redis.Redis:
        """Connect, to fill it and to read its counters."""
        return redis.Redis(port=self.port, db=db, password=PASSWORD)

    def answers(self) -> bool:
        """Say whether it answers."""
        with self.admin() as admin:
            return bool(admin.ping())

    def url(self, port: int | None = None) -> str:
        """Give the address for a source; by another port, through a proxy."""
        return f"redis://:{PASSWORD}@127.0.0.1:{port or self.port}/0"

    def clients(self) -> int:
        """Count the connections, ours not among them."""
        with self.admin() as admin:
            return len(admin.client_list()) - 1


class PostgresServer(Server):
    """A PostgreSQL with a database `postgres`, which counts the rows that each query gives."""

    user = "postgres"

    def make(self) -> None:
        """Make the database's folder."""
        self.run([_binary("initdb"), "-N", "-A", "trust", "-U", "postgres",
                  "-D", str(self.folder / "db")])  # fmt: skip

    def command(self) -> list[str]:
        """Give the command that runs it; what is lost if the machine dies does not matter here."""
        settings = {
            "listen_addresses": "127.0.0.1", "port": self.port, "fsync": "off",
            "unix_socket_directories": "", "max_connections": 200,
            "shared_preload_libraries": "pg_stat_statements",
        }  # fmt: skip
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [_binary("postgres"), "-D", str(self.folder / "db"), *options]

    def admin(self) -> psycopg.Connection[Any]:
        """Connect, to fill it and to read its counters."""
        return psycopg.connect(
            host="127.0.0.1", port=self.port, user="postgres", dbname="postgres", autocommit=True
        )

    def answers(self) -> bool:
        """Say whether it answers."""
        with self.admin() as admin:
            return admin.execute("SELECT 1").fetchone() == (1,)

    def url(self, port: int | None = None) -> str:
        """Give the address for a source; by another port, through a proxy."""
        # Without TLS: where a server is dead, it would be tried twice, with and without.
        where = f"127.0.0.1:{port or self.port}/postgres?ssl=disable"
        return f"postgresql+asyncpg://postgres:{PASSWORD}@{where}"

    def clients(self) -> int:
        """Count the connections, ours not among them."""
        with self.admin() as admin:
            found = admin.execute(
                "SELECT count(*) - 1 FROM pg_stat_activity WHERE backend_type = 'client backend'"
            ).fetchone()
        return int(found[0]) if found else 0


class MariaDBServer(Server):
    """A MariaDB with a database `test`, which counts the rows that each user is sent."""

    user = "mysql"
    _UNSAFE = ("--debug-no-sync=1", "--innodb-log-file-size=8M", "--innodb-buffer-pool-size=64M")

    def make(self) -> None:
        """Make the database's folder."""
        self.run(["mariadb-install-db", "--no-defaults", f"--datadir={self.folder / 'db'}",
                  "--auth-root-authentication-method=normal", *self._UNSAFE])  # fmt: skip

    def command(self) -> list[str]:
        """Give the command that runs it."""
        return ["mariadbd", "--no-defaults", f"--datadir={self.folder / 'db'}",
                f"--port={self.port}", "--bind-address=127.0.0.1", "--skip-name-resolve",
                f"--socket={self.folder / 'socket'}", f"--pid-file={self.folder / 'pid'}",
                "--userstat=1", "--max-connections=200", *self._UNSAFE]  # fmt: skip

    def admin(self) -> Any:
        """Connect, to fill it and to read its counters."""
        return pymysql.connect(
            host="127.0.0.1", port=self.port, user="root", database="mysql", autocommit=True
        )

    def ask(self, query: str) -> list[Any]:
        """Run a query."""
        with self.admin() as admin, admin.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())

    def answers(self) -> bool:
        """Say whether it answers."""
        return self.ask("SELECT 1") == [(1,)]

    def url(self, port: int | None = None) -> str:
        """Give the address for a source; by another port, through a proxy."""
        return f"mysql+asyncmy://live:{PASSWORD}@127.0.0.1:{port or self.port}/test"

    def clients(self) -> int:
        """Count the connections, ours not among them."""
        return len(self.ask("SELECT 1 FROM information_schema.processlist WHERE user = 'live'"))


class Stores(NamedTuple):
    """All three, running."""

    redis: RedisServer
    postgres: PostgresServer
    mariadb: MariaDBServer


@contextmanager
def started() -> Iterator[Stores]:
    """Start all three at once in a folder for temporary files; end them, whatever happens."""
    folder = Path(tempfile.mkdtemp(prefix="emsco-live-"))
    folder.chmod(0o755)  # servers run as other users
    kinds: list[type[Server]] = [RedisServer, PostgresServer, MariaDBServer]
    servers: list[Server] = []

    def start(kind: type[Server]) -> Server:
        server = kind(folder / kind.__name__)
        servers.append(server)
        server.wait()
        return server

    try:
        with ThreadPoolExecutor(len(kinds)) as pool:
            made = list(pool.map(start, kinds))
        stores = Stores(*made)  # type: ignore[arg-type]  # in the order of their kinds
        _make_users(stores)
        yield stores
    finally:
        for server in servers:
            server.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _make_users(stores: Stores) -> None:
    with stores.postgres.admin() as admin:
        admin.execute("CREATE EXTENSION pg_stat_statements")
    for query in (
        "CREATE DATABASE IF NOT EXISTS test",
        f"CREATE USER live@'%' IDENTIFIED BY '{PASSWORD}'",
        "GRANT ALL ON test.* TO live@'%'",
    ):
        stores.mariadb.ask(query)


def _binary(name: str) -> str:
    """Find a program of PostgreSQL, which Debian keeps off the path."""
    found = shutil.which(name)
    if found:
        return found
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    if not places:
        raise RuntimeError(f"There is no {name}: install PostgreSQL.")
    return str(places[-1])


def _children(process: int) -> list[int]:
    """Name the processes that a process has started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent == process:
            found.append(int(folder.name))
    return found
