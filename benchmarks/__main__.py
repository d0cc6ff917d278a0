"""Run benchmarks by name: one JSON object a line, and a non-zero exit where a bar is missed."""

from __future__ import annotations

import importlib
import json
import sys

NAMES = ("decide", "startup", "command_line", "search_quick", "search", "growth", "covtype")


def main(names: list[str]) -> int:
    """Run the named benchmarks, all of them where none is named."""
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        print(f"unknown benchmark {unknown[0]!r}; known: {', '.join(NAMES)}", file=sys.stderr)
        return 2
    met = True
    for name in names or NAMES:
        for result in importlib.import_module(f"benchmarks.{name}").run():
            print(json.dumps(result.as_dict()), flush=True)
            met &= result.ok
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
