"""The command line: each command parses its options, calls the library and prints."""

from __future__ import annotations


def main() -> None:
    """Run the command line, or report which packages are missing."""
    import sys
    from importlib.util import find_spec

    from emsco.exceptions import MissingExtraError, require

    for module in ("typer", "rich", "pyarrow", "pandas"):
        if find_spec(module) is None:  # cheaper than importing them
            try:
                require(module, "cli")
            except MissingExtraError as error:
                print(f"emsco: {error}", file=sys.stderr)  # noqa: T201
                sys.exit(2)
    from emsco.cli._app import app
    from emsco.cli._errors import run_as_process

    run_as_process(app)
