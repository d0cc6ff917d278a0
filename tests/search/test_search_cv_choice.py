"""What `CascadeSearchCV` chooses, what it fits for that, and what it warns of."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from searches import (
    COSTS,
    HALVES,
    RICH,
    RICH_X,
    RICH_Y,
    Counting,
    N,
    X,
    Y,
    alone,
    assert_is_by_hand,
    count_fits,
    counted,
    decided_by_hand,
    search_for,
    some_of,
)
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ShuffleSplit, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from emsco import (
    Candidate,
    CascadeClassifier,
    CascadeSearchCV,
    Costs,
    Evaluation,
    ParetoFront,
    Source,
    StageDesign,
    evaluate,
)
from emsco.datasets import make_costly_classification
from emsco.exceptions import CalibrationWarning, SelectionError, SelectionWarning
from emsco.search import default_rule
from emsco.search.default_rule import cheapest_as_good, select_as_asked

pytestmark = pytest.mark.filterwarnings("ignore::emsco.exceptions.SelectionWarning")

GAPS = (3, 2, 1, 1, 1)  # by how many standard deviations each column separates two classes


@pytest.fixture(scope="module")
def found():
    """One search that nothing changes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SelectionWarning)
        return search_for().fit(X, Y)


def test_what_to_choose_may_be_bounds_or_a_function(found):
    bounds = {"min_coverage": 0.6, "by": "accuracy"}
    assert search_for(select=bounds).fit(X, Y).best_candidate_ == found.front_.select(**bounds)
    dearest = search_for(select=lambda front: front[-1]).fit(X, Y)
    assert dearest.best_candidate_ == found.front_[-1]
    assert dearest.best_cascade_.design_ == found.front_[-1].design


def test_a_function_that_gives_no_candidate_is_refused():
    with pytest.raises(SelectionError, match="must return a Candidate, got 3"):
        search_for(select=lambda front: 3).fit(X, Y)  # noqa: ARG005


def test_bounds_that_cannot_be_met_leave_the_front_and_no_choice():
    search = search_for().fit(X, Y)
    search.set_params(select={"min_accuracy": 0.99, "min_coverage": 0.99})
    with pytest.raises(SelectionError, match="No candidate meets") as e:
        search.fit(X, Y)
    assert e.value.closest in search.front_
    for use in (search.summary, lambda: search.predict(X), lambda: search.decide(X)):
        with pytest.raises(NotFittedError, match=r"call choose\(\.\.\.\)"):
            use()
    assert not hasattr(search, "best_estimator_"), "no cascade of the front before"
    search.choose(e.value.closest)
    assert len(search.decide(X)) == N


def test_a_choice_that_fails_leaves_the_one_before():
    search = search_for(select={"min_coverage": 0.6}).fit(X, Y)
    best, decisions = search.best_candidate_, search.decide(X)
    with pytest.raises(SelectionError):
        search.choose(max_cost=-1)
    with pytest.raises(SelectionError, match="not both"):
        search.choose(best, max_cost=3)
    assert search.best_candidate_ is best
    assert list(search.decide(X)) == list(decisions)


def test_choosing_anew_fits_only_source_sets_not_yet_fitted():
    search = search_for(Counting(), threshold=[0.6, 0.75, 0.9])
    search.fit(X, Y)
    fitted = _sets_of(search.best_candidate_)
    for candidate in search.front_:
        fresh = _sets_of(candidate) - fitted
        assert count_fits(lambda chosen=candidate: search.choose(chosen)) == len(fresh)
        assert search.best_candidate_ is candidate
        assert search.best_estimator_.design_ == candidate.design
        fitted |= fresh
    assert count_fits(lambda: search.choose(min_accuracy=0.8)) == 0
    assert count_fits(lambda: search.cascade(search.front_[0])) == 0


def _sets_of(candidate):
    return {candidate.design.acquired(i) for i in range(candidate.design.n_stages)}


def test_choosing_without_bounds_is_choosing_as_the_search_was_told():
    search = search_for(select={"min_coverage": 0.9}).fit(X, Y)
    told = search.best_candidate_
    assert search.choose(max_cost=1).best_candidate_ != told
    assert search.choose().best_candidate_ == told


