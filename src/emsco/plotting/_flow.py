"""The flow of rows through the stages: how many leave at each stage, and what they paid."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from emsco.core.costs import Costs
from emsco.core.decisions import Decisions, kind_of
from emsco.core.evaluate import evaluate
from emsco.core.evaluation import Evaluation
from emsco.core.expense import ErrorCost, Expense, error_cost_of, expense_of
from emsco.exceptions import DecisionsError, quoted
from emsco.plotting._style import (
    BLUE,
    INK,
    LINE,
    PALE,
    RED,
    axes,
    class_lines,
    coverage_lines,
    money,
    named,
    plain,
)

_NODE = 0.035  # half the width of a stage, in units of the distance between stages
_MOST_NAMED = 6  # most sources named per stage
_MOST_TOLD = 3  # most classes named per exit, largest share first
_WIDTH = 22  # letters that fit between two stages


@dataclass(frozen=True)
class Exit:
    """The rows that leave at a stage in one way."""

    stage: int
    accepted: bool
    rows: int
    cost: float  # mean cost per row
    reasons: tuple[str, ...] = ()
    classes: Mapping[Any, float] = field(default_factory=dict)  # the share of each true class

    @property
    def sentence(self) -> str:
        """A description of how and where they leave."""
        if self.accepted:
            return f"accepted at stage {self.stage}"
        return f"rejected at stage {self.stage}: {', '.join(self.reasons)}"


class FlowDisplay:
    """The flow of decided rows through the stages of a cascade.

    The width of a band is proportional to its number of rows. Stages are drawn from left to right;
    at each stage accepted rows leave upwards and the others go on. What is left at the end is
    rejected. If the true labels are known, every exit shows the share of each class that takes it.
    Create it with `from_decisions`.

    Parameters
    ----------
    exits : sequence of Exit
        The rows that leave at each stage, accepted before rejected.
    stages : sequence of sequence of str
        The sources that each stage buys.
    costs : Costs
        Their prices.
    evaluation : Evaluation, default=None
        The decisions compared with the truth, if that is known.
    error_cost : float or mapping of label to float, default=None
        The price of an error, if the choice was made by loss.

    Attributes
    ----------
    figure_, ax_ : matplotlib Figure and Axes
        The figure and the axes drawn on.
    bands_ : list of matplotlib PolyCollection
        The band of each exit, in the order of `exits`.
    texts_ : list of matplotlib Text
        The text of each exit, in the order of `exits`.

    Examples
    --------
    >>> from emsco import CascadeClassifier, StageDesign
    >>> from emsco.datasets import make_costly_classification
    >>> from emsco.plotting import FlowDisplay
    >>> X, y, costs = make_costly_classification(400, n_sources=2, random_state=0)
    >>> cascade = CascadeClassifier(design=StageDesign([0, 1]), costs=costs).fit(X, y)
    >>> display = FlowDisplay.from_decisions(cascade.decide(X), cascade)
    >>> sum(way.rows for way in display.exits)
    400
    """

    def __init__(
        self,
        exits: Sequence[Exit],
        *,
        stages: Sequence[Sequence[str]],
        costs: Costs,
        evaluation: Evaluation | None = None,
        error_cost: ErrorCost = None,
    ) -> None:
        self.exits = list(exits)
        self.stages = [tuple(stage) for stage in stages]
        self.costs = costs
        self.evaluation = evaluation
        self.error_cost = error_cost

    @classmethod
    def from_decisions(
        cls, decisions: Decisions, cascade: Any, *, y: ArrayLike | None = None, ax: Any = None
    ) -> Self:
        """Draw the decisions of a cascade.

        Parameters
        ----------
        decisions : Decisions
            The result of `cascade.decide`.
        cascade : CascadeClassifier, or CascadeSearchCV
            The fitted cascade; for a search, the chosen one is used.
        y : array, default=None
            The true label of each row. If given, figures per class are shown.
        ax : matplotlib Axes, default=None
            The axes to draw on. None: a new figure.
        """
        check_is_fitted(cascade)
        choice = getattr(cascade, "choice_", None)
        error_cost = None if choice is None else error_cost_of(choice.bounds)
        cascade = getattr(cascade, "best_cascade_", cascade)
        if not len(decisions):
            raise DecisionsError("A flow needs at least one decided row, got none.")
        last = int(decisions.exit_stage.max())
        if last >= len(cascade.stages_):
            raise DecisionsError(
                f"A row left at stage {last}, but the cascade has {len(cascade.stages_)} stages; "
                "pass the cascade that made these decisions."
            )
        evaluation = None if y is None else evaluate(decisions, y)
        exits = []
        for stage in range(len(cascade.stages_)):
            here = decisions.exit_stage == stage
            for accepted in (True, False):
                rows = here & (decisions.accepted == accepted)
                # An empty exit is shown too if rows could leave there.
                if rows.any() or accepted:
                    exits.append(_exit(decisions, stage, accepted, rows, y))
        return cls(
            exits,
            stages=cascade.stages_,
            costs=cascade.costs_,
            evaluation=evaluation,
            error_cost=error_cost,
        ).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the plot.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            The axes to draw on. None: a new figure.
        """
        n_stages = len(self.stages)
        # The text below the stages must not take room from the bands.
        below = max(len(self._bought(stage).splitlines()) for stage in range(n_stages))
        title = self._title()
        n_lines = max(self._exit_text(way).count("\n") for way in self.exits)
        height = max(4.6, 2.0 + (0.1 + 0.4 * n_lines) * len(self.exits))
        height += 0.2 * max(0, below - 3) + LINE * title.count("\n")
        self.figure_, self.ax_ = axes(ax, 4.6 + 1.5 * n_stages, height)
        total = sum(way.rows for way in self.exits)
        shares = [way.rows / total for way in self.exits]
        tops = _tops(shares, 0.9 / len(shares))
        end = n_stages - 0.35
        self.bands_: list[Any] = []
        self.texts_: list[Any] = []
        nodes = [self._node(stage, shares, tops) for stage in range(n_stages)]
        for stage, (top, height) in enumerate(nodes):
            at = top
            for number, way in enumerate(self.exits):
                if way.stage != stage:
                    continue
                self._leave(number, stage, at, tops[number], shares[number], end)
                at -= shares[number]
            if stage + 1 < n_stages and nodes[stage + 1][1]:
                next_top, next_height = nodes[stage + 1]
                across = stage + _NODE, stage + 1 - _NODE
                self._band(across, (at, next_top), next_height, color=PALE, linewidth=0)
            self.ax_.fill_between(
                [stage - _NODE, stage + _NODE], top, top - height, color=INK, linewidth=0, zorder=3
            )
        self._annotate(title, end)
        return self

    def _node(self, stage: int, shares: list[float], tops: list[float]) -> tuple[float, float]:
        """Return the top and the height of a stage, centred on the exits of its rows."""
        later = [i for i, way in enumerate(self.exits) if way.stage >= stage]
        height = sum(shares[i] for i in later)
        upper, lower = tops[later[0]], tops[later[-1]] - shares[later[-1]]
        return (upper + lower + height) / 2, height

    def _leave(
        self, number: int, stage: int, at: float, to: float, height: float, end: float
    ) -> None:
        """Draw the band of one exit, from its stage to the right edge, and its text there."""
        way = self.exits[number]
        look = (
            {"color": BLUE, "alpha": 0.75, "linewidth": 0}
            if way.accepted
            # Also hatched, for print without colour.
            else {"facecolor": "#F6D5BF", "edgecolor": RED, "hatch": "////", "linewidth": 0.5}
        )
        turn = min(stage + 1 - _NODE, end)
        self.bands_.append(self._band((stage + _NODE, turn), (at, to), height, end=end, **look))
        text = self.ax_.text(
            end + 0.05,
            to - height / 2,
            plain(self._exit_text(way)),
            va="center",
            color=INK,
            linespacing=1.3,
        )
        self.texts_.append(text)

    def _exit_text(self, way: Exit) -> str:
        """Return the text of an exit: its rows, their cost, and its share of each class."""
        paid = money(way.cost, self.costs.unit)
        total = sum(each.rows for each in self.exits)
        rows = f"{way.rows:,} rows ({way.rows / total:.1%})"
        lines = [way.sentence, f"{rows}, paid {paid} each" if way.rows else rows]
        if way.rows and way.classes:
            most = sorted(way.classes.items(), key=lambda known: -known[1])[:_MOST_TOLD]
            lines.append(", ".join(f"{share:.1%} of {named(label, 12)}" for label, share in most))
        return "\n".join(lines)

    def _band(
        self,
        across: tuple[float, float],
        tops: tuple[float, float],
        height: float,
        *,
        end: float | None = None,
        **look: Any,
    ) -> Any:
        """Draw a band that bends from one height to another, then runs straight to `end`."""
        bend = np.linspace(0, 1, 40)
        x = across[0] + (across[1] - across[0]) * bend
        top = tops[0] + (tops[1] - tops[0]) * (3 * bend**2 - 2 * bend**3)
        if end is not None:
            x, top = np.append(x, end), np.append(top, tops[1])
        return self.ax_.fill_between(x, top, top - height, **look)

    def _title(self) -> str:
        """Return the title: rows, coverage and cost, and each class if the truth is known."""
        total = sum(way.rows for way in self.exits)
        accepted = sum(way.rows for way in self.exits if way.accepted)
        paid = sum(way.rows * way.cost for way in self.exits)
        counted = Evaluation(total, accepted, 0, paid)
        expense = Expense(counted.cost)
        if self.evaluation is not None or self.error_cost is None:  # else errors are not known
            expense = expense_of(self.evaluation or counted, self.costs.review, self.error_cost)
        cost = expense.text(self.costs.unit) or f"cost {money(counted.cost, self.costs.unit)}"
        evaluation, first = self.evaluation, f"{total:,} rows, coverage {counted.coverage:.3f}"
        if evaluation is not None:
            first += f", accuracy {evaluation.accuracy:.3f}"
        by_class = [] if evaluation is None else class_lines(evaluation, 1.0)
        return "\n".join([first, cost, *coverage_lines(counted), *by_class])

    def _annotate(self, title: str, end: float) -> None:
        n_stages = len(self.stages)
        first, *others = title.splitlines()
        self.ax_.set_title(plain(first), loc="left", pad=6 + 72 * LINE * len(others))
        if others:
            self.ax_.set_ylim(top=0.0)  # keep the text of the first exit below
            self.ax_.annotate(
                plain("\n".join(others)),
                (0, 1),
                xycoords="axes fraction",
                xytext=(0, 4),
                textcoords="offset points",
                fontsize="small",
                color=INK,
                va="bottom",
            )
        self.ax_.set_xticks(range(n_stages), [self._bought(i) for i in range(n_stages)])
        self.ax_.tick_params(axis="x", length=0)
        self.ax_.set_yticks([])
        self.ax_.set_xlim(-4 * _NODE, end)
        self.ax_.spines[:].set_visible(False)

    def _bought(self, stage: int) -> str:
        """Return the text under a stage: how many rows reach it and what they buy."""
        rows = sum(way.rows for way in self.exits if way.stage >= stage)
        paid = [source for earlier in self.stages[:stage] for source in earlier]
        price = self.costs.of(self.stages[stage], paid=paid)
        names = [_cut(str(name)) for name in self.stages[stage]]
        bought = ", ".join(names[:_MOST_NAMED])
        if len(names) > _MOST_NAMED:
            bought += f" and {len(names) - _MOST_NAMED} more"
        paid_here = money(price, self.costs.unit)
        parts = [f"stage {stage}: {rows:,} rows", f"buy {bought}", f"for {paid_here}"]
        return plain("\n".join(line for part in parts for line in textwrap.wrap(part, _WIDTH)))


def _exit(
    decisions: Decisions,
    stage: int,
    accepted: bool,
    rows: NDArray[np.bool_],
    y: ArrayLike | None,
) -> Exit:
    reasons: tuple[str, ...] = ()
    if not accepted:
        found = sorted({kind_of(str(reason)) for reason in decisions.reason[rows]})
        reasons = tuple(found) if len(found) <= 2 else (quoted(found, most=1),)
    cost = float(decisions.cost[rows].mean()) if rows.any() else 0.0
    truth = np.asarray([] if y is None else y)
    classes = {c: float(rows[truth == c].mean()) for c in np.unique(truth).tolist()}
    return Exit(stage, accepted, int(rows.sum()), cost, reasons, classes)


def _cut(name: str) -> str:
    return name if len(name) <= _WIDTH else f"{name[: _WIDTH - 3]}..."


def _tops(shares: list[float], least: float) -> list[float]:
    """Place exits one below the other, with room for their texts; return the top of each band."""
    tops, at = [], 0.0
    for share in shares:
        room = max(share + 0.06, least)
        tops.append(at - (room - share) / 2)
        at -= room
    return tops
