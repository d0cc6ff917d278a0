"""The ladder keeps its promise, each of its conditions is needed, and all else works with it."""

from __future__ import annotations

import copy
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest
from sklearn.ensemble import HistGradientBoostingClassifier

from emsco import CascadeSearchCV, StageDesign, dump, load
from emsco.certify import Certificate, Targets, certify, certify_together
from emsco.certify._path import Path, StageAnswers, tolerated
from emsco.certify.savings import savings
from emsco.datasets import make_costly_classification
from emsco.exceptions import CertificateError
from emsco.monitor import CertificateMonitor
from emsco.rows.ledger import forget_all
from experiments import ladder as experiment

AGREEMENT, LEVEL, DRAWS = 0.9, 0.1, 300


@pytest.fixture(autouse=True)
def _afresh():
    """Other tests ask of the same rows."""
    forget_all()


# The walk


def points_of(path, scores):
    """List all thresholds of a path at which a row of these scores changes, strict to loose."""
    ends, _ = path._points()
    yield ends[0]
    for before, after in pairwise(ends):
        now = before.copy()
        for stage in range(scores.shape[1]):
            moved = scores[:, stage]
            moved = np.unique(moved[(moved < before[stage]) & (moved >= after[stage])])
            for score in moved[::-1]:
                now[stage] = score
                yield now.copy()
            now[stage] = after[stage]
        yield now


def count(answers, thresholds):
    """Count the rows that differ, row by row."""
    found = 0
    for scores, differ in zip(answers.scores, answers.differ, strict=True):
        first = next((i for i, s in enumerate(scores) if s >= thresholds[i]), None)
        found += first is not None and bool(differ[first])
    return found


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 3), st.integers(1, 3), st.integers(0, 6))
def test_the_walk_stops_where_one_by_one_shows_too_many_for_the_first_time(
    seed, n_stages, n_knots, most
):
    rng = np.random.default_rng(seed)
    scores = rng.choice([0.55, 0.6, 0.7, 0.75, 0.8, 0.9, 1.0], size=(25, n_stages))
    answers = StageAnswers(scores, rng.random(scores.shape) < 0.4)
    knots = -np.sort(-rng.choice([0.52, 0.58, 0.7, 0.8, 0.95, 1.0], (n_knots, n_stages)), axis=0)
    path = Path(StageDesign(list(range(n_stages + 1))), tuple(map(tuple, knots.tolist())))
    last, largest, stopped = None, 0, False
    for point in points_of(path, scores):
        counted = count(answers, point)
        if counted > most:
            stopped = True
            break
        last, largest = point, max(largest, counted)
    stop = path.follow(answers, most)
    if last is None:
        assert (stop.thresholds, stop.knots) == ((), 0)
        return
    assert stop.most == largest
    accepted = scores >= np.array(stop.thresholds)
    assert (accepted == (scores >= last)).all()
    passed = sum(all(a <= b for a, b in zip(last, knot, strict=True)) for knot in knots.tolist())
    assert stop.knots <= passed
    assert stop.knots == n_knots or stopped


def test_how_many_may_differ_is_the_most_that_the_exact_test_allows():
    for rows, share, level in [(50, 0.1, 0.05), (500, 0.01, 0.1), (2500, 0.02, 0.01)]:
        most = tolerated(rows, share, level)
        assert binom.cdf(most, rows, share) <= level < binom.cdf(most + 1, rows, share)
    assert tolerated(20, 0.01, 0.01) == -1


# Each condition is needed


def share_broken(case, stops):
    """Give the share of draws in which the thresholds break the promise."""
    found = [case.share(thresholds) > round(1000 * (1 - AGREEMENT)) / 1000 for thresholds in stops]
    return float(np.mean(found))


def is_allowed(share):
    return binomtest(round(share * DRAWS), DRAWS, LEVEL, alternative="greater").pvalue > 0.001


@pytest.fixture(scope="module")
def cases():
    return {case.name: case for case in experiment.worst_cases(AGREEMENT)}


