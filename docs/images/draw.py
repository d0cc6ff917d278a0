"""Draw the diagrams of the documentation as SVG: `python docs/images/draw.py`.

Figures in them are computed here, from the package, from stored results and from the history of
benchmarks; a test draws them again.
"""

from __future__ import annotations

import ast
import csv
import math
import sys
from collections.abc import Collection
from itertools import combinations, pairwise
from pathlib import Path

from emsco import CascadeClassifier, StageDesign, evaluate

HERE = Path(__file__).parent
HISTORY = HERE.parents[1] / "benchmarks" / "history.csv"
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from drawing import BLUE, GREY, INK, LINE, ORANGE, PAPER, SKY, SOFT, WIDTH, Drawing  # noqa: E402
from thumbnails import THUMBNAILS  # noqa: E402

from experiments import pages  # noqa: E402
from experiments.results import load  # noqa: E402


def why() -> str:
    """Draw how fresh rows of the first pages leave a cascade that other rows chose."""
    (row,) = (row for row in load(pages.NAME) if row["case"] == "phishing")
    case = pages.CASES["phishing"]
    X, y, costs = case.load()
    parts = pages.divide(case, y, row["split"])
    stages = [stage.split() for stage in row["design"].split(" | ")]
    cascade = CascadeClassifier(
        design=StageDesign.from_stages(stages, costs.names),
        costs=costs,
        threshold=ast.literal_eval(row["threshold"]),
    ).fit(X.iloc[parts.searched], y[parts.searched])
    decisions = cascade.decide(X.iloc[parts.fresh])
    counted = evaluate(decisions, y[parts.fresh])
    n_rows, here = len(decisions), len(decisions)
    left, wide, high = 20.0, 440.0, 26.0
    end = 96.0 + 80 * len(stages)  # of the last stage
    d = Drawing(WIDTH, int(end) + 148, "Web pages on their way through a cascade", 1.25)
    d.text(left, 34, f"Is it phishing? {n_rows:,} pages, in stages", 18, bold=True)
    told = "Each bar holds the pages that come to a stage; the blue ones get an answer there."
    d.paragraph(left, 57, told, 14, SOFT)
    x, paid = left, 0.0
    for i, stage in enumerate(stages):
        y0 = 96.0 + 80 * i
        names = ", ".join(name.replace("_", " ") for name in stage)
        price = costs.of([source for bought in stages[: i + 1] for source in bought])
        answered = int((decisions.accepted & (decisions.exit_stage == i)).sum())
        part = wide * answered / n_rows
        d.text(left, y0 + 16, f"Stage {i} buys {names}", 15, bold=True)
        more = f"{price - paid:g}{' more' * (i > 0)}"
        d.text(left, y0 + 35, f"for {more}: {answered:,} of {here:,} answered", 14, SOFT)
        d.box(x, y0 + 42, part, high, BLUE)
        d.box(x + part, y0 + 42, left + wide - x - part, high, GREY)
        x, paid, here = x + part, price, here - answered
    d.box(x, end - 38, left + wide - x, high, ORANGE)
    d.text(left, end + 16, f"{here:,} rejected: a person looks at them", 15, ORANGE, bold=True)
    d.text(left, end + 42, f"{counted.cost:.1f} a page instead of {costs.total:.0f};", bold=True)
    right = f"right on {counted.accuracy:.1%} of the {counted.coverage:.1%} answered."
    d.text(left, end + 62, right, bold=True)
    told = "Rows were split before the search: none of these pages helped to choose the cascade. "
    d.paragraph(left, end + 90, told + "The prices are illustrative.", 13, SOFT, letters=64)
    return d.svg()


# Outcomes of a small, made-up table: for each source set, what happens to ten rows at one
# threshold. R: accepted and right; W: accepted and wrong; a point: rejected.
OUTCOMES = {
    "a": "R..W..R...",
    "b": ".R.....RW.",
    "c": "RR...R..R.",
    "ab": "RR.WR.RR..",
    "ac": "RRR..RR.R.",
    "bc": "RR.R.RRRR.",
    "abc": "RRRRRRRRW.",
}
CHAIN = ("a", "ab", "abc")


