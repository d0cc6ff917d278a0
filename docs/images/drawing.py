"""What the drawings of the documentation are made of: shapes and words of an SVG.

A phone shows a drawing about 360 pixels wide. So a drawing is at most `WIDTH` wide, and its words
are at least 13 high: they can be read there.
"""

from __future__ import annotations

import textwrap

WIDTH = 480
INK, SOFT, LINE, PAPER = "#1f2937", "#5b6472", "#9aa3af", "#ffffff"
BLUE, SKY, ORANGE, SAND, GREY = "#1d6fb8", "#d6e8f7", "#c2570c", "#fce5d0", "#eceff3"


class Drawing:
    """An SVG that grows element by element."""

    def __init__(self, width: int, height: int, title: str, scale: float = 1.0) -> None:
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width * scale:g}" height="{height * scale:g}" role="img" '
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

    def paragraph(
        self, x: float, y: float, words: str, size: int = 15, color: str = INK, *, letters: int = 60
    ) -> float:
        """Write words on as many lines as they take; give the height of the next line."""
        for line in textwrap.wrap(words, letters):
            self.text(x, y, line, size, color)
            y += 1.4 * size
        return y

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

    def dot(self, x: float, y: float, radius: float, fill: str) -> None:
        """Draw a point."""
        self.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{fill}"/>')

    def svg(self) -> str:
        """Give the whole drawing."""
        return "\n".join([*self.parts, "</svg>", ""])
