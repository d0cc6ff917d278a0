"""A search compared with the truth: labels or the answers of its final model, on fresh rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from emsco._utils.progress import followed
from emsco.cascade.fingerprint import digest_of
from emsco.core.breakdown import Breakdown, break_down
from emsco.core.decisions import Decisions
from emsco.core.evaluation import Evaluation, evaluate_known
from emsco.core.front import Candidate
from emsco.core.group_labels import GroupLabels, read_group_labels
from emsco.core.scored_front import ScoredCandidate, ScoredFront, differences
from emsco.core.validation import (
    describe_unknown,
    read_given_labels,
    unknown_labels,
    weighted_as,
    weights_of,
)
from emsco.exceptions import ClassesError, LabelsWarning, Parameter, warn
from emsco.learners.final_model import predict_labels
from emsco.learners.training import Training
from emsco.rows.columns import plain, refuse_invalid
from emsco.rows.ledger import Entry, ledger_of
from emsco.rows.row_sketch import Sketch
from emsco.search._problem_spec import ProblemSpec, evaluate_afresh
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
    search: Any, X: Any, y: ArrayLike | None, population: Population, by: Any = None
) -> str:
    """Describe the choice; on fresh rows, also how it differs there from the selected figures.

    With the groups of the fresh rows, or else of those given to `fit`, each group is described.
    """
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
        if y is not None or population is not None:
            raise ClassesError(
                "`y` and " + Parameter("population") + " need fresh rows; give the rows as X."
            )
        if by is None:
            return summary
        return summary + f"\nBy group, on the same rows:\n{found.breakdown(chosen, by)}"
    cascade = chosen_cascade(search)
    truth = _known_truth(search, X, y, population)
    groups = None if by is None else read_group_labels(by, len(truth), "rows of X")
    _record_figures(search, X, truth, [] if chosen in front else [chosen], groups)
    decisions = cascade.decide(X)
    _check_lengths(len(decisions), len(truth))
    weighted = population is not None
    fresh = sentences_of_fresh(
        evaluate_known(decisions, truth, population=population),
        len(truth),
        chosen.evaluation,
        differences(
            chosen.evaluation, decisions, truth, repeats=front.repeats, within_classes=weighted
        ),
        search.costs_,
        choice.bounds,
        population,
    )
    if groups is None:
        return summary + f"\n{fresh}"
    breakdown = break_down(decisions, truth, groups, population=population)
    return summary + f"\n{fresh}\nBy group, on the fresh rows:\n{breakdown}"


def score_candidates(
    search: Any, X: Any, y: ArrayLike | None, population: Population, by: Any = None
) -> ScoredFront:
    """Evaluate every candidate of the front on fresh rows, with `by` also each group of them."""
    check_is_fitted(search, "front_")
    truth, front = _known_truth(search, X, y, population), search.front_
    groups = None if by is None else read_group_labels(by, len(truth), "rows of X")
    _record_figures(search, X, truth, groups=groups)
    evaluated = _evaluated(search, X, truth, population, groups)
    return ScoredFront(
        [ScoredCandidate(*one) for one in zip(front, *evaluated, strict=True)],
        f"{front.measured_on} Fresh figures on {len(truth):,} other rows{weighted_as(population)}.",
    )


def _evaluated(
    search: Any,
    X: Any,
    truth: NDArray[Any],
    population: Population,
    groups: GroupLabels | None,
) -> tuple[list[Evaluation], list[Breakdown | None]]:
    """Evaluate the front, and its groups of rows, by counts if possible, otherwise by decisions."""
    found = search.found_
    if not len(found.front):
        return [], []
    spec = found.spec
    is_counted = population is None and not unknown_labels(truth, found.classes)
    # A guard needs rows, not bits; a file has no rows to fit other stages on; and stages of a data
    # set are fitted to more rows than are in memory.
    in_memory = isinstance(found.stages, Training) and spec is not None
    if is_counted and search.guard is None and in_memory:
        return _counted(search, X, truth, spec, groups)
    evaluations: list[Evaluation] = []
    parts: list[Breakdown | None] = []
    for decisions in _decided(search, X, truth):
        evaluations.append(evaluate_known(decisions, truth, population=population))
        own = None
        if groups is not None:
            own = break_down(decisions, truth, groups, population=population)
        parts.append(own)
    return evaluations, parts


def _decided(search: Any, X: Any, truth: NDArray[Any]) -> Iterator[Decisions]:
    """Decide fresh rows by every candidate of the front."""
    found = search.found_
    if found.searched is not None:
        found.fit_stages(search.refit)  # all of them in the same passes
    for candidate in followed(found.front, "decide fresh rows by every candidate"):
        decisions = found.cascade(candidate, search.refit, search.guard).decide(X)
        _check_lengths(len(decisions), len(truth))
        yield decisions


def _counted(
    search: Any, X: Any, truth: NDArray[Any], spec: ProblemSpec, groups: GroupLabels | None
) -> tuple[list[Evaluation], list[Breakdown | None]]:
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
    parts: dict[int, Breakdown] = {}
    for learner in found.learners:
        own = {place: c for place, c in enumerate(found.front) if c.learner == learner}
        if not own:
            continue
        stages = found.fitted_on(search.refit, learner)
        fresh, *by_group = evaluate_afresh(
            [*own.values()],
            found.costs,
            stages,
            columns,
            truth,
            answers,
            spec.engine,
            spec.n_jobs,
            [] if groups is None else groups.masks(),
        )
        evaluations |= zip(own, fresh, strict=True)
        if groups is not None:
            for place, whole, *each in zip(own, fresh, *by_group, strict=True):
                parts[place] = Breakdown(whole, dict(zip(groups.names, each, strict=True)))
    places = range(len(found.front))
    return [evaluations[place] for place in places], [parts.get(place) for place in places]


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
    search: Any,
    X: Any,
    truth: NDArray[Any],
    more: Sequence[Candidate] = (),
    groups: GroupLabels | None = None,
) -> None:
    """Record in the ledger that these rows show figures of the front, before they do.

    A cascade that is later certified on them may have been chosen because of these figures, even if
    they were the figures of another candidate; and so may the kind of target and its class. So it
    is recorded how many figures of each cascade a certificate can be about: accuracy or agreement,
    coverage and cost, and of each class what is missed, what is rejected and the precision. Every
    group has as many figures of its own.
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
        figures=(3 + 3 * len(search.classes_)) * (1 + (0 if groups is None else len(groups.names))),
    )
    with ledger_of(fitted.digest).open() as record:
        record([entry])


def _check_lengths(n_rows: int, n_labels: int) -> None:
    """Refuse labels that are more or fewer than the rows."""
    if n_rows != n_labels:
        raise ClassesError(f"X has {n_rows} rows but `y` has {n_labels}.")