def test_any_candidate_has_its_cascade(found):
    for candidate in some_of(found.front_, 5):
        cascade = found.cascade(candidate)
        assert list(cascade.decide(X)) == list(alone(found, candidate).fit(X, Y).decide(X))
        assert cascade.n_features_in_ == 3
        assert cascade.feature_names_in_.tolist() == ["s0", "s1", "s2"]


def is_not_worse(m, r, n, right, u, x, z, slack):
    """Compare shares on the same rows, as the rule of the choice defines it."""
    if not m:
        return False
    a, b = r / m, right / n
    variance = a * (1 - a) / m + b * (1 - b) / n - 2 * (x - a * u) / (m * n)
    return a - b >= z * max(variance, (n + 2) ** -2) ** 0.5 - slack


def is_as_good(e, reference, z):
    """Say whether a candidate may be the default choice, one count at a time."""
    u, x = sum(e.class_reference.values()), sum(e.class_both.values())
    overall = is_not_worse(e.accepted, e.right, reference.rows, reference.right, u, x, z, 0.005)
    if e.coverage < 0.8 or not (overall or x == u):
        return False
    for c, n in reference.class_rows.items():
        u, x = e.class_reference[c], e.class_both[c]
        m, r, theirs = e.class_accepted[c], e.class_right[c], reference.class_right[c]
        good = is_not_worse(m, r, n, theirs, u, x, z, 0.01 if n >= 100 else 0)
        wherever = x == u and m >= n / 2 and m and r / m >= theirs / n
        if r < n / 10 or not (good or wherever):
            return False
        if rejects_too_much(e, c):
            return False
    return True


def rejects_too_much(e, c):
    """Say whether a class is rejected more than 5% and more than twice as often as all rows."""
    n = e.class_rows[c]
    away = n - e.class_accepted[c]
    p = (away + 1) / (n + 2)
    doubt = (p * (1 - p) / n) ** 0.5 if n < 20 else 0
    return away / n - doubt > max(0.05, 2 * (1 - e.coverage)) + 1e-9


@pytest.mark.parametrize("caution", ["auto", 0, 0.5, 3])
def test_by_default_the_cheapest_that_is_as_good_as_all_sources_is_chosen(caution):
    search = search_for(threshold=[0.55, 0.6, 0.7, 0.8], luck=True).fit(X, Y)
    found = search.choose(caution=caution)
    reference = found.all_sources_.evaluation
    assert reference.coverage == 1
    assert reference.cost == COSTS.total
    z = max(1, found.front_.luck) if caution == "auto" else caution
    good = [c.evaluation.cost for c in found.front_ if is_as_good(c.evaluation, reference, z)]
    if good:
        assert is_as_good(found.best_candidate_.evaluation, reference, z)
        assert found.best_candidate_.evaluation.cost == min(good)
    else:
        assert found.best_candidate_ == found.all_sources_
    assert found.choice_.rule.startswith("Rule: the cheapest of ")


def test_what_both_have_right_is_counted_row_by_row(found):
    splits = list(StratifiedKFold(3).split(X, Y))
    whole, truth = decided_by_hand(found, found.all_sources_, splits)
    for candidate in some_of(found.front_, 4):
        own, _ = decided_by_hand(found, candidate, splits)
        e = candidate.evaluation
        for label in ("sick", "well"):
            accepted = own.accepted & (truth == label)
            theirs = accepted & (whole.label == truth)
            assert e.class_reference[label] == theirs.sum()
            assert e.class_both[label] == (theirs & (own.label == truth)).sum()


def rejecting(rejected, labels, paid=1.0):
    """Make a candidate that is always right, and where all sources are right too."""
    accepted = {c: n - rejected[c] for c, n in labels.items()}
    e = Evaluation(
        sum(labels.values()), sum(accepted.values()), sum(accepted.values()), paid, labels,
        accepted, accepted, class_reference=accepted, class_both=accepted,
    )  # fmt: skip
    return Candidate(StageDesign([0, 1, -1], COSTS.names), 0.75, e)


