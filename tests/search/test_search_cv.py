"""`CascadeSearchCV` finds the front that cross-validation by hand finds, whatever it is given."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from searches import (
    COSTS,
    HALVES,
    N_SETS,
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
    search_for,
    some_of,
)
from sklearn.datasets import load_iris
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GroupKFold,
    PredefinedSplit,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from emsco import (
    EMSCO,
    CascadeSearchCV,
    Costs,
    Exhaustive,
    LocalEngine,
    LocalSearch,
    Source,
    evaluate,
)
from emsco.datasets import load_cleveland, load_nslkdd, make_costly_classification
from emsco.exceptions import (
    CalibrationWarning,
    ClassesError,
    ColumnsError,
    SearchError,
    SelectionError,
    SelectionWarning,
    ThresholdError,
    ValuesError,
)
from emsco.search._thresholds import alternatives

pytestmark = pytest.mark.filterwarnings("ignore::emsco.exceptions.SelectionWarning")


@pytest.fixture(scope="module")
def found():
    """One search that nothing changes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SelectionWarning)
        return search_for().fit(X, Y)


# Which rows count, and what they say.

SPLITTERS = {
    "int": (3, N),
    "time": (TimeSeriesSplit(3), N * 3 // 4),  # the first quarter is never tested
    "groups": (GroupKFold(4), N),
    "repeated": (RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0), 2 * N),
    "predefined": (HALVES, N // 2),
    "once": (ShuffleSplit(1, test_size=0.25, random_state=3), N // 4),
    "iterable": (
        [(np.arange(100), np.arange(150, 200)), (np.arange(50, 240), np.arange(10, 40))],
        80,
    ),
}


@pytest.mark.parametrize("name", SPLITTERS)
def test_the_front_is_what_cross_validation_by_hand_gives(name):
    cv, n_rows = SPLITTERS[name]
    groups = np.arange(N) // 8 if name == "groups" else None
    search = search_for(cv=cv).fit(X, Y, groups=groups)
    splitter = StratifiedKFold(cv) if name == "int" else cv
    splits = cv if name == "iterable" else list(splitter.split(X, Y, groups))
    assert {c.evaluation.rows for c in search.front_} == {n_rows}
    assert search.n_splits_ == len(splits)
    assert_is_by_hand(search, splits)
    told = len(np.unique(np.concatenate([test for _, test in splits])))
    assert f"Selected on {told} held-out rows" in search.front_.measured_on


def test_a_group_is_never_on_both_sides():
    """Four rows of a group are the same, and nothing else tells its label: only leaks know it."""
    rng = np.random.default_rng(0)
    twins = np.repeat(rng.normal(size=(60, 2)), 4, axis=0)
    labels = np.repeat(rng.permutation(60) % 2, 4)
    forest = RandomForestClassifier(5, random_state=0)

    def accuracy(cv, groups=None):
        search = CascadeSearchCV(forest, cv=cv, max_stages=1, threshold=0.51)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            search.fit(twins, labels, groups=groups)
        return search.all_sources_.evaluation.accuracy

    assert accuracy(StratifiedKFold(3, shuffle=True, random_state=0)) > 0.9
    assert accuracy(GroupKFold(3), np.repeat(np.arange(60), 4)) < 0.7


def test_a_class_missing_from_a_training_fold_is_named():
    with pytest.raises(ClassesError, match="fold 0 has no row of the class 'well'"):
        search_for(cv=TimeSeriesSplit(3)).fit(X, np.sort(Y))


def test_folds_without_rows_are_refused():
    with pytest.raises(SearchError, match="leaves no rows"):
        search_for(cv=[(np.arange(N), [])]).fit(X, Y)


@pytest.mark.parametrize("most", [100, N - 1])
def test_a_sample_is_searched_but_everything_is_fitted(most):
    search = search_for(max_rows=most).fit(X, Y)
    assert {c.evaluation.rows for c in search.front_} == {most}
    assert abs(search.front_[0].evaluation.class_rows["sick"] - most / 2) <= 1
    expected = alone(search, search.best_candidate_).fit(X, Y).decide(X)
    assert list(search.decide(X)) == list(search.best_cascade_.decide(X)) == list(expected)


def test_a_sample_as_large_as_the_table_is_the_table(found):
    assert search_for(max_rows=N).fit(X, Y).front_ == found.front_


def test_a_sample_too_small_for_every_class_is_refused():
    labels = np.where(np.arange(N) < 3, "rare", Y)
    with pytest.raises(ClassesError, match="max_rows=8 leaves no row of the class 'rare'"):
        search_for(max_rows=8).fit(X, labels)


# What sources cost.


def test_prices_may_be_stated_in_any_way(found, tmp_path):
    COSTS.to_toml(tmp_path / "costs.toml")
    ways = [
        {"s0": 1, "s1": 2, "s2": 4},
        [1, 2, 4],
        np.array([1.0, 2.0, 4.0]),
        str(tmp_path / "costs.toml"),
        tmp_path / "costs.toml",
    ]
    for costs in ways:
        search = search_for(costs=costs).fit(X, Y)
        assert search.costs_ == COSTS
        assert search.front_ == found.front_
        assert search.best_candidate_ == found.best_candidate_


@pytest.fixture(scope="module")
def rich():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SelectionWarning)
        return search_for(costs=RICH, max_stages=3).fit(RICH_X, RICH_Y)


def test_setups_requirements_free_sources_and_latencies_count(rich, tmp_path):
    splits = StratifiedKFold(3).split(RICH_X, RICH_Y)
    assert_is_by_hand(rich, splits, RICH_X, RICH_Y)
    for candidate in rich.front_:
        for stage in range(candidate.design.n_stages):
            assert RICH.unmet(candidate.design.acquired(stage)) == ()
    assert rich.front_[0].evaluation.cost == 0, "what is free is free"
    RICH.to_toml(tmp_path / "costs.toml")
    again = search_for(costs=tmp_path / "costs.toml", max_stages=3).fit(RICH_X, RICH_Y)
    assert again.front_ == rich.front_


@pytest.mark.parametrize("error_cost", [5, 100, {"sick": 200, "well": 5}])
def test_the_least_loss_is_chosen_where_review_and_errors_have_prices(rich, error_cost):
    losses = [
        c.evaluation.loss(review=RICH.review, error_cost=error_cost) for c in rich.front_
    ]  # fmt: skip
    rich.choose(by="loss", error_cost=error_cost)
    assert rich.front_.index(rich.best_candidate_) == np.argmin(losses)


def test_nobody_waits_longer_than_allowed(rich):
    rich.choose(by="accuracy", min_coverage=0.5)
    assert rich.decide(RICH_X).latency.max() >= 5
    rich.choose(by="accuracy", min_coverage=0.5, max_latency=2)
    assert rich.best_candidate_.evaluation.worst_latency == 2
    assert rich.decide(RICH_X).latency.max() == 2


def test_sources_that_are_all_free_are_searched_too():
    search = search_for(costs=[0, 0, 0]).fit(X, Y)
    assert {c.evaluation.cost for c in search.front_} == {0}
    assert "per row, accepts" in search.summary()


def test_prices_that_do_not_fit_the_columns_are_refused():
    with pytest.raises(ColumnsError, match="not in X: 'x9'"):
        search_for(costs={"s0": 1, "s1": 2, "x9": 3}).fit(X, Y)


def test_five_hundred_columns_of_twelve_sources_are_searched_exactly():
    """Six narrow sources and six wide ones, each wide one fetched by way of the one before."""
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 2
    wide = labels[:, None] * 0.3 + rng.normal(size=(60, 500))
    names = [f"x{i}" for i in range(500)]
    narrow = [Source(f"n{i}", features=names[2 * i : 2 * i + 2], cost=1 + i) for i in range(6)]
    pages = np.array_split(names[12:], 6)
    deep = [
        Source(f"w{i}", features=page.tolist(), cost=10, requires=[f"w{i - 1}"] if i else [])
        for i, page in enumerate(pages)
    ]
    cv = PredefinedSplit(np.repeat([-1, 0], 30))
    search = CascadeSearchCV(costs=Costs(narrow + deep), cv=cv, max_stages=2).fit(wide, labels)
    assert isinstance(search.search_, Exhaustive)
    assert search.history_[-1]["source_sets"] == 2**6 * 7 - 1
    frame = pd.DataFrame(wide, columns=names)
    assert_is_by_hand(search, cv.split(wide), frame, labels, most=3)


# Thresholds.


@pytest.mark.parametrize(
    "threshold",
    [0.8, {"sick": 0.6, "well": 0.95}, [0.7, {"sick": 0.6, "well": 0.95}, 0.9]],
    ids=["number", "by class", "alternatives"],
)
def test_candidates_carry_the_thresholds_that_were_given(threshold):
    search = search_for(threshold=threshold).fit(X, Y)
    given = threshold if isinstance(threshold, list) else [threshold]
    carried = [candidate.threshold for candidate in search.front_]
    assert all(own in given for own in carried)
    assert len(set(carried)) >= min(len(given), 2)
    assert_is_by_hand(search, StratifiedKFold(3).split(X, Y))


def test_every_stage_has_its_own_threshold_and_nothing_is_lost_by_that(found):
    grid = alternatives("auto", 2)
    shared = search_for(threshold=grid).fit(X, Y).front_
    own = found.front_
    assert any(isinstance(candidate.threshold, tuple) for candidate in own)
    assert list(own.merge(shared)) == list(own)
    assert own.hypervolume() > shared.hypervolume()
    assert all(t in grid for c in own if isinstance(c.threshold, tuple) for t in c.threshold)


@pytest.mark.parametrize("base_rate", [0.5, 0.8, 0.84])
def test_a_common_class_of_a_usual_size_leaves_the_grid_as_it_is(base_rate):
    for classes in (2, 3):
        assert alternatives("auto", classes, base_rate=base_rate) == alternatives("auto", classes)


@pytest.mark.parametrize("base_rate", [0.93, 0.992, 0.9999])
def test_a_rare_class_is_searched_above_the_share_of_the_common_one(base_rate):
    plain, grid = alternatives("auto", 2), alternatives("auto", 2, base_rate=base_rate)
    assert grid[: len(plain)] == plain
    assert grid == sorted(set(grid))
    assert grid[-1] == pytest.approx(1 - (1 - base_rate) / 16, abs=1e-4)
    assert max(base_rate, 0.99) < grid[len(plain)] < grid[-1] < 1


def test_a_search_takes_the_share_of_its_own_rows():
    rare = np.where(np.arange(N) % 40 == 0, "sick", "well")
    search = search_for(cv=2).fit(X, rare)
    assert max(search.found_.spec.problem(search.found_.stages).thresholds) == 0.99844


@pytest.mark.parametrize("threshold", [0.8, [0.6, 0.7, 0.8, 0.9], "auto"], ids=str)
def test_thresholds_cost_no_fits(threshold):
    search = search_for(Counting(), threshold=threshold, refit=False)
    assert count_fits(lambda: search.fit(X, Y)) == N_SETS * 3


@pytest.mark.parametrize(
    ("threshold", "message"),
    [
        ("high", "'auto'; got 'high'"),
        ([], "at least one alternative"),
        ([(0.7, 0.8)], "every stage alike"),
        (0.5, "above 1 / 2 classes"),
        ({"sick": 0.9}, "missing: 'well'"),
        (True, "number above 0"),
    ],
)
def test_thresholds_that_cannot_be_are_refused(threshold, message):
    with pytest.raises(ThresholdError, match=message):
        search_for(threshold=threshold).fit(X, Y)


# Limits on what is missed and on what is rejected.


def test_no_candidate_misses_more_than_allowed(found):
    limits = {"sick": 0.02, "well": 0.1}
    assert any(c.evaluation.missed["sick"] > 0.02 for c in found.front_)
    search = search_for(max_missed=limits, select={"by": "coverage"}).fit(X, Y)
    for candidate in search.front_:
        assert all(candidate.evaluation.missed[label] <= most for label, most in limits.items())
    kept = [c for c in found.front_ if all(c.evaluation.missed[m] <= limits[m] for m in limits)]
    assert kept
    assert set(kept) <= set(search.front_), "what keeps to the limits anyway stays"


REJECTED = {"sick": 0.1, "well": 0.3}


def rejects_no_more(candidate):
    """Say whether a candidate accepts as much of each class as it has to."""
    e = candidate.evaluation
    return all(
        e.class_rows[label] - e.class_accepted[label] <= most * e.class_rows[label]
        for label, most in REJECTED.items()
    )


@pytest.mark.parametrize("search", [None, LocalSearch(evaluations=500), EMSCO(generations=5)])
def test_no_candidate_rejects_more_than_allowed(found, search):
    assert not all(map(rejects_no_more, found.front_))
    any_of_it = {"by": "accuracy"}
    limited = search_for(max_rejected=REJECTED, search=search, select=any_of_it).fit(X, Y)
    assert len(limited.front_)
    assert all(map(rejects_no_more, limited.front_))


def test_what_rejects_no_more_than_allowed_anyway_stays():
    limited, free = (
        search_for(max_rejected=most, threshold=[0.6, 0.8], select={"by": "accuracy"})
        .fit(X, Y)
        .front_
        for most in (REJECTED, None)
    )
    kept = {candidate for candidate in free if rejects_no_more(candidate)}
    assert 0 < len(kept) < len(free)
    assert kept <= set(limited)


@pytest.mark.parametrize("select", [None, {"by": "accuracy"}, lambda front: front[0]])
def test_limits_that_no_design_keeps_are_refused_with_advice(select):
    strict = search_for(max_missed={"sick": 0, "well": 0}, threshold=0.501, select=select)
    with pytest.raises(SelectionError, match=r"within max_missed=.* other thresholds"):
        strict.fit(X, Y)


def test_limits_that_leave_nothing_as_good_are_refused_with_advice():
    strict = search_for(max_missed={"sick": 0.0})
    told = r"accepts 80% of the rows .* allow larger shares, or relax something else with select="
    with pytest.raises(SelectionError, match=told):
        strict.fit(X, Y)
    assert len(strict.front_), "the front is there to choose from"
    assert strict.choose(by="accuracy").decide(X).accepted.any()


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"sik": 0.1}, "'sik', which is not a class; did you mean 'sick'"),
        ({"sick": 1.5}, "from 0 to 1, got 1.5"),
        ({"sick": "few"}, "from 0 to 1, got 'few'"),
    ],
)
@pytest.mark.parametrize("name", ["max_missed", "max_rejected"])
def test_limits_that_cannot_be_are_refused(name, shares, message):
    with pytest.raises(SearchError, match=f"`{name}` .*{message}"):
        search_for(**{name: shares}).fit(X, Y)


