"""Candidates as people read them, and as programs do."""

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
from emsco.exceptions import ArtifactError

if TYPE_CHECKING:
    from emsco import Candidate, Evaluation, ParetoFront, Review

MOST_CANDIDATES = 20  # that a table shows; more are thinned evenly
_MOST_CLASSES = 3  # that have columns each
_SHARES = ("rejected", "missed", "recall", "precision")
_LEAST_DESIGN = 16  # letters of a design, for which columns are left out


def _width() -> int | None:
    """Give the width of the terminal, None where output is no terminal and lines stay whole."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _echo(text: str) -> None:
    with writing_output():
        typer.echo(text)


def print_bytes(part: bytes) -> None:
    """Print bytes, at once."""
    if sys.stdout is None:
        raise ArtifactError("Standard output is closed; give a file with --out.")
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
    """Print data for programs; labels and thresholds may be of numpy, shares by class frozen."""
    _echo(json.dumps(data, indent=2, default=_plain))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(label): each for label, each in value.items()}
    return value.item()


def figures(evaluation: Evaluation, review: Review | None = None) -> dict[str, Any]:
    """Give the figures of an evaluation, with what review costs a row where it has a price."""
    told: dict[str, Any] = {
        "rows": evaluation.rows,
        "accuracy": evaluation.accuracy,
        "coverage": evaluation.coverage,
        "cost": evaluation.cost,
    }
    if review is not None and review.cost:
        told["review"] = review.cost * (1 - evaluation.coverage)
    for word in _SHARES:
        told[word] = {str(label): share for label, share in getattr(evaluation, word).items()}
    return told


def candidate_data(candidate: Candidate, review: Review | None = None) -> dict[str, Any]:
    """Give a candidate as data: stages, thresholds and figures."""
    stages = [list(sources) for sources in candidate.design.stages]
    return {
        "stages": stages,
        "threshold": _threshold_data(candidate.threshold),
        **figures(candidate.evaluation, review),
    }


def _threshold_data(threshold: Any) -> Any:
    if isinstance(threshold, tuple):
        return [_threshold_data(stage) for stage in threshold]
    if hasattr(threshold, "items"):
        return {str(label): needed for label, needed in threshold.items()}
    return float(threshold)


class _Column(NamedTuple):
    """A column of a table: what stands over several, its own head, and its cells."""

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
    """Print candidates, a line each; designs come last, and are cut where a terminal ends.

    With fresh evaluations all columns are theirs, but for the accuracy that was selected by. Where
    classes are few and the terminal is wide, each has its columns; else the worst of them has.
    """
    told = [fresh[place] if fresh else front[place].evaluation for place in places]
    stars = ["*" if front[place] == chosen else "" for place in places]
    columns = [
        _Column("", "", [f"{star}{place}" for star, place in zip(stars, places, strict=True)]),
        _Column("", "cost", [f"{e.cost:,.4g}" for e in told]),
    ]
    review = front.costs.review
    if review is not None and review.cost:
        paid = [f"{review.cost * (1 - e.coverage):,.3g}" for e in told]
        columns.append(_Column("", "+ review", paid))
    columns += [
        _Column("", "coverage", [f"{e.coverage:.1%}" for e in told]),
        _Column("", "accuracy", [f"{e.accuracy:.1%}" for e in told]),
    ]
    last = []
    if fresh:
        print_text(
            'Figures on fresh rows; only the accuracy under "selected" is of the searched rows:'
        )
        selected = [f"{front[place].evaluation.accuracy:.1%}" for place in places]
        last = [_Column("selected", "accuracy", selected)]
    shares = _shares(front[0].evaluation.class_rows, told)
    designs = [str(front[place].design) for place in places]
    _print_columns([[*columns, *some, *last] for some in shares], designs)


def _shares(labels: Iterable[Any], told: Sequence[Evaluation]) -> Iterator[list[_Column]]:
    """Give columns for shares by class, first as many as may be told, then fewer."""
    known = list(labels)
    if len(known) <= _MOST_CLASSES:
        yield [
            _Column(f"{label}", word, [_cell([_share(e, word, label)], word) for e in told])
            for label in known
            for word in _SHARES
        ]
    for words in (_SHARES, _SHARES[:2]):
        yield [
            _Column(
                "worst class",
                word,
                [_cell([_share(e, word, label) for label in known], word) for e in told],
            )
            for word in words
        ]


def _share(evaluation: Evaluation, word: str, label: Any) -> float | None:
    """Give a share of a class, None where it is one of no rows."""
    whole = {"recall": evaluation.class_accepted, "precision": evaluation.label_accepted}
    if not whole.get(word, evaluation.class_rows).get(label):
        return None
    share: float = getattr(evaluation, word)[label]
    return share


def _cell(shares: Sequence[float | None], word: str) -> str:
    """Print the worst of shares by class."""
    known = [share for share in shares if share is not None]
    if not known:
        return "-"
    return f"{max(known) if word in ('rejected', 'missed') else min(known):.1%}"


def _print_columns(tables: Sequence[list[_Column]], designs: Sequence[str]) -> None:
    """Print the first table that leaves designs their room."""
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
    """Write what stands over several columns, over the first of them, as far as there is room."""
    line = ""
    for group, columns in groupby(table, key=lambda column: column.group):
        width = sum(column.width + 2 for column in columns)
        line += group[: width - 2].center(width - 2) + "  "
    return line.rstrip()


def evenly(n_candidates: int, wanted: Sequence[int], most: int) -> list[int]:
    """Give places of at most so many candidates, evenly, those wanted among them."""
    if n_candidates <= most:
        return list(range(n_candidates))
    n_even = max(most - len(wanted), 1)
    even = [round(i * (n_candidates - 1) / max(n_even - 1, 1)) for i in range(n_even)]
    return sorted({*even, *wanted})
