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
_STAKE = typer.Option(
    metavar="COLUMN",
    help="The column of --fresh that says what is at stake on a row; needed if the search had one.",
)


@options(
    run="The folder of a search, or an .emsco file.",
    label=_LABEL,
    stake=_STAKE,
    everything=typer.Option("--all", help="Show all candidates instead of 20."),
)
def show(
    run: Path,
    fresh: Path | None = None,
    label: str | None = None,
    stake: str | None = None,
    population: list[str] | None = None,
    everything: bool = False,
    trust: list[str] | None = None,
    as_json: bool = False,
    newlines_in_cells: bool = False,
) -> None:
    """Show a search and the chosen candidate, or a model.

    The candidates of the front are listed by cost, cheapest first; a star marks the chosen one.
    With --fresh, the table shows the figures on those rows, and the summary shows how the chosen
    candidate performs there and which figures differ from the selected ones.
    """
    from emsco import CascadeClassifier
    from emsco.exceptions import ColumnsError

    model = load_with_ledger(run, trust)
    if isinstance(model, CascadeClassifier):
        if fresh is not None or population or stake is not None:
            raise ColumnsError(f"--fresh needs a search; {run} is one of its models.")
        _show_cascade(model, as_json=as_json)
    else:
        found = as_search(model, run)
        shares = population_of(population, fresh, found.classes_.tolist())
        X, y = read_optional(found, fresh, label, newlines_in_cells=newlines_in_cells, stake=stake)
        show_all = _show_json if as_json else _show_text
        show_all(found, X, y, shares, stake, everything=everything)


def _show_json(
    found: CascadeSearchCV,
    X: Any,
    y: Any,
    population: dict[Any, float] | None,
    stake: Any,
    **_: Any,
) -> None:
    from emsco import evaluate
    from emsco.core.scored_front import differences
    from emsco.search import stake_of, without_stake

    front, chosen, review = found.front_, found.best_candidate_, found.costs_.review
    candidates = [candidate_data(candidate, review) for candidate in front]
    summary: dict[str, Any] = {
        "chosen": candidate_data(chosen, review) | {"rule": found.choice_.rule},
        "all_sources": candidate_data(found.all_sources_, review),
        "luck": front.luck,
        "candidates": candidates,
    }
    if X is not None:
        scored = found.score_front(X, y, stake=stake, population=population)
        for data, one in zip(candidates, scored, strict=True):
            data["fresh"] = figures(one.fresh, review)
        at_stake = stake_of(X, stake)
        X = without_stake(X, stake, found.found_.layout.names)
        decisions, truth = found.decide(X), found.truth(X, y)
        chosen_fresh = evaluate(decisions, truth, stake=at_stake, population=population)
        summary["chosen"] |= {
            "fresh": figures(chosen_fresh, review),
            "differs": [
                one._asdict()
                for one in differences(
                    chosen.evaluation,
                    decisions,
                    truth,
                    repeats=front.repeats,
                    within_classes=population is not None,
                    stake=at_stake,
                )
            ],
        }
    print_json(summary | {"certificate": _certificate_data(found)})


def _show_text(
    found: CascadeSearchCV,
    X: Any,
    y: Any,
    population: dict[Any, float] | None,
    stake: str | None,
    *,
    everything: bool,
) -> None:

    front, chosen = found.front_, found.best_candidate_
    fresh = None
    if X is not None:
        fresh = [one.fresh for one in found.score_front(X, y, stake=stake, population=population)]
    marked = [front.index(chosen)] if chosen in front else []
    most = len(front) if everything else MOST_CANDIDATES
    places = evenly(len(front), marked, most)
    print_candidates(front, places, chosen, fresh)
    if len(places) < len(front):
        note(f"{len(places)} of {len(front)} candidates shown; --all shows all of them.")
    print_text(in_shell(found.summary(X, y, stake=stake, population=population)))
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
    stake=_STAKE,
    title="The title of the page.",
)
def report(
    run: Path,
    out: Path = Path("report.html"),
    fresh: Path | None = None,
    label: str | None = None,
    stake: str | None = None,
    population: list[str] | None = None,
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
    X, y = read_optional(found, fresh, label, newlines_in_cells=newlines_in_cells, stake=stake)
    certificate = None
    if (run / MODEL).is_file():
        certificate = getattr(load_cascade(run, trust), "certificate_", None)
    write_report(
        found, out, X, y, stake=stake, population=shares, certificate=certificate, title=title
    )
    note(f"Written: {out}")
