"""Certificates by group: every group keeps the promise, or those that do are listed."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from emsco import CascadeClassifier, CascadeSearchCV, dump, load
from emsco.certify import Certificate, certify
from emsco.certify.binomial import tail
from emsco.datasets import make_costly_classification
from emsco.exceptions import CertificateError, ColumnsError, MonitorError, ValuesError
from emsco.monitor import CertificateMonitor
from emsco.rows.ledger import forget_all
from experiments.stake_certificates import SHARE, look_at_groups

DRAWS = 60


@pytest.fixture(scope="module")
def table():
    X, y, costs = make_costly_classification(5000, 3, class_sep=3, random_state=0)
    rng = np.random.default_rng(1)
    group = rng.choice(["a", "b", "c"], len(y), p=[0.6, 0.35, 0.05])
    noisy = (group == "b") & (rng.random(len(y)) < 0.06)  # labels of b are wrong more often
    return X, np.where(noisy, 1 - y, y), costs, group


@pytest.fixture(scope="module")
def cascade(table):
    X, y, costs, _ = table
    return CascadeClassifier(costs=costs, threshold=0.9).fit(X[:2000], y[:2000])


@pytest.fixture
def fresh(table):
    X, y, _, group = table
    return X[2000:], y[2000:], group[2000:]


def by_hand(cascade, X, y, group, accuracy):
    """Return the p-value of each group, from plain counts."""
    decisions = cascade.decide(X)
    p_values = {}
    for name in np.unique(group):
        own = decisions.accepted & (group == name)
        wrong = int((decisions.label[own] != y[own]).sum())
        p_values[name] = float(tail(wrong, int(own.sum()), 1 - accuracy))
    return p_values


@pytest.mark.parametrize("name", ["every: one of two", "list: two of five"])
def test_a_false_promise_is_as_rare_as_allowed(name):
    seeds = np.random.SeedSequence(7).spawn(DRAWS)
    looks = [look_at_groups(name, seed) for seed in seeds]
    counts = {key: sum(look[key] for look in looks) for key in looks[0]}
    most = binom.ppf(0.9999, DRAWS, SHARE)
    assert counts["false"] <= most
    assert counts["all rows"] > most, "all rows together say nothing of a group"


@pytest.mark.parametrize("accuracy", [0.85, 0.9, 0.95])
def test_every_group_must_pass_at_the_full_level(cascade, fresh, accuracy):
    p_values = by_hand(cascade, *fresh, accuracy)
    certificate = certify(cascade, *fresh[:2], accuracy=accuracy, confidence=0.95, by=fresh[2])
    assert certificate.certified == (max(p_values.values()) <= 0.05)
    for one in certificate.candidates:
        assert one.p_value == max(p_values.values())
        assert {g.group: g.p_value for g in one.groups} == p_values
        assert sum(g.evaluation.rows for g in one.groups) == len(fresh[1])


@pytest.mark.parametrize("accuracy", [0.85, 0.9, 0.93, 0.95])
def test_the_list_is_that_of_holm(cascade, fresh, accuracy):
    p_values = by_hand(cascade, *fresh, accuracy)
    listed = []
    for step, (group, p_value) in enumerate(sorted(p_values.items(), key=lambda own: own[1])):
        if p_value > 0.05 / (len(p_values) - step):
            break
        listed.append(group)
    certificate = certify(
        cascade, *fresh[:2], accuracy=accuracy, confidence=0.95, by=fresh[2], every=False
    )
    assert sorted(certificate.groups_passed) == sorted(listed)
    assert certificate.certified == bool(listed)
    left = sorted(set(p_values) - set(listed))
    assert sorted({s.what.split("'")[1] for s in certificate.shortfalls}) == left
    if listed and left:
        assert any(note.startswith("Not listed: ") for note in certificate.notes)


def test_the_sentence_names_the_groups_and_which_lack_rows(cascade, fresh):
    every = certify(cascade, *fresh[:2], accuracy=0.8, by=pd.Series(fresh[2], name="region"))
    assert "in every group of 'region' ('a', 'b', 'c'), at least 80%" in every.sentence
    assert "Nothing is said of other groups." in every.notes[-1]
    assert "wrong in 'a'" in repr(every)
    forget_all()
    few = certify(cascade, *fresh[:2], accuracy=0.97, by=fresh[2])
    assert not few.certified
    assert "in group 'b' with" in few.sentence
    assert few.needed_rows > 0
    forget_all()
    some = certify(cascade, *fresh[:2], accuracy=0.93, confidence=0.9, by=fresh[2], every=False)
    assert "in each of the groups 'a'" in some.sentence
    assert "listing any group in which the cascade actually" in some.sentence


def test_costs_and_shares_of_classes_hold_in_each_group(cascade, fresh):
    X, y, group = fresh
    asked = {"accuracy": 0.8, "max_missed": {1: 0.3}, "max_cost": 7.5, "min_coverage": 0.5}
    certificate = certify(cascade, X, y, by=group, **asked)
    (one,) = certificate.candidates
    for own in one.groups:
        where = group == own.group
        decisions = cascade.decide(X[where])
        assert own.evaluation.paid == pytest.approx(decisions.cost.sum())
        assert own.bounds.coverage[0] <= decisions.accepted.mean() <= own.bounds.coverage[1]


def test_which_of_the_two_is_part_of_the_question(cascade, fresh):
    X, y, group = fresh
    first = certify(cascade, X, y, accuracy=0.9, by=group)
    assert certify(cascade, X, y, accuracy=0.9, by=group) == first
    turned = np.where(group == "a", "b", "a")
    for other in ({"by": group, "every": False}, {}, {"by": turned}):
        with pytest.raises(CertificateError, match="already used"):
            certify(cascade, X, y, accuracy=0.9, **other)


def test_groups_and_stakes_hold_together(cascade, fresh):
    X, y, group = fresh
    stakes = np.random.default_rng(3).uniform(0, 10, len(y))
    certificate = certify(cascade, X, y, accuracy=0.7, by=group, stake=stakes, cap=10)
    (one,) = certificate.candidates
    assert sum(own.evaluation.rows for own in one.groups) == certificate.stake.kept
    assert [own.reached[0] for own in one.groups] == list(certificate.groups.rows)


def test_a_search_certifies_candidates_for_every_group_and_lists_those_of_the_chosen(table, fresh):
    X, y, costs, _ = table
    search = CascadeSearchCV(costs=costs, threshold=[0.8, 0.95], random_state=0)
    search.fit(X[:2000], y[:2000])
    every = certify(search, *fresh[:2], accuracy=0.85, by=fresh[2])
    assert every.tried > 1
    assert all(len(one.groups) == 3 for one in every.candidates)
    forget_all()
    listed = certify(search, *fresh[:2], accuracy=0.85, by=fresh[2], every=False)
    assert listed.tried == 1
    assert listed.chosen_one is not None
    assert listed.holds_for(search)


def test_files_keep_groups_and_monitors_refuse_them(cascade, fresh, tmp_path):
    certificate = certify(cascade, *fresh[:2], accuracy=0.8, by=fresh[2])
    assert Certificate.from_data(certificate.to_data()) == certificate
    cascade.certificate_ = certificate
    try:
        dump(cascade, tmp_path / "by.emsco")
    finally:
        del cascade.certificate_
    assert load(tmp_path / "by.emsco").certificate_ == certificate
    with pytest.raises(MonitorError, match="watch each group with a monitor of its own"):
        CertificateMonitor.of(certificate, cascade)
    data = certificate.to_data()
    for name, forged in (("rows", [1, 2, 3]), ("groups", ["a", "b", "d"]), ("every", 1)):
        with pytest.raises(CertificateError):
            Certificate.from_data(data | {"groups": data["groups"] | {name: forged}})
    with pytest.raises(CertificateError):
        Certificate.from_data(data | {"groups": None})


def test_a_row_without_a_group_is_refused(cascade, fresh):
    X, y, group = fresh
    named = [None if place == 5 else own for place, own in enumerate(group.tolist())]
    with pytest.raises(ValuesError, match="Row 5 has no group"):
        certify(cascade, X, y, accuracy=0.8, by=named)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"by": None, "every": False}, "`every` is about the groups of `by`"),
        ({"every": "no"}, "`every` must be True or False"),
        ({"by": "region"}, "lacks the column 'region'"),
        ({"by": ["a"]}, "one entry for each of 3000 rows"),
    ],
)
def test_what_is_no_group_is_refused(cascade, fresh, asked, message):
    with pytest.raises((CertificateError, ColumnsError, ValuesError), match=message):
        certify(cascade, *fresh[:2], accuracy=0.8, **({"by": fresh[2]} | asked))
