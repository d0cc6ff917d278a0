"""A search compared with the truth: labels or the answers of its final model, on fresh rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from emsco._utils.progress import followed
from emsco.cascade.fingerprint import digest_of
from emsco.core.evaluation import Evaluation, evaluate_known
from emsco.core.front import Candidate
from emsco.core.scored_front import ScoredCandidate, ScoredFront, differences
from emsco.core.validation import (
    describe_unknown,
    read_given_labels,
    unknown_labels,
    weighted_as,
    weights_of,
)
from emsco.exceptions import (
    ClassesError,
    LabelsWarning,
    Parameter,
    SearchError,
    ValuesError,
    warn,
)
from emsco.learners.final_model import predict_labels
from emsco.learners.training import Training
from emsco.rows.columns import plain, refuse_invalid
from emsco.rows.ledger import Entry, ledger_of
from emsco.rows.row_sketch import Sketch
from emsco.search._problem_spec import ProblemSpec, evaluate_afresh
from emsco.search._stake_column import Stake, stake_of, without_stake
from emsco.search._summary import sentences_of_choice, sentences_of_fresh
from emsco.search._yardstick import sentence_of, yardstick_of
from emsco.search.fitted_search import check_chosen, chosen_cascade

Population = Mapping[Any, float] | None


def truth_of(search: Any, X: Any, y: ArrayLike | None) -> NDArray[Any]:
    """Return the truth for each row: its label, or the final model's answer."""
    if not search.needs_labels:
        if y is not None:
            raise ClassesError(
                "A search for agreement takes no `y`: the final model's answers are the truth."
            )
        return predict_labels(search.final, X, len(X))
    if y is None:
        raise ClassesError("`y` is needed: give the labels of X.")
    right: NDArray[Any] = column_or_1d(read_given_labels(y), warn=True)
    return right


def describe(
    search: Any, X: Any, y: ArrayLike | None, population: Population, stake: Any = None
) -> str:
    """Describe the choice; on fresh rows, also how it differs there from the selected figures."""
    check_chosen(search)
    choice, front, found = search.choice_, search.front_, search.found_
    chosen = choice.candidate
    summary = sentences_of_choice(
        chosen,
        search.all_sources_,
        front,
        search.classes_,
        choice.rule,
        choice.bounds,
        search.all_sources_at(chosen.evaluation.coverage),
        found.fitted_on(True, chosen.learner).rule,
        sentence_of(yardstick_of(found), found.reference, chosen.evaluation.coverage),
    )
    if X is None:
        if y is not None or population is not None or stake is not None:
            raise ClassesError(
                "`y`, `stake` and "
                + Parameter("population")
                + " need fresh rows; give the rows as X."
            )
        return summary
    cascade = chosen_cascade(search)
    X, at_stake = _apart(search, X, stake)
    truth = _known_truth(search, X, y, population)
    _record_figures(search, X, truth, [] if chosen in front else [chosen])
    decisions = cascade.decide(X)
    _check_lengths(len(decisions), len(truth))
    weighted = population is not None
    fresh = sentences_of_fresh(
        evaluate_known(decisions, truth, stake=at_stake, population=population),
        len(truth),
        chosen.evaluation,
        differences(
            chosen.evaluation,
            decisions,
            truth,
            repeats=front.repeats,
            within_classes=weighted,
            stake=at_stake,
        ),
        search.costs_,
        choice.bounds,
        population,
    )
    return summary + f"\n{fresh}"


def score_candidates(
    search: Any, X: Any, y: ArrayLike | None, population: Population, stake: Any = None
) -> ScoredFront:
    """Evaluate every candidate of the front on fresh rows."""
    check_is_fitted(search, "front_")
    X, at_stake = _apart(search, X, stake)
    truth, front = _known_truth(search, X, y, population), search.front_
    _record_figures(search, X, truth)
    evaluations = _evaluations(search, X, truth, population, at_stake)
    return ScoredFront(
        [ScoredCandidate(*pair) for pair in zip(front, evaluations, strict=True)],
        f"{front.measured_on} Fresh figures on {len(truth):,} other rows{weighted_as(population)}.",
    )


