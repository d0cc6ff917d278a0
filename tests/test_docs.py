"""The documentation: every example runs, every page is found, every link leads somewhere."""

from __future__ import annotations

import doctest
import importlib.util
import re
import runpy
import sys
from collections import deque
from pathlib import Path

import pandas as pd
import pytest
from readme import run_commands

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("*.md"))}
SITE = {name: text for name, text in PAGES.items() if name != "api-examples"}
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS

# Pages whose examples other tests run, beside what else they test there.
ELSEWHERE = {
    "certificates",
    "guard-and-monitor",
    "live",
    "recipes",
    "recipes-sources-plots",
    "sources",
    "engines",
    "scaling",
    "serving",
}


def load(name):
    """Import a program that stands in the folder of the documentation."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reference():
    return load("reference")


def run(text, name, folder, monkeypatch):
    """Run examples in an empty folder; give how many there were."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    test = doctest.DocTestParser().get_doctest(text, {"__name__": "__main__"}, name, name, 0)
    told = []
    found = doctest.DocTestRunner(optionflags=FLAGS).run(test, out=told.append)
    assert not found.failed, "".join(told)
    return found.attempted


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [n for n in SITE if ">>> " in SITE[n] and n not in ELSEWHERE])
def test_the_examples_of_a_page_give_what_they_show(name, tmp_path, monkeypatch):
    assert run(PAGES[name], name, tmp_path, monkeypatch) >= 3


@pytest.mark.parametrize("name", sorted(SITE.keys() - ELSEWHERE))
def test_every_python_block_is_an_example_that_runs(name):
    for block in re.findall(r"```python\n(.*?)```", SITE[name], flags=re.DOTALL):
        assert block.startswith(">>> "), f"not run by anybody: {block}"
        assert "+SKIP" not in block


@pytest.mark.nightly
def test_the_commands_of_the_tutorial_print_what_it_shows(tmp_path):
    assert run_commands(None, tmp_path, DOCS / "tutorial.md") == 6
    assert (tmp_path / "report.html").stat().st_size > 100_000
    block = re.search(r"```toml\n(.*?)```", SITE["tutorial"], flags=re.DOTALL)[1]
    assert (tmp_path / "loans-costs.toml").read_text() == block
    lines = (tmp_path / "costs.toml").read_text().splitlines()
    said = re.findall(r"^\| `(\w+)` \| (.*?) \|", SITE["tutorial"], flags=re.MULTILINE)
    assert len(said) == 7
    for column, words in said:
        line = next(line for line in lines if line.split(" ")[0] == column)
        assert all(part.strip() in line for part in words.split("...")), line


def test_the_commands_of_the_page_on_labelling_print_what_it_shows(tmp_path, monkeypatch):
    """In an empty folder; the promise is kept, too."""
    monkeypatch.chdir(tmp_path)
    assert run_commands(None, tmp_path, DOCS / "labelling.md") == 7
    answers = runpy.run_path("final.py")
    for job, key in (("job", "id"), ("once", "row")):
        labels = pd.read_csv(tmp_path / job / "labels.csv")
        assert labels.columns.tolist() == [key, "label", "origin", "cheap", "trust"]
        right = labels["label"] == answers["answer"](pd.read_csv(tmp_path / "pages.csv"))
        assert right[labels["origin"] != "cheap"].all()
        assert (~right).sum() <= 3 * 168, "broken once in a hundred times, but never by so much"
        assert 0.1 < (labels["origin"] != "cheap").mean() < 0.4


