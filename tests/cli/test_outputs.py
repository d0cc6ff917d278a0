"""What a command may write: never its own input, and over what is there only with --force."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
import threading

import pytest
from commands import call, without_reads

EMSCO = [sys.executable, "-m", "emsco"]


@pytest.fixture
def own(folder, tmp_path):
    """Give a copy of the folder that a test may harm."""
    return shutil.copytree(folder, tmp_path / "own")


def refused(called, *parts):
    """Check that a command ended with 2, in one line."""
    assert called.code == 2, called
    assert without_reads(called.err).count("\n") == 1
    for part in parts:
        assert part in called.err


def commands(own):
    """Give every command that writes, without its output, and the option that names it."""
    run, fresh = own / "run", own / "fresh.csv"
    return {
        "init": (("costs", "init", fresh, "--label", "state"), "--out", fresh),
        "decide": (("decide", run, fresh), "--out", fresh),
        "decide by": (("decide", run / "model.emsco", fresh), "--out", run / "model.emsco"),
        "select": (("select", run), "--out", run / "search.emsco"),
        "certify": (
            ("certify", run, fresh, "--label", "state", "--accuracy", 0.9), "--out", fresh,
        ),
        "report": (("report", run, "--fresh", fresh, "--label", "state"), "--out", fresh),
        "savings": (
            ("savings", fresh, "--costs", own / "costs.toml", "--answers", "state"),
            "--changed", fresh,
        ),
        "savings to": (
            ("savings", fresh, "--costs", own / "costs.toml", "--answers", "state"),
            "--out", own / "costs.toml",
        ),
        "search": (
            ("search", fresh, "--label", "state", "--out", own / "new"), "--checkpoint", fresh,
        ),
    }  # fmt: skip


NAMES = (
    "init", "decide", "decide by", "select", "certify", "report", "savings", "savings to", "search",
)  # fmt: skip


def _spellings(path):
    """Name a file by other ways that lead to it."""
    symbolic, hard = path.with_name(f"symbolic{path.suffix}"), path.with_name(f"hard{path.suffix}")
    symbolic.symlink_to(path)
    os.link(path, hard)
    return path, path.parent / ".." / path.parent.name / path.name, symbolic, hard


@pytest.mark.parametrize("name", NAMES)
def test_an_output_that_is_an_input_is_refused(own, name):
    """Also with --force, through links and by another spelling; the input stays as it was."""
    command, option, path = commands(own)[name]
    before = path.read_bytes()
    for spelling in _spellings(path):
        refused(call(*command, option, spelling, "--force"), "also reads or writes")
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", NAMES[:-1])
def test_what_is_there_is_written_over_only_with_force(own, name):
    """The message says so, and what was there stays as it was."""
    command, option, path = commands(own)[name]
    there = own / f"there{path.suffix}"
    there.write_text("before")
    refused(call(*command, option, there), f"{there} already exists", "--force")
    assert there.read_text() == "before"


def test_with_force_a_file_is_written_over(own):
    out = own / "out.csv"
    out.write_text("before")
    assert call("decide", own / "run", own / "fresh.csv", "--out", out, "--force").code == 0
    assert out.read_text().startswith("row,label,")


def test_standard_input_is_an_input_too(own):
    """`emsco decide run - --out rows.csv < rows.csv` would empty what it reads."""
    rows = own / "fresh.csv"
    before = rows.read_bytes()
    command = [*EMSCO, "decide", str(own / "run"), "-", "--out", str(rows), "--force"]
    with rows.open("rb") as stdin:
        ended = subprocess.run(command, stdin=stdin, capture_output=True, text=True)
    assert ended.returncode == 2
    assert "also reads or writes" in ended.stderr
    assert rows.read_bytes() == before


def test_two_outputs_of_one_command_are_two_files(own):
    """Else the second would be written over the first."""
    command, *_ = commands(own)["savings"]
    out = own / "new.csv"
    refused(call(*command, "--changed", out, "--out", out), "also reads or writes")
    assert not out.exists()


def test_a_finished_run_is_searched_again_only_with_force(own):
    """An unfinished one, which has a checkpoint, goes on without."""
    command = (
        "search", own / "train.csv", "--label", "state", "--costs", own / "costs.toml",
        "--cv", 2, "--max-stages", 1, "--threshold", 0.7, "--quiet", "--out", own / "run",
    )  # fmt: skip
    before = (own / "run" / "search.emsco").read_bytes()
    refused(call(*command), "search.emsco already exists", "--force")
    assert (own / "run" / "search.emsco").read_bytes() == before
    assert call(*command, "--force").code == 0
    assert (own / "run" / "search.emsco").read_bytes() != before
    (own / "run" / "checkpoint.emsco").write_bytes(b"of an unfinished search")
    assert "is not a valid checkpoint" in call(*command).err, "it got as far as reading it"


def _kinds(folder):
    """Make what is no regular file; give each, and how it is called."""
    fifo, listening, device = folder / "fifo.csv", folder / "socket.csv", folder / "device.csv"
    os.mkfifo(fifo)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(listening))
    (folder / "folder.csv").mkdir()
    kinds = {fifo: "a pipe", listening: "a socket", folder / "folder.csv": "a folder"}
    try:
        os.mknod(device, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:  # only root makes devices
        return kinds
    return kinds | {device: "a device"}


def test_what_is_no_regular_file_is_refused_and_stays(own, tmp_path):
    """Devices, pipes, sockets and folders, with --force too."""
    for path, what in _kinds(tmp_path).items():
        before = path.lstat().st_mode, path.lstat().st_ino
        for command, option, _ in commands(own).values():
            refused(call(*command, option, path, "--force"), f"{path} is {what}")
        assert (path.lstat().st_mode, path.lstat().st_ino) == before


@pytest.mark.parametrize("out", ["/dev/null", "/dev/stdout", "/dev/../dev/stdout"])
def test_dev_null_and_dev_stdout_are_written_to_as_they_are(folder, out):
    """They are never replaced, and need no --force."""
    before = os.lstat(out).st_mode, os.lstat(out).st_ino
    command = [*EMSCO, "decide", str(folder / "run"), str(folder / "fresh.csv"), "--out", out]
    ended = subprocess.run(command, capture_output=True, check=True)
    assert (os.lstat(out).st_mode, os.lstat(out).st_ino) == before
    whole = call("decide", folder / "run", folder / "fresh.csv").out.encode()
    assert ended.stdout == (b"" if out == "/dev/null" else whole)


def test_dev_stdout_appends_where_the_shell_does(folder, tmp_path):
    """A file that standard output goes on with is neither replaced nor emptied."""
    kept = tmp_path / "kept"
    kept.write_text("before\n")
    command = [*EMSCO, "costs", "init", str(folder / "train.csv"), "--label", "state"]
    with kept.open("ab") as stdout:
        subprocess.run([*command, "--out", "/dev/stdout"], stdout=stdout, check=True)
    assert kept.read_text().startswith("before\n# The cost of each source")


def test_writing_from_python_replaces_no_pipe(folder, tmp_path):
    """`dump` and `report` write over files, but never over what is none."""
    from emsco import load
    from emsco.exceptions import ArtifactError
    from emsco.io import dump
    from emsco.report import report

    search = load(folder / "run" / "search.emsco")
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    threading.Thread(target=fifo.open, daemon=True).start()  # a writer that opened it would block
    for write in (dump, report):
        with pytest.raises(ArtifactError, match="is a pipe; give a file"):
            write(search, fifo)
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    dump(search, "/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    for _ in range(2):
        dump(search, tmp_path / "search.emsco")
