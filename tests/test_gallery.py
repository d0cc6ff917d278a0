"""The gallery: pages that the build of the site runs, as users would write them."""

from __future__ import annotations

import ast
import importlib.util
import re
import runpy
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS, EXAMPLES = ROOT / "docs", ROOT / "examples"
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in EXAMPLES.glob("plot_*.py")}
QUESTIONS = {
    "plot_clinic",
    "plot_phishing",
    "plot_intrusion",
    "plot_credit_bureau",
    "plot_money_and_time",
    "plot_unequal_harms",
    "plot_fraud_review",
    "plot_drift",
    "plot_redis",
    "plot_warehouse",
}


def listed():
    """Give the pages that the site lists, in their order."""
    for node in ast.walk(ast.parse((DOCS / "conf.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "GALLERY":
            return [f"plot_{name}" for name in ast.literal_eval(node.value)]
    raise AssertionError("docs/conf.py has no GALLERY.")


def test_the_site_lists_every_page_once():
    assert sorted(listed()) == sorted(PAGES)


def test_the_ten_questions_have_a_page():
    assert PAGES.keys() >= QUESTIONS


def test_the_start_page_leads_to_the_gallery():
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    assert "[Gallery](gallery/index.rst)" in index
    assert re.search(r"^gallery/index$", index, flags=re.MULTILINE)
    assert (EXAMPLES / "GALLERY_HEADER.rst").read_text(encoding="utf-8").startswith("Gallery\n===")


# What a page is made of --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def public():
    """Every public name of the package, with its module."""
    spec = importlib.util.spec_from_file_location("reference", DOCS / "reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return set(module.names())


def imports(text):
    """List what a page imports, as `module` or `module.name`."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def private(text, public):
    """List what a page uses of emsco that is not public, and private attributes of anything."""
    names = [name for name in imports(text) if name.split(".")[0] == "emsco"]
    attributes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)]
    return [name for name in names if name not in public | {"emsco"}] + [
        ast.unparse(node) for node in attributes if re.match(r"_[^_]", node.attr)
    ]


def pictures(text):
    """List the calls of a page that draw something."""
    called = [ast.unparse(n.func) for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call)]
    return [name for name in called if re.search(r"\.subplots$|Display\.from_\w+$", name)]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_uses_public_names_only(name, public):
    assert private(PAGES[name], public) == []


@pytest.mark.parametrize(
    "text",
    [
        "from emsco.search._problem import Problem",
        "from emsco.core.costs import Costs",
        "import emsco._utils.public_names",
        "search._found",
    ],
)
def test_a_private_name_is_found(text, public):
    """The check itself can fail."""
    assert private(text, public)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_needs_nothing_that_the_site_is_not_built_with(name):
    pinned = (ROOT / "requirements" / "docs.txt").read_text(encoding="utf-8")
    there = {line.split("==")[0].split("[")[0] for line in pinned.splitlines() if "==" in line}
    for imported in {each.split(".")[0] for each in imports(PAGES[name])} - {"emsco"}:
        if imported not in sys.stdlib_module_names:
            distributions = packages_distributions()[imported]
            assert {re.sub(r"[-_.]+", "-", each).lower() for each in distributions} & there


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_a_title_a_story_and_a_picture(name):
    lines = ast.get_docstring(ast.parse(PAGES[name])).splitlines()
    title, below = lines[0], lines[1]
    assert len(title) <= 70
    assert below == "=" * len(title)
    assert any("?" in line for line in lines), "a page answers a question"
    assert 40 <= PAGES[name].count("\n") <= (120 if name in QUESTIONS else 200)
    assert 1 <= len(pictures(PAGES[name])) <= 4
    headings = re.findall(r"^# (.+)\n# -{4,}$", PAGES[name], flags=re.MULTILINE)
    assert len(headings) >= 2


def test_a_page_without_a_picture_is_found():
    """The check itself can fail."""
    assert pictures("search.fit(X, y)\nprint(search.summary())") == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_a_picture_for_its_card(name):
    (path,) = re.findall(r'^# sphinx_gallery_thumbnail_path = "(.+)"$', PAGES[name], re.MULTILINE)
    assert path == f"images/thumbnails/{name.removeprefix('plot_')}.svg"
    assert (DOCS / path).exists()


@pytest.mark.parametrize("name", PAGES)
def test_every_link_of_a_page_leads_somewhere(name):
    links = re.findall(r":doc:`(?:[^`<]*<)?/([\w/-]+)>?`", PAGES[name])
    assert links, "a page says where to read on"
    for link in links:
        page = DOCS / f"{link}.md"
        if link.startswith("gallery/"):
            page = EXAMPLES / f"{link.removeprefix('gallery/')}.py"
        assert page.exists(), link


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.nightly
def test_a_page_gives_the_same_each_time(name):
    """Everything random has a seed: searches, splits, generators."""
    for node in ast.walk(ast.parse(PAGES[name])):
        if not isinstance(node, ast.Call):
            continue
        called, given = ast.unparse(node.func), {keyword.arg for keyword in node.keywords}
        if called in ("CascadeSearchCV", "train_test_split", "DecisionTreeClassifier"):
            assert "random_state" in given, ast.unparse(node)
        if called.endswith("default_rng"):
            assert node.args, ast.unparse(node)
        assert not re.match(r"np\.random\.(?!default_rng)", called), called


# What happens where something is missing ---------------------------------------------------------


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """Run a page in an empty folder; give its names, and what it printed."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.chdir(tmp_path)

    def run(name):
        names = runpy.run_path(str(EXAMPLES / f"plot_{name}.py"))
        assert pyplot.get_fignums()
        return names, capsys.readouterr().out

    yield run
    pyplot.close("all")


def test_the_page_about_a_warehouse_runs(run):
    names, printed = run("warehouse")
    assert "the same decisions: True" in printed
    assert "Written: decisions.parquet. 3,428 rows" in printed
    assert names["read"][0].all()  # the first stage is read for every row
    assert 0 < names["read"].mean() < 0.5
    assert not names["folder"].exists()


def test_without_redis_the_page_about_it_says_so_and_decides(run, monkeypatch):
    monkeypatch.setenv("EMSCO_TEST_REDIS", "redis://127.0.0.1:1/0")
    names, printed = run("redis")
    assert "No Redis answered" in printed
    decided = names["decisions"]
    assert decided.reason.tolist().count("missing: google_index") == 1
    # As on a table, but for the page that the store lacks.
    table = names["cascade"].decide(names["X"].iloc[names["requests"]])
    differ = [
        row for row, key in enumerate(names["keys"]) if table.label[row] != decided.label[row]
    ]
    assert {names["keys"][row] for row in differ} <= {names["gone"]}
    assert (table.accepted == decided.accepted).sum() >= len(decided) - 1


def test_without_nslkdd_the_page_about_intrusions_says_what_is_missing(run, monkeypatch, tmp_path):
    monkeypatch.setenv("EMSCO_DATA", str(tmp_path))
    names, printed = run("intrusion")
    assert "nslkdd_train20.csv.gz is not in" in printed
    assert "So these are phishing pages" in printed
    assert set(names["parts"]) == {"same days", "later"}
