"""What stages are clones of, by the name that a command gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import typer

from emsco.cli._imports import import_named, is_named
from emsco.exceptions import SearchError

# Written out, because a command must not load learners to print its help.
LOGISTIC, BOOSTED, AUTO, FOREST = "logistic", "boosted", "auto", "forest"


def estimator_of(name: str, X: Any, random_state: int, long_text: Sequence[str] = ()) -> Any:
    """Make the estimator of stages: one of the table below, or a class as module:Class.

    None is the default, a logistic regression.
    """
    if long_text and name in (BOOSTED, FOREST, AUTO):
        raise SearchError(
            f"{name} cannot take long text, such as that of {long_text[0]!r}; use {LOGISTIC}, or "
            "leave the column out of the costs."
        )
    if name in ESTIMATORS:
        return ESTIMATORS[name](X, random_state)
    if not is_named(name):
        raise typer.BadParameter(
            f"--estimator takes {', '.join(ESTIMATORS)} or module:Class; got {name!r}."
        )
    try:
        estimator: Any = import_named(name, "--estimator", "class")()
    except TypeError as error:
        raise typer.BadParameter(
            f"--estimator {name} must be a class that needs no arguments: {error}."
        ) from error
    return estimator


def _logistic(X: Any, random_state: int) -> None:
    """Return what stands for the default classifier."""
    del X, random_state


def _boosted(X: Any, random_state: int) -> Any:
    """Make boosted trees."""
    from emsco.learners.boosted_trees import boosted_trees

    return boosted_trees([X[name] for name in X.columns], random_state)


def random_forest(X: Any, random_state: int) -> Any:
    """Make a random forest, which takes text as the number of its category."""
    from sklearn.ensemble import RandomForestClassifier

    from emsco.learners.boosted_trees import with_numbered_text

    forest = RandomForestClassifier(min_samples_leaf=3, random_state=random_state)
    return with_numbered_text(forest, [X[name] for name in X.columns])


def _several(X: Any, random_state: int) -> str:
    """Return what stands for logistic regression and boosted trees, both."""
    del X, random_state
    return AUTO


ESTIMATORS: dict[str, Callable[[Any, int], Any]] = {
    LOGISTIC: _logistic,
    BOOSTED: _boosted,
    AUTO: _several,
    FOREST: random_forest,
}
