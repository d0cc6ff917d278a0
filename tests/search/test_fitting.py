"""Many source sets fitted at once give what separate fits give."""

from __future__ import annotations

import pickle
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from problems import make_fitter
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from emsco.exceptions import ClassesError, ValuesError
from emsco.learners._logistic_loss import Loss, make_rows
from emsco.learners._newton import fit_sets
from emsco.learners.batched_logistic import BatchedLogistic
from emsco.learners.logistic import default_estimator
from emsco.learners.protocol import Fold
from emsco.rows.columns import assemble, read_columns
from emsco.rows.encoding import learn, read

# File, and features a source.
TABLES = [
    ("pima.csv", 1),
    ("credit.csv", 1),
    ("heart.csv", 1),
    ("spambase.csv", 4),
    ("heart_cleveland.csv", 1),
    ("thyroid_train.csv", 1),
    ("hepatitis.csv", 1),
    ("magic.csv", 1),
    ("phishing.csv.gz", 6),
    ("covtype.csv.gz", 4),
    ("kddcup99_dedup.csv.gz", 3),
    ("nslkdd_train20.csv.gz", 3),
    ("emsco_example_train.csv", 1),
]
SEVERAL = 1e-6  # how far from the optimum scikit-learn may stop with more than two classes
SEVERAL_CLASSES = pytest.mark.parametrize("n_classes", [2, 3, 7])


