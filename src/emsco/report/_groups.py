"""The panel of a report about groups of rows: each group's figures, and the gaps between them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from numpy.typing import NDArray

from emsco.core.breakdown import Breakdown, break_down
from emsco.core.group_labels import read_group_labels
from emsco.report._data import Population

_CAVEAT = (
    "Equal shares do not show that a decision is fair, and a gap does not show why there is one: "
    "groups may differ in what they are decided on, or their labels be wrong in different ways."
)


def groups_panel(
    search: Any, X: Any, truth: NDArray[Any] | None, population: Population, by: Any
) -> str:
    """Describe the choice of the search by group: of fresh rows, or else of those searched."""
    if by is None or not hasattr(search, "best_candidate_"):
        return ""
    if truth is None:
        breakdown = search.found_.breakdown(search.best_candidate_, by)
        rows = "the rows it was selected on"
    else:
        groups = read_group_labels(by, len(truth), "rows of X")
        breakdown = break_down(search.decide(X), truth, groups, population=population)
        rows = f"{len(truth):,} fresh rows"
    tables = "".join(_table(*table) for table in breakdown.tables())
    notes = escape(" \N{MIDDLE DOT} ".join(breakdown.notes()))
    return (
        '<section class="card" id="groups" aria-labelledby="groups-title">'
        f'<h2 id="groups-title">The chosen cascade by group, on {rows}</h2>{tables}'
        f'<p class="note">{notes}</p>{_gaps(breakdown)}<p class="note">{_CAVEAT}</p></section>'
    )


def _table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    body = "".join(
        f'<tr><th scope="row">{escape(str(name))}</th>'
        + "".join(
            f'<td data-word="{escape(word)}">{escape(_cell(value))}</td>'
            for word, value in zip(header[1:], values, strict=True)
        )
        + "</tr>"
        for name, *values in rows
    )
    table = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="wide"><table class="groups">{table}</table></div>'


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _gaps(breakdown: Breakdown) -> str:
    if not breakdown.gaps:
        return ""
    listed = "".join(f"<li>{escape(str(gap))}</li>" for gap in breakdown.gaps)
    return f"<h3>Largest gaps between groups</h3><ul>{listed}</ul>"
