"""The figures of the documentation that are drawn from results: nothing is measured here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from emsco.plotting._style import BLUE, INK, PALE, RED, bare
from experiments.results import load

IMAGES = Path(__file__).parent.parent / "docs" / "images"
COLOURS = {2: BLUE, 3: RED, 4: INK}  # by the most stages


def run(*, small: bool, only: list[str] | None = None) -> str:  # noqa: ARG001  # all take seconds
    """Draw every figure, or `only` some, into the documentation."""
    figures = {"optimal": optimal_found, "mutation": mutation, "landscape": landscape}
    drawn = []
    for name, draw in figures.items():
        if not only or name in only:
            path = IMAGES / f"paper-{name}.png"
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
    lines = [
        *(pyplot.Line2D([], [], color=c, label=f"up to {n} stages") for n, c in COLOURS.items()),
        pyplot.Line2D([], [], color="grey", label="elite: one design an evaluation"),
        pyplot.Line2D(
            [], [], color="grey", linestyle="--", label="elite: designs, as in the paper"
        ),
        pyplot.Line2D([], [], color="grey", linestyle=":", linewidth=0.8, label="all there are"),
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
        middle = len(seen) // 3
        ax.annotate(
            f"{stages} stages",
            (beta[middle], seen[middle]["ours"]),
            xytext=(6, 6),
            textcoords="offset points",
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
    squares = ax.scatter(*drawn[:2], c=drawn[2], marker="s", s=26, norm=shades, linewidth=0)
    ax.scatter(*front[:2], c=front[2], s=46, norm=shades, edgecolor=RED, linewidth=1.3)
    ax.scatter([], [], s=46, facecolor="none", edgecolor=RED, linewidth=1.3, label="exact front")
    ax.scatter([], [], s=26, marker="s", color="grey", label="mean of designs drawn")
    ax.legend(frameon=False, loc="lower left")
    bar = figure.colorbar(squares, label="cost", format="{x:,.0f}")
    bar.set_ticks([100, 200, 500, 1000, 2000, 4000])
    bar.ax.minorticks_off()
    ax.set(xlabel="coverage", ylabel="accuracy")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(mpl.ticker.PercentFormatter(1, decimals=0))
    bare(ax)
    return figure