def everything(labels):
    """Make all sources, which are always right too."""
    n_rows = sum(labels.values())
    whole = Evaluation(n_rows, n_rows, n_rows, 7.0 * n_rows, labels, labels, labels)
    return Candidate(StageDesign([0, 0, 0], COSTS.names), 0.5, whole)


@pytest.mark.parametrize(
    ("rare", "rejected", "is_fair"),
    [
        (100, {"rare": 5, "usual": 0}, True),  # 5%
        (100, {"rare": 6, "usual": 0}, False),  # 6% of it, and 0.6% of all rows
        (100, {"rare": 10, "usual": 40}, True),  # 10% of it, and 5% of all rows
        (100, {"rare": 11, "usual": 39}, False),
        (20, {"rare": 1, "usual": 0}, True),
        (20, {"rare": 2, "usual": 0}, False),
        (10, {"rare": 1, "usual": 0}, True),  # may be bad luck
        (10, {"rare": 2, "usual": 0}, False),
    ],
)
def test_the_default_rejects_no_more_of_a_class_than_is_fair(rare, rejected, is_fair):
    labels = {"rare": rare, "usual": 1000 - rare}
    one, whole = rejecting(rejected, labels), everything(labels)
    front = ParetoFront([one], COSTS)
    assert cheapest_as_good(front, whole, 0.0) == (one if is_fair else None)
    assert rejects_too_much(one.evaluation, "rare") != is_fair
    dearer = rejecting({"rare": 0, "usual": 0}, labels, paid=2.0)
    both = ParetoFront([one, dearer], COSTS)
    assert cheapest_as_good(both, whole, 0.0) == (one if is_fair else dearer)
    with pytest.warns(SelectionWarning):
        chosen = select_as_asked(None, front, whole, 400, {}, agreement=False)
    assert chosen.candidate == (one if is_fair else whole)


def test_a_rare_class_is_not_rejected_so_that_its_recall_looks_good(monkeypatch):
    """A cheap column recognises most rows; what it says of the rare class is seldom sure."""
    rng = np.random.default_rng(2)
    rare = rng.permutation(600) < 48
    table = pd.DataFrame({f"x{i}": a * rare + rng.normal(size=600) for i, a in enumerate(GAPS)})
    costs = dict(zip(table, (1, 2, 4, 8, 16), strict=True))
    search = CascadeSearchCV(costs=costs, cv=3, max_stages=2, luck=False, random_state=0)
    search.fit(table, np.where(rare, "rare", "usual"))
    fair = search.best_candidate_.evaluation
    assert fair.rejected["rare"] <= max(0.05, 2 * (1 - fair.coverage))
    assert fair.cost < sum(costs.values()) / 2
    monkeypatch.setattr(default_rule, "FAIR_REJECTION", 1.0)
    without = search.choose().best_candidate_.evaluation
    assert without.cost < fair.cost
    assert without.rejected["rare"] > 0.5
    assert without.rejected["usual"] < 0.15
    whole = search.all_sources_.evaluation
    assert without.recall["rare"] >= whole.recall["rare"], "as the other conditions ask"
    assert without.class_right["rare"] < whole.class_right["rare"] / 2, "of all its rows"


PAIR = {"rare": 60, "usual": 540}


def pair_candidate(accepted, right, paid, theirs=None, both=None, stage=0):
    """Make a candidate of two sources for 60 rare and 540 usual rows."""
    e = Evaluation(
        600, sum(accepted.values()), sum(right.values()), paid, PAIR, accepted, right,
        class_reference=theirs, class_both=both,
    )  # fmt: skip
    return Candidate(StageDesign([0, stage, -1], COSTS.names), 0.75, e)


WHOLE = pair_candidate(PAIR, {"rare": 20, "usual": 535}, 4200.0)


