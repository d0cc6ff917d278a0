"""A search judges text as it will be on fresh rows, and hashes it once."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, TimeSeriesSplit

from emsco import CascadeClassifier, CascadeSearchCV, Costs, Source, dump, evaluate, load
from emsco.engine import LocalEngine
from emsco.learners import text_fits
from emsco.learners.text_fits import TextRows, blocks_of
from emsco.rows.hashed_text import HashedTexts
from emsco.search import yardstick_of

pytestmark = pytest.mark.filterwarnings("ignore::emsco.exceptions.SelectionWarning")

COSTS = Costs([Source("body", kind="text", cost=1), Source("calls", cost=5)])
TEXT = Costs([COSTS.sources[0]])
HALF = {"select": {"by": "accuracy"}, "luck": False, "random_state": 0}


def table(n_rows, n_classes=2, seed=0, share=0.4):
    """Make texts of which some words are of the class, and a number that tells a little."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n_rows)
    body = np.empty(n_rows, dtype=object)
    for row, label in enumerate(y):
        own = rng.random(6) < share
        words = np.where(own, f"c{label}word", [f"word{w}" for w in rng.integers(300, size=6)])
        body[row] = " ".join(words)
    return pd.DataFrame({"body": body, "calls": y + rng.normal(size=n_rows)}), y


def unique_ids(n_rows, seed=0):
    """Make a text that says nothing but is another one in every row."""
    rng = np.random.default_rng(seed)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz0123456789"))
    return ["".join(rng.choice(letters, 32)) for _ in range(n_rows)]


def test_a_text_of_random_ids_does_not_look_predictive():
    """Scores of models that have seen the row would tell every label."""
    X, y = table(1600)
    X["body"] = unique_ids(len(X))
    search = CascadeSearchCV(costs=COSTS, threshold=[0.6, 0.75], **HALF).fit(X[:800], y[:800])
    scored = search.score_front(X[800:], y[800:])
    for one in scored:
        selected, fresh = one.selected, one.fresh
        n_rows = max(1, round(fresh.coverage * 800))
        noise = 4 * np.sqrt(0.25 / n_rows + 0.25 / max(1, round(selected.coverage * 800)))
        assert abs(selected.accuracy - fresh.accuracy) <= noise
    alone = CascadeClassifier(costs=TEXT).fit(X[["body"]][:800], y[:800])
    decisions = alone.decide(X[["body"]][800:])
    assert abs((decisions.label == y[800:]).mean() - 0.5) < 0.08
    assert decisions.confidence.mean() < 0.6


def test_training_rows_get_scores_of_models_that_have_not_seen_them():
    X, y = table(300)
    X["body"] = unique_ids(len(X))
    search = CascadeSearchCV(costs=COSTS, **HALF).fit(X, y)
    training = search.found_.stages
    block = training.encoded("body")[:, 0]
    assert abs(np.corrcoef(block, y)[0, 1]) < 0.25
    seen = training.encoding("body").encode(X["body"].to_numpy())[:, 0]
    assert np.corrcoef(seen, y)[0, 1] > 0.9


def test_the_search_finds_what_the_text_adds():
    X, y = table(900)
    search = CascadeSearchCV(costs=COSTS, **HALF).fit(X[:600], y[:600])
    assert "body" in {name for stage in search.best_candidate_.design.stages for name in stage}
    fresh = evaluate(search.decide(X[600:]), y[600:])
    assert abs(fresh.accuracy - search.best_candidate_.evaluation.accuracy) < 0.1
    assert yardstick_of(search.found_) is None
    assert "message" not in search.summary()


def test_texts_are_hashed_once_and_each_model_is_fitted_once(monkeypatch):
    hashed, fitted = [], []
    own_of, own_fit = HashedTexts.of.__func__, text_fits.fit_text

    def of(cls, texts):
        hashed.append(len(texts))
        return own_of(cls, texts)

    def fit_text(own, *more):
        fitted.append(len(own))
        return own_fit(own, *more)

    monkeypatch.setattr(HashedTexts, "of", classmethod(of))
    monkeypatch.setattr(text_fits, "fit_text", fit_text)
    X, y = table(200)
    CascadeSearchCV(costs=COSTS, cv=5, **HALF).fit(X, y)
    assert hashed == [200]
    # Every pair of folds left out, every single one, and none.
    assert sorted(fitted) == [120] * 10 + [160] * 5 + [200]


def test_the_evaluated_cascade_decides_as_it_was_evaluated():
    X, y = table(300)
    train, test = np.arange(200), np.arange(200, 300)
    search = CascadeSearchCV(costs=COSTS, cv=[(train, test)], refit=False, threshold=0.8, **HALF)
    search.fit(X, y)
    for candidate in search.front_:
        again = evaluate(search.cascade(candidate).decide(X.iloc[test]), y[test])
        assert again.accepted == candidate.evaluation.accepted
        assert again.right == candidate.evaluation.right


