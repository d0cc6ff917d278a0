"""`emsco decide`: rows in, decisions out, block by block, and stage by stage in each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from emsco.cli._errors import note
from emsco.cli._options import Force, Trust


def decide(
    model: Annotated[Path, typer.Argument(help="A model, or the folder of a search.")],
    rows: Annotated[Path, typer.Argument(help="CSV or Parquet; - reads CSV from standard input.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="The file to write, .csv or .parquet. Without it, CSV goes to standard output."
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN,...",
            help="Columns of the input to copy to the front of each decision, instead of the row "
            "number.",
        ),
    ] = None,
    trust: Trust = None,
    force: Force = False,
) -> None:
    """Decide rows, stage by stage.

    Writes the label, accepted, exit_stage, confidence, cost and reason of each row.

    Columns that belong to no source are ignored. In a Parquet file, the columns of later stages are
    read only for row groups that still have undecided rows.
    """
    from emsco._ground.atomic import write_whole
    from emsco.cli._deciding import Tally, decided, schema_of
    from emsco.cli._models import MODEL, load_cascade
    from emsco.cli._outputs import check_outputs
    from emsco.cli._print import print_bytes
    from emsco.cli._tables import open_rows
    from emsco.cli._writing import csv_parts, parts_for

    check_outputs([out], [model / MODEL if model.is_dir() else model, rows], force=force)
    make_parts = csv_parts if out is None else parts_for(out)
    cascade = load_cascade(model, trust)
    opened, tally = open_rows(rows, stdin=True), Tally()
    kept = list(dict.fromkeys(name for names in keep or () for name in names.split(",")))
    schema = schema_of(cascade.decider_, opened, kept)
    parts = make_parts(schema, decided(cascade.decider_, opened, kept, schema, tally))
    if out is not None:
        write_whole(out, parts)
        note(f"Written: {out}. {tally.sentence(cascade.costs_.unit)}")
        return
    for part in parts:
        print_bytes(part)
