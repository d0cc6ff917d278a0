"""Tables as people have them: more columns, columns without names, another library's frames."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from emsco import CascadeClassifier, CascadeSearchCV, StageDesign
from emsco.exceptions import ClassesError, ColumnsError, SearchError, SelectionError

COSTS = {"age": 1, "test": 5}


@pytest.fixture(scope="module")
def rows():
    """Make rows whose class is in both columns."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(300) < 0.5, "sick", "well")
    shift = (y == "sick").astype(float)
    return pd.DataFrame({"age": shift + rng.normal(size=300), "test": 2 * shift}), y


@pytest.fixture(scope="module")
def cascade(rows):
    """Fit a cascade of two stages."""
    X, y = rows
    design = StageDesign.from_stages([["age"], ["test"]], list(COSTS))
    return CascadeClassifier(design=design, costs=COSTS).fit(X + 0.0, y)


def test_other_columns_are_ignored_by_every_method(cascade, rows):
    X, _ = rows
    more = X.assign(note="new").iloc[:, [2, 0, 1]]
    for frame in (more, pl.from_pandas(more)):
        assert (cascade.predict_proba(frame) == cascade.predict_proba(X)).all()
        assert (cascade.predict(frame) == cascade.predict(X)).all()
        assert (cascade.decide(frame).confidence == cascade.decide(X).confidence).all()


def test_another_order_is_for_decide_alone(cascade, rows):
    X, _ = rows
    turned = X[["test", "age"]].assign(note="new")
    assert (cascade.decide(turned).label == cascade.decide(X).label).all()
    with pytest.raises(ValueError, match="must be in the same order"):
        cascade.predict_proba(turned)
    with pytest.raises(ValueError, match="yet now missing"):
        cascade.predict(X[["age"]].assign(note="new"))


def test_a_search_ignores_other_columns_too(rows):
    X, y = rows
    search = CascadeSearchCV(costs=COSTS, select={"by": "coverage"}, luck=False).fit(X, y)
    assert (search.predict_proba(X.assign(note=1)) == search.predict_proba(X)).all()
    assert search.score(X.assign(note=1), y) == search.score(X, y)


def test_decisions_about_polars_rows_are_a_polars_frame(cascade, rows):
    X, _ = rows
    decisions = cascade.decide(pl.from_pandas(X))
    frame = decisions.to_frame()
    assert isinstance(frame, pl.DataFrame)
    expected = cascade.decide(X).to_frame()
    assert isinstance(expected, pd.DataFrame)
    assert frame.columns == list(expected)
    assert frame["label"].to_list() == expected.label.tolist()
    assert frame["confidence"].to_list() == expected.confidence.tolist()
    assert frame["label"].dtype == pl.String


def test_prices_behind_a_step_that_loses_names_say_how_to_keep_them(rows):
    X, y = rows
    pipeline = make_pipeline(StandardScaler(), CascadeClassifier(costs=COSTS))
    with pytest.raises(ColumnsError, match=r"set_output\(transform='pandas'\)"):
        pipeline.fit(X, y)
    pipeline.set_output(transform="pandas").fit(X, y)
    assert pipeline.predict(X).shape == (300,)
    with pytest.raises(ColumnsError) as error:  # names that are there need no such hint
        CascadeClassifier(costs={"agee": 1, "test": 5}).fit(X, y)
    assert "set_output" not in str(error.value)


@pytest.mark.parametrize(
    ("bound", "message"),
    [
        ({"min_accuracy": 95}, r"is a share from 0 to 1, got 95; 95% is 0\.95\."),
        ({"min_coverage": 1.5}, "got 1.5; 1.5% is 0.015"),
        ({"max_missed": {"sick": 5}}, "of 'sick' is a share from 0 to 1, got 5; 5% is 0.05"),
        ({"min_accuracy": -0.1}, r"got -0\.1\."),
        ({"min_accuracy": 950}, r"got 950\."),
    ],
)
def test_a_share_above_one_is_answered_with_the_share(rows, bound, message):
    X, y = rows
    search = CascadeSearchCV(costs=COSTS, select={"by": "coverage"}, luck=False).fit(X, y)
    with pytest.raises(SelectionError, match=message):
        search.choose(**bound)


def test_too_few_rows_and_too_many_classes_are_answered_in_our_words(rows):
    X, y = rows
    with pytest.raises(ClassesError, match="5 rows of a class, but the largest of 2 classes has 4"):
        CascadeSearchCV().fit(X[:8], [0, 1] * 4)
    with pytest.raises(ClassesError, match="at most 256 classes, got 300; merge rare classes"):
        CascadeSearchCV().fit(pd.concat([X, X]), np.arange(600) // 2)
    with pytest.raises(ClassesError, match="5 rows of a class, but the largest of 150 classes"):
        CascadeSearchCV().fit(X, np.arange(300) // 2)
    for splitter in (GroupKFold(5), StratifiedGroupKFold(5)):
        with pytest.raises(SearchError, match="needs 5 groups, but there are 3"):
            CascadeSearchCV(cv=splitter).fit(X, y, groups=np.arange(300) % 3)
