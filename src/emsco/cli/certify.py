"""`emsco certify`: certify a search or a model on rows that it has not seen."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from emsco.cli._errors import in_shell, note
from emsco.cli._model_file import file_of, keep_beside_rows, load_with_ledger, read_fresh
from emsco.cli._options import CertifyWay, options, read_allow, read_measures
from emsco.cli._output_files import check_outputs
from emsco.cli._print import candidate_data, figures, print_json, print_text
from emsco.core.measures import certifiable

if TYPE_CHECKING:
    from emsco import Review
    from emsco.certify import Certificate, CertifiedCandidate

NOT_CERTIFIED = 1
BEST = ("cost", "coverage", "accuracy")  # what `--by` was about before it named groups


@options(
    measures=certifiable(),
    repeated=True,
    min_coverage=", which is certified as well. 0: no minimum, so candidates that accept few rows "
    "are tested too.",
    model="The folder of a search, or a model file.",
    rows="Calibration rows, drawn in the same way as future rows: CSV, Parquet, or the "
    "--log folder of `emsco serve --shadow`.",
    label="The label column; not used with --agreement.",
    confidence="One minus the probability of any false certificate.",
    groups=typer.Option(
        metavar="COLUMN",
        help="The column of groups, such as patients: one random row per group is used.",
    ),
    keys=typer.Option(
        metavar="COLUMN", help="The column that identifies each row, so that none counts twice."
    ),
    final_fitted_elsewhere="Declare that the final model has not seen these rows. This cannot be "
    "checked, so it is required to certify a cascade with a final model by labels.",
    stake=typer.Option(
        metavar="COLUMN",
        help="The column of what is at stake in a row, such as an amount: all shares are then "
        "shares of the stake. It needs --cap.",
    ),
    cap="The largest stake of a row that may be accepted, fixed before the rows are looked at. "
    "Rows above it go to review.",
    by=typer.Option(
        metavar="COLUMN",
        help="The column of groups, such as sex or region: everything must hold in every group.",
    ),
    every="With --by: certify what holds in every group, or list the groups in which the chosen "
    "candidate keeps it.",
    take="How to choose among certified candidates: cost, coverage or accuracy. Without "
    "it, the chosen candidate if it is certified, otherwise the cheapest.",
    out="The file for the certified model and its certificate.",
)
def certify(
    model: Path,
    rows: Path,
    label: str | None = None,
    *,
    measures: dict[str, Any],
    confidence: float = 0.99,
    groups: str | None = None,
    keys: str | None = None,
    allow: list[str] | None = None,
    final_fitted_elsewhere: bool = False,
    way: CertifyWay | None = None,
    stake: str | None = None,
    cap: float | None = None,
    by: str | None = None,
    every: bool = True,
    take: str | None = None,
    out: Path | None = None,
    trust: list[str] | None = None,
    force: bool = False,
    as_json: bool = False,
    newlines_in_cells: bool = False,
) -> None:
    """Certify a search or a model on rows that it has not seen.

    For a search, the chosen candidate is tested first. A candidate is left out if its selected
    figures break the bounds of the search or of the last choice, or if it accepts less than half of
    the rows and no --min-coverage is set.

    The --log folder of `emsco serve --shadow` can be given as rows too: use its column `_key` (the
    HMAC of the key) for --groups, and `_truth` (the label that was sent) for --label.

    Rows can be used only once: each question is written to a ledger beside the rows and beside the
    model before it is answered, and further questions on the same rows are refused, whichever model
    they are about. To ask several questions, repeat --accuracy or --agreement.

    What replaces the chosen candidate keeps what the choice kept on the searched rows: its bounds,
    and no class is lost. The exit code is 0 if there is such a certified model for every question,
    and 1 otherwise; what else could be certified is then listed.
    """
    from emsco import CascadeClassifier, dump
    from emsco.certify import Targets, certify_together
    from emsco.cli._labelled_frame import read_features, read_groups_of, read_names
    from emsco.cli._shadow_log import as_rows
    from emsco.cli._table_file import open_rows
    from emsco.exceptions import ColumnsError

    check_outputs([out], [file_of(model), rows], force=force)
    read = read_measures(certifiable(), measures)
    known = load_with_ledger(model, trust)
    keep_beside_rows(known, rows)
    if label is None and not measures["agreement"] and getattr(known, "needs_labels", True):
        raise ColumnsError(
            "Give --label, the column of labels; without labels, only --agreement can be certified."
        )
    targets = [Targets(**question) for question in _questions(read(known.classes_.tolist()))]
    with as_rows(rows, label) as file:
        opened = partial(open_rows, file, newlines_in_cells=newlines_in_cells)
        X, y = read_fresh(known, opened(), label)
        if by in BEST and by not in opened().names:
            note(f"emsco: --by {by} is now --take {by}.")
            by, take = None, by
        staked = None if stake is None else read_features(opened(), [stake], again=True)[stake]
        by_group = None if by is None else read_groups_of(opened(), by)
        group_of = None if groups is None else read_names(opened(), groups)
        key_of = None if keys is None else read_names(opened(), keys)
    certificates = certify_together(
        known,
        X,
        y,
        targets,
        confidence=confidence,
        groups=group_of,
        keys=key_of,
        way=way,
        stake=staked,
        cap=cap,
        by=by_group,
        every=every,
        allow=read_allow(allow),
        random_state=0,
        final_fitted_elsewhere=final_fitted_elsewhere,
    )
    found = [(certificate, _taken(certificate, take)) for certificate in certificates]
    first = next(((c, best) for c, best in found if best is not None), None)
    if first is not None and out is not None:
        chosen = first[1].candidate
        cascade = known if isinstance(known, CascadeClassifier) else known.cascade(chosen)
        if first[0].stake is not None:
            cascade = first[0].enforce(cascade)
        cascade.certificate_ = first[0]
        dump(cascade, out)
    if as_json:
        data = [_data(certificate, best, known.costs_.review) for certificate, best in found]
        print_json(data[0] if len(data) == 1 else {"certificates": data})
    else:
        for certificate, best in found:
            print_text("\n".join(_lines(certificate, best)))
    if first is not None:
        nothing = "Nothing was written; use --out model.emsco to write it."
        note(f"Written: {out}" if out else nothing)
    if any(best is None for _, best in found):
        raise typer.Exit(NOT_CERTIFIED)


def _questions(targets: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the targets of each question: all combinations of those that were repeated."""
    repeated = {name: values for name, values in targets.items() if isinstance(values, list)}
    for values in product(*repeated.values()):
        yield targets | dict(zip(repeated, values, strict=True))


