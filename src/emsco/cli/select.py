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
    MaxCost,
    MaxMissed,
    MaxRejected,
    MinCoverage,
    MinPrecision,
    Run,
    Trust,
    by_class,
    read_caution,
    read_error_cost,
    shares_by_label,
)


def select(
    run: Run,
    max_cost: MaxCost = None,
    min_coverage: MinCoverage = None,
    min_accuracy: Annotated[
        float | None,
        typer.Option(help="The minimum share of accepted rows that are labelled correctly."),
    ] = None,
    max_missed: MaxMissed = None,
    max_rejected: MaxRejected = None,
    min_precision: MinPrecision = None,
    max_latency: Annotated[
        float | None, typer.Option(help="The maximum latency of any row.")
    ] = None,
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
    by_label = {
        "max_missed": shares_by_label(max_missed),
        "max_rejected": shares_by_label(max_rejected, "--max-rejected"),
        "min_precision": shares_by_label(min_precision, "--min-precision"),
    }
    bounds: dict[str, Any] = {
        "max_cost": max_cost,
        "min_coverage": min_coverage,
        "min_accuracy": min_accuracy,
        "max_latency": max_latency,
        "by": by,
        "error_cost": read_error_cost(error_cost),
        "caution": read_caution(caution),
    }
    found = load_search(run, trust)
    classes = found.classes_.tolist()
    for name, shares in by_label.items():
        bounds[name] = by_class(shares, classes, f"--{name.replace('_', '-')}")
    if isinstance(bounds["error_cost"], dict):
        bounds["error_cost"] = by_class(bounds["error_cost"], classes, "--error-cost")
    found.choose(**{name: bound for name, bound in bounds.items() if bound is not None})
    if out is not None:
        dump(found.best_cascade_, out)
    if as_json:
        data = candidate_data(found.best_candidate_, found.costs_.review)
        print_json(data | {"rule": found.choice_.rule, "file": out and str(out)})
    else:
        print_text(in_shell(found.summary()))
    note(f"Written: {out}" if out else "Nothing was written; use --out model.emsco to write it.")
