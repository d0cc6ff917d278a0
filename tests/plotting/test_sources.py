"""Cells are as dark as many candidates of their group buy the source."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from emsco import CascadeSearchCV, Costs, ParetoFront
from emsco.exceptions import SelectionError
from emsco.plotting import SourcesDisplay


def test_cells_hold_the_share_of_a_group_that_buys_the_source(search, assert_legible):
    display = SourcesDisplay.from_search(search)
    front = search.front_
    groups = np.array_split(np.arange(len(front)), display.share_.shape[1])
    for name, shares in zip(display.sources_, display.share_, strict=True):
        buys = [any(name in stage for stage in c.design.stages) for c in front]
        np.testing.assert_allclose(shares, [np.mean([buys[i] for i in g]) for g in groups])
    drawn = display.ax_.images[0].get_array()
    np.testing.assert_array_equal(drawn, display.share_)
    assert_legible(display.figure_)


def test_what_is_bought_most_stands_first_with_its_price(search):
    display = SourcesDisplay.from_search(search)
    often = {
        name: sum(name in candidate.design.acquired(candidate.design.n_stages - 1)
                  for candidate in search.front_)
        for name in search.costs_.names
    }  # fmt: skip
    assert [often[name] for name in display.sources_] == sorted(often.values(), reverse=True)
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    prices = {source.name: source.cost for source in search.costs_.sources}
    assert labels == [f"{name} ({prices[name]:.0f} EUR)" for name in display.sources_]
    assert display.ax_.get_xlabel() == "cost (EUR) of the candidates, in order"


@pytest.mark.parametrize("price", [0.001, 1.0, 1_234_567.0])
def test_costs_below_columns_stand_apart(price, assert_legible):
    """Long names leave little room, and large costs take much."""
    names = [f"a source with a very long name, number {i}" for i in range(40)]
    costs = Costs.per_feature(dict.fromkeys(names, price))
    n_bought = np.arange(1, 41)
    bought = np.tril(np.ones((40, 40), dtype=bool))
    display = SourcesDisplay(bought.T, n_bought * price, costs=costs).plot()
    assert_legible(display.figure_)
    assert len(display.ax_.get_xticks()) >= 2


def test_errors_are_named(search):
    with pytest.raises(NotFittedError):
        SourcesDisplay.from_search(CascadeSearchCV())
    with pytest.raises(SelectionError, match="empty"):
        SourcesDisplay.from_front(ParetoFront([], search.costs_))