def _evaluations(
    search: Any, X: Any, truth: NDArray[Any], population: Population, stake: Stake
) -> list[Evaluation]:
    """Evaluate the front by counts if possible, and otherwise by decisions."""
    found, refit, guard = search.found_, search.refit, search.guard
    if not len(found.front):
        return []
    spec = found.spec
    is_counted = population is None and not unknown_labels(truth, found.classes)
    # A guard needs rows, not bits; a file has no rows to fit other stages on; and stages of a data
    # set are fitted to more rows than are in memory.
    if is_counted and guard is None and isinstance(found.stages, Training) and spec is not None:
        return _counted(search, X, truth, spec, stake)
    if found.searched is not None:
        found.fit_stages(refit)  # all of them in the same passes
    evaluations = []
    for candidate in followed(found.front, "decide fresh rows by every candidate"):
        decisions = found.cascade(candidate, refit, guard).decide(X)
        _check_lengths(len(decisions), len(truth))
        evaluations.append(evaluate_known(decisions, truth, stake=stake, population=population))
    return evaluations


def _counted(
    search: Any, X: Any, truth: NDArray[Any], spec: ProblemSpec, stake: Stake
) -> list[Evaluation]:
    """Evaluate the front by counts: each source set of each learner is fitted once."""
    found = search.found_
    rows = found.layout.read(search, X, found.layout.used, by_name=True)
    _check_lengths(len(rows), len(truth))
    columns = {}
    for name in found.layout.used:
        raw, reader = rows.columns[name], found.stages.reader(name)
        columns[name] = reader.as_declared(raw)
        values = plain(columns[name])
        refuse_invalid(values, name, missing_seen=reader.missing_seen, raw=raw)
    answers = None if found.final is None else predict_labels(found.final, X, len(rows))
    evaluations: dict[int, Evaluation] = {}
    for learner in found.learners:
        own = {place: c for place, c in enumerate(found.front) if c.learner == learner}
        if own:
            stages = found.fitted_on(search.refit, learner)
            fresh = evaluate_afresh(
                [*own.values()],
                found.costs,
                stages,
                columns,
                truth,
                answers,
                spec.engine,
                spec.n_jobs,
                stake,
            )
            evaluations |= zip(own, fresh, strict=True)
    return [evaluations[place] for place in range(len(found.front))]


def _apart(search: Any, X: Any, stake: Any) -> tuple[Any, Stake]:
    """Return fresh rows, and what is at stake on them; refuse stakes if `fit` had none."""
    is_by_stake = search.all_sources_.evaluation.is_by_stake
    if is_by_stake and stake is None:
        raise ValuesError(
            "`fit` was given stakes, so fresh figures need `stake` too: what is at stake on X."
        )
    if stake is not None and not search.needs_labels:
        raise SearchError("A search for agreement takes no `stake`; leave it out.")
    at_stake = stake_of(X, stake)
    return without_stake(X, stake, search.found_.layout.names), at_stake


def _known_truth(search: Any, X: Any, y: ArrayLike | None, population: Population) -> NDArray[Any]:
    """Return the truth of fresh rows; warn of labels that `fit` did not see.

    An answer of the final model that `fit` did not see is refused, and so is a population with a
    class that these rows lack.
    """
    truth, classes = truth_of(search, X, y), search.classes_
    labels, counts = np.unique(truth, return_counts=True)
    unknown = unknown_labels(truth, classes)
    if unknown and not search.needs_labels:
        raise ClassesError(
            f"The final model answers {next(iter(unknown))!r}, which `fit` did not see."
        )
    if unknown:
        warn(
            "`y` holds labels that `fit` did not see, so no such row can be right: "
            + describe_unknown(unknown, classes.tolist()),
            LabelsWarning,
        )
    if population is not None:
        weights_of(population, dict(zip(labels.tolist(), counts.tolist(), strict=True)))
    return truth


def _record_figures(
    search: Any, X: Any, truth: NDArray[Any], more: Sequence[Candidate] = ()
) -> None:
    """Record in the ledger that these rows show figures of the front, before they do.

    A cascade that is later certified on them may have been chosen because of these figures, even if
    they were the figures of another candidate; and so may the kind of target and its class. So it
    is recorded how many figures of each cascade a certificate can be about: accuracy or agreement,
    coverage and cost, and of each class what is missed, what is rejected and the precision.
    """
    fitted = search.found_.rows
    if not fitted.digest:
        return
    known = search.found_.layout.read_known(X)
    _check_lengths(len(known), len(truth))
    front = [c.identity for c in (*search.front_, *more)]
    entry = Entry(
        digest_of(["shown", front]),
        0.0,
        len(front),
        fitted.look(known),
        fitted=fitted.digest,
        sketch=Sketch.of(known.columns, truth),
        figures=3 + 3 * len(search.classes_),
    )
    with ledger_of(fitted.digest).open() as record:
        record([entry])


def _check_lengths(n_rows: int, n_labels: int) -> None:
    """Refuse labels that are more or fewer than the rows."""
    if n_rows != n_labels:
        raise ClassesError(f"X has {n_rows} rows but `y` has {n_labels}.")
