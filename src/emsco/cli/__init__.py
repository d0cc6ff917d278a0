"""The command line: a table of commands; each parses, calls the library, prints."""

from __future__ import annotations


def main() -> None:
    """Run the command line, or say how to install what it needs."""
    import sys
    from importlib.util import find_spec

    from emsco.exceptions import MissingExtraError, require

    for module in ("typer", "rich", "pyarrow", "pandas"):
        if find_spec(module) is None:  # looking costs nothing, importing them would
            try:
                require(module, "cli")
            except MissingExtraError as error:
                print(f"emsco: {error}", file=sys.stderr)  # noqa: T201
                sys.exit(2)
    from emsco.cli._app import app
    from emsco.cli._errors import run_as_process

    run_as_process(app)
