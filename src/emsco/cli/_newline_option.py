"""The option that lets cells of CSV files hold line breaks, for every command that reads tables."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import Annotated, Any

import typer

NEWLINES_IN_CELLS: ContextVar[bool] = ContextVar("NEWLINES_IN_CELLS", default=False)

_OPTION = inspect.Parameter(
    "newlines_in_cells",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool,
        typer.Option(
            "--newlines-in-cells",
            help="Allow quoted cells of CSV files to hold line breaks; otherwise they are refused, "
            "because a quote that is left open joins rows.",
        ),
    ],
)


def reading_tables(command: Callable[..., None]) -> Callable[..., None]:
    """Add the option to a command; what it calls reads the variable."""

    @wraps(command)
    def run(*args: Any, newlines_in_cells: bool = False, **kwargs: Any) -> None:
        token = NEWLINES_IN_CELLS.set(newlines_in_cells)
        try:
            command(*args, **kwargs)
        finally:
            NEWLINES_IN_CELLS.reset(token)

    own = inspect.signature(command, eval_str=True)
    run.__signature__ = own.replace(  # type: ignore[attr-defined]  # which typer reads
        parameters=[*own.parameters.values(), _OPTION]
    )
    return run
