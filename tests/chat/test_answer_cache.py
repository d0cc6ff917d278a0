"""Answers and accounts in a file: what is written stays, and damage is named."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing

import pytest

from emsco.chat.answer_cache import AnswerCache
from emsco.chat.chat_protocol import ChatReply
from emsco.exceptions import ArtifactError

REPLY = ChatReply('{"label": "spam"}', "stop", 0.9)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "answers.sqlite"


@pytest.fixture
def cache(path):
    with closing(AnswerCache(path)) as cache:
        yield cache


def test_an_answer_is_found_by_its_request_alone(cache, path):
    number = cache.reserve("a", "one", 10, None)
    cache.settle("a", number, 4, "one", REPLY)
    assert (cache.find("one"), cache.find("two")) == (REPLY, None)
    with closing(AnswerCache(path)) as again:
        assert again.find("one") == REPLY
        assert again.spending("a")[:2] == (4e-12, 0)


def test_the_limit_counts_what_is_known_and_what_is_reserved(cache):
    """A call whose cost is not known counts as its upper bound for good."""
    first = cache.reserve("a", "x", 60, 100)
    assert cache.reserve("a", "y", 41, 100) is None
    second = cache.reserve("a", "y", 40, 100)
    cache.settle("a", first, 10, "x", None)
    cache.settle("a", second, None, "y", None)
    assert cache.reserve("a", "z", 51, 100) is None
    assert cache.reserve("a", "z", 50, 100) is not None
    assert cache.reserve("b", "z", 100, 100) is not None  # another model has its own account
    assert cache.spending("a") == (10e-12, 90e-12, 2)


def test_what_a_process_reserved_counts_after_its_end(path):
    code = (
        "import os, sys; from emsco.chat.answer_cache import AnswerCache; "
        f"AnswerCache({str(path)!r}).reserve('a', 'x', 70, 100); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    with closing(AnswerCache(path)) as cache:
        assert cache.spending("a") == (0, 70e-12, 1)
        assert cache.reserve("a", "y", 31, 100) is None


def test_processes_share_one_limit(path):
    """Eight of them reserve until they are refused: together no more than the limit."""
    code = (
        "import sys; from emsco.chat.answer_cache import AnswerCache; "
        f"cache = AnswerCache({str(path)!r}); n = 0\n"
        "while cache.reserve('a', 'x', 7, 1000) is not None: n += 1\n"
        "print(n)"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    found = [int(child.communicate()[0]) for child in children]
    assert sum(found) == 1000 // 7


@pytest.mark.usefixtures("cache")
def test_the_file_is_for_its_owner_alone(path):
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


@pytest.mark.parametrize("content", [b"x" * 200, b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_file_that_is_no_database_is_named(path, content):
    path.write_bytes(content)
    with pytest.raises(ArtifactError, match=r"answers\.sqlite is damaged"):
        AnswerCache(path)
    assert path.read_bytes() == content


def test_a_database_of_others_is_left_alone(path):
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE job (name TEXT)")
    before = path.read_bytes()
    with pytest.raises(ArtifactError, match="is no file of answers of this version"):
        AnswerCache(path)
    assert path.read_bytes() == before


def test_a_changed_answer_is_no_answer(cache, path):
    number = cache.reserve("a", "one", 10, None)
    cache.settle("a", number, 4, "one", REPLY)
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE reply SET content = replace(content, 'spam', 'ham')")
        db.commit()
    with pytest.raises(ArtifactError, match="an answer in it was changed"):
        cache.find("one")


def test_every_changed_byte_is_named_or_changes_nothing(tmp_path):
    """No byte of the file can turn an answer into another one."""
    path = tmp_path / "answers.sqlite"
    with closing(AnswerCache(path)) as cache:
        for name in ("one", "two"):
            cache.settle("a", cache.reserve("a", name, 10, None), 4, name, REPLY)
    whole = path.read_bytes()
    for place in range(0, len(whole), 331):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x41]) + whole[place + 1 :])
        try:
            with closing(AnswerCache(path)) as cache:
                assert cache.find("one") in (REPLY, None)
        except ArtifactError:
            pass


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ArtifactError, match="cannot be opened: No such file"):
        AnswerCache(tmp_path / "no" / "answers.sqlite")
