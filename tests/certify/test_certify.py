"""Certificates: exact tests, honest refusals, and what voids them."""

from __future__ import annotations

import copy
import doctest
import pickle
import re
from itertools import product
from math import ceil, comb
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import beta, binom
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier

from emsco import (
    Candidate,
    CascadeClassifier,
    CascadeSearchCV,
    Costs,
    Evaluation,
    InputGuard,
    Source,
    StageDesign,
    dump,
    evaluate,
    load,
)
from emsco.cascade.fingerprint import fingerprints
from emsco.certify import Targets, certify, certify_together, fingerprint, required_rows
from emsco.certify._hypothesis_family import in_order, passed, shares
from emsco.certify.binomial import cost_p_value, cost_upper, lower, tail, upper
from emsco.datasets import load_spambase, load_thyroid, make_costly_classification
from emsco.exceptions import (
    ArtifactError,
    CertificateError,
    ClassesError,
    ColumnsError,
    ValuesError,
)
from emsco.rows.fitted_rows import FittedRows
from emsco.rows.ledger import forget_all

PAGE = Path(__file__).parents[2] / "docs" / "certificates.md"


@pytest.fixture(scope="module")
def data():
    return make_costly_classification(4000, 3, class_sep=3, random_state=0)


@pytest.fixture(scope="module")
def fitted(data):
    X, y, costs = data
    search = CascadeSearchCV(costs=costs, threshold=[0.6, 0.9, 0.97], select={"by": "accuracy"})
    return search.fit(X[:1000], y[:1000])


@pytest.fixture
def search(fitted):
    """Copy it, because a search remembers which rows it was certified on."""
    return copy.deepcopy(fitted)


def holm(p_values, level):
    """Give the places that Holm's procedure rejects."""
    order, rejected = np.argsort(p_values, kind="stable"), []
    for step, place in enumerate(order):
        if p_values[place] > level / (len(p_values) - step):
            break
        rejected.append(int(place))
    return sorted(rejected)


# How many rows it takes.

TABLE = {  # accuracy, confidence: with 0, 1, 2, 5 errors; with 0 shared among 30 or 171 candidates
    (0.90, 0.90): (22, 38, 52, 91, 55, 71),
    (0.95, 0.90): (45, 77, 105, 184, 112, 146),
    (0.95, 0.95): (59, 93, 124, 208, 125, 159),
    (0.95, 0.99): (90, 130, 165, 259, 157, 191),
    (0.98, 0.99): (228, 330, 418, 652, 397, 483),
    (0.99, 0.99): (459, 662, 838, 1_307, 797, 970),
    (0.999, 0.99): (4_603, 6_636, 8_403, 13_105, 8_003, 9_742),
}


@pytest.mark.parametrize(("asked", "rows"), TABLE.items())
def test_required_rows_are_those_of_the_exact_table(asked, rows):
    by_errors = [required_rows(*asked, errors=errors) for errors in (0, 1, 2, 5)]
    by_candidates = [required_rows(*asked, candidates=n) for n in (30, 171)]
    assert (*by_errors, *by_candidates) == rows


def told_by_the_page(n_shares, n_counts, between):
    """Find table rows of so many shares and then so many counts."""
    cells = between.join([r"(0\.\d+)"] * n_shares) + r" \| ([\d,]+)" * n_counts
    rows = re.findall(rf"^\| {cells} \|$", PAGE.read_text(), flags=re.MULTILINE)
    return [[float(cell.replace(",", "")) for cell in row] for row in rows]


def test_the_page_on_certificates_tells_the_same_rows():
    by_errors = told_by_the_page(2, 4, ", ")
    assert {tuple(row[:2]): tuple(row[2:]) for row in by_errors} == {
        asked: rows[:4] for asked, rows in TABLE.items()
    }
    by_truth = told_by_the_page(2, 1, r" \| ")
    assert len(by_truth) == 8
    for accuracy, true, rows in by_truth:
        assert rows == required_rows(accuracy, 0.99, true_accuracy=true, power=0.8)


@pytest.mark.parametrize("page", ["certificates.md", "guard-and-monitor.md"])
def test_the_examples_of_the_documentation_run(page):
    told = doctest.testfile(
        str(PAGE.with_name(page)), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert told.attempted > 5
    assert not told.failed


@pytest.mark.parametrize(
    ("true", "rows", "on_a_grid"),
    [(0.96, 4_562, 4_628), (0.97, 1_068, 1_073), (0.98, 425, 431), (0.99, 198, 203)],
)
def test_required_rows_have_the_power_asked_for_from_there_on(true, rows, on_a_grid):
    """The study walked a grid with steps of 3%, so it found the next number of that."""
    n = np.arange(1, 2 * rows)
    allowed = binom.ppf(0.01, n, 0.05) - 1  # one below the first that is too probable
    power = np.where(allowed < 0, 0.0, binom.cdf(allowed, n, 1 - true))
    assert required_rows(0.95, 0.99, true_accuracy=true, power=0.8) == rows
    assert n[power < 0.8].max() == rows - 1
    grid = [1]
    while grid[-1] < rows:
        grid.append(int(1.03 * grid[-1]) + 1)
    assert grid[-1] == on_a_grid


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"accuracy": 1.0}, "`accuracy` must be a number between 0 and 1, got 1.0."),
        ({"accuracy": 0.9, "confidence": 99}, "`confidence` must be a number between 0 and 1"),
        ({"accuracy": 0.9, "errors": -1}, "`errors` must be >= 0"),
        ({"accuracy": 0.9, "power": 0.8}, "`true_accuracy` and `power` together"),
        ({"accuracy": 0.9, "power": 0.8, "true_accuracy": 0.9}, "must be above 0.9"),
    ],
)
def test_required_rows_refuse_what_cannot_be(asked, message):
    with pytest.raises(CertificateError, match=message):
        required_rows(**asked)