def sections():
    """Split the examples of the API, by what they are about."""
    parts = re.split(r"^## (`.+`)\n", PAGES["api-examples"], flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("about", sections(), ids=lambda about: about.split("`")[1])
def test_an_example_of_the_api_runs_by_itself(about, tmp_path, monkeypatch):
    assert run(sections()[about], about, tmp_path, monkeypatch) >= 3


def test_no_public_name_is_without_an_example(reference):
    missing = [n for n, value in reference.names().items() if not reference.has_example(n, value)]
    assert missing == []


def test_examples_of_the_api_are_about_public_names_that_have_none_of_their_own(reference):
    names = reference.names()
    assert reference.examples().keys() <= names.keys()
    own = [name for name in reference.examples() if ">>>" in (names[name].__doc__ or "")]
    assert own == [], "the docstring has an example: remove the other one"


def test_a_name_without_an_example_is_found(reference):
    """The check itself can fail."""
    assert not reference.has_example("emsco.nothing", object())


def test_every_public_name_stands_under_one_task(reference):
    listed = [name for own in reference.tasks().values() for name in own]
    assert sorted(listed) == sorted(reference.names())
    assert listed[0] == "emsco.CascadeSearchCV"
    assert all(reference.tasks().values()), "a task without names"


def test_a_public_name_that_no_task_lists_is_found(reference, monkeypatch):
    """The check itself can fail."""
    monkeypatch.setattr(
        reference, "TASKS", {k: v for k, v in reference.TASKS.items() if k != "live"}
    )
    with pytest.raises(ValueError, match=r"No task .* emsco\.live\.CallableSource"):
        reference.tasks()


# Links and headings ------------------------------------------------------------------------------

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
INCLUDE = re.compile(r"```\{include\} (\S+)\n(.*?)```", flags=re.DOTALL)


def prose(text):
    """Give a page without its blocks of code."""
    return re.sub(r"^```\w*\n.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(text):
    """Give the anchors of a page's headings, as GitHub and MyST make them."""
    found = set()
    for title in re.findall(r"^#+ (.+)$", prose(text), flags=re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", title.replace("`", "").lower())
        found.add(plain.replace(" ", "-"))
    return found


def with_included(path):
    """Give the text of a page and of what it includes, each with the folder of its links."""
    text = path.read_text(encoding="utf-8")
    yield text, path.parent
    for target, _ in INCLUDE.findall(text):
        included = (path.parent / target).resolve()
        yield included.read_text(encoding="utf-8"), included.parent


LINKING = [
    ROOT / name
    for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "ARCHITECTURE.md")
] + [DOCS / f"{name}.md" for name in SITE]


@pytest.mark.parametrize("path", LINKING, ids=lambda path: path.name)
def test_every_link_leads_somewhere(path):
    """Inside the repository; those to other sites have the form of an address."""
    for target in LINK.findall(prose(path.read_text(encoding="utf-8"))):
        if target.startswith(("http://", "https://")):
            assert re.fullmatch(r"https://[\w.-]+\.[a-z]+(/[\w./#%~+-]*)?", target), target
            continue
        name, _, anchor = target.partition("#")
        if name in ("api/index.rst", "gallery/index.rst"):  # made by the build
            continue
        if name.startswith("gallery/"):  # made by the build, of a script
            name = f"../examples/{Path(name).stem}.py"
        other = (path.parent / name).resolve() if name else path
        assert other.exists(), f"{path.name} links to {target}"
        if anchor:
            known = set().union(*(anchors(text) for text, _ in with_included(other)))
            assert anchor in known, f"{path.name} links to {target}"


@pytest.mark.parametrize("name", SITE)
def test_every_image_of_a_page_is_there(name):
    for target in re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", SITE[name]):
        assert (DOCS / target).exists(), target


# Where pages stand -------------------------------------------------------------------------------


def in_toctree(name):
    """List what the tables of contents of a page name."""
    for block in re.findall(r"```\{toctree\}\n(.*?)```", SITE.get(name, ""), flags=re.DOTALL):
        lines = [line for line in block.splitlines() if line and not line.startswith(":")]
        for line in lines:
            entry = re.sub(r".*<(.+)>", r"\1", line)
            yield from sorted(p.stem for p in DOCS.glob(f"{entry}.md")) or [entry]


def test_every_page_stands_in_one_table_of_contents():
    told = [entry for name in SITE for entry in in_toctree(name)]
    assert sorted(SITE.keys() - {"index"}) == sorted(set(told) & SITE.keys())
    twice = {entry for entry in told if told.count(entry) > 1}
    assert twice == set()


def links_of(name):
    """Give the pages that a reader of the body of a page can go to by one click."""
    text = SITE.get(name, "")
    found = {target.partition("#")[0].removesuffix(".md") for target in LINK.findall(prose(text))}
    found |= set(re.findall(r"^:link: ([\w-]+)$", text, flags=re.MULTILINE))
    return found & SITE.keys()


def clicks_from_start():
    """Give the fewest clicks from the start page to each page, by links in the text alone."""
    clicks, queue = {"index": 0}, deque(["index"])
    while queue:
        name = queue.popleft()
        for other in links_of(name) - clicks.keys():
            clicks[other] = clicks[name] + 1
            queue.append(other)
    return clicks


QUESTIONS = {
    "What is this for, and when does it not help?": (
        "why", "When it helps, and when it does not"),
    "How much would it save me?": ("why", "What it saves"),
    "How do I install it and try it on a table?": ("start", "Install"),
    "How do I write down what my inputs cost?": ("prices", "A price for every source"),
    "I have a budget; which model do I take?": ("choosing", "Choosing from the front"),
    "What happens to rows that it does not answer?": ("rejection", "What a rejection is"),
    "What may I promise my customer or regulator?": ("rejection", "What you may promise"),
    "Can I keep the model that we have?": ("final-models", "What can be a final model"),
    "How many rows do I need?": ("certificates", "How many rows it takes"),
    "Why not LightGBM with cost penalties?": (
        "faq", "Why not LightGBM's or CatBoost's cost penalties?"),
    "How do I run it as a service?": ("serving", "Start it"),
    "What does the certificate promise, and with what confidence?": (
        "model-risk", "What is promised, and with what confidence"),
    "What if the population changes?": ("model-risk", "What if the population changes"),
    "Who labels rejected rows?": ("model-risk", "Who labels rejected rows"),
    "How is a choice repeated?": ("model-risk", "How a choice is repeated"),
    "What is logged?": ("model-risk", "What is logged"),
    "Is it conformal prediction?": ("conformal", "Conformal prediction"),
    "How does it evaluate so many designs?": ("how-it-works", "The table of outcomes"),
    "What does a word mean here?": ("glossary", "Glossary"),
}  # fmt: skip


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_newcomer_finds_the_answer_within_two_clicks(question):
    page, heading = QUESTIONS[question]
    assert clicks_from_start()[page] <= 2
    assert re.search(rf"^#+ {re.escape(heading)}$", SITE[page], flags=re.MULTILINE), heading


def test_a_page_that_nobody_links_to_would_be_noticed():
    assert "nowhere" not in clicks_from_start()


def test_the_faq_answers_at_least_fifteen_questions():
    asked = re.findall(r"^### .+\?$", SITE["faq"], flags=re.MULTILINE)
    assert len(asked) >= 15
    assert len(asked) == len(re.findall(r"^### ", SITE["faq"], flags=re.MULTILINE))


def test_the_glossary_is_in_order_and_has_each_word_once():
    block = SITE["glossary"].partition("```{glossary}\n")[2].partition("```")[0]
    words = re.findall(r"^(\S.*)$", block, flags=re.MULTILINE)
    assert words == sorted(set(words))
    assert len(words) > 40


# How long pages are ------------------------------------------------------------------------------


def test_a_page_on_a_task_is_short():
    lengths = load("words")
    pages = lengths.words()["how-to"]
    assert len(pages) > 15
    assert {name: n for name, n in pages.items() if n > lengths.MOST_OF_A_TASK} == {}


def test_all_pages_without_evidence_are_short():
    lengths = load("words")
    assert 10_000 < lengths.limited(lengths.words()) <= lengths.MOST_OF_ALL


def test_each_page_is_counted_once():
    assert sum(map(len, load("words").words().values())) == len(PAGES)


def test_words_are_counted_without_the_lines_of_tables():
    text = "| to | read |\n|---|---|\n| `a-b` 1,500 | >>> x |\n"
    assert load("words").count(text) == 5


# Drawings and figures ----------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
def test_the_drawings_are_those_of_their_script():
    sys.path.insert(0, str(DOCS / "images"))
    try:
        from draw import DRAWINGS
    finally:
        sys.path.pop(0)
    for name, draw in DRAWINGS.items():
        assert (DOCS / "images" / name).read_text(encoding="utf-8") == draw(), name


def test_generated_figures_are_those_of_stored_results():
    figures = load("figures")
    assert figures.stale() == {}
    assert sum("<!-- figures: " in text for text in SITE.values()) >= 1


def test_a_figure_that_was_changed_by_hand_is_found():
    """The check itself can fail."""
    figures = load("figures")
    page = SITE["benchmarks"]
    assert figures.generated(page) == page
    assert figures.generated(page.replace("| import |", "| imports |")) == page
