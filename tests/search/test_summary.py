"""A summary says what was chosen and why, whom it turns away, what it costs, and what is fresh."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from emsco import (
    Candidate,
    CascadeSearchCV,
    Costs,
    Evaluation,
    InputGuard,
    ParetoFront,
    Review,
    StageDesign,
    evaluate,
)
from emsco.certify import certify
from emsco.core.interval import interval
from emsco.datasets import make_costly_classification
from emsco.exceptions import ClassesError, DecisionsError, LabelsWarning, SelectionWarning
from emsco.rows.ledger import forget_all, ledger_of
from emsco.search._summary import sentences_of_choice

pytestmark = pytest.mark.filterwarnings("ignore::emsco.exceptions.SelectionWarning")

ALL, CODES, PLAIN = make_costly_classification(2400, 3, class_sep=1.2, random_state=2)
LABELS = np.where(CODES == 1, "sick", "well")
X, Y = ALL[:300], LABELS[:300]
FRESH, TRUTH = ALL[300:], LABELS[300:]
COSTS = Costs(PLAIN.sources, review=Review(30.0), unit="EUR")


def search_for(**params):
    small = {"costs": COSTS, "max_stages": 2, "threshold": [0.6, 0.75, 0.9], "cv": 3}
    return CascadeSearchCV(**(small | {"random_state": 0} | params))


@pytest.fixture(scope="module")
def searched():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SelectionWarning)
        return search_for().fit(X, Y)


@pytest.fixture(autouse=True)
def _nothing_was_asked():
    forget_all()


# By class.


def candidate_of(labels, *, knows_labels=True, costs=PLAIN):
    rows = {label: 10 + i for i, label in enumerate(labels)}
    accepted = {label: n - 2 for label, n in rows.items()}
    right = {label: n - 3 for label, n in rows.items()}
    evaluation = Evaluation(
        sum(rows.values()), sum(accepted.values()), sum(right.values()), 300, rows, accepted, right,
        label_accepted=accepted if knows_labels else None,
    )  # fmt: skip
    return Candidate(StageDesign([0] * len(costs.names), costs.names), 0.75, evaluation)


def told(candidate, costs=PLAIN, luck=None, **more):
    front = ParetoFront([candidate], costs, "On these rows.", luck=luck)
    classes = np.array(list(candidate.evaluation.class_rows))
    return sentences_of_choice(candidate, candidate, front, classes, **more)


@pytest.mark.parametrize("n_classes", [2, 3, 23])
def test_every_class_has_a_line_that_fits_a_terminal(n_classes):
    labels = [f"class {i}" for i in range(n_classes)]
    candidate = candidate_of(labels)
    lines = told(candidate).splitlines()
    counts = [line for line in lines if line.startswith("    ")]
    assert len(counts) == 2 * n_classes, "a class of few rows has its counts, too"
    assert counts[0].startswith("    2 of 10 rejected (6 to 51%), 1 of 10 missed (2 to 40%), ")
    for label in labels:
        of_it = [line for line in lines if line.startswith(f"  of {label!r} ")]
        assert len(of_it) == 2, "of what was chosen, and of all sources"
        e = candidate.evaluation
        for word in ("rejected", "missed"):
            assert re.search(rf" {getattr(e, word)[label]:.1%} {word}", of_it[0])
        for word, shown in (("recall", "recall when accepted"), ("precision", "precision")):
            assert re.search(rf"{shown} +{getattr(e, word)[label]:.1%}", of_it[0])
        assert len(of_it[0]) <= 94
    assert len({line.index("rejected") for line in lines if line.startswith("  of")}) == 1


def test_what_is_not_known_of_a_class_is_left_out():
    unknown = told(candidate_of("abc", knows_labels=False))
    assert "precision" not in unknown
    assert "recall when accepted" in unknown
    none = Evaluation(
        10, 5, 5, 10, {"sick": 5, "well": 5}, {"sick": 0, "well": 5}, {"sick": 0, "well": 5}
    )
    lines = told(Candidate(StageDesign([0, 0, 0], PLAIN.names), 0.75, none)).splitlines()
    (sick, _) = (line for line in lines if "'sick'" in line)
    assert sick.endswith("100.0% rejected,   0.0% missed"), "nothing is accepted of it, or as it"
    (well, _) = (line for line in lines if "'well'" in line)
    assert well.endswith("precision 100.0%")


def test_a_summary_has_everything_in_its_order(searched):
    searched.choose(min_coverage=0.7, max_rejected={"sick": 0.5}, caution=0)
    lines = [line for line in searched.summary().splitlines() if not line.startswith("    ")]
    best = searched.best_candidate_
    starts = ["Chosen from", *[f"  stage {i}: buy" for i in range(best.design.n_stages)]]
    starts += ["  never bought"] * bool(best.design.unused)
    starts += ["Rule: the cheapest", "It costs", "  of 'sick'", "  of 'well'"]
    starts += ["Buying all sources at once and accepting as many rows costs"]
    starts += ["  of 'sick'", "  of 'well'"]
    starts += ["Buying all sources at once and answering every row costs"]
    starts += ["  of 'sick'", "  of 'well'", "With boosted trees, all sources at once"]
    starts += ["Luck: ", "Selected on 300 held-out rows"]
    assert [line.startswith(s) for line, s in zip(lines, starts, strict=True)] == [True] * len(
        lines
    )
    assert searched.choice_.rule in lines
    assert "rejected sick <= 0.5" in searched.choice_.rule


@pytest.mark.parametrize(
    ("luck", "parts"),
    [
        (1.73, ("1.7 standard errors better than they are", "adds that margin to bounds")),
        (0.4, ("0.4 standard errors better", "adds a margin of 1 standard error to bounds")),
        (-0.3, ("no better than they are", "adds a margin of 1 standard error to bounds")),
    ],
)
def test_luck_is_said_in_words(luck, parts):
    text = told(candidate_of("ab"), luck=luck)
    assert "Luck: when the search is repeated on parts of the rows, choices look " in text
    assert all(part in text for part in parts)
    assert "Luck" not in told(candidate_of("ab"))


# Money.


def test_review_is_in_every_total(searched):
    searched.choose(min_coverage=0.7, caution=0)
    for candidate in (searched.best_candidate_, searched.all_sources_):
        e = candidate.evaluation
        review = 30 * (1 - e.coverage)
        loss = f"cost {e.cost:.4g} + review {review:.4g} = loss {e.cost + review:.4g} EUR"
        assert f"; per row: {loss}." in searched.summary()
        assert f"EUR per row ({e.cost / COSTS.total:.1%} of the full price)" in searched.summary()
    plain = told(candidate_of("ab"))
    assert "review" not in plain
    assert f"costs {300 / 21:.4g} per row (" in plain


@pytest.mark.parametrize("error_cost", [40.0, {"sick": 200, "well": 5}, None])
def test_the_loss_is_told_where_the_choice_was_by_it(searched, error_cost):
    searched.choose(by="loss", error_cost=error_cost)
    text = searched.summary(FRESH, TRUTH)
    assert "the best candidate of a front that was searched without prices of errors" in text
    price = {"review": COSTS.review, "error_cost": error_cost or 0.0}
    own, everything, fresh = (
        f"{e.loss(**price):.4g} EUR"
        for e in (
            searched.best_candidate_.evaluation,
            searched.all_sources_.evaluation,
            evaluate(searched.decide(FRESH), TRUTH),
        )
    )
    selected, _, _ = text.partition("Luck: ")
    losses = re.findall(r"; per row: cost .* \+ errors .* = loss (.* EUR)\.", selected)
    assert (losses[0], losses[-1]) == (own, everything)
    told = f"Its loss is {fresh} per row there, and {own} on the rows it was selected on."
    assert told in text
    searched.choose(min_coverage=0.7, caution=0)
    assert "+ errors" not in searched.summary(FRESH, TRUTH)


def test_without_a_price_for_review_the_fresh_loss_may_not_be_known():
    """Where it was selected nothing was rejected; a guard rejects fresh rows."""
    search = search_for(costs=PLAIN, threshold=0.51, guard=InputGuard()).fit(X, Y)
    search.choose(by="loss", error_cost=1.0, min_coverage=1)
    assert "Its loss is" in search.summary(X, Y).partition("fresh rows it")[2]
    text = search.summary(FRESH * 100, TRUTH)
    assert "Its loss there is unknown: it rejects rows" in text


# Fresh rows.


def figures_of(e):
    return (
        f"; per row: cost {e.cost:.4g} + review {30 * (1 - e.coverage):.4g} = loss ",
        f"accepts {e.coverage:.1%} of the rows",
        f" and is right on {e.accuracy:.1%} of those",
    )


def test_fresh_figures_are_those_of_the_scored_front_in_the_same_sentence(searched):
    searched.choose(min_coverage=0.7, caution=0)
    plain, text = searched.summary(), searched.summary(FRESH, TRUTH)
    assert text.startswith(f"{plain}\nOn 2,100 fresh rows it costs ")
    place = searched.front_.index(searched.best_candidate_)
    scored = searched.score_front(FRESH, TRUTH)[place]
    fresh = text.removeprefix(plain)
    assert all(part in fresh for part in figures_of(scored.fresh))
    for label in ("sick", "well"):
        assert f"{scored.fresh.rejected[label]:.1%} rejected" in fresh
        assert f"{scored.fresh.precision[label]:.1%}" in fresh


def test_coverage_has_an_interval_and_all_sources_stand_beside_it_at_the_same_coverage(searched):
    searched.choose(min_coverage=0.7, caution=0)
    e = searched.best_candidate_.evaluation
    low, high = interval(e.accepted, e.rows)
    assert low < e.coverage < high
    text = searched.summary(FRESH, TRUTH)
    told = f"accepts {e.coverage:.1%} of the rows (95% interval: {100 * low:.1f} to {high:.1%})"
    assert f"{told} and is right" in text
    as_many = searched.all_sources_at(e.coverage)
    (line,) = re.findall("Buying all sources at once and accepting as many rows .*", text)
    assert f"accepts {e.coverage:.1%} of the rows and is right on {as_many.accuracy:.1%}" in line
    assert "95% interval" in text.partition("On 2,100 fresh rows")[2]
    weighted = searched.summary(FRESH, TRUTH, population=POPULATION)
    assert "95% interval" not in weighted.partition("On 2,100 fresh rows")[2], "weights, not counts"


def test_what_differs_by_more_than_two_standard_errors_is_named(searched):
    searched.choose(min_coverage=0.7, caution=0)
    same = searched.summary(X, Y)
    assert "No figure differs by more than two standard errors from the selected figures." in same
    flipped = np.where(TRUTH == "sick", "well", "sick")
    text = searched.summary(FRESH, flipped)
    told = "These figures differ by more than two standard errors from the selected figures"
    assert told in text
    e = evaluate(searched.decide(FRESH), flipped)
    before = searched.best_candidate_.evaluation
    assert f"  accuracy: {e.accuracy:.1%} fresh, {before.accuracy:.1%} selected, " in text
    assert f"  recall when accepted of 'sick': {e.recall['sick']:.1%} fresh" in text


def test_a_target_of_agreement_takes_no_labels():
    final = LogisticRegression().fit(X.to_numpy(), Y)
    search = search_for(costs=list(range(1, 4)), final=final, target="agreement")
    search.fit(X.to_numpy())
    text = search.summary(FRESH.to_numpy())
    agreed = evaluate(search.decide(FRESH.to_numpy()), final.predict(FRESH.to_numpy())).accuracy
    assert f"right on {agreed:.1%} of those" in text.partition("On 2,100 fresh rows")[2]
    with pytest.raises(ClassesError, match="takes no `y`"):
        search.summary(FRESH.to_numpy(), TRUTH)


def test_rows_without_labels_and_labels_without_rows_are_refused(searched):
    with pytest.raises(ClassesError, match="`y` is needed"):
        searched.summary(FRESH)
    for lost in ({"y": TRUTH}, {"population": {"sick": 0.1}}):
        with pytest.raises(ClassesError, match="need fresh rows"):
            searched.summary(**lost)
    with pytest.raises(ClassesError, match="2100 rows but `y` has 3"):
        searched.summary(FRESH, TRUTH[:3])
    with pytest.warns(LabelsWarning, match=r"'ill' \([\d,]+ rows\)"):
        searched.summary(FRESH, np.where(TRUTH == "sick", "ill", TRUTH))


# A population that the rows were not drawn from.

POPULATION = {"sick": 0.05}


def weights():
    share = np.mean(TRUTH == "sick")
    return np.where(TRUTH == "sick", 0.05 / share, 0.95 / (1 - share))


def test_a_population_is_the_same_weights_by_row(searched):
    scored = searched.score_front(FRESH, TRUTH, population=POPULATION)
    for one in scored:
        decisions = searched.cascade(one.candidate).decide(FRESH)
        by_row = evaluate(decisions, TRUTH, sample_weight=weights())
        for word in ("accuracy", "coverage", "cost"):
            assert getattr(one.fresh, word) == pytest.approx(getattr(by_row, word), rel=1e-12)
        for word in ("rejected", "missed", "recall", "precision"):
            assert getattr(one.fresh, word) == pytest.approx(getattr(by_row, word), rel=1e-12)
    assert "counted as in a population with 5% labelled 'sick'." in scored.measured_on
    assert "population" not in searched.score_front(FRESH, TRUTH).measured_on


def test_a_summary_takes_a_population_and_compares_what_does_not_depend_on_it(searched):
    searched.choose(min_coverage=0.7, caution=0)
    text = searched.summary(FRESH, TRUTH, population=POPULATION)
    e = evaluate(searched.decide(FRESH), TRUTH, sample_weight=weights())
    fresh = text.partition("On 2,100 fresh rows, counted as in a population with 5% labelled")[2]
    assert all(part in fresh for part in figures_of(e))
    assert "Only shares within a class are compared" in fresh
    compared = text.partition("These differ")[2]
    assert not re.search("accuracy:|coverage:|cost:|precision of", compared)


@pytest.mark.parametrize("use", ["summary", "score_front"])
@pytest.mark.parametrize(
    ("population", "match"),
    [
        ({"sik": 0.1}, "names 'sik', of which there is no row; did you mean 'sick'"),
        ({"sick": 0.1, "well": 0.1}, "must sum to 1"),
    ],
)
def test_a_population_that_cannot_be_is_refused_before_anything_is_shown(
    searched, use, population, match
):
    with pytest.raises(DecisionsError, match=match):
        getattr(searched, use)(FRESH, TRUTH, population=population)
    assert not ledger_of(searched.fitted_rows_.digest).entries


# Rows that have shown figures.


def test_rows_that_have_shown_one_cascade_count_as_having_shown_the_front(searched):
    """By what one does on them, any other may be chosen; a certificate allows for it."""
    searched.choose(min_coverage=0.7, caution=0)
    unseen = certify(searched.best_cascade_, FRESH, TRUTH, accuracy=0.5)
    assert unseen.tried == 1
    forget_all()
    searched.summary()
    assert not ledger_of(searched.fitted_rows_.digest).entries, "nothing fresh was shown"
    searched.summary(FRESH, TRUTH)
    n_front = len(searched.front_)
    other = searched.cascade(searched.front_[0])
    assert certify(other, FRESH, TRUTH, accuracy=0.5).tried == n_front
    forget_all()
    searched.summary(FRESH, TRUTH)
    searched.score_front(FRESH, TRUTH)
    searched.choose(by="coverage").summary(FRESH, TRUTH)
    seen = certify(searched.best_cascade_, FRESH, TRUTH, accuracy=0.5)
    assert seen.tried == n_front, "shown again, it is the same front"


def test_what_is_shown_and_not_on_the_front_counts_too(searched):
    searched.choose(searched.all_sources_)
    assert searched.all_sources_ not in searched.front_
    searched.summary(FRESH, TRUTH)
    tried = certify(searched.best_cascade_, FRESH, TRUTH, accuracy=0.5).tried
    assert tried == len(searched.front_) + 1


def test_other_rows_are_not_spent(searched):
    searched.choose(min_coverage=0.7, caution=0)
    searched.summary(FRESH[:900], TRUTH[:900])
    assert certify(searched.best_cascade_, FRESH[900:], TRUTH[900:], accuracy=0.5).tried == 1
