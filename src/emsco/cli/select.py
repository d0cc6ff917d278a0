"""`emsco select`: choose a candidate of a run by bounds, and write it as a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from emsco.cli._errors import note
from emsco.cli._options import (
    AsJson,
    Caution,
    ErrorCost,
    Force,
    Run,
    Trust,
    by_class,
    read_caution,
    read_error_cost,
    read_measures,
    with_measures,
)
from emsco.core.measures import boundable


@with_measures(boundable())
def select(
    run: Run,
    measures: dict[str, Any],
    by: Annotated[
        str | None,
        typer.Option(
            help="What to optimise: cost (the default), accuracy, coverage, fitness or loss."
        ),
    ] = None,
    error_cost: ErrorCost = None,
    caution: Caution = None,
    out: Annotated[
        Path | None, typer.Option(help="The model file to write. Without it, nothing is written.")
    ] = None,
    trust: Trust = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Choose the best candidate within bounds, and write its cascade.

    Without bounds and without --by, the default rule of the search is used.
    """
    from emsco import dump
    from emsco.cli._errors import in_shell
    from emsco.cli._model_file import file_of, load_search
    from emsco.cli._output_files import check_outputs
    from emsco.cli._print import candidate_data, print_json, print_text

    check_outputs([out], [file_of(run)], force=force)
    read = read_measures(boundable(), measures)
    errors, careful = read_error_cost(error_cost), read_caution(caution)
    found = load_search(run, trust)
    classes = found.classes_.tolist()
    if isinstance(errors, dict):
        errors = by_class(errors, classes, "--error-cost")
    options: dict[str, Any] = {"by": by, "error_cost": errors, "caution": careful}
    options = {name: value for name, value in options.items() if value is not None}
    found.choose(**read(classes), **options)
    if out is not None:
        dump(found.best_cascade_, out)
    if as_json:
        data = candidate_data(found.best_candidate_, found.costs_.review)
        print_json(data | {"rule": found.choice_.rule, "file": out and str(out)})
    else:
        print_text(in_shell(found.summary()))
    note(f"Written: {out}" if out else "Nothing was written; use --out model.emsco to write it.")
