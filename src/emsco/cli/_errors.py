"""Error messages and exit codes.

0: success. 1: no certificate could be issued, or live values differ from a table. 2: the command
was refused; one message says why. 70: an unexpected error; EMSCO_TRACEBACK=1 shows the traceback.
130: interrupted. 141: the reader of the output closed the pipe. 143: terminated.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import wraps
from shlex import quote
from typing import Any, NoReturn, ParamSpec

import typer

from emsco._utils.progress import command_progress, held
from emsco.exceptions import (
    ArtifactError,
    Code,
    EmscoError,
    EmscoWarning,
    Keyword,
    Parameter,
    Placeholder,
)

P = ParamSpec("P")

REFUSED = 2
UNFORESEEN = 70  # EX_SOFTWARE of sysexits.h
INTERRUPTED = 130  # as the shell counts: 128 + SIGINT
STOPPED_READING = 141  # 128 + SIGPIPE
TERMINATED = 143  # 128 + SIGTERM

TRACEBACK = "EMSCO_TRACEBACK"  # the environment variable that enables one
_MAX_LENGTH = 300  # characters of an unexpected error

# What is called otherwise here; other parameters are options of the same name.
_OPTIONS = {"known": "--keys", "select": "`emsco select`", "trusted": "--trust"}
_COMMANDS = {
    "by='front'": "`--certify-by front`",
    "by='ladder'": "`--certify-by ladder`",
    "score_front(X, y)": "`emsco show --fresh`",
    "score_front(X, y, stake=stake)": "`emsco show --fresh --stake`",
    "score_front(X)": "`emsco show --fresh`",
    "choose(...)": "`emsco select`",
    "choose(caution=0)": "`emsco select --caution 0`",
    "certify_together(...)": "`emsco certify` with several --accuracy or --agreement",
}


def in_shell(text: str) -> str:
    """Spell the parameters and calls in a message of the library as options and commands."""
    return "".join(map(_in_shell, getattr(text, "parts", (text,))))


def _in_shell(part: str) -> str:
    if not isinstance(part, Parameter):
        return _COMMANDS.get(part, part) if isinstance(part, Code) else part
    option = _OPTIONS.get(part.name, f"--{part.name.replace('_', '-')}")
    value = part.value if isinstance(part, Keyword) else None
    if isinstance(value, Mapping):
        values = [f"{label}={one}" for label, one in value.items()]
        if isinstance(part, Placeholder):
            values = [one.upper() for one in values]
    elif isinstance(value, list):  # to be copied without the full stop after it
        return f"`{' '.join(f'{option} {quote(one)}' for one in value)}`"
    elif value is True or value is None:
        return option
    else:
        values = [f"{value:.10g}" if isinstance(value, float) else str(value)]
    return " ".join(f"{option} {quote(one)}" for one in values)


def note(text: str) -> None:
    """Print a note to standard error, apart from the results."""
    with held(), suppress(OSError):  # a full disk or a closed stream
        typer.echo(text, err=True)


class Terminated(KeyboardInterrupt):
    """SIGTERM was received: the process ends as if interrupted, without partial files."""


@contextmanager
def writing_output() -> Iterator[None]:
    """Raise a named error if standard output cannot be written, except for a closed pipe."""
    try:
        with held():
            yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise ArtifactError(
            f"Standard output cannot be written: {error.strerror or error}."
        ) from error


def _explain(error: Exception) -> int:
    """Print an error in one line, and return the exit code."""
    if isinstance(error, BrokenPipeError):
        # Otherwise, flushing the rest to the closed pipe would raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return STOPPED_READING
    if isinstance(error, EmscoError):
        row = getattr(error, "row", None)
        line = "" if row is None else f" In a CSV file, row {row} is line {row + 2}."
        note(f"emsco: {in_shell(error.message)}{line}")
        return REFUSED
    if isinstance(error, MemoryError):
        note("emsco: not enough memory; use fewer rows or columns.")
        return REFUSED
    if os.environ.get(TRACEBACK):
        note("".join(traceback.format_exception(error)).rstrip())
    what = " ".join(f"{type(error).__name__}: {error}".split())
    what = what if len(what) <= _MAX_LENGTH else f"{what[:_MAX_LENGTH]}..."
    note(
        f"emsco: unexpected error: {what.removesuffix(':')}. Please report it with the traceback, "
        f"which is printed if the environment variable {TRACEBACK} is set to 1."
    )
    return UNFORESEEN


def explained(command: Callable[P, None]) -> Callable[P, None]:
    """Print errors and warnings of a command as single lines, and set its exit code."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = _show_warning
            try:
                with command_progress():
                    command(*args, **kwargs)
                _flush()
            except (typer.Exit, typer.BadParameter):
                raise  # handled by typer
            except KeyboardInterrupt as error:
                terminated = isinstance(error, Terminated)
                what = "terminated" if terminated else "interrupted"
                note(f"emsco: {what}; no partial files were left.")
                # Immediately: a normal exit would wait for threads that fit, and crash in ones
                # that read.
                os._exit(TERMINATED if terminated else INTERRUPTED)
            except Exception as error:
                raise typer.Exit(_explain(error)) from None

    return run


def run_as_process(app: Callable[..., Any]) -> NoReturn:
    """Run the command line as the main program, and exit with its code."""
    with suppress(ValueError):  # outside the main thread
        signal.signal(signal.SIGTERM, _terminate)
    code: Any
    # Keep a reference until exit: freeing it would close what the command was reading, which waits
    # for a thread that may be waiting for rows that never come.
    held: BaseException | None = None
    try:
        with writing_output():  # for --help, which runs no command
            app(prog_name="emsco")
        code = 0
    except SystemExit as ended:
        held = ended
        # If the pipe closes while help is printed, typer exits with 1, which means "not certified".
        code = STOPPED_READING if isinstance(ended.__context__, BrokenPipeError) else ended.code
    except KeyboardInterrupt as ended:
        held, code = ended, INTERRUPTED
    except Exception as error:
        held, code = error, _explain(error)
    if not code:
        try:
            _flush()
        except Exception as error:
            code = _explain(error)
    if not code:
        del held
        sys.exit()
    with suppress(Exception):
        sys.stderr.flush()
    # Immediately: threads that still read or write would cause a "Fatal Python error".
    os._exit(code if isinstance(code, int) else UNFORESEEN)


def _terminate(*_: Any) -> NoReturn:
    raise Terminated


def _flush() -> None:
    """Flush standard output; a full disk raises only now."""
    if sys.stdout is not None:
        with writing_output():
            sys.stdout.flush()


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    text = message.message if isinstance(message, EmscoWarning) else str(message)
    note(f"emsco: warning: {in_shell(text)}")
