"""Ask several questions on one set of calibration rows: check, record, and only then answer."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from emsco.cascade import CascadeClassifier
from emsco.cascade.fingerprint import Pickled, digest_of, fingerprint
from emsco.certify._candidate_counts import CalibrationRows, CandidateCounts
from emsco.certify._certificate import Certificate
from emsco.certify._fresh_rows import (
    UNKNOWN_LABELS,
    check_allow,
    check_fresh,
    check_near_copies,
    recorded,
    refuse_known_groups,
)
from emsco.certify._group_terms import grouped_rows
from emsco.certify._hypothesis_family import Family, family_of, family_of_one
from emsco.certify._hypothesis_tests import TestedFamily, answer, list_groups
from emsco.certify._ladder import (
    Ladder,
    answer_by_ladder,
    check_way,
    front_alone,
    ladder_or_front,
    refuse_seen,
)
from emsco.certify._path import FRONT, LADDER
from emsco.certify._stake_terms import staked_rows, with_cap
from emsco.certify._targets import Targets
from emsco.certify._validation import (
    check_columns,
    check_final,
    check_known,
    check_model,
    check_shares,
    check_stake,
    labels_of,
    truth_of,
)
from emsco.certify.binomial import check_between
from emsco.core.front import Candidate
from emsco.core.validation import read_groups
from emsco.rows.fitted_rows import FittedRows
from emsco.rows.ledger import ledger_of
from emsco.rows.row_hashes import hash_exactly
from emsco.rows.row_sketch import Sketch
from emsco.search import CascadeSearchCV


def certify_together(
    model: CascadeSearchCV | CascadeClassifier,
    X: Any,
    y: ArrayLike | None,
    questions: Sequence[Targets],
    *,
    confidence: float = 0.99,
    groups: ArrayLike | None = None,
    keys: ArrayLike | None = None,
    shares: Sequence[float] | None = None,
    way: str | Sequence[str | None] | None = None,
    stake: str | ArrayLike | None = None,
    cap: float | None = None,
    by: str | ArrayLike | None = None,
    every: bool = True,
    allow: Mapping[str, str] | None = None,
    ledger: str | os.PathLike[str] | None = None,
    random_state: Any = None,
    final_fitted_elsewhere: bool = False,
    chosen_first: bool = True,
) -> tuple[Certificate, ...]:
    """Ask several questions on one set of rows, all of them before any answer is known.

    Parameters
    ----------
    model, X, y, confidence, groups, keys, ledger, random_state, final_fitted_elsewhere, allow
        As in `certify`; the confidence is that of all answers together.
    stake, cap, by, every
        As in `certify`, for all questions.
    questions : sequence of Targets
        The targets of each question, certified separately.
    shares : sequence of float, default=None
        The part of 1 - `confidence` that each question uses, with a sum of at most 1. None: equal
        parts.
    way : {"ladder", "front"} or a sequence of them, default=None
        As in `certify`, for all questions or for each. The same targets may be asked in both ways.
    chosen_first : bool, default=True
        Whether the chosen candidate of a search is tested first. False: nothing was chosen, so it
        is treated like any other, and only candidates that miss the targets are left out.

    Examples
    --------
    >>> from emsco import CascadeSearchCV
    >>> from emsco.certify import Targets, certify_together
    >>> from emsco.datasets import make_costly_classification
    >>> X, y, costs = make_costly_classification(2000, 3, class_sep=3, random_state=1)
    >>> search = CascadeSearchCV(costs=costs, threshold=0.95, random_state=0)
    >>> search = search.fit(X[:1000], y[:1000])
    >>> questions = [Targets(accuracy=0.9), Targets(accuracy=0.999)]
    >>> [c.certified for c in certify_together(search, X[1000:], y[1000:], questions)]
    [True, False]
    """
    check_between("confidence", confidence)
    allowed = check_allow(allow)
    parts = check_shares(questions, shares)
    check_model(model, questions)
    ways = check_way(way, questions, model)
    check_stake(model, questions, stake)
    truth = labels_of(model, X, truth_of(model, questions[0], X, y))
    why = allowed.get(UNKNOWN_LABELS)
    # Without `y` the truth is what a final model answers.
    doubts = () if y is None else check_known(truth, model.classes_, why)
    doubts += check_final(model, questions[0], fitted_elsewhere=final_fitted_elsewhere)
    drawn = np.arange(len(truth))
    if groups is not None:
        drawn = one_row_a_group(read_groups(groups, len(truth)), random_state)
    layout = model.found_.layout if isinstance(model, CascadeSearchCV) else model.decider_.layout
    known = layout.read_known(X)
    grouped = grouped_rows(by, X, layout, len(truth), every=every)
    lists_groups = grouped is not None and not grouped.every
    families = [
        family_of_one(model)
        if lists_groups
        else family_of(model, targets, chosen_first=chosen_first)
        for targets in questions
    ]
    check_columns(known, model, families)
    columns, fitted = known.columns, model.fitted_rows_
    # If rows cannot be compared with the fitted ones, questions can still be recorded.
    if not fitted.sets:
        fitted = FittedRows(sets=(tuple(columns),), names=tuple(columns))
    elif not any(columns.keys() >= set(names) for names in fitted.sets):
        fitted = replace(fitted, sets=(*fitted.sets, tuple(columns)))
    hashed = fitted.look(known, keys)
    if groups is not None:
        refuse_known_groups(np.asarray(groups), fitted)
    checked = check_fresh(hashed.take(drawn), fitted, allowed)
    n_drawn = len(drawn)
    drawn = drawn[~checked.copies]
    different = drawn[np.unique(hashed.views[0].hashes[0][drawn], return_index=True)[1]]
    near = check_near_copies(columns, truth, different, allowed)
    exact = hash_exactly(columns)
    labelled = exact + hash_exactly({"label": truth})
    rows_fingerprint = sha256(np.sort(labelled).tobytes()).hexdigest()  # whatever their order
    staked = staked_rows(stake, cap, X, layout, labelled)
    rows = CalibrationRows(X, truth, staked, grouped).take(drawn)
    decides = digest_of(_deciding(model))
    filters = [family.floors.describe() for family in families]
    if grouped is not None:
        ways = [front_alone(own) for own in ways]
    ladders = [
        ladder_or_front(model, targets, own, family, len(drawn), (1 - confidence) * part)
        for targets, own, family, part in zip(questions, ways, families, parts, strict=True)
    ]
    digests = [
        digest_of(
            [
                targets.digested(),
                part,
                confidence,
                decides,
                rows_fingerprint,
                np.sort(exact[drawn]),
                # Without a choice or a filter, the targets alone say what is asked.
                *[family.digested()] * (family.chosen is not None or bool(filtered)),
                *([] if ladder is None else [ladder.digested()]),
                *([] if staked is None else [staked.digested(exact)]),
                *([] if grouped is None else [grouped.digested(exact)]),
            ]
        )
        for targets, part, family, filtered, ladder in zip(
            questions, parts, families, filters, ladders, strict=True
        )
    ]
    book = ledger_of(fitted.digest or decides)
    if ledger is not None:
        book.keep_in(ledger)
    with recorded(book, digests, parts, hashed, Sketch.of(columns, truth)) as before:
        counted: dict[int, CandidateCounts] = {}
        level = (1 - confidence) / before.figures
        if before.cascades:
            refuse_seen(ways, stake=staked is not None, by=grouped is not None)
            ladders = [None] * len(ladders)

        def build(candidate: Candidate) -> CascadeClassifier:
            cascade = model if isinstance(model, CascadeClassifier) else model.cascade(candidate)
            return cascade if staked is None else with_cap(cascade, staked.cap)

        def answer_one(
            targets: Targets, family: Family, ladder: Ladder | None, level: float
        ) -> TestedFamily:
            if lists_groups:
                return list_groups(family, build, targets, level, rows)
            if ladder is not None:
                return answer_by_ladder(ladder, family, build, targets, level, rows)
            return answer(family, build, targets, level, before.cascades, counted, rows)

        answers = [
            answer_one(targets, family, ladder, level * part)
            for targets, part, family, ladder in zip(
                questions, parts, families, ladders, strict=True
            )
        ]
    return tuple(
        Certificate(
            targets=targets,
            confidence=float(confidence),
            share=float(part),
            rows=len(rows),
            rows_given=len(exact),
            tried=found.tried,
            candidates=found.candidates,
            shortfalls=found.shortfalls,
            rows_fingerprint=rows_fingerprint,
            twins=checked.twins,
            unit=model.costs_.unit,
            doubts=(
                *doubts,
                *checked.doubts,
                *near,
                *before.doubts,
                *(() if rows.staked is None else rows.staked.doubts),
            ),
            left_out=n_drawn - len(drawn),
            chosen=found.chosen,
            filters=filtered,
            least_coverage=family.floors.coverage,
            way=FRONT if ladder is None else LADDER,
            stake=None if rows.staked is None else rows.staked.terms,
            groups=None if rows.grouped is None else rows.grouped.terms,
        )
        for targets, part, family, filtered, found, ladder in zip(
            questions, parts, families, filters, answers, ladders, strict=True
        )
    )


def _deciding(model: CascadeSearchCV | CascadeClassifier) -> list[Any]:
    """List everything that the decisions of a model, or of its candidates, depend on."""
    if isinstance(model, CascadeClassifier):
        return [fingerprint(model)]
    others = (model.estimator, model.guard, model.found_.final)
    return [
        [c.identity for c in model.front_],
        model.costs_,
        model.classes_,
        model.refit,
        *(stages.rule for stages in model.found_.by_learner().values() if not stages.rule.is_equal),
        [None if other is None else Pickled(other) for other in others],
    ]


def one_row_a_group(groups: NDArray[Any], random_state: Any) -> NDArray[np.intp]:
    """Draw one row of each group."""
    order = check_random_state(random_state).permutation(len(groups))
    first = np.unique(groups[order], return_index=True)[1]
    drawn: NDArray[np.intp] = np.sort(order[first])
    return drawn