@pytest.fixture(scope="module")
def most():
    return tolerated(250, 1 - AGREEMENT, LEVEL)


def drawn_from(case, seed=1):
    rng = np.random.default_rng(seed)
    return [case.draw(rng) for _ in range(DRAWS)]


def test_accepting_the_equals_of_the_row_that_is_too_many_breaks_the_promise(cases, most):
    case = cases["five scores"]
    stops = [case.path.follow(rows, most).thresholds for rows in drawn_from(case)]
    assert is_allowed(share_broken(case, stops))
    with_ties = [tuple(np.nextafter(own, 0.0)) for own in stops]
    assert not is_allowed(share_broken(case, with_ties))


def test_jumping_over_a_point_that_failed_breaks_the_promise(cases, most):
    """Where a later point has fewer rows that differ, by luck."""
    case = cases["a stage takes over"]
    rows = drawn_from(case)
    stops = [case.path.follow(own, most).thresholds for own in rows]
    assert is_allowed(share_broken(case, stops))
    jumped = []
    for own in rows:
        first = np.unique(own.scores[:, 0])[::-1]
        answered = own.scores[:, 0] >= first[:, None]  # points x rows, by the first stage
        counts = np.where(answered, own.differ[:, 0], own.differ[:, 1]).sum(axis=1)
        within = np.flatnonzero(counts <= most)
        jumped.append((first[within[-1]], 0.9) if len(within) else ())
    assert not is_allowed(share_broken(case, jumped))


def test_choosing_the_path_on_the_calibration_rows_breaks_the_promise(cases, most):
    """The one of 20 that leads furthest on them."""
    case = cases["everywhere alike, twice as many"]
    rng = np.random.default_rng(0)
    orders = [rng.permutation(len(case.answers.scores)) for _ in range(20)]
    others = [
        experiment.WorstCase(
            case.name, StageAnswers(case.answers.scores[order], case.answers.differ), case.path
        )
        for order in orders
    ]
    fixed, chosen = [], []
    for _ in range(DRAWS):
        rows = rng.integers(len(orders[0]), size=250)
        stops = [
            other.path.follow(
                StageAnswers(other.answers.scores[rows], other.answers.differ[rows]), most
            ).thresholds
            for other in others
        ]
        furthest = int(np.argmin([own[0] for own in stops]))
        limit = round(1000 * (1 - AGREEMENT)) / 1000
        fixed.append(others[0].share(stops[0]) > limit)
        chosen.append(others[furthest].share(stops[furthest]) > limit)
    assert is_allowed(np.mean(fixed))
    assert not is_allowed(np.mean(chosen))


# The product


@pytest.fixture(scope="module")
def problem():
    X, y, costs = make_costly_classification(5000, 3, class_sep=2, random_state=0)
    model = HistGradientBoostingClassifier(max_iter=20, random_state=0).fit(X[:800], y[:800])
    search = CascadeSearchCV(
        costs=costs, final=model, target="agreement", max_stages=3, luck=False, random_state=0
    )
    return search.fit(X[800:2500]), X[2500:], y


@pytest.fixture
def search(problem):
    return copy.deepcopy(problem[0])


@pytest.fixture
def fresh(problem):
    return problem[1]


@pytest.mark.parametrize("agreement", [0.95, 0.98, 0.99])
def test_what_the_ladder_finds_is_a_candidate_like_any_other(search, fresh, agreement):
    certificate = certify(search, fresh, agreement=agreement, way="ladder")
    assert certificate.way == "ladder"
    assert "Certified by the ladder" in repr(certificate)
    assert Certificate.from_data(certificate.to_data()) == certificate
    best = certificate.select(by="cost")
    most = tolerated(len(fresh), 1 - agreement, 0.01)
    differ = best.evaluation.rows - best.evaluation.right
    assert 0.8 * most <= differ <= most
    cascade = search.cascade(best.candidate)
    decisions = cascade.decide(fresh)
    assert int((decisions.label != search.truth(fresh)).sum()) == differ
    assert certificate.check(search.choose(best.candidate)) == best
    watched = CertificateMonitor.of(certificate, cascade, share=0.5)
    assert any("agreement" in name for name in (*watched.evidence, *watched.not_watched))
    assert best.bounds.agreement <= agreement + 0.002
    assert best.bounds.cost >= best.evaluation.cost


