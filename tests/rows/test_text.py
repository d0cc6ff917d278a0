"""Text is hashed as scikit-learn hashes it, and each text is scored by itself."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import hstack
from sklearn.feature_extraction.text import HashingVectorizer

from emsco.exceptions import ArtifactError
from emsco.rows import text_encoding
from emsco.rows.columns import object_array
from emsco.rows.declared_types import read_declared
from emsco.rows.hashed_text import (
    HALF,
    MOST_CHARACTERS,
    N_BUCKETS,
    HashedTexts,
    digest_of_hashing,
    refuse_other_hashing,
)
from emsco.rows.text_encoding import Text, as_scored

ODD = [
    "WIN a prize!! Call 0800-123",
    "see you at noon",
    "   ",
    ".",
    "a",
    "\0\0 nul \0",
    "你好 世界",
    "😀 😀😀",
    "ΟΔΥΣΣΕΥΣ İstanbul Straße",
    "x" * 5000,
    "tab\tand\nline\u2028separator\u00a0",
]
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def as_matrix(hashed):
    """Put the two parts of hashed texts side by side."""
    counts = (hashed.places @ hashed.sequences).toarray() / hashed.lengths[:, None]
    return np.hstack([hashed.words.toarray(), counts])


def some_text_model(n_scores=1, *, missing_seen=False):
    """Return an encoding whose weights are drawn."""
    rng = np.random.default_rng(0)
    return Text(
        np.arange(N_BUCKETS, dtype=np.int32),
        rng.normal(size=(n_scores, N_BUCKETS)).astype(np.float32),
        rng.normal(size=n_scores),
        rng.normal(size=n_scores),
        np.full(n_scores, 1.5),
        missing_seen,
    )


@settings(deadline=None, max_examples=20)
@given(st.lists(TEXTS, min_size=1, max_size=6))
def test_texts_are_hashed_as_scikit_learn_hashes_them(texts):
    words = HashingVectorizer(ngram_range=(1, 2), n_features=HALF)
    characters = HashingVectorizer(analyzer="char_wb", ngram_range=(3, 5), n_features=HALF)
    texts = [*texts, *ODD]
    expected = hstack([words.transform(texts), characters.transform(texts)]).toarray()
    assert (as_matrix(HashedTexts.of(texts)) == expected).all()


@pytest.mark.parametrize("n_scores", [1, 3])
def test_a_text_has_the_same_score_alone_and_among_others(n_scores):
    model = some_text_model(n_scores)
    together = model.scores_of(object_array(as_scored(ODD * 3)))
    for place, text in enumerate(ODD):
        alone = model.scores_of(object_array(as_scored([text])))
        for again in range(3):
            assert (together[place + again * len(ODD)] == alone[0]).all()
    hashed = HashedTexts.of(ODD[::-1]).take(np.arange(len(ODD))[::-1])
    assert (model.score(hashed) == together[: len(ODD)]).all()
    assert (model.score(hashed.narrow()) == together[: len(ODD)]).all()


def test_a_score_is_computed_once(monkeypatch):
    model = some_text_model()
    values = object_array(as_scored(ODD))
    first = model.scores_of(values)
    monkeypatch.setattr(HashedTexts, "of", None)
    assert (model.scores_of(values[3:]) == first[3:]).all()


@pytest.mark.parametrize("at_once", [1, 40, 10**6])
def test_long_texts_are_hashed_in_parts(monkeypatch, at_once):
    model = some_text_model()
    expected = model.scores_of(object_array(ODD))
    monkeypatch.setattr(text_encoding, "_AT_ONCE", at_once)
    assert (model.scores_of(object_array(ODD)) == expected).all()
    assert model.scores_of(object_array([])).shape == (0, 1)


def test_only_the_beginning_of_a_text_is_looked_at():
    rng = np.random.default_rng(0)
    long = "".join(rng.choice(list("abc d"), MOST_CHARACTERS))
    model = some_text_model()
    scores = model.scores_of(object_array(as_scored([long, long + " more" * 10**6])))
    assert scores[0] == scores[1]


def test_the_products_are_those_of_the_matrix():
    rng = np.random.default_rng(0)
    hashed = HashedTexts.of(ODD)
    weights, by_text = rng.normal(size=(N_BUCKETS, 1)), rng.normal(size=len(ODD))
    matrix = as_matrix(hashed)
    np.testing.assert_allclose(hashed.score(weights), matrix @ weights, atol=1e-12)
    np.testing.assert_allclose(hashed.sum_up(by_text), matrix.T @ by_text, atol=1e-12)


def test_missing_text_gets_the_mean_score_and_a_mark():
    model = some_text_model(missing_seen=True)
    block = model.encode(object_array([None, "prize"]))
    assert block.shape == (2, model.width) == (2, 2)
    assert block[0].tolist() == [0.0, 1.0]
    assert block[1, 1] == 0.0
    added = model.term(np.array([[2.0, -3.0]]))(object_array([None, "prize"]))
    assert added[0, 0] == -3.0
    assert added[0, 1] == 2.0 * block[1, 0]


def test_what_is_no_text_cannot_be_judged():
    read = read_declared(
        ["yes", "", None, float("nan"), 7, 7.5, True, b"bytes", "half \ud800", ["list"]],
        "long text",
    )
    assert read.tolist() == [
        "yes", None, None, None, "7", "7.5", "true", np.inf, np.inf, np.inf,
    ]  # fmt: skip


def test_a_pickled_encoding_is_small_and_scores_alike():
    model = some_text_model()
    before = model.scores_of(object_array(ODD))
    again = pickle.loads(pickle.dumps(model))
    assert not {"_table"} & again.__dict__.keys()
    assert (again.scores_of(object_array(ODD)) == before).all()


def test_hashing_is_that_of_the_files_there_are():
    """If this fails, a library hashes in another way, and files with text cannot be loaded."""
    assert digest_of_hashing() == "bfa223a8b669f09d"
    refuse_other_hashing(digest_of_hashing())
    with pytest.raises(ArtifactError, match="hashed in another way"):
        refuse_other_hashing("0" * 16)
