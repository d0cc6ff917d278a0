"""The state in real stores: every check with every store, and failures of stores."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
import subprocess
import sys
import time
import uuid
from contextlib import contextmanager

import pytest
import redis
import sqlalchemy as sa
from contract import CHECKS, Clock, asked_by, check_state, opened, totals
from stores import POSTGRES, REDIS

from emsco.exceptions import StateError
from emsco.serve.state import open_state
from emsco.serve.state.executors import GroupCommit

STORES = ("sqlite", "postgresql", "redis")


@contextmanager
def store(kind, folder):
    """Return an empty address, and clean it up afterwards."""
    prefix = f"t{uuid.uuid4().hex[:12]}"
    place = {"sqlite": folder / "state.sqlite", "postgresql": POSTGRES, "redis": REDIS}[kind]
    try:
        yield f"{place}?prefix={prefix}"
    finally:
        if kind == "redis":
            with redis.Redis.from_url(REDIS) as client:
                for key in client.scan_iter(f"{prefix}:*"):
                    client.delete(key)
        elif kind == "postgresql":
            engine = postgres()
            with engine.begin() as connection:
                for table in sa.inspect(connection).get_table_names():
                    if table.startswith(f"{prefix}_"):
                        connection.execute(sa.text(f"DROP TABLE {table}"))
            engine.dispose()


def postgres():
    return sa.create_engine(POSTGRES.replace("postgresql://", "postgresql+psycopg://"))


@pytest.fixture(params=STORES)
def address(request, tmp_path):
    with store(request.param, tmp_path) as found:
        yield found


@pytest.fixture(params=STORES[:2])
def database(request, tmp_path):
    with store(request.param, tmp_path) as found:
        yield found


@pytest.mark.parametrize("check", CHECKS)
def test_every_store_keeps_the_promises_of_a_state(check, address):
    check_state(check, address)


def test_a_state_of_a_later_emsco_is_refused(address):
    async def run():
        async with opened(address):
            pass
        _raise_version(address)
        with pytest.raises(
            StateError, match=r"has version 9; this emsco supports versions up to 2"
        ):
            await open_state(address)

    asyncio.run(run())


def _raise_version(address):
    place, _, prefix = address.partition("?prefix=")
    if address.startswith("redis"):
        with redis.Redis.from_url(REDIS) as client:
            client.set(f"{prefix}:version", 9)
    elif address.startswith("postgresql"):
        engine = postgres()
        with engine.begin() as connection:
            connection.execute(sa.text(f"UPDATE {prefix}_meta SET value = 9"))
        engine.dispose()
    else:
        connection = sqlite3.connect(place)
        connection.execute(f"UPDATE {prefix}_meta SET value = 9")
        connection.commit()
        connection.close()


def test_a_state_that_is_only_read_is_not_made(address):
    async def run():
        with pytest.raises(StateError, match="There is no state at"):
            await open_state(address, create=False)
        with pytest.raises(StateError, match="There is no state at"):
            await open_state(address, create=False)  # the first time has made none
        async with opened(address) as state:
            await state.begin("whois", 1, 2.0, None)
            async with opened(address, create=False) as reader:
                assert await totals(reader) == {"whois": (0.0, 2.0)}

    asyncio.run(run())


def test_what_is_old_is_added_up_and_ids_are_forgotten(database):
    async def run():
        clock = Clock()
        async with opened(database, clock=clock) as state:
            with asked_by("a", "shop"):
                await state.claim("a", "body", 30.0)
                for spent in (1.5, 2.0):
                    await state.end(await state.begin("whois", 1, 2.0, 50.0), spent, 0.25)
                await state.begin("whois", 1, 2.0, 50.0)  # it has no outcome
                await state.answer("a", "answer")
            await state.label("never marked", "sick")
            before = await state.spend()
            clock.now += 6.9 * 86_400
            await state.tidy()
            assert (await state.claim("a", "body", 30.0)).kind == "done"
            assert await state.label("never marked", "sick")
            for _ in range(2):
                clock.now += 0.2 * 86_400
                await state.tidy()
                assert await state.spend() == before
            assert (await state.claim("a", "body", 30.0)).kind == "new"
            (spent,) = before
            assert (spent.paid, spent.unknown, len(spent.open)) == (3.5, 2.5, 1)

    asyncio.run(run())


def test_redis_forgets_ids_and_labels_without_a_mark(tmp_path):
    async def run(address, prefix):
        async with opened(address) as state:
            await state.claim("a", "body", 30.0)
            await state.answer("a", "answer")
            await state.label("never marked", "sick")
            await state.begin("whois", 1, 2.0, None)
        with redis.Redis.from_url(REDIS) as client:
            week, day = (
                client.ttl(f"{prefix}:of:emsco:{key}") for key in ("id:a", "label:never marked")
            )
            assert 6.9 * 86_400 < week <= 7 * 86_400
            assert 0.9 * 86_400 < day <= 86_400
            assert client.ttl(f"{prefix}:open") == -1

    with store("redis", tmp_path) as address:
        asyncio.run(run(address, address.partition("?prefix=")[2]))


def test_work_whose_caller_leaves_as_it_ends_is_handed_over():
    """Otherwise the money reserved for a call would stay reserved."""

    async def main():
        async def work(parts):
            asyncio.get_running_loop().call_soon(asking.cancel)
            return parts

        left = []
        asking = asyncio.ensure_future(GroupCommit(work).run("held", left.append))
        with pytest.raises(asyncio.CancelledError):
            await asking
        return left

    assert asyncio.run(main()) == ["held"]


def test_a_file_without_room_is_not_ready(tmp_path):
    """In a separate process with a file-size limit."""
    script = """
