"""Whether emsco behaves as another emsco does, or as itself elsewhere, to the last bit.

Every case is recorded in a process of its own for each side, by public names alone: searches of
every kind on the thirteen problems, cascades, certificates, alarms, refusals, golden files,
the command line, and what the README says. `--against PYTHON` holds the emsco of this environment
against that of another one; without it, one worker against two, and one seed of Python's hashes
against another, because behaviour must depend on neither.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from benchmarks.interpreter import Interpreter

Parts = dict[str, str]  # a digest of each, or its error
_ERROR = "error: "


@dataclass(frozen=True)
class Side:
    """One of the two that are compared."""

    name: str
    interpreter: Interpreter
    n_jobs: int = 1

    def record(self, *arguments: str, keep: Path | None) -> Iterator[tuple[str, Parts]]:
        """Give cases as they are done, each with its parts."""
        asked = ["--n-jobs", str(self.n_jobs), *arguments]
        if keep is not None:
            asked += ["--keep", str(keep.absolute() / self.name)]
        process = self.interpreter.start(
            "-m", "tests.soak.behaviour", *asked, stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                told = json.loads(line)
                yield told["case"], told["parts"]
        if process.wait():
            raise SystemExit(f"{self.name}: the process ended with {process.returncode}.")


def run(
    *,
    small: bool,
    only: Sequence[str] | None = None,
    against: str | None = None,
    keep: str | None = None,
) -> str:
    """Record all cases twice and compare; `only` those whose names hold one of these words.

    Nothing is written but into the folder `keep`, where given: what each side told, as text.
    """
    if against is None:
        sides = (
            Side("one worker", Interpreter.here(PYTHONHASHSEED="1")),
            Side("two workers", Interpreter.here(PYTHONHASHSEED="2"), n_jobs=2),
        )
    else:
        seed = {"PYTHONHASHSEED": "1"}
        sides = (
            Side("here", Interpreter.here(**seed)),
            Side("there", Interpreter.at(against, **seed)),
        )
    arguments = ["--small"] * small + (["--only", *only] if only else [])
    return compare(*sides, arguments, keep=None if keep is None else Path(keep))


def compare(here: Side, there: Side, arguments: Sequence[str], keep: Path | None = None) -> str:
    """Record both sides at the same time, print a line a case, and end where any differs."""
    for side in (here, there):
        print(f"{side.name}: {side.interpreter.python}, {side.interpreter.emsco}", flush=True)
    n_cases, n_parts, wrong = 0, 0, []
    recorded = (side.record(*arguments, keep=keep) for side in (here, there))
    for one, other in zip_longest(*recorded, fillvalue=("no such case", {})):
        name, parts = one
        if name != other[0]:
            raise SystemExit(f"The sides tell different cases: {name!r} and {other[0]!r}.")
        print(f"{_digest_all(parts):12}  {name}", flush=True)
        told = differences(parts, other[1], (here.name, there.name))
        for line in told:
            print(f"{'':12}    {line}", flush=True)
        wrong += [name] * bool(told)
        n_cases, n_parts = n_cases + 1, n_parts + len(parts)
    if not n_cases:
        raise SystemExit("There is no such case.")
    if wrong:
        kept = "" if keep else "; --keep FOLDER writes down what each side told, for `diff -r`"
        raise SystemExit(f"{len(wrong)} of {n_cases} cases differ or fail: {wrong}{kept}.")
    return f"{n_cases} cases, {n_parts:,} parts: no difference, and no error."


def differences(here: Parts, there: Parts, names: tuple[str, str]) -> list[str]:
    """Say which parts of a case are not the same, or failed on both sides.

    Examples
    --------
    >>> from tests.soak.behaviour import differences
    >>> differences({"front": "ab", "score": "cd"}, {"front": "ab", "score": "ce"}, ("old", "new"))
    ["score: old 'cd', new 'ce'"]
    """
    lines = []
    for part in dict.fromkeys([*here, *there]):
        told = [side.get(part, "nothing") for side in (here, there)]
        if told[0] != told[1] or told[0].startswith(_ERROR):
            sides = [f"{name} {_short(one)!r}" for name, one in zip(names, told, strict=True)]
            lines.append(f"{part}: {', '.join(sides)}")
    return lines


def _short(told: str) -> str:
    return told if told.startswith(_ERROR) else told[:12]


def _digest_all(parts: Parts) -> str:
    failed = next((told for told in parts.values() if told.startswith(_ERROR)), None)
    return failed or hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]
