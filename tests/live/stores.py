"""Real stores for the tests of live sources: Redis, PostgreSQL, MariaDB, SQLite, and a service."""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from collections import namedtuple
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import redis
import sqlalchemy as sa

from emsco.live import HTTPSource, RedisSource, SQLSource

# A store that is not there is an error, never a test left out: `.ci/run` starts what is missing.
REDIS = os.environ.get("EMSCO_TEST_REDIS", "redis://127.0.0.1:6379/0")
POSTGRES = os.environ.get("EMSCO_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/test")
MARIADB = os.environ.get("EMSCO_TEST_MARIADB", "mysql://root@127.0.0.1:3306/test")

# What a gate got for one row.
Row = namedtuple("Row", "values reason how paid billed verified")


def rows_of(batch):
    """Give the rows of a batch one by one."""
    values = zip(*batch.columns.values(), strict=True) if batch.columns else [None] * len(batch)
    fields = (values, batch.reasons, batch.how, batch.paid, batch.billed)
    return [Row(*row, batch.verified) for row in zip(*fields, strict=True)]


DRIVERS = {"postgresql": "asyncpg", "mysql": "asyncmy", "sqlite": "aiosqlite"}


def driven(url):
    """Name the async driver in an address."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}+{DRIVERS[scheme]}://{rest}"


@contextmanager
def redis_source(table, **options):
    """Put a table into Redis, as hashes or as JSON, and give the source."""
    prefix = f"emsco-test:{uuid.uuid4().hex}"
    store = redis.Redis.from_url(REDIS)
    names = []
    for key, record in table.items():
        names.append(f"{prefix}:{key}")
        kept = {"id": key, "at": time.time(), **record}
        if options.get("format") == "json":
            store.set(names[-1], json.dumps(kept))
        else:
            store.hset(names[-1], mapping={n: v for n, v in kept.items() if v is not None})
    try:
        yield RedisSource(
            url=REDIS, key=f"{prefix}:{{key}}", **{"key_field": "id", "time_field": "at"} | options
        )
    finally:
        store.delete(*names)
        store.close()


@contextmanager
def sql_source(url, table, twice=(), **options):
    """Put a table into a database, some rows twice, and give the source."""
    name = f"emsco_test_{uuid.uuid4().hex}"
    features = list(next(iter(table.values())))
    rows = [{"id": key, "at": time.time(), **table[key]} for key in [*table, *twice]]
    texts = {f for row in rows for f, value in row.items() if isinstance(value, str)}
    columns = [sa.Column(f, sa.Text if f in texts else sa.Double) for f in ("at", *features)]
    made = sa.Table(name, sa.MetaData(), sa.Column("id", sa.String(80)), *columns)
    sync = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "sqlite": "sqlite"}
    scheme, _, rest = url.partition("://")
    engine = sa.create_engine(f"{sync[scheme]}://{rest}")
    with engine.begin() as connection:
        made.create(connection)
        connection.execute(made.insert(), rows)
    query = f"SELECT * FROM {name} WHERE id IN :keys"
    try:
        yield SQLSource(
            url=driven(url), query=query, **{"key_field": "id", "time_field": "at"} | options
        )
    finally:
        with engine.begin() as connection:
            made.drop(connection)
        engine.dispose()


class Service:
    """An HTTP service that answers from a table and keeps count of what it was asked."""

    def __init__(self, table):
        self.table = table
        self.asked, self.headers = [], []
        self.behave = {}.get  # what a request does instead, by its key: a status and a body
        self.refuses = lambda _: False  # whether keys that are asked for together get a 400
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):  # named by the standard library
                key = unquote(urlsplit(self.path).path.rpartition("/")[2])
                service.asked.append(key)
                service.headers.append(self.headers)
                self._answer(*service.answer(key))

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                service.asked += body["keys"]
                if service.refuses(body["keys"]):
                    self._answer(400, {})
                    return
                found = [service.answer(key)[1] for key in body["keys"] if key in service.table]
                self._answer(200, {"rows": found})

            def _answer(self, status, document):
                body = document if isinstance(document, bytes) else json.dumps(document).encode()
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "/elsewhere/a")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                """Be quiet."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 512  # callers who are cancelled leave many connections behind

            def handle_error(self, *_):
                """Say nothing of callers who have left."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def answer(self, key):
        """Give status and body."""
        odd = self.behave(key)
        if odd is not None:
            return odd
        if key not in self.table:
            return 404, {}
        return 200, {"id": key, "at": time.time(), **self.table[key]}

    def close(self):
        """Stop."""
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def http_source(table, **options):
    """Serve a table, and give the source and the service."""
    service = Service(table)
    batched = options.get("batch")
    more = (
        {"url": f"{service.url}/rows", "rows": "/rows"}
        if batched
        else {"url": f"{service.url}/v1/{{key}}"}
    )
    try:
        yield HTTPSource(**{"key_field": "/id", "time_field": "/at", **more} | options), service
    finally:
        service.close()
