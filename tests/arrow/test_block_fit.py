"""Fits over the blocks of a data set: the coefficients of rows in memory, medians exact."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier

from emsco import CascadeClassifier, CascadeSearchCV, InputGuard, LocalEngine, StageDesign, load
from emsco import dump as dump_model
from emsco.arrow import decide_batches, sample_rows
from emsco.exceptions import ClassesError, ColumnsError, ValuesError
from emsco.rows.column_summary import (
    WIDEST,
    CategorySummary,
    NumberSummary,
    count_between,
    narrow_median,
    value_of,
)
from emsco.rows.encoding import learn

DESIGN = StageDesign([0, 1, 0, 1, 2, 2])
NAMES = ["near", "gaps", "town", "visits", "flag", "kind"]


def rows(n_rows, n_classes, seed=0):
    """Every kind of column: a large offset with gaps, text with gaps, numbers as categories."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n_rows)
    gaps = rng.random(n_rows) < 0.1
    return pd.DataFrame(
        {
            "near": y + 2 * rng.normal(size=n_rows),
            "gaps": np.where(gaps, np.nan, 1e6 + 0.5 * y + rng.normal(size=n_rows)),
            "town": rng.choice(["Bern", "Genf", "", None], n_rows),
            "visits": rng.integers(0, 9, n_rows) + y,
            "flag": rng.random(n_rows) < 0.3 + 0.2 * (y > 0),
            "kind": pd.Categorical(rng.integers(1, 5, n_rows)),
            "weight": rng.integers(0, 4, n_rows).astype(float),
            "state": np.array(["low", "mid", "top"])[y],
        }
    )


def as_dataset(frame, folder, group=700):
    table = pa.Table.from_pandas(frame, preserve_index=False)
    options = {"max_rows_per_group": group, "max_rows_per_file": 3 * group}
    pa.dataset.write_dataset(table, folder, format="parquet", **options)
    return pa.dataset.dataset(folder)


def assert_close(found, expected):
    """Coefficients to 1e-8, and encodings that read every column alike."""
    for ours, theirs in zip(found.estimators_, expected.estimators_, strict=True):
        assert np.abs(ours.coef_ - theirs.coef_).max() < 1e-8
        assert np.abs(ours.intercept_ - theirs.intercept_).max() < 1e-8
    for name, reader in expected.decider_.readers.items():
        own = found.decider_.readers[name]
        assert (own.kind, own.missing_seen) == (reader.kind, reader.missing_seen)
        assert getattr(own.encoding, "median", None) == getattr(reader.encoding, "median", None)
        assert getattr(own.encoding, "levels", None) == getattr(reader.encoding, "levels", None)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("weight", [None, "weight"])
def test_coefficients_are_those_of_rows_in_memory(n_classes, weight, tmp_path):
    frame = rows(6000, n_classes)
    if weight is None:
        frame = frame.drop(columns="weight")
    dataset = as_dataset(frame, tmp_path)
    X = dataset.to_table().to_pandas()
    y, given_weight = X.pop("state"), X.pop(weight) if weight else None
    expected = CascadeClassifier(design=DESIGN).fit(X, y, given_weight)
    found = CascadeClassifier(design=DESIGN).fit(dataset, "state", weight)
    assert_close(found, expected)
    assert found.classes_.tolist() == expected.classes_.tolist()
    assert found.feature_names_in_.tolist() == NAMES
    assert found.decide(X).label.tolist() == expected.decide(X).label.tolist()
    decided = pa.Table.from_batches(list(decide_batches(found, dataset)))
    assert decided["confidence"].to_pylist() == found.decide(X).confidence.tolist()


def test_any_engine_and_any_division_into_blocks_fit_the_same(tmp_path):
    """Workers change no bit; other row groups change the rounding of sums only."""
    frame = rows(5000, 3).drop(columns="weight")
    coarse = as_dataset(frame, tmp_path / "coarse", group=2500)
    fine = as_dataset(frame, tmp_path / "fine", group=100)
    one = CascadeClassifier(design=DESIGN).fit(fine, "state")
    for engine in (LocalEngine(2), LocalEngine(2, threads=False)):
        two = CascadeClassifier(design=DESIGN).fit(fine, "state", engine=engine)
        for ours, theirs in zip(two.estimators_, one.estimators_, strict=True):
            assert np.array_equal(ours.coef_, theirs.coef_)
    assert_close(CascadeClassifier(design=DESIGN).fit(coarse, "state"), one)


