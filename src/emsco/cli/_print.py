"""Candidates as people read them, and as programs do."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Sequence
from math import nan
from typing import TYPE_CHECKING, Any

import typer

from emsco.cli._errors import writing_output
from emsco.exceptions import ArtifactError

if TYPE_CHECKING:
    from emsco import Candidate, Evaluation

MOST_CANDIDATES = 20  # that a table shows; more are thinned evenly
_MOST_CLASSES = 3  # that have a column each


def _width() -> int | None:
    """Give the width of the terminal, None where output is no terminal and lines stay whole."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _echo(text: str) -> None:
    with writing_output():
        typer.echo(text)


def print_bytes(part: bytes) -> None:
    """Print bytes, at once."""
    if sys.stdout is None:
        raise ArtifactError("Standard output is closed; name a file by --out.")
    with writing_output():
        sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()


def print_text(text: str) -> None:
    """Print prose, broken between words where a terminal ends."""
    width = _width()
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        wrapped = [line] if width is None else textwrap.wrap(
            line, width, subsequent_indent=indent if line.startswith(" ") else ""
        )  # fmt: skip
        _echo("\n".join(wrapped))


def print_json(data: Any) -> None:
    """Print data for programs; labels and thresholds may be of numpy."""
    _echo(json.dumps(data, indent=2, default=lambda value: value.item()))


def figures(evaluation: Evaluation) -> dict[str, Any]:
    """Give the figures of an evaluation."""
    return {
        "rows": evaluation.rows,
        "accuracy": evaluation.accuracy,
        "coverage": evaluation.coverage,
        "cost": evaluation.cost,
        "missed": {str(label): share for label, share in evaluation.missed.items()},
    }


def candidate_data(candidate: Candidate) -> dict[str, Any]:
    """Give a candidate as data: stages, thresholds and figures."""
    stages = [list(sources) for sources in candidate.design.stages]
    return {
        "stages": stages,
        "threshold": _threshold_data(candidate.threshold),
        **figures(candidate.evaluation),
    }


def _threshold_data(threshold: Any) -> Any:
    if isinstance(threshold, tuple):
        return [_threshold_data(stage) for stage in threshold]
    if hasattr(threshold, "items"):
        return {str(label): needed for label, needed in threshold.items()}
    return float(threshold)


def print_candidates(
    candidates: Sequence[Candidate],
    places: Sequence[int],
    chosen: Candidate | None,
    fresh: Sequence[Evaluation] | None = None,
) -> None:
    """Print candidates, a line each; designs come last, and are cut where a terminal ends.

    With fresh evaluations, these are told, and the accuracy on the rows selected on beside them.
    """
    labels = list(candidates[0].evaluation.class_rows)
    each = labels if len(labels) <= _MOST_CLASSES else []
    heads = [str(label) for label in each] or ["at worst"]
    lines = [
        ["", "", "", "", *["fresh"] * bool(fresh), *["missed"] * len(heads), ""],
        ["", "cost", "coverage", "accuracy", *["accuracy"] * bool(fresh), *heads, "design"],
    ]
    for place in places:
        candidate = candidates[place]
        told = fresh[place] if fresh else candidate.evaluation
        shares = [told.coverage, candidate.evaluation.accuracy, *[told.accuracy] * bool(fresh)]
        shares += [told.missed.get(label, nan) for label in each] or [max(told.missed.values())]
        mark = "*" if candidate == chosen else ""
        figures = [f"{mark}{place}", f"{told.cost:,.4g}", *(f"{share:.1%}" for share in shares)]
        lines.append([*figures, str(candidate.design)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)][:-1]
    most = _width()
    for *figures, design in lines:
        padded = [cell.rjust(width) for cell, width in zip(figures, widths, strict=True)]
        line = "  ".join([*padded, design]).rstrip()
        _echo(line if most is None or len(line) <= most else f"{line[: most - 1]}…")


def evenly(n_candidates: int, wanted: Sequence[int], most: int) -> list[int]:
    """Give places of at most so many candidates, evenly, those wanted among them."""
    if n_candidates <= most:
        return list(range(n_candidates))
    n_even = max(most - len(wanted), 1)
    even = [round(i * (n_candidates - 1) / max(n_even - 1, 1)) for i in range(n_even)]
    return sorted({*even, *wanted})
