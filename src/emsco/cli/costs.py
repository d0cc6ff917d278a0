"""`emsco costs init`: a file of prices to fill in, valid as written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from emsco.cli._options import Data, Label
from emsco.cli._told import note

_HEAD = """\
# What each source costs a row. Every price is 1 until you say otherwise.
#
# A source is what is bought as a unit. By default it is one column and has its name; one that
# yields several columns, or that shares a cost with others, is a table:
#
#   blood = { cost = 5.17, features = ["chol", "sugar"], setup = "draw" }
#
# with the shared cost, paid once a row, under [setups]. `latency` says how long a source takes and
# `requires` which sources must be bought no later. Delete the line of a column that is not to be
# used, such as an id.

unit = ""  # of every price, such as "EUR"

[sources]
"""
_TAIL = """
# [setups]
# draw = 2.10

# [review]  # what happens to a rejected row
# cost = 25.0
"""


def init(
    data: Data,
    label: Label,
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("costs.toml"),
    force: Annotated[bool, typer.Option(help="Write over a file that is there.")] = False,
) -> None:
    """Write a file of prices to fill in: one source a column, each of cost 1."""
    from emsco._atomic import write_whole
    from emsco._toml import toml_key
    from emsco.cli._frames import read_labelled
    from emsco.exceptions import ArtifactError

    if out.exists() and not force:
        raise ArtifactError(f"{out} is there already; name another --out, or say --force.")
    X, _ = read_labelled(data, label)
    keys = [toml_key(name) for name in X.columns]
    width = max(map(len, keys), default=0)
    lines = [
        f"{key:<{width}} = 1  # {_held(X[name])}\n"
        for key, name in zip(keys, X.columns, strict=True)
    ]
    write_whole(out, [(_HEAD + "".join(lines) + _TAIL).encode()])
    note(
        f"{out} has {len(lines)} sources, and every price is 1: write in what they really cost, "
        "because the search believes it."
    )


def _held(column: Any) -> str:
    """Say what a column holds, for whoever fills in its price."""
    present = column.dropna()
    missing = (
        f", {1 - len(present) / len(column):.0%} missing" if len(present) < len(column) else ""
    )
    if not len(present):
        return "nothing: every cell is empty"
    n_values = present.nunique()
    if column.dtype.kind == "f":
        told = f"numbers from {present.min():g} to {present.max():g}"
    else:
        told = f"text, {n_values} values such as {present.iloc[0][:30]!r}"
    is_id = n_values == len(column) and (
        column.dtype.kind != "f" or bool((present == present.round()).all())
    )
    return told + missing + ("; differs in every row: an id?" if is_id else "")
