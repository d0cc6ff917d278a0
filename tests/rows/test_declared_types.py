"""A type that costs declare is how a column is read: in training, later, live and from files."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from emsco import CascadeClassifier, CascadeSearchCV, Costs, InputGuard, Source, dump, load
from emsco.arrow import decide_batches
from emsco.cascade.fingerprint import fingerprint
from emsco.datasets import make_loans
from emsco.exceptions import ColumnsError, ValuesError
from emsco.live.typed_columns import to_column
from emsco.rows.declared_types import read_declared, to_days


def costs_of(**types):
    return Costs([Source(name, cost=1, type=kind) for name, kind in types.items()])


def table(n_rows=300, seed=0):
    """Make rows whose class is in a date, in the zero of a code, and in a number."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n_rows)
    day = np.datetime64("2020-01-01") + (400 * y + rng.integers(0, 700, n_rows))
    code = np.where(y ^ (rng.random(n_rows) < 0.3), "0", "").astype(object)
    digits = rng.integers(1, 4, n_rows).astype(str).astype(object)
    X = pd.DataFrame(
        {"since": day.astype(str), "code": code + digits, "size": y + rng.random(n_rows)}
    )
    return X, y


TYPED = costs_of(since="date", code="text", size="number")


@given(st.dates(datetime.date(1, 1, 1), datetime.date(9999, 12, 31)))
def test_a_date_is_the_same_days_in_every_spelling_and_type(day):
    days = (day - datetime.date(1970, 1, 1)).days
    moment = datetime.datetime(day.year, day.month, day.day, tzinfo=datetime.UTC)
    spelled = (
        day, moment, moment.replace(tzinfo=None), np.datetime64(day), day.isoformat(),
        day.isoformat().replace("-", "/"), f"{day.day}.{day.month:02}.{day.year:04}",
        f" {day.isoformat()}T00:00:00Z ",
    )  # fmt: skip
    assert [to_days(value) for value in spelled] == [days] * len(spelled)


@pytest.mark.parametrize("value", ["", None, float("nan"), pd.NaT, np.datetime64("NaT"), "n/a"])
def test_a_missing_date_is_missing(value):
    assert np.isnan(read_declared([value], "date")[0])


@pytest.mark.parametrize(
    "value",
    ["31.06.2020", "2020-13-01", "01/02/2020", "20200131", 18262, 1.5e9, True, "soon", ["a"]],
)
def test_what_is_no_date_or_could_be_two_is_unreadable(value):
    assert np.isinf(read_declared([value], "date")[0])


def test_a_text_keeps_its_zeros_and_a_category_is_its_number():
    values = ["04300", "4300", 4300, 4300.0, "4300.0", "x", "", None]
    assert read_declared(values, "text").tolist() == [
        "04300", "4300", "4300", "4300", "4300.0", "x", None, None,
    ]  # fmt: skip
    assert read_declared(values, "category").tolist() == [*["4300"] * 5, "x", None, None]
    assert read_declared(["1", True, 1], "text").tolist() == ["1", "true", "1"]


def test_declared_columns_decide_alike_from_every_container_and_file(tmp_path):
    X, y = table()
    cascade = CascadeClassifier(costs=TYPED, guard=InputGuard()).fit(X, y)
    expected = cascade.decide(X)
    assert (expected.label == y).mean() > 0.9
    dates = X.assign(since=pd.to_datetime(X.since))
    arrow = pa.table({name: pa.array(X[name]) for name in X})
    as_days = arrow.set_column(0, "since", arrow["since"].cast(pa.date32()))
    loaded = load(dump(cascade, tmp_path / "model.emsco") or tmp_path / "model.emsco")
    assert fingerprint(loaded) == fingerprint(cascade)
    for one in (cascade, loaded):
        for rows in (X, dates, pl.from_pandas(X), pl.from_pandas(dates)):
            assert (one.decide(rows).confidence == expected.confidence).all()
        for rows in (arrow, as_days):
            found = pa.Table.from_batches(list(decide_batches(one, rows)))
            assert found["confidence"].to_numpy().tolist() == expected.confidence.tolist()
            assert found["reason"].to_pylist() == expected.reason.tolist()
        assert [one.decide(X[i : i + 1]).confidence[0] for i in range(9)] == (
            expected.confidence[:9].tolist()
        )


def test_a_declared_type_is_part_of_the_fingerprint():
    X, y = table()
    X["code"] = X.code.str.lstrip("0")
    plain, typed = (
        CascadeClassifier(costs=costs_of(code=kind, size=None)).fit(X[["code", "size"]], y)
        for kind in ("text", "category")
    )
    assert fingerprint(plain) != fingerprint(typed)


