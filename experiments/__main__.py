"""Run experiments by name: one JSON object a line as they go, then their tables in Markdown."""

from __future__ import annotations

import argparse
import importlib

NAMES = (
    "certificates", "headline", "missed", "optimism", "guard", "monitor", "masked", "savings",
    "paper", "example", "figures", "peers", "luck", "budget", "promise", "watched", "ray",
    "scaling", "text", "copies", "peeking", "reuse", "rare",
    "rare_default", "several", "sampling", "pages", "same_margin", "batches", "ladder",
    "spot_checks", "stakes",
)  # fmt: skip


def main() -> None:
    """Run one experiment; `--small` is what CI runs, of the same kind and over in a minute."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description=main.__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", nargs="*", default=None, help="parts of it, by name")
    arguments = parser.parse_args()
    experiment = importlib.import_module(f"experiments.{arguments.name}")
    print(experiment.run(small=arguments.small, only=arguments.only))


if __name__ == "__main__":
    main()
