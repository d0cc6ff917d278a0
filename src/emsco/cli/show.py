"""`emsco show` and `emsco report`: a run, its front and its choice, as text or as a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from emsco.cli._errors import in_shell, note
from emsco.cli._model_file import (
    MODEL,
    as_search,
    file_of,
    load_cascade,
    load_search,
    load_with_ledger,
    read_optional,
)
from emsco.cli._options import options, population_of
from emsco.cli._output_files import check_outputs
from emsco.cli._print import (
    MOST_CANDIDATES,
    breakdown_data,
    candidate_data,
    evenly,
    figures,
    print_candidates,
    print_json,
    print_text,
)

if TYPE_CHECKING:
    from emsco import CascadeClassifier, CascadeSearchCV

_LABEL = "The label column of --fresh, if labels are needed."
_BY = typer.Option(
    metavar="COLUMN",
    help="The column of --fresh that holds the group of each row, such as the sex of a person; "
    "figures are then also given by group.",
)


@options(
    run="The folder of a search, or an .emsco file.",
    label=_LABEL,
    by=_BY,
    everything=typer.Option("--all", help="Show all candidates instead of 20."),
)
def show(
    run: Path,
    fresh: Path | None = None,
    label: str | None = None,
    population: list[str] | None = None,
    by: str | None = None,
    everything: bool = False,
    trust: list[str] | None = None,
    as_json: bool = False,
    newlines_in_cells: bool = False,
) -> None:
    """Show a search and the chosen candidate, or a model.

    The candidates of the front are listed by cost, cheapest first; a star marks the chosen one.
    With --fresh, the table shows the figures on those rows, and the summary shows how the chosen
    candidate performs there and which figures differ from the selected ones. With --by as well, it
    shows the figures of each group of rows, and the largest gaps between groups.
    """
    from emsco import CascadeClassifier
    from emsco.exceptions import ColumnsError

    model = load_with_ledger(run, trust)
    if isinstance(model, CascadeClassifier):
        if fresh is not None or population or by is not None:
            raise ColumnsError(f"--fresh needs a search; {run} is one of its models.")
        _show_cascade(model, as_json=as_json)
    else:
        found = as_search(model, run)
        shares = population_of(population, fresh, found.classes_.tolist())
        read = read_optional(found, fresh, label, by, newlines_in_cells=newlines_in_cells)
        show_all = _show_json if as_json else _show_text
        show_all(found, *read, shares, everything=everything)


def _show_json(
    found: CascadeSearchCV,
    X: Any,
    y: Any,
    groups: Any,
    population: dict[Any, float] | None,
    **_: Any,
) -> None:
    from emsco import evaluate
    from emsco.core.scored_front import differences

    front, chosen, review = found.front_, found.best_candidate_, found.costs_.review
    candidates = [candidate_data(candidate, review) for candidate in front]
    summary: dict[str, Any] = {
        "chosen": candidate_data(chosen, review) | {"rule": found.choice_.rule},
        "all_sources": candidate_data(found.all_sources_, review),
        "luck": front.luck,
        "candidates": candidates,
    }
    if X is not None:
        scored = found.score_front(X, y, population=population)
        for data, one in zip(candidates, scored, strict=True):
            data["fresh"] = figures(one.fresh, review)
        decisions, truth = found.decide(X), found.truth(X, y)
        summary["chosen"] |= {
            "fresh": figures(evaluate(decisions, truth, population=population), review),
            "differs": [
                one._asdict()
                for one in differences(
                    chosen.evaluation,
                    decisions,
                    truth,
                    repeats=front.repeats,
                    within_classes=population is not None,
                )
            ],
        }
        if groups is not None:
            parts = evaluate(decisions, truth, population=population, by=groups)
            summary["chosen"]["groups"] = breakdown_data(parts, review)
    print_json(summary | {"certificate": _certificate_data(found)})


def _show_text(
    found: CascadeSearchCV,
    X: Any,
    y: Any,
    groups: Any,
    population: dict[Any, float] | None,
    *,
    everything: bool,
) -> None:

    front, chosen = found.front_, found.best_candidate_
    fresh = None
    if X is not None:
        fresh = [one.fresh for one in found.score_front(X, y, population=population)]
    marked = [front.index(chosen)] if chosen in front else []
    most = len(front) if everything else MOST_CANDIDATES
    places = evenly(len(front), marked, most)
    print_candidates(front, places, chosen, fresh)
    if len(places) < len(front):
        note(f"{len(places)} of {len(front)} candidates shown; --all shows all of them.")
    print_text(in_shell(found.summary(X, y, population=population, by=groups)))
    _print_certificate(_certificate_data(found))


def _show_cascade(cascade: CascadeClassifier, *, as_json: bool) -> None:

    costs, design = cascade.costs_, cascade.design_
    labels = list(map(str, cascade.classes_.tolist()))
    stages: list[dict[str, Any]] = [
        {
            "sources": list(sources),
            "cost": costs.of(sources, paid=design.acquired(i - 1) if i else ()),
            "threshold": dict(zip(labels, cascade.thresholds_[i].tolist(), strict=True)),
        }
        for i, sources in enumerate(cascade.stages_)
    ]
    certificate = _certificate_data(cascade)
    if as_json:
        data = {"stages": stages, "unit": costs.unit, "certificate": certificate}
        print_json({"labels": cascade.classes_.tolist(), **data})
        return
    print_text(f"A cascade for the labels {', '.join(labels)}:")
    for i, stage in enumerate(stages):
        needed = sorted({f"{t:.4g}" for t in stage["threshold"].values()})
        price = f"{stage['cost']:g} {costs.unit}".rstrip()
        print_text(
            f"  stage {i}: buy {', '.join(stage['sources'])} for {price}; accept at confidence >= "
            f"{' to '.join(dict.fromkeys((needed[0], needed[-1])))}"
        )
    _print_certificate(certificate)


def _certificate_data(model: CascadeClassifier | CascadeSearchCV) -> dict[str, Any] | None:
    """Return the certificate's sentence, whether it holds for this model, and if not, why."""
    certificate = getattr(model, "certificate_", None)
    if certificate is None:
        return None
    from emsco.certify import problem_with

    problem = problem_with(certificate, model)
    return {"sentence": certificate.sentence, "holds": not problem, "problem": problem}


def _print_certificate(certificate: dict[str, Any] | None) -> None:

    if certificate is not None:
        print_text(certificate["sentence"])
        if certificate["problem"] not in certificate["sentence"]:
            print_text(certificate["problem"])


@options(
    out="The page to write.",
    label=_LABEL,
    by=_BY,
    title="The title of the page.",
)
def report(
    run: Path,
    out: Path = Path("report.html"),
    fresh: Path | None = None,
    label: str | None = None,
    population: list[str] | None = None,
    by: str | None = None,
    title: str | None = None,
    trust: list[str] | None = None,
    force: bool = False,
    newlines_in_cells: bool = False,
) -> None:
    """Write an HTML report of a search, as one page that works offline."""
    from emsco.report import report as write_report

    check_outputs([out], [file_of(run), run / MODEL, fresh], force=force)
    found = load_search(run, trust)
    shares = population_of(population, fresh, found.classes_.tolist())
    X, y, groups = read_optional(found, fresh, label, by, newlines_in_cells=newlines_in_cells)
    certificate = None
    if (run / MODEL).is_file():
        certificate = getattr(load_cascade(run, trust), "certificate_", None)
    write_report(
        found, out, X, y, population=shares, by=groups, certificate=certificate, title=title
    )
    note(f"Written: {out}")
