"""Say what is unusual about the columns of a table, and leave out those of no use as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from emsco._utils.progress import followed
from emsco.cli._errors import note
from emsco.core.validation import leave_out
from emsco.core.value_type import LONG_TEXT, SKIP
from emsco.exceptions import quoted
from emsco.rows import column_findings
from emsco.rows.column_findings import ColumnFinding, find_leaks, inspect_column
from emsco.rows.fitted_rows import FittedRows, find_repeats

if TYPE_CHECKING:
    from emsco import Costs

_FEW = 10  # copies that are not worth a message
_WHY = {
    column_findings.EMPTY: "every cell is empty",
    column_findings.CONSTANT: "every row has the same value",
    column_findings.DATES: 'they hold dates; to read them as days, declare type = "date" in the '
    "costs, but only if later rows will have dates of the same range",
    column_findings.UNCLEAR_DATES: "day and month of their dates could be either; write dates as "
    "2024-01-31",
    column_findings.IDS: "every row has a value of its own",
    LONG_TEXT: 'they hold long text; to use it, declare kind = "text" in the costs',
}


def inspect_columns(X: Any, types: Mapping[str, str]) -> dict[str, ColumnFinding]:
    """Find what is unusual about the columns whose type is not declared."""
    names = [name for name in X.columns if name not in types]
    found = {name: inspect_column(X[name].to_numpy()) for name in followed(names, "read columns")}
    return {name: finding for name, finding in found.items() if finding is not None}


def leaks_of(
    X: Any, y: NDArray[Any], findings: Mapping[str, ColumnFinding], types: Mapping[str, str]
) -> dict[str, float]:
    """Find the columns that tell the classes apart alone, among those that are used.

    Long text, found or declared, is not looked at: as a whole, a text tells nothing.
    """
    kinds = {**types, **{name: finding.type for name, finding in findings.items()}}
    used = [name for name in X.columns if kinds.get(name) not in (SKIP, LONG_TEXT)]
    return find_leaks({name: X[name].to_numpy() for name in used}, y)


def used_columns(
    X: Any, y: NDArray[Any], prices: Costs | None, *, every: bool = False
) -> tuple[Any, Costs | None]:
    """Leave out columns of no use, and say what was seen; with `every`, leave out none."""
    types = {} if prices is None else prices.types
    findings = inspect_columns(X, types)
    by_kind: dict[str, list[str]] = {}
    for name, finding in findings.items():
        by_kind.setdefault(finding.kind, []).append(name)
    zeros = by_kind.pop(column_findings.ZEROS, [])
    if zeros:
        note(f"emsco: read as text, because of leading zeros: {quoted(zeros)}.")
    out = [name for names in by_kind.values() for name in names]
    if every or len(out) == len(X.columns):
        out = []
    for kind, names in by_kind.items():
        if out:
            note(f"emsco: left out: {quoted(names)}, because {_WHY[kind]}.")
    for name, recall in leaks_of(X, y, findings, types).items():
        note(
            f"emsco: warning: {name!r} alone tells the classes apart ({recall:.1%} of each class "
            "on average): leave it out if it is known only when the label is."
        )
    if not out:
        return X, prices
    return X.drop(columns=out), None if prices is None else leave_out(prices, out)


def note_copies(fitted_rows: FittedRows) -> None:
    """Say how many rows of a search are copies of others."""
    if fitted_rows.rows is None:
        return
    n_copies = int(find_repeats(fitted_rows.rows).rows.sum())
    if n_copies >= _FEW:
        note(
            f"emsco: warning: {n_copies:,} rows are copies of other rows, so figures are "
            "optimistic; leave copies out, or keep them in one fold by --groups."
        )
