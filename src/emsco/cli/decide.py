"""`emsco decide`: decide the rows of a file, block by block and stage by stage."""

from __future__ import annotations

from pathlib import Path

import typer

from emsco.cli._errors import note
from emsco.cli._model_file import load_cascade, model_file
from emsco.cli._options import EngineName, options, refuse_address, workers_of
from emsco.cli._output_files import check_outputs, refuse_inside
from emsco.cli._print import print_bytes


@options(
    rows="CSV or Parquet; a folder of Parquet files, local or at s3://, gs://, abfs://; - "
    "reads CSV from standard input.",
    out="The file to write, .csv or .parquet; with --engine ray, the folder or its URL. "
    "Without it, CSV goes to standard output.",
    keep=typer.Option(
        metavar="COLUMN,...",
        help="Columns of the input to copy to the front of each decision, instead of the row "
        "number.",
    ),
)
def decide(
    model: Path,
    rows: str,
    out: str | None = None,
    keep: list[str] | None = None,
    trust: list[str] | None = None,
    force: bool = False,
    engine: EngineName = EngineName.local,
    address: str | None = None,
    newlines_in_cells: bool = False,
) -> None:
    """Decide rows, stage by stage.

    Writes the label, accepted, exit_stage, confidence, cost and reason of each row.

    Columns that belong to no source are ignored. From Parquet files, the columns of later stages
    are read only for row groups that still have undecided rows. A folder is read with its
    subfolders; subfolders with names such as year=2024 add a column.

    With --engine ray, every million rows become a file in a folder; after an interruption, run the
    same command again to decide the missing rows.
    """
    from emsco._utils.atomic_write import write_whole
    from emsco._utils.progress import hush
    from emsco.arrow import is_url
    from emsco.cli._decision_stream import DecisionCounter, csv_parts, decided, parts_for, schema_of
    from emsco.cli._table_file import open_rows

    hush(on_terminal=False)  # it writes rows all the time, perhaps for another program
    refuse_address(engine, address)
    here = None if is_url(rows) else Path(rows)
    columns = list(dict.fromkeys(name for names in keep or () for name in names.split(",")))
    if engine is EngineName.ray:
        _decide_on_ray(model, rows, out, columns, trust, force, address)
        return
    file = None if out is None else Path(out)
    check_outputs([file], [model_file(model), here], force=force)
    refuse_inside(file, here)
    make_parts = csv_parts if file is None else parts_for(file)
    cascade = load_cascade(model, trust)
    opened = open_rows(rows, stdin=True, newlines_in_cells=newlines_in_cells)
    tally = DecisionCounter()
    schema = schema_of(cascade.decider_, opened, columns)
    parts = make_parts(schema, decided(cascade.decider_, opened, columns, tally))
    if file is not None:
        write_whole(file, parts)
        note(f"Written: {file}. {tally.sentence(cascade.costs_.unit)}")
        return
    for part in parts:
        print_bytes(part)


def _decide_on_ray(
    model: Path,
    rows: str,
    out: str | None,
    keep: list[str],
    trust: list[str] | None,
    force: bool,
    address: str | None,
) -> None:
    """Decide rows on a Ray cluster, and write them to a folder."""
    from emsco.arrow import is_url
    from emsco.cli._decision_stream import DecisionCounter
    from emsco.ray import decide_dataset

    if out is None:
        raise typer.BadParameter(
            "--engine ray writes a folder of Parquet files; name it with --out."
        )
    if rows == "-":
        raise typer.BadParameter("--engine ray reads Parquet files; give a file or a folder.")
    if not is_url(rows) and not is_url(out):
        refuse_inside(Path(out), Path(rows))
    cascade = load_cascade(model, trust)
    with workers_of(EngineName.ray, address) as workers:
        scored = decide_dataset(cascade, rows, out, keep=keep, engine=workers, force=force)
    tally = DecisionCounter(scored.rows, scored.accepted, scored.cost)
    before = f" {scored.rows_before:,} rows were decided before." if scored.rows_before else ""
    # A URL may contain credentials.
    written = "Written" if is_url(out) else f"Written: {out}"
    note(f"{written}. {tally.sentence(cascade.costs_.unit)}{before}")