def test_rejecting_the_rows_that_all_sources_get_right_is_not_being_as_good():
    """All sources get 20 of 60 right; of the 8 accepted rows, they get none right."""
    accepted, right = {"rare": 8, "usual": 535}, {"rare": 0, "usual": 534}
    theirs, both = {"rare": 0, "usual": 533}, {"rare": 0, "usual": 533}
    avoids = pair_candidate(accepted, right, 600.0, theirs, both)
    assert cheapest_as_good(ParetoFront([avoids], COSTS), WHOLE, 1.0) is None
    # Half of the class is accepted, but with 4 of 30 right instead of 20 of 60.
    accepted, right = {"rare": 30, "usual": 535}, {"rare": 4, "usual": 534}
    theirs, both = {"rare": 4, "usual": 533}, {"rare": 4, "usual": 533}
    worse = pair_candidate(accepted, right, 600.0, theirs, both)
    assert cheapest_as_good(ParetoFront([worse], COSTS), WHOLE, 1.0) is None
    # As many right as all sources have, with the same recall.
    accepted, right = {"rare": 57, "usual": 535}, {"rare": 20, "usual": 534}
    theirs, both = {"rare": 20, "usual": 533}, {"rare": 20, "usual": 533}
    equal = pair_candidate(accepted, right, 600.0, theirs, both)
    assert cheapest_as_good(ParetoFront([worse, equal], COSTS), WHOLE, 1.0) == equal


def test_a_candidate_that_loses_a_class_is_never_the_default():
    """All sources lose the class too, and nothing is better than that."""
    whole = pair_candidate(PAIR, {"rare": 1, "usual": 540}, 4200.0)
    right = {"rare": 2, "usual": 540}
    loses = pair_candidate(PAIR, right, 600.0, {"rare": 1, "usual": 540}, {"rare": 1, "usual": 540})
    assert cheapest_as_good(ParetoFront([loses], COSTS), whole, 0.0) is None
    with pytest.warns(SelectionWarning) as caught:
        chosen = select_as_asked(
            None, ParetoFront([loses], COSTS), whole, 600, {}, agreement=False
        ).candidate
    assert chosen == whole
    said = [str(w.message) for w in caught]
    assert any("1 of 60 rows of class 'rare' right: it misses 98.3%" in one for one in said)
    assert any('label_weights="balanced", and search again' in one for one in said)


def test_a_choice_that_loses_a_class_says_which_and_what_to_ask_for():
    accepted, right = {"rare": 2, "usual": 540}, {"rare": 1, "usual": 540}
    front = ParetoFront([pair_candidate(accepted, right, 600.0)], COSTS)

    def chosen(**options):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            select_as_asked(options, front, WHOLE, 600, {}, agreement=False)
        return [str(w.message) for w in caught]

    (said,) = chosen(min_coverage=0.8, caution=0)
    assert "labels 1 of 60 rows of class 'rare' right: it misses 1.7% and rejects 96.7%" in said
    assert "All sources at once label 33.3% of it right" in said
    assert "max_rejected={'rare': 0.5} and max_missed={'rare': 0.67}" in said
    (said,) = chosen(max_missed={"rare": 0.1}, caution=0)
    assert "max_missed={'rare': 0.1} is met by rejecting the class" in said
    assert not chosen(by="accuracy", max_rejected={"rare": 0.99}, caution=0)[1:]


def test_a_perfect_cheap_column_is_the_default():
    """Both are always right: nothing can be shown to be better, and it costs a fraction."""
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=400)
    noise = rng.normal(size=(400, 2))
    table = pd.DataFrame({"leak": labels * 1.0, "a": noise[:, 0], "b": noise[:, 1]})
    search = CascadeSearchCV(costs={"leak": 1, "a": 4, "b": 4}, cv=3, max_stages=2)
    search.fit(table, labels)
    assert search.best_candidate_.design.stages == (("leak",),)
    assert search.best_candidate_.evaluation.cost == 1
    assert "is not worse than all sources at once" in search.choice_.rule


def test_where_nothing_is_as_good_all_sources_are_chosen_with_a_warning():
    with pytest.warns(SelectionWarning, match="all sources at once were chosen"):
        search = search_for(threshold=1.0).fit(X, Y)
    assert search.best_candidate_ == search.all_sources_
    decisions = search.decide(X)
    assert decisions.accepted.all()
    assert set(decisions.cost) == {COSTS.total}


