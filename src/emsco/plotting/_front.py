"""The front: cost against accuracy, coloured by coverage, with references to compare it with."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from emsco.core.costs import Review
from emsco.core.evaluation import Evaluation
from emsco.core.expense import ErrorCost, error_cost_of, expense_of
from emsco.core.front import ParetoFront
from emsco.exceptions import SelectionError, require
from emsco.plotting._style import (
    INK,
    LINE,
    RED,
    axes,
    bare,
    class_lines,
    cost_label,
    coverage_lines,
    money,
    plain,
)

AS_MANY = "all sources, as many rows"  # the reference at the coverage of the choice
# Where coverage changes colour: finer close to 1, where differences matter more.
LEVELS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99, 1.0)
_MANY = 300  # more candidates than this are drawn as small points
_FEW = 0.05  # of the candidates
_SQUEEZED = 1 / 6  # of the axis: the cheaper half of the candidates needs at least this


class FrontDisplay:
    """The candidates of a front: cost against accuracy, coloured by coverage.

    For each coverage at which the colour changes, a line shows the best accuracy available at or
    below each cost. For the chosen candidate, and for all sources accepting as many rows, figures
    per class are shown too. If a review or errors have a price, the loss is shown. Create it with
    `from_search` or `from_front`.

    Parameters
    ----------
    cost, accuracy, coverage : array of shape (n_candidates,)
        The evaluation of each candidate.
    chosen : Evaluation, default=None
        The evaluation of the chosen candidate.
    references : mapping of str to Evaluation, default=None
        Evaluations to compare the front with, by the name to show.
    unit : str, default=""
        The unit of costs.
    review : Review, default=None
        The review of a rejected row.
    error_cost : float or mapping of label to float, default=None
        The price of an error, if the choice was made by loss.
    repeats : float, default=1.0
        How many times each row was counted, for intervals.
    of : {"rows", "stake"}, default="rows"
        What accuracy and coverage are shares of.

    Attributes
    ----------
    figure_, ax_ : matplotlib Figure and Axes
        The figure and the axes drawn on.
    points_ : matplotlib PathCollection
        The candidates.
    colorbar_ : matplotlib Colorbar
        The colour bar of coverage.

    Examples
    --------
    >>> from emsco import CascadeSearchCV
    >>> from emsco.datasets import make_costly_classification
    >>> from emsco.plotting import FrontDisplay
    >>> X, y, costs = make_costly_classification(600, n_sources=4, random_state=0)
    >>> search = CascadeSearchCV(costs=costs, random_state=0).fit(X, y)
    >>> display = FrontDisplay.from_search(search)
    >>> display.ax_.get_xlabel(), display.ax_.get_ylabel()
    ('cost', 'accuracy')
    """

    def __init__(
        self,
        *,
        cost: NDArray[np.float64],
        accuracy: NDArray[np.float64],
        coverage: NDArray[np.float64],
        chosen: Evaluation | None = None,
        references: Mapping[str, Evaluation] | None = None,
        unit: str = "",
        review: Review | None = None,
        error_cost: ErrorCost = None,
        repeats: float = 1.0,
        of: str = "rows",
    ) -> None:
        self.cost = cost
        self.accuracy = accuracy
        self.coverage = coverage
        self.chosen = chosen
        self.references = dict(references or {})
        self.unit = unit
        self.review = review
        self.error_cost = error_cost
        self.repeats = repeats
        self.of = of

    @classmethod
    def from_search(cls, search: Any, *, ax: Any = None, scale: str | None = None) -> Self:
        """Draw the front of a fitted search, the chosen candidate, and all sources at once.

        All sources at once are marked twice: answering every row, and accepting only the most
        confident rows, as many as the chosen candidate accepts.

        Parameters
        ----------
        search : CascadeSearchCV
            The fitted search.
        ax : matplotlib Axes, default=None
            The axes to draw on. None: a new figure.
        scale : {"linear", "log", "symlog"}, default=None
            The scale of the cost axis. None: as in `plot`.
        """
        check_is_fitted(search, "front_")
        references = {}
        chosen = getattr(search, "best_candidate_", None)
        if chosen is not None and chosen.evaluation.coverage < 1:
            references[AS_MANY] = search.all_sources_at(chosen.evaluation.coverage)
        references["all sources, every row"] = search.all_sources_.evaluation
        return cls.from_front(
            search.front_,
            chosen=None if chosen is None else chosen.evaluation,
            references=references,
            error_cost=None if chosen is None else error_cost_of(search.choice_.bounds),
            ax=ax,
            scale=scale,
        )

    @classmethod
    def from_front(
        cls,
        front: ParetoFront,
        *,
        chosen: Evaluation | None = None,
        references: Mapping[str, Evaluation] | None = None,
        error_cost: ErrorCost = None,
        ax: Any = None,
        scale: str | None = None,
    ) -> Self:
        """Draw a front, and mark other evaluations in the same plot.

        Parameters
        ----------
        front : ParetoFront
            The front.
        chosen, references, error_cost
            As for the class.
        ax : matplotlib Axes, default=None
            The axes to draw on. None: a new figure.
        scale : {"linear", "log", "symlog"}, default=None
            The scale of the cost axis. None: as in `plot`.
        """
        evaluations = [candidate.evaluation for candidate in front]
        display = cls(
            cost=np.array([evaluation.cost for evaluation in evaluations]),
            accuracy=np.array([evaluation.accuracy for evaluation in evaluations]),
            coverage=np.array([evaluation.coverage for evaluation in evaluations]),
            chosen=chosen,
            references=references,
            unit=front.costs.unit,
            review=front.costs.review,
            error_cost=error_cost,
            repeats=front.repeats,
            of="stake" if any(e.is_by_stake for e in evaluations) else "rows",
        )
        return display.plot(ax, scale=scale)

    def plot(self, ax: Any = None, *, scale: str | None = None) -> Self:
        """Draw the plot.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            The axes to draw on. None: a new figure.
        scale : {"linear", "log", "symlog"}, default=None
            The scale of the cost axis. None: linear, unless half of the candidates would then be
            squeezed into a sixth of the axis; in that case "log", or "symlog", which includes zero,
            if a candidate is free.
        """
        if not len(self.cost):
            raise SelectionError("The front is empty: no candidate accepts any row.")
        marked = self._marked()
        lines = sum(label.count("\n") for label, *_ in marked)
        self.figure_, self.ax_ = axes(ax, 7.2, 5.0 + LINE * lines)
        colours = require("matplotlib.colors", "plot")
        # Dark is high coverage; the palest end would be invisible on paper.
        shades = require("matplotlib", "plot").colormaps["viridis_r"](np.linspace(0.06, 1.0, 256))
        colormap = colours.ListedColormap(shades, "coverage")
        norm = colours.BoundaryNorm(LEVELS, colormap.N)
        order = np.argsort(self.coverage, kind="stable")  # the highest coverage on top
        self.points_ = self.ax_.scatter(
            self.cost[order],
            self.accuracy[order],
            c=self.coverage[order],
            cmap=colormap,
            norm=norm,
            s=6 if len(order) > _MANY else 16,
            linewidths=0,
            alpha=0.8,
            rasterized=len(order) > _MANY,  # thousands of points make a large PDF
        )
        for level in LEVELS[1:-1]:
            self._line(level, colormap(norm(level)))
        scale = scale or self._scale()
        self.ax_.set_xscale(scale, **(self._near_zero() if scale == "symlog" else {}))
        self.ax_.xaxis.set_major_formatter("{x:,.10g}")
        if self.ax_.get_xscale() == "linear":
            self.ax_.locator_params(axis="x", nbins=5)  # prices may have many digits
        self._mark(marked)
        of = "" if self.of == "rows" else f" (share of the {self.of})"
        self.ax_.set(xlabel=plain(cost_label(self.unit)), ylabel=f"accuracy{of}")
        bare(self.ax_)
        self.colorbar_ = self.figure_.colorbar(
            self.points_, ax=self.ax_, label=f"coverage{of}", ticks=LEVELS, format="%.4g"
        )
        self.colorbar_.solids.set_alpha(1.0)
        return self

    def _line(self, level: float, colour: Any) -> None:
        """Draw the best accuracy at or below each cost, with at least this coverage."""
        covering = self.coverage >= level
        cost, accuracy = self.cost[covering], self.accuracy[covering]
        order = np.lexsort((-accuracy, cost))
        cost, best = cost[order], np.maximum.accumulate(accuracy[order])
        self.ax_.plot(cost, best, drawstyle="steps-post", color=colour, linewidth=1.4)

    def _marked(self) -> list[tuple[str, Evaluation, dict[str, Any]]]:
        """List the chosen candidate and the references, each with its text and its style."""
        marked = []
        if self.chosen is not None:
            star = {"marker": "*", "s": 260, "c": RED, "linewidths": 1.0}
            lines = coverage_lines(self.chosen, self.repeats)
            lines += class_lines(self.chosen, self.repeats)
            text = "\n".join([self._figures("chosen", self.chosen), *lines])
            marked.append((text, self.chosen, star))
        for (name, evaluation), marker in zip(self.references.items(), cycle("sDv^"), strict=False):
            hollow = {"marker": marker, "s": 60, "c": "white", "linewidths": 1.6}
            by_class = class_lines(evaluation) if name == AS_MANY else []
            text = "\n".join([self._figures(name, evaluation), *by_class])
            marked.append((text, evaluation, hollow))
        return marked

    def _figures(self, name: str, evaluation: Evaluation) -> str:
        text = f"{name}: accuracy {evaluation.accuracy:.3f}, coverage {evaluation.coverage:.3f}"
        expense = expense_of(evaluation, self.review, self.error_cost).text(self.unit)
        return (
            f"{text}\n{expense}" if expense else f"{text}, cost {money(evaluation.cost, self.unit)}"
        )

    def _mark(self, marked: list[tuple[str, Evaluation, dict[str, Any]]]) -> None:
        """Mark the chosen candidate and the references, and show their figures above the axes."""
        for text, evaluation, style in marked:
            self.ax_.scatter(
                [evaluation.cost],
                [evaluation.accuracy],
                label=plain(text),
                edgecolors=INK,
                zorder=3,
                clip_on=False,
                **style,
            )
        if marked:
            self.ax_.legend(
                loc="lower left",
                bbox_to_anchor=(0, 1.02),  # above the axes, because inside it could hide points
                frameon=False,
                borderaxespad=0,
                borderpad=0.3,
                markerscale=0.8,
                fontsize="small",
            )

    def _near_zero(self) -> dict[str, float]:
        """Return up to which cost the axis is linear: few that are not free lie below."""
        paid = self.cost[self.cost > 0]
        least = np.quantile(paid, _FEW) if len(paid) else 1.0
        return {"linthresh": 10.0 ** np.ceil(np.log10(least)), "linscale": 0.5}

    def _scale(self) -> str:
        marked = [reference.cost for reference in self.references.values()]
        if np.median(self.cost) >= _SQUEEZED * max(self.cost.max(), *marked, 0.0):
            return "linear"
        return "log" if self.cost.min() > 0 else "symlog"
