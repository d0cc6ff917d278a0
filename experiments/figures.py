"""The figures of the documentation that are drawn from results: nothing is measured here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from emsco.plotting._style import BLUE, INK, PALE, RED, bare
from experiments.paper.landscape import SIDE
from experiments.peers.method import Base
from experiments.peers.methods import METHODS, OURS
from experiments.peers.tables import AS_IT_COMES, COUNTED, SUMMARY
from experiments.problems import PROBLEMS
from experiments.results import load

IMAGES = Path(__file__).parent.parent / "docs" / "images"
COLOURS = {2: BLUE, 3: RED, 4: INK}  # by the most stages


def run(*, small: bool, only: list[str] | None = None) -> str:  # noqa: ARG001  # all take seconds
    """Draw every figure, or `only` some, into the documentation."""
    figures = {
        "paper-optimal": optimal_found,
        "paper-mutation": mutation,
        "paper-landscape": landscape,
        "peers": peers,
    }
    drawn = []
    for name, draw in figures.items():
        if not only or name in only:
            path = IMAGES / f"{name}.png"
            draw().savefig(path, dpi=110)
            drawn.append(f"{path.name} drawn")
    return "\n".join(drawn)


def _pyplot() -> Any:
    """Give pyplot, drawing into files only."""
    mpl.use("Agg")
    from matplotlib import pyplot

    return pyplot


def optimal_found() -> Any:
    """Draw the mean number of optimal evaluations in each generation, with 95% margins."""
    pyplot = _pyplot()
    rows = load("paper_optimal_found")
    names = list(dict.fromkeys(row["data"] for row in rows))
    figure, axes = pyplot.subplots(1, len(names), figsize=(10, 3.6), layout="constrained")
    for ax, name in zip(axes, names, strict=True):
        for stages, colour in COLOURS.items():
            for elite, line in (("evaluations", "-"), ("designs", "--")):
                seen = [
                    row
                    for row in rows
                    if (row["data"], row["stages"], row["elite"]) == (name, stages, elite)
                ]
                generation, mean, margin = (
                    np.array([row[column] for row in seen])
                    for column in ("generation", "evaluations", "margin")
                )
                ax.plot(generation, mean, line, color=colour, linewidth=1.6)
                ax.fill_between(
                    generation, mean - margin, mean + margin, color=colour, alpha=0.15, linewidth=0
                )
            ax.axhline(seen[0]["of"], color=colour, linewidth=0.8, linestyle=":")
        ax.set(title=name, xlabel="generation", xlim=(0, 150), ylim=(0, None))
        bare(ax)
    axes[0].set_ylabel("globally optimal evaluations")
    sizes = [(colour, "-", f"up to {most} stages") for most, colour in COLOURS.items()]
    kinds = [
        ("grey", "-", "elite: one design an evaluation"),
        ("grey", "--", "elite: designs, as in the paper"),
        ("grey", ":", "all there are"),
    ]
    lines = [  # a legend is filled column by column
        pyplot.Line2D([], [], color=colour, linestyle=style, label=label)
        for pair in zip(sizes, kinds, strict=True)
        for colour, style, label in pair
    ]
    figure.legend(handles=lines, loc="outside lower center", ncols=3, frameon=False)
    return figure


def mutation() -> Any:
    """Draw the probability that a mutation opens a stage, over the paper's coordinates."""
    pyplot = _pyplot()
    rows = load("paper_mutation")
    figure, ax = pyplot.subplots(figsize=(5.4, 3.6), layout="constrained")
    for stages, colour in COLOURS.items():
        seen = [row for row in rows if row["stages"] == stages]
        beta = [row["beta"] for row in seen]
        ax.plot(beta[::15], [row["paper"] for row in seen[::15]], "o", color=PALE, markersize=7)
        ax.plot(beta, [row["ours"] for row in seen], color=colour, linewidth=1.6)
        ax.annotate(
            f"{stages} stages",
            (beta[-1], seen[-1]["ours"]),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            color=colour,
        )
    ax.plot([], [], "o", color=PALE, markersize=7, label="the paper's coordinates, every 15th")
    ax.legend(frameon=False)
    ax.set(xlabel="beta", ylabel="probability of a new stage", xlim=(1, 4), ylim=(0, 0.45))
    bare(ax)
    return figure