import asyncio, resource, sys
from emsco.exceptions import StateError
from emsco.serve.state import open_state

async def main():
    state = await open_state(sys.argv[1])
    await state.ping()
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    try:
        await state.ping()
    except StateError as error:
        print(error)

asyncio.run(main())
"""
    command = [sys.executable, "-c", script, str(tmp_path / "state.sqlite")]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "state.sqlite cannot be used" in finished.stdout, finished.stderr


def test_redis_that_was_restarted_gets_its_scripts_anew(tmp_path):
    async def run(address):
        async with opened(address) as state:
            await state.claim("a", "body", 30.0)
            with redis.Redis.from_url(REDIS) as client:
                client.script_flush()
            claims = await asyncio.gather(*(state.claim("a", "body", 30.0) for _ in range(3)))
            assert [claim.kind for claim in claims] == 3 * ["running"]

    with store("redis", tmp_path) as address:
        asyncio.run(run(address))


def test_a_database_loses_nothing(database):
    async def run():
        async with opened(database) as state:
            assert await state.concerns() == []
            await state.ping()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("mysql://root:secret@host/db", "begins with mysql://"),
        ("redis://host?prefix=A-b", "prefix of a state must begin with a letter"),
        ("postgresql://a:secret@:no/x", "URL of PostgreSQL is not valid"),
        ("redis://a:secret@host:port/x", "URL of Redis is not valid"),
        ("", "must be a file in a folder that exists"),
        ("no/such/folder/state.sqlite", "must be a file in a folder that exists"),
    ],
)
def test_an_address_that_cannot_be_used_is_named(address, told):
    with pytest.raises(StateError, match=told) as error:
        asyncio.run(open_state(address))
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("scheme", ["redis", "postgresql"])
def test_a_store_that_is_not_there_is_named_without_its_password(scheme):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(
        StateError, match=rf"state at {scheme}://.*{port}.* cannot be used"
    ) as error:
        asyncio.run(open_state(f"{scheme}://user:secret@127.0.0.1:{port}/x"))
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("scheme", ["redis", "postgresql"])
def test_a_store_that_never_answers_is_not_waited_for(scheme):
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        with pytest.raises(StateError, match=r"did not respond in time|cannot be used"):
            asyncio.run(open_state(f"{scheme}://127.0.0.1:{port}/x", timeout=0.3))


def test_a_file_that_is_no_database_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database" * 100)
    with pytest.raises(StateError, match=r"notes\.txt cannot be used: file is not a database"):
        asyncio.run(open_state(str(path)))
    assert path.read_text() == "not a database" * 100


def test_another_database_is_not_changed_by_reading(tmp_path):
    path = tmp_path / "other.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE a (b)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StateError, match="There is no state at"):
        asyncio.run(open_state(str(path), create=False))
    assert path.read_bytes() == before


def test_a_file_that_another_process_writes_is_waited_for_and_then_named(tmp_path):
    async def run(path):
        async with opened(str(path), timeout=0.3) as state:
            writing = sqlite3.connect(path, isolation_level=None)
            writing.execute("BEGIN IMMEDIATE")
            waiting = asyncio.ensure_future(state.claim("a", "body", 30.0))
            await asyncio.sleep(0.1)
            writing.execute("COMMIT")
            assert (await waiting).kind == "new"
            writing.execute("BEGIN IMMEDIATE")
            begin = time.monotonic()
            failed = await asyncio.gather(
                *(state.claim("b", "body", 30.0) for _ in range(20)), return_exceptions=True
            )
            assert time.monotonic() - begin < 2.0  # all together, not one after the other
            assert all("cannot be used: database is locked" in str(one) for one in failed)
            writing.execute("COMMIT")
            writing.close()
            assert (await state.claim("b", "body", 30.0)).kind == "new"

    asyncio.run(run(tmp_path / "state.sqlite"))


def test_postgresql_that_was_restarted_is_used_again(tmp_path):
    async def run(address):
        async with opened(address) as state:
            await asyncio.gather(*(state.claim(f"r-{i}", "body", 30.0) for i in range(8)))
            engine = postgres()
            with engine.begin() as connection:  # as a restart does
                ended = connection.execute(
                    sa.text(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                        "WHERE application_name = :name"
                    ),
                    {"name": name},
                ).all()
            assert len(ended) == 8
            engine.dispose()
            with pytest.raises(StateError):
                await state.claim("next", "body", 30.0)
            for i in range(8):  # one error, not one for each connection
                assert (await state.claim(f"s-{i}", "body", 30.0)).kind == "new"

    name = f"emsco-test-{uuid.uuid4().hex}"
    with store("postgresql", tmp_path) as address:
        place, _, prefix = address.partition("?prefix=")
        asyncio.run(run(f"{place}?application_name={name}&prefix={prefix}"))


def test_sslmode_is_understood(tmp_path):
    """The usual name; asyncpg calls it ssl."""

    async def run(address):
        async with opened(address) as state:
            await state.ping()

    with store("postgresql", tmp_path) as address:
        asyncio.run(run(f"{address}&sslmode=disable"))