def test_an_unknown_bound_answers_with_the_nearest(found):
    wrong = {"min_acuracy": 0.9}
    with pytest.raises(SelectionError, match="by 'min_acuracy'; did you mean 'min_accuracy'"):
        found.choose(**wrong)
    before_it_searches = search_for(select=wrong, callback=pytest.fail)
    with pytest.raises(SelectionError, match="min_accuracy"):
        before_it_searches.fit(X, Y)


def test_few_rows_are_warned_of_and_many_are_not():
    with pytest.warns(SelectionWarning, match="made on 240 rows, fewer than 500") as caught:
        search = search_for().fit(X, Y)
    assert len(caught) == 1
    assert caught[0].filename == __file__, "the line that asked, not one of ours"
    many, labels, costs = make_costly_classification(500, 2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search.choose(min_coverage=0.9)  # the user's own choice
        CascadeSearchCV(costs=costs, max_stages=2, threshold=0.6).fit(many, labels)
    with pytest.warns(SelectionWarning, match="made on 499 rows"):
        CascadeSearchCV(costs=costs, max_stages=2, threshold=0.6, max_rows=499).fit(many, labels)


def test_all_sources_with_a_reject_option_accept_the_surest_rows(found):
    whole = found.all_sources_at(1.0)
    assert counted(whole) == counted(found.all_sources_.evaluation)
    confidence, right = [], []
    for train, test in StratifiedKFold(3).split(X, Y):
        plain = CascadeClassifier(costs=COSTS).fit(X.iloc[train], Y[train])
        decisions = plain.decide(X.iloc[test])
        confidence.append(decisions.confidence)
        right.append(decisions.label == Y[test])
    surest = np.concatenate(right)[np.argsort(-np.concatenate(confidence))]
    for coverage in (0.0, 0.25, 0.8):
        evaluation = found.all_sources_at(coverage)
        assert evaluation.coverage == coverage
        assert evaluation.right == surest[: round(coverage * N)].sum()
        assert evaluation.cost == COSTS.total
    with pytest.raises(SelectionError, match="from 0 to 1, got 80"):
        found.all_sources_at(80)


def test_the_summary_says_what_matters():
    rich = search_for(costs=RICH, max_stages=3, cv=2).fit(RICH_X, RICH_Y)
    rich.choose(max_missed={"sick": 0.1}, min_coverage=0.7)
    text, best = rich.summary(), rich.best_candidate_
    for i, stage in enumerate(best.design.stages):
        paid = best.design.acquired(i - 1) if i else ()
        price = RICH.of(stage, paid=paid)
        assert f"stage {i}: buy {', '.join(stage)} for {price:.4g} EUR" in text
    for candidate in (best, rich.all_sources_):
        e = candidate.evaluation
        assert f"accepts {e.coverage:.1%}" in text
        assert f"right on {e.accuracy:.1%}" in text
        for label in ("sick", "well"):
            assert f"{e.missed[label]:.1%}" in text
            assert f"{e.rejected[label]:.1%}" in text
            assert f"{e.precision[label]:.1%}" in text
    assert "Buying all sources at once" in text
    assert rich.front_.measured_on in text
    rich.choose(max_cost=0)
    assert "never bought: blood, scan, ratio" in rich.summary()


# Fitted on all rows, or on those it was evaluated by.


@pytest.mark.parametrize("cv", [HALVES, ShuffleSplit(1, random_state=0)], ids=["predefined", "one"])
@pytest.mark.parametrize("estimator", [None, LogisticRegression()], ids=["default", "own"])
def test_without_a_refit_the_cascade_is_the_very_one_evaluated(cv, estimator):
    search = search_for(estimator, cv=cv, refit=False).fit(X, Y)
    ((train, test),) = cv.split(X)
    assert_is_by_hand(search, [(train, test)])
    for candidate in [search.best_candidate_, *some_of(search.front_, 5)]:
        decisions = search.choose(candidate).decide(X.iloc[test])
        assert counted(evaluate(decisions, Y[test])) == counted(candidate.evaluation)
        assert list(search.cascade(candidate).decide(X)) == list(search.decide(X))
    last = search.front_[-1]
    everything = alone(search, last).fit(X, Y)
    assert list(search.choose(last, refit=True).decide(X)) == list(everything.decide(X))


def test_without_a_refit_several_folds_leave_no_cascade_until_asked_for():
    search = search_for(refit=False).fit(X, Y)
    assert not hasattr(search, "best_cascade_")
    assert not hasattr(search, "best_estimator_")
    assert search.best_candidate_ in search.front_
    for use in (search.decide, search.predict, search.predict_proba):
        with pytest.raises(NotFittedError, match=r"refit=False with 3 .* choose\(refit=True\)"):
            use(X)
    assert len(search.choose(refit=True).predict(X)) == N
    search.choose()
    with pytest.raises(NotFittedError, match="refit=False"):
        search.predict(X)


# Whether confidences keep what they promise.

TWINS = pd.concat([X, X.add_suffix("'") + 0.1, X.add_suffix('"') * 2], axis=1)[
    ["s0", "s0'", 's0"', "s2", "s2'", 's2"']
]
TWIN_COSTS = Costs(
    [
        Source("one", features=list(TWINS)[:3], cost=1),
        Source("two", features=list(TWINS)[3:], cost=2),
    ]
)


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestClassifier(20, random_state=0),
        GaussianNB(),
        LogisticRegression(class_weight={"sick": 20, "well": 1}),
    ],
    ids=["forest", "bayes", "weighted"],
)
def test_an_overconfident_estimator_is_warned_of(estimator):
    search = CascadeSearchCV(estimator, costs=TWIN_COSTS, cv=3)
    name = type(estimator).__name__
    with pytest.warns(CalibrationWarning, match=f"{name} is overconfident.*CalibratedClassifierCV"):
        search.fit(TWINS, Y)


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        make_pipeline(StandardScaler(), LogisticRegression()),
        CalibratedClassifierCV(GaussianNB(), cv=3, ensemble=False),
        CalibratedClassifierCV(RandomForestClassifier(5, random_state=0), cv=2, ensemble=False),
    ],
    ids=["logistic", "pipeline", "calibrated bayes", "calibrated forest"],
)
def test_a_calibrated_estimator_is_not_warned_of(estimator):
    CascadeSearchCV(estimator, costs=TWIN_COSTS, cv=3).fit(TWINS, Y)


