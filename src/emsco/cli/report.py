"""`emsco report`: write a run as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from emsco.cli._errors import note
from emsco.cli._options import (
    Force,
    Fresh,
    FreshLabel,
    NewlinesInCells,
    Population,
    Run,
    Trust,
    population_of,
)


def report(
    run: Run,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    fresh: Fresh = None,
    label: FreshLabel = None,
    population: Population = None,
    title: Annotated[str | None, typer.Option(help="The title of the page.")] = None,
    trust: Trust = None,
    force: Force = False,
    newlines_in_cells: NewlinesInCells = False,
) -> None:
    """Write an HTML report of a search, as one page that works offline."""
    from emsco.cli._model_file import MODEL, file_of, load_search, read_optional
    from emsco.cli._output_files import check_outputs
    from emsco.report import report as write_report

    check_outputs([out], [file_of(run), run / MODEL, fresh], force=force)
    found = load_search(run, trust)
    shares = population_of(population, fresh, found.classes_.tolist())
    X, y = read_optional(found, fresh, label, newlines_in_cells=newlines_in_cells)
    certificate = _certificate(run, trust)
    write_report(found, out, X, y, population=shares, certificate=certificate, title=title)
    note(f"Written: {out}")


def _certificate(run: Path, trust: list[str] | None) -> Any:
    """Return the certificate of the model beside the search, if it has one."""
    from emsco.cli._model_file import MODEL, load_cascade

    if not (run / MODEL).is_file():
        return None
    return getattr(load_cascade(run, trust), "certificate_", None)
