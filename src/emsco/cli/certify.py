"""`emsco certify`: what a cascade keeps on rows that neither it nor the search has seen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from emsco.cli._errors import note
from emsco.cli._options import (
    AsJson,
    Force,
    MaxCost,
    MaxMissed,
    MaxRejected,
    MinPrecision,
    Trust,
    by_class,
    shares_by_label,
)

if TYPE_CHECKING:
    from emsco import Review
    from emsco.certify import Certificate, CertifiedCandidate

NOT_CERTIFIED = 1


def certify(
    model: Annotated[Path, typer.Argument(help="The folder of a search, or a model.")],
    rows: Annotated[Path, typer.Argument(help="Calibration rows: drawn like the rows to come.")],
    label: Annotated[
        str | None, typer.Option(help="The column that holds the label; not for --agreement.")
    ] = None,
    accuracy: Annotated[
        list[float] | None,
        typer.Option(
            help="The least share of accepted rows labelled right; given again, another question."
        ),
    ] = None,
    agreement: Annotated[
        list[float] | None,
        typer.Option(
            help="The least share of decisions left as the final model makes them; given again, "
            "another question."
        ),
    ] = None,
    max_missed: MaxMissed = None,
    max_rejected: MaxRejected = None,
    min_precision: MinPrecision = None,
    min_coverage: Annotated[
        float | None,
        typer.Option(
            help="The least share of rows accepted, to be certified too; 0: none, and candidates "
            "that accept few rows are tested as well."
        ),
    ] = None,
    max_cost: MaxCost = None,
    confidence: Annotated[
        float, typer.Option(help="One minus the chance of any false certificate.")
    ] = 0.99,
    groups: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="What rows belong together by, such as a patient: one row of each is used.",
        ),
    ] = None,
    keys: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="What names each row, so that none counts twice."),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            help="Which certified candidate is best: cost, coverage or accuracy. Without it, what "
            "was chosen, where that is certified, else the cheapest."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The certified model to write, with its certificate.")
    ] = None,
    trust: Trust = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Certify a search or a model on rows not seen before.

    Of a search, what it has chosen is tested first. Candidates are left out that do not keep, where
    they were selected, to what the search and the last choice were asked for, or that accept less
    than half of the rows, where nobody said how many.

    Rows serve once: what is asked is written to a ledger beside the model before it is answered,
    and other questions on the same rows are refused. To ask several, give --accuracy or
    --agreement several times.

    Ends with 0 where each question has a certified model and with 1 where one has none.
    """
    from emsco import CascadeClassifier, dump
    from emsco.certify import Targets, certify_together
    from emsco.cli._frames import read_names
    from emsco.cli._models import file_of, ledger_of, load_asked, read_fresh
    from emsco.cli._outputs import check_outputs
    from emsco.cli._print import print_json, print_text
    from emsco.exceptions import ColumnsError

    check_outputs([out], [file_of(model), rows], force=force)
    by_label = {
        "max_missed": shares_by_label(max_missed),
        "max_rejected": shares_by_label(max_rejected, "--max-rejected"),
        "min_precision": shares_by_label(min_precision, "--min-precision"),
    }
    known = load_asked(model, trust)
    if label is None and not agreement and getattr(known, "needs_labels", True):
        raise ColumnsError("--label names the column of labels; without labels only --agreement.")
    classes = known.classes_.tolist()
    shares = {
        name: by_class(own, classes, f"--{name.replace('_', '-')}")
        for name, own in by_label.items()
    }
    asked = [
        Targets(
            accuracy=least,
            agreement=agrees,
            **shares,
            min_coverage=min_coverage,
            max_cost=max_cost,
        )
        for least in accuracy or (None,)
        for agrees in agreement or (None,)
    ]
    X, y = read_fresh(known, rows, label)
    certificates = certify_together(
        known,
        X,
        y,
        asked,
        confidence=confidence,
        groups=None if groups is None else read_names(rows, groups),
        keys=None if keys is None else read_names(rows, keys),
        ledger=ledger_of(model),
        random_state=0,
    )
    found = [(certificate, _taken(certificate, by)) for certificate in certificates]
    first = next(((c, best) for c, best in found if best is not None), None)
    if first is not None and out is not None:
        chosen = first[1].candidate
        cascade = known if isinstance(known, CascadeClassifier) else known.cascade(chosen)
        cascade.certificate_ = first[0]
        dump(cascade, out)
    if as_json:
        told = [_data(certificate, best, known.costs_.review) for certificate, best in found]
        print_json(told[0] if len(told) == 1 else {"certificates": told})
    else:
        for certificate, best in found:
            print_text("\n".join(_lines(certificate, best)))
    if first is not None:
        note(f"Written: {out}" if out else "Nothing is written; --out model.emsco writes it.")
    if any(best is None for _, best in found):
        raise typer.Exit(NOT_CERTIFIED)