def outcome_table() -> str:
    """Draw a table of outcomes, and below it a design as a chain of its lines."""
    d = Drawing(WIDTH, 760, "The table of outcomes, and one design read off it")
    cell, x0, y0 = 34, 110, 62
    looks = {"R": (BLUE, "✓"), "W": (ORANGE, "✗"), ".": (GREY, "")}

    def line(name: str, y: float, rows: Collection[int], color: str) -> None:
        d.text(98, y + 20, "{" + ", ".join(name) + "}", 15, color, "end", bold=color == BLUE)
        for row, outcome in enumerate(OUTCOMES[name]):
            fill, mark = looks[outcome]
            here = row in rows
            d.box(x0 + cell * row, y, cell - 3, 27, *((fill,) if here else (PAPER, GREY)))
            if here and mark:
                d.text(x0 + cell * (row + 0.5) - 1.5, y + 19, mark, 14, PAPER, "middle", bold=True)

    d.text(20, 34, "The table: a line per source set", 17, bold=True)
    for row in range(10):
        d.text(x0 + cell * (row + 0.5) - 1.5, y0, str(row), 13, SOFT, "middle")
    for i, name in enumerate(OUTCOMES):
        line(name, y0 + 10 + i * 32, range(10), BLUE if name in CHAIN else INK)
    told = ((BLUE, "accepted, right"), (ORANGE, "accepted, wrong"), (GREY, "not confident"))
    for i, (fill, words) in enumerate(told):
        d.box(20 + 152 * i, 308, 14, 14, fill)
        d.text(40 + 152 * i, 320, words, 13, SOFT)
    d.text(20, 374, "A design: buy a, then b, then c", 17, bold=True)
    undecided, gone = set(range(10)), {}
    for i, name in enumerate(CHAIN):
        y = 392 + i * 68
        line(name, y, undecided, BLUE)
        gone |= {row: OUTCOMES[name][row] for row in undecided if OUTCOMES[name][row] != "."}
        undecided -= gone.keys()
        told_here = f"{len(undecided)} undecided, go on" if i < 2 else f"{len(undecided)} rejected"
        d.text(x0, y + 45, told_here, 13, SOFT)
        if i < 2:
            d.arrow(72, y + 30, 72, y + 64)
    accepted, wrong = len(gone), list(gone.values()).count("W")
    figures = f"coverage {accepted}/10, accuracy {accepted - wrong}/{accepted}"
    d.text(x0, 606, figures, 15, bold=True)
    words = (
        "A stage's classifier depends on the set of sources bought so far, not on their order. So "
        "every design is a chain of lines of the same table, and evaluating it takes a few "
        "operations on bits: no model is fitted."
    )
    y = d.paragraph(20, 644, words, 15, letters=58)
    d.text(20, y + 4, "A made-up table of ten rows, three sources and one threshold.", 13, SOFT)
    return d.svg()


def exact_search() -> str:
    """Draw the lattice of source sets, a chain in it, and what is kept for each."""
    d = Drawing(WIDTH, 790, "The exact search walks chains of source sets")
    d.text(20, 34, "Every design is a path upwards", 17, bold=True)
    places = {}
    for level in range(5):
        sets = ["".join(s) for s in combinations("abcd", level)]
        for i, name in enumerate(sets):
            places[name] = (240 + (i - (len(sets) - 1) / 2) * 76, 350 - level * 70)
    path = ["", "b", "abc", "abcd"]
    for low, (x, y) in places.items():
        for high, (to_x, to_y) in places.items():
            if len(high) == len(low) + 1 and set(low) < set(high):
                d.line((x, y), (to_x, to_y), color="#d5dae1", width=1)
    for low, high in pairwise(path):
        (x, y), (to_x, to_y) = places[low], places[high]
        d.line((x, y), (to_x, to_y), color=BLUE, width=4)
    for name, (x, y) in places.items():
        on = name in path
        d.box(x - 35, y - 14, 70, 28, BLUE if on else GREY)
        d.text(x, y + 5, name or "nothing", 14, PAPER if on else INK, "middle", bold=on)
    d.text(20, 420, "Every path falls into a cell", 17, bold=True)
    words = "by two counts: rows accepted, and wrong ones among them. A cell keeps the lowest cost:"
    d.paragraph(20, 446, words, letters=58)
    x0, y0, cell = 110, 516, 40
    d.text(x0 + 3 * cell, y0 - 10, "rows accepted", 14, SOFT, "middle")
    d.text(20, y0 + 86, "wrong", 14, SOFT)
    kept = {
        (0, 1): "1",
        (0, 2): "4",
        (1, 2): "3",
        (1, 3): "5",
        (0, 3): "9",
        (2, 4): "6",
        (1, 4): "8",
    }
    for wrong in range(4):
        y = y0 + cell * wrong
        d.text(x0 - 10, y + 24, str(wrong), 14, SOFT, "end")
        for accepted in range(6):
            x, price = x0 + cell * accepted, kept.get((wrong, accepted))
            d.box(x, y, cell - 3, cell - 3, SKY if price else GREY)
            if price:
                d.text(x + 18.5, y + 24, price, 15, BLUE, "middle", bold=True)
    more = (
        "A step along a path is an AND of bits and two counts. In the end, the cells that no other "
        "cell beats are the exact front: one small table, whatever the number of designs."
    )
    d.paragraph(20, 708, more, 15, letters=58)
    return d.svg()


