"""Files are whole or as they were, and drafts that killed processes left are removed."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from emsco._ground.atomic import write_whole
from emsco.exceptions import ArtifactError

SLOW = """
import sys, time
from emsco._ground.atomic import write_whole
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
