"""Which sources are bought across a front, from the cheapest to the most expensive candidate."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from emsco._utils.text_table import cell
from emsco.core.costs import Costs
from emsco.core.front import ParetoFront
from emsco.exceptions import SelectionError, require
from emsco.plotting._style import axes, cost_label, money, plain, spread_ticks

_MOST_TICKS = 7
_MOST_COLUMNS = 40  # groups of candidates: single neighbours differ too much


class SourcesDisplay:
    """The sources that candidates of a front buy, from the cheapest to the most expensive.

    Each column is a group of candidates with neighbouring costs; the darker a cell, the more of
    them buy the source, at any stage. Create it with `from_search` or `from_front`.

    Parameters
    ----------
    bought : array of bool of shape (n_sources, n_candidates)
        Whether a candidate buys a source, with candidates from the cheapest to the most expensive.
    cost : array of shape (n_candidates,)
        The cost of each candidate.
    costs : Costs
        The prices.

    Attributes
    ----------
    figure_, ax_ : matplotlib Figure and Axes
        The figure and the axes drawn on.
    share_ : array of shape (n_sources, n_groups)
        The share of each group that buys each source, in the order drawn, most bought first.
    sources_ : list of str
        The sources in that order.
    colorbar_ : matplotlib Colorbar
        The colour bar of shares.

    Examples
    --------
    >>> from emsco import CascadeSearchCV
    >>> from emsco.datasets import make_costly_classification
    >>> from emsco.plotting import SourcesDisplay
    >>> X, y, costs = make_costly_classification(600, n_sources=4, random_state=0)
    >>> search = CascadeSearchCV(costs=costs, random_state=0).fit(X, y)
    >>> sorted(SourcesDisplay.from_search(search).sources_) == sorted(costs.names)
    True
    """

    def __init__(
        self, bought: NDArray[np.bool_], cost: NDArray[np.float64], *, costs: Costs
    ) -> None:
        self.bought = bought
        self.cost = cost
        self.costs = costs

    @classmethod
    def from_search(cls, search: Any, *, ax: Any = None) -> Self:
        """Draw the front of a fitted search.

        Parameters
        ----------
        search : CascadeSearchCV
            The fitted search.
        ax : matplotlib Axes, default=None
            The axes to draw on. None: a new figure.
        """
        check_is_fitted(search, "front_")
        return cls.from_front(search.front_, ax=ax)

    @classmethod
    def from_front(cls, front: ParetoFront, *, ax: Any = None) -> Self:
        """Draw a front.

        Parameters
        ----------
        front : ParetoFront
            The front.
        ax : matplotlib Axes, default=None
            The axes to draw on. None: a new figure.
        """
        if not len(front):
            raise SelectionError("The front is empty: no candidate accepts any row.")
        bought = np.array([candidate.design.assignment >= 0 for candidate in front]).T
        cost = np.array([candidate.evaluation.cost for candidate in front])
        return cls(bought, cost, costs=front.costs).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the plot.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            The axes to draw on. None: a new figure.
        """
        n_sources, n_candidates = self.bought.shape
        self.figure_, self.ax_ = axes(ax, 7.2, 1.8 + 0.28 * n_sources)
        groups = np.array_split(np.arange(n_candidates), min(n_candidates, _MOST_COLUMNS))
        order = np.argsort(-self.bought.mean(axis=1), kind="stable")
        self.share_ = np.array([self.bought[order][:, group].mean(axis=1) for group in groups]).T
        self.sources_ = [self.costs.names[i] for i in order]
        image = self.ax_.imshow(
            self.share_, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest"
        )
        self.ax_.set_yticks(
            range(n_sources),
            [plain(f"{name} ({self._price(name)})") for name in self.sources_],
        )
        self.ax_.set_xlabel(plain(f"{cost_label(self.costs.unit)} of the candidates, in order"))
        self.ax_.set_yticks(np.arange(n_sources + 1) - 0.5, minor=True)
        self.ax_.grid(which="minor", axis="y", color="white", linewidth=2)
        self.ax_.tick_params(which="both", axis="y", length=0)
        self.ax_.spines[:].set_visible(False)
        percent = require("matplotlib.ticker", "plot").PercentFormatter(1.0)
        self.colorbar_ = self.figure_.colorbar(
            image, ax=self.ax_, label="candidates that buy it", format=percent
        )
        # Costs do not grow evenly from group to group, so the ticks show them.
        first = [cell(float(self.cost[group[0]])) for group in groups]
        spread_ticks(self.ax_, first, most=_MOST_TICKS)
        return self

    def _price(self, source: str) -> str:
        return money(self.costs.of([source]), self.costs.unit)
