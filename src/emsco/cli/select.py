"""`emsco select`: choose a candidate of a run by bounds, and write it as a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from emsco.cli._errors import in_shell, note
from emsco.cli._model_file import file_of, load_search
from emsco.cli._options import (
    by_class,
    options,
    read_caution,
    read_error_cost,
    read_measures,
)
from emsco.cli._output_files import check_outputs
from emsco.cli._print import candidate_data, print_json, print_text
from emsco.core.measures import boundable


@options(
    measures=boundable(),
    by="What to optimise: cost (the default), accuracy, coverage, fitness or loss.",
    out="The model file to write. Without it, nothing is written.",
)
def select(
    run: Path,
    measures: dict[str, Any],
    by: str | None = None,
    error_cost: list[str] | None = None,
    caution: str | None = None,
    out: Path | None = None,
    trust: list[str] | None = None,
    force: bool = False,
    as_json: bool = False,
) -> None:
    """Choose the best candidate within bounds, and write its cascade.

    Without bounds and without --by, the default rule of the search is used.
    """
    from emsco import dump

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