def _taken(certificate: Certificate, by: str | None) -> CertifiedCandidate | None:
    """Give what was chosen, if it is certified and nothing else is asked for; else the best."""
    if not certificate.certified:
        return None
    if by is None and certificate.chosen_one is not None:
        return certificate.chosen_one
    if not _accept_enough(certificate):
        return certificate.select("coverage", min_coverage=0)
    return certificate.select("cost" if by is None else by)


def _accept_enough(certificate: Certificate) -> bool:
    """Say whether any certified candidate accepts as many calibration rows as it should."""
    least = certificate.least_coverage
    return any(c.evaluation.coverage >= least for c in certificate.candidates)


def _lines(certificate: Certificate, best: CertifiedCandidate | None) -> list[str]:
    from emsco.cli._errors import in_shell

    notes = [note.replace("min_coverage=0", "--min-coverage 0") for note in certificate.notes]
    lines = [certificate.sentence, *map(in_shell, notes)]
    if best is None:
        return lines
    design, counted = best.candidate.design, best.evaluation
    lines.append(
        f"Certified: {len(certificate.candidates)} of {certificate.tried} candidates tested; of "
        f"them taken: {design}. On the calibration rows: {counted}."
    )
    if not _accept_enough(certificate):
        lines.append(
            f"None of them accepts {certificate.least_coverage:.4g} of the calibration rows; the "
            "one that accepts most was taken."
        )
    chosen = certificate.chosen
    if chosen is not None and best is not certificate.chosen_one:
        before = chosen.candidate
        lines.append(
            f"It replaces what was chosen: {design} accepts {counted.coverage:.1%} of the "
            f"calibration rows, {before.design}, which was chosen, "
            f"{before.evaluation.coverage:.1%} of the rows it was selected on."
        )
    told = [bound.phrase for bound in certificate.bounds_asked(best)]
    if told:
        lines.append(f"Bounds that hold as well, all at once: it {', '.join(told)}.")
    return lines


def _data(
    certificate: Certificate, best: CertifiedCandidate | None, review: Review | None
) -> dict[str, Any]:
    from emsco.cli._print import candidate_data, figures

    chosen = certificate.chosen
    data = {
        "certified": certificate.certified,
        "sentence": certificate.sentence,
        "notes": list(certificate.notes),
        "rows": certificate.rows,
        "tried": certificate.tried,
        "needed_rows": certificate.needed_rows,
        "candidates": len(certificate.candidates),
        "filters": list(certificate.filters),
        "choice": chosen
        and candidate_data(chosen.candidate, review)
        | {
            "tested": chosen.tested,
            "certified": certificate.chosen_one is not None,
            "why": chosen.why,
        },
    }
    if best is not None:
        bounds: dict[str, Any] = {}
        for told in certificate.bounds_asked(best):
            if told.label is None:
                bounds[told.name] = told.value
            else:
                bounds.setdefault(told.name, {})[str(told.label)] = told.value
        data |= {
            "chosen": candidate_data(best.candidate, review),
            "fresh": figures(best.evaluation, review),
            "replaces_choice": chosen is not None and best is not certificate.chosen_one,
            "bounds": bounds,
        }
    return data
