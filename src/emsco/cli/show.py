"""`emsco show`: the trade-off of a run, what was chosen of it, or what a cascade does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from emsco.cli._options import AsJson, Fresh, FreshLabel, Trust

if TYPE_CHECKING:
    from emsco import CascadeClassifier, CascadeSearchCV


def show(
    run: Annotated[Path, typer.Argument(help="The folder of a search, or an .emsco file.")],
    fresh: Fresh = None,
    label: FreshLabel = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Show every candidate, not 20 of them.")
    ] = False,
    trust: Trust = None,
    as_json: AsJson = False,
) -> None:
    """Show a search and what was chosen, or a model.

    Candidates of the front are listed cheapest first; the one chosen has a star.
    """
    from emsco import CascadeClassifier
    from emsco.cli._models import as_search, load_asked, read_optional

    model = load_asked(run, trust)
    if isinstance(model, CascadeClassifier):
        _show_cascade(model, as_json=as_json)
    else:
        found = as_search(model, run)
        X, y = read_optional(found, fresh, label)
        scored = None if X is None else found.score_front(X, y)
        _show_search(found, scored, everything=everything, as_json=as_json)


def _show_search(found: CascadeSearchCV, scored: Any, *, everything: bool, as_json: bool) -> None:
    from emsco.cli._errors import in_shell, note
    from emsco.cli._print import (
        MOST_CANDIDATES,
        candidate_data,
        evenly,
        figures,
        print_candidates,
        print_json,
        print_text,
    )

    front, chosen = found.front_, found.best_candidate_
    fresh = None if scored is None else [candidate.fresh for candidate in scored]
    if as_json:
        candidates = [candidate_data(candidate) for candidate in front]
        for data, evaluation in zip(candidates, fresh or (), strict=bool(fresh)):
            data["fresh"] = figures(evaluation)
        chosen_data, reference = candidate_data(chosen), candidate_data(found.all_sources_)
        told = {"chosen": chosen_data, "all_sources": reference, "candidates": candidates}
        print_json(told | {"certificate": _certificate_data(found)})
        return
    marked = [front.index(chosen)] if chosen in front else []
    most = len(front) if everything else MOST_CANDIDATES
    places = evenly(len(front), marked, most)
    print_candidates(front, places, chosen, fresh)
    if len(places) < len(front):
        note(f"{len(places)} of {len(front)} candidates; --all shows every one.")
    print_text(in_shell(found.summary()))
    _print_certificate(_certificate_data(found))


def _show_cascade(cascade: CascadeClassifier, *, as_json: bool) -> None:
    from emsco.cli._print import print_json, print_text

    costs, design = cascade.costs_, cascade.design_
    stages: list[dict[str, Any]] = [
        {
            "sources": list(sources),
            "cost": costs.of(sources, paid=design.acquired(i - 1) if i else ()),
            "threshold": dict(
                zip(
                    map(str, cascade.classes_.tolist()),
                    cascade.thresholds_[i].tolist(),
                    strict=True,
                )
            ),
        }
        for i, sources in enumerate(cascade.stages_)
    ]
    certificate = _certificate_data(cascade)
    if as_json:
        told = {"stages": stages, "unit": costs.unit, "certificate": certificate}
        print_json({"labels": cascade.classes_.tolist(), **told})
        return
    print_text(f"A cascade for the labels {', '.join(map(str, cascade.classes_.tolist()))}:")
    for i, stage in enumerate(stages):
        needed = sorted({f"{t:.4g}" for t in stage["threshold"].values()})
        price = f"{stage['cost']:g} {costs.unit}".rstrip()
        print_text(
            f"  stage {i}: buy {', '.join(stage['sources'])} for {price}; accept from "
            f"{' to '.join(dict.fromkeys((needed[0], needed[-1])))}"
        )
    _print_certificate(certificate)


def _certificate_data(model: CascadeClassifier | CascadeSearchCV) -> dict[str, Any] | None:
    """Give the promise, whether it is about the cascade that decides, and if not, why."""
    certificate = getattr(model, "certificate_", None)
    if certificate is None:
        return None
    from emsco.certify import problem_with

    problem = problem_with(certificate, model)
    return {"sentence": certificate.sentence, "holds": not problem, "problem": problem}


def _print_certificate(certificate: dict[str, Any] | None) -> None:
    from emsco.cli._print import print_text

    if certificate is not None:
        print_text(certificate["sentence"])
        if certificate["problem"] not in certificate["sentence"]:
            print_text(certificate["problem"])
