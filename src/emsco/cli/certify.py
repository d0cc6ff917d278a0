"""`emsco certify`: what a cascade keeps on rows that neither it nor the search has seen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from emsco.cli._options import (
    AsJson,
    MaxCost,
    MaxMissed,
    MinCoverage,
    Trust,
    by_class,
    shares_by_label,
)
from emsco.cli._told import note

if TYPE_CHECKING:
    from emsco.certify import Certificate, CertifiedCandidate

NOT_CERTIFIED = 1


def certify(
    model: Annotated[Path, typer.Argument(help="The folder of a search, or a model.")],
    rows: Annotated[Path, typer.Argument(help="Calibration rows: drawn like the rows to come.")],
    label: Annotated[
        str | None, typer.Option(help="The column that holds the label; not for --agreement.")
    ] = None,
    accuracy: Annotated[
        float | None, typer.Option(help="The least share of accepted rows labelled right.")
    ] = None,
    agreement: Annotated[
        float | None,
        typer.Option(help="The least share of decisions left as the final model makes them."),
    ] = None,
    max_missed: MaxMissed = None,
    min_coverage: MinCoverage = None,
    max_cost: MaxCost = None,
    confidence: Annotated[
        float, typer.Option(help="One minus the chance of any false certificate.")
    ] = 0.99,
    share: Annotated[
        float | None,
        typer.Option(help="The part of that chance spent here, where rows serve several times."),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="What rows belong together by, such as a patient: one row of each is used.",
        ),
    ] = None,
    by: Annotated[
        str, typer.Option(help="Which certified candidate is best: cost, coverage or accuracy.")
    ] = "cost",
    out: Annotated[
        Path | None, typer.Option(help="The certified model to write, with its certificate.")
    ] = None,
    trust: Trust = None,
    as_json: AsJson = False,
) -> None:
    """Certify a search or a model on rows not seen before.

    The file certified remembers the rows, by hashes, and refuses them for another certificate.

    Ends with 0 where one is certified and with 1 where none is.
    """
    from emsco import CascadeClassifier, dump
    from emsco.certify import certify as certify_model
    from emsco.cli._frames import read_names
    from emsco.cli._models import file_of, load_any, read_fresh
    from emsco.cli._print import print_json, print_text
    from emsco.exceptions import ColumnsError

    shares = shares_by_label(max_missed)
    known = load_any(model, trust)
    if label is None and agreement is None:
        raise ColumnsError("--label names the column of labels; without labels only --agreement.")
    X, y = read_fresh(known, rows, label)
    certificate = certify_model(
        known,
        X,
        y,
        accuracy=accuracy,
        agreement=agreement,
        max_missed=by_class(shares, known.classes_.tolist()),
        confidence=confidence,
        min_coverage=min_coverage,
        max_cost=max_cost,
        share=share,
        groups=None if groups is None else read_names(rows, groups),
        random_state=0,
    )
    best = certificate.select(by) if certificate.certified else None
    dump(known, file_of(model))  # rows that were asked on are spent, whatever the answer
    if best is not None and out is not None:
        cascade = known if isinstance(known, CascadeClassifier) else known.cascade(best.candidate)
        cascade.certificate_ = certificate
        dump(cascade, out)
    if as_json:
        print_json(_data(certificate, best))
    else:
        print_text("\n".join([certificate.sentence, *_lines(certificate, best)]))
    if best is None:
        raise typer.Exit(NOT_CERTIFIED)
    note(f"Written: {out}" if out else "Nothing is written; --out model.emsco writes it.")


def _lines(certificate: Certificate, best: CertifiedCandidate | None) -> list[str]:
    if best is None:
        return []
    bounds = best.bounds
    missed = ", ".join(f"{share:.1%} of {label!r}" for label, share in bounds.missed.items())
    cost = f"{bounds.cost:.4g} {certificate.unit}".rstrip()
    return [
        f"Certified: {len(certificate.candidates)} of {certificate.tried} candidates tested; of "
        f"them chosen: {best.candidate.design}",
        f"Bounds that hold as well, all at once: right on at least {bounds.accuracy:.1%} of the "
        f"rows it accepts, accepts {bounds.coverage[0]:.1%} to {bounds.coverage[1]:.1%}, pays at "
        f"most {cost} a row, misses at most {missed}.",
    ]


def _data(certificate: Certificate, best: CertifiedCandidate | None) -> dict[str, Any]:
    from emsco.cli._print import candidate_data

    data = {
        "certified": certificate.certified,
        "sentence": certificate.sentence,
        "rows": certificate.rows,
        "tried": certificate.tried,
        "needed_rows": certificate.needed_rows,
        "candidates": len(certificate.candidates),
    }
    if best is not None:
        bounds = best.bounds._asdict()
        bounds["missed"] = {str(label): share for label, share in best.bounds.missed.items()}
        data |= {"chosen": candidate_data(best.candidate), "bounds": bounds}
    return data
