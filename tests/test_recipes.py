"""The recipes of the documentation work when they are followed to the letter."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[1]
NAMES = ("recipes", "recipes-sources-plots")
PAGES = [(ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in NAMES]
BLOCK = r"\s*```(?:python)\n(?P<{0}>.*?)```"
STEP = re.compile(
    r"Create\s+`(?P<create>[^`]+)`:" + BLOCK.format("content")
    + r"|In\s+`(?P<file>[^`]+)`,\s+below\s+the\s+line\s+`(?P<line>[^`]+)`,\s+add:"
    + BLOCK.format("added")
    + r"|In\s+`(?P<changed>[^`]+)`,\s+replace\s+`(?P<old>[^`]+)`\s+by\s+`(?P<new>[^`]+)`\."
    + r"|Run:\s*```console\n(?P<commands>.*?)```",
    flags=re.DOTALL,
)  # fmt: skip
RECIPES = {
    title: text
    for page in PAGES
    for title, text in re.findall(
        r"^## (Add [^\n]+)\n(.*?)(?=^## |\Z)", page, flags=re.MULTILINE | re.DOTALL
    )
}


@pytest.fixture
def copy(tmp_path):
    """Give a copy of the repository, as far as recipes touch it."""
    skip = shutil.ignore_patterns("__pycache__", "*.csv.gz")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=skip)
    shutil.copy(find_spec("emsco._core").origin, tmp_path / "src" / "emsco")  # it is compiled
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for name in ("conftest.py", "test_import.py"):
        (tmp_path / "tests").mkdir(exist_ok=True)
        shutil.copy(ROOT / "tests" / name, tmp_path / "tests")
    return tmp_path


def follow(step, root):
    """Do one step; give the commands that it runs."""
    if step["create"]:
        path = root / step["create"]
        assert not path.exists(), f"{path} exists already"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(step["content"], encoding="utf-8")
    elif step["file"]:
        path = root / step["file"]
        text, line = path.read_text(encoding="utf-8"), step["line"] + "\n"
        assert text.count(line) == 1, f"{path} must have this line once: {line}"
        path.write_text(text.replace(line, line + step["added"]), encoding="utf-8")
    elif step["changed"]:
        path = root / step["changed"]
        text = path.read_text(encoding="utf-8")
        assert text.count(step["old"]) == 1, f"{path} must have this once: {step['old']}"
        path.write_text(text.replace(step["old"], step["new"]), encoding="utf-8")
    commands = (step["commands"] or "").splitlines()
    return [shlex.split(line.removeprefix("$ ")) for line in commands]


def test_the_recipes_are_there():
    names = ["search", "learner", "measure", "source", "plot"]
    assert [*RECIPES] == [f"Add a {name}" for name in names]


@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_works(title, copy):
    steps = [*STEP.finditer(RECIPES[title])]
    told = len(re.findall(r"^```", RECIPES[title], flags=re.MULTILINE)) // 2
    assert told == sum(not step["changed"] for step in steps), "a block that no step uses"
    environment = {**os.environ, "PYTHONPATH": str(copy / "src")}
    ran = 0
    for step in steps:
        for name, *arguments in follow(step, copy):
            assert name == "python"
            done = subprocess.run(
                [sys.executable, *arguments],
                cwd=copy, env=environment, capture_output=True, text=True,
            )  # fmt: skip
            assert done.returncode == 0, done.stdout + done.stderr
            ran += 1
    assert ran
