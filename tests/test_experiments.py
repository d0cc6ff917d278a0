"""The results kept are those that their commands give, and the documentation tells them."""

from __future__ import annotations

import importlib
from collections import Counter
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from experiments import (
    budget,
    example,
    headline,
    luck,
    paper,
    promise,
    rare,
    rare_default,
    results,
    same_margin,
    sampling,
    several,
)
from experiments.paper.cases import CASES, EXAMPLE, PRICES15
from experiments.peers.tables import SPLITS as COMPARED

pytestmark = pytest.mark.nightly

PARTS = {name: importlib.import_module(f"experiments.paper.{name}") for name in paper.PARTS}
DOCS = Path(__file__).parent.parent / "docs"
TOLD = (DOCS / "paper.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PARTS)
def test_the_smallest_case_measured_again_has_the_figures_kept(name):
    """To 1e-6, whatever the machine."""
    part = PARTS[name]
    rows = list(part.measure(next(iter(part.CASES)), small=True))
    assert rows
    assert results.differences(part.NAME, rows, part.KEYS) == []


def test_the_public_example_measured_again_has_the_figures_kept():
    """At its lowest threshold, to 1e-6."""
    rows = list(example.measure(small=True))
    assert len(rows) == 2
    assert results.differences(example.NAME, rows, example.KEYS) == []


@pytest.mark.parametrize("name", luck.PARTS)
def test_what_is_luck_measured_again_has_the_figures_kept(name):
    """The first case of the first split, to 1e-6."""
    part = luck.PARTS[name]
    row = next(part.measure(luck.PROBLEM, 0))
    assert results.differences(luck.kept(name), [row], ("split", part.case)) == []


@pytest.mark.parametrize("name", luck.PARTS)
def test_the_documentation_holds_the_tables_of_luck(name):
    """Word for word, but for their titles."""
    part = luck.PARTS[name]
    rows = results.load(luck.kept(name))
    assert {row["split"] for row in rows} == set(range(part.splits))
    _, table = part.table(rows).split("\n\n")
    assert table in (DOCS / "comparison.md").read_text(encoding="utf-8")


def test_a_budget_measured_again_has_the_figures_kept():
    """The fewest fits on the first split, to 1e-6."""
    rows = list(budget.measure(small=True))
    assert len(rows) == 1
    assert results.differences(budget.NAME, rows, budget.KEYS) == []


def test_the_documentation_holds_the_table_of_budgets():
    """Word for word; and as many fits as ours are those of the comparison."""
    rows = results.load(budget.NAME)
    assert {(r["times"], r["split"]) for r in rows} == set(product(budget.TIMES, budget.SPLITS))
    assert budget.table(rows) in (DOCS / "comparison.md").read_text(encoding="utf-8")
    for row in rows:
        if row["times"] == 1:
            same = {"problem": budget.PROBLEM, "method": "nsga2", "split": row["split"]}
            own = next(r for r in results.load(COMPARED) if same.items() <= r.items())
            assert [row[name] for name in budget.FIGURES] == [own[name] for name in budget.FIGURES]


def test_both_searches_at_the_same_margin_measured_again_have_the_figures_kept():
    """One margin for both, measured on our front; the smallest case, to 1e-6."""
    rows = list(same_margin.measure("KDD", 0))
    assert [row["method"] for row in rows] == [same_margin.OURS, same_margin.THEIRS]
    assert len({row["margin"] for row in rows}) == 1
    assert results.differences(same_margin.NAME, rows, same_margin.KEYS) == []


def test_a_larger_margin_refuses_no_fewer_targets():
    """Of either search, in every case that is kept."""
    rows = results.load(same_margin.NAME)
    assert {row["case"] for row in rows} == set(same_margin.CASES)
    for row in rows:
        assert row["margin"] >= 1
        assert row["margin_refused"] >= row["counted_refused"]


def test_ours_is_no_worse_than_the_public_script_at_any_threshold():
    """By its own scalarisation, on the test rows, with designs of its kind."""
    rows = results.load("example")
    by = {(row["threshold"], row["method"]): row["scalarisation"] for row in rows}
    for threshold in example.THRESHOLDS:
        assert by[threshold, "every source"] >= by[threshold, "public script"]


def test_the_mutation_figure_is_the_papers():
    """At each of its 900 coordinates, to 1e-12."""
    rows = results.load("paper_mutation")
    assert len(rows) == 900
    assert max(abs(row["ours"] - row["paper"]) for row in rows) < 1e-12


def test_the_papers_prices_are_importances_of_the_public_example():
    """Of Synthetic15: 100 times the Gini importance, one more or less, rounded."""
    X, y, _ = CASES[EXAMPLE].load(0)
    importance = RandomForestClassifier(random_state=0).fit(X, y).feature_importances_
    assert np.abs(100 * importance - PRICES15).max() <= 1.5


def test_optimal_evaluations_found_are_never_lost():
    """Property 1 of the paper: the curves never fall."""
    rows = results.load("paper_optimal_found")
    for earlier, later in pairwise(rows):
        if later["generation"]:
            assert later["evaluations"] >= earlier["evaluations"]


@pytest.mark.parametrize(
    "name", ["comparison", "draws", "fronts", "optimal_found", "landscape", "example"]
)
def test_the_documentation_holds_the_table_of_the_results_kept(name):
    """Word for word: figures told are figures kept."""
    part = example if name == "example" else PARTS[name]
    assert part.table(results.load(part.NAME)) in TOLD


@pytest.mark.parametrize("path", sorted(results.FOLDER.glob("*.csv")), ids=lambda path: path.name)
def test_a_file_of_results_names_its_command_or_its_source(path):
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith(("# python -m experiments ", "# Coordinates of "))


def test_a_figure_that_differs_is_told():
    """The comparison itself can fail."""
    (row, *_) = results.load("example")
    moved = row | {"accuracy": row["accuracy"] + 2e-6, "seconds": -1}
    assert len(results.differences("example", [moved], example.KEYS)) == 1


def test_a_promise_measured_again_has_the_figures_kept():
    """The first rule on the first split of Pima, to 1e-6."""
    row = next(promise.measure("Pima", 0))
    figures = {name: value for name, value in row.items() if name != "worst"}
    assert results.differences(promise.NAME, [figures], ("case", "problem", "asked", "rule")) == []


def test_the_documentation_holds_the_tables_of_promises():
    """All of them, of every split there is."""
    rows = results.load(promise.NAME)
    assert {row["case"] for row in rows} == set(promise.CASES)
    told = (DOCS / "promise.md").read_text(encoding="utf-8")
    tables = promise.tables(rows).split("\n\n")[1::2]
    assert len(tables) == len(promise.ASKED) + 1
    assert all(table in told for table in tables)


def test_the_page_on_reasons_holds_the_headline():
    """Every case that was measured, with all of its splits."""
    rows = results.load(headline.NAME)
    splits = Counter(row["case"] for row in rows)
    assert set(splits.values()) == {headline.SPLITS}
    assert headline.table(rows) in (DOCS / "measured-tables.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("experiment", [rare, rare_default, several, sampling])
def test_the_documentation_holds_the_tables_of_defaults(experiment):
    table = experiment.table(results.load(experiment.NAME))
    assert table in (DOCS / "defaults.md").read_text(encoding="utf-8")


def test_a_rare_class_measured_again_has_the_figures_kept():
    """The first run, to 1e-6."""
    row = rare_default.measure(rare_default.CASES[0])
    assert results.differences(rare_default.NAME, [row], ("case",)) == []
