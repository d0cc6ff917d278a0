"""Benchmarks run through at their smallest size; the nightly check runs every one."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from benchmarks import beside, search
from benchmarks.__main__ import main

NIGHTLY = Path(__file__).parents[1] / ".ci" / "nightly"


def test_the_hybrid_search_keeps_its_budget_of_designs():
    """What the genetic search evaluated is part of it, and is not counted twice."""
    (result,) = search.hybrid(search.SMALL)
    assert result.facts["designs"] == search.SMALL.evaluations


HELPERS = {
    "benchmarks": {"applicants", "bare_loop", "history", "interpreter", "measure", "problems",
                   "served", "warehouse", "workloads"},
    "experiments": {"alone", "choices", "nodes", "pool", "problems", "results", "scaling_measure",
                    "tables"},
    "tests.soak": {"asking_again", "damage", "forgeries", "hostile", "mutators"},
}  # fmt: skip


@pytest.mark.parametrize("package", HELPERS)
def test_the_nightly_check_runs_all_there_are(package):
    """It asks each package for its names, and these are all modules that are not helpers."""
    module = importlib.import_module(f"{package}.__main__")
    folder = Path(module.__file__).parent
    found = {path.stem for path in folder.glob("[a-z]*.py") if not path.stem.startswith("test_")}
    found |= {path.parent.name for path in folder.glob("[a-z]*/__init__.py")}
    assert found - HELPERS[package] == set(module.NAMES)
    script = NIGHTLY.read_text(encoding="utf-8")
    asked = f"from {package}.__main__ import NAMES" in script or f"$(names {package})" in script
    assert asked


def test_a_name_that_is_no_benchmark_is_answered_with_those_there_are(capsys):
    """It ends with 2, as a wrong option does."""
    with pytest.raises(SystemExit, match="2"):
        main(["speed"])
    assert "unknown benchmark 'speed'; known: decide" in capsys.readouterr().err


def test_two_sides_take_turns():
    """Each begins every second round, so that neither is always the one that comes after."""
    turns = []

    def timing(side):
        turns.append(side)
        return float(len(turns))

    here, there = beside.take_turns(lambda: timing("here"), lambda: timing("there"), 3)
    assert turns == ["there", "here", "here", "there", "there", "here"]
    assert (here, there) == ([2.0, 3.0, 6.0], [1.0, 4.0, 5.0])


@pytest.mark.parametrize(("here", "ok"), [([1.0, 1.09, 9.0], True), ([1.0, 1.11, 1.2], False)])
def test_the_slower_side_is_told_by_its_median(here, ok):
    result = beside.beside("search", here, [1.0, 1.0, 1.0], bar=beside.WITHIN)
    assert result.ok == ok
    assert result.facts == {"here": here[1], "there": 1.0, "rounds": 3}


def test_options_of_one_benchmark_are_refused_for_others(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["decide", "--rounds", "3"])
    assert "--rounds is for beside alone" in capsys.readouterr().err
