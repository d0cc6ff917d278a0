"""A front held against fresh rows tells what was selected, what is true, and the gap between."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import PredefinedSplit
from threadpoolctl import threadpool_limits

from emsco import (
    Candidate,
    CascadeClassifier,
    CascadeSearchCV,
    Decisions,
    Evaluation,
    ScoredCandidate,
    ScoredFront,
    StageDesign,
    evaluate,
)
from emsco.core.scored_front import differences
from emsco.datasets import make_costly_classification
from emsco.exceptions import (
    ClassesError,
    ColumnsError,
    LabelsWarning,
    SelectionWarning,
    ValuesError,
)

pytestmark = pytest.mark.filterwarnings("ignore::emsco.exceptions.SelectionWarning")

ALL, CODES, COSTS = make_costly_classification(600, 3, class_sep=1.2, random_state=2)
LABELS = np.where(CODES == 1, "sick", "well")
X, Y = ALL[:240], LABELS[:240]
FRESH, TRUTH = ALL[240:], LABELS[240:]
SHARES = ("rejected", "missed", "recall", "precision")


def search_for(estimator=None, **params):
    small = {"costs": COSTS, "max_stages": 2, "cv": 2, "random_state": 0}
    return CascadeSearchCV(estimator, **(small | params))


@pytest.fixture(scope="module")
def searched():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SelectionWarning)
        return search_for().fit(X, Y)


@pytest.fixture(scope="module")
def scored(searched):
    return searched.score_front(FRESH, TRUTH)


def counted(e):
    """Count by class where there are rows of it."""
    classes = [label for label, rows in e.class_rows.items() if rows]
    by_class = [[c[label] for label in classes] for c in (e.class_accepted, e.class_right)]
    return [e.rows, e.accepted, e.right, classes, *by_class, round(e.paid, 6)]


def assert_decides_alike(search, scored, X, y, every=1):
    assert [s.candidate for s in scored] == list(search.front_)
    for one in scored[::every]:
        decisions = search.cascade(one.candidate).decide(X)
        assert counted(one.fresh) == counted(evaluate(decisions, y)), str(one.candidate)


def test_fresh_figures_are_those_of_deciding_with_each_cascade(searched, scored):
    assert_decides_alike(searched, scored, FRESH, TRUTH, every=9)


PARTS = PredefinedSplit(np.repeat([-1, 0], 120))


@pytest.mark.parametrize(
    ("estimator", "params"),
    [
        (LogisticRegression(), {}),
        (None, {"refit": False, "cv": PARTS}),
        (None, {"refit": False}),
        (None, {"threshold": [0.8, {"sick": 0.6, "well": 0.9}]}),
        (None, {"max_rows": 100, "threshold": 0.7}),
    ],
    ids=["estimator", "one split", "folds", "by class", "sample"],
)
def test_whatever_was_searched_is_held_against_fresh_rows(estimator, params):
    search = search_for(estimator, **params).fit(X, Y)
    scored = search.score_front(FRESH, TRUTH)
    assert_decides_alike(search, scored, FRESH, TRUTH, every=-(-len(scored) // 6))


def test_several_classes_are_held_against_fresh_rows():
    frame, labels, costs = make_costly_classification(300, 3, n_classes=3, random_state=0)
    search = search_for(costs=costs).fit(frame[:150], labels[:150])
    scored = search.score_front(frame[150:], labels[150:])
    assert_decides_alike(search, scored, frame[150:], labels[150:], every=-(-len(scored) // 6))


def test_rows_may_come_in_any_container(searched, scored):
    assert list(searched.score_front(pl.DataFrame(FRESH), pd.Series(TRUTH))) == list(scored)
    shuffled = FRESH[["s2", "s0", "s1"]].assign(extra="?")
    assert list(searched.score_front(shuffled, TRUTH)) == list(scored)
    unnamed = search_for(costs=[1, 2, 4]).fit(X.to_numpy(), Y)
    figures = [one.fresh for one in unnamed.score_front(FRESH.to_numpy(), list(TRUTH))]
    assert figures == [one.fresh for one in scored]


class Refuses:
    """A guard that refuses every row whose first value is large."""

    def fit(self, columns):
        pass

    def reasons(self, columns):
        first = next(iter(columns.values()))
        return np.where(first > 1, "large", "").astype(object)


def test_a_guard_counts_on_fresh_rows():
    search = search_for(guard=Refuses(), threshold=0.7).fit(X, Y)
    scored = search.score_front(FRESH, TRUTH)
    assert_decides_alike(search, scored, FRESH, TRUTH)
    plain = search_for(threshold=0.7).fit(X, Y).score_front(FRESH, TRUTH)
    assert scored[0].fresh.coverage < plain[0].fresh.coverage


def test_optimism_is_what_accuracy_loses(scored):
    for one in scored:
        assert one.selected == one.candidate.evaluation
        assert one.optimism == one.selected.accuracy - one.fresh.accuracy
        assert one.fresh.rows == len(TRUTH)
    assert np.mean([one.optimism for one in scored if one.fresh.accepted > 50]) > 0


def test_labels_that_fit_never_saw_are_warned_of_and_never_right(searched):
    with pytest.warns(LabelsWarning, match=r"'ill' \([\d,]+ rows\)"):
        scored = searched.score_front(FRESH, np.where(TRUTH == "sick", "ill", TRUTH))
    assert all(one.fresh.class_right["ill"] == 0 for one in scored)


def test_labels_may_stand_in_a_column(searched, scored):
    with pytest.warns(UserWarning, match="column-vector y"):
        assert list(searched.score_front(FRESH, TRUTH[:, None])) == list(scored)
    with pytest.raises(ValueError, match="1d array"):
        searched.score_front(FRESH, np.column_stack([TRUTH, TRUTH]))


def test_rows_and_labels_must_match(searched):
    with pytest.raises(ClassesError, match="X has 360 rows but `y` has 3"):
        searched.score_front(FRESH, TRUTH[:3])
    with pytest.raises(ColumnsError, match="lacks the column 's1'"):
        searched.score_front(FRESH.drop(columns="s1"), TRUTH)


@pytest.mark.parametrize(
    "estimator",
    [None, LogisticRegression(), HistGradientBoostingClassifier(max_iter=3, learning_rate=0.5)],
    ids=["default", "logistic", "trees"],
)
@pytest.mark.parametrize(("value", "told"), [(np.inf, "infinity"), (np.nan, "missing")])
def test_values_that_no_cascade_would_judge_are_refused(estimator, value, told):
    broken = FRESH.copy().reset_index(drop=True)
    broken.loc[17, "s1"] = value
    with threadpool_limits(1):
        search = search_for(estimator, threshold=0.6).fit(X, Y)
        with pytest.raises(ValuesError, match=f"Row 17 of column 's1' is {told}"):
            search.score_front(broken, TRUTH)


def test_missing_values_known_from_the_search_are_judged():
    frame = X.copy()
    frame.loc[:10, "s1"] = np.nan
    fresh = FRESH.copy()
    fresh.iloc[5, 1] = np.nan
    search = search_for(threshold=0.7).fit(frame, Y)
    assert_decides_alike(search, search.score_front(fresh, TRUTH), fresh, TRUTH)


def test_a_table_shows_both_figures_and_the_optimism(searched, scored):
    lines = repr(scored).splitlines()
    by_class = [f"{w} {c}" for c in ("sick", "well") for w in SHARES]
    for word in ("accuracy", "coverage", "cost", *by_class):
        assert f"{word} selected" in lines[0]
        assert f"{word} fresh" in lines[0]
    named = list(scored.to_frame())[2:]
    assert all(name.endswith((" selected", " fresh")) or name == "optimism" for name in named)
    assert lines[-1] == f"{searched.front_.measured_on} Fresh figures on 360 other rows."
    html = scored._repr_html_()
    assert "<th>optimism</th>" in html
    assert f"<caption>{lines[-1]}</caption>" in html


def test_a_frame_has_a_row_a_candidate(searched, scored):
    frame = scored.to_frame()
    assert len(frame) == len(searched.front_)
    assert frame["design"].tolist() == [str(c.design) for c in searched.front_]
    assert frame["accuracy selected"].tolist() == [c.evaluation.accuracy for c in searched.front_]
    for word in SHARES:
        for when in ("selected", "fresh"):
            shares = [getattr(getattr(one, when), word)["sick"] for one in scored]
            assert frame[f"{word} sick {when}"].tolist() == shares
    gap = frame["accuracy selected"] - frame["accuracy fresh"]
    assert np.allclose(frame["optimism"], gap)


def test_nothing_is_said_of_a_class_without_fresh_rows(searched):
    sick = TRUTH == "sick"
    frame = searched.score_front(FRESH[sick], TRUTH[sick]).to_frame()
    for word in SHARES:
        assert frame[f"{word} well fresh"].isna().all()
        assert frame[f"{word} sick fresh"].notna().all()
        assert frame[f"{word} well selected"].notna().all()


def test_precision_that_is_not_known_has_no_column():
    """An evaluation may not know it of three classes; fresh rows do."""
    counts = {"a": 3, "b": 3, "c": 4}
    selected = Evaluation(10, 10, 10, 10, counts, counts, counts)
    fresh = Evaluation(10, 10, 10, 10, counts, counts, counts, label_accepted=counts)
    scored = ScoredFront([ScoredCandidate(Candidate(StageDesign([0]), 0.5, selected), fresh)])
    named = list(scored.to_frame())
    assert "precision a selected" not in named
    assert "precision a fresh" in named


def test_an_empty_front_scores_as_nothing():
    search = search_for(threshold=1.0).fit(X, Y)
    assert len(search.front_) == 0
    assert repr(search.score_front(FRESH, TRUTH)) == "ScoredFront([])"


def test_it_is_a_sequence_without_a_search_too():
    candidate = Candidate(StageDesign([0, 1]), 0.8, Evaluation(10, 8, 7, paid=30))
    one = ScoredCandidate(candidate, Evaluation(20, 14, 10, paid=70))
    scored = ScoredFront([one, one], "On twenty rows.")
    assert len(scored) == 2
    assert scored[0] is scored[-1] is one
    assert list(scored[:1]) == [one]
    assert "On twenty rows." in repr(scored)
    assert one.optimism == pytest.approx(7 / 8 - 10 / 14)


def test_a_cascade_alone_decides_like_the_scored_front(scored):
    """Also without the search: the same design, fitted on the same rows."""
    one = scored[len(scored) // 2]
    alone = CascadeClassifier(
        design=one.candidate.design, costs=COSTS, threshold=one.candidate.threshold
    ).fit(X, Y)
    assert counted(evaluate(alone.decide(FRESH), TRUTH)) == counted(one.fresh)


# What differs from where a candidate was selected.


def drawn(n_rows, seed, *, right=0.9, accepted=0.8, sick=0.3, dear=0.5):
    """Draw decisions that are right, accepted and dear so often, and what is true."""
    rng = np.random.default_rng(seed)
    truth = np.where(rng.random(n_rows) < sick, "sick", "well")
    other = np.where(truth == "sick", "well", "sick")
    label = np.where(rng.random(n_rows) < right, truth, other)
    cost = np.where(rng.random(n_rows) < dear, 10.0, 1.0)
    is_accepted = rng.random(n_rows) < accepted
    return Decisions(label, is_accepted, np.zeros(n_rows), np.ones(n_rows), cost), truth


def different(before, after, **more):
    return differences(evaluate(*before), *after, **more)


def test_what_is_the_same_is_flagged_about_once_in_twenty():
    flagged = [
        (one.figure, one.label)
        for seed in range(400)
        for one in different(drawn(300, seed), drawn(500, 1000 + seed))
    ]
    figures = [("accuracy", None), ("coverage", None), ("cost", None)]
    figures += [(word, label) for word in SHARES for label in ("sick", "well")]
    for figure in figures:
        assert 5 <= flagged.count(figure) <= 36, f"{figure}: about 20 of 400"
    assert set(flagged) == set(figures)


@pytest.mark.parametrize(
    ("changed", "figure"),
    [
        ({"right": 0.7}, "accuracy"),
        ({"accepted": 0.6}, "coverage"),
        ({"dear": 0.8}, "cost"),
        ({"dear": 0.0}, "cost"),
    ],
)
def test_what_changed_is_flagged_with_both_figures(changed, figure):
    before, after = drawn(600, 0), drawn(600, 1, **changed)
    found = {(one.figure, one.label): one for one in different(before, after)}
    one = found[figure, None]
    assert one.selected == pytest.approx(getattr(evaluate(*before), figure))
    assert one.fresh == pytest.approx(getattr(evaluate(*after), figure))
    assert one.errors > 2
    assert f"{figure}: " in str(one)


def test_rows_counted_several_times_are_no_more_evidence():
    before, after = drawn(200, 3), drawn(5000, 1, right=0.84)
    e = evaluate(*before)
    by_class = [
        {label: count * 3 for label, count in counts.items()}
        for counts in (e.class_rows, e.class_accepted, e.class_right)
    ]
    thrice = Evaluation(e.rows * 3, e.accepted * 3, e.right * 3, e.paid * 3, *by_class)
    once = differences(e, *after)
    assert differences(thrice, *after, repeats=3.0) == once
    assert len(differences(thrice, *after)) > len(once)


def test_within_classes_nothing_is_flagged_for_other_shares_of_them():
    before, after = drawn(3000, 0, right=0.95), drawn(3000, 1, right=0.95, sick=0.9)
    assert any(one.figure == "precision" for one in different(before, after))
    assert {one.figure for one in different(before, after, within_classes=True)} <= {*SHARES[:3]}


def test_what_is_of_no_rows_is_not_compared():
    decisions, truth = drawn(50, 0)
    none = Decisions(decisions.label, np.zeros(50, bool), np.zeros(50), np.ones(50), decisions.cost)
    words = {
        (one.figure, one.label) for one in differences(evaluate(decisions, truth), none, truth)
    }
    assert ("coverage", None) in words
    assert not {word for word, _ in words} & {"accuracy", "recall", "precision"}
    assert differences(Evaluation(0, 0, 0, 0), none, truth) == []