class Calibrated(ClassifierMixin, BaseEstimator):
    """Logistic regression under a name that is not trusted."""

    def fit(self, X, y):
        self.inner_ = LogisticRegression().fit(X, y)
        self.classes_ = self.inner_.classes_
        return self

    def predict_proba(self, X):
        return self.inner_.predict_proba(X)


@pytest.mark.parametrize("seed", [2, 12, 16])
def test_sources_that_say_the_same_are_no_further_evidence(seed):
    """A few unlucky rows, seen by every source, are still a few unlucky rows."""
    column, labels, _ = make_costly_classification(300, 1, random_state=seed)
    blur = np.random.default_rng(seed).normal(size=300)[:, None] * np.arange(4) / 100
    CascadeSearchCV(Calibrated(), cv=3, max_stages=1).fit(column.to_numpy() + blur, labels)


class Below:
    """A guard that refuses what lies below the lowest training value."""

    def fit(self, columns):
        self.lowest_ = {name: values.min() for name, values in columns.items()}

    def reasons(self, columns):
        low = np.any([columns[name] < self.lowest_[name] for name in columns], axis=0)
        return np.where(low, "out of range", "").astype(object)


def test_the_guard_watches_over_the_chosen_cascade():
    search = search_for(guard=Below(), select={"min_coverage": 0.9}).fit(X, Y)
    assert (search.decide(X - 100).reason == "out of range").all()
    assert not (search.decide(X).reason == "out of range").any()
