"""The comparison's arithmetic, by hand and by brute force; and results that their commands give."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeRegressor

from emsco import Costs, Source
from experiments import peers, results
from experiments.peers import measure, nsga2
from experiments.peers.compare import (
    Interval,
    Target,
    choose,
    corrected_interval,
    hypervolume,
    make_targets,
    outcome,
    spread,
)
from experiments.peers.method import Figures, Scored, Task, by_source, figures_of, paid_for
from experiments.peers.miser import greedy_miser
from experiments.peers.problems import make_task
from experiments.peers.tables import SPLITS, SUMMARY, summarise, tables
from experiments.peers.tables import differences as between
from experiments.peers.trees import Tree, penalties, walk
from experiments.problems import PROBLEMS
from experiments.results import differences, load

pytestmark = pytest.mark.nightly


def test_an_interval_is_corrected_for_rows_that_splits_share():
    """Three splits, as many rows fresh as selected: 4.302653 x 1 x sqrt(1/3 + 1)."""
    found = corrected_interval([1.0, 2.0, 3.0], fresh_to_selection=1.0)
    assert found == pytest.approx((2.0, 2.0 - 4.968276, 2.0 + 4.968276), abs=1e-5)


def test_one_split_tells_nothing():
    """An interval without end holds 0, so that nothing is won or lost."""
    one = corrected_interval([-1.0], fresh_to_selection=1.0)
    assert outcome(one, one, one) == "tie"


def test_targets_are_what_all_sources_have_less_a_margin():
    """Of ten rows, the surest seven are right and the others wrong."""
    confidence = np.arange(100, 90, -1) / 100
    scored = Scored(np.array([1] * 7 + [0] * 3), confidence, np.ones(10))
    targets = make_targets(scored, np.ones(10, dtype=np.intp))
    assert [target.coverage for target in targets] == [0.95, 0.95, 0.9, 0.9, 0.8, 0.8, 0.7, 0.7]
    accuracies = [0.7, 0.7, 7 / 9, 7 / 9, 7 / 8, 7 / 8, 1.0, 1.0]
    margins = [0.005, 0.02] * 4
    expected = np.subtract(accuracies, margins)
    assert np.allclose([target.accuracy for target in targets], expected)
    assert [target.threshold for target in targets[::2]] == [0.0, 0.92, 0.93, 0.94]


def test_all_sources_meet_every_target():
    """Their own thresholds leave at least the coverage asked for, however few the rows."""
    rng = np.random.default_rng(0)
    for n_rows in (7, 149, 300):
        scored = Scored(np.ones(n_rows, dtype=np.intp), rng.random(n_rows), np.ones(n_rows))
        truth = rng.integers(2, size=n_rows)
        for target in make_targets(scored, truth):
            own = figures_of(scored.decide(target.threshold), truth, 1.0)
            assert choose([own], target) == 0


def test_the_cheapest_that_meets_a_target_is_chosen():
    """Of equals the most accurate; none where none meets it."""
    target = Target(0.8, 0.9, 0.0)
    figures = [
        Figures(0.95, 0.79, 0.1),
        Figures(0.89, 0.9, 0.1),
        Figures(0.9, 0.8, 0.3),
        Figures(0.92, 0.8, 0.3),
        Figures(0.99, 1.0, 0.4),
    ]
    assert choose(figures, target) == 3
    assert choose(figures[:2], target) is None


def test_a_choice_less_one_standard_error_meets_its_target_by_it():
    """0.94 of 80 rows may be 0.0266 off, of 8,000 rows 0.0027."""
    target = Target(0.8, 0.92, 0.0)
    figures = [Figures(0.93, 0.8, 0.1), Figures(0.94, 0.8, 0.2), Figures(1.0, 0.8, 0.9)]
    assert [choose(figures, target, rows) for rows in (None, 10_000, 100)] == [0, 0, 2]
    assert choose(figures[:2], target, 100) is None
    assert choose(figures, Target(0.8, 0.928, 0.0), 10_000) == 1


@pytest.mark.parametrize(
    ("price", "accuracy", "coverage", "expected"),
    [
        ((-0.2, -0.1), (-0.02, 0.0), (-0.02, 0.0), "win"),
        ((-0.2, -0.1), (-0.03, -0.02), (0.0, 0.1), "tie"),  # cheaper, but worse
        ((-0.2, 0.1), (0.0, 0.1), (0.0, 0.1), "tie"),
        ((-0.2, 0.1), (0.0, 0.1), (-0.03, -0.02), "loss"),  # as dear, and worse
        ((0.1, 0.2), (-0.1, 0.005), (0.0, 0.0), "loss"),
        ((0.1, 0.2), (0.02, 0.03), (0.0, 0.0), "tie"),  # dearer, but better
    ],
)
def test_who_wins(price, accuracy, coverage, expected):
    """By the intervals of ours less the method's."""
    intervals = [Interval(sum(ends) / 2, *ends) for ends in (price, accuracy, coverage)]
    assert outcome(*intervals) == expected


