"""Certify: take fresh rows, refuse known ones, and ask questions of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from hashlib import sha256
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import _safe_indexing, check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted

from emsco.cascade import CascadeClassifier
from emsco.cascade.fingerprint import Pickled, digest_of, fingerprint
from emsco.certify._certificate import Certificate
from emsco.certify._fresh import asking, check_fresh
from emsco.certify._required import check_between
from emsco.certify._targets import Targets
from emsco.certify._testing import Counted, answer
from emsco.exceptions import CertificateError, ClassesError, nearest
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

    Of a search, every candidate of the front whose selected figures meet the targets is built by
    `search.cascade(candidate)` and tested; what is certified is those fitted cascades. Of one
    cascade, itself. All targets given must hold together.

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
    confidence : float, default=0.99
        One minus the chance that any cascade is certified that breaks a target.
    min_coverage : float, default=None
        The least share of rows accepted.
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
    Over the draw of the 1,000 calibration rows, the chance that a certificate is issued for a
    cascade that in truth is right on fewer than 95% of the rows it accepts is at most 1%, if future
    rows are exchangeable with them.
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
    check_between("confidence", confidence)
    parts = _check_shares(questions, shares)
    _check_model(model, questions)
    truth = _labels(model, X, _truth(model, questions[0], X, y))
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
    asked = [
        digest_of(
            [
                list(targets.to_dict().values()),
                part,
                confidence,
                decides,
                rows_fingerprint,
                np.sort(exact[drawn]),
            ]
        )
        for targets, part in zip(questions, parts, strict=True)
    ]
    book = ledger_of(fitted.digest or decides)
    if ledger is not None:
        book.keep_in(ledger)
    with asking(book, asked, parts, hashed) as before:
        if groups is not None:
            X, truth = _safe_indexing(X, drawn), truth[drawn]
        counted: dict[int, Counted] = {}
        answers = [
            answer(model, targets, (1 - confidence) * part, before.shown, counted, X, truth)
            for targets, part in zip(questions, parts, strict=True)
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
        )
        for targets, part, found in zip(questions, parts, answers, strict=True)
    )


def _check_shares(questions: Sequence[Targets], shares: Sequence[float] | None) -> list[float]:
    """Check what is asked together, and how the allowed error is parted among it."""
    if not questions or not all(isinstance(question, Targets) for question in questions):
        raise CertificateError(f"`questions` must be Targets, at least one, got {questions!r}.")
    if len({question.agreement is None for question in questions}) > 1:
        raise CertificateError(
            "`agreement` is with the final model, other targets are with labels; certify one, "
            "then the other on other rows."
        )
    parts = [1 / len(questions)] * len(questions) if shares is None else list(shares)
    for part in parts:
        if not isinstance(part, Real) or not 0 < part <= 1:
            raise CertificateError(f"`share` must be above 0 and at most 1, got {part!r}.")
    if len(parts) != len(questions) or sum(parts) > 1 + 1e-9:
        raise CertificateError(
            f"`shares` must be one for each of {len(questions)} questions, in sum at most 1; got "
            f"{parts}."
        )
    return [float(part) for part in parts]


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


def _truth(
    model: CascadeSearchCV | CascadeClassifier, targets: Targets, X: Any, y: ArrayLike | None
) -> Any:
    """Give what is right: what the final model answers where agreement is asked, else `y`."""
    if targets.agreement is None:
        if not getattr(model, "needs_labels", True):
            raise CertificateError(
                "A search for agreement has no labels: certify `agreement`, or one of its cascades "
                "with labels."
            )
        return y
    final = _final_of(model)
    if final is None:
        raise CertificateError("`agreement` is with a final model, and this one has none.")
    if y is not None:
        raise CertificateError("With `agreement` the final model's answers are the truth; no `y`.")
    return final.predict(X)


def _final_of(model: CascadeSearchCV | CascadeClassifier) -> Any:
    """Give the final model that decides, whatever was set as a parameter since."""
    return model.found_.final if isinstance(model, CascadeSearchCV) else model.decider_.final


def _check_model(model: CascadeSearchCV | CascadeClassifier, questions: Sequence[Targets]) -> None:
    if not isinstance(model, CascadeSearchCV | CascadeClassifier):
        raise CertificateError(
            f"A CascadeSearchCV or a CascadeClassifier can be certified, got {model!r}."
        )
    check_is_fitted(model)
    classes = model.classes_.tolist()
    for label in (label for question in questions for label in question.max_missed):
        if label not in classes:
            known = nearest(label, map(str, classes))
            raise CertificateError(f"`max_missed` names {label!r}, which is not a class{known}")


def _labels(
    model: CascadeSearchCV | CascadeClassifier, X: Any, y: ArrayLike | None
) -> NDArray[Any]:
    """Check the truth; a label that `fit` did not see is never right."""
    truth: NDArray[Any] = column_or_1d(y, warn=True)
    n_rows = len(X)
    if len(truth) != n_rows or not n_rows:
        raise CertificateError(f"X has {n_rows} rows and `y` {len(truth)}; give as many, and some.")
    if not set(truth.tolist()) & set(model.classes_.tolist()):
        raise ClassesError(f"`y` holds none of the classes that `fit` saw, but {truth[0]!r}.")
    return truth
