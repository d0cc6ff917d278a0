"""`emsco report`: write a run as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from emsco.cli._errors import note
from emsco.cli._options import FRESH_LABEL, options, population_of


@options(
    out="The page to write.",
    label=FRESH_LABEL,
    title="The title of the page.",
)
def report(
    run: Path,
    out: Path = Path("report.html"),
    fresh: Path | None = None,
    label: str | None = None,
    population: list[str] | None = None,
    title: str | None = None,
    trust: list[str] | None = None,
    force: bool = False,
    newlines_in_cells: bool = False,
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
