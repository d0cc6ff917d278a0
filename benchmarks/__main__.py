"""Run benchmarks by name: one JSON object a line, and a non-zero exit where a bar is missed."""

from __future__ import annotations

import argparse
import importlib
import json
import sys

NAMES = (
    "decide", "one_row", "startup", "command_line", "choice", "search", "growth", "covtype", "live",
    "beside", "serve", "arrow", "blocks", "ray", "waits", "batch", "stake",
)  # fmt: skip


def main(arguments: list[str]) -> int:
    """Run the named benchmarks, all of them where none is named."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", metavar="NAME", nargs="*", help=f"one of {', '.join(NAMES)}")
    parser.add_argument("--small", action="store_true", help="what CI runs: seconds, not minutes")
    beside = parser.add_argument_group("beside alone")
    beside.add_argument("--against", metavar="PYTHON", help="one whose emsco is the other side")
    beside.add_argument("--rounds", type=int, help="how often both take turns")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.names if name not in NAMES]
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]!r}; known: {', '.join(NAMES)}")
    asked = {"against": given.against, "rounds": given.rounds}
    options = {name: value for name, value in asked.items() if value is not None}
    if options and given.names != ["beside"]:
        parser.error(f"--{next(iter(options))} is for beside alone")
    met = True
    for name in given.names or NAMES:
        benchmark = importlib.import_module(f"benchmarks.{name}")
        for result in benchmark.run(small=given.small, **options):
            print(json.dumps(result.as_dict()), flush=True)
            met &= result.ok
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
