"""The history of a search: the hypervolume reached against the number of designs seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from emsco._utils.text_table import cell
from emsco.exceptions import SearchError
from emsco.plotting._style import BLUE, INK, RED, axes, bare, plain

_MOST_NAMED = 16  # thresholds that fit above the axes
_LETTERS = 80  # that fit above the axes next to each other
_LINE = 2.2  # height of a line, in letters


class HistoryDisplay:
    """The progress of a search: hypervolume against designs seen, one threshold after the other.

    Each threshold is searched separately, so the curve starts again at each. The dashed line is the
    front of all thresholds, including those mixed stage by stage. Create it with `from_search`.

    Parameters
    ----------
    history : sequence of mapping
        The `history_` of a search.
    reached : float, default=None
        The hypervolume of the whole front.

    Attributes
    ----------
    designs_, hypervolume_ : list of array
        The values drawn, one array per run of the search: the number of designs seen since the
        beginning of the search, and the hypervolume reached.
    figure_, ax_ : matplotlib Figure and Axes
        The figure and the axes drawn on.
    thresholds_ : matplotlib SecondaryAxis
        The axis that names the thresholds, above the plot.

    Examples
    --------
    >>> from emsco import EMSCO, CascadeSearchCV
    >>> from emsco.datasets import make_costly_classification
    >>> from emsco.plotting import HistoryDisplay
    >>> X, y, costs = make_costly_classification(600, n_sources=4, random_state=0)
    >>> genetic = EMSCO(population=20, generations=5)
    >>> search = CascadeSearchCV(costs=costs, search=genetic, random_state=0).fit(X, y)
    >>> display = HistoryDisplay.from_search(search)
    >>> display.ax_.get_xlabel(), display.ax_.get_ylabel()
    ('designs', 'hypervolume')
    """

    def __init__(
        self, history: Sequence[Mapping[str, Any]], *, reached: float | None = None
    ) -> None:
        self.history = list(history)
        self.reached = reached

    @classmethod
    def from_search(cls, search: Any, *, ax: Any = None) -> Self:
        """Draw the history of a fitted search.

        Parameters
        ----------
        search : CascadeSearchCV
            The fitted search.
        ax : matplotlib Axes, default=None
            The axes to draw on. None: a new figure.
        """
        check_is_fitted(search, "history_")
        return cls(search.history_, reached=search.front_.hypervolume()).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the plot.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            The axes to draw on. None: a new figure.
        """
        runs = _runs(self.history)
        self.figure_, self.ax_ = axes(ax, 7.2, 4.2)
        self.designs_: list[NDArray[np.float64]] = []
        self.hypervolume_: list[NDArray[np.float64]] = []
        named: list[tuple[float, str]] = []
        begin = 0.0
        for number, run in enumerate(runs):
            designs = begin + np.array([entry["designs"] for entry in run], dtype=np.float64)
            reached = np.array([entry["hypervolume"] for entry in run], dtype=np.float64)
            self.designs_.append(designs)
            self.hypervolume_.append(reached)
            if number % 2:
                self.ax_.axvspan(begin, designs[-1], color="#F0F0F0", linewidth=0, zorder=0)
            if len(run) == 1:  # reported only at its end, as by the exhaustive search
                self.ax_.hlines(reached, begin, designs, color=BLUE, linewidth=1.6)
            self.ax_.plot(designs, reached, color=BLUE, linewidth=1.6)
            end = designs[-1:], reached[-1:]
            self.ax_.plot(*end, "o", color=BLUE, markersize=5, clip_on=False)
            named.append(((begin + designs[-1]) / 2, cell(run[-1].get("threshold", ""))))
            begin = designs[-1]
        if self.reached is not None:
            self.ax_.axhline(self.reached, color=RED, linestyle="--", linewidth=1.6)
            self.ax_.annotate(
                f"the whole front: {self.reached:.3f}",
                (0.01, self.reached),
                xycoords=("axes fraction", "data"),
                xytext=(0, 4),
                textcoords="offset points",
                color=INK,
            )
        self.ax_.set(xlabel="designs", ylabel="hypervolume", xlim=(0, begin))
        self.ax_.xaxis.set_major_formatter("{x:,.0f}")
        self.ax_.margins(y=0.12)
        bare(self.ax_)
        self._name(named)
        return self

    def _name(self, named: Sequence[tuple[float, str]]) -> None:
        """Name the thresholds above the axes, as many of them as fit."""
        every = -(-len(named) // _MOST_NAMED)
        named = named[::every]
        above = self.ax_.secondary_xaxis("top")
        # The distance between names, in letters: runs are not equally long.
        letters = _LETTERS / max(self.designs_[-1][-1], 1)
        close = min([(b[0] - a[0]) * letters for a, b in pairwise(named)], default=_LETTERS)
        turned = 90 if max(len(name) for _, name in named) + 1 > close else 0
        if turned:
            apart = [*named[:1]]
            for at, name in named[1:]:
                if (at - apart[-1][0]) * letters >= _LINE:
                    apart.append((at, name))
            named = apart
        above.set_xticks([at for at, _ in named], [plain(name) for _, name in named])
        above.tick_params(length=0, labelrotation=turned)
        above.set_xlabel("threshold")
        above.spines["top"].set_visible(False)
        self.thresholds_ = above


def _runs(history: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Divide a history into runs of one threshold each, in which the count of designs grows."""
    entries = [entry for entry in history if {"designs", "hypervolume"} <= entry.keys()]
    if not entries:
        raise SearchError("The history has no entries with `designs` and `hypervolume` to draw.")
    runs = [[entries[0]]]
    for before, entry in pairwise(entries):
        same = entry.get("threshold") == before.get("threshold")
        if same and entry["designs"] >= before["designs"]:
            runs[-1].append(entry)
        else:
            runs.append([entry])
    return runs
