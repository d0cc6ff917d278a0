"""Certificates: what a cascade keeps on fresh rows, with a confidence that survives the search.

A certificate needs rows that neither the fits nor the search have seen. Every candidate stands for
the hypothesis that it breaks one of the targets; it is certified where an exact binomial test
rejects that. Candidates are tested in the order of their selected figures, by a procedure that
bounds the chance of *any* false one, so that one may choose freely among the certified ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from math import floor
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import _safe_indexing, check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted

from emsco._binomial import cost_p_value, cost_upper, rows_for, rows_for_power, tail
from emsco._certificate import (
    Bounds,
    Certificate,
    CertifiedCandidate,
    Shortfall,
    Targets,
    check_between,
)
from emsco._columns import Columns, container_of, pick_columns, read_columns
from emsco._fingerprint import fingerprint
from emsco._rows import FittedRows, Spent, hash_keys, hash_values
from emsco._sequence import passed, shares
from emsco.cascade import CascadeClassifier
from emsco.costs import Costs, generated_names
from emsco.evaluation import Evaluation, evaluate
from emsco.exceptions import CertificateError, ClassesError, ColumnsError, nearest
from emsco.front import Candidate
from emsco.search import CascadeSearchCV

__all__ = [
    "Bounds",
    "Certificate",
    "CertifiedCandidate",
    "Shortfall",
    "Targets",
    "certify",
    "fingerprint",
    "required_rows",
]

_BOUNDS = 4  # told of a candidate, besides one a class


def certify(
    model: CascadeSearchCV | CascadeClassifier,
    X: Any,
    y: ArrayLike,
    *,
    accuracy: float | None = None,
    max_missed: Mapping[Any, float] | None = None,
    confidence: float = 0.99,
    min_coverage: float | None = None,
    max_cost: float | None = None,
    groups: ArrayLike | None = None,
    keys: ArrayLike | None = None,
    share: float | None = None,
    random_state: Any = None,
) -> Certificate:
    """Certify cascades on rows that they have not seen.

    Of a search, every candidate of the front whose selected figures meet the targets is built by
    `search.cascade(candidate)` and tested; what is certified is those fitted cascades. Of one
    cascade, itself. All targets given must hold together.

    Parameters
    ----------
    model : CascadeSearchCV or CascadeClassifier
        A fitted search, or a fitted cascade.
    X : numpy array, pandas or polars frame
        Calibration rows: drawn like the rows to come, and not among those searched or fitted on.
    y : array
        Their true labels.
    accuracy : float, default=None
        The least share of accepted rows labelled right.
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
        The part of 1 - `confidence` spent here, where these rows serve for several certificates of
        one model; in sum at most 1. None: all of it.
    random_state : int, RandomState or None, default=None
        Draws the row of each group.

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
    >>> certificate.check(search)
    >>> certificate.holds_for(search.best_cascade_.fit(X[:900], y[:900]))
    False
    """
    targets = Targets(
        accuracy=accuracy,
        max_missed=max_missed or {},
        min_coverage=min_coverage,
        max_cost=max_cost,
    )
    check_between("confidence", confidence)
    part = 1.0 if share is None else share
    if not isinstance(part, Real) or not 0 < part <= 1:
        raise CertificateError(f"`share` must be above 0 and at most 1, got {share!r}.")
    truth = _labels(model, targets, X, y)
    rows = _rows_used(len(truth), groups, random_state)
    columns = _known_columns(model, X)
    fitted: FittedRows = model.__dict__.setdefault("_fitted_rows", FittedRows())
    family = _family(model, targets)
    asked = repr((targets, confidence, family.name, rows.tobytes()))
    wanted = Spent(
        names=tuple(columns),
        values=hash_values(columns),
        keys=hash_keys(X, keys),
        question=sha256(asked.encode()).hexdigest(),
        share=float(part),
    )
    twins = fitted.refuse_known(wanted)
    fitted.refuse_overspent(wanted)
    labelled = wanted.values + hash_values({"label": truth})
    rows_fingerprint = sha256(np.sort(labelled).tobytes()).hexdigest()
    if groups is not None:
        X, truth = _safe_indexing(X, rows), truth[rows]
    tested = _Tested(family, targets, X, truth)
    level = (1 - confidence) * part
    levels = level * shares(len(family.candidates))
    certified = passed(levels, tested.p_value)
    fitted.spend(wanted)
    return Certificate(
        targets=targets,
        confidence=float(confidence),
        share=float(part),
        rows=len(truth),
        rows_given=len(wanted.values),
        tried=len(family.candidates),
        candidates=tuple(tested.certified(place, level) for place in certified),
        shortfalls=() if certified else tested.shortfalls(levels),
        rows_fingerprint=rows_fingerprint,
        twins=twins,
        unit=family.costs.unit,
    )


def required_rows(
    accuracy: float,
    confidence: float = 0.99,
    *,
    errors: int = 0,
    candidates: int = 1,
    true_accuracy: float | None = None,
    power: float | None = None,
) -> int:
    """Say how many accepted calibration rows a certificate takes.

    Parameters
    ----------
    accuracy, confidence : float
        What to certify.
    errors : int, default=0
        How many of the accepted rows may be wrong.
    candidates : int, default=1
        How many candidates share the allowed error evenly.
    true_accuracy, power : float, default=None
        Instead of a number of errors: the accuracy that is true, and the probability with which the
        certificate is then to be issued, for this and for every larger number of rows.

    Examples
    --------
    >>> from emsco.certify import required_rows
    >>> required_rows(0.95, 0.99), required_rows(0.95, 0.99, errors=5)
    (90, 259)
    >>> required_rows(0.95, 0.99, true_accuracy=0.97, power=0.8)
    1068
    """
    check_between("accuracy", accuracy)
    check_between("confidence", confidence)
    if errors < 0 or candidates < 1:
        raise CertificateError(
            f"`errors` must be >= 0 and `candidates` >= 1, got {errors} and {candidates}."
        )
    level = (1 - confidence) / candidates
    if true_accuracy is None and power is None:
        return rows_for(1 - accuracy, level, errors)
    if true_accuracy is None or power is None or errors:
        raise CertificateError("Give `true_accuracy` and `power` together, and no `errors`.")
    check_between("power", power)
    if not accuracy < true_accuracy <= 1:
        raise CertificateError(
            f"`true_accuracy` must be above {accuracy} and at most 1, got {true_accuracy!r}."
        )
    return rows_for_power(1 - accuracy, level, 1 - true_accuracy, power)


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


def in_order(candidates: Sequence[Candidate], targets: Targets, costs: Costs) -> list[Candidate]:
    """Give the candidates whose selected figures meet the targets, the surest first.

    That is by the p-value that they have on the rows they were selected on, which says nothing any
    more about the truth, but orders well. Where none meets the targets, the closest one.
    """
    met = [c for c in candidates if targets.met_by(c.evaluation)]

    def rank(candidate: Candidate) -> tuple[float, float, float]:
        e = candidate.evaluation
        return targets.p_value(e, _cost_guess(candidate, targets, costs)), -e.accepted, e.cost

    return sorted(met, key=rank) if met else [min(candidates, key=rank)]


def _cost_guess(candidate: Candidate, targets: Targets, costs: Costs) -> float:
    """Guess the p-value of the cost without counts by stage, as if rows paid least or most."""
    most, evaluation, design = targets.max_cost, candidate.evaluation, candidate.design
    first, last = costs.of(design.stages[0]), costs.of(design.acquired(design.n_stages - 1))
    if most is None or last <= most:
        return 0.0
    if most < first:
        return 1.0
    rows = int(evaluation.rows)
    dear = min(floor((evaluation.paid - rows * first) / (last - first)), rows)
    return float(tail(max(dear, 0), rows, (most - first) / (last - first)))


class _Family(NamedTuple):
    """The candidates to test, and how each becomes a cascade."""

    name: str
    candidates: Sequence[Candidate]
    costs: Costs
    build: Callable[[Candidate], CascadeClassifier]


def _family(model: CascadeSearchCV | CascadeClassifier, targets: Targets) -> _Family:
    if isinstance(model, CascadeClassifier):
        nothing = Evaluation(0, 0, 0, 0)
        itself = Candidate(model.design_, model.threshold, nothing)
        return _Family(fingerprint(model), [itself], model.costs_, lambda _: model)
    if not len(model.front_):
        raise CertificateError("The front is empty: there is no candidate to certify.")
    candidates = in_order(model.front_, targets, model.costs_)
    return _Family("front", candidates, model.costs_, model.cascade)


class _Tested:
    """Cascades of a family, decided on calibration rows as they are asked for."""

    def __init__(self, family: _Family, targets: Targets, X: Any, truth: NDArray[Any]) -> None:
        self._family = family
        self._targets = targets
        self._X = X
        self._truth = truth
        self._judged: dict[int, tuple[CascadeClassifier, Evaluation, tuple[int, ...]]] = {}
        self._p_values: dict[int, float] = {}

    def p_value(self, place: int) -> float:
        """Build and test a candidate."""
        cascade = self._family.build(self._family.candidates[place])
        decisions = cascade.decide(self._X)
        evaluation = evaluate(decisions, self._truth)
        stages = range(len(cascade.stages_))
        reached = tuple(int((decisions.exit_stage >= stage).sum()) for stage in stages)
        most = self._targets.max_cost
        cost = 0.0 if most is None else cost_p_value(reached, cascade._plan.costs.tolist(), most)
        self._judged[place] = cascade, evaluation, reached
        self._p_values[place] = self._targets.p_value(evaluation, cost)
        return self._p_values[place]

    def certified(self, place: int, level: float) -> CertifiedCandidate:
        """Tell all about one that passed."""
        cascade, evaluation, reached = self._judged[place]
        labels = cascade.classes_.tolist()
        # One for every candidate tested and every bound told: the worst of them must hold too.
        each = level / (len(self._family.candidates) * (_BOUNDS + len(labels)))
        candidate = self._family.candidates[place]
        if not candidate.evaluation.rows:  # a cascade by itself was not selected by anything
            candidate = Candidate(candidate.design, candidate.threshold, evaluation)
        return CertifiedCandidate(
            candidate,
            fingerprint(cascade),
            evaluation,
            reached,
            self._p_values[place],
            Bounds.of(evaluation, reached, cascade._plan.costs, labels, each),
        )

    def shortfalls(self, levels: NDArray[np.float64]) -> tuple[Shortfall, ...]:
        """Say what the closest candidate lacked."""
        closest = min(self._p_values, key=lambda place: self._p_values[place] / levels[place])
        cascade, evaluation, reached = self._judged[closest]
        cost = float(cost_upper(reached, cascade._plan.costs, levels[closest]))
        return tuple(self._targets.shortfalls(evaluation, cost, levels[closest]))


def _labels(
    model: CascadeSearchCV | CascadeClassifier, targets: Targets, X: Any, y: ArrayLike
) -> NDArray[Any]:
    """Check what is certified and the truth; a label that `fit` did not see is never right."""
    if not isinstance(model, CascadeSearchCV | CascadeClassifier):
        raise CertificateError(
            f"A CascadeSearchCV or a CascadeClassifier can be certified, got {model!r}."
        )
    check_is_fitted(model)
    classes = model.classes_.tolist()
    for label in targets.max_missed:
        if label not in classes:
            known = nearest(label, map(str, classes))
            raise CertificateError(f"`max_missed` names {label!r}, which is not a class{known}")
    truth: NDArray[Any] = column_or_1d(y, warn=True)
    n_rows = len(X)
    if len(truth) != n_rows or not n_rows:
        raise CertificateError(f"X has {n_rows} rows and `y` {len(truth)}; give as many, and some.")
    if not set(truth.tolist()) & set(classes):
        raise ClassesError(f"`y` holds none of the classes that `fit` saw, but {truth[0]!r}.")
    return truth


def _known_columns(model: CascadeSearchCV | CascadeClassifier, X: Any) -> Columns:
    """Read the columns of X that `fit` saw too."""
    names = getattr(model, "feature_names_in_", None)
    if container_of(X) == "array":
        X = np.asarray(X)
    elif names is not None:
        held = set(X.columns)
        return pick_columns(X, [name for name in names.tolist() if name in held])
    if len(X.shape) != 2 or X.shape[1] != model.n_features_in_:
        raise ColumnsError(f"X must have {model.n_features_in_} columns, its shape is {X.shape}.")
    named = generated_names(model.n_features_in_) if names is None else names.tolist()
    return read_columns(X, named)
