"""Certify cascades: refuse rows that are not fresh, and answer questions on the others."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import _safe_indexing, check_random_state

from emsco.cascade import CascadeClassifier
from emsco.cascade.fingerprint import Pickled, digest_of, fingerprint
from emsco.certify._certificate import Certificate
from emsco.certify._fresh_rows import (
    UNKNOWN_LABELS,
    check_allow,
    check_fresh,
    check_near_copies,
    recorded,
    refuse_known_groups,
)
from emsco.certify._hypothesis_family import family_of
from emsco.certify._hypothesis_tests import CandidateCounts, answer
from emsco.certify._ladder import answer_by_ladder, check_by, ladder_or_front, refuse_seen
from emsco.certify._path import FRONT, LADDER
from emsco.certify._targets import Targets
from emsco.certify._validation import (
    check_columns,
    check_final,
    check_known,
    check_model,
    check_shares,
    labels_of,
    truth_of,
)
from emsco.certify.binomial import check_between
from emsco.core.validation import read_groups
from emsco.rows.fitted_rows import FittedRows
from emsco.rows.ledger import ledger_of
from emsco.rows.row_hashes import hash_exactly
from emsco.rows.row_sketch import Sketch
from emsco.search import CascadeSearchCV


def certify(
    model: CascadeSearchCV | CascadeClassifier,
    X: Any,
    y: ArrayLike | None = None,
    *,
    confidence: float = 0.99,
    groups: ArrayLike | None = None,
    keys: ArrayLike | None = None,
    share: float | None = None,
    by: str | None = None,
    allow: Mapping[str, str] | None = None,
    ledger: str | os.PathLike[str] | None = None,
    random_state: Any = None,
    final_fitted_elsewhere: bool = False,
    **targets: Any,
) -> Certificate:
    """Certify cascades on rows that they have not seen.

    For a search, the chosen candidate is tested first and gets half of the allowed error; then all
    candidates of the front whose selected figures meet the targets are tested. Each one is built by
    `search.cascade(candidate)`, and the certificate is about those fitted cascades. A single
    cascade is tested itself. All given targets must hold together.

    Candidates are left out if their selected figures miss a target, a bound given to the search or
    to the last `choose`, or, if no coverage was asked for anywhere, a coverage of 0.5. This is a
    filter, not a promise. The default coverage of 0.5 is not required of the chosen candidate; if
    its figures miss what was asked for, it is not tested, and the certificate says so.

    Rows can be used once: a second question on them is refused, in whatever form they are given. If
    it cannot be determined whether they were used before, or whether the model was fitted on them,
    the certificate's sentence says so.

    Parameters
    ----------
    model : CascadeSearchCV or CascadeClassifier
        A fitted search, or a fitted cascade.
    X : numpy array, pandas or polars frame
        Calibration rows, drawn in the same way as future rows; they must not have been used for
        the search or a fit.
    y : array, default=None
        Their true labels; not needed with `agreement`.
    accuracy : float, default=None
        The minimum share of accepted rows that are labelled right.
    agreement : float, default=None
        The minimum share of decisions that are the same as those of the `final` model.
    max_missed : mapping of label to float, default=None
        Per true class, the maximum share of its rows that are accepted under another label.
    max_rejected : mapping of label to float, default=None
        Per true class, the maximum share of its rows that are rejected.
    min_precision : mapping of label to float, default=None
        Per assigned label, the minimum share of the rows accepted under it that are right.
    confidence : float, default=0.99
        One minus the probability of certifying any cascade that breaks a target.
    min_coverage : float, default=None
        The minimum share of rows accepted, which is then tested as well. 0: no minimum, and the
        filter by selected coverage is removed too.
    max_cost : float, default=None
        The maximum mean cost per row.
    groups : array, default=None
        The group of each row, such as a patient or a card. One random row per group is used,
        because rows of one group are not independent.
    keys : array, default=None
        What identifies each row, like the index of the training frame. None: the index of X, unless
        it only numbers the rows.
    share : float, default=None
        The part of 1 - `confidence` used here. None: all of it. Use `certify_together` to ask
        several questions on the same rows.
    by : {"ladder", "front"}, default=None
        What is tested. "front": candidates of the front, or the cascade itself. "ladder", for
        `agreement` of a search alone: thresholds of one design (of the chosen candidate, if it has
        a stage before the final model), as dense as the scores, from strict to loose; what is found
        is a candidate with thresholds of its own. It is part of the question. None: what the
        figures of the search predict to cost less per row.
    allow : mapping of str to str, default=None
        What would otherwise be refused, and why it is right for these rows: "known rows" (equal
        to fitted ones), "repeated rows" (equal to one another), "near copies" (close together, in
        small groups of one label) or "unknown labels" (that the model does not have). The
        certificate says what was allowed and why.
    ledger : str or path, default=None
        A file that records what was asked of which rows, for all processes that use it. None: only
        this process remembers it.
    random_state : int, RandomState or None, default=None
        Draws the row of each group.
    final_fitted_elsewhere : bool, default=False
        Says that the final model, if the cascades have one, has not seen these rows: it was fitted
        and chosen on others. Without it, only `agreement` can be certified, because this cannot be
        checked. It becomes part of the sentence.
    **targets
        Any other target, by the keyword of its measure.

    Raises
    ------
    CertificateError
        If the model has seen the rows, or they were already used for another certificate; if labels
        are no classes of the model; or if a final model may have seen the rows.

    Examples
    --------
    >>> from emsco import CascadeSearchCV
    >>> from emsco.certify import certify
    >>> from emsco.datasets import make_costly_classification
    >>> X, y, costs = make_costly_classification(2000, 3, class_sep=3, random_state=0)
    >>> search = CascadeSearchCV(costs=costs, threshold=0.95).fit(X[:1000], y[:1000])
    >>> certificate = certify(search, X[1000:], y[1000:], accuracy=0.95, confidence=0.99)
    >>> print(certificate.sentence)
    With 99% confidence, at least 95% of accepted answers are right, provided that new rows resemble
    the calibration rows. More exactly, over the random draw of the 1,000 calibration rows, the
    probability of certifying any cascade that actually is right on fewer than 95% of the rows it
    accepts is at most 1%, if future rows are exchangeable with the calibration rows.
    >>> certified = certificate.select(by="coverage")
    >>> print(f"{certified.candidate.design}: coverage at least {certified.bounds.coverage[0]:.2f}")
    s2 | s1 | s0: coverage at least 0.86
    >>> search = search.choose(certified.candidate)
    >>> certificate.check(search) == certified
    True
    >>> certificate.holds_for(search.best_cascade_.fit(X[:900], y[:900]))
    False

    Agreement with a model that is there already, by the ladder:

    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> X, y, costs = make_costly_classification(2000, 3, class_sep=3, random_state=4)
    >>> model = HistGradientBoostingClassifier(random_state=0).fit(X[:500], y[:500])
    >>> stages = CascadeSearchCV(costs=costs, final=model, target="agreement", random_state=0)
    >>> certificate = certify(stages.fit(X[500:1000]), X[1000:], agreement=0.95, by="ladder")
    >>> found = certificate.select(by="cost")
    >>> print(f"{found.candidate.design}: {found.evaluation.cost:.1f} of {costs.total:g}")
    s0 | s2 | s1: 3.6 of 7
    >>> certificate.holds_for(stages.cascade(found.candidate))
    True
    """
    return certify_together(
        model,
        X,
        y,
        [Targets(**targets)],
        confidence=confidence,
        groups=groups,
        keys=keys,
        shares=[1.0 if share is None else share],
        by=by,
        allow=allow,
        ledger=ledger,
        random_state=random_state,
        final_fitted_elsewhere=final_fitted_elsewhere,
    )[0]


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
    by: str | Sequence[str | None] | None = None,
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
    questions : sequence of Targets
        The targets of each question, certified separately.
    shares : sequence of float, default=None
        The part of 1 - `confidence` that each question uses, with a sum of at most 1. None: equal
        parts.
    by : {"ladder", "front"} or a sequence of them, default=None
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
    ways = check_by(by, questions, model)
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
    families = [family_of(model, targets, chosen_first=chosen_first) for targets in questions]
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
    labelled = np.sort(exact + hash_exactly({"label": truth}))  # whatever the order of the rows
    rows_fingerprint = sha256(labelled.tobytes()).hexdigest()
    decides = digest_of(_deciding(model))
    filters = [family.floors.describe() for family in families]
    ladders = [
        ladder_or_front(model, targets, way, family, len(drawn), (1 - confidence) * part)
        for targets, way, family, part in zip(questions, ways, families, parts, strict=True)
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
        if len(drawn) < len(truth):
            X, truth = _safe_indexing(X, drawn), truth[drawn]
        counted: dict[int, CandidateCounts] = {}
        build = (lambda _: model) if isinstance(model, CascadeClassifier) else model.cascade
        level = (1 - confidence) / before.figures
        if before.cascades:
            refuse_seen(ways)
            ladders = [None] * len(ladders)
        answers = [
            answer(family, build, targets, level * part, before.cascades, counted, X, truth)
            if ladder is None
            else answer_by_ladder(ladder, family, build, targets, level * part, X, truth)
            for targets, part, family, ladder in zip(
                questions, parts, families, ladders, strict=True
            )
        ]
    return tuple(
        Certificate(
            targets=targets,
            confidence=float(confidence),
            share=float(part),
            rows=len(truth),
            rows_given=len(exact),
            tried=found.tried,
            candidates=found.candidates,
            shortfalls=found.shortfalls,
            rows_fingerprint=rows_fingerprint,
            twins=checked.twins,
            unit=model.costs_.unit,
            doubts=doubts + checked.doubts + near + before.doubts,
            left_out=n_drawn - len(drawn),
            chosen=found.chosen,
            filters=filtered,
            least_coverage=family.floors.coverage,
            by=FRONT if ladder is None else LADDER,
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
