"""What people are told when something goes wrong, and what programs are: the exit code.

0: done. 1: a certificate was asked for and cannot be given. 2: the command cannot be done as it was
given; one message says why. 130: interrupted. 141: whoever read the output has stopped reading. A
bug is none of these: it keeps its traceback.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec

import typer

P = ParamSpec("P")

INTERRUPTED = 130  # as the shell counts: 128 + SIGINT
STOPPED_READING = 141  # 128 + SIGPIPE

# What the library calls by its Python name has another one here.
_IN_SHELL = {
    "score_front(X, y)": "`emsco show --fresh`",
    "choose(...)": "`emsco select`",
    "`share=`": "--share",
    "`max_missed`": "--max-missed",
    "`max_cost`": "--max-cost",
    "`accuracy`": "--accuracy",
    "`confidence`": "--confidence",
    "`min_coverage`": "--min-coverage",
}


def in_shell(text: str) -> str:
    """Say in words of the command line what the library says in words of Python."""
    for python, shell in _IN_SHELL.items():
        text = text.replace(python, shell)
    return text


def note(text: str) -> None:
    """Tell something by the way: on standard error, where it does not mix with results."""
    typer.echo(text, err=True)


def told(command: Callable[P, None]) -> Callable[P, None]:
    """Turn what stops a command into one message and an exit code, and warnings into lines."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        from emsco.exceptions import EmscoError

        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = _show_warning
            try:
                command(*args, **kwargs)
                sys.stdout.flush()
            except EmscoError as error:
                note(f"emsco: {in_shell(str(error))}")
                raise typer.Exit(2) from None
            except KeyboardInterrupt:
                note("emsco: interrupted; nothing is half written.")
                # At once: a thread that fits would be waited for, one that reads would crash.
                os._exit(INTERRUPTED)
            except BrokenPipeError:
                # What Python still holds for the closed pipe would raise again at its very end.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                raise typer.Exit(STOPPED_READING) from None

    return run


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    note(f"emsco: warning: {in_shell(str(message))}")
