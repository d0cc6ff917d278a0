"""The command as a process: pipes, interruption, its start, and the path of a newcomer."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from threading import Timer

import numpy as np
import pandas as pd
import pytest
from commands import call, without_reads

EMSCO = [sys.executable, "-m", "emsco"]


def test_decisions_flow_through_pipes(folder):
    """From standard input to standard output, as in `cat rows.csv | emsco decide run -`."""
    rows = (folder / "fresh.csv").read_bytes()
    command = [*EMSCO, "decide", str(folder / "run")]
    piped = subprocess.run([*command, "-"], input=rows, capture_output=True, check=True)
    assert piped.stdout.decode() == call("decide", folder / "run", folder / "fresh.csv").out
    assert piped.stdout.count(b"\n") == 2001
    assert piped.stderr == b"Read: 2,000 rows of standard input.\n"


def test_a_reader_that_stops_is_no_error(folder, tmp_path):
    """`emsco decide ... | head -n 1` says nothing on standard error."""
    text = (folder / "fresh.csv").read_text()
    header, _, body = text.partition("\n")
    many = tmp_path / "many.csv"
    many.write_text(header + "\n" + body * 200)
    command = [*EMSCO, "decide", str(folder / "run"), str(many)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline().startswith(b"row,label")
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=60) == 141
    process.stderr.close()


def _leaves(command, *, stdout, rows=b"", **options):
    """Give the exit code and what was told, of a command that cannot print.

    Rows stop coming and the pipe stays open: a thread waits for more when the command ends.
    """
    with open(stdout, "wb") as full:
        process = subprocess.Popen(
            [*EMSCO, *map(str, command)], stdin=subprocess.PIPE, stdout=full,
            stderr=subprocess.PIPE, **options,
        )  # fmt: skip
        watch = Timer(60, process.kill)  # one that never ends is a failure, and no more
        watch.start()
        with suppress(BrokenPipeError):  # it has ended without reading all of it
            process.stdin.write(rows)
            process.stdin.flush()
        told = process.stderr.read().decode()
        code = process.wait()
        watch.cancel()
    for pipe in (process.stdin, process.stderr):
        with suppress(BrokenPipeError):
            pipe.close()
    return code, told


FULL = "emsco: Standard output cannot be written: No space left on device.\n"


@pytest.mark.parametrize(
    "command", [("show", "run"), ("show", "run", "--json"), ("decide", "run", "fresh.csv"),
                ("--help",), ("--version",), ("search", "--help")]
)  # fmt: skip
def test_a_full_disk_under_standard_output_is_told(folder, command):
    """In one line, with the code of what cannot be done."""
    code, err = _leaves(command, stdout="/dev/full", cwd=folder)
    assert (code, without_reads(err)) == (2, FULL)


def test_a_full_disk_is_told_while_rows_still_come(folder):
    """A thread that reads must not end the process by a fatal error."""
    header, _, body = (folder / "fresh.csv").read_bytes().partition(b"\n")
    rows = header + b"\n" + body * 200
    command = ("decide", folder / "run", "-")
    assert _leaves(command, stdout="/dev/full", rows=rows) == (2, FULL)


def test_a_row_too_long_is_told_while_rows_still_come(folder):
    """As above, where what is read is at fault."""
    header, _, body = (folder / "fresh.csv").read_bytes().partition(b"\n")
    rows = header + b"\n" + body + b"x" * 50_000_000
    code, told = _leaves(("decide", folder / "run", "-"), stdout=os.devnull, rows=rows)
    assert (code, told) == (2, "emsco: - has a row longer than 4 MB; is a quote left open?\n")


def test_a_disk_that_is_full_leaves_what_was_there(folder, tmp_path):
    """A file that grows too large, for a disk as for a limit, is not written at all."""
    import resource

    out = tmp_path / "out.csv"
    out.write_text("before")
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (10_000, 10_000))
    command = [*EMSCO, "decide", "run", "fresh.csv", "--out", str(out), "--force"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, preexec_fn=limit)
    assert ended.returncode == 2
    assert "out.csv cannot be written: File too large" in ended.stderr
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"out.csv": "before"}


def test_nobody_hears_of_a_full_standard_error(folder):
    """The exit code is what it would be otherwise."""
    with open("/dev/full", "wb") as full:
        ended = subprocess.run([*EMSCO, "show", "nothing.emsco"], cwd=folder, stderr=full)
        assert ended.returncode == 2
        command = [*EMSCO, "select", "run"]
        ended = subprocess.run(command, cwd=folder, stderr=full, stdout=subprocess.PIPE)
        assert ended.returncode == 0


def test_closed_standard_output_is_told(folder):
    """As by `>&-` of a shell."""
    command = shlex.join([*EMSCO, "decide", "run", "fresh.csv"])
    ended = subprocess.run(["bash", "-c", f"{command} >&-"], cwd=folder, capture_output=True)
    assert ended.returncode == 2
    told = without_reads(ended.stderr.decode())
    assert told == "emsco: Standard output is closed; give a file with --out.\n"


BUG = r"""
import sys
from emsco import cli
from emsco.cli import _model_file
def load_any(*_): raise KeyError("nobody\nforesaw")
_model_file.load_any = load_any
sys.argv = ["emsco", "show", "run"]
cli.main()
"""


@pytest.mark.parametrize("traceback", [False, True])
def test_an_error_that_nobody_foresaw_has_a_code_of_its_own(traceback):
    """One line asks to report it; the traceback is there for the asking."""
    environment = {**os.environ, **({"EMSCO_TRACEBACK": "1"} if traceback else {})}
    ended = subprocess.run(
        [sys.executable, "-c", BUG], capture_output=True, text=True, env=environment
    )
    assert ended.returncode == 70
    *before, last = ended.stderr.splitlines()
    assert last.startswith("emsco: unexpected error: KeyError: 'nobody")
    assert last.endswith("if the environment variable EMSCO_TRACEBACK is set to 1.")
    assert bool(before) == traceback
    assert ("Traceback (most recent call last):" in before) == traceback


def test_a_reader_that_stops_reading_help_is_no_error():
    """It is not the code that means "not certified"."""
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run([*EMSCO, "--help"], stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (141, b"")


def _start(command, **options):
    """Start a process that can be interrupted, also where the tests run in the background.

    Shells have interrupts ignored there, and what they start inherits that.
    """
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heed, **options
    )


@pytest.mark.parametrize(
    ("number", "code", "what"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
@pytest.mark.nightly
def test_an_interrupted_command_leaves_no_half_file(folder, tmp_path, number, code, what):
    """It ends with a code that says so, and what was there before is as it was."""
    header, _, body = (folder / "fresh.csv").read_text().partition("\n")
    out = tmp_path / "out.csv"
    out.write_text("before")
    command = [*EMSCO, "decide", str(folder / "run"), "-", "--out", str(out), "--force"]
    process = _start(command, stdin=subprocess.PIPE)
    process.stdin.write((header + "\n" + body * 100).encode())
    process.stdin.flush()
    deadline = time.monotonic() + 60
    while len(list(tmp_path.iterdir())) < 2:  # until the draft is there: it is deciding
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(number)
    error = process.communicate(timeout=60)[1].decode()
    assert process.returncode == code
    assert error == f"emsco: {what}; no partial files were left.\n"
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]
    assert out.read_text() == "before"


@pytest.mark.nightly
def test_an_interrupted_search_goes_on(tmp_path):
    """It says so and leaves a checkpoint; the same command ends as if nothing had happened."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=150)
    table = pd.DataFrame({f"f{i}": y + rng.normal(0, 1 + i, 150).round(2) for i in range(6)})
    table.assign(y=y).to_csv(tmp_path / "rows.csv", index=False)
    options = ["--label", "y", "--cv", "2", "--threshold", "0.7", "--max-stages", "2"]
    command = ["search", str(tmp_path / "rows.csv"), *options, "--n-jobs", "1", "-q", "--out"]
    checkpoint = tmp_path / "run" / "checkpoint.emsco"
    process = _start([*EMSCO, *command, str(tmp_path / "run")])
    deadline = time.monotonic() + 60
    while not checkpoint.with_name("checkpoint.emsco.previous").exists():  # until some are fitted
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 130
    assert f"{checkpoint} holds the fitted models; run the same command again to continue." in told
    assert checkpoint.exists()
    again, whole = (call(*command, tmp_path / name) for name in ("run", "whole"))
    assert again.code == 0
    assert again.out == whole.out
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"search.emsco", "model.emsco"}


def test_help_loads_nothing_that_only_commands_need():
    """Commands import the library when they run; `import emsco` alone loads none of it."""
    code = "import sys; from emsco.cli._app import app; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True
    )
    heavy = {"numpy", "sklearn", "pandas", "pyarrow", "rich.markdown"}
    assert not heavy & set(loaded.stdout.split())


def test_a_name_that_is_not_there_is_an_attribute_error():
    """Names that come when asked for behave as others do."""
    import emsco

    assert emsco.CascadeSearchCV is emsco.search.CascadeSearchCV
    assert set(emsco.__all__) <= set(dir(emsco))
    for name in emsco.__all__:
        assert getattr(emsco, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Cascade'"):
        emsco.Cascade  # noqa: B018
