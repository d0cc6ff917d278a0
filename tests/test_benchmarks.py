"""Benchmarks run through at their smallest size; CI runs every one of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks import beside, search
from benchmarks.__main__ import NAMES, main

CI = Path(__file__).parent.parent / ".ci" / "run"


def test_the_hybrid_search_keeps_its_budget_of_designs():
    """What the genetic search evaluated is part of it, and is not counted twice."""
    (result,) = search.hybrid(search.SMALL)
    assert result.facts["designs"] == search.SMALL.evaluations


def test_ci_runs_every_benchmark():
    """It asks for the names of all that there are, so that none can be forgotten."""
    assert {path.stem for path in Path(search.__file__).parent.glob("*.py")} - {
        "__init__", "__main__", "applicants", "history", "interpreter", "measure", "problems",
        "served", "warehouse", "workloads",
    } == set(NAMES)  # fmt: skip
    asked = CI.read_text().partition("for name in $(")[2].partition("); do")[0]
    command = asked.replace('"$work/test/bin/python"', "python3")
    names = subprocess.run(
        ["bash", "-c", command], cwd=CI.parents[1], capture_output=True, text=True, check=True
    )
    assert names.stdout.split() == list(NAMES)


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
