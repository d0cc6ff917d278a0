"""What was chosen is tested first, what nobody would take is not, and new targets are exact."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from sklearn.ensemble import HistGradientBoostingClassifier
from test_certify import by_graph

from emsco import (
    Candidate,
    CascadeClassifier,
    CascadeSearchCV,
    Evaluation,
    StageDesign,
    dump,
    load,
)
from emsco.certify import Certificate, Targets, certify, certify_together, fingerprint
from emsco.certify._certificate_text import table_of
from emsco.certify._hypothesis_family import (
    Floors,
    family_of,
    in_order,
    passed,
    shares,
    shares_with_chosen,
)
from emsco.certify.binomial import lower, upper
from emsco.certify.savings import savings
from emsco.datasets import make_costly_classification
from emsco.exceptions import CertificateError, MonitorWarning, SelectionWarning
from emsco.monitor import CertificateMonitor
from emsco.rows.ledger import forget_all

ASKED = {"accuracy": 0.9}


@pytest.fixture(autouse=True)
def _afresh():
    """Other tests ask of the same rows."""
    forget_all()


@pytest.fixture(scope="module")
def data():
    return make_costly_classification(4000, 3, class_sep=2, random_state=0)


@pytest.fixture(scope="module")
def fitted(data):
    X, y, costs = data
    search = CascadeSearchCV(
        costs=costs, threshold=[0.6, 0.8, 0.9, 0.97], select={"by": "coverage"}, luck=False
    )
    return search.fit(X[:1000], y[:1000])


@pytest.fixture
def search(fitted):
    return copy.deepcopy(fitted)


@pytest.fixture(scope="module")
def fresh(data):
    X, y, _ = data
    return X[1000:], y[1000:]


@pytest.fixture(scope="module")
def rare():
    """Make a table of which one row in ten is fraud, and hard to tell."""
    X, y, costs = make_costly_classification(9000, 3, class_sep=1.2, random_state=0)
    kept = (y == 0) | (np.random.default_rng(0).random(len(y)) < 0.1)
    return X[kept].reset_index(drop=True), np.where(y[kept] == 1, "fraud", "fair"), costs


def sick(accepted, right, rows=50):
    """Count 100 rows, of which so many sick ones are accepted and right, and all others right."""
    well = 100 - rows
    return Evaluation(
        100, accepted + well, right + well, 100.0,
        class_rows={"sick": rows, "well": well},
        class_accepted={"sick": accepted, "well": well},
        class_right={"sick": right, "well": well},
    )  # fmt: skip


def candidate(evaluation, stages=(("x0",), ("x1",))):
    return Candidate(StageDesign.from_stages([list(s) for s in stages]), 0.75, evaluation)


def covering_few(search):
    """Give a candidate that accepts fewer than half of the rows, and is right on most of them."""
    good = [c for c in search.front_ if c.evaluation.coverage < 0.5 and c.evaluation.right > 400]
    return max(good, key=lambda c: c.evaluation.accuracy)


# The new targets.


@settings(max_examples=100)
@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 40))
def test_rejected_rows_and_precision_are_tested_exactly(accepted, right, wrong_as_sick):
    right = min(accepted, right)
    evaluation = Evaluation(
        100, accepted + 40, right + 40 - wrong_as_sick, 0.0,
        class_rows={"sick": 50, "well": 50},
        class_accepted={"sick": accepted, "well": 40},
        class_right={"sick": right, "well": 40 - wrong_as_sick},
    )  # fmt: skip
    rejected = Targets(max_rejected={"sick": 0.3}).p_value(evaluation, 0)
    assert rejected == pytest.approx(binom.cdf(50 - accepted, 50, 0.3), abs=1e-12)
    as_sick = right + wrong_as_sick
    precision = Targets(min_precision={"sick": 0.8}).p_value(evaluation, 0)
    expected = binom.cdf(wrong_as_sick, as_sick, 0.2) if as_sick else 1
    assert precision == pytest.approx(expected, abs=1e-12)
    both = Targets(max_rejected={"sick": 0.3}, min_precision={"sick": 0.8})
    assert both.p_value(evaluation, 0) == max(rejected, precision)


def test_precision_needs_the_counts_by_label_where_there_are_three_classes():
    rows = {"a": 10, "b": 10, "c": 10}
    known = Evaluation(30, 30, 30, 0.0, rows, rows, rows, label_accepted=rows)
    unknown = Evaluation(30, 30, 30, 0.0, rows, rows, rows)
    targets = Targets(min_precision={"a": 0.9})
    assert targets.p_value(known, 0) == pytest.approx(0.9**10)
    with pytest.raises(CertificateError, match="`min_precision` needs the number of rows"):
        targets.p_value(unknown, 0)


def test_a_search_that_does_not_know_the_counts_by_label_says_so_and_spends_nothing():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=1500)
    X = pd.DataFrame({f"s{i}": y + rng.normal(size=1500) for i in range(2)})
    search = CascadeSearchCV(
        costs=[1, 2], threshold=[0.5, 0.8], select={"by": "coverage"}, luck=False
    ).fit(X[:500], y[:500])
    uncounted = copy.deepcopy(search)
    front = uncounted.found_.front
    bare = [
        Candidate(c.design, c.threshold, replace(c.evaluation, label_accepted=None)) for c in front
    ]
    object.__setattr__(uncounted.found_, "front", type(front)(bare, front.costs))
    with pytest.raises(CertificateError, match="have no `label_accepted`"):
        certify(uncounted, X[500:], y[500:], min_precision={2: 0.5})
    answer = certify(search, X[500:], y[500:], min_precision={2: 0.5}, max_rejected={2: 0.9})
    (first, *_) = answer.candidates
    seen = first.evaluation
    level = 0.01 / (answer.tried * (4 + 3 + 2))
    as_2 = seen.label_accepted[2]
    assert first.bounds.precision == {2: lower(seen.class_right[2], as_2, level)}
    left = seen.class_rows[2] - seen.class_accepted[2]
    assert first.bounds.rejected == {2: upper(left, seen.class_rows[2], level)}
    assert Certificate.from_data(answer.to_data()) == answer


def test_a_label_that_is_never_given_has_no_precision(data, fresh):
    """Nothing is wrong among no rows, and nothing is shown by that."""
    X, y, costs = data
    never = CascadeClassifier(costs=costs, threshold={0: 0.6, 1: 1.0}).fit(X[:1000], y[:1000])
    assert not certify(never, *fresh, min_precision={1: 0.01}).certified
    assert Targets(min_precision={"sick": 0.5}).missed_by(sick(0, 0)) == [
        "there are no rows accepted as 'sick'"
    ]


@pytest.mark.parametrize("name", ["max_missed", "max_rejected", "min_precision"])
def test_labels_that_are_none_are_refused_by_the_name_of_the_target(search, fresh, name):
    with pytest.raises(CertificateError, match=f"`{name}` names 7, which is not a class"):
        certify(search, *fresh, **{name: {7: 0.1}})
    for share in (0.0, 1.0, True, "0.1", None):
        with pytest.raises(CertificateError, match=f"`{name} of 1` must be a number between"):
            certify(search, *fresh, **{name: {1: share}})


def test_what_is_promised_of_a_class_is_said_in_words(search, fresh):
    certificate = certify(search, *fresh, max_rejected={1: 0.6}, min_precision={0: 0.7})
    assert (
        "that actually rejects more than 60% of class 1 or is right on fewer than 70% of the rows "
        "it accepts as 0 is at most 1%"
    ) in certificate.sentence
    assert certificate.sentence.startswith(
        "With 99% confidence, at most 60% of the rows of class 1 are rejected and at least 70% of "
        "the rows accepted as 0 are right, provided that new rows resemble the calibration rows. "
    )
    assert "rejected 1 <=  precision 0 >=" in repr(certificate)


def test_what_is_lacking_of_a_class_is_said_in_words(search, data):
    X, y, _ = data
    rows = np.flatnonzero(y == 1)[-6:]
    asked = {"max_rejected": {1: 0.01}, "min_precision": {1: 0.99}}
    lacking = certify(search, X.iloc[rows], y[rows], **asked)
    assert not lacking.certified
    told = lacking.sentence
    assert "6 rows of 1 with " in told
    assert "rejected are too few (at least " in told
    assert "rows accepted as 1 with 0 wrong are too few" in told
    assert Certificate.from_data(lacking.to_data()) == lacking


def test_two_targets_of_the_same_number_are_two_questions(search, fresh):
    """Or the second would be answered as if it had been asked first."""
    certify(search, *fresh, max_rejected={1: 0.4})
    with pytest.raises(CertificateError, match="already used for a certificate"):
        certify(search, *fresh, min_precision={1: 0.4})


def test_agreement_is_not_asked_for_together_with_targets_of_labels():
    for name in ("max_rejected", "min_precision"):
        with pytest.raises(CertificateError, match="certify them separately, on different rows"):
            Targets(agreement=0.9, **{name: {1: 0.1}})


# The order.


@settings(max_examples=100)
@given(
    st.lists(st.floats(1e-5, 0.2), min_size=1, max_size=9),
    st.lists(st.floats(0.01, 1), min_size=9, max_size=9),
)
def test_any_shares_at_the_start_are_those_of_a_graphical_procedure(p_values, weights):
    """So that the chance of any false certificate is bounded whoever comes first."""
    held = np.array(weights[: len(p_values)])
    levels = 0.05 * held / held.sum()
    assert passed(levels, p_values.__getitem__) == by_graph(levels, p_values)


@pytest.mark.parametrize("n_others", [0, 1, 2, 30])
@pytest.mark.parametrize("among", [31, 200])
def test_the_chosen_holds_half_and_the_others_share_the_other_half_as_before(n_others, among):
    held = shares_with_chosen(n_others, among)
    assert held.sum() == pytest.approx(1)
    assert held[0] == (0.5 if n_others else 1.0)
    if n_others:
        assert held[1:].tolist() == (0.5 * shares(n_others, among)).tolist()


def test_the_chosen_is_tested_first_and_the_others_in_their_order(search):
    targets = Targets(accuracy=0.8)
    for chosen in search.front_:
        search.choose(chosen)
        family = family_of(search, targets, chosen_first=True)
        kept = [c for c in search.front_ if c.evaluation.coverage >= 0.5]
        if targets.met_by(chosen.evaluation):
            others = [c for c in kept if c is not chosen]
            assert family.candidates == [chosen, *in_order(others, targets, search.costs_)]
            assert not family.why_not
        else:
            assert family.candidates == in_order(kept, targets, search.costs_)
            assert (
                family.shares.tolist()
                == shares(len(family.candidates), len(search.front_)).tolist()
            )
            assert "accepted rows are wrong, but at most 20% may be" in family.why_not


def test_the_chosen_is_certified_where_others_would_have_been_tested_before_it(search, fresh):
    """It has half of the level to itself, whatever the others do."""
    able = [c for c in search.front_ if Targets(**ASKED).met_by(c.evaluation)]
    last = in_order(able, Targets(**ASKED), search.costs_)[-1]
    certificate = certify(search.choose(last), *fresh, **ASKED)
    assert certificate.chosen.candidate == last
    assert certificate.chosen.tested
    certified = certificate.chosen_one
    assert (certified is not None) == (certificate.chosen.why == "")
    if certified is not None:
        assert certified.fingerprint == fingerprint(search.best_cascade_)
        assert certificate.check(search) == certified


def test_whoever_chooses_another_candidate_and_asks_again_is_refused(search, fresh, tmp_path):
    """Else one could shop for the order that passes."""
    first, second = search.front_[-1], search.front_[-2]
    asked = certify(search.choose(first), *fresh, **ASKED)
    assert certify(search, *fresh, **ASKED) == asked, "the same question is free"
    other = copy.deepcopy(search).choose(second)
    dump(other, tmp_path / "other.emsco")
    for again in (
        other,
        pickle.loads(pickle.dumps(other)),
        load(tmp_path / "other.emsco"),
        other.best_cascade_,
        copy.deepcopy(search).choose(min_coverage=0.6),
    ):
        with pytest.raises(CertificateError, match="already used for a certificate"):
            certify(again, *fresh, **ASKED)
    assert certify(search, *fresh, **ASKED) == asked, "chosen again, it is the same question"


def test_whoever_chooses_by_other_bounds_and_asks_again_is_refused(search, fresh):
    """The same candidate, but others would be left out."""
    most = max(c.evaluation.coverage for c in search.front_)
    certify(search.choose(by="coverage"), *fresh, **ASKED)
    again = search.choose(by="coverage", min_coverage=most - 0.01)
    with pytest.raises(CertificateError, match="already used for a certificate"):
        certify(again, *fresh, **ASKED)


def test_questions_together_have_each_their_order(search, fresh):
    questions = [Targets(accuracy=0.75), Targets(accuracy=0.97)]
    search.choose(by="coverage")
    low, high = certify_together(search, *fresh, questions)
    assert low.chosen.tested
    assert not high.chosen.tested
    assert low.chosen.candidate == high.chosen.candidate == search.best_candidate_


def test_a_chosen_one_whose_figures_miss_a_target_is_not_tested_and_that_is_printed(search, fresh):
    search.choose(by="coverage")
    chosen = search.best_candidate_
    certificate = certify(search, *fresh, accuracy=0.95)
    assert certificate.certified
    assert certificate.chosen_one is None
    assert not certificate.chosen.tested
    assert chosen not in {c.candidate for c in certificate.candidates}
    (note, *_) = certificate.notes
    assert note.startswith(f"Chosen: {chosen.design} at threshold 0.6. As selected: ")
    assert chosen.evaluation.in_one_line in note
    assert "It was not tested: " in note
    assert "accepted rows are wrong, but at most 5% may be." in note
    assert note in repr(certificate)
    assert "It was not tested" in certificate._repr_html_()
    assert not certificate.holds_for(search)


def test_a_chosen_one_that_fails_its_test_says_what_it_lacks(search, data):
    X, y, _ = data
    search.choose(by="coverage")
    certificate = certify(search, X[1000:1012], y[1000:1012], accuracy=0.75)
    assert certificate.chosen.tested
    assert "are too few (at least " in certificate.chosen.why
    assert "It was tested and is not certified: " in repr(certificate)


def test_all_sources_are_tested_where_they_were_chosen_although_not_on_the_front(search, fresh):
    search.choose(search.all_sources_)
    assert search.all_sources_ not in search.front_
    certificate = certify(search, *fresh, accuracy=0.8)
    certified = certificate.chosen_one
    assert certified is certificate.candidates[0]
    assert certified.evaluation.coverage == 1
    assert certificate.check(search) == certified
    line = next(line for line in repr(certificate).splitlines() if "*0 " in line)
    assert "s0 s1 s2" in line


def test_all_sources_that_were_chosen_come_back_from_a_file_to_be_certified(
    search, fresh, tmp_path
):
    """And the question is the same one."""
    asked = certify(search.choose(search.all_sources_), *fresh, accuracy=0.8)
    dump(search, tmp_path / "search.emsco")
    loaded = load(tmp_path / "search.emsco")
    assert certify(loaded, *fresh, accuracy=0.8) == asked


def test_rows_that_have_shown_the_front_count_what_is_not_on_it_as_well(search, fresh):
    search.choose(search.all_sources_)
    search.score_front(*fresh)
    certificate = certify(search, *fresh, accuracy=0.8)
    assert certificate.tried == len(search.front_) + 1


def test_where_nothing_was_chosen_the_order_is_as_before(search, fresh):
    del search.choice_
    certificate = certify(search, *fresh, accuracy=0.9, min_coverage=0)
    assert certificate.chosen is None
    assert certificate.notes == ()
    family = family_of(search, certificate.targets, chosen_first=True)
    assert family.candidates == in_order(search.front_, certificate.targets, search.costs_)


def test_savings_keep_their_order():
    X, y, costs = make_costly_classification(4000, 3, class_sep=2, random_state=0)
    model = HistGradientBoostingClassifier(max_iter=20, random_state=0).fit(X[:800], y[:800])
    search = CascadeSearchCV(costs=costs, final=model, target="agreement", max_stages=2)
    found = savings(search, X[800:], agreement=[0.9, 0.97], way="front", random_state=0)
    for saving in found.each:
        certificate = saving.certificate
        assert certificate.chosen is None
        assert certificate.filters == ()
        order = in_order(search.front_, certificate.targets, search.costs_)
        assert certificate.tried == len(order)
        certified = [c.candidate for c in certificate.candidates]
        assert certified == [c for c in order if c in certified]


# What is left out.


def test_the_cheapest_certified_accepts_more_than_nobody(rare):
    """Whoever accepts nobody misses nobody, and was certified and chosen for that."""
    X, y, costs = rare
    search = CascadeSearchCV(costs=costs, luck=False, select={"by": "coverage"}, random_state=0)
    with pytest.warns(SelectionWarning, match="labels 0 of 148 rows of class 'fraud' right"):
        search.fit(X[:1500], y[:1500])
    asked = {"max_missed": {"fraud": 0.2}}
    everything = certify(search, X[1500:], y[1500:], **asked, min_coverage=0)
    forget_all()
    nobody = everything.select()
    assert nobody.evaluation.coverage < 0.1
    certificate = certify(search, X[1500:], y[1500:], **asked)
    assert certificate.certified
    assert certificate.least_coverage == 0.5
    assert all(c.candidate.evaluation.coverage >= 0.5 for c in certificate.candidates)
    for by in ("cost", "coverage", "accuracy"):
        assert certificate.select(by).evaluation.coverage >= 0.5
    assert "coverage >= 0.5 (the default; min_coverage=0 removes it)" in repr(certificate)
    assert "This is a filter, not a promise." in repr(certificate)
    assert "coverage" not in certificate.sentence


def floors(search, **targets):
    return Floors.of(search, Targets(accuracy=0.8, **targets))


def test_what_was_said_of_coverage_is_what_candidates_are_left_out_by(search):
    """The last said counts: to certify, to choose, to the search; 0.5 where nobody said any."""
    assert (floors(search).coverage, floors(search).is_said) == (0.5, False)
    assert floors(search, min_coverage=0.7).coverage == 0, "it is tested"
    assert floors(search, min_coverage=0).describe() == ()
    search.choose(min_coverage=0.6)
    assert (floors(search).coverage, floors(search).is_said) == (0.6, True)
    assert floors(search, min_coverage=0.7).coverage == 0.6
    assert floors(search, min_coverage=0).coverage == 0
    with (
        pytest.warns(SelectionWarning, match="labels 5 of 501 rows of class 0 right"),
        pytest.warns(SelectionWarning, match="labels 1 of 499 rows of class 1 right"),
    ):
        search.choose(min_coverage=0)
    assert floors(search).coverage == 0
    search.select = {"min_coverage": 0.7}
    search.choose(search.front_[0])
    assert (floors(search).coverage, floors(search).is_said) == (0.7, True)


def test_the_last_bounds_of_a_choice_leave_candidates_out(search, fresh):
    bounds = {
        "min_coverage": 0.55, "min_accuracy": 0.85, "max_cost": 5.0, "max_missed": {1: 0.2},
        "max_rejected": {0: 0.45}, "min_precision": {1: 0.8}, "max_latency": 9.0, "caution": 0,
    }  # fmt: skip
    certificate = certify(search.choose(**bounds), *fresh, accuracy=0.8)
    assert certificate.filters == (
        "cost <= 5", "accuracy >= 0.85", "missed 1 <= 0.2", "rejected 0 <= 0.45",
        "precision 1 >= 0.8", "worst_latency <= 9", "coverage >= 0.55",
    )  # fmt: skip
    assert certificate.chosen.tested
    family = family_of(search, Targets(accuracy=0.8), chosen_first=True)
    assert 0 < len(family.candidates) < len(search.front_)
    for one in family.candidates:
        e = one.evaluation
        assert e.coverage >= 0.55
        assert e.accuracy >= 0.85
        assert e.cost <= 5
        assert e.missed[1] <= 0.2
        assert e.rejected[0] <= 0.45
        assert e.precision[1] >= 0.8
    assert "cost <= 5; accuracy >= 0.85;" in repr(certificate)
    assert "cost <=  " not in repr(certificate), "no bound that was not asked to be certified"


def test_what_the_search_kept_to_is_kept_to_by_what_is_tested(data, fresh):
    X, y, costs = data
    search = CascadeSearchCV(
        costs=costs, threshold=[0.6, 0.8], max_missed={1: 0.05}, max_rejected={1: 0.5},
        select={"by": "coverage"}, luck=False,
    ).fit(X[:1000], y[:1000])  # fmt: skip
    assert floors(search).describe()[:2] == ("missed 1 <= 0.05", "rejected 1 <= 0.5")
    search.choose(search.all_sources_)
    assert search.all_sources_.evaluation.missed[1] > 0.05
    certificate = certify(search, *fresh, accuracy=0.8)
    assert not certificate.chosen.tested
    assert "it does not meet missed 1 <= 0.05, which was asked for" in certificate.chosen.why


def test_a_chosen_one_that_covers_less_than_nobody_has_asked_for_is_tested(search, fresh):
    """Whoever chose it has seen what it accepts; but nobody is given it unasked."""
    few = covering_few(search)
    certificate = certify(search.choose(few), *fresh, **ASKED)
    assert certificate.chosen_one is not None
    assert certificate.select().candidate != few
    alone = replace(certificate, candidates=(certificate.chosen_one,))
    message = "certified candidates accepts at least 50% of the calibration rows"
    with pytest.raises(CertificateError, match=message) as told:
        alone.select()
    assert "select(..., min_coverage=0)" in str(told.value)
    assert alone.select(min_coverage=0).candidate == few
    assert certificate.select("coverage", min_coverage=0.7).evaluation.coverage >= 0.7


def test_where_all_are_left_out_nothing_is_asked(search, fresh):
    search.choose(covering_few(search))
    object.__setattr__(search.choice_, "bounds", {"min_coverage": 0.9999})
    with pytest.raises(CertificateError, match="No candidate has selected figures that show"):
        certify(search, *fresh, **ASKED)
    assert certify(search.choose(by="accuracy"), *fresh, **ASKED).certified, "rows are fresh"


def test_where_none_meets_the_targets_the_closest_is_tested(search, fresh):
    search.choose(by="coverage")
    certificate = certify(search, *fresh, accuracy=0.99999)
    assert certificate.tried == 1
    assert not certificate.certified


def test_a_coverage_that_is_given_is_tested(search, fresh):
    certificate = certify(search, *fresh, accuracy=0.8, min_coverage=0.6)
    assert "and at least 60% of all rows are accepted, provided" in certificate.sentence
    assert "accepts fewer than 60% of all rows" in certificate.sentence
    assert "coverage >=" in repr(certificate)
    assert certificate.filters == ()
    assert certificate.least_coverage == 0


def test_a_coverage_of_0_is_no_target(search, fresh):
    certificate = certify(search, *fresh, accuracy=0.95, min_coverage=0)
    assert "all rows" not in certificate.sentence
    assert min(c.candidate.evaluation.coverage for c in certificate.candidates) < 0.5
    for wrong in (False, -0.1, "0"):
        with pytest.raises(CertificateError, match="`min_coverage` must be a number between"):
            Targets(accuracy=0.9, min_coverage=wrong)


def test_one_cascade_is_not_left_out_by_anything(search, fresh):
    certificate = certify(search.cascade(covering_few(search)), *fresh, **ASKED)
    assert certificate.certified
    assert certificate.notes == ()
    assert certificate.select().evaluation.coverage < 0.5


# What is printed, and what is kept.


def test_only_bounds_that_were_asked_for_are_printed(search, fresh):
    questions = [
        Targets(accuracy=0.8), Targets(max_missed={1: 0.4}), Targets(max_rejected={0: 0.6}),
        Targets(min_precision={1: 0.6}), Targets(accuracy=0.8, min_coverage=0.5, max_cost=6.5),
    ]  # fmt: skip
    answers = certify_together(search, *fresh, questions)
    told = [
        [h for h in table_of(answer)[0] if h.endswith("=")]
        for answer in answers
        if answer.certified
    ]
    assert told == [
        ["accuracy >="], ["missed 1 <="], ["rejected 0 <="], ["precision 1 >="],
        ["accuracy >=", "coverage >=", "cost <="],
    ]  # fmt: skip
    for answer in answers:
        page = answer._repr_html_()
        assert page.count("&lt;=") == sum(h.endswith("<=") for h in answer._table()[0])


def test_a_certificate_with_all_of_it_comes_back_from_a_file(search, fresh, tmp_path):
    search.choose(min_coverage=0.6, caution=0)
    asked = {"max_rejected": {1: 0.6}, "min_precision": {0: 0.7}}
    certificate = certify(search, *fresh, **asked)
    assert certificate.chosen is not None
    assert certificate.filters
    search.certificate_ = certificate
    search.choose(certificate.select().candidate)
    dump(search, tmp_path / "search.emsco")
    loaded = load(tmp_path / "search.emsco").certificate_
    assert loaded == certificate
    assert repr(loaded) == repr(certificate)
    assert loaded.least_coverage == 0.6


def test_thresholds_of_every_kind_come_back_with_what_was_chosen(data, fresh, tmp_path):
    X, y, costs = data
    search = CascadeSearchCV(costs=costs, max_stages=3, luck=False, select={"by": "coverage"})
    search.fit(X[:500], y[:500])
    staged = [c for c in search.front_ if isinstance(c.threshold, tuple)]
    search.choose(staged[-1])
    search.certificate_ = certify(search, *fresh, accuracy=0.9999, confidence=0.9999)
    data = search.certificate_.to_data()
    assert Certificate.from_data(data) == search.certificate_
    dump(search, tmp_path / "search.emsco")
    with pytest.warns(match="does not hold"):
        loaded = load(tmp_path / "search.emsco")
    assert loaded.certificate_ == search.certificate_


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("chosen", {}),
        ("chosen", "s0"),
        ("chosen tested", 1),
        ("chosen why", None),
        ("chosen assignment", [0]),
        ("chosen selected_rows", -1),
        ("chosen selected_label_accepted", [1]),
        ("filters", "coverage >= 0.5"),
        ("filters", [0.5]),
        ("least_coverage", float("nan")),
        ("least_coverage", 2),
        ("least_coverage", None),
    ],
)
def test_what_cannot_be_told_of_a_choice_is_refused(search, fresh, name, value):
    data = certify(search, *fresh, accuracy=0.8).to_data()
    part, _, inner = name.partition(" ")
    data[part] = data[part] | {inner: value} if inner else value
    with pytest.raises(CertificateError):
        Certificate.from_data(data)


@pytest.mark.parametrize(
    "path",
    [
        ["chosen"], ["filters"], ["least_coverage"], ["left_out"],
        ["candidates", 0, "most_rejected"], ["candidates", 0, "fresh_given_labels"],
        ["candidates", 0, "selected_label_accepted"], ["chosen", "selected_given_labels"],
    ],
)  # fmt: skip
def test_a_certificate_without_one_of_its_keys_is_refused(search, fresh, path):
    data = certify(search, *fresh, accuracy=0.8).to_data()
    part = data
    for name in path[:-1]:
        part = part[name]
    del part[path[-1]]
    with pytest.raises(CertificateError, match="must have"):
        Certificate.from_data(data)


def test_a_shortfall_without_one_of_its_keys_is_refused(search, fresh):
    few = certify(search.cascade(search.front_[0]), *(rows[:5] for rows in fresh), accuracy=0.8)
    data = few.to_data()
    assert Certificate.from_data(data) == few
    del data["shortfalls"][0]["bad"]
    with pytest.raises(CertificateError, match="must have"):
        Certificate.from_data(data)


# Monitors.


def test_a_monitor_says_that_it_does_not_watch_what_it_cannot(search, fresh):
    certificate = certify(search, *fresh, max_rejected={1: 0.6}, min_precision={0: 0.7})
    search.choose(certificate.select().candidate)
    with (
        pytest.warns(MonitorWarning, match="Not watched: rejected 1, which"),
        pytest.warns(MonitorWarning, match="Not watched: precision 0, which"),
    ):
        monitor = CertificateMonitor.of(certificate, search)
    assert {"rejected 1", "precision 0"} <= set(monitor.not_watched)
    assert "coverage" not in monitor.not_watched
    again = CertificateMonitor.from_state(monitor.state())
    assert again.not_watched == monitor.not_watched
    assert "rejected 1" in repr(monitor)


def test_targets_may_be_numbers_of_numpy():
    targets = Targets(accuracy=np.float64(0.9), max_missed={"sick": np.float64(0.1)})
    assert [measure.target for measure, _ in targets.measures()] == ["accuracy", "max_missed"]
