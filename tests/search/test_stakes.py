"""Shares of the stake: in the search, in evaluations, and in the choice."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import AnyFits, every_design, problem_of

from emsco import CascadeSearchCV, Costs, Review, Source, evaluate
from emsco.core.caution import effective_rows
from emsco.core.selection import Figures
from emsco.core.stakes import read_stake
from emsco.exceptions import ColumnsError, SearchError, ValuesError
from emsco.search._outcome_table import OutcomeTable
from emsco.search._problem import Problem
from emsco.search._stakes import BITS, Stakes
from emsco.search.paired_test import not_worse
from emsco.search.strategies.exhaustive import Exhaustive
from emsco.search.strategies.hybrid import Hybrid
from emsco.search.strategies.local_search import LocalSearch

pytestmark = pytest.mark.filterwarnings("ignore::emsco.exceptions.SelectionWarning")


def with_stakes(problem, stake):
    """Pose the same problem with these stakes."""
    table = problem.table
    stakes = Stakes.of(np.asarray(stake, dtype=float), table.truth)
    table = OutcomeTable(
        table.fitter, table.truth, table.n_sources, table.thresholds, stakes=stakes
    )
    return Problem(
        table, problem.costs, problem.classes, problem.thresholds, problem.max_stages,
        problem.allow_unused, problem.max_missed, problem.max_rejected,
    )  # fmt: skip


def sums_of(problem, stake, design):
    """Add up stakes row by row, as integers or fractions: accepted, right, by class; and paid."""
    fits = AnyFits(problem.table.truth, len(problem.classes), problem.table.fitter.seed, 0.5)
    names = problem.costs.names
    open_rows = list(range(problem.n_rows))
    accepted, right, missed, paid = 0, 0, [0] * len(problem.classes), 0
    acquired_cost = 0
    for stage in range(design.n_stages):
        bought = np.isin(design.assignment, range(stage + 1))
        cost = problem.costs.of([names[i] for i in np.flatnonzero(bought)])
        paid += (cost - acquired_cost) * len(open_rows)
        acquired_cost = cost
        confidence, label = fits.outcomes(bought[None])
        limits = problem.table.thresholds[0]
        left = []
        for row in open_rows:
            truth, said = int(problem.table.truth[row]), int(label[0][row])
            if confidence[0][row] < limits[said]:
                left.append(row)
                continue
            accepted += stake[row]
            right += stake[row] * (said == truth)
            missed[truth] += stake[row] * (said != truth)
        open_rows = left
    return accepted, right, missed, paid


def best_of(points):
    """Return the points that no other one beats in accuracy, accepted stake and price."""
    exact = {(Fraction(r, a) if a else None, a, paid) for a, r, _, paid in points}
    exact = {point for point in exact if point[0] is not None}
    return {
        (share, a, paid)
        for share, a, paid in exact
        if not any(
            s >= share and b >= a and p <= paid and (s, b, p) != (share, a, paid)
            for s, b, p in exact
        )
    }


def amounts(rng, kind, n_rows):
    """Draw stakes: small numbers, money over four orders of magnitude, or one huge one."""
    if kind == "small":
        return rng.integers(0, 4, n_rows).astype(float)
    money = np.exp(rng.normal(4, 2.3, n_rows)).round(2) + 0.01
    if kind == "huge":
        money[0] = money.sum()
    return money


SIX = [
    ("small", 2, {}), ("money", 2, {}), ("huge", 2, {}), ("money", 3, {}),
    ("money", 2, {"max_missed": {"a": 0.05}, "max_rejected": {"b": 0.5}}),
    ("small", 3, {"allow_unused": False}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "n_classes", "limits"), SIX)
def test_the_exact_front_is_that_of_adding_up_every_design(kind, n_classes, limits):
    """In integers, as stakes are rounded; and nearly so for the stakes as they were given."""
    rng = np.random.default_rng(n_classes)
    plain = problem_of(4, 90, n_classes=n_classes, seed=3, **limits)
    stake = amounts(rng, kind, 90)
    problem = with_stakes(plain, stake)
    stakes = problem.table.stakes
    units = stakes.units.tolist()
    assert max(units) < 2**BITS
    whole = [sum(u for u, t in zip(units, plain.table.truth, strict=True) if t == c)
             for c in range(n_classes)]  # fmt: skip
    points = []
    for design in every_design(problem):
        found = sums_of(problem, units, design)
        accepted, missed = found[0], found[2]
        by_class = dict(zip(problem.classes, zip(missed, whole, strict=True), strict=True))
        if any(
            by_class[label][0] > share * by_class[label][1] + 1e-9 * sum(units)
            for label, share in problem.max_missed.items()
        ):
            continue
        if problem.max_rejected:
            candidate = problem.candidates(np.array([design.assignment], dtype=np.int8))[0]
            rejected = candidate.evaluation.rejected
            if any(rejected[c] > most + 1e-9 for c, most in problem.max_rejected.items()):
                continue
        points.append(found)
        exact = sums_of(problem, [Fraction(s) for s in stake.tolist()], design)
        assert abs(
            float(exact[0] / sum(map(Fraction, stake.tolist()))) - accepted / sum(units)
        ) <= (stakes.error + 1e-12)
    front = Exhaustive().run(problem).front
    found = set()
    for candidate in front:
        evaluation = candidate.evaluation
        accepted, right = (round(e / stakes.unit) for e in (evaluation.accepted, evaluation.right))
        found.add((Fraction(right, accepted), accepted, round(evaluation.paid)))
    assert found == {(share, a, round(paid)) for share, a, paid in best_of(points)}
    assert len(front) > 3


@pytest.mark.parametrize(
    "search", [Exhaustive(), LocalSearch(5000), Hybrid(local=LocalSearch(5000))]
)
def test_equal_stakes_change_nothing(search):
    plain = problem_of(5, 120, thresholds=(0.7, 0.8), n_classes=3)
    equal = with_stakes(plain, np.full(120, 12.5))
    assert equal.table.stakes is None
    fronts = [search.run(p, np.random.default_rng(0)) for p in (plain, equal)]
    assert fronts[0] == fronts[1]
    assert not fronts[0].front[0].evaluation.is_by_stake


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 3))
def test_an_evaluation_in_the_search_is_that_of_its_decisions(seed, n_classes):
    """Shares of the stake, the counts by row beside them, and the squares for standard errors."""
    rng = np.random.default_rng(seed)
    stake = rng.integers(0, 50, 200).astype(float) + (rng.random(200) < 0.01) * 900
    X = rng.normal(size=(200, 3)) + np.arange(200)[:, None] % n_classes
    y = np.arange(200) % n_classes
    search = CascadeSearchCV(
        threshold=0.6, cv=[(np.arange(100), np.arange(100, 200))], refit=False, luck=False,
        select={"by": "accuracy"},
    ).fit(X, y, stake=stake)  # fmt: skip
    for candidate in search.front_:
        decisions = search.cascade(candidate).decide(X[100:])
        expected = evaluate(decisions, y[100:], stake=stake[100:])
        for own, other in (
            (candidate.evaluation, expected),
            (candidate.evaluation.by_row, expected.by_row),
            (candidate.evaluation.squares, expected.squares),
        ):
            for name in ("rows", "accepted", "right", "paid"):
                if own is not candidate.evaluation.squares or name != "paid":
                    assert getattr(own, name) == pytest.approx(getattr(other, name))
            for name in ("class_rows", "class_accepted", "class_right", "label_accepted"):
                for label, count in getattr(own, name).items():
                    assert count == pytest.approx(getattr(other, name)[label], abs=1e-9)


def table(n_rows=400, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n_rows) < 0.3, "fraud", "fine")
    X = pd.DataFrame(rng.normal(size=(n_rows, 3)) + (y == "fraud")[:, None], columns=list("abc"))
    return X.assign(amount=np.exp(rng.normal(4, 1.5, n_rows)).round(2)), y


def fitted(X, y, stake, **params):
    params = {"costs": {"a": 1, "b": 5, "c": 20}, "select": {"by": "accuracy"}} | params
    return CascadeSearchCV(threshold=0.7, cv=2, random_state=0, **params).fit(X, y, stake=stake)


@pytest.mark.parametrize("container", [pd.DataFrame, lambda X: pl.from_pandas(X)])
def test_a_column_is_the_stake_and_no_feature(container, recwarn):
    X, y = table()
    by_name = fitted(container(X), y, "amount")
    by_array = fitted(container(X[["a", "b", "c"]]), y, X["amount"])
    assert [c.evaluation for c in by_name.front_] == [c.evaluation for c in by_array.front_]
    assert by_name.feature_names_in_.tolist() == ["a", "b", "c"]
    assert "column 'amount', which is not a feature" in by_name.summary()
    assert not [w for w in recwarn if "left out" in str(w.message)]
    decided = by_name.decide(container(X))  # the column may be there, or not
    assert (decided.label == by_name.decide(container(X[["a", "b", "c"]])).label).all()
    fresh = by_name.score_front(container(X), y, stake="amount")
    assert fresh[0].fresh.is_by_stake


def test_a_priced_column_is_a_feature_too():
    X, y = table()
    search = fitted(X[["a", "b", "amount"]], y, "amount", costs={"a": 1, "b": 5, "amount": 0})
    assert "amount" in search.costs_.names
    assert "column 'amount', which is also a feature" in search.front_.measured_on


@pytest.mark.parametrize(
    ("stake", "error", "words"),
    [
        ([1.0, np.nan, 2.0], ValuesError, "Row 1 has no stake: it is missing"),
        ([1.0, None, 2.0], ValuesError, "Row 1 has no stake"),
        (pd.array([1, 2, None], dtype="Int64"), ValuesError, "Row 2 has no stake"),
        (np.ma.masked_array([1.0, 2.0, 3.0], [0, 1, 0]), ValuesError, "Row 1 has no stake"),
        ([1.0, -0.5, 2.0], ValuesError, "Row 1 has the stake -0.5"),
        ([1.0, np.inf, 2.0], ValuesError, "Row 1 has the stake inf"),
        ([1.0, 1e-200, 2.0], ValuesError, "Row 1 has the stake 1e-200"),
        (["1", "2", "3"], ValuesError, "Row 0 has the stake '1'"),
        ([0, 0, 0], ValuesError, "All stakes are 0"),
        ([1, 2], ValuesError, "one number for each of 3 rows"),
        ([[1, 2], [1, 2], [1, 2]], ValuesError, "one number for each of 3 rows"),
    ],
)
def test_what_is_no_stake_is_refused_by_row(stake, error, words):
    with pytest.raises(error, match=words):
        read_stake(stake, 3)


def test_stakes_that_cannot_be_are_refused_by_name():
    X, y = table()
    with pytest.raises(ColumnsError, match="no column 'amout' for the stakes"):
        fitted(X, y, "amout")
    with pytest.raises(ColumnsError, match="X must be a frame"):
        fitted(X.to_numpy(), y, "amount", costs=None)
    with pytest.raises(ValuesError, match=r"Column 'amount' cannot be stakes. Row 3 has"):
        fitted(X.assign(amount=[*X["amount"][:3], -1.0, *X["amount"][4:]]), y, "amount")
    final = CascadeSearchCV().fit(X[["a", "b"]], y).best_cascade_
    with pytest.raises(SearchError, match="target='agreement' takes no `stake`"):
        fitted(X, None, "amount", final=final, target="agreement")
    huge = np.ones(400) * 0.01
    huge[7] = 1e9
    with pytest.raises(SearchError, match=r"largest stake, 1e\+09 .* limit the stakes"):
        fitted(X.drop(columns="amount"), y, huge)
    search = fitted(X, y, "amount")
    with pytest.raises(ValuesError, match="fresh figures need `stake`"):
        search.score_front(X, y)


def test_units_are_the_largest_common_divisor_or_told():
    labels = np.zeros(4, dtype=int)
    exact = Stakes.of(np.array([0.5, 1.25, 2.0, 0.0]), labels)
    assert (exact.units.tolist(), exact.unit, exact.error) == ([2, 5, 8, 0], 0.25, 0.0)
    assert exact.in_words() == "in units of 0.25"
    rounded = Stakes.of(np.array([np.pi, 1e5, 2.0, 77.7]), labels)
    assert rounded.units.max() == 2**BITS - 1
    moved = np.abs(rounded.units * rounded.unit - [np.pi, 1e5, 2.0, 77.7]).sum()
    assert rounded.error == pytest.approx(moved / (rounded.units.sum() * rounded.unit))
    assert "moves a share by at most" in rounded.in_words()


def test_the_loss_has_errors_by_stake_and_reviews_by_row():
    X, y = table()
    search = fitted(X, y, "amount")
    evaluation = search.front_[0].evaluation
    wrong = evaluation.accepted - evaluation.right
    reviewed = evaluation.by_row.rows - evaluation.by_row.accepted
    rejected = evaluation.rows - evaluation.accepted
    expected = evaluation.paid + 7 * reviewed + 0.5 * (wrong + 0.1 * rejected)
    loss = evaluation.loss(review=Review(7, accuracy=0.9), error_cost=0.5)
    assert loss == pytest.approx(expected / 400)


def test_the_least_loss_is_searched_by_stake():
    X, y = table()
    costs = Costs(
        [Source(name, cost=cost) for name, cost in {"a": 1, "b": 5, "c": 20}.items()],
        review=Review(3),
        errors={"fraud": 1, "fine": 0.1},
    )
    search = fitted(X, y, "amount", costs=costs, select=None)
    losses = [
        c.evaluation.loss(review=costs.review, error_cost=dict(costs.errors)) for c in search.front_
    ]
    chosen = search.best_candidate_.evaluation
    assert chosen.loss(review=costs.review, error_cost=dict(costs.errors)) == min(losses)
    assert "loss" in search.summary()


def test_summaries_and_differences_say_what_is_counted():
    X, y = table(800)
    search = fitted(X[:400], y[:400], "amount")
    text = search.summary(X[400:], y[400:], stake="amount")
    assert "of the stake" in text
    assert "of the stake it accepts" in text
    assert "cost is per row" in text
    assert str(search.front_[0].evaluation).splitlines()[0].count("of the stake") == 1


def test_a_front_by_rows_may_be_scored_by_stake():
    X, y = table(800)
    search = fitted(X[:400].drop(columns="amount"), y[:400], None)
    scored = search.score_front(X[400:], y[400:], stake="amount")
    assert scored[0].fresh.is_by_stake
    assert not scored[0].selected.is_by_stake
    some = search.cascade(search.front_[0]).decide(X[400:])
    expected = evaluate(some, y[400:], stake=X["amount"][400:])
    assert scored[0].fresh.coverage == pytest.approx(expected.coverage, abs=1e-4)


def test_all_sources_are_compared_at_the_nearest_stake():
    X, y = table()
    search = fitted(X, y, "amount")
    every = search.all_sources_at(1.0)
    assert every.coverage == 1.0
    at = search.all_sources_at(0.6)
    one = X["amount"].max() / X["amount"].sum()
    assert abs(at.coverage - 0.6) <= one
    assert at.cost == every.cost


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_effective_rows_have_the_standard_error_of_the_share(seed):
    """Sum S^2 A (W - t)^2 over (sum S A)^2, where enough rows are right and wrong."""
    rng = np.random.default_rng(seed)
    stake = np.exp(rng.normal(0, rng.random() * 1.2, 5000))
    right = rng.random(5000) < 0.7
    part, whole = stake[right].sum(), stake.sum()
    share = part / whole
    exact = np.sqrt((stake**2 * (right - share) ** 2).sum()) / whole
    k, n = effective_rows(part, whole, (stake[right] ** 2).sum(), (stake**2).sum())
    assert k / n == pytest.approx(share)
    assert np.sqrt(share * (1 - share) / n) == pytest.approx(exact, rel=0.05)
    k, n = effective_rows([3.0], [10.0], [3.0], [10.0])
    np.testing.assert_allclose([k[0], n[0]], [3, 10])
    assert effective_rows(0, 0, 0, 0)[1] == 0


def test_not_worse_by_stake_is_not_worse_by_rows_if_stakes_are_equal():
    """The paired test by stake has the test of rows as its special case."""
    X, y = table()
    search = fitted(X[["a", "b", "c"]], y, None)
    rows = [c.evaluation for c in search.front_]
    equal = [replace(e, by_row=e, squares=e) for e in rows]
    reference = search.all_sources_.evaluation
    by_stake = replace(reference, by_row=reference, squares=reference)
    for z in (0.0, 0.5, 1.0, 2.0):
        by_rows = not_worse(Figures(rows), reference, z, 1.0)
        np.testing.assert_array_equal(by_rows, not_worse(Figures(equal), by_stake, z, 1.0))


def test_luck_is_measured_by_stake():
    X, y = table(600)
    search = fitted(X, y, "amount", max_stages=2)
    by_rows = fitted(X.drop(columns="amount"), y, None, max_stages=2)
    assert search.front_.luck is not None
    assert search.front_.luck != by_rows.front_.luck


def test_a_front_needs_both_the_counts_and_the_squares():
    X, y = table()
    evaluation = fitted(X, y, "amount").front_[0].evaluation
    with pytest.raises(ValueError, match="need `by_row` and `squares`"):
        replace(evaluation, squares=None)
