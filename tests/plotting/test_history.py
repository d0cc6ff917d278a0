"""A search's history is drawn as it was told, run after run."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from emsco import EMSCO, CascadeSearchCV
from emsco.exceptions import SearchError
from emsco.plotting import HistoryDisplay


@pytest.fixture(scope="module")
def genetic(rows):
    search = EMSCO(population=20, generations=4)
    thresholds = [0.6, {0: 0.7, 1: 0.8}]
    fitted = CascadeSearchCV(search=search, threshold=thresholds, random_state=0, select={})
    return fitted.fit(*rows[:2])


def entry(threshold, designs, hypervolume):
    return {"threshold": threshold, "designs": designs, "hypervolume": hypervolume}


def test_each_threshold_is_a_run_that_begins_where_the_one_before_ended(genetic, assert_legible):
    display = HistoryDisplay.from_search(genetic)
    history = genetic.history_
    by_threshold = [[e for e in history if e["threshold"] == t] for t in genetic.threshold]
    assert len(display.designs_) == len(by_threshold) == 2
    begin = 0
    for run, designs, reached in zip(
        by_threshold, display.designs_, display.hypervolume_, strict=True
    ):
        np.testing.assert_array_equal(designs, [begin + e["designs"] for e in run])
        np.testing.assert_array_equal(reached, [e["hypervolume"] for e in run])
        begin += run[-1]["designs"]
    texts = assert_legible(display.figure_)
    assert {"designs", "hypervolume", "threshold", "0.6", "{0: 0.7, 1: 0.8}"} <= {*texts}


def test_lines_are_where_the_runs_are_and_dashes_at_the_whole_front(genetic):
    display = HistoryDisplay.from_search(genetic)
    reached = genetic.front_.hypervolume()
    dashed = [line for line in display.ax_.lines if line.get_linestyle() == "--"]
    assert [set(line.get_ydata()) for line in dashed] == [{reached}]
    drawn = [line.get_xydata().tolist() for line in display.ax_.lines]
    for designs, hypervolume in zip(display.designs_, display.hypervolume_, strict=True):
        assert np.column_stack([designs, hypervolume]).tolist() in drawn
    assert f"the whole front: {reached:.3f}" in [text.get_text() for text in display.ax_.texts]


def test_a_walk_of_every_design_is_told_once_a_threshold(search, assert_legible):
    display = HistoryDisplay.from_search(search)
    n_runs = len({e["threshold"] for e in search.history_})
    assert [len(run) for run in display.designs_] == [1] * n_runs
    level = [segment for lines in display.ax_.collections for segment in lines.get_segments()]
    assert len(level) == n_runs
    assert_legible(display.figure_)


def test_a_count_that_falls_begins_another_run():
    history = [entry(0.7, 10, 0.1), entry(0.7, 20, 0.2), entry(0.7, 5, 0.3)]
    display = HistoryDisplay(history).plot()
    assert [run.tolist() for run in display.designs_] == [[10, 20], [25]]


def test_many_thresholds_are_named_as_far_as_they_fit(assert_legible):
    history = [entry(round(0.5 + i / 100, 2), 100, i / 50) for i in range(49)]
    display = HistoryDisplay(history, reached=1.0).plot()
    assert len(display.designs_) == 49
    assert_legible(display.figure_)


@pytest.mark.parametrize("growth", [1.0, 1.3, 3.0])
def test_names_of_short_runs_lie_on_no_other(growth, assert_legible):
    history = [entry(round(0.5 + i / 30, 2), round(10 * growth**i), i / 15) for i in range(13)]
    assert_legible(HistoryDisplay(history, reached=0.9).plot().figure_)


def test_errors_are_named():
    with pytest.raises(NotFittedError):
        HistoryDisplay.from_search(CascadeSearchCV())
    with pytest.raises(SearchError, match="no entries with `designs`"):
        HistoryDisplay([{"note": "of a search that tells nothing"}]).plot()
