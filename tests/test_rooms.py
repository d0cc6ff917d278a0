"""The rooms: nothing private of one is used by another, and one alone reads X."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from pathlib import Path

import pytest

import emsco

ROOT = Path(emsco.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

# Names with an underscore that Python documents for everybody.
PYTHONS = {"_exit", "_getframe", "_fields", "_make", "_replace", "_asdict"}
# Private names of others that have no public one.
EXCEPTIONS = {
    "_validate_params",  # scikit-learn: checks parameters that come out of a file
    "_predictors",  # scikit-learn: the trees of a boosted model, walked once for many sets
    "_baseline_prediction",  # scikit-learn: what these trees add to
    "_loss",  # scikit-learn: how their sum becomes a probability
}
MOST = 5

# What reads X: arrays, frames and Arrow are looked into by `rows` alone.
READERS = {"validate_data", "check_array", "read_columns", "pick_columns", "container_of"}
LOOKS = {"iloc", "to_pylist", "dictionary_decode"}
READING = "rows"
HELPERS = ("_utils", "_core")  # below all rooms

PROJECT = Path(__file__).parents[1]
# Folders of tests that mirror no room: what stresses the product, and golden files.
OTHER_TESTS = {(), ("soak",), ("files",), ("kernels",)}  # src/kernels is no part of the package
# Participles say neither what a value is nor what it is for.
RIDDLES = {"told", "asked", "shown", "kept", "spent", "given"}


def room_of(path):
    """Name the room of a file: the folder or file that stands in the package."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def module_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(("emsco", *parts))


def defined_in(tree):
    """Name all that a file defines: functions, classes, fields and attributes of `self`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


@pytest.fixture(scope="module")
def trees():
    return {path: ast.parse(path.read_text()) for path in FILES}


@pytest.fixture(scope="module")
def owned(trees):
    """Give the names that each room defines."""
    names = {}
    for path, tree in trees.items():
        names.setdefault(room_of(path), set()).update(defined_in(tree))
    return names


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def imports(tree, path):
    """Give every module of the package that a file imports, and the names taken from it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("emsco"):
            assert not node.level, path
            yield node.module, [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("emsco"):
                    yield alias.name, []


def test_a_room_imports_nothing_private_of_another(trees):
    """Neither a module whose name begins with an underscore, nor such a name out of one."""
    found = []
    for path, tree in trees.items():
        for module, names in imports(tree, path):
            parts = module.split(".")[1:]
            if not parts or parts[0] == room_of(path) or parts[0] in HELPERS:
                parts = parts[1:] if parts and parts[0] in HELPERS else []
            private = [part for part in (*parts, *(names if parts else ())) if is_private(part)]
            found += [(module_of(path), module, name) for name in private]
    assert not found


def test_a_room_uses_no_private_attribute_of_another(trees, owned):
    """An attribute with an underscore is one of `self`, or defined in the same room."""
    found = set()
    for path, tree in trees.items():
        own = owned[room_of(path)]
        for node in ast.walk(tree):
            if not isinstance(node, ast.Attribute) or not is_private(node.attr):
                continue
            of_self = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if not of_self and node.attr not in own:
                found.add(node.attr)
    assert len(EXCEPTIONS) <= MOST
    assert found - PYTHONS <= EXCEPTIONS


def test_one_room_reads_x(trees):
    """All others take `Rows`, columns, or what `rows` gives."""
    found = set()
    for path, tree in trees.items():
        if room_of(path) == READING:
            continue
        for node in ast.walk(tree):
            name = getattr(node, "id", None) or getattr(node, "attr", None)
            name = node.name if isinstance(node, ast.alias) else name
            if name in READERS | LOOKS:
                found.add((module_of(path), name))
    assert not found


def test_the_package_has_few_entries_and_hides_only_helpers():
    """So that the folder shows the rooms: a new one comes with what fills it, and is on the map."""
    entries = {path.name for path in ROOT.iterdir() if path.name != "__pycache__"}
    entries = {"_core" if name.startswith("_core.") else name for name in entries}
    short = {path.name for path in ROOT.glob("*.py") if len(path.read_text().split("\n")) < 30}
    assert len(entries - short) <= 24
    rooms = {f"`{name}/`" for name in entries if (ROOT / name).is_dir()}
    written = (Path(__file__).parents[1] / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert not {room for room in rooms if room not in written}
    private = {name for name in entries if is_private(name)}
    assert private <= {*HELPERS, "_version.py"}


def test_no_file_is_long():
    """A file holds one idea."""
    long = {module_of(path): n for path in FILES if (n := len(path.read_text().split("\n"))) > 401}
    assert not long


def files_imported(trees):
    """Give the files of the package that each file imports, wherever in it."""
    modules = {module_of(path).removesuffix(".__init__"): path for path in trees}
    found = {}
    for path, tree in trees.items():
        names = set()
        for module, taken in imports(tree, path):
            names |= {module, *(f"{module}.{name}" for name in taken)}
        found[path] = {modules[name] for name in names if name in modules} - {path}
    return found


def test_a_class_name_has_one_meaning(trees):
    """In the whole package, so that a name can be looked up."""
    classes = [node for tree in trees.values() for node in ast.walk(tree)]
    names = Counter(node.name for node in classes if isinstance(node, ast.ClassDef))
    assert not {name: n for name, n in names.items() if n > 1}


def test_no_two_files_import_each_other(trees):
    """Not even inside functions; a package and what it re-exports are no circle."""
    imported = files_imported(trees)
    circles = {
        (module_of(a), module_of(b))
        for a, others in imported.items()
        for b in others
        if a in imported[b] and "__init__.py" not in (a.name, b.name)
    }
    assert not circles


def test_no_room_imports_one_above_it(trees):
    """By the layers that pyproject.toml states, also for imports inside functions."""
    written = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = written["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["name"].startswith("Rooms"))
    height = {
        name.strip().removeprefix("emsco."): -number
        for number, layer in enumerate(layers)
        for name in layer.split("|")
    }
    found = set()
    for path, others in files_imported(trees).items():
        room = room_of(path)
        for other in {room_of(each) for each in others} & {*height}:
            if room in height and height[other] > height[room]:
                found.add((room, other))
    assert not found
    missing = {path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()} - {*height}
    assert not missing


def test_tests_mirror_the_folders_of_the_package():
    """What tests a room stands in the folder of its name."""
    tests = PROJECT / "tests"
    folders = {path.parent.relative_to(tests) for path in tests.rglob("test_*.py")}
    mirrored = {folder for folder in folders if folder.parts[:1] not in OTHER_TESTS}
    assert not {folder for folder in mirrored if not (ROOT / folder).is_dir()}
    rooms = {path.parent.relative_to(ROOT) for path in ROOT.rglob("__init__.py")} - {Path()}
    without = {
        room for room in rooms if not any(folder.is_relative_to(room) for folder in mirrored)
    }
    # Strategies and states are tested with the search and the service that run them.
    assert without <= {Path("search/strategies"), Path("serve/state")}


def test_no_name_is_a_riddle(trees):
    """A text, a request, a view, a result or an amount is called what it is."""
    found = set()
    for path, tree in trees.items():
        names = {
            *defined_in(tree),
            *(node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)),
        }
        found |= {(module_of(path), name) for name in names if name.strip("_").lower() in RIDDLES}
    assert not found