def halves(n_rows):
    """Split rows into two halves, the first to fit on."""
    return [Fold(np.arange(n_rows // 2), np.arange(n_rows // 2, n_rows))]


def random_sets(n_sets, n_sources, seed=0):
    """Draw sets of all sizes, and the one of all sources."""
    rng = np.random.default_rng(seed)
    sets = rng.random((n_sets, n_sources)) < rng.random((n_sets, 1))
    sets[np.arange(n_sets), rng.integers(n_sources, size=n_sets)] = True
    sets[0] = True
    return sets


def separate(columns, y, folds, source_features, sets, weight=None):
    """Fit the default classifier one set and one fold at a time; sets x rows x classes."""
    return np.array(
        [
            np.concatenate([one(columns, y, fold, source_features, s, weight) for fold in folds])
            for s in sets
        ]
    )


def one(columns, y, fold, source_features, members, weight):
    chosen = {f for i in np.flatnonzero(members) for f in source_features[i]}
    weight = np.ones(len(y)) if weight is None else weight
    train, test = [], []
    for name in [name for name in columns if name in chosen]:
        encoding = learn(columns[name][fold.train], name, weight[fold.train])
        for rows, blocks in ((fold.train, train), (fold.test, test)):
            blocks.append(encoding.encode(read(encoding, columns[name][rows], name)))
    estimator = default_estimator()
    estimator.fit(np.hstack(train), y[fold.train], sample_weight=weight[fold.train])
    return estimator.predict_proba(np.hstack(test))


def assert_same(outcomes, probability, tolerance):
    confidence, label = outcomes
    assert confidence.dtype == np.float64
    assert label.dtype == np.uint8
    assert np.abs(confidence - probability.max(axis=2)).max() < tolerance
    first, second = np.sort(probability, axis=2)[..., ::-1][..., :2].transpose(2, 0, 1)
    clear = first - second > tolerance
    assert np.array_equal(label[clear], probability.argmax(axis=2)[clear])


def check(X, y, sets=None, weight=None, tolerance=None):
    """Compare every set (all of them by default) of single columns with separate fits."""
    columns = read_columns(X, [f"x{i}" for i in range(X.shape[1])])
    sources = [[name] for name in columns]
    if sets is None:
        masks = np.arange(1, 2 ** len(sources))
        sets = (masks[:, None] >> np.arange(len(sources)) & 1).astype(bool)
    folds = halves(len(y))
    params = {} if weight is None else {"sample_weight": weight}
    fitter = make_fitter(None, columns, "array", y, folds, sources, params)
    outcomes = fitter.outcomes(sets)
    tolerance = tolerance or (1e-9 if len(np.unique(y)) == 2 else SEVERAL)
    assert_same(outcomes, separate(columns, y, folds, sources, sets, weight), tolerance)
    return outcomes


def cut(score, n_classes):
    """Cut a score into classes of about as many rows."""
    return np.digitize(score, np.quantile(score, np.arange(1, n_classes) / n_classes))


def normal_table(n_rows=200, n_columns=4, seed=0, n_classes=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_columns))
    return X, cut(X.sum(axis=1) + rng.normal(size=n_rows), n_classes)


@pytest.mark.parametrize(("file", "features_each"), TABLES)
def test_real_tables(data_folder, file, features_each):
    """Probabilities are those of the separate fits, with text and missing values as they are."""
    frame = pd.read_csv(data_folder / file, nrows=60_000).sample(frac=1, random_state=0)[:2000]
    labels = frame.pop("label")
    y = (labels == 3 if file.startswith("thyroid") else labels).to_numpy().astype(int)
    columns = read_columns(frame, list(frame))
    names = list(columns)
    sources = [names[i : i + features_each] for i in range(0, len(names), features_each)]
    sets = random_sets(12, len(sources))
    # Every row is trained on, so that missing values are known; some of them are evaluated.
    folds = [Fold(np.arange(len(y)), np.arange(0, len(y), 4))]
    fitter = make_fitter(None, columns, "pandas", y, folds, sources)
    assert isinstance(fitter, BatchedLogistic)
    expected = separate(columns, y, folds, sources, sets)
    assert_same(fitter.outcomes(sets), expected, 1e-8)


@pytest.mark.parametrize("features_each", [1, 7])
def test_three_classes(data_folder, features_each):
    """More classes than two are fitted in batches too."""
    frame = pd.read_csv(data_folder / "thyroid_train.csv").sample(frac=1, random_state=0)[:1000]
    y = frame.pop("label").to_numpy() - 1
    columns = read_columns(frame, list(frame))
    sources = [list(columns)[i : i + features_each] for i in range(0, 21, features_each)]
    sets = random_sets(40, len(sources))
    folds = [Fold(np.arange(600), np.arange(600, 1000))]
    fitter = make_fitter(None, columns, "pandas", y, folds, sources)
    assert isinstance(fitter, BatchedLogistic)
    expected = separate(columns, y, folds, sources, sets)
    assert_same(fitter.outcomes(sets), expected, SEVERAL)


@SEVERAL_CLASSES
def test_separable_columns(n_classes):
    """Columns that tell the classes apart, alone or together, by a little or by far."""
    rng = np.random.default_rng(0)
    y = np.arange(280) % n_classes
    X = rng.normal(size=(280, 5))
    X[:, 0] += 20 * y
    X[:, 1] = np.where(y == 1, 1e-3, -1e-3) * (1 + rng.random(280))
    X[:, 2] = y
    X[:, 3] = 1000 * y + rng.exponential(size=280) ** 5
    check(X, y)


@SEVERAL_CLASSES
def test_collinear_duplicated_and_constant_columns(n_classes):
    X, y = normal_table(n_columns=3, n_classes=n_classes)
    X = np.column_stack([X, X[:, 0], X[:, 0] + X[:, 1], np.full(200, 7.0), -X[:, 2]])
    check(X, y)


@SEVERAL_CLASSES
def test_heavy_tails(n_classes):
    """Values many deviations away make plain Newton steps overshoot."""
    rng = np.random.default_rng(0)
    X = rng.standard_cauchy(size=(1000, 6)) ** 3
    check(X, cut(np.sign(X).sum(axis=1) + rng.normal(size=1000), n_classes))


@SEVERAL_CLASSES
def test_classes_nearly_absent(n_classes):
    X, y = normal_table(n_rows=2000)
    y[:] = 0
    for label in range(1, n_classes):
        y[[3 * label, 1500 + label]] = label
        X[3 * label] += 5
    check(X, y)


@SEVERAL_CLASSES
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6, 1e9])
def test_weights_of_any_size(scale, n_classes):
    X, y = normal_table(n_classes=n_classes)
    weight = scale * np.random.default_rng(1).exponential(size=len(y)) ** 3
    check(X, y, weight=weight, tolerance=1e-7)


@SEVERAL_CLASSES
def test_more_columns_than_go_together(n_classes):
    X, _ = normal_table(n_rows=600, n_columns=45)
    y = cut(X[:, :4].sum(axis=1) + np.random.default_rng(0).normal(size=600), n_classes)
    check(X, y, sets=random_sets(50, 45))


@SEVERAL_CLASSES
def test_the_gradient_vanishes(n_classes):
    """Where scikit-learn stops earlier, ours has gone on to the optimum."""
    X, _ = normal_table(n_columns=6)
    y = cut(X.sum(axis=1) + np.random.default_rng(0).normal(size=200), n_classes)
    rows = make_rows(np.ascontiguousarray(X.T), y, None)
    sets = random_sets(40, 6)
    weights = fit_sets(rows, sets)
    gradient, _ = Loss(rows, 40).evaluate(weights.reshape(-1, 40), curved=False)
    gradient = gradient.reshape(weights.shape)
    gradient[:, 1:] += weights[:, 1:]
    assert np.abs(gradient[:, 0]).max() < 1e-10
    assert np.abs(gradient[:, 1:] * sets.T).max() < 1e-10
    assert not (weights[:, 1:] * ~sets.T).any()