def test_a_hypervolume_is_a_share_of_what_lies_above_the_majority():
    """Half the coverage, half of the way to perfect accuracy, half the price: an eighth."""
    truth = np.array([0, 1])
    assert hypervolume([Figures(0.75, 0.5, 0.5)], truth) == pytest.approx(1 / 8)
    assert hypervolume([Figures(0.75, 0.5, 1.0)], truth) == 0


def test_a_front_is_thinned_evenly_in_the_order_of_price():
    """What is beaten is left out; the ends stay."""
    figures = [Figures(i / 100, 1.0, i / 100) for i in range(100)] + [Figures(0.1, 0.5, 0.9)]
    assert spread(figures, most=4) == [0, 33, 66, 99]


def _random_problem(seed: int = 0) -> tuple[np.random.Generator, np.ndarray, Costs]:
    rng = np.random.default_rng(seed)
    sources = [
        Source("a", features=("x0", "x1"), cost=1.0),
        Source("b", features=("x2",), cost=2.0, setup="s"),
        Source("c", features=("x3",), cost=4.0, setup="s"),
        Source("d", features=("x4",), cost=0.0, requires=("a", "b")),
    ]
    return rng, rng.normal(size=(200, 5)), Costs(sources, setups={"s": 8.0})


def test_what_a_row_pays_is_what_its_paths_look_at():
    """Trees grown by scikit-learn, walked here and, row by row, by hand."""
    rng, X, costs = _random_problem()
    grown = [
        DecisionTreeRegressor(max_leaf_nodes=6, random_state=i).fit(X, rng.normal(size=200)).tree_
        for i in range(2)
    ]
    trees = [
        Tree(
            np.where(t.children_left < 0, -1, t.feature),
            t.threshold,
            t.children_left,
            t.children_right,
            t.value[:, 0, 0],
        )
        for t in grown
    ]
    X = X.astype(np.float32).astype(np.float64)  # as scikit-learn's trees compare
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(5)])
    task = Task(frame, np.zeros(200, dtype=np.intp), costs, [], "trees", 0)
    score, looked_at = walk(trees, X)
    expected_score = sum(t.predict(X.astype(np.float32))[:, 0] for t in grown)
    assert np.allclose(score, expected_score)
    paid = paid_for(costs, by_source(task, looked_at))
    for i, row in enumerate(X):
        bought: set[str] = set()
        for tree in grown:
            node = 0
            while tree.children_left[node] >= 0:
                feature = tree.feature[node]
                bought.add("aabcd"[feature])
                left = row[feature] <= tree.threshold[node]
                node = tree.children_left[node] if left else tree.children_right[node]
        if "d" in bought:
            bought |= {"a", "b"}
        assert paid[i] == costs.of(bought)


def test_a_miser_buys_less_the_dearer_it_is():
    """With lambda 0 it looks at what it likes; with a large one at nothing."""
    task, X, truth = make_task("Heart", "trees", 0)
    offer = greedy_miser(task)
    lavish, mean = (offer.fit(s, task.X, task.y)(X) for s in (offer.settings[0], 100.0))
    assert lavish.paid.mean() > 0.5 * task.costs.total
    assert (mean.paid == 0).all()
    assert (lavish.label == truth).mean() > (mean.label == truth).mean() - 0.1


@pytest.mark.parametrize(
    ("name", "kind", "strength"),
    [
        ("lightgbm", "coupled", 0.1),
        ("lightgbm", "lazy", 0.1),
        ("catboost", "first_feature_use_penalties", 0.3),
        ("catboost", "per_object_feature_penalties", 0.3),
    ],
)
def test_trees_say_here_what_they_say_there(name, kind, strength):
    """Walked here, they give the probabilities that the library itself gives."""
    library = importlib.import_module(f"experiments.peers.{name}")
    task, X, _ = make_task("Heart", "trees", 0)
    trained = library.train(kind, strength, penalties(task)[0], task.X, task.y)
    scored = library.as_model(task, trained)(X)
    values = X.to_numpy(dtype=np.float64)
    said = trained.predict(values) if name == "lightgbm" else trained.predict_proba(values)[:, 1]
    assert np.allclose(scored.confidence, np.maximum(said, 1 - said), atol=1e-6)
    assert 0 < scored.paid.mean() < task.costs.total


