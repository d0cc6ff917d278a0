"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

Data = Annotated[Path, typer.Argument(help="Rows with their labels: CSV or Parquet.")]
Run = Annotated[Path, typer.Argument(help="The folder that `emsco search` wrote.")]
Label = Annotated[str, typer.Option(help="The column that holds the label.")]
Fresh = Annotated[
    Path | None, typer.Option(help="Rows that the search has not seen, to hold the front against.")
]
FreshLabel = Annotated[
    str | None, typer.Option(help="The column of --fresh with the label, if it needs one.")
]
Force = Annotated[bool, typer.Option("--force", help="Write over files that are there.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Trust = Annotated[
    list[str] | None,
    typer.Option(help="A type that stages of other estimators may hold; may be given again."),
]
MaxCost = Annotated[float | None, typer.Option(help="The most to pay a row, on the mean.")]
MinCoverage = Annotated[float | None, typer.Option(help="The least share of rows accepted.")]
MaxMissed = Annotated[
    list[str] | None,
    typer.Option(
        metavar="LABEL=SHARE",
        help="The largest share of a class accepted under another label; may be given again.",
    ),
]


def shares_by_label(given: Sequence[str] | None) -> dict[str, float]:
    """Parse `sick=0.02`; labels stay text until the classes are known.

    Examples
    --------
    >>> from emsco.cli._options import shares_by_label
    >>> shares_by_label(["sick=0.02"])
    {'sick': 0.02}
    """
    shares: dict[str, float] = {}
    for text in given or ():
        label, sign, share = text.rpartition("=")
        try:
            shares[label] = float(share)
        except ValueError:
            sign = ""
        if not sign:
            raise typer.BadParameter(f"--max-missed takes LABEL=SHARE, as sick=0.02; got {text!r}.")
    return shares


def by_class(shares: Mapping[str, float], classes: Iterable[Any]) -> dict[Any, float] | None:
    """Find the class that each label names, whatever its type; None where none is named."""
    from emsco.exceptions import ClassesError, nearest

    known = {str(label): label for label in classes}
    for name in shares:
        if name not in known:
            raise ClassesError(
                f"--max-missed names {name!r}, which is no label" + nearest(name, known)
            )
    return {known[name]: share for name, share in shares.items()} or None
