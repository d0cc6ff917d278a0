"""A value means the same in every container, alone and among others, or is named as unreadable."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

from emsco import CascadeClassifier, CascadeSearchCV, InputGuard, StageDesign
from emsco._utils.missing_values import is_missing
from emsco.core.decisions import kind_of
from emsco.exceptions import ValuesError
from emsco.rows.value_types import usual_spelling

RNG = np.random.default_rng(0)
N = 200
Y = RNG.integers(2, size=N)
HOLES = np.where(RNG.random(N) < 0.1, np.nan, Y + RNG.normal(size=N))
X = np.column_stack([2 * Y + RNG.normal(size=N), HOLES])  # x1 has missing values
HUGE = np.longdouble("1e4000")


def fitted(**params):
    given = {"design": StageDesign([0, 0]), "threshold": 0.9} | params
    return CascadeClassifier(**given).fit(X, Y)


def test_a_missing_value_is_one_of_any_library_but_no_text():
    missing = (None, float("nan"), pd.NaT, pd.NA, np.ma.masked, Decimal("sNaN"))
    assert all(is_missing(value) for value in missing)
    assert not any(is_missing(value) for value in ("nan", "", 0, [1], np.array([1, 2])))


def test_a_text_is_spelled_as_the_number_or_boolean_that_it_stands_for():
    spelled = [usual_spelling(text) for text in ("7.0", "007", "7.50", "True", "B2")]
    assert spelled == ["7", "007", "7.50", "true", "B2"]


@pytest.fixture(scope="module")
def bare():
    return fitted()


@pytest.fixture(scope="module", params=[None, LogisticRegression()], ids=["default", "own"])
def estimator(request):
    return request.param


@pytest.fixture(scope="module")
def guarded():
    return fitted(guard=InputGuard())


def with_value(value, row=3, column=0, n_rows=8):
    rows = X[:n_rows].astype(object)
    rows[row, column] = value
    return rows


UNREADABLE = {
    "text": "old",
    "too large": 10**400,
    "far too large": 10**5000,
    "long double": HUGE,
    "complex": 1j,
    "date": date(2020, 1, 1),
    "time span": np.timedelta64(1, "s"),
    "bytes": b"1",
    "list": [1.0],
    "array": np.ones(2),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_what_is_no_number_rejects_its_row_or_raises_with_row_and_column(kind, bare, guarded):
    """Where training had numbers; the rows beside it are decided as ever."""
    rows = with_value(UNREADABLE[kind])
    decisions, clean = guarded.decide(rows), guarded.decide(X[:8])
    assert decisions.reason[3] == "invalid value: x0"
    assert not decisions.accepted[3]
    others = np.delete(np.arange(8), 3)
    assert list(decisions[others]) == list(clean[others])
    assert guarded.decide(rows[3:4])[0] == decisions[3]
    for method in (bare.decide, bare.predict, bare.predict_proba):
        with pytest.raises(ValuesError) as e:
            method(rows)
        assert (e.value.row, e.value.column) == (3, "x0")
        assert len(str(e.value)) < 200


@pytest.mark.parametrize("container", [pd.DataFrame, "polars object", "polars text"])
def test_text_among_numbers_rejects_its_row_from_every_frame(container):
    """A column of text holds the numbers that it spells, as in CSV."""
    frame = pd.DataFrame(X[:, :1], columns=["x0"])
    rows = with_value("old")[:, 0]
    fresh = pd.DataFrame({"x0": rows})
    if container == "polars object":
        fresh = pl.DataFrame({"x0": pl.Series(rows.tolist(), dtype=pl.Object)})
    if container == "polars text":
        fresh = pl.DataFrame({"x0": [str(value) for value in rows]})
    guarded = CascadeClassifier(guard=InputGuard()).fit(frame, Y)
    decisions, clean = guarded.decide(fresh), guarded.decide(frame[:8])
    assert decisions.reason[3] == "invalid value: x0"
    others = np.delete(np.arange(8), 3)
    assert list(decisions[others]) == list(clean[others])
    with pytest.raises(ValuesError, match="held numbers in training; row 3 is 'old'") as e:
        CascadeClassifier().fit(frame, Y).decide(fresh)
    assert (e.value.row, e.value.column) == (3, "x0")


def test_an_own_estimator_never_sees_what_is_no_number():
    """Its columns of numbers are read by the same rule."""
    holes = np.nan_to_num(X)
    for value in ("old", 10**400, HUGE):
        rows = holes[:8].astype(object)
        rows[3, 0] = value
        guarded = CascadeClassifier(LogisticRegression(), guard=InputGuard()).fit(holes, Y)
        decisions = guarded.decide(rows)
        assert decisions.reason[3] == "invalid value: x0"
        others = np.delete(np.arange(8), 3)
        assert list(decisions[others]) == list(guarded.decide(holes[:8])[others])
        with pytest.raises(ValuesError) as e:
            CascadeClassifier(LogisticRegression()).fit(holes, Y).decide(rows)
        assert (e.value.row, e.value.column) == (3, "x0")


def test_a_long_double_beyond_a_float_is_no_number(estimator):
    """It would overflow to infinity, and be accepted with confidence 1."""
    holes = np.nan_to_num(X)
    rows = holes[:8].astype(np.longdouble)
    rows[3, 0] = HUGE
    guarded = CascadeClassifier(estimator, guard=InputGuard()).fit(holes, Y)
    assert guarded.decide(rows).reason[3] == "invalid value: x0"
    bare = CascadeClassifier(estimator).fit(holes, Y)
    with pytest.raises(ValuesError, match="Row 3 of column 'x0' is too large for a float") as e:
        bare.decide(rows)
    assert (e.value.row, e.value.column) == (3, "x0")
    assert list(bare.decide(rows[:3])) == list(bare.decide(holes[:3]))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, object, np.longdouble])
def test_a_masked_cell_is_a_missing_value(dtype, bare, guarded):
    """Whatever hides below it: judged as missing where training had missing values, else not."""
    data = X[:8].astype(dtype)
    data[np.isnan(X[:8])] = 0.0
    rows = np.ma.array(data, mask=np.zeros((8, 2), dtype=bool))
    rows[2, 1] = np.ma.masked
    seen = data.copy()
    seen[2, 1] = np.nan
    assert list(bare.decide(rows)) == list(bare.decide(seen))
    assert list(guarded.decide(rows)) == list(guarded.decide(seen))
    rows[3, 0] = np.ma.masked
    assert guarded.decide(rows).reason[3] == "invalid value: x0"
    with pytest.raises(ValuesError, match="Row 3 of column 'x0' is missing") as e:
        bare.decide(rows)
    assert (e.value.row, e.value.column) == (3, "x0")
    with pytest.raises(ValuesError, match="Row 0 of column 'x0' is missing"):
        bare.decide([rows[3]])


def test_masked_whole_numbers_are_missing_too():
    whole = np.column_stack([Y * 3, RNG.integers(5, size=N)])
    mask = np.zeros(whole.shape, dtype=bool)
    mask[::7, 1] = True
    masked = np.ma.array(whole, mask=mask)
    by_nan = np.where(mask, np.nan, whole)
    assert list(CascadeClassifier().fit(masked, Y).decide(masked)) == list(
        CascadeClassifier().fit(by_nan, Y).decide(by_nan)
    )


def test_in_training_a_masked_cell_is_missing():
    """Of X; a label that is masked is refused."""
    masked = np.ma.array(np.nan_to_num(X), mask=np.isnan(X))
    for model in (
        CascadeClassifier,
        lambda: CascadeSearchCV(threshold=0.75, cv=2, select={"by": "accuracy"}),
    ):
        one, other = model().fit(masked, Y), model().fit(X, Y)
        assert list(one.decide(X)) == list(other.decide(X))
    labels = np.ma.array(Y, mask=np.arange(N) == 5)
    with pytest.raises(ValuesError, match="Row 5 has no label: it is masked") as e:
        CascadeClassifier().fit(X, labels)
    assert e.value.row == 5


@pytest.mark.parametrize("value", [10**400, HUGE, np.inf])
@pytest.mark.parametrize("model", [CascadeClassifier, CascadeSearchCV])
def test_in_training_a_number_beyond_a_float_is_refused(value, model):
    rows = X.astype(object)
    rows[7, 0] = value
    with pytest.raises(ValuesError, match=r"Row 7 of column 'x0' is (too large|infinity)") as e:
        model().fit(rows, Y)
    assert (e.value.row, e.value.column) == (7, "x0")


def test_in_training_a_matrix_of_long_doubles_is_looked_at_too():
    rows = X.astype(np.longdouble)
    rows[7, 0] = HUGE
    with pytest.raises(ValuesError, match="Row 7 of column 'x0' is too large for a float"):
        CascadeClassifier().fit(rows, Y)


SPELLED = {"2": 2.0, " 1.5 ": 1.5, "true": 1.0, "False": 0.0, "-1e-3": -1e-3, "+3": 3.0}


def test_text_where_training_had_numbers_is_the_number_it_spells(bare):
    """And booleans, Decimals and whole numbers of any type are numbers."""
    values = SPELLED | {True: 1.0, np.True_: 1.0, Decimal("0.1"): 0.1, np.int8(2): 2.0}
    for given, number in values.items():
        rows, plain = with_value(given), X[:8].copy()
        plain[3, 0] = number
        assert list(bare.decide(rows)) == list(bare.decide(plain))
        assert bare.decide(rows[3:4])[0] == bare.decide(plain)[3]
    for word in ("", "NA", "n/a", "nan", None, pd.NA, pd.NaT, np.ma.masked, Decimal("sNaN")):
        assert (
            bare.decide(with_value(word, column=1))[3]
            == bare.decide(with_value(np.nan, column=1))[3]
        )
    for word in ("1_000", "\uff11", "1,5", "0x1", "1 2", "."):
        with pytest.raises(ValuesError, match="held numbers in training"):
            bare.decide(with_value(word))


def test_a_number_where_training_had_text_is_the_text_that_spells_it():
    """Alone and among text; an empty text is a missing one."""
    words = np.array(["7", "8", "true", "1.5"], dtype=object)
    kind = words[RNG.integers(4, size=N)]
    kind[::9] = None
    frame = pd.DataFrame({"kind": kind, "x": X[:, 0]})
    for guard in (None, InputGuard()):
        fitted = CascadeClassifier(guard=guard).fit(frame, Y)
        spelled = frame[:6].assign(kind=["7", "8", "true", "1.5", None, "zero"])
        given = [7, np.float64(8.0), True, Decimal("1.50"), "", "zero"]
        expected = fitted.decide(spelled)
        assert list(fitted.decide(spelled.assign(kind=np.array(given, dtype=object)))) == list(
            expected
        )
        alone = frame[:1].assign(kind=[7.0])
        assert fitted.decide(alone)[0] == expected[0]
        spans = frame[:2].assign(kind=pd.to_timedelta([1, 2], unit="D"))
        if guard is None:
            with pytest.raises(ValuesError, match="'kind' held text in training; row 0 is") as e:
                fitted.decide(spans)
            assert (e.value.row, e.value.column) == (0, "kind")
        else:
            assert fitted.decide(spans).reason.tolist() == ["invalid value: kind"] * 2


def test_numbers_that_are_categories_stay_numbers_also_where_all_are_rare():
    """And a guard knows them again."""
    frame = pd.DataFrame({"shop": pd.Categorical(np.arange(N) % 100), "x": X[:, 0]})
    fitted = CascadeClassifier(guard=InputGuard(pool=["none"])).fit(frame, Y)
    assert "unseen category" not in map(kind_of, fitted.decide(frame).reason)
    given = frame[:3].astype({"shop": object}).assign(shop=["0", 1, 1000])
    assert fitted.decide(given).reason.tolist()[2] == "unseen category: shop"
    assert fitted.decide(given)[0] == fitted.decide(frame)[0]


def test_the_first_fault_told_is_of_the_first_stage():
    """As the command line meets it, and in the order of columns there."""
    both = CascadeClassifier(design=StageDesign([1, 0]), threshold=0.9).fit(X, Y)
    rows = X[:8].copy()
    rows[1, 0], rows[5, 1] = np.inf, np.inf
    with pytest.raises(ValuesError, match="Row 5 of column 'x1'"):
        both.decide(rows)
