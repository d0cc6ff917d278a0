"""Certify: take fresh rows, refuse known ones, and ask questions of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import _safe_indexing, check_random_state

from emsco.cascade import CascadeClassifier
from emsco.cascade.fingerprint import Pickled, digest_of, fingerprint
from emsco.certify._asked import check_model, check_shares, labels_of, truth_of
from emsco.certify._certificate import Certificate
from emsco.certify._family import builder_of, family_of
from emsco.certify._fresh import asking, check_fresh
from emsco.certify._required import check_between
from emsco.certify._targets import Targets
from emsco.certify._testing import Counted, answer
from emsco.exceptions import CertificateError
from emsco.rows.hashes import hash_exactly
from emsco.rows.known import FittedRows
from emsco.rows.ledger import ledger_of
from emsco.search import CascadeSearchCV


def certify(
    model: CascadeSearchCV | CascadeClassifier,
    X: Any,
    y: ArrayLike | None = None,
    *,
    accuracy: float | None = None,
    agreement: float | None = None,
    max_missed: Mapping[Any, float] | None = None,
    max_rejected: Mapping[Any, float] | None = None,
    min_precision: Mapping[Any, float] | None = None,
    confidence: float = 0.99,
    min_coverage: float | None = None,
    max_cost: float | None = None,
    groups: ArrayLike | None = None,
    keys: ArrayLike | None = None,
    share: float | None = None,
    ledger: str | os.PathLike[str] | None = None,
    random_state: Any = None,
    **others: Any,
) -> Certificate:
    """Certify cascades on rows that they have not seen.

    Of a search, the candidate that it has chosen is tested first and holds half of the allowed
    error; then every candidate of the front whose selected figures meet the targets. Each is built
    by `search.cascade(candidate)`, and what is certified is those fitted cascades. Of one cascade,
    itself. All targets given must hold together.

    Left out are candidates whose selected figures miss a target, what the search and the last
    `choose` were told to keep to, or a coverage of 0.5, where none was asked for anywhere. That is
    a filter and not promised. The candidate that was chosen needs no such coverage; where its
    figures miss what was asked for it is not tested, and the certificate says so.

    Rows serve once: a second question on them is refused, whatever form they come in. Where that,
    or whether the model was fitted on them, cannot be told, the certificate's sentence says so.

    Parameters
    ----------
    model : CascadeSearchCV or CascadeClassifier
        A fitted search, or a fitted cascade.
    X : numpy array, pandas or polars frame
        Calibration rows: drawn like the rows to come, and not among those searched or fitted on.
    y : array, default=None
        Their true labels; with `agreement` none are needed.
    accuracy : float, default=None
        The least share of accepted rows labelled right.
    agreement : float, default=None
        The least share of decisions left as the model's `final` one makes them.
    max_missed : mapping of label to float, default=None
        By true class, the largest share of its rows accepted under another label.
    max_rejected : mapping of label to float, default=None
        By true class, the largest share of its rows rejected.
    min_precision : mapping of label to float, default=None
        By label given, the least share of the rows accepted under it that are right.
    confidence : float, default=0.99
        One minus the chance that any cascade is certified that breaks a target.
    min_coverage : float, default=None
        The least share of rows accepted, which is then tested as well. 0: none, and no coverage
        is asked of candidates where they were selected either.
    max_cost : float, default=None
        The most paid per row on the mean.
    groups : array, default=None
        What rows belong together by: a patient, a card. One random row of each is used, because
        rows of one group are worth fewer than they are many.
    keys : array, default=None
        What names each row, as the index of the training frame does. None: the index of X, unless
        it merely numbers the rows.
    share : float, default=None
        The part of 1 - `confidence` spent here. None: all of it. Several questions on the same rows
        are asked by `certify_together`.
    ledger : str or path, default=None
        A file that keeps what was asked of which rows, for all processes that name it. None: only
        this process knows.
    random_state : int, RandomState or None, default=None
        Draws the row of each group.
    **others
        Any other kind of target, by its name.

    Raises
    ------
    CertificateError
        Where the rows are known to the model, or serve for another certificate already.

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
    """
    targets = Targets(
        accuracy=accuracy,
        agreement=agreement,
        max_missed=max_missed or {},
        max_rejected=max_rejected,
        min_precision=min_precision,
        min_coverage=min_coverage,
        max_cost=max_cost,
        **others,
    )
    return certify_together(
        model,
        X,
        y,
        [targets],
        confidence=confidence,
        groups=groups,
        keys=keys,
        shares=[1.0 if share is None else share],
        ledger=ledger,
        random_state=random_state,
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
    ledger: str | os.PathLike[str] | None = None,
    random_state: Any = None,
) -> tuple[Certificate, ...]:
    """Ask several questions on one set of rows, all of them before any answer.

    Parameters
    ----------
    model, X, y, confidence, groups, keys, ledger, random_state
        As in `certify`; the confidence is that of all answers together.
    questions : sequence of Targets
        What to certify, each by itself.
    shares : sequence of float, default=None
        The part of 1 - `confidence` that each question takes, in sum at most 1. None: equal ones.

    Examples
    --------
    >>> from emsco import CascadeSearchCV
    >>> from emsco.certify import Targets, certify_together
    >>> from emsco.datasets import make_costly_classification
    >>> X, y, costs = make_costly_classification(2000, 3, class_sep=3, random_state=1)
    >>> search = CascadeSearchCV(costs=costs, threshold=0.95).fit(X[:1000], y[:1000])
    >>> questions = [Targets(accuracy=0.9), Targets(accuracy=0.99)]
    >>> [c.certified for c in certify_together(search, X[1000:], y[1000:], questions)]
    [True, False]
    """
    return ask_together(
        model,
        X,
        y,
        questions,
        confidence=confidence,
        groups=groups,
        keys=keys,
        shares=shares,
        ledger=ledger,
        random_state=random_state,
    )


def ask_together(
    model: CascadeSearchCV | CascadeClassifier,
    X: Any,
    y: ArrayLike | None,
    questions: Sequence[Targets],
    *,
    confidence: float,
    groups: ArrayLike | None = None,
    keys: ArrayLike | None = None,
    shares: Sequence[float] | None = None,
    ledger: str | os.PathLike[str] | None = None,
    random_state: Any = None,
    chosen_first: bool = True,
) -> tuple[Certificate, ...]:
    """Certify as `certify_together` does.

    Without `chosen_first` what a search has chosen counts as any other candidate, and none is left
    out but those that miss the targets: as `savings` asks, where nothing was chosen yet.
    """
    check_between("confidence", confidence)
    parts = check_shares(questions, shares)
    check_model(model, questions)
    truth = labels_of(model, X, truth_of(model, questions[0], X, y))
    drawn = _rows_used(len(truth), groups, random_state)
    layout = model.found_.layout if isinstance(model, CascadeSearchCV) else model.decider_.layout
    known = layout.read_known(X)
    columns, fitted = known.columns, model.fitted_rows_
    if not fitted.sets:  # nothing is known of its rows; what is asked of them can still be
        fitted = FittedRows(sets=(tuple(columns),), names=tuple(columns))
    hashed = fitted.look(known, keys)
    checked = check_fresh(hashed.take(drawn) if groups is not None else hashed, fitted)
    exact = hash_exactly(columns)
    rows_fingerprint = _fingerprint_of(exact, truth)
    decides = digest_of(_deciding(model))
    families = [family_of(model, targets, chosen_first=chosen_first) for targets in questions]
    asked = [
        digest_of(
            [
                targets.digested(),
                part,
                confidence,
                decides,
                rows_fingerprint,
                np.sort(exact[drawn]),
                # Of what has no order to choose, questions are those of before.
                *[family.digested()] * (family.chosen is not None or bool(family.floors.told())),
            ]
        )
        for targets, part, family in zip(questions, parts, families, strict=True)
    ]
    book = ledger_of(fitted.digest or decides)
    if ledger is not None:
        book.keep_in(ledger)
    with asking(book, asked, parts, hashed) as before:
        if groups is not None:
            X, truth = _safe_indexing(X, drawn), truth[drawn]
        counted: dict[int, Counted] = {}
        build = builder_of(model)
        answers = [
            answer(family, build, targets, (1 - confidence) * part, before.shown, counted, X, truth)
            for targets, part, family in zip(questions, parts, families, strict=True)
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
            doubts=checked.doubts + before.doubts,
            chosen=found.chosen,
            filters=family.floors.told(),
            least_coverage=family.floors.coverage,
        )
        for targets, part, family, found in zip(questions, parts, families, answers, strict=True)
    )


def _deciding(model: CascadeSearchCV | CascadeClassifier) -> list[Any]:
    """List all that the decisions of a model, and of every candidate it has, depend on."""
    if isinstance(model, CascadeClassifier):
        return [fingerprint(model)]
    others = (model.estimator, model.guard, model.found_.final)
    return [
        [[c.design.assignment, c.threshold] for c in model.front_],
        model.costs_,
        model.classes_,
        model.refit,
        [None if other is None else Pickled(other) for other in others],
    ]


def one_row_a_group(groups: NDArray[Any], random_state: Any) -> NDArray[np.intp]:
    """Draw one row of each group."""
    order = check_random_state(random_state).permutation(len(groups))
    first = np.unique(groups[order], return_index=True)[1]
    drawn: NDArray[np.intp] = np.sort(order[first])
    return drawn


def _rows_used(n_rows: int, groups: ArrayLike | None, random_state: Any) -> NDArray[np.intp]:
    if groups is None:
        return np.arange(n_rows)
    named = np.asarray(groups)
    if named.shape != (n_rows,):
        raise CertificateError(f"`groups` must name {n_rows} rows, has shape {named.shape}.")
    return one_row_a_group(named, random_state)


def _fingerprint_of(values: NDArray[np.uint64], truth: NDArray[Any]) -> str:
    """Digest rows with their labels, whatever their order."""
    return sha256(np.sort(values + hash_exactly({"label": truth})).tobytes()).hexdigest()