def test_blocks_without_some_class_are_fitted_too(tmp_path):
    """Files sorted by label, as a partition by day or customer would be."""
    frame = rows(4000, 3).drop(columns="weight").sort_values("state")
    dataset = as_dataset(frame, tmp_path, group=300)
    X = dataset.to_table().to_pandas()
    expected = CascadeClassifier(design=DESIGN).fit(X[NAMES], X["state"])
    assert_close(CascadeClassifier(design=DESIGN).fit(dataset, "state"), expected)


def test_a_fitted_cascade_remembers_a_sample_and_goes_into_files(tmp_path):
    frame = rows(3000, 2).drop(columns="weight")
    cascade = CascadeClassifier(design=DESIGN).fit(as_dataset(frame, tmp_path / "rows"), "state")
    assert len(cascade.fitted_rows_.rows) == 3000
    dump_model(cascade, tmp_path / "model.emsco")
    again = load(tmp_path / "model.emsco").decide(frame[NAMES])
    assert again.confidence.tolist() == cascade.decide(frame[NAMES]).confidence.tolist()


def test_what_needs_all_rows_at_once_is_refused_by_name(tmp_path):
    dataset = as_dataset(rows(500, 2), tmp_path)
    tree = DecisionTreeClassifier()
    for model in (CascadeClassifier(tree), CascadeSearchCV(tree)):
        with pytest.raises(ColumnsError, match=r"DecisionTreeClassifier needs all rows.*sample_"):
            model.fit(dataset, "state")
    with pytest.raises(ColumnsError, match="The guard InputGuard needs all rows at once"):
        CascadeClassifier(guard=InputGuard()).fit(dataset, "state")
    with pytest.raises(ColumnsError, match="`y` must be the name of a column, got list"):
        CascadeClassifier().fit(dataset, [0, 1])
    with pytest.raises(ColumnsError, match=r"has no column 'sate'; did you mean 'state'"):
        CascadeClassifier().fit(dataset, "sate")
    with pytest.raises(ColumnsError, match="`engine` is for the blocks of a data set"):
        CascadeClassifier().fit([[0.0], [1.0]], [0, 1], engine=LocalEngine())


def test_faulty_values_are_named_by_their_row_in_the_data_set(tmp_path):
    frame = rows(2000, 2)
    frame.loc[1500, "near"] = np.inf
    with pytest.raises(ValuesError, match="Row 1500 of column 'near' is infinity"):
        CascadeClassifier().fit(as_dataset(frame, tmp_path / "a"), "state", "weight")
    frame = rows(2000, 2)
    frame.loc[1400, "state"] = None
    with pytest.raises(ValuesError, match="Row 1400 has no label in 'state'"):
        CascadeClassifier().fit(as_dataset(frame, tmp_path / "b"), "state", "weight")
    frame = rows(2000, 2)
    frame.loc[1300, "weight"] = -1
    with pytest.raises(ValuesError, match="Row 1300 of the weights in 'weight'"):
        CascadeClassifier().fit(as_dataset(frame, tmp_path / "c"), "state", "weight")
    frame = rows(100, 2).assign(state="low")
    with pytest.raises(ClassesError, match="at least 2 classes"):
        CascadeClassifier().fit(as_dataset(frame, tmp_path / "d"), "state")
    frame = rows(100, 2).assign(near=pd.Timestamp("2024-01-01"))
    with pytest.raises(ValuesError, match="Column 'near' holds timestamp"):
        CascadeClassifier().fit(as_dataset(frame, tmp_path / "e"), "state", "weight")


numbers = st.floats(allow_nan=False, allow_infinity=False, width=64)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(numbers, st.integers(-3, 3).map(float), st.none()), min_size=1, max_size=60),
    st.data(),
)
def test_encodings_of_numbers_are_those_of_the_whole_column(values, data):
    """However the column is cut: the median exactly, centre and scale up to rounding."""
    weight = np.array(
        data.draw(st.lists(st.integers(0, 3), min_size=len(values), max_size=len(values)))
    )
    weight = weight.astype(float)
    if not weight.any():
        weight[0] = 1.0
    column = pa.array(values, pa.float64())
    floats = np.array([np.nan if value is None else value for value in values])
    expected = learn(floats, "x", weight)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=3)))
    blocks = [slice(a, b) for a, b in zip([0, *cuts], [*cuts, len(values)], strict=True)]
    summary = NumberSummary()
    for block in blocks:
        part = NumberSummary.of(column[block], "x", weight[block], block.start)
        summary = summary.merge(part)
    median = None
    if summary.has_missing:
        median, interval = (None if summary.weight else 0.0), WIDEST
        while median is None:
            counted = [count_between(column[b], interval, weight[b]) for b in blocks]
            total = counted[0]
            for more in counted[1:]:
                total = total.merge(more)
            interval = narrow_median(interval, total, summary.weight / 2)
            median = value_of(interval)
    found = summary.encoding(median)
    assert found.median == expected.median
    size = np.nanmax(np.abs(floats[weight > 0]), initial=0.0) or 1.0
    assert abs(found.centre - expected.centre) <= 1e-13 * size
    if expected.scale != 1.0:
        assert abs(found.scale - expected.scale) <= 1e-7 * expected.scale


