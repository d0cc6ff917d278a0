"""Learners that fit stages: logistic regression in batches, any estimator, one masked model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from emsco.exceptions import Parameter, SearchError
from emsco.learners.protocol import Learner
from emsco.rows.columns import Columns

AUTO = "auto"  # as an estimator: logistic regression and boosted trees
LOGISTIC = "logistic"
BOOSTED = "boosted"


def learner_of(estimator: Any) -> Learner:
    """Return the learner for the `estimator` that the user gave; each is loaded when it is needed.

    An estimator may provide its own by a method `emsco_learner()`, as `MaskedClassifier` does.
    """
    if estimator is None:
        from emsco.learners.logistic import LogisticLearner

        return LogisticLearner()
    if hasattr(estimator, "emsco_learner"):
        own: Learner = estimator.emsco_learner()
        return own
    from emsco.learners.estimator_learner import EstimatorLearner

    return EstimatorLearner(estimator)


def estimators_of(
    estimator: Any, columns: Columns, long_text: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the estimators of a search by name, for a table with these columns.

    A single one has the name "", because nothing needs to tell it from others.
    """
    if isinstance(estimator, str) and estimator == AUTO:
        if long_text:
            raise SearchError(
                f"Boosted trees cannot take long text, such as that of {long_text[0]!r}; leave out "
                + Parameter("estimator")
                + ", or this column."
            )
        from emsco.learners.boosted_trees import boosted_trees

        return {LOGISTIC: None, BOOSTED: boosted_trees(columns.values())}
    if not isinstance(estimator, Mapping):
        return {"": estimator}
    for name, one in estimator.items():
        if not (isinstance(name, str) and name.replace("_", "a").replace("-", "a").isalnum()):
            raise SearchError(
                "The names of several estimators must be words of letters, digits, - and _, got "
                f"{name!r:.80}."
            )
        if one is not None and not (hasattr(one, "fit") and hasattr(one, "predict_proba")):
            raise SearchError(
                f"The estimator {name!r} must have `fit` and `predict_proba`, got {one!r:.80}."
            )
    if not estimator:
        raise SearchError("`estimator` names no estimator; give at least one.")
    return dict(estimator) if len(estimator) > 1 else {"": next(iter(estimator.values()))}


def first_learner(estimator: Any) -> Learner:
    """Return the learner of the first estimator, by which rows are read."""
    if isinstance(estimator, Mapping):
        return learner_of(next(iter(estimators_of(estimator, {}).values())))
    return learner_of(None if isinstance(estimator, str) else estimator)
