"""Certify: take fresh rows, refuse known ones, and test candidates in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import _safe_indexing, check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted

from emsco._columns import Columns, container_of, pick_columns, read_columns
from emsco._fingerprint import fingerprint, fingerprints
from emsco._rows import FittedRows, Spent, hash_keys, hash_values
from emsco.cascade import CascadeClassifier
from emsco.certify._binomial import cost_p_value, cost_upper
from emsco.certify._certificate import Bounds, Certificate, CertifiedCandidate
from emsco.certify._order import in_order
from emsco.certify._required import check_between
from emsco.certify._sequence import passed, shares
from emsco.certify._targets import Shortfall, Targets
from emsco.costs import generated_names
from emsco.evaluation import Evaluation, evaluate
from emsco.exceptions import CertificateError, ClassesError, ColumnsError, nearest
from emsco.front import Candidate
from emsco.search import CascadeSearchCV

_BOUNDS = 4  # told of a candidate, besides one a class


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
    )
    check_between("confidence", confidence)
    part = 1.0 if share is None else share
    if not isinstance(part, Real) or not 0 < part <= 1:
        raise CertificateError(f"`share` must be above 0 and at most 1, got {share!r}.")
    truth = _labels(model, targets, X, _answers(model, X, y) if agreement is not None else y)
    rows = _rows_used(len(truth), groups, random_state)
    columns = _known_columns(model, X)
    fitted: FittedRows = model.__dict__.setdefault("_fitted_rows", FittedRows())
    family = _family(model, targets)
    values = hash_values(columns)
    rows_fingerprint = _fingerprint_of(values, truth)
    asked = (targets, confidence, family.name, rows_fingerprint, values.tobytes(), rows.tobytes())
    wanted = Spent(
        names=tuple(columns),
        values=values,
        keys=hash_keys(X, keys),
        question=sha256(repr(asked).encode()).hexdigest(),
        share=float(part),
    )
    twins = fitted.refuse_known(wanted)
    fitted.refuse_overspent(wanted)
    if groups is not None:
        X, truth = _safe_indexing(X, rows), truth[rows]
    level = (1 - confidence) * part
    levels = level * shares(len(family.candidates), family.among)
    tested: dict[int, _Tested] = {}

    def p_value(place: int) -> float:
        candidate = family.candidates[place]
        tested[place] = _test(candidate, family.build(candidate), targets, X, truth)
        return tested[place].p_value

    certified = [tested[place] for place in passed(levels, p_value)]
    # One for every candidate that might be listed and every bound told: the worst must hold too.
    each = level / (len(family.candidates) * (_BOUNDS + len(model.classes_)))
    told = fingerprints(one.cascade for one in certified)
    listed = [one.certified(each, own) for one, own in zip(certified, told, strict=True)]
    fitted.spend(wanted)
    return Certificate(
        targets=targets,
        confidence=float(confidence),
        share=float(part),
        rows=len(truth),
        rows_given=len(values),
        tried=len(family.candidates),
        candidates=tuple(listed),
        shortfalls=() if certified else _lacking(tested, targets, levels),
        rows_fingerprint=rows_fingerprint,
        twins=twins,
        unit=model.costs_.unit,
    )


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
    return sha256(np.sort(values + hash_values({"label": truth})).tobytes()).hexdigest()


class _Family(NamedTuple):
    """The candidates to test, in order, of how many, and how each becomes a cascade."""

    name: str
    candidates: Sequence[Candidate]
    among: int
    build: Callable[[Candidate], CascadeClassifier]


def _family(model: CascadeSearchCV | CascadeClassifier, targets: Targets) -> _Family:
    if isinstance(model, CascadeClassifier):
        itself = Candidate(model.design_, model.threshold, Evaluation(0, 0, 0, 0))
        return _Family(fingerprint(model), [itself], 1, lambda _: model)
    if not len(model.front_):
        raise CertificateError("The front is empty: there is no candidate to certify.")
    candidates = in_order(model.front_, targets, model.costs_)
    return _Family("front", candidates, len(model.front_), model.cascade)


class _Tested(NamedTuple):
    """A candidate, its cascade, and what was counted of it on the calibration rows."""

    candidate: Candidate
    cascade: CascadeClassifier
    evaluation: Evaluation
    reached: tuple[int, ...]
    p_value: float

    @property
    def prices(self) -> tuple[float, ...]:
        """What a row has paid that bought each stage."""
        return tuple(self.cascade._plan.costs.tolist())

    def certified(self, level: float, own: str) -> CertifiedCandidate:
        """Tell all about one that passed, with bounds that are each false at most at `level`.

        `own` is its cascade's fingerprint.
        """
        candidate, evaluation = self.candidate, self.evaluation
        if not candidate.evaluation.rows:  # a cascade by itself was not selected by anything
            candidate = Candidate(candidate.design, candidate.threshold, evaluation)
        labels = self.cascade.classes_.tolist()
        return CertifiedCandidate(
            candidate,
            own,
            evaluation,
            self.reached,
            self.prices,
            self.p_value,
            Bounds.of(evaluation, self.reached, self.prices, labels, level),
        )


def _lacking(
    tested: Mapping[int, _Tested], targets: Targets, levels: NDArray[np.float64]
) -> tuple[Shortfall, ...]:
    """Say what the closest candidate lacks, where none has passed."""
    place = min(tested, key=lambda place: tested[place].p_value / levels[place])
    closest, level = tested[place], levels[place]
    cost = float(cost_upper(closest.reached, closest.prices, level))
    return tuple(targets.shortfalls(closest.evaluation, cost, level))


def _test(
    candidate: Candidate, cascade: CascadeClassifier, targets: Targets, X: Any, truth: NDArray[Any]
) -> _Tested:
    decisions = cascade.decide(X)
    evaluation = evaluate(decisions, truth)
    stages = range(len(cascade.stages_))
    reached = tuple(int((decisions.exit_stage >= stage).sum()) for stage in stages)
    tested = _Tested(candidate, cascade, evaluation, reached, 1.0)
    most = targets.max_cost
    cost = 0.0 if most is None else cost_p_value(reached, tested.prices, most)
    return tested._replace(p_value=targets.p_value(evaluation, cost))


def _answers(model: CascadeSearchCV | CascadeClassifier, X: Any, y: ArrayLike | None) -> Any:
    """Give what the final model answers."""
    if getattr(model, "final", None) is None:
        raise CertificateError("`agreement` is with a final model, and this one has none.")
    if y is not None:
        raise CertificateError("With `agreement` the final model's answers are the truth; no `y`.")
    return model.final.predict(X)


def _labels(
    model: CascadeSearchCV | CascadeClassifier, targets: Targets, X: Any, y: ArrayLike | None
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
