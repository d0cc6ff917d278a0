"""Record how the emsco that this interpreter imports behaves: a line of JSON a case."""

from __future__ import annotations

import argparse
import json
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

from tests.soak.behaviour import cascades, commands, searches
from tests.soak.behaviour.case import Case, digest, record


def every_case(*, small: bool) -> Iterator[tuple[str, Case]]:
    """Give all cases by name."""
    for module in (searches, cascades, commands):
        yield from module.cases(small=small)


def main() -> None:
    """Record cases one after the other."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.behaviour", description=__doc__)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--n-jobs", type=int, default=1)
    parser.add_argument("--only", nargs="*", help="words, of which a case's name must hold one")
    parser.add_argument("--keep", type=Path, help="a folder for what every part told")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # those of emsco are recorded
    for name, case in every_case(small=given.small):
        if given.only and not any(word in name for word in given.only):
            continue
        told = record(case, given.n_jobs)
        if given.keep:
            _write(given.keep / _file_name(name), told)
        parts = {part: digest(text) for part, text in told.items()}
        print(json.dumps({"case": name, "parts": parts}), flush=True)


def _write(folder: Path, told: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, (part, text) in enumerate(told.items()):
        (folder / f"{number:02} {_file_name(part)}").write_text(text + "\n", encoding="utf-8")


def _file_name(name: str) -> str:
    return re.sub(r"[^\w ,.=-]+", "_", name)[:100]


if __name__ == "__main__":
    main()