def fits() -> str:
    """Draw how many designs and source sets there are, by the number of sources."""
    d = Drawing(WIDTH, 466, "Designs and source sets by the number of sources", 1.25)
    d.text(20, 34, "Far more designs than source sets", 17, bold=True)
    told = "Up to four stages, sources may be left out. Logarithmic scale."
    d.text(20, 57, told, 14, SOFT)
    numbers, x0, wide, floor = (4, 6, 8, 10, 12, 14), 110, 280, 400
    most = math.log10(StageDesign.count(numbers[-1], 4, unused=True))
    for power in range(0, 10, 3):
        x = x0 + wide * power / most
        d.line((x, 70), (x, floor), color=GREY)
        named = {0: "1", 3: "1,000", 6: "10^6", 9: "10^9"}[power]
        d.text(x, floor + 18, named, 13, SOFT, "middle")
    for i, n in enumerate(numbers):
        y = 78 + i * 54
        d.text(x0 - 12, y + 26, f"{n} sources", 14, INK, "end")
        counts = ((StageDesign.count(n, 4, unused=True), GREY), (2**n - 1, BLUE))
        for j, (count, fill) in enumerate(counts):
            long, top = wide * math.log10(count) / most, y + 21 * j
            d.box(x0, top, long, 19, fill, LINE if fill == GREY else "none")
            told = f"{count:,}" if count < 100_000 else f"{count / 1e6:,.1f} M"
            d.text(x0 + long + 6, top + 14, told, 13)
    d.box(20, 438, 14, 14, GREY, LINE)
    d.text(42, 450, "designs: counted on bits", 14, SOFT)
    d.box(250, 438, 14, 14, BLUE)
    d.text(272, 450, "source sets: fitted", 14, SOFT)
    return d.svg()


def releases() -> str:
    """Draw the ratios of every release on one logarithmic axis; the newest is the large point."""
    lines = HISTORY.read_text(encoding="utf-8").splitlines()
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    names = [name for name in rows[0] if name not in ("version", "date")]
    d = Drawing(WIDTH, 132 + 34 * len(names), "Ratios measured for every release", 1.25)
    d.text(20, 34, "How many times the speed of its reference", 17, bold=True)
    told = f"The large point is {rows[-1]['version']}, small ones are earlier releases. "
    d.paragraph(20, 57, told + "Logarithmic scale.", 14, SOFT)
    top, floor = 92, 96 + 34 * len(names)

    def place(ratio: float) -> float:
        return 172 + 61 * (min(max(math.log10(ratio), -1.3), 2.5) + 1.3)

    for ratio in (0.1, 1, 10, 100):
        strong = ratio == 1
        color, width = (SOFT, 1.5) if strong else (GREY, 1.0)
        d.line((place(ratio), top), (place(ratio), floor), color=color, width=width)
        words = "as fast" if strong else f"{ratio:g}"
        d.text(place(ratio), floor + 20, words, 13, SOFT, "middle")
    for i, name in enumerate(names):
        y = top + 20 + 34 * i
        d.text(20, y + 5, name, 14)
        for row in rows:
            newest = row is rows[-1]
            d.dot(place(float(row[name])), y, 7 if newest else 4, BLUE if newest else LINE)
        d.text(464, y + 5, f"{float(rows[-1][name]):g}", 14, BLUE, "end", bold=True)
    return d.svg()


DRAWINGS = {
    "why.svg": why,
    "outcome-table.svg": outcome_table,
    "exact-search.svg": exact_search,
    "fits.svg": fits,
    "releases.svg": releases,
    **THUMBNAILS,
}


def main() -> None:
    """Draw them all."""
    for name, draw in DRAWINGS.items():
        (HERE / name).write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
