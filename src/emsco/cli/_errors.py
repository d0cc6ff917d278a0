"""What people are told when something goes wrong, and what programs are: the exit code.

0: done. 1: a certificate was asked for and cannot be given, or live values differ from a table. 2:
the command cannot be done as it was given; one message says why. 70: an error that nobody foresaw;
EMSCO_TRACEBACK=1 shows where. 130: interrupted. 141: whoever read the output has stopped reading.
143: terminated.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import traceback
import warnings
from ast import literal_eval
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from shlex import quote
from typing import Any, NoReturn, ParamSpec

import typer

from emsco.cli._progress import held, telling
from emsco.exceptions import ArtifactError, EmscoError

P = ParamSpec("P")

REFUSED = 2
UNFORESEEN = 70  # EX_SOFTWARE of sysexits.h
INTERRUPTED = 130  # as the shell counts: 128 + SIGINT
STOPPED_READING = 141  # 128 + SIGPIPE
TERMINATED = 143  # 128 + SIGTERM

TRACEBACK = "EMSCO_TRACEBACK"  # the environment variable that asks for one
_MOST_TOLD = 300  # letters of an error that nobody foresaw

# What the library calls by its Python name has another one here; longer names come first.
_IN_SHELL = {
    "score_front(X, y)": "`emsco show --fresh`",
    "score_front(X)": "`emsco show --fresh`",
    "choose(caution=0)": "`emsco select --caution 0`",
    "choose(...)": "`emsco select`",
    "relax something else with select=": "relax something else with `emsco select`",
    "in one call, certify_together(...)": "by giving --accuracy or --agreement several times",
    "max_rejected={label: share}": "--max-rejected LABEL=SHARE",
    "caution='auto'": "--caution auto",
    "caution=0": "--caution 0",
    "by='loss'": "--by loss",
    "got by=": "got --by ",
    "pass what they belong to as groups=": "give what they belong to with --groups",
    "pass final_fitted_elsewhere=True": "give --final-fitted-elsewhere",
    "keys=": "--keys",
    "groups=": "--groups",
    "max_spend=": "--max-spend ",
    "`known`": "--keys",
    "`deadline`": "--deadline",
    "`population`": "--population",
    "`max_missed`": "--max-missed",
    "`max_rejected`": "--max-rejected",
    "`min_precision`": "--min-precision",
    "`max_cost`": "--max-cost",
    "`accuracy`": "--accuracy",
    "`agreement`": "--agreement",
    "`confidence`": "--confidence",
    "`min_coverage`": "--min-coverage",
    "`max_rows`": "--max-rows",
    "`error_cost`": "--error-cost",
    "`caution`": "--caution",
    "`allow`": "--allow",
    "`by`": "--by",
    "`cv`": "--cv",
}
_LIMITS = re.compile(r"\b(max_missed|max_rejected|min_precision|allow)=\{([^{}]*)\}")


def in_shell(text: str) -> str:
    """Say in words of the command line what the library says in words of Python.

    Examples
    --------
    >>> from emsco.cli._errors import in_shell
    >>> in_shell("No design within max_missed={'sick': 0.05, 'ill': 0.1}; `cv` is 2.")
    'No design within --max-missed sick=0.05 --max-missed ill=0.1; --cv is 2.'
    """
    for python, shell in _IN_SHELL.items():
        text = text.replace(python, shell)
    return _LIMITS.sub(_as_flags, text)


def _as_flags(limits: re.Match[str]) -> str:
    try:
        shares = literal_eval(f"{{{limits[2]}}}")
    except (SyntaxError, ValueError):  # a label that does not read as it is written
        return limits[0]
    flag = f"--{limits[1].replace('_', '-')}"
    return " ".join(f"{flag} {quote(f'{label}={share}')}" for label, share in shares.items())


def note(text: str) -> None:
    """Tell something by the way: on standard error, where it does not mix with results."""
    with held(), suppress(OSError):  # where that is full or closed, nobody can be told
        typer.echo(text, err=True)


class Terminated(KeyboardInterrupt):
    """Somebody asked the process to end: it ends as if interrupted, without half files."""


@contextmanager
def writing_output() -> Iterator[None]:
    """Name what is wrong with standard output; a reader that stopped reading is no fault."""
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
    """Say in one line what went wrong, and give the exit code."""
    if isinstance(error, BrokenPipeError):
        # What Python still holds for the closed pipe would raise again at its very end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return STOPPED_READING
    if isinstance(error, EmscoError):
        row = getattr(error, "row", None)
        line = "" if row is None else f" In a CSV file, row {row} is line {row + 2}."
        note(f"emsco: {in_shell(str(error))}{line}")
        return REFUSED
    if isinstance(error, MemoryError):
        note("emsco: there is not enough memory; use fewer rows or columns.")
        return REFUSED
    if os.environ.get(TRACEBACK):
        note("".join(traceback.format_exception(error)).rstrip())
    what = " ".join(f"{type(error).__name__}: {error}".split())
    what = what if len(what) <= _MOST_TOLD else f"{what[:_MOST_TOLD]}..."
    note(
        f"emsco: unexpected error: {what.removesuffix(':')}. Please report it, with the traceback "
        f"that is printed if the environment variable {TRACEBACK} is set to 1."
    )
    return UNFORESEEN


def explained(command: Callable[P, None]) -> Callable[P, None]:
    """Turn what stops a command into one message and an exit code, and warnings into lines."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = _show_warning
            try:
                with telling():
                    command(*args, **kwargs)
                _flush()
            except (typer.Exit, typer.BadParameter):
                raise  # an exit code, or an option that typer tells of
            except KeyboardInterrupt as error:
                terminated = isinstance(error, Terminated)
                what = "terminated" if terminated else "interrupted"
                note(f"emsco: {what}; no file was left half written.")
                # At once: a thread that fits would be waited for, one that reads would crash.
                os._exit(TERMINATED if terminated else INTERRUPTED)
            except Exception as error:
                raise typer.Exit(_explain(error)) from None

    return run


def run_as_process(app: Callable[..., Any]) -> NoReturn:
    """Run the command line as all that this process does, and end it with the exit code."""
    with suppress(ValueError):  # outside the main thread
        signal.signal(signal.SIGTERM, _terminate)
    code: Any
    # Held to the end: with it would go what the command was reading from, and that waits for a
    # thread that may wait for rows which never come.
    held: BaseException | None = None
    try:
        with writing_output():  # of help, which no command prints
            app(prog_name="emsco")
        code = 0
    except SystemExit as ended:
        held = ended
        # For a reader that stopped reading help, typer has the code that means "not certified".
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
    # At once: threads that still read or write would end the interpreter with "Fatal Python error".
    os._exit(code if isinstance(code, int) else UNFORESEEN)


def _terminate(*_: Any) -> NoReturn:
    raise Terminated


def _flush() -> None:
    """Write out what is printed; a disk that is full tells only now."""
    if sys.stdout is not None:
        with writing_output():
            sys.stdout.flush()


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    note(f"emsco: warning: {in_shell(str(message))}")