def test_a_file_keeps_it(search, fresh, tmp_path):
    certificate = certify(search, fresh, agreement=0.97, way="ladder")
    cascade = search.cascade(certificate.select(by="cost").candidate)
    cascade.certificate_ = certificate
    dump(cascade, tmp_path / "model.emsco")
    tree = "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"
    again = load(tmp_path / "model.emsco", trusted=[tree])
    assert again.certificate_ == certificate
    assert again.certificate_.holds_for(again)
    assert (again.decide(fresh).label == cascade.decide(fresh).label).all()


def test_the_chosen_candidate_is_certified_too_if_the_ladder_passes_it(search, fresh):
    chosen = search.best_candidate_
    certificate = certify(search, fresh, agreement=0.95, way="ladder")
    assert certificate.chosen_one is not None
    assert certificate.chosen.tested
    assert certificate.check(search).candidate == chosen
    forget_all()
    certificate = certify(search, fresh, agreement=0.999, confidence=0.9, way="ladder")
    assert certificate.chosen_one is None
    assert "did not get as far" in certificate.chosen.why


def test_asking_the_other_way_is_a_second_question(search, fresh):
    certify(search, fresh, agreement=0.97, way="ladder")
    certify(search, fresh, agreement=0.97, way="ladder")
    with pytest.raises(CertificateError, match="second question"):
        certify(search, fresh, agreement=0.97, way="front")
    forget_all()
    both = certify_together(
        search, fresh, None, [Targets(agreement=0.97)] * 2, way=["ladder", "front"]
    )
    assert [c.way for c in both] == ["ladder", "front"]
    assert [c.share for c in both] == [0.5, 0.5]


def test_by_default_it_is_what_is_predicted_to_cost_less(search, fresh):
    """Told by the search alone: other calibration rows change nothing."""
    for agreement in (0.95, 0.98, 0.99):
        forget_all()
        ways = {certify(search, fresh[:1200], agreement=agreement).way}
        ways |= {certify(search, fresh[1200:2400], agreement=agreement).way}
        assert len(ways) == 1


def test_other_targets_and_single_cascades_are_certified_by_the_front(search, fresh):
    with pytest.raises(CertificateError, match="agreement` alone, not `max_cost`"):
        certify(search, fresh, agreement=0.97, max_cost=5, way="ladder")
    with pytest.raises(CertificateError, match="needs a search"):
        certify(search.best_cascade_, fresh, agreement=0.97, way="ladder")
    with pytest.raises(CertificateError, match="did you mean 'ladder'"):
        certify(search, fresh, agreement=0.97, way="lader")
    assert certify(search, fresh, agreement=0.97, max_cost=50).way == "front"


def test_rows_that_have_shown_figures_are_no_ground_for_a_ladder(search, fresh):
    search.score_front(fresh)
    with pytest.raises(CertificateError, match="have shown figures"):
        certify(search, fresh, agreement=0.97, way="ladder")
    assert certify(search, fresh, agreement=0.97).way == "front"


def test_too_few_rows_are_said_to_be(search, fresh):
    certificate = certify(search, fresh[:100], agreement=0.99, way="ladder")
    assert not certificate.certified
    assert certificate.needed_rows == 459
    assert Certificate.from_data(certificate.to_data()) == certificate


def test_savings_are_found_in_both_ways(problem):
    found, X, _ = problem
    search = copy.deepcopy(found)
    for way in ("front", "ladder"):
        forget_all()
        one = savings(search, X, agreement=[0.95, 0.98], way=way, random_state=0)
        assert {saving.certificate.way for saving in one.each} == {way}
        for saving in one.each:
            assert saving.best is not None
            assert len(saving.changed) <= (1 - saving.agreement) * len(one.certified_on)
