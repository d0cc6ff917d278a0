"""What identifies a run of a search: everything that its fits and its path depend on."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import is_dataclass
from platform import python_version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco.cascade.fingerprint import Pickled, digest_of
from emsco.exceptions import CertificateError, CheckpointError
from emsco.learners.protocol import Fold
from emsco.learners.training import Training
from emsco.rows.row_hashes import hash_exactly
from emsco.search._problem import Problem, Search

_LIBRARIES = ("emsco", "numpy", "scipy", "sklearn")  # that fit the default classifier


def describe_run(
    training: Training,
    answers: NDArray[Any] | None,
    folds: Sequence[Fold],
    problem: Problem,
    search: Search,
) -> dict[str, str]:
    """Describe a run by name and value: short values as text, others by a digest.

    `answers` are those of a final model, which is identified by them alone. Workers and engines are
    not part of a run, nor is what comes after a search: `select`, `refit` and `guard` may differ.
    """
    columns, estimator = training.columns, training.learner.estimator
    dtypes = [repr(getattr(column, "dtype", None)) for column in columns.values()]
    libraries = {*_LIBRARIES, type(estimator).__module__.partition(".")[0]}
    versions = {name: getattr(sys.modules.get(name), "__version__", None) for name in libraries}
    rejected = problem.max_rejected
    return {
        "rows": digest_of([list(columns), dtypes, hash_exactly(columns)]),
        "labels": _digest_classes(training.labels),
        "final model": identify(None) if answers is None else _digest_classes(answers),
        "fit parameters": identify(training.params or None),
        "folds": digest_of([[fold.train, fold.test] for fold in folds]),
        "costs": digest_of(problem.costs),
        "estimator": identify(estimator),
        "container": training.container,
        "search": identify(search),
        "threshold": digest_of(problem.thresholds),
        "max_stages": identify(problem.max_stages),
        "allow_unused": identify(problem.allow_unused),
        "max_missed": digest_of(problem.max_missed),
        **({"max_rejected": digest_of(rejected)} if rejected else {}),
        "python": python_version(),
        **{name: version for name, version in versions.items() if version is not None},
    }


def _digest_classes(labels: NDArray[Any]) -> str:
    """Digest labels: the distinct ones, and the code of each row."""
    return digest_of(np.unique(labels, return_inverse=True))


def identify(value: Any) -> str:
    """Return a number, a text or None as text, and a digest of any other object."""
    if value is None or isinstance(value, bool | int | float | str | np.generic):
        return str(value)
    try:
        return digest_of(value if is_dataclass(value) else Pickled(value))
    except CertificateError as error:
        raise CheckpointError(
            f"{type(value).__name__} cannot be pickled, so that a checkpoint could not tell it "
            "from another; search without one."
        ) from error
