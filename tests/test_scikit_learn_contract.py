"""scikit-learn's own checks pass, none expected to fail."""

from __future__ import annotations

import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from emsco import CascadeClassifier

ESTIMATORS = [
    CascadeClassifier(),
    CascadeClassifier(LogisticRegression()),
    CascadeClassifier(HistGradientBoostingClassifier(max_iter=20)),
]


@pytest.mark.filterwarnings("default")  # the checks themselves provoke warnings
@parametrize_with_checks(ESTIMATORS)
def test_check_estimator(estimator, check):
    check(estimator)