def landscape() -> Any:
    """Draw the mean cost of designs by coverage and accuracy, and the exact front upon it."""
    pyplot = _pyplot()
    rows = load("paper_landscape")
    drawn, front = (
        np.array([list(row.values())[1:] for row in rows if row["kind"] == kind]).T
        for kind in ("drawn", "front")
    )
    figure, ax = pyplot.subplots(figsize=(7.2, 4.6), layout="constrained")
    shades = mpl.colors.LogNorm(front[2].min(), drawn[2].max())
    across, up = (np.rint(drawn[i] / SIDE).astype(int) for i in (0, 1))
    left, low = across.min(), up.min()
    cost = np.full((up.max() - low + 1, across.max() - left + 1), np.nan)
    cost[up - low, across - left] = drawn[2]
    columns, rows_up = np.arange(cost.shape[1]) + left, np.arange(cost.shape[0]) + low
    squares = ax.pcolormesh(columns * SIDE, rows_up * SIDE, cost, norm=shades, alpha=0.75)
    ax.scatter(*front[:2], c=front[2], s=42, norm=shades, edgecolor=RED, linewidth=1.2)
    ax.scatter([], [], s=42, facecolor="none", edgecolor=RED, linewidth=1.2, label="exact front")
    ax.scatter([], [], s=42, marker="s", color="grey", label="mean of designs drawn")
    ax.legend(frameon=False, loc="lower left")
    ticks = [tick for tick in (250, 500, 1000, 2000, 4000) if tick > front[2].min()]
    bar = figure.colorbar(squares, label="cost", format="{x:,.0f}", ticks=ticks)
    bar.ax.minorticks_off()
    ax.set(xlabel="coverage", ylabel="accuracy")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(mpl.ticker.MultipleLocator(0.05))
        axis.set_major_formatter(mpl.ticker.PercentFormatter(1, decimals=0))
    bare(ax)
    return figure


def peers() -> Any:
    """Draw the price that each method pays on each problem, and what it gives up in accuracy."""
    pyplot = _pyplot()
    found = {(row["problem"], row["method"]): row for row in load(SUMMARY)}
    places = {problem: -place for place, problem in enumerate(PROBLEMS)}
    bases: dict[Base, str] = {"linear": "logistic regression", "trees": "boosted trees"}
    figure, axes = pyplot.subplots(2, 2, figsize=(9.6, 8.4), sharey=True, layout="constrained")
    for (price, accuracy), (base, title) in zip(axes, bases.items(), strict=True):
        ours, everything = OURS[base], f"all-{base}"
        others = [name for name, (kind, _) in METHODS.items() if kind == base and name != ours]
        looks: list[tuple[str, str, dict[str, Any]]] = [
            (ours, AS_IT_COMES, {"marker": "*", "s": 110, "color": RED, "zorder": 3}),
            (ours, COUNTED, {"marker": "*", "s": 80, "edgecolor": RED, "facecolor": "white"}),
        ]
        for method, marker in zip(others, "|s^Dvo<X", strict=False):
            colours = {"color": INK} if marker == "|" else {"edgecolor": BLUE, "facecolor": "none"}
            looks.append((method, COUNTED, {"marker": marker, "s": 44, **colours}))
        for method, kind, look in looks:
            its = {
                problem: found[problem, method]
                for problem in places
                if (problem, method) in found
                and found[problem, method][f"{kind}price"] != ""
                # means over other splits do not compare
                and found[problem, method]["splits"] == found[problem, ours]["splits"]
            }
            up = [places[problem] for problem in its]
            label = f"{method}, as counted" if method == ours and kind == COUNTED else method
            paid = [100 * row[f"{kind}price"] for row in its.values()]
            gained = [
                100 * (row[f"{kind}accuracy"] - found[problem, everything]["accuracy"])
                for problem, row in its.items()
            ]
            if its:
                price.scatter(paid, up, label=label, **look)
                accuracy.scatter(gained, up, **look)
        price.set(xlabel="price, % of all sources", xlim=(0, 103), title=title)
        accuracy.set(xlabel="accuracy, points above all sources at once")
        price.set_yticks(list(places.values()), list(places))
        handles = price.get_legend_handles_labels()
        accuracy.legend(*handles, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        for ax in (price, accuracy):
            ax.grid(axis="y", color=PALE, linewidth=0.6)
            ax.set_axisbelow(True)
            bare(ax)
    return figure