# Whatever users bring.


PIPELINE = make_pipeline(StandardScaler(), LogisticRegression())


@pytest.mark.parametrize("estimator", [None, PIPELINE], ids=["default", "pipeline"])
def test_several_classes_are_searched(estimator):
    iris = load_iris(as_frame=True)
    labels = iris.target_names[iris.target]
    frame = iris.data.set_axis(["sl", "sw", "pl", "pw"], axis=1)
    costs = Costs([Source("sepal", features=["sl", "sw"], cost=1), Source("pl", cost=2),
                   Source("pw", cost=2)])  # fmt: skip
    search = search_for(estimator, costs=costs).fit(frame, labels)
    assert search.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    assert_is_by_hand(search, StratifiedKFold(3).split(frame, labels), frame, labels, most=4)
    assert (search.predict(frame) == labels).mean() > 0.9
    assert np.allclose(search.predict_proba(frame).sum(axis=1), 1)


def test_boosted_trees_are_searched():
    trees = HistGradientBoostingClassifier(max_iter=5, learning_rate=0.4)
    costs = Costs([Source("s0", cost=1), Source("rest", features=["s1", "s2"], cost=6)])
    with threadpool_limits(1):
        search = search_for(trees, costs=costs, cv=2).fit(X, Y)
        assert_is_by_hand(search, StratifiedKFold(2).split(X, Y))


