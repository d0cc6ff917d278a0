"""The front is drawn where its evaluations are, and what is marked is what it says."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn.exceptions import NotFittedError

from emsco import Candidate, CascadeSearchCV, Costs, Evaluation, ParetoFront, Review, StageDesign
from emsco.core.interval import interval
from emsco.datasets import load_phishing
from emsco.exceptions import MissingExtraError, SelectionError
from emsco.plotting import FrontDisplay
from emsco.plotting._front import LEVELS


def front_of(figures, unit="", review=None):
    """Make a front of (accuracy, coverage, cost), of 10,000 rows."""
    costs = Costs.per_feature({"a": 1, "b": 1000})
    costs = Costs(costs.sources, unit=unit, review=review)
    candidates = []
    for accuracy, coverage, cost in figures:
        accepted = round(10_000 * coverage)
        evaluation = Evaluation(10_000, accepted, round(accuracy * accepted), 10_000 * cost)
        candidates.append(Candidate(StageDesign([0, 1]), 0.75, evaluation))
    return ParetoFront(candidates, costs)


def test_every_candidate_is_a_point_at_its_cost_and_accuracy_in_the_colour_of_its_coverage(search):
    display = FrontDisplay.from_search(search)
    drawn = {
        (x, y, colour)
        for (x, y), colour in zip(
            display.points_.get_offsets().tolist(), display.points_.get_array(), strict=True
        )
    }
    evaluations = [candidate.evaluation for candidate in search.front_]
    assert drawn == {(e.cost, e.accuracy, e.coverage) for e in evaluations}
    assert len(display.points_.get_offsets()) == len(search.front_)


def test_axes_have_the_words_of_the_library(search):
    display = FrontDisplay.from_search(search)
    assert display.ax_.get_xlabel() == "cost (EUR)"
    assert display.ax_.get_ylabel() == "accuracy"
    assert display.colorbar_.ax.get_ylabel() == "coverage"
    assert FrontDisplay.from_front(front_of([(0.9, 0.8, 5)])).ax_.get_xlabel() == "cost"


def test_the_choice_and_all_sources_are_marked_where_they_are(search):
    display = FrontDisplay.from_search(search)
    chosen = search.best_candidate_.evaluation
    every_row = search.all_sources_.evaluation
    as_many = search.all_sources_at(chosen.coverage)
    handles, texts = display.ax_.get_legend_handles_labels()
    assert [text.splitlines()[0] for text in texts] == [
        f"{name}: accuracy {e.accuracy:.3f}, coverage {e.coverage:.3f}, cost {e.cost:.4g} EUR"
        for name, e in [
            ("chosen", chosen),
            ("all sources, as many rows", as_many),
            ("all sources, every row", every_row),
        ]
    ]
    low, high = interval(chosen.accepted, chosen.rows)
    counted = [f"95% interval of the coverage: {low:.3f} to {high:.3f}"]
    for text, e, before in zip(texts, (chosen, as_many), (counted, []), strict=False):
        assert text.splitlines()[1:] == before + [
            f"{c}: rejected {e.rejected[c]:.3f}, missed {e.missed[c]:.3f}, "
            f"recall when accepted {e.recall[c]:.3f}, precision {e.precision[c]:.3f}"
            for c in (0, 1)
        ]
    places = [tuple(handle.get_offsets()[0]) for handle in handles]
    assert places == [(e.cost, e.accuracy) for e in (chosen, as_many, every_row)]


def evaluation_of(class_rows, accepted=0.8, right=0.7):
    """Make an evaluation of classes of which so much is accepted, and right."""
    rows = sum(class_rows.values())
    given = {c: round(accepted * n) for c, n in class_rows.items()}
    kept = {c: round(right * n) for c, n in class_rows.items()}
    return Evaluation(
        rows, sum(given.values()), sum(kept.values()), 5.0 * rows, class_rows, given, kept
    )


def test_many_classes_are_told_from_the_worst_and_long_names_are_cut(assert_legible):
    good = evaluation_of(
        {f"a label of a dozen, number {i}" if i else "few": 10 * i + 10 for i in range(12)}
    )
    unlucky = {**good.class_accepted, "few": 4}
    chosen = Evaluation(
        good.rows, sum(unlucky.values()), good.right - 3, good.paid,
        good.class_rows, unlucky, {**good.class_right, "few": 4},
    )  # fmt: skip
    front = front_of([(0.9, 0.8, 5), (0.95, 0.8, 9)])
    display = FrontDisplay.from_front(front, chosen=chosen)
    _, (told,) = display.ax_.get_legend_handles_labels()
    first, _, worst, counts, _, second, *_, last = told.splitlines()
    assert first.startswith("chosen: accuracy")
    # How many were accepted under each label is not known here.
    assert (
        worst == "few: rejected 0.600, missed 0.000, recall when accepted 1.000, precision \u2013"
    )
    assert counts.startswith("    6 of 10 rejected (31 to 83%), 0 of 10 missed (0 to 28%)")
    assert second.startswith("a label of ...er 1: rejected 0.")
    assert last == "and 8 other classes"
    assert_legible(display.figure_)


def test_review_is_in_the_price_where_it_has_one(assert_legible):
    front = front_of([(0.9, 0.8, 5), (0.95, 0.8, 9)], unit="EUR", review=Review(20.0))
    chosen = evaluation_of({"sick": 40, "well": 60})
    display = FrontDisplay.from_front(
        front, chosen=chosen, references={"all sources, as many rows": chosen}
    )
    _, texts = display.ax_.get_legend_handles_labels()
    assert ["cost 5 + review 4 = loss 9 EUR" in text.splitlines() for text in texts] == [True, True]
    assert_legible(display.figure_)


def test_the_loss_has_its_errors_where_the_choice_was_by_it(assert_legible):
    front = front_of([(0.9, 0.8, 5), (0.95, 0.8, 9)], unit="EUR", review=Review(20.0))
    chosen = evaluation_of({"sick": 40, "well": 60})
    display = FrontDisplay.from_front(front, chosen=chosen, error_cost={"sick": 50.0})
    _, (text,) = display.ax_.get_legend_handles_labels()
    errors = 50 * (chosen.class_accepted["sick"] - chosen.class_right["sick"]) / 100
    assert f"cost 5 + review 4 + errors {errors:g} = loss {9 + errors:g} EUR" in text.splitlines()
    assert_legible(display.figure_)


def test_a_line_follows_the_best_accuracy_for_at_most_a_cost(search):
    display = FrontDisplay.from_search(search)
    evaluations = [candidate.evaluation for candidate in search.front_]
    figures = np.array([(e.coverage, e.cost, e.accuracy) for e in evaluations])
    assert len(display.ax_.lines) == len(LEVELS) - 2
    for level, line in zip(LEVELS[1:-1], display.ax_.lines, strict=True):
        _, costs, accuracies = figures[figures[:, 0] >= level].T
        assert len(line.get_xdata()) == len(costs)
        for cost, accuracy in zip(*line.get_data(), strict=True):
            assert accuracy == accuracies[costs <= cost].max()


def test_costs_stand_on_a_logarithmic_axis_where_most_would_be_pressed_to_the_left(assert_legible):
    squeezed = [(0.8, 0.5, 1), (0.85, 0.5, 2), (0.86, 0.5, 3), (0.9, 0.5, 90)]
    spread = [(0.8, 0.5, 1), (0.85, 0.5, 40), (0.9, 0.5, 90)]
    free = [(0.8, 0.5, 0), *squeezed[1:]]

    def scale(figures, **options):
        display = FrontDisplay.from_front(front_of(figures), **options)
        assert_legible(display.figure_)
        return display.ax_.get_xscale()

    assert scale(squeezed) == "log"
    assert scale(free) == "symlog"
    assert scale(spread) == scale([(0.8, 0.5, 0)]) == "linear"
    assert scale([(0.8, 0.5, 0)], scale="symlog") == "symlog"
    assert scale(squeezed, scale="linear") == "linear"


def test_what_is_drawn_is_legible(search, assert_legible):
    texts = assert_legible(FrontDisplay.from_search(search).figure_)
    assert {"cost (EUR)", "accuracy", "coverage"} <= {*texts}


def test_thousands_of_candidates_are_small_points_and_one_image_in_a_pdf(assert_legible):
    # On a curved surface nobody beats anybody.
    angles = np.random.default_rng(0).random((3000, 2))
    figures = [(0.5 + a / 2, 0.3 + 0.7 * b, 1 + 200 * (a * b) ** 3) for a, b in angles]
    display = FrontDisplay.from_front(front_of(figures, unit="USD"))
    assert len(display.cost) > 1000
    assert display.points_.get_rasterized()
    assert (
        display.points_.get_sizes()
        < FrontDisplay.from_front(front_of(figures[:5])).points_.get_sizes()
    )
    assert_legible(display.figure_)


def test_a_real_front_is_legible(data_folder, assert_legible):
    X, y, costs = load_phishing(data_folder)
    search = CascadeSearchCV(
        costs=costs, max_rows=500, max_stages=2, threshold=[0.7, 0.9], refit=False, random_state=0
    )
    assert_legible(FrontDisplay.from_search(search.fit(X, y)).figure_)


def test_shades_of_coverage_differ_in_grey_too(search):
    display = FrontDisplay.from_search(search)
    middles = (np.array(LEVELS[1:]) + LEVELS[:-1]) / 2
    colours = display.points_.cmap(display.points_.norm(middles))[:, :3]
    grey = colours @ [0.299, 0.587, 0.114]
    assert (np.diff(grey) < -0.05).all()  # the more coverage, the darker
    assert grey[0] < 0.85  # and the palest is seen on paper


def test_it_draws_on_given_axes_and_again(search):
    figure, axes = plt.subplots(1, 2)
    display = FrontDisplay.from_search(search, ax=axes[1])
    assert display.ax_ is axes[1]
    assert display.figure_ is figure
    assert not axes[0].has_data()
    display.plot(axes[0])
    assert display.ax_ is axes[0]


def test_dollars_are_money_not_mathematics(assert_legible):
    display = FrontDisplay.from_front(front_of([(0.9, 0.8, 5)], unit="US$ or C$"))
    assert display.ax_.xaxis.label.get_text() == r"cost (US\$ or C\$)"
    assert_legible(display.figure_)


def test_a_front_with_nothing_chosen_is_drawn_alone():
    display = FrontDisplay.from_front(front_of([(0.9, 0.8, 5), (0.95, 0.8, 9)]))
    assert display.ax_.get_legend() is None


def test_errors_are_named(search, monkeypatch):
    with pytest.raises(NotFittedError):
        FrontDisplay.from_search(CascadeSearchCV())
    with pytest.raises(SelectionError, match="empty"):
        FrontDisplay.from_front(front_of([]))
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingExtraError, match=r"emsco\[plot\]"):
        FrontDisplay.from_search(search)