# Exact tests and bounds.


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 7, 40, 172, 1000, 3000])
def test_tail_is_the_binomial_distribution(rows):
    events, share = np.arange(rows + 1)[:, None], np.linspace(0.001, 0.999, 41)
    np.testing.assert_allclose(
        tail(events, rows, share), binom.cdf(events, rows, share), rtol=0, atol=1e-12
    )


def test_p_values_are_those_of_mapie_but_for_counts_it_rounds_up():
    """MAPIE multiplies a rate back and rounds up: 7 errors in 172 rows become 8 with it."""
    methods = pytest.importorskip("mapie.risk_control.methods")
    differ = []
    for rows in range(1, 301):
        errors = np.arange(rows + 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            theirs = methods.compute_hoeffding_bentkus_p_value(
                errors / rows, rows, 0.05, binary=True
            )[:, 0]
        ours = tail(errors, rows, 0.05)
        differ += [(rows, int(e)) for e in errors[~np.isclose(ours, theirs, rtol=0, atol=1e-12)]]
    rounded_up = [
        (rows, errors)
        for rows in range(1, 301)
        for errors in range(rows + 1)
        if ceil(rows * (errors / rows)) > errors
    ]
    assert set(differ) <= set(rounded_up)
    # Of the others both p-values are 1 to eleven digits, whatever the count.
    hidden = set(rounded_up) - set(differ)
    assert all(tail(errors, rows, 0.05) > 1 - 1e-11 for rows, errors in hidden)
    assert (172, 7) in differ
    assert [pair for pair in differ if pair[0] <= 102] == [
        (25, 7), (41, 7), (41, 14), (43, 7), (43, 14), (50, 7), (50, 14), (51, 7), (51, 14),
        (58, 15), (75, 21), (76, 21), (79, 15), (82, 7), (82, 14), (84, 23), (85, 11), (85, 13),
        (85, 15), (85, 22), (86, 7), (86, 14), (87, 11), (87, 13), (87, 15), (87, 22), (89, 23),
        (99, 13), (100, 7), (100, 14), (101, 7), (101, 14), (102, 7), (102, 14),
    ]  # fmt: skip


@pytest.mark.parametrize("accuracy", [0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("rows", [1, 13, 200])
def test_more_errors_never_speak_for_a_candidate(rows, accuracy):
    targets = Targets(accuracy=accuracy)
    p_values = [
        targets.p_value(Evaluation(rows, rows, rows - wrong, 0), 0) for wrong in range(rows + 1)
    ]
    assert p_values == sorted(p_values)
    assert p_values[-1] == 1


@pytest.mark.parametrize("rows", [1, 2, 7, 40, 172, 400])
def test_bounds_are_clopper_and_pearsons_and_move_with_the_counts(rows):
    right, level = np.arange(rows + 1)[:, None], np.geomspace(1e-7, 0.5, 30)
    low, high = lower(right, rows, level), upper(right, rows, level)
    assert (low >= 0).all()
    assert (low <= right / rows).all()
    assert (right / rows <= high).all()
    assert (high <= 1).all()
    assert (lower(right + 1, rows + 1, level) >= low - 1e-12).all()
    inside = right[1:-1]
    np.testing.assert_allclose(low[1:-1], beta.ppf(level, inside, rows - inside + 1), rtol=1e-6)
    np.testing.assert_allclose(high[1:-1], beta.isf(level, inside + 1, rows - inside), rtol=1e-6)


@pytest.mark.parametrize("level", [0.3, 0.05, 0.001])
@pytest.mark.parametrize("share", [0.02, 0.31, 0.5, 0.95])
def test_bounds_are_false_at_most_at_their_level(share, level):
    """By counting every outcome, not by drawing some."""
    for rows in (1, 7, 40, 150):
        counts = np.arange(rows + 1)
        chance = binom.pmf(counts, rows, share)
        assert chance[lower(counts, rows, level) > share].sum() <= level
        assert chance[upper(counts, rows, level) < share].sum() <= level


@settings(max_examples=100)
@given(st.integers(1, 300), st.data())
def test_the_cost_of_two_stages_is_a_binomial_test(rows, data):
    reached = data.draw(st.integers(0, rows))
    most = data.draw(st.floats(1.01, 10.99))
    p_value = cost_p_value((rows, reached), np.array([1.0, 11.0]), most)
    assert p_value == pytest.approx(binom.cdf(reached, rows, (most - 1) / 10), rel=1e-6, abs=1e-290)


def test_the_cost_of_three_stages_is_bounded_whatever_happens():
    """By counting every outcome of 12 rows that leave at one of three stages."""
    prices, rows = np.array([1.0, 3.0, 20.0]), 12
    for leave in ((0.5, 0.3, 0.2), (0.8, 0.15, 0.05), (0.1, 0.1, 0.8)):
        mean = float(prices @ leave)
        false = dict.fromkeys((0.3, 0.1, 0.01), 0.0)
        for first, second in product(range(rows + 1), repeat=2):
            third = rows - first - second
            if third < 0:
                continue
            ways = comb(rows, first) * comb(rows - first, second)
            chance = ways * leave[0] ** first * leave[1] ** second * leave[2] ** third
            reached = rows, second + third, third
            p_value = cost_p_value(reached, prices, np.nextafter(mean, 0))
            for level in false:
                assert (cost_upper(reached, prices, level) < mean) <= (p_value <= level * 1.001)
                false[level] += chance * (p_value <= level)
        assert all(share <= level for level, share in false.items())


def test_a_cost_that_cannot_be_exceeded_needs_no_rows_and_one_that_must_be_never_passes():
    prices = np.array([2.0, 2.0, 5.0])
    assert cost_p_value((10, 5, 2), prices, 5.0) == 0
    assert cost_p_value((10, 5, 2), prices, 1.9) == 1
    assert cost_p_value((10, 10, 10), prices, 4.9) == 1
    assert cost_upper((10, 3), np.array([2.0, 2.0]), 0.01) == 2


# Many candidates.


def by_graph(levels, p_values):
    """Reject as Bretz et al. (2009) do on the graph that is a ring, matrix and all."""
    n = len(p_values)
    held, remaining = list(levels), set(range(n))
    passes = np.roll(np.eye(n), 1, axis=1)
    while True:
        able = [i for i in remaining if p_values[i] <= held[i]]
        if not able:
            return sorted(set(range(n)) - remaining)
        out = able[-1]
        remaining.remove(out)
        updated = np.zeros((n, n))
        for i in remaining:
            held[i] += held[out] * passes[out, i]
            back = passes[i, out] * passes[out, i]
            for j in remaining - {i}:
                if back < 1:
                    updated[i, j] = (passes[i, j] + passes[i, out] * passes[out, j]) / (1 - back)
        passes = updated


@settings(max_examples=100)
@given(st.lists(st.floats(1e-5, 0.2), min_size=1, max_size=9))
def test_what_passes_is_what_the_graphical_procedure_rejects(p_values):
    levels = 0.05 * shares(len(p_values), among=12)
    assert passed(levels, p_values.__getitem__) == by_graph(levels, p_values)


@settings(max_examples=100)
@given(st.lists(st.floats(1e-5, 0.2), min_size=1, max_size=9))
def test_all_on_the_first_is_a_fixed_sequence(p_values):
    levels = np.zeros(len(p_values))
    levels[0] = 0.05
    stop = next((i for i, p in enumerate(p_values) if p > 0.05), len(p_values))
    assert passed(levels, p_values.__getitem__) == list(range(stop))


@settings(max_examples=100)
@given(st.lists(st.floats(1e-4, 0.1), min_size=1, max_size=8))
def test_holm_rejects_a_superset_of_bonferroni_and_agrees_with_mapie(p_values):
    fwer = pytest.importorskip("mapie.risk_control.fwer_control")
    ours = holm(np.array(p_values), 0.05)
    assert set(np.flatnonzero(np.array(p_values) <= 0.05 / len(p_values))) <= set(ours)
    assert len(ours) == len(fwer.control_fwer(np.array(p_values), 0.05, "bonferroni_holm"))


@settings(max_examples=100)
@given(st.lists(st.floats(1e-5, 0.2), min_size=2, max_size=12), st.data())
def test_where_half_the_front_meets_the_target_holm_issues_no_more(p_values, data):
    """Of those that meet it, every one holds at least what Holm's first step gives it."""
    n_met = data.draw(st.integers(1, len(p_values) // 2))
    met = sorted(data.draw(st.permutations(range(len(p_values))))[:n_met])
    tested = [p_values[i] for i in met]
    first_of_holm = [i for i in met if p_values[i] <= 0.05 / len(p_values)]
    if first_of_holm:
        assert passed(0.05 * shares(n_met, among=len(p_values)), tested.__getitem__)


def test_shares_are_all_of_the_level_and_the_first_holds_half_or_more():
    assert shares(1, among=1).tolist() == [1.0]
    for n, first in ((100, 0.505), (80, 0.50625), (50, 0.51), (10, 0.91)):
        held = shares(n, among=100)
        assert held.sum() == pytest.approx(1)
        assert held[0] == pytest.approx(first)
        assert held[1:].tolist() == pytest.approx([held[-1]] * (n - 1))


def candidate(accepted, right, paid=100.0, sick=(50, 40, 40)):
    rows, sick_accepted, sick_right = sick
    return Candidate(
        StageDesign.from_stages([["x0"], ["x1"]]),
        0.75,
        Evaluation(
            100, accepted, right, paid,
            class_rows={"sick": rows, "well": 100 - rows},
            class_accepted={"sick": sick_accepted, "well": accepted - sick_accepted},
            class_right={"sick": sick_right, "well": right - sick_right},
        ),
    )  # fmt: skip


def test_the_order_is_by_the_selected_p_value_of_those_that_meet_the_targets():
    costs = Costs.per_feature([1, 9])
    few, many, low = candidate(50, 50), candidate(90, 89), candidate(90, 70)
    assert in_order([low, few, many], Targets(accuracy=0.9), costs) == [many, few]
    assert in_order([low], Targets(accuracy=0.9), costs) == [low]
    missing = candidate(90, 83, sick=(50, 40, 33))
    both = Targets(accuracy=0.9, max_missed={"sick": 0.1})
    assert in_order([missing, few], both, costs) == [few]
    dear = candidate(90, 89, paid=500.0)
    assert in_order([dear, few], Targets(accuracy=0.9, max_cost=4), costs) == [few]
    assert in_order([dear, many], Targets(accuracy=0.9, max_cost=8), costs) == [many, dear]


@settings(max_examples=100)
@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40), st.floats(0, 1))
def test_targets_together_are_as_hard_as_the_hardest(accepted, right, sick, cost):
    assume(right <= accepted)
    sick_accepted = min(sick, accepted)
    sick_right = max(0, min(sick_accepted, right - (accepted - sick_accepted)))
    well = {"accepted": accepted - sick_accepted, "right": right - sick_right}
    assume(0 <= well["right"] <= well["accepted"] <= 40)
    evaluation = Evaluation(
        80, accepted, right, 0,
        class_rows={"sick": 40, "well": 40},
        class_accepted={"sick": sick_accepted, "well": well["accepted"]},
        class_right={"sick": sick_right, "well": well["right"]},
    )  # fmt: skip
    together = Targets(accuracy=0.9, max_missed={"sick": 0.1}, min_coverage=0.3, max_cost=3)
    assert together.p_value(evaluation, cost) == pytest.approx(
        max(
            binom.cdf(accepted - right, accepted, 0.1) if accepted else 1,
            binom.cdf(sick_accepted - sick_right, 40, 0.1),
            binom.sf(accepted - 1, 80, 0.3),
            cost,
        ),
        abs=1e-12,
    )


# Certificates of searches and cascades.


def test_a_search_is_certified_by_the_cascades_it_builds(search, data):
    X, y, _ = data
    certificate = certify(search, X[1000:], y[1000:], accuracy=0.95, max_cost=4.5)
    assert certificate.certified
    assert certificate.tried >= len(certificate.candidates) > 1
    for certified in certificate.candidates:
        cascade = search.cascade(certified.candidate)
        decisions = cascade.decide(X[1000:])
        assert certified.evaluation == evaluate(decisions, y[1000:])
        assert certified.fingerprint == fingerprint(cascade)
        assert certified.reached == tuple(
            (decisions.exit_stage >= stage).sum() for stage in range(len(cascade.stages_))
        )
        errors = certified.evaluation.accepted - certified.evaluation.right
        assert certified.p_value >= binom.cdf(errors, certified.evaluation.accepted, 0.05) - 1e-12
        bounds, seen = certified.bounds, certified.evaluation
        assert bounds.accuracy <= seen.accuracy
        assert bounds.coverage[0] <= seen.coverage <= bounds.coverage[1]
        assert bounds.cost >= seen.cost
        assert all(bounds.missed[label] >= share for label, share in seen.missed.items())
    cheapest = certificate.select()
    assert cheapest.evaluation.cost == min(c.evaluation.cost for c in certificate.candidates)
    most = certificate.select(by="coverage")
    assert most.evaluation.coverage == max(c.evaluation.coverage for c in certificate.candidates)
    search.choose(cheapest.candidate)
    assert certificate.check(search) == cheapest
    assert certificate.holds_for(search.best_cascade_)


def test_bounds_are_adjusted_for_the_candidates_tested_and_the_bounds_told(search, data):
    X, y, _ = data
    certificate = certify(search, X[1000:], y[1000:], accuracy=0.95, share=0.5)
    certified = certificate.candidates[0]
    level = 0.01 * 0.5 / (certificate.tried * 6)  # accuracy, coverage twice, cost, two classes
    seen = certified.evaluation
    assert certified.bounds.accuracy == lower(seen.right, seen.accepted, level)
    assert certified.bounds.coverage[1] == upper(seen.accepted, seen.rows, level)


def test_the_sentence_says_what_is_promised_and_under_which_assumption(search, data):
    X, y, _ = data
    certificate = certify(
        search,
        X[1000:],
        y[1000:],
        accuracy=0.95,
        max_missed={0: 0.1, 1: 0.2},
        min_coverage=0.5,
        max_cost=6,
        confidence=0.95,
    )
    assert certificate.sentence == (
        "With 95% confidence, at least 95% of accepted answers are right, at most 10% of the rows "
        "of class 0 are accepted under another label, at most 20% of the rows of class 1 are "
        "accepted under another label, at least 50% of all rows are accepted and the mean cost "
        "per row is at most 6, provided that new rows resemble the calibration rows. "
        "More exactly, over the random draw of the 3,000 calibration rows, the probability of "
        "certifying any cascade that actually is right on fewer than 95% of the rows it accepts, "
        "accepts more than 10% of class 0 under another label, accepts more than 20% of class 1 "
        "under another label, accepts fewer than 50% of all rows or costs more than 6 per row on "
        "average is at most 5%, if future rows are exchangeable with the calibration rows."
    )
    printed = str(certificate)
    assert printed.startswith(certificate.sentence)
    assert "accuracy >=" in printed
    assert "missed 1 <=" in printed
    assert "3,000 of 3,000 calibration rows used; 0 equal a fitted row" in printed
    assert "<table>" in certificate._repr_html_()


def test_one_cascade_is_a_family_of_one(data):
    X, y, costs = data
    cascade = CascadeClassifier(costs=costs, threshold=0.9).fit(X[:1000], y[:1000])
    certificate = certify(cascade, X[1000:2000], y[1000:2000], accuracy=0.9)
    (certified,) = certificate.candidates
    seen = evaluate(cascade.decide(X[1000:2000]), y[1000:2000])
    errors = seen.accepted - seen.right
    assert certificate.tried == 1
    assert certified.p_value == pytest.approx(binom.cdf(errors, seen.accepted, 0.1), abs=1e-12)
    assert certified.candidate.evaluation == seen
    certificate.check(cascade)


def test_too_few_rows_say_how_many_would_do(data):
    X, y, costs = data
    cascade = CascadeClassifier(costs=costs, threshold=0.999).fit(X[:1000], y[:1000])
    decisions = cascade.decide(X)
    right = np.flatnonzero(decisions.accepted & (decisions.label == y))
    rows = right[right >= 1000][:75]
    certificate = certify(cascade, X.iloc[rows], y[rows], accuracy=0.95)
    assert not certificate.certified
    assert certificate.needed_rows == 90
    assert certificate.sentence == (
        "Not certified: 75 accepted rows with 0 wrong are too few (at least 90 are needed with 0 "
        "wrong)."
    )
    assert str(certificate).startswith(certificate.sentence)
    assert "Not certified" in certificate._repr_html_()
    with pytest.raises(CertificateError, match="at least 90 are needed with 0 wrong"):
        certificate.select()
    more = certify(cascade, X.iloc[right[-90:]], y[right[-90:]], accuracy=0.95)
    assert more.certified
    assert more.needed_rows is None


def test_a_front_that_is_not_certified_says_what_its_closest_candidate_lacks(search, data):
    X, y, _ = data
    certificate = certify(
        search, X[1000:1060], y[1000:1060], accuracy=0.95, max_missed={1: 0.01}, max_cost=0.5
    )
    assert not certificate.certified
    assert certificate.needed_rows >= 90
    whats = [shortfall.what for shortfall in certificate.shortfalls]
    assert whats == ["accepted rows", "rows of 1", "cost"]
    assert certificate.sentence.endswith("60 rows do not show that the cost is low enough.")


def test_a_class_without_rows_is_never_certified(data):
    X, y, costs = data
    cascade = CascadeClassifier(costs=costs).fit(X[:1000], y[:1000])
    zeros = np.flatnonzero(y == 0)
    zeros = zeros[zeros >= 1000]
    assert not certify(cascade, X.iloc[zeros], y[zeros], max_missed={1: 0.9}).certified


def test_a_constant_classifier_is_never_certified_for_what_it_misses(data_folder):
    """It is right on 92.6% of thyroid patients, because so many are healthy."""
    X, y, costs = load_thyroid(data_folder)
    for number in range(5):
        forget_all()  # each split is another study
        order = np.random.default_rng(number).permutation(len(y))
        train, fresh = order[:3600], order[3600:]
        model = CascadeClassifier(DummyClassifier(strategy="prior"), costs=costs)
        model.fit(X.iloc[train], y[train])
        questions = [Targets(accuracy=0.9)]
        questions += [Targets(accuracy=0.9, max_missed={"sick": m}) for m in (0.5, 0.9, 0.99)]
        answers = certify_together(model, X.iloc[fresh], y[fresh], questions)
        assert [answer.certified for answer in answers] == [True, False, False, False]


def test_a_label_that_fit_did_not_see_is_an_error(data):
    X, y, costs = data
    cascade = CascadeClassifier(costs=costs, threshold=0.9).fit(X[:1000], y[:1000])
    truth = y[1000:2000].copy()
    truth[:200] = 7
    allow = {"unknown labels": "a new class"}
    certificate = certify(cascade, X[1000:2000], truth, accuracy=0.5, allow=allow)
    seen = certificate.candidates[0].evaluation
    assert seen.class_right[7] == 0
    with pytest.raises(ClassesError, match="none of the classes"):
        certify(cascade, X[2000:], y[2000:].astype(str), accuracy=0.9)


# Groups.


def test_of_each_group_one_random_row_is_used(search, data):
    X, y, _ = data
    groups = np.repeat([f"card {i}" for i in range(600)], 5)
    asked = {"accuracy": 0.9, "groups": groups}
    first, again = (certify(search, X[1000:], y[1000:], **asked, random_state=0) for _ in range(2))
    with pytest.raises(CertificateError, match="already used for a certificate"):
        certify(search, X[1000:], y[1000:], **asked, random_state=1)
    forget_all()
    other = certify(search, X[1000:], y[1000:], **asked, random_state=1)
    assert (first.rows, first.rows_given) == (600, 3000)
    assert first.candidates[0].evaluation.rows == 600
    assert first.candidates[0].evaluation == again.candidates[0].evaluation
    assert first.candidates[0].evaluation != other.candidates[0].evaluation
    assert first.sentence.startswith(
        "With 99% confidence, at least 90% of accepted answers are right, counting one random row "
        "per group, provided that new groups resemble the calibration groups. "
    )
    assert "600 calibration rows, one from each group, the probability" in first.sentence
    assert "if a random row of a random new group is exchangeable with the calib" in first.sentence
    assert "600 of 3,000 calibration rows used" in str(first)


def test_groups_of_one_row_change_nothing(search, data):
    X, y, _ = data
    asked = {"accuracy": 0.9, "share": 0.5, "random_state": 0}
    plain = certify(search, X[1000:], y[1000:], **asked)
    grouped = certify(search, X[1000:], y[1000:], **asked, groups=np.arange(3000))
    assert grouped.candidates == plain.candidates
    assert grouped.sentence == plain.sentence


# What voids it.


def test_a_cascade_fitted_anew_no_longer_matches(data):
    X, y, costs = data
    cascade = CascadeClassifier(costs=costs, threshold=0.9).fit(X[:1000], y[:1000])
    certificate = certify(cascade, X[1000:], y[1000:], accuracy=0.9)
    again = CascadeClassifier(costs=costs, threshold=0.9).fit(X[:1000], y[:1000])
    assert certificate.holds_for(again)  # to the last bit the same
    for changed in (
        CascadeClassifier(costs=costs, threshold=0.9).fit(X[:999], y[:999]),
        CascadeClassifier(costs=costs, threshold=0.91).fit(X[:1000], y[:1000]),
        CascadeClassifier(costs=[1, 2, 3], threshold=0.9).fit(X[:1000], y[:1000]),
        CascadeClassifier(costs=costs, threshold=0.9, guard=InputGuard()).fit(X[:1000], y[:1000]),
    ):
        assert not certificate.holds_for(changed)
        with pytest.raises(CertificateError, match="its fingerprint matches none of the 1"):
            certificate.check(changed)


def boosted():
    return HistGradientBoostingClassifier(max_iter=10, random_state=0)


@pytest.mark.parametrize("estimator", [None, boosted()], ids=["default", "boosted"])
@pytest.mark.parametrize("guard", [None, InputGuard()], ids=["unguarded", "guarded"])
def test_a_fingerprint_survives_pickling_and_tells_fits_apart(data, estimator, guard):
    X, y, costs = data
    design = StageDesign.from_stages([["s0"], ["s1", "s2"]])
    options = {"design": design, "costs": costs, "guard": guard}
    cascade = CascadeClassifier(estimator, **options).fit(X[:300], y[:300])
    assert fingerprint(pickle.loads(pickle.dumps(cascade))) == fingerprint(cascade)
    same = CascadeClassifier(estimator, **options).fit(X[:300], y[:300])
    assert fingerprint(same) == fingerprint(cascade)
    other = CascadeClassifier(estimator, **options).fit(X[:290], y[:290])
    assert fingerprint(other) != fingerprint(cascade)


def test_a_classifier_that_cascades_share_is_pickled_once(data, monkeypatch):
    X, y, costs = data
    search = CascadeSearchCV(boosted(), costs=costs, max_stages=2, cv=2).fit(X[:600], y[:600])
    cascades = [search.cascade(candidate) for candidate in search.front_]
    alone = [fingerprint(cascade) for cascade in cascades]
    hashed = []

    def counting(value, **params):
        hashed.append(value)
        return joblib_hash(value, **params)

    joblib_hash = joblib.hash
    monkeypatch.setattr(joblib, "hash", counting)
    assert fingerprints(cascades) == alone
    stages = [stage for cascade in cascades for stage in cascade.estimators_]
    assert len(hashed) == len({id(stage) for stage in stages}) < len(stages)


def test_text_and_missing_values_are_part_of_the_fingerprint():
    X = pd.DataFrame({"a": ["x", "y", None, "x"] * 20, "b": [1.0, np.nan, 3.0, 4.0] * 20})
    y = np.tile([0, 1, 1, 0], 20)
    one = CascadeClassifier().fit(X, y)
    assert fingerprint(one) == fingerprint(pickle.loads(pickle.dumps(one)))
    other = CascadeClassifier().fit(X.replace("x", "z"), y)
    assert fingerprint(one) != fingerprint(other)


def test_a_classifier_that_cannot_be_pickled_cannot_be_certified(data):
    X, y, _ = data

    class Local(DummyClassifier):
        pass

    cascade = CascadeClassifier(Local()).fit(X[:100], y[:100])
    with pytest.raises(CertificateError, match="Local cannot be pickled"):
        certify(cascade, X[1000:], y[1000:], accuracy=0.5)


def test_rows_of_the_search_are_refused_by_their_index(data):
    X, y, costs = data
    order = np.random.default_rng(0).permutation(len(y))
    train, fresh = order[:1000], order[1000:]
    search = CascadeSearchCV(costs=costs, threshold=[0.9]).fit(X.iloc[train], y[train])
    mixed = np.append(fresh, train[0])
    changed = X.iloc[mixed] + 0.001  # measured again, but the same patient
    with pytest.raises(
        CertificateError, match="1 of 3,001 calibration rows were used by the search"
    ):
        certify(search, changed, y[mixed], accuracy=0.9)
    with pytest.raises(CertificateError, match="according to their key or index"):
        certify(search.best_cascade_, changed, y[mixed], accuracy=0.9)
    assert certify(search, X.iloc[fresh], y[fresh], accuracy=0.9).certified


def test_rows_of_the_search_are_refused_by_key(data):
    X, y, costs = data
    named = X.set_axis([f"patient {i}" for i in range(len(y))])
    cascade = CascadeClassifier(costs=costs, threshold=0.9).fit(named[:1000], y[:1000])
    fresh, keys = X[1000:].to_numpy(), named.index[1000:].to_numpy()
    assert certify(cascade, X[1000:], y[1000:], accuracy=0.9, keys=keys).certified
    keys = np.append(keys[:-1], "patient 3")
    frame = pd.DataFrame(fresh, columns=X.columns)
    with pytest.raises(CertificateError, match="1 of 3,000 calibration rows"):
        certify(cascade, frame, y[1000:], accuracy=0.9, keys=keys)
    with pytest.raises(CertificateError, match="`keys` must name 3000 rows"):
        certify(cascade, frame, y[1000:], accuracy=0.9, keys=keys[:5])


def test_an_index_that_only_numbers_rows_proves_nothing(data):
    """Two files have rows 0, 1, 2, ... each."""
    X, y, costs = data
    cascade = CascadeClassifier(costs=costs, threshold=0.9).fit(X[:1000], y[:1000])
    fresh = X[1000:].reset_index(drop=True)
    assert certify(cascade, fresh, y[1000:], accuracy=0.9).certified


@pytest.mark.parametrize("frame", [np.asarray, pl.from_pandas, lambda X: X])
def test_rows_that_equal_fitted_ones_are_refused_and_counted(data, frame):
    X, y, _ = data
    cascade = CascadeClassifier(costs=[1.0, 2.0, 4.0], threshold=0.9)
    cascade.fit(frame(X[:1000]), y[:1000])
    with pytest.raises(CertificateError, match="500 of 1,500 calibration rows equal a row"):
        certify(cascade, frame(X[500:2000]), y[500:2000], accuracy=0.9)
    few = certify(cascade, frame(X[990:2000]), y[990:2000], accuracy=0.9)
    assert few.twins == 10  # less than 1%
    assert "10 equal a fitted row" in str(few)


def test_twins_are_no_proof_where_the_table_is_full_of_them(data_folder):
    """Of spambase's rows, 12% have a twin."""
    X, y, costs = load_spambase(data_folder)
    order = np.random.default_rng(0).permutation(len(y))
    train, fresh = order[:2300], order[2300:]
    cascade = CascadeClassifier(costs=costs, threshold=0.9)
    cascade.fit(X.iloc[train].reset_index(drop=True), y[train])
    rows = X.iloc[fresh].reset_index(drop=True)
    certificate = certify(cascade, rows, y[fresh], accuracy=0.9)
    assert 0.05 < certificate.twins / len(fresh) < 0.15
    mixed = np.concatenate([fresh, train[:700]])
    with pytest.raises(CertificateError, match="more than chance explains"):
        certify(cascade, X.iloc[mixed].reset_index(drop=True), y[mixed], accuracy=0.9)


def test_text_booleans_and_missing_values_have_twins_too():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=600)
    X = pd.DataFrame(
        {
            "text": rng.choice(["a", "b"], 600),
            "number": np.where(rng.random(600) < 0.1, np.nan, rng.normal(size=600) + 3 * y),
            "flag": pd.array(rng.random(600) < 0.5, dtype="boolean"),
            "unique": rng.permutation(600),
        }
    )
    cascade = CascadeClassifier(threshold=0.6).fit(X[:300], y[:300])
    assert certify(cascade, X[300:], y[300:], accuracy=0.6).twins == 0
    with pytest.raises(CertificateError, match="300 of 300"):
        certify(cascade, X[:300].astype({"unique": float}), y[:300], accuracy=0.6)


def test_a_second_question_on_the_same_rows_is_refused(search, data):
    X, y, _ = data
    certify(search, X[1000:], y[1000:], accuracy=0.9, share=0.5)
    with pytest.raises(CertificateError, match="already used for a certificate"):
        certify(search, X[1000:], y[1000:], accuracy=0.95)
    with pytest.raises(CertificateError, match="already used for a certificate"):
        certify(search, X[1000:], y[1000:], accuracy=0.95, share=0.5)
    with pytest.raises(CertificateError, match="already used for a certificate"):
        certify(search, X[1000:], y[1000:], accuracy=0.9, share=1.0)
    shuffled = np.random.default_rng(0).permutation(np.arange(1000, 4000))
    with pytest.raises(CertificateError, match="already used for a certificate"):
        certify(search, X.iloc[shuffled].to_numpy(), y[shuffled], accuracy=0.95)
    with pytest.raises(CertificateError, match="already used for a certificate"):
        certify(search.best_cascade_, X[1000:2000], y[1000:2000], accuracy=0.95)
    cascade = search.cascade(search.front_[-1])
    with pytest.raises(CertificateError, match="already used for a certificate"):
        certify(cascade, X[1000:2000], y[1000:2000], accuracy=0.95)


def test_questions_asked_together_share_the_error(search, data):
    X, y, _ = data
    rows = X[1000:2000], y[1000:2000]
    questions = [Targets(accuracy=0.9), Targets(max_missed={1: 0.1})]
    first, second = certify_together(search, *rows, questions, shares=[0.6, 0.4])
    assert first.sentence.startswith("With 99.4% confidence, ")
    assert second.sentence.startswith("With 99.6% confidence, ")
    assert "is at most 0.6%" in first.sentence
    assert "is at most 0.4%" in second.sentence
    assert certify(search, *rows, accuracy=0.9, share=0.6) == first, "declared, so free"
    with pytest.raises(CertificateError, match="already used for a certificate"):
        certify(search, *rows, accuracy=0.8, share=0.1)
    assert certify(search, X[2000:], y[2000:], accuracy=0.8).certified  # other rows
    forget_all()
    alone = certify(search, *rows, accuracy=0.9, share=0.6)
    assert alone == first, "one question's answer does not depend on the others"


@pytest.mark.parametrize(
    ("questions", "shares", "message"),
    [
        ([], None, "`questions` must hold at least one Targets"),
        ([{"accuracy": 0.9}], None, "`questions` must hold at least one Targets"),
        ([Targets(accuracy=0.9)] * 2, [0.6, 0.5], "with a sum of at most 1"),
        ([Targets(accuracy=0.9)] * 2, [0.5], "one share for each of 2 questions"),
        ([Targets(accuracy=0.9), Targets(agreement=0.9)], None, "certify them separately"),
    ],
)
def test_questions_that_cannot_be_asked_together(search, data, questions, shares, message):
    X, y, _ = data
    with pytest.raises(CertificateError, match=message):
        certify_together(search, X[1000:], y[1000:], questions, shares=shares)


def test_the_same_question_again_has_the_same_answer_and_costs_nothing(search, data):
    X, y, _ = data
    first = certify(search, X[1000:], y[1000:], accuracy=0.95)
    assert certify(search, X[1000:], y[1000:], accuracy=0.95) == first
    with pytest.raises(CertificateError, match="already used for a certificate"):
        certify(search, X[1000:], np.append(y[1000:-1], 1 - y[-1]), accuracy=0.95)
    loaded = pickle.loads(pickle.dumps(search))
    with pytest.raises(CertificateError, match="already used for a certificate"):
        certify(loaded, X[1000:], y[1000:], accuracy=0.9)


def test_a_certificate_that_failed_for_bad_rows_spends_nothing(data):
    X, y, costs = data
    cascade = CascadeClassifier(costs=costs, threshold=0.9).fit(X[:1000], y[:1000])
    broken = X[1000:].copy()
    broken.iloc[0, 0] = np.nan
    with pytest.raises(ValuesError):
        certify(cascade, broken, y[1000:], accuracy=0.9)
    assert certify(cascade, X[1001:], y[1001:], accuracy=0.95).certified


def test_the_fingerprint_of_rows_does_not_depend_on_their_order(data):
    X, y, costs = data
    prints = []
    cascade = CascadeClassifier(costs=costs, threshold=0.9).fit(X[:1000], y[:1000])
    for rows in (np.arange(1000, 4000), np.arange(1000, 4000)[::-1], np.arange(1000, 3999)):
        prints.append(certify(cascade, X.iloc[rows], y[rows], accuracy=0.9).rows_fingerprint)
        if len(prints) == 2:
            forget_all()
    assert prints[0] == prints[1] != prints[2]
    forget_all()
    relabelled = np.append(y[1000:-1], 1 - y[-1])
    certificate = certify(cascade, X[1000:], relabelled, accuracy=0.9)
    assert certificate.rows_fingerprint not in prints


def test_a_certificate_holds_for_what_comes_back_from_a_file(search, data, tmp_path):
    X, y, _ = data
    certificate = certify(search, X[1000:], y[1000:], accuracy=0.9)
    search.choose(certificate.select().candidate)
    cascade = search.best_cascade_
    cascade.certificate_ = certificate
    dump(cascade, tmp_path / "cascade.emsco")
    loaded = load(tmp_path / "cascade.emsco")
    certificate.check(loaded)
    assert loaded.certificate_ == certificate
    assert loaded.certificate_.holds_for(loaded)
    with pytest.raises(ArtifactError, match="before it was fitted again"):
        dump(cascade.fit(X[:900], y[:900]), tmp_path / "stale.emsco")


@pytest.mark.parametrize("kind", ["search", "cascade"])
def test_what_comes_back_from_a_file_knows_its_rows(kind, search, data, tmp_path):
    X, y, _ = data
    fresh, truth = X[1000:2000], y[1000:2000]
    model = search if kind == "search" else search.best_cascade_
    certificate = certify(model, fresh, truth, accuracy=0.9)
    dump(model, tmp_path / "model.emsco")
    loaded = load(tmp_path / "model.emsco")
    with pytest.raises(CertificateError, match="equal a row that the model was fitted on"):
        certify(loaded, X[:1000].reset_index(drop=True), y[:1000], accuracy=0.9)
    with pytest.raises(CertificateError, match="already used for a certificate"):
        certify(loaded, fresh, truth, accuracy=0.8)
    again = certify(loaded, fresh, truth, accuracy=0.9)
    assert again.sentence == certificate.sentence, "the same question is free"
    assert certify(loaded, X[2000:], y[2000:], accuracy=0.9).twins == 0


def test_a_model_that_remembers_no_rows_says_so(data):
    """As one from a file, which keeps none."""
    X, y, costs = data
    cascade = CascadeClassifier(costs=costs, threshold=0.9).fit(X[:1000], y[:1000])
    cascade.fitted_rows_ = FittedRows()
    certificate = certify(cascade, X[1000:], y[1000:], accuracy=0.9)
    assert certificate.twins is None
    assert "is not known whether the model was fitted on these rows" in certificate.sentence
    with pytest.raises(CertificateError, match="already used for a certificate"):
        certify(cascade, X[1000:], y[1000:], accuracy=0.8)


# What cannot be asked.


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {},
            "Give at least one target to certify: `accuracy`, `max_missed`, `max_rejected` or "
            "`min_precision`",
        ),
        ({"min_coverage": 0.5}, "Give at least one target to certify"),
        ({"accuracy": 95}, "`accuracy` must be a number between 0 and 1, got 95."),
        ({"accuracy": True}, "`accuracy` must be a number"),
        ({"max_missed": {1: 0.0}}, "`max_missed of 1` must be a number between 0 and 1"),
        (
            {"max_missed": {"1": 0.1}},
            "names '1', which is not a class; '1' is text, and the class 1 is a number.",
        ),
        ({"accuracy": 0.9, "confidence": 1}, "`confidence` must be a number between 0 and 1"),
        ({"accuracy": 0.9, "min_coverage": 1.5}, "`min_coverage` must be"),
        ({"accuracy": 0.9, "max_cost": -1}, "`max_cost` must be a number >= 0"),
        ({"accuracy": 0.9, "share": 0}, "`share` must be above 0"),
    ],
)
def test_what_cannot_be_certified_is_refused(search, data, asked, message):
    X, y, _ = data
    with pytest.raises(CertificateError, match=message.replace("?", r"\?")):
        certify(search, X[1000:], y[1000:], **asked)


