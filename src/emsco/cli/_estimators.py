"""What stages are clones of, by the name that a command gets."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import typer

LOGISTIC = "logistic"


def estimator_of(name: str, X: Any, random_state: int) -> Any:
    """Make the estimator of stages: one of the table below, or a class as module:Class.

    None is the default, a logistic regression.
    """
    if name in ESTIMATORS:
        return ESTIMATORS[name](X, random_state)
    module, colon, qualified = name.partition(":")
    if not (module and colon and qualified):
        raise typer.BadParameter(
            f"--estimator takes {', '.join(ESTIMATORS)} or module:Class; got {name!r}."
        )
    try:
        estimator: Any = getattr(import_module(module), qualified)()
    except ImportError as error:
        raise typer.BadParameter(
            f"--estimator {name} cannot be imported: {error}; is its folder in PYTHONPATH?"
        ) from error
    except AttributeError as error:
        raise typer.BadParameter(f"--estimator: {module} has no class {qualified!r}.") from error
    except TypeError as error:
        raise typer.BadParameter(
            f"--estimator {name} must be a class that needs no arguments: {error}."
        ) from error
    return estimator


def _logistic(X: Any, random_state: int) -> None:
    """Return what stands for the default classifier."""
    del X, random_state


def boosted_trees(X: Any, random_state: int) -> Any:
    """Make boosted trees, which take text as the number of its category."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    boosted = HistGradientBoostingClassifier(
        max_iter=50, max_leaf_nodes=15, random_state=random_state
    )
    return _with_numbered_text(boosted, X)


def random_forest(X: Any, random_state: int) -> Any:
    """Make a random forest, which takes text as the number of its category."""
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(min_samples_leaf=3, random_state=random_state)
    return _with_numbered_text(forest, X)


def _with_numbered_text(estimator: Any, X: Any) -> Any:
    """Put an encoder of text before an estimator, if there is any text."""
    import numpy as np
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OrdinalEncoder

    text = make_column_selector(dtype_exclude="number")
    if not text(X):
        return estimator
    numbered = OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=np.nan, encoded_missing_value=np.nan
    )
    return make_pipeline(
        make_column_transformer((numbered, text), remainder="passthrough"), estimator
    )


# A choice between estimators, such as `auto`, would be another name here.
ESTIMATORS: dict[str, Callable[[Any, int], Any]] = {
    LOGISTIC: _logistic,
    "boosted": boosted_trees,
    "forest": random_forest,
}