def test_a_weight_counts_as_repetition():
    X, y = normal_table()
    times = np.arange(200) % 3
    columns, sources = {"a": X[:, 0], "b": X[:, 1]}, [["a"], ["b"]]
    weight = {"sample_weight": times.astype(float)}
    weighted = make_fitter(None, columns, "array", y, halves(200), sources, weight)
    train = np.repeat(np.arange(100), times[:100])
    folds = [Fold(train, np.arange(100, 200))]
    repeated = make_fitter(None, columns, "array", y, folds, sources)
    sets = np.array([[True, False], [True, True]])
    first, second = weighted.outcomes(sets), repeated.outcomes(sets)
    assert np.abs(first[0] - second[0]).max() < 1e-12
    assert np.array_equal(first[1], second[1])


def test_folds_are_concatenated_in_order():
    X, y = normal_table()
    columns = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]}
    sources = [["a"], ["b", "c"]]
    rows = np.random.default_rng(0).permutation(200)
    folds = [Fold(rows[:120], rows[150:]), Fold(rows[50:], rows[:70])]
    sets = np.array([[False, True], [True, True], [True, False]])
    fitter = make_fitter(None, columns, "array", y, folds, sources)
    assert fitter.n_rows == 120
    assert_same(fitter.outcomes(sets), separate(columns, y, folds, sources, sets), 1e-9)


def test_order_repetition_and_company_of_sets_do_not_matter():
    """A set has the same outcome alone, twice, or among 600 others; the same call the same bits."""
    X, y = normal_table(n_columns=10, seed=3)
    columns = read_columns(X, [f"x{i}" for i in range(10)])
    fitter = make_fitter(None, columns, "array", y, halves(200), [[n] for n in columns])
    sets = random_sets(600, 10)
    confidence, label = fitter.outcomes(sets)
    again = pickle.loads(pickle.dumps(fitter)).outcomes(sets)
    assert np.array_equal(confidence, again[0])
    assert np.array_equal(label, again[1])
    order = np.random.default_rng(0).permutation(np.repeat(np.arange(600), 2))
    assert np.abs(fitter.outcomes(sets[order])[0] - confidence[order]).max() < 1e-10
    for i in range(0, 600, 40):
        assert np.abs(fitter.outcomes(sets[i : i + 1])[0] - confidence[i]).max() < 1e-10


def test_wide_tables_take_another_way():
    """Text of many values: far more columns than sources."""
    rng = np.random.default_rng(0)
    letters = np.array([f"{i:02}" for i in range(40)], dtype=object)
    values = rng.integers(40, size=(1500, 6))
    y = ((values[:, :3] % 7).sum(axis=1) + rng.normal(size=1500) > 9).astype(int)
    X = letters[values]
    columns = {f"x{i}": X[:, i] for i in range(6)}
    sources = [[name] for name in columns]
    sets = random_sets(20, 6)
    folds = [Fold(np.arange(1000), np.arange(1000, 1500))]
    fitter = make_fitter(None, columns, "array", y, folds, sources)
    expected = separate(columns, y, folds, sources, sets)
    assert_same(fitter.outcomes(sets), expected, 1e-9)


