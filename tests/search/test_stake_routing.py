"""`stake` as scikit-learn routes it: to the search itself, whatever it is inside of."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_validate
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from emsco import CascadeSearchCV

pytestmark = pytest.mark.filterwarnings("ignore::emsco.exceptions.SelectionWarning")


def rows(n_rows=200):
    rng = np.random.default_rng(0)
    y = np.arange(n_rows) % 2
    return rng.normal(size=(n_rows, 2)) + y[:, None], y, rng.integers(1, 50, n_rows).astype(float)


def search(**params):
    return CascadeSearchCV(
        threshold=0.6, cv=2, max_stages=2, luck=False, select={"by": "accuracy"}, **params
    )


def test_a_stake_is_divided_among_folds_if_it_is_requested():
    X, y, stake = rows()
    with sklearn.config_context(enable_metadata_routing=True):
        asked = search().set_fit_request(stake=True)
        made = cross_validate(asked, X, y, params={"stake": stake}, cv=2, return_estimator=True)
        for found in made["estimator"]:
            assert found.front_[0].evaluation.is_by_stake
        with pytest.raises(UnsetMetadataPassedError, match="stake"):
            cross_validate(search(), X, y, params={"stake": stake}, cv=2)
        not_asked = search().set_fit_request(stake=False)
        with pytest.raises(TypeError, match="stake"):
            cross_validate(not_asked, X, y, params={"stake": stake}, cv=2)


def test_a_stake_and_weights_go_their_own_ways():
    X, y, stake = rows()
    with sklearn.config_context(enable_metadata_routing=True):
        estimator = LogisticRegression().set_fit_request(sample_weight=True)
        by_both = search(estimator=estimator).fit(X, y, stake=stake, sample_weight=stake)
        by_stake = search(estimator=estimator).fit(X, y, stake=stake)
        inside = Pipeline(
            [("as_is", FunctionTransformer()), ("search", search().set_fit_request(stake=True))]
        ).fit(X, y, stake=stake)
    assert by_both.front_[0].evaluation.is_by_stake
    assert by_both.all_sources_.evaluation.rows == by_stake.all_sources_.evaluation.rows
    assert by_both.all_sources_.evaluation.right != by_stake.all_sources_.evaluation.right
    assert inside[-1].front_[0].evaluation.is_by_stake
