"""`emsco costs init`: write a file of prices to fill in; it is valid as written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from emsco.cli._errors import note
from emsco.cli._options import options

_HEAD = """\
# The cost of each source per row. Every price is 1 until you change it.
#
# A source is what is bought as a unit. By default it is one column and has its name. A source that
# yields several columns, or that shares a cost with other sources, is written as a table:
#
#   blood = { cost = 5.17, features = ["chol", "sugar"], setup = "draw" }
#
# The shared cost, paid once per row, goes under [setups]. `latency` is how long a source takes, and
# `requires` lists sources that must be bought before it or in the same stage, where it waits for
# them. Delete the line of a column that must not be used, such as an id.

unit = ""  # of every price, such as "EUR"

[sources]
"""
_TAIL = """
# [setups]
# draw = 2.10

# [review]  # what happens to a rejected row
# cost = 25.0
"""


@options(
    out="The file to write.",
)
def init(
    data: Path,
    label: str,
    out: Path = Path("costs.toml"),
    force: bool = False,
    newlines_in_cells: bool = False,
) -> None:
    """Write a file of prices to fill in: one source per column, each with cost 1."""
    from emsco._utils.atomic_write import write_whole
    from emsco._utils.toml_writer import toml_key
    from emsco.cli._labelled_frame import read_labelled
    from emsco.cli._output_files import check_outputs
    from emsco.cli._table_file import open_rows

    check_outputs([out], [data], force=force)
    X, _ = read_labelled(open_rows(data, newlines_in_cells=newlines_in_cells), label)
    keys = [toml_key(name) for name in X.columns]
    width = max(map(len, keys), default=0)
    lines = [
        f"{key:<{width}} = 1  # {_contents(column.to_numpy())}\n"
        for key, (_, column) in zip(keys, X.items(), strict=True)
    ]
    write_whole(out, [(_HEAD + "".join(lines) + _TAIL).encode()])
    note(
        f"{out} lists {len(lines)} sources, each with price 1. Fill in the real prices: the "
        "search relies on them."
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str)  # not None, nor the NaN that pandas puts in its place


def _contents(column: Any) -> str:
    """Describe the values of a column, to help with filling in its price."""
    is_number = column.dtype.kind == "f"
    present: Any = column[column == column] if is_number else [t for t in column if _is_text(t)]
    share = 1 - len(present) / len(column)
    missing = f", {share:.0%} missing" if len(present) < len(column) else ""
    if not len(present):
        return "every cell is empty"
    n_values = len(set(present))
    if is_number:
        summary = f"numbers from {present.min():g} to {present.max():g}"
    else:
        summary = f"text, {n_values} values such as {present[0][:30]!r}"
    is_id = n_values == len(column) and (not is_number or bool((present == present.round()).all()))
    return summary + missing + ("; unique in every row, so maybe an id" if is_id else "")
