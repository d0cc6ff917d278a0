"""Draw the diagrams of the documentation as SVG: `python docs/images/draw.py`.

Figures in them are computed here, from the package, from stored results and from the history of
benchmarks; a test draws them again.
"""

from __future__ import annotations

import ast
import csv
import math
import sys
from itertools import combinations, pairwise
from pathlib import Path

from emsco import CascadeClassifier, StageDesign, evaluate

HERE = Path(__file__).parent
HISTORY = HERE.parents[1] / "benchmarks" / "history.csv"
sys.path.insert(0, str(HERE.parents[1]))

from experiments import pages  # noqa: E402
from experiments.results import load  # noqa: E402

INK, SOFT, LINE, PAPER = "#1f2937", "#5b6472", "#9aa3af", "#ffffff"
BLUE, SKY, ORANGE, SAND, GREY = "#1d6fb8", "#d6e8f7", "#c2570c", "#fce5d0", "#eceff3"


class Drawing:
    """An SVG that grows element by element."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img" '
            'font-family="system-ui, Segoe UI, Helvetica, Arial, sans-serif">',
            f"<title>{title}</title>",
            f'<rect width="{width}" height="{height}" rx="10" fill="{PAPER}"/>',
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            f'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="{SOFT}"/></marker>'
            "</defs>",
        ]

    def box(self, x: float, y: float, w: float, h: float, fill: str, edge: str = "none") -> None:
        """Draw a rectangle."""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="4" fill="{fill}" '
            f'stroke="{edge}"/>'
        )

    def text(
        self, x: float, y: float, words: str, size: int = 15, color: str = INK,
        anchor: str = "start", bold: bool = False,
    ) -> None:  # fmt: skip
        """Write words."""
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{color}" '
            f'text-anchor="{anchor}"{weight}>{words}</text>'
        )

    def line(self, *points: tuple[float, float], color: str = LINE, width: float = 1.5) -> None:
        """Draw a line through points."""
        told = " ".join(f"{x:g},{y:g}" for x, y in points)
        self.parts.append(
            f'<polyline points="{told}" fill="none" stroke="{color}" stroke-width="{width:g}"/>'
        )

    def arrow(self, x: float, y: float, to_x: float, to_y: float) -> None:
        """Draw an arrow."""
        self.parts.append(
            f'<path d="M{x:g} {y:g}L{to_x:g} {to_y:g}" stroke="{SOFT}" stroke-width="1.5" '
            'marker-end="url(#tip)"/>'
        )

    def band(self, x: float, to_x: float, tops: tuple[float, float], h: float, fill: str) -> None:
        """Draw a band of rows that moves from one height to another."""
        (y, to_y), middle = tops, (x + to_x) / 2
        self.parts.append(
            f'<path d="M{x:g} {y:g}C{middle:g} {y:g} {middle:g} {to_y:g} {to_x:g} {to_y:g}'
            f"L{to_x:g} {to_y + h:g}C{middle:g} {to_y + h:g} {middle:g} {y + h:g} {x:g} {y + h:g}z"
            f'" fill="{fill}"/>'
        )

    def svg(self) -> str:
        """Give the whole drawing."""
        return "\n".join([*self.parts, "</svg>", ""])


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
    left, wide, high = 24.0, 592.0, 30.0
    d = Drawing(640, 176 + 86 * len(stages), "Web pages on their way through a cascade")
    d.text(left, 36, f"Is it phishing? {n_rows:,} pages, decided in stages", 18, bold=True)
    d.text(
        left,
        58,
        "Each bar holds the pages that come to a stage; the blue ones get an answer there.",
        14,
        SOFT,
    )
    x, paid = left, 0.0
    for i, stage in enumerate(stages):
        y0 = 74.0 + 86 * i
        names = ", ".join(name.replace("_", " ") for name in stage)
        price = costs.of([source for bought in stages[: i + 1] for source in bought])
        answered = int((decisions.accepted & (decisions.exit_stage == i)).sum())
        part = wide * answered / n_rows
        d.text(left, y0 + 20, f"Stage {i} buys {names}", 15, bold=True)
        more = f"{price - paid:g}{' more' * (i > 0)}"
        d.text(left, y0 + 40, f"for {more}: {answered:,} of {here:,} answered", 14, SOFT)
        d.box(x, y0 + 48, part, high, BLUE)
        d.box(x + part, y0 + 48, left + wide - x - part, high, GREY)
        x, paid, here = x + part, price, here - answered
    y0 = 74.0 + 86 * len(stages)
    d.box(x, y0 - 38, left + wide - x, high, ORANGE)
    d.text(left, y0 + 20, f"{here:,} rejected: a person looks at them", 15, ORANGE, bold=True)
    d.text(
        left, y0 + 46,
        f"{counted.cost:.1f} a page instead of {costs.total:.0f}; right on "
        f"{counted.accuracy:.1%} of the {counted.coverage:.1%} answered.", 15, bold=True,
    )  # fmt: skip
    told = "Rows were split before the search: none of these pages helped to choose the cascade."
    d.text(left, y0 + 70, told, 13, SOFT)
    d.text(left, y0 + 90, "The prices are illustrative.", 13, SOFT)
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
    """Draw a table of outcomes, and a design as a chain of its lines."""
    d = Drawing(880, 470, "The table of outcomes, and one design read off it")
    d.text(24, 38, "The table: a line per source set", 17, bold=True)
    cell, x0, y0 = 30, 110, 66
    for row in range(10):
        d.text(x0 + cell * row + 14, y0, str(row), 12, SOFT, "middle")
    for i, (name, outcomes) in enumerate(OUTCOMES.items()):
        y = y0 + 12 + i * 32
        chosen = name in CHAIN
        label = "{" + ", ".join(name) + "}"
        d.text(96, y + 20, label, 15, BLUE if chosen else INK, "end", bold=chosen)
        for row, outcome in enumerate(outcomes):
            fill, mark = {"R": (BLUE, "✓"), "W": (ORANGE, "✗"), ".": (GREY, "")}[outcome]
            d.box(x0 + cell * row, y, cell - 3, 27, fill)
            d.text(x0 + cell * row + 13.5, y + 19, mark, 14, PAPER, "middle", bold=True)
    for i, (fill, words) in enumerate(
        ((BLUE, "accepted, right"), (ORANGE, "accepted, wrong"), (GREY, "not confident"))
    ):
        d.box(110 + 122 * i, 318, 14, 14, fill)
        d.text(129 + 122 * i, 330, words, 12, SOFT)
    x1 = 496
    d.text(x1, 38, "A design: buy a, then b, then c", 17, bold=True)
    undecided, gone = set(range(10)), {}
    for i, name in enumerate(CHAIN):
        y = y0 + 12 + i * 78
        d.text(x1, y + 20, "{" + ", ".join(name) + "}", 15, BLUE, bold=True)
        for row in range(10):
            here = OUTCOMES[name][row]
            x = x1 + 74 + 30 * row
            if row not in undecided:
                d.box(x, y, 27, 27, PAPER, GREY)
                continue
            fill = {"R": BLUE, "W": ORANGE, ".": GREY}[here]
            d.box(x, y, 27, 27, fill)
            mark = {"R": "✓", "W": "✗", ".": ""}[here]
            d.text(x + 13.5, y + 19, mark, 14, PAPER, "middle", bold=True)
            if here != ".":
                gone[row] = here
        undecided -= gone.keys()
        told = f"{len(undecided)} undecided, go on" if i < 2 else f"{len(undecided)} rejected"
        d.text(x1 + 74, y + 47, told, 13, SOFT)
        if i < 2:
            d.arrow(x1 + 30, y + 32, x1 + 30, y + 70)
    accepted, wrong = len(gone), list(gone.values()).count("W")
    d.text(
        x1, 331,
        f"coverage {accepted}/10, accuracy {accepted - wrong}/{accepted}", 15, bold=True,
    )  # fmt: skip
    d.text(24, 384, "A stage's classifier depends on the set of sources bought so far, not on", 15)
    d.text(24, 406, "their order. So every design is a chain of lines of the same table, and", 15)
    d.text(24, 428, "evaluating it takes a few operations on bits: no model is fitted.", 15)
    d.text(24, 453, "A made-up table of ten rows, three sources and one threshold.", 12, SOFT)
    return d.svg()


def exact_search() -> str:
    """Draw the lattice of source sets, a chain in it, and what is kept for each."""
    d = Drawing(880, 430, "The exact search walks chains of source sets")
    d.text(24, 38, "Every design is a path upwards", 17, bold=True)
    places = {}
    for level in range(5):
        sets = ["".join(s) for s in combinations("abcd", level)]
        for i, name in enumerate(sets):
            places[name] = (262 + (i - (len(sets) - 1) / 2) * 80, 390 - level * 80)
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
        d.box(x - 29, y - 14, 58, 28, BLUE if on else GREY)
        d.text(x, y + 5, name or "nothing", 13, PAPER if on else INK, "middle", bold=on)
    d.text(540, 38, "Every path falls into a cell", 17, bold=True)
    words = (
        "by two counts: rows accepted, and",
        "wrong ones among them. A cell keeps",
        "the lowest cost:",
    )
    for i, told in enumerate(words):
        d.text(540, 72 + 22 * i, told, 15)
    d.text(700, 156, "rows accepted", 13, SOFT, "middle")
    d.text(548, 256, "wrong", 13, SOFT)
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
        d.text(600, 188 + 34 * wrong + 5, str(wrong), 13, SOFT, "end")
        for accepted in range(6):
            price = kept.get((wrong, accepted))
            d.box(608 + 34 * accepted, 171 + 34 * wrong, 31, 31, SKY if price else GREY)
            if price:
                d.text(
                    623.5 + 34 * accepted, 192 + 34 * wrong, price, 14, BLUE, "middle", bold=True
                )
    more = (
        "A step along a path is an AND of bits and two",
        "counts. In the end, the cells that no other",
        "cell beats are the exact front: one small",
        "table, whatever the number of designs.",
    )
    for i, told in enumerate(more):
        d.text(540, 340 + 22 * i, told, 14, SOFT)
    return d.svg()


def fits() -> str:
    """Draw how many designs and source sets there are, by the number of sources."""
    d = Drawing(880, 400, "Designs and source sets by the number of sources")
    d.text(24, 38, "Far more designs than source sets", 17, bold=True)
    d.text(24, 60, "Up to four stages, sources may be left out. Logarithmic scale.", 13, SOFT)
    numbers, x0, floor, height = (4, 6, 8, 10, 12, 14), 70, 340, 250
    most = math.log10(StageDesign.count(numbers[-1], 4, unused=True)) * 1.02
    for power in range(0, 10, 3):
        y = floor - height * power / most
        d.line((x0, y), (850, y), color=GREY)
        d.text(x0 - 8, y + 4, {0: "1", 3: "1,000", 6: "10^6", 9: "10^9"}[power], 12, SOFT, "end")
    for i, n in enumerate(numbers):
        x = x0 + 24 + i * 130
        for j, (count, fill) in enumerate(
            ((StageDesign.count(n, 4, unused=True), GREY), (2**n - 1, BLUE))
        ):
            tall = height * math.log10(count) / most
            d.box(x + 46 * j, floor - tall, 40, tall, fill, LINE if fill == GREY else "none")
            told = f"{count:,}" if count < 100_000 else f"{count / 1e6:,.1f} M"
            d.text(x + 20 + 46 * j, floor - tall - 7, told, 12, INK, "middle")
        d.text(x + 43, floor + 20, f"{n} sources", 13, INK, "middle")
    d.box(300, 374, 14, 14, GREY, LINE)
    d.text(320, 386, "designs: counted on bits", 13, SOFT)
    d.box(520, 374, 14, 14, BLUE)
    d.text(540, 386, "source sets: fitted", 13, SOFT)
    return d.svg()


def releases() -> str:
    """Draw the ratios of every release on one logarithmic axis; the newest is the large point."""
    lines = HISTORY.read_text(encoding="utf-8").splitlines()
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    names = [name for name in rows[0] if name not in ("version", "date")]
    d = Drawing(880, 110 + 34 * len(names), "Ratios measured for every release")
    d.text(24, 36, "How many times the speed of its reference", 17, bold=True)
    told = f"The large point is {rows[-1]['version']}, small ones are earlier releases."
    d.text(24, 58, told + " Logarithmic scale.", 13, SOFT)
    floor = 76 + 34 * len(names)

    def place(ratio: float) -> float:
        return 240 + 130 * (min(max(math.log10(ratio), -1.5), 2.5) + 1.5)

    for ratio in (0.1, 1, 10, 100):
        strong = ratio == 1
        color, width = (SOFT, 1.5) if strong else (GREY, 1.0)
        d.line((place(ratio), 76), (place(ratio), floor), color=color, width=width)
        words = "as fast" if strong else f"{ratio:g} times"
        d.text(place(ratio), floor + 20, words, 12, SOFT, "middle")
    for i, name in enumerate(names):
        y = 98 + 34 * i
        d.text(24, y + 5, name, 14)
        for row in rows:
            newest = row is rows[-1]
            x, radius, fill = place(float(row[name])), 7 if newest else 4, BLUE if newest else LINE
            d.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="{radius}" fill="{fill}"/>')
        d.text(856, y + 5, f"{float(rows[-1][name]):g}", 14, BLUE, "end", bold=True)
    return d.svg()


DRAWINGS = {
    "why.svg": why,
    "outcome-table.svg": outcome_table,
    "exact-search.svg": exact_search,
    "fits.svg": fits,
    "releases.svg": releases,
}


def main() -> None:
    """Draw them all."""
    for name, draw in DRAWINGS.items():
        (HERE / name).write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