def _taken(certificate: Certificate, take: str | None) -> CertifiedCandidate | None:
    """Return the chosen candidate if it is certified and nothing else is asked, or the best."""
    if not certificate.suitable:
        return None
    if take is None and certificate.chosen_one is not None:
        return certificate.chosen_one
    if not _accept_enough(certificate):
        return certificate.select("coverage", min_coverage=0)
    return certificate.select("cost" if take is None else take)


def _accept_enough(certificate: Certificate) -> bool:
    """Return whether any certified candidate reaches the minimum coverage."""
    least = certificate.least_coverage
    return any(c.evaluation.coverage >= least for c in certificate.suitable)


def _lines(certificate: Certificate, best: CertifiedCandidate | None) -> list[str]:

    lines = [certificate.sentence, *map(in_shell, certificate.notes)]
    if best is None:
        return [*lines, *([certificate.why_not_kept] if certificate.certified else [])]
    design, counted = best.candidate.design, best.evaluation
    lines.append(
        f"Certified: {len(certificate.candidates)} of {certificate.tried} candidates. Used: "
        f"{design}. On the calibration rows: {counted.in_one_line}."
    )
    if not _accept_enough(certificate):
        lines.append(
            f"None of them accepts at least {certificate.least_coverage:.4g} of the calibration "
            "rows, so the one that accepts the most is used."
        )
    chosen = certificate.chosen
    if chosen is not None and best is not certificate.chosen_one:
        before = chosen.candidate
        lines.append(
            f"It replaces the chosen candidate: {design} accepts {counted.coverage:.1%} of the "
            f"calibration rows; {before.design}, the chosen one, accepts "
            f"{before.evaluation.coverage:.1%} of the rows it was selected on."
        )
    phrases = [bound.phrase for bound in certificate.bounds_asked(best)]
    if phrases:
        lines.append(f"These bounds also hold, all at once: it {', '.join(phrases)}.")
    return lines


def _counted(certificate: Certificate) -> dict[str, Any]:
    """Return what is said of a stake and of groups, if there are any."""
    data: dict[str, Any] = {}
    if certificate.stake is not None:
        effective = {"effective_rows": certificate.stake.effective_rows}
        data["stake"] = certificate.stake.to_data() | effective
    if certificate.groups is not None:
        data["groups"] = certificate.groups.to_data() | {"passed": [*certificate.groups_passed]}
    return data


def _data(
    certificate: Certificate, best: CertifiedCandidate | None, review: Review | None
) -> dict[str, Any]:

    chosen = certificate.chosen
    data = {
        "certified": certificate.certified,
        "sentence": certificate.sentence,
        "notes": list(certificate.notes),
        "way": certificate.way,
        "rows": certificate.rows,
        "tried": certificate.tried,
        **_counted(certificate),
        "needed_rows": certificate.needed_rows,
        "candidates": len(certificate.candidates),
        "suitable": len(certificate.suitable),
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
        for bound in certificate.bounds_asked(best):
            if bound.label is None:
                bounds[bound.measure.name] = bound.value
            else:
                bounds.setdefault(bound.measure.name, {})[str(bound.label)] = bound.value
        data |= {
            "chosen": candidate_data(best.candidate, review),
            "fresh": figures(best.evaluation, review),
            "replaces_choice": chosen is not None and best is not certificate.chosen_one,
            "bounds": bounds,
        }
    return data
