"""Files are whole or as they were, and drafts that killed processes left are removed."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from emsco._utils.atomic_write import write_whole
from emsco.exceptions import ArtifactError

SLOW = """
import sys, time
from emsco._utils.atomic_write import write_whole
def parts():
    yield b"half"
    print("writing", flush=True)
    time.sleep(600)
write_whole(sys.argv[1], parts())
"""


def _writing(path):
    """Start a process that is in the midst of writing a file."""
    process = subprocess.Popen([sys.executable, "-c", SLOW, str(path)], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"writing\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_draft_that_a_killed_process_left_is_removed_at_the_next_write(tmp_path, number):
    """Whatever killed it; a file whose name begins alike is not a draft of it."""
    path, other = tmp_path / "model.emsco", tmp_path / ".model.emsco.backup"
    other.write_bytes(b"mine")
    process = _writing(path)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert len(list(tmp_path.iterdir())) == 2, "the draft is left"
    write_whole(path, [b"whole"])
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {
        "model.emsco": b"whole",
        ".model.emsco.backup": b"mine",
    }


def test_a_draft_that_is_being_written_is_left_alone(tmp_path):
    """Two processes may write the same file; each moves its own there."""
    path = tmp_path / "model.emsco"
    process = _writing(path)
    try:
        (draft,) = tmp_path.iterdir()
        write_whole(path, [b"whole"])
        assert draft.exists()
    finally:
        process.kill()
        process.communicate(timeout=60)


def test_what_cannot_be_written_leaves_what_was_there(tmp_path):
    """A file too large for its disk, and a folder that is not there."""
    import resource

    path = tmp_path / "model.emsco"
    path.write_bytes(b"before")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(ArtifactError, match="cannot be written: File too large"):
            write_whole(path, [b"x" * 20_000])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [file.name for file in tmp_path.iterdir()] == ["model.emsco"]
    assert path.read_bytes() == b"before"
    with pytest.raises(ArtifactError, match="No such file or directory"):
        write_whole(tmp_path / "none" / "model.emsco", [b""])


RACER = """
import sys
from emsco._utils.atomic_write import write_whole
path, keep, own, n_writes = sys.argv[1], sys.argv[2] or None, sys.argv[3].encode(), int(sys.argv[4])
for _ in range(n_writes):
    write_whole(path, [own * 1000, own * 1000], keep=keep)
"""


@pytest.mark.parametrize("keep", ["", "model.emsco.previous"])
def test_writers_of_one_path_never_fail_and_it_always_leads_to_a_whole_file(tmp_path, keep):
    """No writer removes the draft of another, and a reader finds a whole file at any time."""
    path, kept = tmp_path / "model.emsco", str(tmp_path / keep) if keep else ""
    write_whole(path, [b"0" * 2000])
    command = [sys.executable, "-c", RACER, str(path), kept]
    writers = [
        subprocess.Popen([*command, str(i), "150"], stderr=subprocess.PIPE, text=True)
        for i in range(6)
    ]
    whole = {str(i).encode() * 2000 for i in range(6)}
    n_absent = n_partial = 0
    while any(writer.poll() is None for writer in writers):
        try:
            n_partial += path.read_bytes() not in whole
        except FileNotFoundError:
            n_absent += 1
    failed = [told for writer in writers if (told := writer.communicate(timeout=60)[1])]
    assert (failed, n_absent, n_partial) == ([], 0, 0)
    names = ["model.emsco", keep] if keep else ["model.emsco"]
    assert sorted(file.name for file in tmp_path.iterdir()) == names
    assert all((tmp_path / name).read_bytes() in whole for name in names)


def test_the_kept_file_is_whole_where_there_are_no_links(tmp_path, monkeypatch):
    """Such as on FAT: it is copied, and the target still leads to a file at any time."""

    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    path, kept = tmp_path / "model.emsco", tmp_path / "model.emsco.previous"
    for content in (b"first", b"second", b"third"):
        write_whole(path, [content], keep=kept)
    assert (path.read_bytes(), kept.read_bytes()) == (b"third", b"second")
    assert len(list(tmp_path.iterdir())) == 2
