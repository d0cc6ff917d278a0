"""The option that allows line breaks in CSV cells, for every command that reads tables."""

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
            help="Allow line breaks in quoted CSV cells; they are refused otherwise, because an "
            "unclosed quote joins rows.",
        ),
    ],
)


def reading_tables(command: Callable[..., None]) -> Callable[..., None]:
    """Add the option to a command; CSV readers read it from the context variable."""

    @wraps(command)
    def run(*args: Any, newlines_in_cells: bool = False, **kwargs: Any) -> None:
        token = NEWLINES_IN_CELLS.set(newlines_in_cells)
        try:
            command(*args, **kwargs)
        finally:
            NEWLINES_IN_CELLS.reset(token)

    own = inspect.signature(command, eval_str=True)
    run.__signature__ = own.replace(  # type: ignore[attr-defined]  # read by typer
        parameters=[*own.parameters.values(), _OPTION]
    )
    return run
