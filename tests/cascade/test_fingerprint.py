"""What tells a cascade from any other: data, wherever a cascade is data."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import joblib
import numpy as np
import pytest

from emsco import CascadeClassifier, Costs, InputGuard
from emsco.cascade.fingerprint import fingerprint
from emsco.datasets import make_costly_classification


@pytest.fixture(scope="module")
def data():
    return make_costly_classification(300, 3, class_sep=3, random_state=0)


def test_the_fingerprint_of_a_guarded_default_cascade_pickles_nothing(data, monkeypatch):
    """A class that moves to another module would be pickled otherwise, and decides alike."""
    X, y, costs = data
    cascade = CascadeClassifier(costs=costs, guard=InputGuard()).fit(X, y)
    monkeypatch.setattr(joblib, "hash", lambda *_, **__: pytest.fail("something is pickled"))
    assert fingerprint(cascade) == fingerprint(pickle.loads(pickle.dumps(cascade)))
    wider = CascadeClassifier(costs=costs, guard=InputGuard(margin=1)).fit(X, y)
    assert fingerprint(wider) != fingerprint(cascade)


def test_descriptions_change_no_fingerprint(data):
    """They are told to people, and nothing is decided by them."""
    X, y, costs = data
    sources = [replace(source, setup="call") for source in costs.sources]
    described = [replace(source, description=f"about {source.name}") for source in sources]
    plain = Costs(sources, setups={"call": 1})
    told = Costs(described, setups={"call": 1}, descriptions={"call": "by phone"})
    dearer = Costs(described, setups={"call": 2}, descriptions={"call": "by phone"})
    prints = [fingerprint(CascadeClassifier(costs=c).fit(X, y)) for c in (plain, told, dearer)]
    assert prints[0] == prints[1] != prints[2]


class Suspicious(InputGuard):
    """A guard of the user's own, which decides otherwise by what it is, not by what it learned."""

    def reasons(self, columns):
        return np.full(len(next(iter(columns.values()))), "suspicious", dtype=object)


def test_a_guard_of_the_users_own_is_told_by_what_is_pickled_of_it(data):
    X, y, costs = data
    plain, own = (
        CascadeClassifier(costs=costs, guard=guard).fit(X, y)
        for guard in (InputGuard(), Suspicious())
    )
    assert plain.guard_.to_data() == own.guard_.to_data()
    assert fingerprint(own) == fingerprint(pickle.loads(pickle.dumps(own))) != fingerprint(plain)


def test_the_label_of_rows_that_no_stage_judges_is_part_of_the_fingerprint(data):
    X, y, costs = data
    cascade = CascadeClassifier(costs=costs, guard=InputGuard()).fit(X, y)
    other = copy.copy(cascade)
    plan = cascade.decider_.plan
    other.decider_ = replace(cascade.decider_, plan=replace(plan, default=1 - plan.default))
    faulty = X[:1] * 1e9
    assert cascade.decide(faulty).label != other.decide(faulty).label
    assert fingerprint(cascade) != fingerprint(other)


@pytest.mark.filterwarnings("ignore:X has feature names")
def test_how_columns_are_found_is_part_of_the_fingerprint(data):
    """By name or by place: a frame with its columns in another order is decided otherwise."""
    X, y, costs = data
    named = CascadeClassifier(costs=costs).fit(X, y)
    placed = copy.copy(named)
    del placed.feature_names_in_
    layout = replace(named.decider_.layout, named=False)
    placed.decider_ = replace(named.decider_, layout=layout)
    turned = X[X.columns[::-1]]
    assert (named.decide(turned).confidence != placed.decide(turned).confidence).any()
    assert fingerprint(named) != fingerprint(placed)


def test_labels_that_a_double_cannot_tell_apart_are_told_apart(data):
    X, y, costs = data
    one, other = (
        CascadeClassifier(costs=costs).fit(X[:300], np.where(y == y[0], 0, label))
        for label in (2**53, 2**53 + 1)
    )
    assert fingerprint(one) != fingerprint(other)
