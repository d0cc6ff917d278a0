"""What cheaper stages before an existing model would have saved, and which decisions change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing, check_random_state

from emsco._utils.progress import followed
from emsco.certify import Certificate, CertifiedCandidate, Targets, certify_together
from emsco.exceptions import CertificateError
from emsco.search import CascadeSearchCV

_MOST_ROWS = 50_000  # to search on, and to certify on: more would hardly change any figure


@dataclass(frozen=True)
class Saving:
    """The cost and the changed decisions at one promised agreement.

    Parameters
    ----------
    agreement : float
        The promised share of decisions left as they were.
    certificate : Certificate
        The promise, or the number of rows that it would need.
    best : CertifiedCandidate or None
        The cheapest certified candidate; None if none is certified. By the ladder, its thresholds
        are none of the search.
    cost : float
        Its mean cost per row on the calibration rows; the full price if none is certified.
    early : float
        The share of those rows that never reach the model.
    changed : ndarray of int
        The rows of X, among the calibration rows, that would have been decided differently.
    before, after : ndarray
        The answers of the model on those rows, and the answers of the stage before it.
    """

    agreement: float
    certificate: Certificate
    best: CertifiedCandidate | None
    cost: float
    early: float
    changed: NDArray[np.intp]
    before: NDArray[Any]
    after: NDArray[Any]


@dataclass(frozen=True)
class Savings:
    """The result of `savings`: the search, how rows were used, and a `Saving` per agreement."""

    search: CascadeSearchCV
    searched: NDArray[np.intp]
    certified_on: NDArray[np.intp]
    confidence: float
    each: tuple[Saving, ...]


def savings(
    search: CascadeSearchCV,
    X: Any,
    *,
    agreement: Sequence[float] = (0.98, 0.99, 0.995),
    confidence: float = 0.99,
    way: str | None = None,
    allow: Mapping[str, str] | None = None,
    random_state: Any = None,
) -> Savings:
    """Search on one half of the logged rows, and certify agreement on the other half.

    Parameters
    ----------
    search : CascadeSearchCV
        A search with its `final` model and `target="agreement"`; it is fitted here.
    X : pandas or polars frame, or numpy array
        Rows as the model saw them, drawn in the same way as future rows.
    agreement : sequence of float, default=(0.98, 0.99, 0.995)
        Shares of decisions left as they were.
    confidence : float, default=0.99
        One minus the probability that any of these promises is false, all of them together.
    way : {"ladder", "front"}, default=None
        As in `certify`, for every agreement; None decides for each.
    allow : mapping of str to str, default=None
        As in `certify`: what would otherwise be refused, and why it is right for these rows.
    random_state : int, RandomState or None, default=None
        Draws the halves; if there are more than 100,000 rows, 100,000 of them are drawn.

    Examples
    --------
    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> from emsco import CascadeSearchCV
    >>> from emsco.datasets import make_costly_classification
    >>> from emsco.savings import savings
    >>> X, y, costs = make_costly_classification(5000, 4, class_sep=2, random_state=0)
    >>> model = HistGradientBoostingClassifier(random_state=0).fit(X[:1000], y[:1000])
    >>> search = CascadeSearchCV(costs=costs, final=model, target="agreement", max_stages=2)
    >>> found = savings(search, X[1000:], agreement=[0.95], random_state=0)
    >>> saving = found.each[0]
    >>> bool(saving.cost < costs.total)
    True
    >>> bool(len(saving.changed) <= 0.05 * len(found.certified_on))
    True
    """
    if search.final is None or search.needs_labels:
        raise CertificateError(
            "`savings` needs a search with a final model: CascadeSearchCV(final=model, "
            "target='agreement')."
        )
    targets = sorted(set(agreement))
    order = check_random_state(random_state).permutation(len(X))[: 2 * _MOST_ROWS]
    searched, certified = (np.sort(half) for half in np.array_split(order, 2))
    search.fit(_safe_indexing(X, searched))
    fresh = _safe_indexing(X, certified)
    answers = search.truth(fresh)
    questions = [Targets(agreement=target) for target in targets]
    certificates = certify_together(
        search,
        fresh,
        None,
        questions,
        confidence=confidence,
        way=way,
        allow=allow,
        chosen_first=False,
    )

    def saving(target: float, certificate: Certificate) -> Saving:
        """Decide the calibration rows with the cheapest certified candidate, if there is one."""
        if not certificate.certified:
            none, total = answers[:0], search.costs_.total
            return Saving(target, certificate, None, total, 0.0, certified[:0], none, none)
        best = certificate.select(by="cost")
        decisions = search.cascade(best.candidate).decide(fresh)
        differ = np.flatnonzero(decisions.label != answers)
        return Saving(
            agreement=target,
            certificate=certificate,
            best=best,
            cost=float(decisions.cost.mean()),
            early=float((decisions.exit_stage < best.candidate.design.n_stages - 1).mean()),
            changed=certified[differ],
            before=answers[differ],
            after=decisions.label[differ],
        )

    each = tuple(
        saving(target, certificate)
        for target, certificate in followed([*zip(targets, certificates, strict=True)], "savings")
    )
    return Savings(search, searched, certified, float(confidence), each)
