"""What tells one run of a search from another: all that its fits and its path depend on."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import is_dataclass
from platform import python_version
from typing import Any

import numpy as np

from emsco._fingerprint import Pickled, digest_of
from emsco._rows import hash_values
from emsco._training import Training
from emsco.exceptions import CertificateError, CheckpointError
from emsco.search._fitting import Fold
from emsco.search._problem import Problem, Search

_LIBRARIES = ("emsco", "numpy", "scipy", "sklearn")  # by which the default classifier is fitted


def describe_run(
    training: Training, folds: Sequence[Fold], problem: Problem, search: Search, random_state: str
) -> dict[str, str]:
    """Tell a run by name: text where it is short, else a digest.

    Workers and engines are not part of it, nor what comes after a search: `select`, `refit` and
    `guard` may differ.
    """
    columns, estimator = training.columns, training.estimator
    dtypes = [repr(getattr(column, "dtype", None)) for column in columns.values()]
    codes = np.unique(training.labels, return_inverse=True)[1]
    libraries = {*_LIBRARIES, type(estimator).__module__.partition(".")[0]} - {"builtins"}
    versions = {name: getattr(sys.modules.get(name), "__version__", "") for name in libraries}
    return {
        "rows": digest_of([list(columns), dtypes, hash_values(columns)]),
        "labels": digest_of([training.classes, codes]),
        "fit parameters": told(training.params or None),
        "folds": digest_of([[fold.train, fold.test] for fold in folds]),
        "costs": digest_of(problem.costs),
        "estimator": told(estimator),
        "container": training.container,
        "search": told(search),
        "threshold": digest_of(problem.thresholds),
        "max_stages": told(problem.max_stages),
        "allow_unused": told(problem.allow_unused),
        "max_missed": digest_of(problem.max_missed),
        "random_state": random_state,
        "python": python_version(),
        **versions,
    }


def told(value: Any) -> str:
    """Tell a number, a text or None as it is, and any other object by a digest of all it holds."""
    if value is None or isinstance(value, bool | int | float | str | np.generic):
        return str(value)
    try:
        return digest_of(value if is_dataclass(value) else Pickled(value))
    except CertificateError as error:
        raise CheckpointError(
            f"{type(value).__name__} cannot be pickled, so that a checkpoint could not tell it "
            "from another; search without one."
        ) from error
