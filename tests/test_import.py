"""Importing emsco stays light: nothing heavy beyond what scikit-learn loads itself."""

from __future__ import annotations

import ast
import importlib
import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.linear_model import LogisticRegression

import emsco
from emsco import InputGuard, MaskedClassifier
from emsco.final import LoggedAnswers, OnnxModel
from emsco.learners import learner_of

HEAVY = {"pandas", "matplotlib", "ray", "skops", "polars", "moocore"}


def modules_after(statement):
    code = f"import json, sys; {statement}; print(json.dumps(sorted(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout
    return {name.partition(".")[0] for name in json.loads(output)}


def test_import_adds_nothing_heavy_to_what_sklearn_loads():
    added = modules_after("import emsco") - modules_after("import sklearn")
    assert "emsco" in added
    assert not added & HEAVY


# Public paths that do not depend on the room that holds the code.
PATHS = {
    "emsco.cascade": "CascadeClassifier",
    "emsco.costs": "Costs",
    "emsco.final": "LoggedAnswers",
    "emsco.guard": "InputGuard",
    "emsco.masked": "MaskedClassifier",
    "emsco.metrics": "accepted_accuracy",
    "emsco.monitor": "CertificateMonitor",
    "emsco.plotting": "FrontDisplay",
    "emsco.savings": "savings",
    "emsco.search": "Exhaustive",
}


@pytest.mark.parametrize(("path", "name"), PATHS.items())
def test_a_public_path_is_a_module_that_offers_the_name(path, name):
    """A real one, so that type checkers find it, with the very class or function of its room."""
    module = importlib.import_module(path)
    assert path.removeprefix("emsco.") in emsco.MODULES
    assert Path(module.__file__).is_relative_to(Path(emsco.__file__).parent)
    assert module.__spec__.name == path
    if name in emsco.PUBLIC:
        assert getattr(module, name) is getattr(emsco, name)


def test_every_public_module_is_there():
    """Also as an attribute, without an import of its own."""
    checks = [f"assert emsco.{name}.__name__ == 'emsco.{name}'" for name in emsco.MODULES]
    subprocess.run([sys.executable, "-c", "\n".join(["import emsco", *checks])], check=True)
    with pytest.raises(ModuleNotFoundError, match=r"emsco\.nothing"):
        importlib.import_module("emsco.nothing")


def test_files_know_the_one_model_by_its_public_path():
    """Such a path stands inside skops files and in fingerprints."""
    assert MaskedClassifier.__module__ == "emsco.masked"
    for kind in (MaskedClassifier, InputGuard, LoggedAnswers, OnnxModel):
        assert kind.__module__ in ("emsco.masked", "emsco.guard", "emsco.final")
        assert pickle.loads(pickle.dumps(kind)) is kind


def test_type_checkers_know_the_names_of_the_table():
    """The one for them is written out, because they do not run the table."""
    tree = ast.parse(Path(emsco.__file__).read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    told = {
        alias.asname: node.module.removeprefix("emsco.")
        for node in block.body
        for alias in node.names
    }
    assert told == emsco.PUBLIC
    assert sorted(emsco.PUBLIC) == emsco.__all__
    for name in emsco.PUBLIC:
        assert getattr(emsco, name).__name__ == name


@pytest.mark.parametrize(
    ("room", "table"), [("plotting", "PLOTS"), ("ray", "PLACES"), ("testing", "SUITES")]
)
def test_tables_of_rooms_hold_what_there_is(room, table):
    module = importlib.import_module(f"emsco.{room}")
    names = getattr(module, table)
    assert sorted(names) == module.__all__
    assert all(getattr(module, name).__name__ == name for name in names)
    with pytest.raises(AttributeError, match="nothing"):
        _ = module.nothing


def test_a_search_finds_a_learner_by_what_the_user_gave():
    found = [type(learner_of(e)).__name__ for e in (None, LogisticRegression(), MaskedClassifier())]
    assert found == ["LogisticLearner", "EstimatorLearner", "MaskedLearner"]


def test_a_process_without_pandas_imported_can_fill_a_frame():
    """A cascade whose file says that its stages want frames decides from anything."""
    code = (
        "import sys; from emsco.rows.columns import assemble; assert 'pandas' not in sys.modules; "
        "print(assemble('pandas', ['a'], {'a': [1, 2]}).shape)"
    )
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert told.stdout == "(2, 1)\n"


@pytest.mark.parametrize("room", ["arrow", "plotting", "ray", "search", "testing"])
def test_a_name_that_a_room_lacks_is_named(room):
    module = importlib.import_module(f"emsco.{room}")
    with pytest.raises(AttributeError, match=f"module 'emsco.{room}' has no attribute 'Nothing'"):
        _ = module.Nothing
    assert set(module.__all__) <= set(dir(module))