@pytest.mark.parametrize(
    "estimator", [None, HistGradientBoostingClassifier(max_iter=3)], ids=["default", "trees"]
)
@pytest.mark.parametrize("labels", [Y, np.arange(N) % 3], ids=["two", "three"])
def test_missing_values_may_fall_into_one_fold_only(estimator, labels):
    frame = X.copy()
    frame.loc[:20, "s1"] = np.nan  # no training row of the first fold knows of them
    for cv in (2, PredefinedSplit(np.repeat([0, -1], N // 2))):
        with threadpool_limits(1):
            search = search_for(estimator, cv=cv, refit=cv == 2).fit(frame, labels)
            assert search.front_[0].evaluation.rows == (N if cv == 2 else N // 2)
            for candidate in some_of(search.front_, 3):
                assert len(search.cascade(candidate).decide(frame)) == N


def test_every_container_gives_the_same_front(found):
    assert search_for().fit(pl.DataFrame(X), Y).front_ == found.front_
    by_position = search_for(costs=[1, 2, 4]).fit(X.to_numpy(), Y)
    assert [c.evaluation for c in by_position.front_] == [c.evaluation for c in found.front_]
    assert search_for().fit(X, pd.Series(Y)).front_ == found.front_
    own = search_for(LogisticRegression())
    assert own.fit(pl.DataFrame(X), Y).front_ == own.fit(X, Y).front_


def test_cleveland_is_searched_with_its_setups_and_missing_cells(data_folder):
    frame, labels, costs = load_cleveland(data_folder)
    assert frame.isna().to_numpy().sum() == 6
    search = CascadeSearchCV(
        costs=costs, cv=3, max_stages=2, threshold=[0.6, 0.75], max_missed={"sick": 0.15}
    ).fit(frame, labels)
    assert isinstance(search.search_, Exhaustive)
    chosen = search.best_candidate_.evaluation
    assert chosen.accuracy >= search.all_sources_.evaluation.accuracy
    assert chosen.cost < 0.5 * costs.total


def test_text_columns_are_searched_as_they_are(data_folder):
    frame, labels, costs = load_nslkdd(data_folder)
    assert sum(not pd.api.types.is_numeric_dtype(frame[c]) for c in frame) == 3
    search = CascadeSearchCV(costs=costs, cv=2, max_stages=2, max_rows=300, random_state=0)
    search.fit(frame[:2000], labels[:2000])
    fresh = evaluate(search.decide(frame[2000:4000]), labels[2000:4000])
    assert search.front_[0].evaluation.rows == 300
    assert fresh.accuracy > 0.9
    assert fresh.cost < 0.5 * costs.total


def test_infinity_is_refused_by_name_before_any_fit():
    broken = X.copy()
    broken.loc[3, "s1"] = np.inf
    for estimator in (None, Counting()):
        Counting.fits = 0
        with pytest.raises(ValuesError, match="Row 3 of column 's1' is infinity"):
            search_for(estimator).fit(broken, Y)
        assert not Counting.fits


def test_what_is_not_fitted_says_so():
    for use in ("decide", "predict", "predict_proba", "score_front", "all_sources_at", "cascade"):
        with pytest.raises(NotFittedError):
            getattr(search_for(), use)(*[X, Y][: 2 if use == "score_front" else 1])
    for use in ("summary", "choose"):
        with pytest.raises(NotFittedError):
            getattr(search_for(), use)()


# How it goes, and that it goes the same way again.


def test_progress_is_told_in_order():
    told = []
    search_for(callback=told.append, max_stages=3, luck=True).fit(X, Y)
    phases = list(dict.fromkeys(state["phase"] for state in told))
    assert phases == ["read", "fit", "search", "thresholds", "luck", "refit", "done"]
    for what in ("source_sets", "designs", "seconds"):
        values = [state[what] for state in told]
        assert values == sorted(values)
    assert told[-1]["source_sets"] == N_SETS
    assert told[-1]["designs"] > 0
    assert told[-1]["hypervolume"] > 0
    assert all(0 <= state["done"] <= 1 for state in told)


@pytest.mark.parametrize("phase", ["fit", "search", "thresholds"])
def test_what_a_callback_raises_stops_the_search(phase):
    class EnoughError(Exception):
        pass

    def stop(state):
        if state["phase"] == phase:
            raise EnoughError

    with pytest.raises(EnoughError):
        search_for(callback=stop).fit(X, Y)


def test_a_verbose_search_tells_of_itself_on_standard_error(capsys):
    search_for(verbose=1, threshold=0.8).fit(X, Y)
    printed = capsys.readouterr()
    assert "emsco: done" in printed.err
    assert "7 source sets" in printed.err
    assert not printed.out
    search_for(threshold=0.8).fit(X, Y)
    assert not capsys.readouterr().err


WIDE, WIDE_Y, WIDE_COSTS = make_costly_classification(120, 8, random_state=0)


def wide_search(seed=0, **params):
    search = LocalSearch(400, fits=60)
    return CascadeSearchCV(
        costs=WIDE_COSTS, search=search, cv=2, max_rows=100, random_state=seed, **params
    ).fit(WIDE, WIDE_Y)


def test_the_same_seed_gives_the_same_front_and_choice():
    one, again, other = wide_search(), wide_search(), wide_search(seed=1)
    assert one.front_ == again.front_
    assert one.best_candidate_ == again.best_candidate_
    assert one.front_ != other.front_
    drawn = wide_search(np.random.RandomState(0))
    assert drawn.front_ == one.front_


def test_workers_change_nothing():
    assert wide_search(n_jobs=2).front_ == wide_search(n_jobs=1).front_
    one, two = (
        search_for(LogisticRegression(), n_jobs=n_jobs).fit(X, Y) for n_jobs in (1, 2)
    )  # fmt: skip
    assert one.front_ == two.front_


class Counted(LocalEngine):
    """An engine that counts what it runs."""

    chunks = 0

    def map(self, function, chunks, *, shared=None):
        type(self).chunks += len(chunks)
        return super().map(function, chunks, shared=shared)


def test_the_engine_given_runs_the_fits(found):
    search = search_for(engine=Counted()).fit(X, Y)
    assert Counted.chunks > 0
    assert search.front_ == found.front_
    before = Counted.chunks
    search.score_front(X, Y)
    assert Counted.chunks > before


class Uncounted:
    """An engine that does not say how many workers it has."""

    def map(self, function, chunks, *, shared=None):
        return [function(chunk, shared) for chunk in chunks]


class Idle:
    """Workers, and no way to give them work."""

    n_workers = 2


@pytest.mark.parametrize(("engine", "lacking"), [(Uncounted(), "n_workers"), (Idle(), "map")])
def test_an_engine_that_is_none_is_refused_by_what_it_lacks(engine, lacking):
    name = type(engine).__name__
    with pytest.raises(SearchError, match=rf"The engine {name} has no {lacking}; an Engine has"):
        search_for(engine=engine).fit(X, Y)


def test_the_search_given_is_run():
    search = wide_search()
    assert search.search_ == LocalSearch(400, fits=60)
    assert search.history_[-1]["source_sets"] <= 60 + 512
    assert isinstance(search_for().fit(X, Y).search_, Exhaustive)


def test_all_sources_may_have_to_be_used():
    search = search_for(allow_unused=False, max_stages=9).fit(X, Y)
    assert all(not candidate.design.unused for candidate in search.front_)
    assert max(candidate.design.n_stages for candidate in search.front_) == 3