def test_rows_and_labels_must_fit(search, data):
    X, y, _ = data
    with pytest.raises(
        CertificateError, match="same number of rows, at least one; got 3000 and 2999"
    ):
        certify(search, X[1000:], y[1001:], accuracy=0.9)
    with pytest.raises(CertificateError, match="at least one; got 0 and 0"):
        certify(search, X[:0], y[:0], accuracy=0.9)
    with pytest.raises(ColumnsError, match="X must have 3 columns"):
        certify(search, X[1000:].to_numpy()[:, :2], y[1000:], accuracy=0.9)
    with pytest.raises(CertificateError, match="can be certified, got DummyClassifier"):
        certify(DummyClassifier(), X[1000:], y[1000:], accuracy=0.9)
    certificate = certify(search, X[1000:], y[1000:], accuracy=0.9)
    with pytest.raises(CertificateError, match="`by` must be one of cost, coverage, accuracy"):
        certificate.select(by="costs")


def test_a_certificate_never_changes_and_can_be_pickled(search, data):
    X, y, _ = data
    certificate = certify(search, X[1000:], y[1000:], accuracy=0.9)
    with pytest.raises(AttributeError):
        certificate.confidence = 0.999
    assert pickle.loads(pickle.dumps(certificate)) == certificate


def test_prices_with_setups_bound_the_cost_along_the_stages():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=3000)
    X = pd.DataFrame({name: y + rng.normal(size=3000) for name in ("a", "b", "c")})
    costs = Costs(
        [
            Source("a", cost=1),
            Source("b", cost=2, setup="blood"),
            Source("c", cost=3, setup="blood"),
        ],
        setups={"blood": 10},
    )
    design = StageDesign.from_stages([["a"], ["b"], ["c"]])
    cascade = CascadeClassifier(design=design, costs=costs, threshold=0.8).fit(X[:1000], y[:1000])
    certificate = certify(cascade, X[1000:], y[1000:], accuracy=0.6, max_cost=15.5)
    (certified,) = certificate.candidates
    level = 0.01 / 6
    _, second, third = certified.reached
    expected = 1 + 12 * upper(second, 2000, level / 2) + 3 * upper(third, 2000, level / 2)
    assert certified.bounds.cost == pytest.approx(expected)
