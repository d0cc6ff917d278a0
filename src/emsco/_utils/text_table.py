"""Rows of cells as a table that a person can read, in a terminal or in a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

MOST_ROWS = 20  # what fits on a screen; longer tables show both ends


def row_positions(n_rows: int) -> list[int | None]:
    """Return the positions of the rows to print; None stands for those left out."""
    if n_rows <= MOST_ROWS:
        return list(range(n_rows))
    half = MOST_ROWS // 2
    return [*range(half), None, *range(n_rows - half, n_rows)]


def numbered_rows(
    columns: Mapping[str, Sequence[object]],
) -> tuple[list[str], list[list[object] | None]]:
    """Return the header and the rows of columns of one length; the first cell numbers the rows."""
    n_rows = len(next(iter(columns.values())))
    rows = [
        None if i is None else [i, *(column[i] for column in columns.values())]
        for i in row_positions(n_rows)
    ]
    return ["", *columns], rows


def cell(value: object) -> str:
    """Format one value: numbers short, booleans as yes or no."""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float | np.floating):
        number = float(value)
        return f"{number:.4g}" if abs(number) < 1000 else f"{number:,.0f}"
    if isinstance(value, tuple):
        return "(" + ", ".join(cell(part) for part in value) + ")"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {cell(part)}" for name, part in value.items()) + "}"
    return str(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def text_table(
    header: Sequence[str], rows: Sequence[Sequence[object] | None], caption: str = ""
) -> str:
    """Format a table as plain text, with numbers aligned right; a None row becomes an ellipsis."""
    printed = [["..."] * len(header) if row is None else [cell(v) for v in row] for row in rows]
    right = [any(_is_number(row[i]) for row in rows if row is not None) for i in range(len(header))]
    widths = [max(len(line[i]) for line in [list(header), *printed]) for i in range(len(header))]
    lines = [
        "  ".join(
            value.rjust(width) if to_right else value.ljust(width)
            for value, width, to_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in [list(header), *printed]
    ]
    return "\n".join([*lines, caption] if caption else lines)


def html_table(
    header: Sequence[str], rows: Sequence[Sequence[object] | None], caption: str = ""
) -> str:
    """Format the same table as HTML, with every cell escaped."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(
        "<tr>"
        + "".join(
            f"<td>{escape('...' if row is None else cell(row[i]))}</td>" for i in range(len(header))
        )
        + "</tr>"
        for row in rows
    )
    caption_tag = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{caption_tag}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
