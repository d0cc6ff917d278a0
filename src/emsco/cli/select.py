"""`emsco select`: one candidate of a run, by bounds, as a model of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from emsco.cli._errors import note
from emsco.cli._options import (
    AsJson,
    Force,
    MaxCost,
    MaxMissed,
    MinCoverage,
    Run,
    Trust,
    by_class,
    shares_by_label,
)


def select(
    run: Run,
    max_cost: MaxCost = None,
    min_coverage: MinCoverage = None,
    min_accuracy: Annotated[
        float | None, typer.Option(help="The least share of accepted rows labelled right.")
    ] = None,
    max_missed: MaxMissed = None,
    max_latency: Annotated[
        float | None, typer.Option(help="The longest that any row may wait.")
    ] = None,
    by: Annotated[
        str, typer.Option(help="What is best: cost, accuracy, coverage, fitness or loss.")
    ] = "cost",
    error_cost: Annotated[
        float | None, typer.Option(help="The price of an error, for --by loss.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The model to write. Without it, nothing is.")
    ] = None,
    trust: Trust = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Choose the best candidate within bounds, and write its cascade."""
    from emsco import dump
    from emsco.cli._errors import in_shell
    from emsco.cli._models import file_of, load_search
    from emsco.cli._outputs import check_outputs
    from emsco.cli._print import candidate_data, print_json, print_text

    check_outputs([out], [file_of(run)], force=force)
    shares = shares_by_label(max_missed)
    found = load_search(run, trust)
    found.choose(
        max_cost=max_cost,
        min_coverage=min_coverage,
        min_accuracy=min_accuracy,
        max_missed=by_class(shares, found.classes_.tolist()),
        max_latency=max_latency,
        by=by,
        error_cost=error_cost,
    )
    if out is not None:
        dump(found.best_cascade_, out)
    if as_json:
        print_json(candidate_data(found.best_candidate_) | {"file": out and str(out)})
    else:
        print_text(in_shell(found.summary()))
    note(f"Written: {out}" if out else "Nothing is written; --out model.emsco writes it.")
