"""Check that a loaded stage gives probabilities at all."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np

from emsco.learners.estimator_learner import EstimatorStage
from emsco.learners.final_model import FinalStage
from emsco.learners.protocol import Judge
from emsco.rows.encoding import Category, ColumnEncoding

_NUMBERS = (0.0, 1.0, -1.0, 1e9, -1e9)  # larger than useful values, and far from overflow


def answers(stage: EstimatorStage | FinalStage, n_classes: int) -> bool:
    """Return whether a stage of the user's own gives probabilities for rows of numbers.

    Not every stage does: some take only text. So a file records whether its stages did when it was
    written, and the loaded ones must do the same.
    """
    return _is_judge(stage, dict.fromkeys(stage.features, np.array(_NUMBERS)), n_classes)


def answers_by_default(
    stage: Judge, encodings: Mapping[str, ColumnEncoding], n_classes: int
) -> bool:
    """Return whether a stage of the default classifier gives probabilities, as it must."""
    unknown = np.full(len(_NUMBERS), None, dtype=object)
    columns = {
        name: unknown if isinstance(encoding, Category) else np.array(_NUMBERS)
        for name, encoding in encodings.items()
    }
    return _is_judge(stage, columns, n_classes)


def _is_judge(stage: Judge, columns: Mapping[str, np.ndarray], n_classes: int) -> bool:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            probability = np.array(stage(columns), dtype=np.float64)
        except ImportError:  # a library is missing, so nothing can be checked
            return True
        except Exception:  # a user's model may raise anything
            return False
    right_shape = probability.shape == (n_classes, len(_NUMBERS))
    return right_shape and bool(((probability >= 0) & (probability <= 1 + 1e-6)).all())
