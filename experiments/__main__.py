"""Run experiments by name: one JSON object a line as they go, then their tables in Markdown."""

from __future__ import annotations

import argparse
import importlib

NAMES = (
    "certificates", "headline", "missed", "optimism", "guard", "monitor", "loading", "mutations",
    "csv_mutations",
    "masked", "savings", "survival", "disguises", "differential", "paper", "example", "figures",
    "peers", "luck", "budget", "behaviour", "promise", "live", "watched", "serve",
    "ray", "scaling", "text", "copies", "peeking", "reuse",
)  # fmt: skip


def main() -> None:
    """Run one experiment; `--small` is what CI runs, of the same kind and over in a minute."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description=main.__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", nargs="*", default=None, help="parts of it, by name")
    beside = parser.add_argument_group("behaviour alone")
    beside.add_argument("--against", metavar="PYTHON", help="one whose emsco must behave alike")
    beside.add_argument("--keep", metavar="FOLDER", help="where to write what each side told")
    arguments = parser.parse_args()
    given = {"against": arguments.against, "keep": arguments.keep}
    options = {name: value for name, value in given.items() if value is not None}
    if options and arguments.name != "behaviour":
        parser.error(f"--{next(iter(options))} is for behaviour alone")
    experiment = importlib.import_module(f"experiments.{arguments.name}")
    print(experiment.run(small=arguments.small, only=arguments.only, **options))


if __name__ == "__main__":
    main()
