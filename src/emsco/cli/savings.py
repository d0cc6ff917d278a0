"""`emsco savings`: what an existing model would have cost with cheaper stages before it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from emsco.cli._errors import note
from emsco.cli._estimators import estimator_of
from emsco.cli._options import CertifyWay, options, read_allow
from emsco.cli._output_files import check_outputs
from emsco.cli._print import candidate_data, print_json, print_text
from emsco.cli._shadow_log import (
    ANSWER,
    HEADER,
    WIDTH,
    as_rows,
    line,
    print_shadow,
    turns,
    write_columns,
)
from emsco.exceptions import ModelError

if TYPE_CHECKING:
    from emsco.certify.savings import Saving, Savings

_SEARCHED = 4_000  # most rows for the search; the final fits use all
_FOLDS = 3
_SETS = 256  # most source sets to fit
_MAX_ROWS = 6


class StageKind(StrEnum):
    """The classifier of the stages before the model."""

    LOGISTIC = "logistic"
    BOOSTED = "boosted"


@options(
    log=typer.Argument(help="Rows as the model saw them: CSV or Parquet.", show_default=False),
    shadow=typer.Option(
        "--log",
        help="The --log folder of `emsco serve --shadow`, instead of rows. Without --costs, "
        "nothing is searched, and the savings of the cascade in shadow are shown.",
    ),
    costs="A file of prices, as written by `emsco costs init`.",
    model="The model, as a skops file or an .onnx file.",
    answers=typer.Option(
        metavar="COLUMN", help="The column of the model's answers, instead of --model."
    ),
    agreement=typer.Option(
        help="The minimum share of unchanged decisions; can be repeated.",
        show_default="0.98, 0.99 and 0.995",
    ),
    confidence="One minus the probability that any printed promise is false.",
    stages="The classifier of the stages before the model; boosted takes longer.",
    max_stages=typer.Option(min=2, help="The maximum number of stages, including the model."),
    changed="The file to write the decisions to that would have changed.",
    out="The cascade to write: the one with the highest certified agreement.",
)
def savings(
    log: Path | None = None,
    shadow: Path | None = None,
    costs: Path | None = None,
    model: Path | None = None,
    answers: str | None = None,
    agreement: list[float] | None = None,
    confidence: float = 0.99,
    way: CertifyWay | None = None,
    stages: StageKind = StageKind.BOOSTED,
    max_stages: int = 4,
    changed: Path | None = None,
    out: Path | None = None,
    allow: list[str] | None = None,
    trust: list[str] | None = None,
    force: bool = False,
    n_jobs: int = -1,
    random_state: int = 0,
    quiet: bool = False,
    as_json: bool = False,
    newlines_in_cells: bool = False,
) -> None:
    """Estimate what cheaper stages before your model would have saved.

    Your model stays as it is and answers the rows that the stages before it are not confident
    about. No labels are needed. One half of the log is used for the search, and the other half to
    find out what can be promised.

    With --log FOLDER and no --costs, nothing is searched: the command shows what the cascade
    recorded there by `emsco serve --shadow` would have saved and changed.
    """
    from emsco import CascadeSearchCV, LocalSearch, dump
    from emsco.certify.savings import savings as find_savings
    from emsco.cli._decision_stream import parts_for

    check_outputs([changed, out], [log, costs, model], force=force)
    if changed is not None:
        parts_for(changed)  # refuses an unknown file format before the search
    if shadow is not None and costs is None:
        _refuse_others(log=log, model=model, answers=answers, out=out, agreement=agreement)
        print_shadow(shadow, changed, as_json=as_json)
        return
    final, X, prices = _read(log, shadow, costs, model, answers, trust, newlines_in_cells)
    search = CascadeSearchCV(
        estimator_of(stages.value, X, random_state),
        costs=prices,
        final=final,
        target="agreement",
        # More source sets take longer, and the best of many is luck.
        search=LocalSearch(fits=_SETS) if 2 ** len(prices.names) > _SETS else None,
        luck=False,  # no choice is made: candidates are tested in a fixed order
        select={"by": "accuracy"},
        max_stages=max_stages,
        cv=_FOLDS,
        max_rows=_SEARCHED if len(X) > 2 * _SEARCHED else None,
        n_jobs=n_jobs,
        random_state=random_state,
        verbose=0 if quiet else 1,
    )
    targets = {} if agreement is None else {"agreement": agreement}
    found = find_savings(
        search,
        X,
        confidence=confidence,
        way=way,
        allow=read_allow(allow),
        random_state=random_state,
        **targets,
    )
    print_json(_data(found)) if as_json else print_text("\n".join(_lines(found, len(X))))
    best = next((saving for saving in reversed(found.each) if saving.best), None)
    if best is None or best.best is None:
        return
    if changed is not None:
        columns = {"row": best.changed, "before": best.before, "after": best.after}
        write_columns(changed, {name: values.tolist() for name, values in columns.items()})
        note(
            f"Written: {changed}, with the {len(best.changed)} decisions that change at an "
            f"agreement of {best.agreement:.4g}."
        )
    if out is not None:
        cascade = found.search.cascade(best.best.candidate)
        cascade.certificate_ = best.certificate
        dump(cascade, out)
        note(f"Written: {out}, which leaves at least {best.agreement:.4g} of decisions unchanged.")


def _read(
    log: Path | None,
    shadow: Path | None,
    costs: Path | None,
    model: Path | None,
    answers: str | None,
    trust: list[str] | None,
    newlines_in_cells: bool,
) -> tuple[Any, Any, Any]:
    """Read the model, the columns that have a price (in the model's order), and the prices."""
    from emsco.cli._labelled_frame import read_features, read_labelled
    from emsco.cli._table_file import open_rows
    from emsco.cli.search import load_costs, priced
    from emsco.io import load_final
    from emsco.learners.final_model import LoggedAnswers

    path = log if shadow is None else shadow
    if path is None or (log is not None and shadow is not None):
        raise ModelError("Give either a file of rows or --log, the log of a cascade in shadow.")
    if costs is None:
        raise ModelError("Give --costs, a file of prices, as written by `emsco costs init`.")
    if shadow is not None and model is None and answers is None:
        answers = ANSWER
    if (model is None) == (answers is None):
        raise ModelError(
            "Give either --model, a file, or --answers, the column of the model's answers."
        )
    with as_rows(path, beside=[ANSWER]) as file:
        rows = open_rows(file, newlines_in_cells=newlines_in_cells)
        prices = load_costs(costs)
        names = priced(rows, answers, prices, costs)
        if model is None:
            X, labels = read_labelled(rows, str(answers), names, types=prices.types)
            return LoggedAnswers(str(answers)), X.assign(**{str(answers): labels}), prices
        final = load_final(model, trusted=trust or ())
        known = list(getattr(final, "feature_names_in_", names))
        if set(known) != set(names):
            odd = sorted({*known} ^ {*names})
            raise ModelError(
                f"{model} and {costs} must name the same columns; {odd} are in only one of them."
            )
        return final, read_features(rows, known, types=prices.types), prices


def _refuse_others(**options: Any) -> None:
    """Refuse options that --log takes only together with --costs."""
    for name, value in options.items():
        if value:
            argument = "a file of rows" if name == "log" else f"--{name}"
            raise ModelError(
                f"--log takes {argument} only together with --costs, which searches for stages; "
                "without them, it shows what the cascade in shadow would have saved."
            )


def _lines(found: Savings, n_rows: int) -> list[str]:
    """Format savings as text."""
    costs, on = found.search.costs_, len(found.certified_on)
    unit = f" {costs.unit}".rstrip()
    head = (
        f"Your model costs {costs.total:,.4g}{unit} per row for all {len(costs.names)} sources. Of "
        f"{n_rows:,} rows, {len(found.searched):,} were used for the search and {on:,} to find out "
        f"what can be promised, with {found.confidence:.4g} confidence for all lines together:"
    )
    lines = [head, "", HEADER]
    for saving in found.each:
        share = f"at least {100 * saving.agreement:.4g}%"
        if saving.best is None:
            lines.append(f"{share.ljust(WIDTH)}  {saving.certificate.sentence}")
            continue
        lines.append(line(share, saving.cost, costs.total, len(saving.changed), on))
    for saving in found.each:
        if saving.best:
            lines += ["", _sentence(saving)]
    doubts = dict.fromkeys(doubt for saving in found.each for doubt in saving.certificate.doubts)
    return [*lines, "", *doubts] if doubts else lines


def _sentence(saving: Saving) -> str:
    """Describe the stages that reach an agreement, and the decisions that they change."""
    assert saving.best is not None
    *stages, _ = saving.best.candidate.design.stages
    sentence = (
        f"At {100 * saving.agreement:.4g}%: {' | '.join(', '.join(stage) for stage in stages)} | "
        f"your model; {saving.early:.1%} of rows never reach your model. "
    )
    if not len(saving.changed):
        return sentence + "No decision would have changed."
    each = turns(zip(saving.before.tolist(), saving.after.tolist(), strict=True))
    rows = ", ".join(map(str, saving.changed[:_MAX_ROWS].tolist()))
    more = ", ..." * (len(saving.changed) > _MAX_ROWS)
    return sentence + f"Changed: {each} (rows {rows}{more})."


def _data(found: Savings) -> dict[str, Any]:
    """Return savings as JSON data."""
    return {
        "total_cost": found.search.costs_.total,
        "unit": found.search.costs_.unit,
        "rows_searched": len(found.searched),
        "rows_certified_on": len(found.certified_on),
        "confidence": found.confidence,
        "savings": [
            {
                "agreement": saving.agreement,
                "certified": saving.best is not None,
                "sentence": saving.certificate.sentence,
                "way": saving.certificate.way,
                "needed_rows": saving.certificate.needed_rows,
                "cost": saving.cost,
                "early": saving.early,
                "changed": saving.changed.tolist(),
                "chosen": None if saving.best is None else candidate_data(saving.best.candidate),
            }
            for saving in found.each
        ],
    }