def test_levels_are_those_of_the_whole_column():
    """Rare values are rare in all blocks together."""
    rng = np.random.default_rng(0)
    words = rng.choice(["a", "b", "c", "d", ""], 900, p=[0.5, 0.4, 0.08, 0.005, 0.015])
    weight = rng.integers(0, 3, 900).astype(float)
    expected = learn(words.astype(object), "x", weight)
    parts = [
        CategorySummary.of(pa.array(words[i : i + 70]), "x", weight[i : i + 70], i)
        for i in range(0, 900, 70)
    ]
    found = parts[0]
    for part in parts[1:]:
        found = found.merge(part)
    assert found.encoding(None) == expected


def test_a_sample_has_classes_in_proportion_whatever_the_blocks(tmp_path):
    frame = rows(4000, 3)
    frame["number"] = np.arange(4000)
    samples = [
        sample_rows(as_dataset(frame, tmp_path / str(group), group=group), "state", 1000)
        for group in (300, 4000)
    ]
    first, second = samples
    assert first[0].number.tolist() == second[0].number.tolist() == sorted(first[0].number)
    assert first[1].tolist() == second[1].tolist() == frame.state[first[0].number].tolist()
    shares = frame.state.value_counts() / 4
    assert (abs(pd.Series(first[1]).value_counts() - shares) <= 1).all()
    dataset = as_dataset(frame, tmp_path / "other")
    assert sample_rows(dataset, "state", 1000, random_state=1)[0].number.tolist() != list(
        first[0].number
    )
    assert len(sample_rows(dataset, "state", 10_000)[0]) == 4000
    # Every row is as likely as any other: halves and numbers modulo small ones are in proportion.
    drawn = np.concatenate(
        [sample_rows(dataset, "state", 1000, random_state=s)[0].number for s in range(20)]
    )
    for part, share in ((drawn < 2000, 0.5), (drawn % 2 == 0, 0.5), (drawn % 10 == 3, 0.1)):
        assert part.mean() == pytest.approx(share, abs=0.02)
    frame.loc[7, "state"] = "rare"
    with pytest.raises(ClassesError, match="leaves no row of the class 'rare'"):
        sample_rows(as_dataset(frame, tmp_path / "rare"), "state", 100)


def test_a_search_takes_a_sample_and_refits_on_all_rows(tmp_path):
    """The front is that of the sample; the cascade that of all rows, in files too."""
    frame = rows(6000, 2).drop(columns="weight")
    dataset = as_dataset(frame, tmp_path / "rows")
    options = {"max_stages": 2, "threshold": 0.8, "cv": 3, "random_state": 3, "luck": False}
    options["select"] = {"by": "accuracy", "min_coverage": 0.1}
    search = CascadeSearchCV(max_rows=1500, **options).fit(dataset, "state")
    assert search.found_.n_rows == 1500
    X = dataset.to_table().to_pandas()
    y = X.pop("state")
    design, threshold = search.best_candidate_.design, search.best_candidate_.threshold
    expected = CascadeClassifier(design=design, threshold=threshold).fit(X, y)
    assert_close(search.best_cascade_, expected)
    again = CascadeSearchCV(max_rows=1500, **options).fit(dataset, "state")
    assert [c.evaluation for c in again.front_] == [c.evaluation for c in search.front_]
    fresh = rows(800, 2, seed=9)
    scored = search.score_front(fresh[NAMES], fresh["state"])
    last = len(search.front_) - 1
    cascade = search.cascade(search.front_[last])
    decided = cascade.decide(fresh[NAMES])
    assert scored[last].fresh.accepted == int(decided.accepted.sum())
    dump_model(search, tmp_path / "search.emsco")
    loaded = load(tmp_path / "search.emsco").cascade(search.front_[last])
    assert loaded.decide(fresh[NAMES]).confidence.tolist() == decided.confidence.tolist()
