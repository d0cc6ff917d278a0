"""Certify cascades on rows that they have not seen."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from emsco.cascade import CascadeClassifier
from emsco.certify._certificate import Certificate
from emsco.certify._certify_together import certify_together
from emsco.certify._targets import Targets
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
    way: str | None = None,
    stake: str | ArrayLike | None = None,
    cap: float | None = None,
    by: str | ArrayLike | None = None,
    every: bool = True,
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
    way : {"ladder", "front"}, default=None
        What is tested. "front": candidates of the front, or the cascade itself. "ladder", for
        `agreement` of a search alone: thresholds of one design (of the chosen candidate, if it has
        a stage before the final model), as dense as the scores, from strict to loose; what is found
        is a candidate with thresholds of its own. It is part of the question. None: what the
        figures of the search predict to cost less per row.
    stake : array or str, default=None
        What is at stake in each row, such as an amount, or the column of X that holds it: all
        shares are then shares of the stake. It needs a `cap`.
    cap : float, default=None
        The largest stake of a row that may be accepted, fixed before the rows are looked at. Rows
        above it go to review, and `Certificate.enforce` returns the cascade that does so. The lower
        the cap, the fewer rows are needed: they count as the sum of the stakes over the cap.
    by : array or str, default=None
        The group of each row, such as the sex or the region of a person, or the column of X that
        holds it: all targets must hold in each group.
    every : bool, default=True
        With `by`: whether candidates are certified that keep the targets in every group. False:
        list the groups in which the chosen candidate, or the cascade, keeps them.
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
    >>> certificate = certify(stages.fit(X[500:1000]), X[1000:], agreement=0.95, way="ladder")
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
        way=way,
        stake=stake,
        cap=cap,
        by=by,
        every=every,
        allow=allow,
        ledger=ledger,
        random_state=random_state,
        final_fitted_elsewhere=final_fitted_elsewhere,
    )[0]
