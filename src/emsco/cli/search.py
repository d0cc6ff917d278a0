"""`emsco search`: search a table with prices, and write the front and the chosen model."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from emsco._utils.progress import hush, tell
from emsco.cli._errors import in_shell, note
from emsco.cli._estimators import LOGISTIC, estimator_of
from emsco.cli._model_file import MODEL, SEARCH
from emsco.cli._options import (
    EngineName,
    options,
    read_caution,
    read_label_weights,
    read_measures,
    refuse_address,
    workers_of,
)
from emsco.cli._output_files import check_outputs
from emsco.cli._print import candidate_data, evenly, print_json, print_text
from emsco.core.measure import Measure
from emsco.core.measures import boundable
from emsco.core.value_type import NUMBER_TYPE, TEXT_TYPE
from emsco.exceptions import (
    ArtifactError,
    ClassesError,
    ColumnsError,
    CostsError,
    Keyword,
    Message,
    SelectionError,
    ValuesError,
    quoted,
)

if TYPE_CHECKING:
    from emsco import CascadeSearchCV, Costs
    from emsco.cli._table_file import TableFile

# Of columns that are no features, unless a stake has a price too.
_TYPES = {"groups": TEXT_TYPE, "sample_weight": NUMBER_TYPE, "stake": NUMBER_TYPE}


def _limits() -> dict[str, Measure]:
    """Return the measures that a search can limit while it runs."""
    return {name: boundable()[name] for name in ("max_missed", "max_rejected")}


@options(
    measures=_limits(),
    costs="A file of prices, as written by `emsco costs init`, or a price list in CSV, a column "
    "and its price on each line. Without it, every column costs 1.",
    out="The folder to write.",
    label_weights=typer.Option(
        metavar="balanced|LABEL=WEIGHT",
        help="What labels weigh: a row gets the label of the largest weight times probability. "
        "One per class (repeat the option), or balanced: one over the share of each class. Without "
        "it, the prices of errors in the file of costs.",
    ),
    max_stages=typer.Option(min=1, help="The maximum number of stages."),
    threshold="The confidence needed to accept; can be repeated. Without it, thresholds are "
    "searched too.",
    guard="Reject rows with values unlike those seen in training, and give the reason.",
    estimator=typer.Option(
        metavar="logistic|boosted|auto|forest|module:Class",
        help="The classifier of a stage: logistic regression, boosted trees, both (auto: each "
        "candidate says which), a random forest, or a class of yours with fit and predict_proba. "
        "All but the first take longer.",
    ),
    groups=typer.Option(
        metavar="COLUMN",
        help="The column that says which rows belong together, such as a patient: all rows of a "
        "group are in one fold.",
    ),
    sample_weight=typer.Option(
        metavar="COLUMN",
        help="The column that says how much a row counts in fits; it changes no count.",
    ),
    stake=typer.Option(
        metavar="COLUMN",
        help="The column that says what is at stake on a row, such as an amount: accuracy, "
        "coverage and other shares are then shares of it. It is a feature only if it has a price.",
    ),
    cv=typer.Option(min=2, help="The number of folds."),
    max_rows=typer.Option(
        min=2,
        help="The maximum number of rows for the search; the final fits use all rows. Without it, "
        "a search that would take long draws at least 10,000, with a warning.",
    ),
    max_candidates=typer.Option(min=1, help="The maximum number of fitted candidates to keep."),
    checkpoint="The file that holds the fitted models until the search is finished. Without it, "
    "checkpoint.emsco in the output folder.",
)
def search(
    data: Path,
    label: str,
    costs: Path | None = None,
    out: Path = Path("run"),
    max_stages: int = 4,
    threshold: list[float] | None = None,
    label_weights: list[str] | None = None,
    *,
    measures: dict[str, Any],
    caution: str | None = None,
    guard: bool = True,
    estimator: str = LOGISTIC,
    groups: str | None = None,
    sample_weight: str | None = None,
    stake: str | None = None,
    cv: int = 5,
    max_rows: int | None = None,
    max_candidates: int = 1000,
    checkpoint: Path | None = None,
    force: bool = False,
    n_jobs: int = -1,
    engine: EngineName = EngineName.local,
    address: str | None = None,
    random_state: int = 0,
    quiet: bool = False,
    as_json: bool = False,
    newlines_in_cells: bool = False,
) -> None:
    """Search which sources to buy in which order, and choose a cascade.

    Writes search.emsco, which holds the non-dominated candidates, each fitted on all rows, and
    model.emsco, the chosen one: the cheapest that accepts at least 80% of the rows, rejects no
    more of a class than 5% or twice the share of all rows, and is shown, with a margin (--caution),
    to be not worse than all sources at once in accuracy and in the recall of every class. After an
    interruption, run the same command again to continue.
    """
    from sklearn.model_selection import StratifiedGroupKFold

    from emsco import CascadeSearchCV, InputGuard, dump
    from emsco.cli._findings import note_copies, used_columns
    from emsco.cli._table_file import open_rows
    from emsco.search import yardstick_of
    from emsco.search.checkpoint import is_there, remove

    if quiet:
        hush()
    refuse_address(engine, address)
    checkpoint_file = checkpoint or out / "checkpoint.emsco"
    # An interrupted search continues, even if it was overwriting an existing run.
    outputs = [checkpoint_file, out / SEARCH, out / MODEL]
    check_outputs(outputs, [data, costs], force=force or is_there(checkpoint_file))
    limits = read_measures(_limits(), measures)
    careful, weights = read_caution(caution), read_label_weights(label_weights)
    rows = open_rows(data, newlines_in_cells=newlines_in_cells)
    named = {"groups": groups, "sample_weight": sample_weight, "stake": stake}
    roles = {parameter: column for parameter, column in named.items() if column is not None}
    X, y, prices, more = _read(rows, label, costs, roles)
    _check_folds(y, cv)
    max_shares = limits(set(y.tolist()))
    try:  # before the search, so that a failure costs no time
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArtifactError(f"{out} cannot be a folder: {error.strerror}.") from error
    X, prices = used_columns(X, y, prices)
    learner = estimator_of(estimator, X, random_state)
    found = CascadeSearchCV(
        learner,
        costs=prices,
        max_stages=max_stages,
        threshold=[*threshold] if threshold else "auto",
        label_weights=weights,
        select=None if careful is None else {"caution": careful},
        **max_shares,
        guard=InputGuard(pool="auto") if guard else None,
        cv=cv if groups is None else StratifiedGroupKFold(cv),
        max_rows=max_rows,
        checkpoint=checkpoint_file,
        n_jobs=n_jobs,
        random_state=random_state,
        verbose=0 if quiet else 1,
    )
    try:
        with workers_of(engine, address, n_jobs) as workers:
            found.engine = workers
            _fit(found, X, y, more)
        found.engine = None
        n_front = len(found.front_)
        _fit_candidates(found, max_candidates)
        tell("fit boosted trees on all sources, for comparison")
        yardstick_of(found.found_)
        tell("write the search")
        dump(found, out / SEARCH)
        dump(found.best_cascade_, out / MODEL)
    except KeyboardInterrupt:
        if checkpoint_file.exists():
            note(
                f"emsco: {checkpoint_file} holds the fitted models; run the same command again to "
                "continue."
            )
        raise
    remove(checkpoint_file, found.found_.learners)
    if groups is None:
        note_copies(found.fitted_rows_)
    if as_json:
        print_json(_data(found, n_front, out))
    else:
        print_text(in_shell(found.summary()))
    note(f"Written: {out / SEARCH}, the search, and {out / MODEL}, the chosen cascade.")


def _read(
    rows: TableFile, label: str, costs: Path | None, roles: dict[str, str]
) -> tuple[Any, Any, Any, dict[str, Any]]:
    """Read the columns that have a price, or all columns without a file of prices.

    `roles` are columns with groups or weights: they are no features, and returned by themselves.
    """
    from emsco.cli._labelled_frame import read_labelled
    from emsco.cli._table_file import check_columns

    check_columns(rows, [label, *roles.values()])
    types = {column: _TYPES[parameter] for parameter, column in roles.items()}

    if costs is None:
        note(
            "emsco: no --costs given, so every column costs 1; `emsco costs init` writes a file of "
            "prices to fill in."
        )
        X, y = read_labelled(rows, label, types=types)
        prices = None
    else:
        prices = load_costs(costs)
        at_stake = roles.get("stake")
        names = priced(rows, label, prices, costs, roles.values(), may_be_priced=at_stake)
        if at_stake in names:
            del types[at_stake]  # it is read as the feature that it is, too
        X, y = read_labelled(rows, label, [*names, *types], types={**prices.types, **types})
    more = {parameter: X[column].to_numpy() for parameter, column in roles.items()}
    X = X.drop(columns=[*types])
    if "stake" in more:
        _check_stake(more["stake"], roles["stake"])
    if "sample_weight" in more:
        _check_weight(more["sample_weight"], roles["sample_weight"])
    return X, y, prices, more


def _check_stake(stake: Any, column: str) -> None:
    from emsco.core.stakes import read_stake

    try:
        read_stake(stake, len(stake))
    except ValuesError as error:
        raise ValuesError(f"In {column!r}: {error}", row=error.row, column=column) from error


def _check_weight(weight: Any, column: str) -> None:
    import numpy as np

    numbers = weight if weight.dtype.kind in "fiub" else np.full(len(weight), np.nan)
    bad = ~(np.isfinite(numbers) & (numbers >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise ValuesError(
            f"Weights must be numbers of 0 or more; in {column!r}, row {row} is {weight[row]!r}.",
            row=row,
            column=column,
        )


def priced(
    rows: TableFile,
    label: str | None,
    prices: Costs,
    costs: Path,
    roles: Iterable[str] = (),
    *,
    may_be_priced: str | None = None,
) -> list[str]:
    """Return the columns of a file that have a price, in file order.

    The label must have none, nor the columns of other roles, which are groups and weights; a stake
    may have one.
    """
    from emsco.cli._table_file import check_columns

    features = dict.fromkeys(prices.features)
    if label in features:
        raise ColumnsError(
            f"{costs} has a price for {label!r}, which is the label; delete that line."
        )
    both = [name for name in roles if name in features and name != may_be_priced]
    if both:
        raise ColumnsError(
            f"{costs} has a price for {both[0]!r}, which holds groups or weights; delete that line."
        )
    check_columns(rows, [*features] if label is None else [*features, label])
    left_out = {label, *prices.skipped, *roles}
    unpriced = [name for name in rows.names if name not in left_out and name not in features]
    if unpriced:
        note(f"emsco: not used, because {costs} has no price for them: {quoted(unpriced)}.")
    return [name for name in rows.names if name in features]


def load_costs(path: Path) -> Any:
    """Read a file of prices."""
    from emsco.core.validation import read_costs

    try:
        return read_costs(path)
    except OSError as error:
        raise CostsError(
            f"{path} cannot be read: {error.strerror}; `emsco costs init` creates such a file."
        ) from error


def _check_folds(y: Any, cv: int) -> None:
    import numpy as np

    labels, counts = np.unique(y, return_counts=True)
    if counts.min() < cv:
        rare = labels[counts.argmin()]
        raise ClassesError(
            f"--cv {cv} needs {cv} rows of every class, but only {counts.min()} have the label "
            f"{rare}; add rows, leave the class out, or use fewer folds."
        )


def _fit(found: CascadeSearchCV, X: Any, y: Any, more: dict[str, Any]) -> None:
    """Search; if the default rule finds no candidate, choose the one with most coverage."""
    from emsco.search.default_rule import LEAST_COVERAGE

    try:
        found.fit(X, y, **more)
    except SelectionError:
        if not len(getattr(found, "front_", ())):
            raise
        limits = {"max_missed": found.max_missed, "max_rejected": found.max_rejected}
        within = Message(" and ").join(Keyword(name, most) for name, most in limits.items() if most)
        note(
            f"emsco: warning: No design within {in_shell(within)} accepts {LEAST_COVERAGE:.0%} of "
            "the rows and is not worse than all sources at once; the candidate that accepts most "
            "rows was chosen."
        )
        found.choose(by="coverage")


def _fit_candidates(found: CascadeSearchCV, most: int) -> None:
    """Fit the stages of the front, so that any of its cascades can be chosen without the rows.

    A larger front is thinned evenly to `most` candidates.
    """
    from dataclasses import replace

    front, chosen = found.front_, found.best_candidate_
    if len(front) > most:
        places = evenly(len(front), [front.index(chosen)] if chosen in front else [], most)
        remark = f"{len(places):,} of {len(front):,} candidates were kept, evenly spaced."
        found.found_ = replace(found.found_, front=front.thinned(places, remark))
    found.found_.fit_stages(found.refit)


def _data(found: CascadeSearchCV, n_front: int, out: Path) -> dict[str, Any]:
    from emsco.search import yardstick_of

    review, boosted = found.costs_.review, yardstick_of(found.found_)
    return {
        "candidates": n_front,
        "candidates_kept": len(found.front_),
        "total_cost": found.costs_.total,
        "unit": found.costs_.unit,
        "chosen": candidate_data(found.best_candidate_, review) | {"rule": found.choice_.rule},
        "all_sources": candidate_data(found.all_sources_, review),
        "boosted_trees": None if boosted is None else candidate_data(boosted.answering(), review),
        "luck": found.front_.luck,
        "measured_on": found.front_.measured_on,
        "files": [str(out / SEARCH), str(out / MODEL)],
    }
