"""Calibration rows that a model knows by another way: copies, near-copies, groups, repetition."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GroupKFold
from sklearn.tree import DecisionTreeClassifier

from emsco import CascadeClassifier, CascadeSearchCV, Costs, dump, load
from emsco.certify import Certificate, Targets, certify, certify_together
from emsco.certify.savings import savings
from emsco.datasets import make_costly_classification
from emsco.exceptions import CertificateError
from emsco.rows.ledger import forget_all

WHY = "every sensor reports its values twice"


@pytest.fixture(autouse=True)
def _forget():
    forget_all()


def table(counts, seed=0, noise=0.0):
    """Rows whose labels are mostly noise, each a number of times, in two halves."""
    rng = np.random.default_rng(seed)
    counts = np.asarray(counts)
    X = rng.normal(size=(len(counts), 5))
    y = (X[:, 0] + 3 * rng.normal(size=len(counts)) > 0).astype(int)
    rows = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    X = X[rows] + noise * rng.normal(size=(len(rows), 5))
    half = len(rows) // 2
    return X[:half], y[rows[:half]], X[half:], y[rows[half:]]


def made(n_rows, class_sep=3):
    X, y, _ = make_costly_classification(n_rows, 3, class_sep=class_sep, random_state=0)
    return X.to_numpy(), y, Costs.per_feature([1.0, 2.0, 4.0])


def by_heart(X, y):
    return CascadeClassifier(DecisionTreeClassifier(random_state=0)).fit(X, y)


@pytest.mark.parametrize(
    "counts",
    [np.full(400, 2), np.full(300, 3), np.full(200, 5), np.arange(400) % 5 + 1],
    ids=["twice", "three times", "five times", "one to many"],
)
def test_rows_joined_before_the_split_are_refused(counts):
    X, y, rest, truth = table(counts)
    with pytest.raises(CertificateError, match="remove the duplicates before the split"):
        certify(by_heart(X, y), rest, truth, accuracy=0.7)


def test_they_are_refused_after_a_file_too(tmp_path):
    X, y, rest, truth = table(np.full(400, 2))
    dump(by_heart(X, y), tmp_path / "m.emsco")
    model = load(tmp_path / "m.emsco", trusted=["sklearn.tree._tree.Tree"])
    with pytest.raises(CertificateError, match="remove the duplicates"):
        certify(model, rest, truth, accuracy=0.7)


def test_what_is_allowed_is_said_with_its_reason():
    X, y, rest, truth = table(np.full(400, 2))
    allow = {"known rows": WHY, "repeated rows": WHY}
    certificate = certify(by_heart(X, y), rest, truth, accuracy=0.6, allow=allow)
    assert certificate.certified
    assert certificate.left_out == 0
    assert f"This was allowed, because: {WHY}." in certificate.sentence
    assert "equal a row that was fitted on" in certificate.sentence


def test_a_few_copies_are_left_out_and_told():
    X, y, costs = made(2000)
    rest = np.vstack([X[1000:], X[1000:1003], X[:40]])
    truth = np.concatenate([y[1000:], y[1000:1003], y[:40]])
    model = CascadeClassifier(costs=costs).fit(X[:1000], y[:1000])
    # Forty of a thousand are more than chance explains, so they are refused as before.
    with pytest.raises(CertificateError, match="more than chance explains"):
        certify(model, rest, truth, accuracy=0.9)
    forget_all()
    certificate = certify(model, rest[:1005], truth[:1005], accuracy=0.9)
    assert (certificate.rows, certificate.rows_given, certificate.left_out) == (1000, 1005, 5)
    assert "3 rows were left out, because they equal another one." in certificate.sentence
    assert "2 rows were left out" in certificate.sentence
    assert "group" not in certificate.sentence
    assert Certificate.from_data(certificate.to_data()) == certificate


def test_fresh_rows_tripled_under_keys_of_their_own_are_refused():
    X, y, costs = made(800)
    model = CascadeClassifier(costs=costs).fit(X[:400], y[:400])
    rows = np.repeat(np.arange(400, 800), 3)
    keys = [f"order {i}" for i in range(1200)]
    with pytest.raises(CertificateError, match="repeat another, value by value"):
        certify(model, X[rows], y[rows], accuracy=0.9, keys=keys)


@pytest.mark.parametrize("noise", [0.01, 0.05, 0.1])
def test_near_copies_are_refused_and_groups_are_named(noise):
    X, y, rest, truth = table(np.full(400, 3), noise=noise)
    with pytest.raises(CertificateError, match="pass what they belong to as groups="):
        certify(by_heart(X, y), rest, truth, accuracy=0.7)
    allow = {"near copies": "patients come again"}
    if noise > 0.01:  # closer ones count as equal, up to rounding
        told = certify(by_heart(X, y), rest, truth, accuracy=0.7, allow=allow).doubts
        assert any("patients come again" in doubt for doubt in told)


def test_order_lines_of_one_customer_are_refused():
    rng = np.random.default_rng(0)
    customers = pd.DataFrame(rng.normal(size=(300, 4)), columns=list("abcd"))
    label = rng.integers(2, size=300)
    rows = rng.permutation(np.repeat(np.arange(300), rng.integers(2, 6, 300)))
    lines = pd.DataFrame({"pieces": rng.poisson(3, len(rows)), "price": rng.normal(size=len(rows))})
    X = pd.concat([customers.iloc[rows].reset_index(drop=True), lines], axis=1)
    half = len(rows) // 2
    model = by_heart(X[:half], label[rows[:half]])
    with pytest.raises(CertificateError, match="seem to belong together"):
        certify(model, X[half:].reset_index(drop=True), label[rows[half:]], accuracy=0.7)


def test_groups_on_both_sides_are_refused(tmp_path):
    X, y, costs = made(1200)
    groups = np.array([f"patient {i % 300}" for i in range(1200)])
    search = CascadeSearchCV(costs=costs, cv=GroupKFold(3), max_stages=1)
    search.fit(X[:600], y[:600], groups=groups[:600])
    dump(search, tmp_path / "s.emsco")
    for model in (search, search.best_cascade_, load(tmp_path / "s.emsco")):
        with pytest.raises(CertificateError, match=r"belong to a group .* such as 'patient 0'"):
            certify(model, X[600:], y[600:], accuracy=0.8, groups=groups[600:])
    others = np.char.add("other ", groups[600:])
    certify(search, X[600:], y[600:], accuracy=0.8, groups=others)


@pytest.mark.parametrize(
    ("allow", "message"),
    [
        ({"known row": "x"}, "did you mean 'known rows'"),
        ({"known rows": " "}, "must say why known rows are right"),
        ({"known rows": True}, "as a text"),
        ("known rows", "must map names to reasons"),
    ],
)
def test_what_cannot_be_allowed_is_named(allow, message):
    X, y, rest, truth = table(np.full(100, 1))
    model = by_heart(X, y)
    with pytest.raises(CertificateError, match=message):
        certify(model, rest, truth, accuracy=0.9, allow=allow)
    with pytest.raises(CertificateError, match=message):
        certify_together(model, rest, truth, [Targets(accuracy=0.9)], allow=allow)


def test_savings_take_what_is_allowed():
    X, y, costs = made(1500, class_sep=2)
    model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X[:500], y[:500])
    log = np.repeat(X[500:], 2, axis=0)
    search = CascadeSearchCV(costs=costs, final=model, target="agreement", max_stages=2)
    with pytest.raises(CertificateError, match="allow="):
        savings(search, log, agreement=[0.9], random_state=0)
    forget_all()
    allow = {"known rows": WHY, "repeated rows": WHY}
    found = savings(search, log, agreement=[0.9], allow=allow, random_state=0)
    assert WHY in found.each[0].certificate.sentence


def test_a_few_rows_that_are_all_known_are_refused():
    X, y, costs = made(300)
    model = CascadeClassifier(costs=costs).fit(X, y)
    with pytest.raises(CertificateError, match="calibration row"):
        certify(model, X[:2], y[:2], accuracy=0.5)