def test_a_value_of_another_type_is_refused_in_training_and_rejected_later():
    X, y = table()
    cascade = CascadeClassifier(costs=TYPED, guard=InputGuard()).fit(X, y)
    odd = X[:2].assign(since=["soon", "2020-05-01"])
    assert cascade.decide(odd).reason[0] == "invalid value: since"
    assert cascade.decide(odd).reason[1] in ("", "low confidence")
    for column, value in (("since", "soon"), ("size", "big")):
        X["size"] = X["size"].astype(object)
        with pytest.raises(ValuesError, match=f"'{column}' is declared .* row 1 is '{value}'") as e:
            CascadeClassifier(costs=TYPED).fit(
                X.assign(**{column: [X[column][0], value, *X[column][2:]]}), y
            )
        assert e.value.row == 1


def test_numbers_as_an_array_are_read_as_declared():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (200, 2)).astype(float)
    y = (X[:, 0] == 1).astype(int)  # in between: no line divides it
    numbers = CascadeClassifier(costs=costs_of(x0=None, x1=None)).fit(X, y)
    codes = CascadeClassifier(costs=costs_of(x0="category", x1=None)).fit(X, y)
    assert (numbers.predict(X) == y).mean() < 0.8
    assert (codes.predict(X) == y).all()


def test_an_estimator_of_ones_own_gets_days_and_texts():
    X, y = table()
    encode = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["code"]), remainder="passthrough"
    )
    estimator = make_pipeline(encode, LogisticRegression(max_iter=10_000))
    cascade = CascadeClassifier(estimator, costs=TYPED).fit(X, y)
    assert (cascade.predict(X) == y).mean() > 0.9
    dates = X.assign(since=pd.to_datetime(X.since))
    assert (cascade.decide(dates).confidence == cascade.decide(X).confidence).all()


def test_a_search_reads_declared_columns_and_its_file_too(tmp_path):
    X, y = table(800)
    search = CascadeSearchCV(costs=TYPED, random_state=0, cv=3).fit(X[:600], y[:600])
    dump(search, tmp_path / "search.emsco")
    loaded = load(tmp_path / "search.emsco")
    assert loaded.costs_ == search.costs_
    assert (loaded.decide(X[600:]).confidence == search.decide(X[600:]).confidence).all()
    shown = search.score_front(X[600:], y[600:])
    assert len(shown) == len(search.front_)


def test_fitted_rows_are_recognised_by_their_values_as_they_came():
    X, y = table()
    cascade = CascadeClassifier(costs=TYPED).fit(X, y)
    assert cascade.fitted_rows_.digest == CascadeClassifier().fit(X, y).fitted_rows_.digest


def test_a_live_date_may_be_text_or_a_date():
    X, y = table()
    reader = CascadeClassifier(costs=TYPED).fit(X, y).decider_.readers["since"]
    values = ["2020-05-01", b"2020-05-01", datetime.date(2020, 5, 1)]
    column, others = to_column(values, reader)
    assert others == []
    assert set(reader.read(column).tolist()) == {to_days("2020-05-01")}


def test_a_data_set_must_have_the_declared_types_already():
    X, y = table()
    rows = pa.dataset.dataset(pa.Table.from_pandas(X.assign(y=y), preserve_index=False))
    costs = costs_of(code="text", size="number")
    with pytest.warns(UserWarning, match="since"):
        cascade = CascadeClassifier(costs=costs).fit(rows, "y")
    assert (cascade.predict(X) == y).mean() > 0.9
    with pytest.raises(
        ColumnsError, match="'since' to be of the type date, but the data set holds"
    ):
        CascadeClassifier(costs=TYPED).fit(rows, "y")


def test_skipped_columns_are_left_out_without_a_warning():
    X, y = table()
    cascade = CascadeClassifier(costs=Costs([Source("size", cost=1)], skipped=["since", "code"]))
    assert cascade.fit(X, y).decider_.columns_read == ["size"]


def test_loans_say_what_their_columns_hold():
    X, y, costs = make_loans(3000)
    assert dict(costs.types) == {"employed_since": "date", "postcode": "text"}
    assert set(costs.skipped) | set(costs.features) == set(X)
    cascade = CascadeClassifier(costs=costs, guard=InputGuard(pool="auto"))
    cascade.fit(X, y)
    later = make_loans(1000, year=2024, random_state=1).X
    kinds = set(cascade.decide(later).reason) - {"", "low confidence"}
    assert not any("employed_since" in kind or "applied_on" in kind for kind in kinds)
