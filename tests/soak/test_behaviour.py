"""What behaves otherwise is noticed: in the last bit, in a copy of emsco, where a case fails."""

from __future__ import annotations

import ast
import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import emsco
from benchmarks.interpreter import Interpreter
from tests.soak import behaviour
from tests.soak.behaviour import Side
from tests.soak.behaviour.case import digest, record, tell

ROOT = Path(__file__).parents[2]
# All that is read by an interpreter whose emsco is another: private names may differ there.
READ = [
    *(ROOT / "tests" / "soak" / "behaviour").glob("*.py"),
    ROOT / "experiments" / "problems.py",
    ROOT / "experiments" / "results.py",
    *(ROOT / "experiments" / "paper" / name for name in ("__init__.py", "cases.py")),
    *(ROOT / "benchmarks" / name for name in ("interpreter.py", "applicants.py", "workloads.py")),
]


@pytest.mark.parametrize("path", READ, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_another_emsco_runs_uses_public_names_alone(path):
    """But for types, which are never imported when it runs."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    checked = [node for node in tree.body if not (isinstance(node, ast.If) and _is_types(node))]
    for node in (inner for outer in checked for inner in ast.walk(outer)):
        names = []
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        of_emsco = [name.split(".") for name in names if name.partition(".")[0] == "emsco"]
        assert not [name for name in of_emsco if any(part.startswith("_") for part in name)]
        assert {name[1] for name in of_emsco} <= {*emsco.PUBLIC, *emsco.MODULES}


def _is_types(node):
    return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def test_values_that_differ_in_one_bit_are_told_apart():
    """And so are types that print alike."""
    values = [0.3, np.nextafter(0.3, 1), np.array([0.3]), np.array([0.3], dtype=np.float32)]
    values += [np.array([1]), np.array([True]), np.array(["1"]), {"a": 0.0}, {"a": -0.0}]
    assert len({digest(tell(value)) for value in values}) == len(values)


def test_a_part_that_fails_stops_no_other():
    def case(n_jobs):
        yield "one", lambda: n_jobs / 0
        yield "two", lambda: n_jobs
        raise ValueError("the rest")

    assert record(case, 7) == {
        "one": "error: ZeroDivisionError: division by zero",
        "two": "7",
        "the case itself": "error: ValueError: the rest",
    }


@pytest.mark.parametrize(
    ("there", "told"),
    [
        ({"a": "1", "b": "2"}, []),
        ({"a": "1", "b": "3"}, ["b: old '2', new '3'"]),
        ({"a": "1"}, ["b: old '2', new 'nothing'"]),
        ({"a": "1", "b": "2", "c": "3"}, ["c: old 'nothing', new '3'"]),
    ],
)
def test_every_difference_of_a_case_is_told(there, told):
    assert behaviour.differences({"a": "1", "b": "2"}, there, ("old", "new")) == told


def test_an_error_on_both_sides_is_no_agreement():
    """Nothing was compared where both fail alike."""
    failed = {"a": "error: ValueError: no"}
    (line,) = behaviour.differences(failed, failed, ("old", "new"))
    assert line.startswith("a: old 'error: ValueError: no'")


@pytest.fixture
def other(tmp_path):
    """Give a side whose emsco is a copy of the one installed, and the copy."""
    copy = tmp_path / "other" / "emsco"
    shutil.copytree(Path(find_spec("emsco").origin).parent, copy)
    environment = {**os.environ, "PYTHONPATH": str(copy.parent)}
    return Side("there", Interpreter(sys.executable, environment)), copy


def test_a_copy_that_answers_otherwise_is_noticed(other, tmp_path, capsys):
    """Every case is held against that of the copy, which differs in one answer of one part."""
    there, copy = other
    here = Side("here", Interpreter.here())
    with (copy / "certify" / "__init__.py").open("a") as file:
        file.write("\n\ndef required_rows(**_):\n    return 96\n")
    with pytest.raises(SystemExit, match=r"^1 of 1 cases differ or fail: \['a monitor'\]\.$"):
        behaviour.compare(here, there, ["--small", "--only", "monitor"], keep=tmp_path)
    told = capsys.readouterr().out
    assert str(copy) in told
    assert "rows it takes: here '" in told
    assert told.count(", there '") == 1
    kept = sorted(path.read_text() for path in tmp_path.rglob("* rows it takes"))
    assert kept == ["96\n", "97\n"]


def test_another_interpreter_must_have_another_emsco(tmp_path):
    """Or the comparison would prove nothing."""
    python = tmp_path / "python"
    found = Path(find_spec("emsco").origin).parents[1]
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{found}" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    with pytest.raises(SystemExit, match="imports the same emsco"):
        Interpreter.at(str(python))
