"""All sources at once by boosted trees: what a strong learner would make of the same rows.

A cascade is compared with all sources by its own learner. If that learner is weak, so is the
comparison; therefore the same figures are given for boosted trees, where they are not in use.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from emsco.exceptions import Keyword, Message
from emsco.learners import AUTO, learner_of
from emsco.learners.label_weights import fitted_to
from emsco.learners.training import Training
from emsco.search.default_rule import AllSources

if TYPE_CHECKING:
    from emsco.search.fitted_search import FittedSearch

YARDSTICK = "boosted trees"
_MADE = "yardstick"  # its name among what a search computes when it is needed
_GAIN = 0.01  # in accuracy, from which another learner is worth a hint


def yardstick_of(found: FittedSearch) -> AllSources | None:
    """Return all sources by boosted trees on the rows and folds of a search; fit them once.

    None: the search has them already, decides by a final model, or is from a file without them.

    Examples
    --------
    >>> from emsco import CascadeSearchCV
    >>> from emsco.datasets import make_costly_classification
    >>> from emsco.search import yardstick_of
    >>> X, y, costs = make_costly_classification(1000, n_sources=3, random_state=0)
    >>> search = CascadeSearchCV(costs=costs, select={"by": "accuracy"}, threshold=0.7).fit(X, y)
    >>> yardstick_of(search.found_).at(1.0).accuracy > 0.7
    True
    """
    if _MADE not in found.made:
        found.made[_MADE] = _measured(found)
    made: AllSources | None = found.made[_MADE]
    return made


def with_yardstick(found: FittedSearch, yardstick: AllSources | None) -> FittedSearch:
    """Return a search with the figures of boosted trees that a file has.

    Examples
    --------
    >>> from emsco import CascadeSearchCV
    >>> from emsco.datasets import make_costly_classification
    >>> from emsco.search import with_yardstick, yardstick_of
    >>> X, y, costs = make_costly_classification(1000, n_sources=3, random_state=0)
    >>> search = CascadeSearchCV(costs=costs, select={"by": "accuracy"}, threshold=0.7).fit(X, y)
    >>> yardstick_of(with_yardstick(search.found_, None)) is None
    True
    """
    return replace(found, made={**found.made, _MADE: yardstick})


def _measured(found: FittedSearch) -> AllSources | None:
    from emsco.learners.boosted_trees import boosted_trees, is_boosted

    rows: Any = found.searched or found.stages
    in_use = (stages.learner.estimator for stages in found.by_learner().values())
    if found.spec is None or found.final is not None or not isinstance(rows, Training):
        return None
    if any(map(is_boosted, in_use)):
        return None
    learner = learner_of(boosted_trees(rows.columns.values()))
    params = {} if rows.weight is None else {"sample_weight": rows.weight}
    try:
        training = replace(rows, learner=learner, params=params).judged_by(rows.rule)
        return AllSources.of(found.spec.problem(fitted_to(training, found.spec.folds)))
    except ValueError:  # they do not take every table
        return None


def sentence_of(
    yardstick: AllSources | None, own: AllSources, coverage: float, *, hints: bool = True
) -> list[str]:
    """Say how often boosted trees are right on all sources, and where they would gain."""
    if yardstick is None:
        return []
    every = yardstick.at(1.0).accuracy
    words = f"With {YARDSTICK}, all sources at once are right on {every:.1%} of all rows"
    if 0 < own.n_accepted(coverage) < len(own.truth):
        words += f", and on {yardstick.at(coverage).accuracy:.1%} of as many"
    if hints and every - own.at(1.0).accuracy > _GAIN:
        more = "; " + Keyword("estimator", AUTO) + " searches with them, too."
        return [Message(words, more)]
    return [f"{words}."]
