"""A row above the cap is accepted by no driver, and none decides without stakes."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from emsco import CascadeClassifier, StageDesign, dump, load
from emsco.arrow import decide_batches
from emsco.cascade.fingerprint import fingerprint
from emsco.cascade.stake_cap import StakeCap
from emsco.exceptions import ColumnsError, DecisionsError, SourcesError
from emsco.live import CallableSource, LiveCascade

NAMES = ["a", "b"]
STAKES = [10.0, 500.0, 500.1, np.nan, -1.0, np.inf, 0.0, 7.0]
REASONS = [
    "", "", "above cap: amount", "invalid value: amount", "invalid value: amount",
    "invalid value: amount", "", "",
]  # fmt: skip


def rows(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    X = pd.DataFrame({"a": y + rng.normal(size=n), "b": 3 * y + rng.normal(size=n)})
    return X, y


@pytest.fixture
def cascade() -> CascadeClassifier:
    """Fit two stages that accept nearly every row, with a cap of 500."""
    fitted = CascadeClassifier(
        design=StageDesign([0, 1], NAMES), costs={"a": 1, "b": 20}, threshold=0.501
    ).fit(*rows(400, 0))
    capped = fitted.decider_.capped(StakeCap("amount", 500))
    return CascadeClassifier.of(capped, fitted.fitted_rows_, threshold=0.501)


@pytest.fixture
def fresh() -> pd.DataFrame:
    return rows(len(STAKES), 1)[0].assign(amount=STAKES)


def test_rows_above_the_cap_are_rejected_and_buy_nothing(cascade, fresh):
    decisions = cascade.decide(fresh)
    assert decisions.reason.tolist() == REASONS
    assert decisions.accepted.tolist() == [not reason for reason in REASONS]
    assert (decisions.cost[~decisions.accepted] == 0).all()
    assert (decisions.cost[decisions.accepted] >= 1).all()


def test_other_rows_are_decided_as_without_a_cap(cascade, fresh):
    free = CascadeClassifier(
        design=StageDesign([0, 1], NAMES), costs={"a": 1, "b": 20}, threshold=0.501
    ).fit(*rows(400, 0))
    kept = np.array([not reason for reason in REASONS])
    own, other = cascade.decide(fresh)[kept], free.decide(fresh)[kept]
    assert own.label.tolist() == other.label.tolist()
    assert own.cost.tolist() == other.cost.tolist()
    assert own.confidence.tolist() == other.confidence.tolist()
    assert fingerprint(free) != fingerprint(cascade)
    more = free.decider_.capped(StakeCap("amount", 501))
    assert fingerprint(more) != fingerprint(cascade)


@pytest.mark.parametrize("ask", ["decide", "predict", "predict_proba"])
def test_without_stakes_nothing_is_decided(cascade, fresh, ask):
    with pytest.raises(DecisionsError, match=r"needs its stake: give the column 'amount'"):
        getattr(cascade, ask)(fresh[NAMES])
    assert len(getattr(cascade, ask)(fresh)) == len(STAKES)


def test_stakes_may_be_given_beside_x(cascade, fresh):
    decisions = cascade.decide(fresh[NAMES].reset_index(drop=True), stake=STAKES)
    assert decisions.reason.tolist() == REASONS
    for stakes in ([1.0, 2.0], [1.0] * 4):
        with pytest.raises(DecisionsError, match=f"There are {len(stakes)} stakes for 3 rows"):
            cascade.decide(fresh[NAMES][:3], stake=stakes)
    with pytest.raises(ColumnsError, match="leave it out"):
        CascadeClassifier().fit(*rows(50, 0)).decide(fresh[NAMES], stake=STAKES)


def test_one_row_needs_its_stake(cascade, fresh):
    for row, reason in zip(fresh.to_dict("records"), REASONS, strict=True):
        assert cascade.decide_one(row).reason == reason
    with pytest.raises(ColumnsError, match="no value of 'amount'"):
        cascade.decide_one({"a": 0.0, "b": 0.0})


def test_arrow_batches_need_the_column(cascade, fresh):
    (decided,) = decide_batches(cascade, pa.Table.from_pandas(fresh, preserve_index=False))
    assert decided.column("reason").to_pylist() == REASONS
    with pytest.raises(ColumnsError, match="amount"):
        list(decide_batches(cascade, pa.Table.from_pandas(fresh[NAMES], preserve_index=False)))


@pytest.mark.parametrize("n_rows", [8, 40])
def test_live_rows_need_their_stakes_and_buy_nothing_above_the_cap(cascade, n_rows):
    values = rows(n_rows, 2)[0]
    stakes = (STAKES * 5)[:n_rows]
    bought = []

    def source(name):
        def fetch(keys, _):
            bought.extend(keys)
            return {key: {name: float(values[name][key])} for key in keys}

        return CallableSource(function=fetch)

    live = LiveCascade(cascade, {name: source(name) for name in NAMES})
    try:
        decisions = live.decide_now(list(range(n_rows)), {"amount": stakes})
        assert decisions.reason.tolist() == (REASONS * 5)[:n_rows]
        assert not {key for key in bought if REASONS[key % 8]}
        with pytest.raises(SourcesError, match="every row needs its stake"):
            live.decide_now([0])
    finally:
        live.close_now()


def test_a_file_keeps_the_cap(cascade, fresh, tmp_path):
    dump(cascade, tmp_path / "capped.emsco")
    loaded = load(tmp_path / "capped.emsco")
    assert loaded.decider_.cap == StakeCap("amount", 500.0)
    assert loaded.decide(fresh).reason.tolist() == REASONS
    assert fingerprint(loaded) == fingerprint(cascade)


@pytest.mark.parametrize("cap", [0, -1.0, np.inf, np.nan, "500", True, None])
def test_a_cap_is_a_number_above_0(cap):
    with pytest.raises(DecisionsError, match="`cap` must be a number above 0"):
        StakeCap("amount", cap)


def test_a_final_model_rejects_no_row():
    final = CascadeClassifier().fit(*rows(400, 0))
    fitted = CascadeClassifier(final=final, design=StageDesign([0, 1], NAMES)).fit(*rows(400, 3))
    with pytest.raises(DecisionsError, match="can have no cap"):
        fitted.decider_.capped(StakeCap("amount", 500))
