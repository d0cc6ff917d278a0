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
    MinCoverage,
    Trust,
    by_class,
    shares_by_label,
)

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
    min_coverage: MinCoverage = None,
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
        str, typer.Option(help="Which certified candidate is best: cost, coverage or accuracy.")
    ] = "cost",
    out: Annotated[
        Path | None, typer.Option(help="The certified model to write, with its certificate.")
    ] = None,
    trust: Trust = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Certify a search or a model on rows not seen before.

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
    shares = shares_by_label(max_missed)
    known = load_asked(model, trust)
    if label is None and not agreement and getattr(known, "needs_labels", True):
        raise ColumnsError("--label names the column of labels; without labels only --agreement.")
    missed = by_class(shares, known.classes_.tolist()) or {}
    asked = [
        Targets(
            accuracy=least,
            agreement=agrees,
            max_missed=missed,
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
    found = [(c, c.select(by) if c.certified else None) for c in certificates]
    first = next(((c, best) for c, best in found if best is not None), None)
    if first is not None and out is not None:
        chosen = first[1].candidate
        cascade = known if isinstance(known, CascadeClassifier) else known.cascade(chosen)
        cascade.certificate_ = first[0]
        dump(cascade, out)
    if as_json:
        told = [_data(certificate, best) for certificate, best in found]
        print_json(told[0] if len(told) == 1 else {"certificates": told})
    else:
        for certificate, best in found:
            print_text("\n".join([certificate.sentence, *_lines(certificate, best)]))
    if first is not None:
        note(f"Written: {out}" if out else "Nothing is written; --out model.emsco writes it.")
    if any(best is None for _, best in found):
        raise typer.Exit(NOT_CERTIFIED)


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