def test_every_problem_is_split_in_halves_without_a_row_in_both():
    """And the same split is the same rows every time."""
    assert len(PROBLEMS) == 13
    task, X, truth = make_task("Pima", "linear", 3)
    again, same, _ = make_task("Pima", "linear", 3)
    assert (task.X == again.X).all(axis=None)
    assert (same == X).all(axis=None)
    assert len(task.y) + len(truth) == 768


def test_results_are_what_their_command_gives():
    """The smallest case, measured again."""
    rows = [measure("Pima", 0, method) for method in ("ours-linear", "all-linear", "stages-linear")]
    assert not differences(SPLITS, rows, ("problem", "method", "split"))


def test_a_search_by_nsga2_has_the_figures_kept():
    """With the budget that ours had on the same rows; the smallest case."""
    (ours,) = [
        row for row in load(SPLITS)
        if (row["problem"], row["split"], row["method"]) == ("KDD", 0, "ours-linear")
    ]  # fmt: skip
    row = measure("KDD", 0, "nsga2", ours["evaluations"], ours["fits"])
    assert not differences(SPLITS, [row], ("problem", "method", "split"))


@pytest.mark.parametrize("fits", [25, 40])
def test_nsga2_is_held_to_a_budget_of_fits(fits, monkeypatch):
    """Spent to the last on a problem of fifteen source sets, all of which it would meet."""
    task, *_ = make_task("KDD", "linear", 0)
    offers = {}
    for many in (4, 3):  # sources, above which fits are counted; KDD has 4
        monkeypatch.setattr(nsga2, "_MANY", many)
        offers[many] = nsga2.nsga2(replace(task, evaluations=2000, fits=fits))
    assert (offers[4].fits, offers[3].fits) == (75, fits)
    assert 0 < len(offers[3].candidates) < len(offers[4].candidates)


def test_the_summary_is_that_of_the_splits():
    """Means, intervals and outcomes follow from the figures of the splits."""
    made = summarise(load(SPLITS))
    told = {(row["problem"], row["method"]): row for row in load(SUMMARY)}
    assert len(made) == len(told)
    for row in made:
        kept = told[row["problem"], row["method"]]
        assert row["outcome"] == kept["outcome"]
        numbers = [key for key, value in row.items() if isinstance(value, float)]
        assert [row[key] for key in numbers] == pytest.approx([kept[key] for key in numbers])


def test_a_part_measured_again_leaves_the_rest_as_it_was(tmp_path, monkeypatch):
    """What is in the log takes the place of what was kept, and of nothing else."""
    rows = load(SPLITS)
    asked = [row for row in rows if (row["problem"], row["method"]) == ("KDD", "all-linear")]
    for module in ("results", "peers", "peers.tables"):
        place = importlib.import_module(f"experiments.{module}")
        monkeypatch.setattr(place, "FOLDER", tmp_path)
    monkeypatch.setattr(peers, "LOG", tmp_path / "peers.jsonl")
    results.write(SPLITS, "# command", rows)
    moved = [row | {"accuracy": 0.5} for row in asked]
    peers.LOG.write_text("".join(json.dumps(row) + "\n" for row in moved), encoding="utf-8")
    peers.run(small=False, only=["KDD:all-linear"])
    assert load(SPLITS) == [moved[row["split"]] if row in asked else row for row in rows]


def test_the_documentation_tells_the_results():
    """Who wins, by how much, and what that is worth, as the results kept have it."""
    told = (Path(__file__).parent.parent / "docs" / "comparison.md").read_text(encoding="utf-8")
    counts, _, prices, _, _, *rest = tables(load(SPLITS)).split("\n\n")
    worth = rest[1:4:2]  # without their titles, and without the means
    own = rest[
        rest.index("What wins and ties are worth, the others chosen as counted, ours as it comes:")
        + 1
    ]
    for table in (counts, prices, *worth, own):
        assert table in told


def test_ours_as_it_comes_is_compared_where_enough_splits_have_it():
    """Beside ours chosen as the method is; never both in one interval."""
    its = {s: {"fresh": 1, "selection": 1} | figures_at(0.5) for s in range(5)}
    ours = {s: figures_at(0.2) | own_at(0.4 if s < 3 else "") for s in range(5)}
    found = between(ours, its)
    assert found["price"].mean == found["less_one_price"].mean == pytest.approx(-0.3)
    own = [found[f"own_{kind}price"].mean for kind in ("counted_", "less_one_")]
    assert own == pytest.approx([-0.1, -0.1])
    ours[2] |= own_at("")
    assert not any(name.startswith("own_") for name in between(ours, its))


def figures_at(value):
    """Give the same figure for both ways of choosing."""
    names = ("price", "accuracy", "coverage")
    return {kind + n: value for kind in ("", "less_one_") for n in names} | {"hypervolume": value}


def own_at(value):
    return {f"own_{name}": value for name in ("price", "accuracy", "coverage")}