def test_any_engine_and_a_file_give_the_same(tmp_path):
    X, y = table(300, n_classes=3)
    alone = CascadeSearchCV(costs=COSTS, **HALF).fit(X, y)
    together = CascadeSearchCV(costs=COSTS, engine=LocalEngine(n_jobs=2), **HALF).fit(X, y)
    assert list(alone.front_) == list(together.front_)
    dump(alone, tmp_path / "search.emsco")
    again = load(tmp_path / "search.emsco")
    assert np.array_equal(again.decide(X).confidence, alone.decide(X).confidence)
    pickled = pickle.loads(pickle.dumps(alone))
    assert np.array_equal(pickled.decide(X).confidence, alone.decide(X).confidence)


@pytest.mark.parametrize("n_classes", [3, pytest.param(50, marks=pytest.mark.nightly)])
def test_many_classes(n_classes):
    X, y = table(12 * n_classes, n_classes=n_classes, share=0.8)
    X = X[["body"]]
    cascade = CascadeClassifier(costs=TEXT).fit(X, y)
    assert cascade.decider_.readers["body"].encoding.width == n_classes
    fresh, truth = table(6 * n_classes, n_classes=n_classes, seed=1, share=0.8)
    assert (cascade.predict(fresh[["body"]]) == truth).mean() > 0.8


def test_a_class_of_one_row_and_texts_without_words():
    X, y = table(60)
    y[0] = 2
    cascade = CascadeClassifier(costs=COSTS).fit(X, y)
    assert np.isfinite(cascade.predict_proba(X)).all()
    for nothing in ("   ", None):
        X["body"] = np.array([nothing] * len(X), dtype=object)
        cascade = CascadeClassifier(costs=COSTS).fit(X, y)
        assert np.isfinite(cascade.predict_proba(X)).all()
        assert len(cascade.decider_.readers["body"].encoding.buckets) == 0


def test_text_of_megabytes():
    X, y = table(40)
    X.loc[0, "body"] = "spam and ham " * 400_000
    X.loc[1, "body"] = "x" * 5_000_000
    cascade = CascadeClassifier(costs=COSTS).fit(X, y)
    assert np.isfinite(cascade.predict_proba(X)).all()


ROWS = np.arange(100)


def folds_of(splitter, groups=None):
    return [test for _, test in splitter.split(ROWS, ROWS % 2, groups)]


def test_blocks_are_the_test_folds():
    blocks = blocks_of(100, folds_of(KFold(5)), None)
    assert np.unique(blocks, return_counts=True)[1].tolist() == [20] * 5
    assert blocks.tolist() == sorted(blocks)
    early = blocks_of(100, folds_of(TimeSeriesSplit(4)), None)
    assert np.unique(early, return_counts=True)[1].tolist() == [20] * 5


def test_blocks_never_divide_groups():
    groups = ROWS // 7
    for folds in (folds_of(GroupKFold(4), groups), folds_of(ShuffleSplit(3, random_state=0))):
        blocks = blocks_of(100, folds, groups)
        assert all(len(set(blocks[groups == group])) == 1 for group in set(groups))
    assert blocks_of(100, folds_of(ShuffleSplit(3, random_state=0)), None) is None
    assert len(set(blocks_of(100, folds_of(KFold(2)), groups))) == 5


def test_cells_keep_classes_in_proportion_or_blocks_whole():
    codes = (ROWS % 10 == 0).astype(np.intp)
    own = TextRows(ROWS, codes, np.ones(100), None)
    counts = np.bincount(own.cells() * 2 + codes).reshape(5, 2)
    assert counts.tolist() == [[18, 2]] * 5
    blocks = ROWS // 50
    assert (own._replace(blocks=blocks).cells() == blocks).all()
    one_block = own.take(np.flatnonzero(blocks == 0))._replace(blocks=np.zeros(50, dtype=np.intp))
    assert len(np.unique(one_block.cells())) == 5


def test_groups_stay_together_in_a_search():
    """All rows of a customer have one label and one signature, by which fits would know them."""
    rng = np.random.default_rng(0)
    customers = np.repeat(np.arange(80), 5)
    y = rng.integers(2, size=80)[customers]
    ids = unique_ids(80)
    X = pd.DataFrame({"body": [ids[c] for c in customers], "calls": rng.normal(size=400)})
    search = CascadeSearchCV(costs=COSTS, cv=GroupKFold(5), threshold=0.501, **HALF)
    search.fit(X, y, groups=customers)
    block = search.found_.stages.encoded("body")[:, 0]
    assert abs(np.corrcoef(block, y)[0, 1]) < 0.4