@pytest.mark.parametrize(("n_classes", "n_sets"), [(2, 300), (5, 40)])
def test_memory_is_bounded(n_classes, n_sets):
    """20,000 rows of 60 columns and many sets stay under 100 MB beyond data and result."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 60))
    y = cut(X[:, :5].sum(axis=1) + rng.normal(size=20_000), n_classes)
    columns = read_columns(X, [f"x{i}" for i in range(60)])
    sources = [list(columns)[i : i + 6] for i in range(0, 60, 6)]
    folds = [Fold(np.arange(20_000), np.arange(500))]
    fitter = make_fitter(None, columns, "array", y, folds, sources)
    sets = random_sets(n_sets, 10)
    tracemalloc.start()
    fitter.outcomes(sets)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6


@pytest.mark.parametrize("estimator", [None, LogisticRegression()])
def test_a_class_missing_from_a_training_fold_is_refused(estimator):
    X, y = normal_table()
    folds = [*halves(200), Fold(np.flatnonzero(y == 0), np.arange(10))]
    with pytest.raises(ClassesError, match="fold 1 has no row of the class 1"):
        make_fitter(estimator, {"a": X[:, 0]}, "array", y, folds, [["a"]])


def test_a_class_of_no_weight_is_refused():
    X, y = normal_table()
    with pytest.raises(ClassesError, match="fold 0 has no row with a sample_weight above 0"):
        make_fitter(
            None,
            {"a": X[:, 0]},
            "array",
            y,
            halves(200),
            [["a"]],
            {"sample_weight": y.astype(float)},
        )


def test_a_value_that_only_another_table_lacks_is_refused_by_row():
    X, y = normal_table()
    columns = {"a": X[:, 0], "b": X[:, 1]}
    fresh = {"a": X[:, 0], "b": np.where(np.arange(200) == 150, np.nan, X[:, 1])}
    folds = [Fold(np.arange(200), np.arange(200), fresh)]
    with pytest.raises(ValuesError, match="Row 150 of column 'b' is missing"):
        make_fitter(None, columns, "array", y, folds, [["b"], ["a"]])


def test_a_value_that_only_a_test_fold_lacks_is_known_to_be_missing():
    """A few missing values may all fall into one fold; the others must still know of them."""
    X, y = normal_table()
    X[150, 1] = np.nan
    text = np.where(np.arange(200) == 160, None, np.where(X[:, 2] > 0, "yes", "no"))
    columns = {"a": X[:, 0], "b": X[:, 1], "c": text}
    fitter = make_fitter(None, columns, "array", y, halves(200), [["b"], ["c"]])
    confidence, _ = fitter.outcomes(np.array([[True, True], [True, False], [False, True]]))
    assert np.isfinite(confidence).all()


@pytest.mark.parametrize("container", ["array", "pandas"])
@pytest.mark.parametrize(
    "estimator",
    [
        HistGradientBoostingClassifier(max_iter=2, max_leaf_nodes=3),
        make_pipeline(StandardScaler(), LogisticRegression()),
    ],
)
def test_any_estimator_equals_separate_fits(estimator, container):
    X, y = normal_table()
    y[::5] = 2
    names = ["d", "c", "b", "a"]
    columns = {name: X[:, i] for i, name in enumerate(names)}
    folds = [Fold(np.arange(120), np.arange(120, 200)), Fold(np.arange(80, 200), np.arange(80))]
    fitter = make_fitter(estimator, columns, container, y, folds, [["a", "d"], ["b"], ["c"]])
    confidence, label = fitter.outcomes(np.array([[True, False, True], [False, True, False]]))
    assert fitter.n_rows == confidence.shape[1] == 160
    for i, chosen in enumerate((["d", "c", "a"], ["b"])):
        table = assemble(container, chosen, columns)
        rows = table.iloc if container == "pandas" else table
        parts = [
            estimator.fit(rows[f.train], y[f.train]).predict_proba(rows[f.test]) for f in folds
        ]
        expected = np.concatenate(parts)
        assert np.array_equal(confidence[i], expected.max(axis=1))
        assert np.array_equal(label[i], expected.argmax(axis=1))


def test_an_estimator_receives_the_weights():
    X, y = normal_table()
    weight = np.random.default_rng(0).exponential(size=200)
    fitter = make_fitter(
        LogisticRegression(),
        {"a": X[:, 0]},
        "array",
        y,
        halves(200),
        [["a"]],
        {"sample_weight": weight},
    )
    direct = LogisticRegression().fit(X[:100, :1], y[:100], weight[:100])
    expected = direct.predict_proba(X[100:, :1]).max(axis=1)
    assert np.array_equal(fitter.outcomes(np.array([[True]]))[0][0], expected)


def test_random_hard_tables():
    """Weights, tails, few rows and near copies together; no warning, every set converges."""
    rng = np.random.default_rng(7)
    for _ in range(12):
        n_rows, n_columns = int(rng.integers(10, 150)), int(rng.integers(1, 7))
        X = rng.standard_t(rng.uniform(0.7, 5), size=(n_rows, n_columns))
        X[:, -1] = X[:, 0] * (1 + 1e-7 * rng.normal(size=n_rows))
        y = (X.sum(axis=1) > rng.normal(scale=rng.choice([0, 1, 10]), size=n_rows)).astype(int)
        y[:2] = y[-2:] = [0, 1]
        weight = rng.exponential(size=n_rows) ** rng.integers(0, 6)
        with warnings.catch_warnings():
            # The separate fits may fail to reach their own tolerance.
            warnings.filterwarnings("ignore", module="sklearn|scipy")
            check(X, y, weight=weight, tolerance=1e-6)


def test_the_default_classifier_says_what_it_does_not_take():
    X, y = normal_table()
    with pytest.raises(TypeError, match="takes only sample_weight, got 'colour'"):
        make_fitter(None, {"a": X[:, 0]}, "array", y, halves(200), [["a"]], {"colour": y})
