"""Run soak tests by name: one JSON object a line as they go, then their tables in Markdown."""

from __future__ import annotations

import argparse
import importlib

NAMES = (
    "live", "serve", "mutations", "csv_mutations", "differential", "one_row", "disguises",
    "survival", "loading", "label_answers", "chat", "behaviour",
)  # fmt: skip


def main() -> None:
    """Run one soak test; `--small` is of the same kind and over in a few minutes."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=main.__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", nargs="*", default=None, help="parts of it, by name")
    beside = parser.add_argument_group("behaviour alone")
    beside.add_argument("--against", metavar="PYTHON", help="one whose emsco must behave alike")
    beside.add_argument("--keep", metavar="FOLDER", help="where to write what each side recorded")
    arguments = parser.parse_args()
    values = {"against": arguments.against, "keep": arguments.keep}
    options = {name: value for name, value in values.items() if value is not None}
    if options and arguments.name != "behaviour":
        parser.error(f"--{next(iter(options))} is for behaviour alone")
    module = importlib.import_module(f"tests.soak.{arguments.name}")
    print(module.run(small=arguments.small, only=arguments.only, **options))


if __name__ == "__main__":
    main()
