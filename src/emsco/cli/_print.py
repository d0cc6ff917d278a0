"""Printing of text, JSON and tables of candidates."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from emsco.cli._errors import writing_output
from emsco.core.measure import Measure, rows_of
from emsco.core.measures import columns
from emsco.exceptions import ArtifactError

if TYPE_CHECKING:
    from emsco import Candidate, Evaluation, ParetoFront, Review

MOST_CANDIDATES = 20  # most rows of a table; more candidates are thinned evenly
_MOST_CLASSES = 3  # most classes with columns for each
_LEAST_DESIGN = 16  # characters of a design for which columns are left out if necessary


def _width() -> int | None:
    """Return the width of the terminal; None if output is not a terminal, so lines stay whole."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _echo(text: str) -> None:
    with writing_output():
        typer.echo(text)


def print_bytes(part: bytes) -> None:
    """Print bytes immediately."""
    if sys.stdout is None:
        raise ArtifactError("Standard output is closed; give a file with --out.")
    with writing_output():
        sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()


def print_text(text: str) -> None:
    """Print prose, wrapped to the width of the terminal."""
    width = _width()
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        wrapped = [line] if width is None else textwrap.wrap(
            line, width, subsequent_indent=indent if line.startswith(" ") else ""
        )  # fmt: skip
        _echo("\n".join(wrapped))


def print_json(data: Any) -> None:
    """Print data as JSON; it may contain numpy scalars and frozen mappings."""
    _echo(json.dumps(data, indent=2, default=_plain))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(label): each for label, each in value.items()}
    return value.item()


def figures(evaluation: Evaluation, review: Review | None = None) -> dict[str, Any]:
    """Return the figures of an evaluation, with the review cost per row if it has a price."""
    data: dict[str, Any] = {"rows": evaluation.rows}
    data |= {measure.name: measure.of(evaluation) for measure in columns(by_class=False)}
    if review is not None and review.cost:
        data["review"] = review.cost * (1 - evaluation.coverage)
    for measure in columns(by_class=True):
        shares = measure.of(evaluation).items()
        data[measure.name] = {str(label): share for label, share in shares}
    return data


def candidate_data(candidate: Candidate, review: Review | None = None) -> dict[str, Any]:
    """Return a candidate as data: stages, thresholds and figures."""
    stages = [list(sources) for sources in candidate.design.stages]
    return {
        "stages": stages,
        "threshold": _threshold_data(candidate.threshold),
        **({"estimator": candidate.learner} if candidate.learner else {}),
        **figures(candidate.evaluation, review),
    }


def _threshold_data(threshold: Any) -> Any:
    if isinstance(threshold, tuple):
        return [_threshold_data(stage) for stage in threshold]
    if hasattr(threshold, "items"):
        return {str(label): needed for label, needed in threshold.items()}
    return float(threshold)


class _Column(NamedTuple):
    """A column of a table: the heading of its group, its own heading, and its cells."""

    group: str
    head: str
    cells: list[str]

    @property
    def width(self) -> int:
        return max(len(self.head), *map(len, self.cells))


def print_candidates(
    front: ParetoFront,
    places: Sequence[int],
    chosen: Candidate | None,
    fresh: Sequence[Evaluation] | None = None,
) -> None:
    """Print candidates, one per line; designs come last and are cut off at the terminal's width.

    With fresh evaluations, all columns show them, except for the selected accuracy. If there are
    few classes and the terminal is wide, each class has columns; otherwise only the worst class.
    """
    evaluations = [fresh[place] if fresh else front[place].evaluation for place in places]
    stars = ["*" if front[place] == chosen else "" for place in places]
    columns = [
        _Column("", "", [f"{star}{place}" for star, place in zip(stars, places, strict=True)]),
        _Column("", "cost", [f"{e.cost:,.4g}" for e in evaluations]),
    ]
    review = front.costs.review
    if review is not None and review.cost:
        paid = [f"{review.cost * (1 - rows_of(e).coverage):,.3g}" for e in evaluations]
        columns.append(_Column("", "+ review", paid))
    columns += [
        _Column("", "coverage", [f"{e.coverage:.1%}" for e in evaluations]),
        _Column("", "accuracy", [f"{e.accuracy:.1%}" for e in evaluations]),
    ]
    last = []
    if fresh:
        print_text(
            'Figures on fresh rows; only the accuracy under "selected" is from the searched rows:'
        )
        selected = [f"{front[place].evaluation.accuracy:.1%}" for place in places]
        last = [_Column("selected", "accuracy", selected)]
    shares = _shares(front[0].evaluation.class_rows, evaluations)
    designs = [front[place].title for place in places]
    _print_columns([[*columns, *some, *last] for some in shares], designs)


def _shares(labels: Iterable[Any], evaluations: Sequence[Evaluation]) -> Iterator[list[_Column]]:
    """Yield sets of columns for the shares by class, the largest set first."""
    known, measures = list(labels), columns(by_class=True)

    def column(group: str, measure: Measure, of: Sequence[Any]) -> _Column:
        shares = [[_share(e, measure, label) for label in of] for e in evaluations]
        return _Column(group, measure.name, [_cell(each, measure) for each in shares])

    if len(known) <= _MOST_CLASSES:
        yield [column(f"{label}", measure, [label]) for label in known for measure in measures]
    for some in (measures, measures[:2]):
        yield [column("worst class", measure, known) for measure in some]


def _share(evaluation: Evaluation, measure: Measure, label: Any) -> float | None:
    """Return a share of a class; None if it is a share of no rows."""
    part, whole = measure.count(evaluation, label)
    share: float | None = part / whole if whole else None
    return share


def _cell(shares: Sequence[float | None], measure: Measure) -> str:
    """Format the worst of the shares by class."""
    known = [share for share in shares if share is not None]
    if not known:
        return "-"
    return f"{min(known) if measure.is_better_high else max(known):.1%}"


def _print_columns(tables: Sequence[list[_Column]], designs: Sequence[str]) -> None:
    """Print the first table that leaves enough room for the designs."""
    most = _width()
    room = min(_LEAST_DESIGN, max(map(len, designs)))
    fits = (t for t in tables if most is None or sum(c.width + 2 for c in t) + room <= most)
    table = next(fits, tables[-1])
    lines = [_groups(table), "  ".join([*(c.head.rjust(c.width) for c in table), "design"])]
    for i, design in enumerate(designs):
        lines.append("  ".join([*(c.cells[i].rjust(c.width) for c in table), design]))
    for line in lines:
        _echo(line.rstrip() if most is None or len(line) <= most else f"{line[: most - 1]}…")


def _groups(table: Sequence[_Column]) -> str:
    """Format the line of group headings, each centred over its columns and cut to fit."""
    line = ""
    for group, of_group in groupby(table, key=lambda column: column.group):
        width = sum(column.width + 2 for column in of_group)
        line += group[: width - 2].center(width - 2) + "  "
    return line.rstrip()


def evenly(n_candidates: int, wanted: Sequence[int], most: int) -> list[int]:
    """Return the places of at most `most` candidates, evenly spaced, including those wanted."""
    if n_candidates <= most:
        return list(range(n_candidates))
    n_even = max(most - len(wanted), 1)
    even = [round(i * (n_candidates - 1) / max(n_even - 1, 1)) for i in range(n_even)]
    return sorted({*even, *wanted})
