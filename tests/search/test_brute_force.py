"""The exact front is that of fitting and deciding every design with `CascadeClassifier`."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import as_brute_force, brute_force, every_design, make_fitter, problem_of

from emsco import Candidate, CascadeClassifier, Costs, ParetoFront, evaluate
from emsco.core.threshold import resolve
from emsco.engine import LocalEngine
from emsco.learners import logistic
from emsco.learners.logistic import fit_default
from emsco.learners.protocol import Fold
from emsco.search._outcome_table import OutcomeTable
from emsco.search._problem import Problem
from emsco.search.strategies import exhaustive
from emsco.search.strategies.exhaustive import Exhaustive
from emsco.search.strategies.hybrid import Hybrid
from emsco.search.strategies.local_search import LocalSearch

pytestmark = pytest.mark.nightly

SETS = [
    "pima.csv", "credit.csv", "heart.csv", "spambase.csv", "heart_cleveland.csv",
    "thyroid_train.csv", "hepatitis.csv", "magic.csv", "phishing.csv.gz", "covtype.csv.gz",
    "kddcup99_dedup.csv.gz", "nslkdd_train20.csv.gz", "emsco_example_train.csv",
]  # fmt: skip


@pytest.fixture
def fits_kept(monkeypatch):
    """Keep fits by the bytes that they were given: thousands of stages are given the same."""
    known = {}

    def fit(X, y, **params):
        assert not params
        key = (X.shape, X.tobytes(), y.tobytes())
        if key not in known:
            known[key] = fit_default(X, y)
        return known[key]

    monkeypatch.setattr(logistic, "fit_default", fit)
    return known


@pytest.mark.parametrize("name", SETS)
def test_the_exact_front_is_that_of_fitting_every_design(name, data_folder, fits_kept):
    """Up to five stages over five sources, a thousand rows."""
    rng = np.random.default_rng(len(name))
    frame = pd.read_csv(data_folder / name, nrows=200_000)
    frame = frame.sample(min(1000, len(frame)), random_state=1).reset_index(drop=True)
    y = frame.pop("label").to_numpy()
    varied = [c for c in frame if len(frame[c].unique()) > 1]
    frame = frame[[varied[i] for i in sorted(rng.choice(len(varied), 5, replace=False))]]
    half = len(frame) // 2
    train, fresh = np.arange(half), np.arange(half, len(frame))
    # A value missing on selection rows must be known from training, as it is here by chance or not.
    frame = frame[[c for c in frame if frame[c][:half].isna().any() or frame[c].notna().all()]]
    costs = Costs.per_feature(rng.integers(1, 30, frame.shape[1]).tolist(), list(frame))
    classes, codes = np.unique(y, return_inverse=True)

    columns = {c: frame[c].array for c in frame}
    sources = [costs.columns(source) for source in costs.names]
    fitter = make_fitter(
        None, columns, "pandas", codes, [Fold(train, fresh)], sources
    )  # fmt: skip
    table = OutcomeTable(
        fitter, codes[fresh], len(sources), resolve(0.8, classes.tolist(), 1)
    )  # fmt: skip
    problem = Problem(table, costs, classes.tolist(), [0.8], 5, allow_unused=False)
    front, (history,) = Exhaustive().run(problem)

    brute = []
    for design in every_design(problem):
        cascade = CascadeClassifier(design=design, costs=costs, threshold=0.8)
        decisions = cascade.fit(frame[:half], y[:half]).decide(frame[half:])
        brute.append(Candidate(design, 0.8, evaluate(decisions, y[half:])))
    assert history["designs"] == len(brute)
    assert len(fits_kept) == len(table)  # every set was fitted, and none by the search
    expected = ParetoFront(brute, costs)

    def counted(front):
        return [
            (c.design, c.evaluation.accepted, c.evaluation.right, round(c.evaluation.paid),
             dict(c.evaluation.class_right))
            for c in front
        ]  # fmt: skip

    assert counted(front) == counted(expected)


def test_real_fits_give_the_same_front_with_any_number_of_workers(data_folder):
    """Bit for bit: chunks of sets are formed in the parent, whoever fits them."""
    frame = pd.read_csv(data_folder / "credit.csv").sample(frac=1, random_state=0)
    y = frame.pop("label").to_numpy()
    columns = {c: frame[c].to_numpy() for c in frame}
    costs = Costs.per_feature(list(range(1, 15)), list(frame))
    sources = [costs.columns(source) for source in costs.names]
    fold = Fold(np.arange(345), np.arange(345, 517))
    fronts = []
    for n_jobs in (1, 2):
        fitter = make_fitter(None, columns, "array", y, [fold], sources)
        table = OutcomeTable(
            fitter, y[fold.test], 14, resolve(0.75, [0, 1], 1), engine=LocalEngine(n_jobs)
        )
        problem = Problem(table, costs, [0, 1], [0.75], 4, allow_unused=False)
        exact = Exhaustive().run(problem)
        found = Hybrid(local=LocalSearch(20_000)).run(problem, np.random.default_rng(3))
        fronts.append((exact, found, table.accepted.tobytes(), table.right.tobytes()))
    assert fronts[0] == fronts[1]


SHARES = st.dictionaries(st.sampled_from("abc"), st.integers(0, 20).map(lambda n: n / 20))


@settings(max_examples=200)
@given(
    n_sources=st.integers(1, 4),
    max_stages=st.integers(1, 4),
    n_rows=st.integers(1, 70),
    seed=st.integers(0, 99),
    threshold=st.sampled_from([0.4, 0.6, 0.75]),
    slope=st.sampled_from([-0.5, 0.5]),
    allow_unused=st.booleans(),
    listed=st.booleans(),
    max_rejected=SHARES,
    max_missed=st.just({}) | SHARES,
)
def test_the_exact_front_keeps_to_what_may_be_rejected(n_sources, threshold, listed, **params):
    """What a chain rejects shrinks as it goes on, so that only where it ends it may be too much."""
    problem = problem_of(n_sources, thresholds=(threshold,), n_classes=3, **params)
    with pytest.MonkeyPatch.context() as patched:
        if listed:
            patched.setattr(exhaustive, "DENSE_BYTES", 0)
            patched.setattr(exhaustive, "_LIST_ENTRIES", 20)
        result = Exhaustive().run(problem)
    assert as_brute_force(problem, result) == brute_force(problem)
    assert result.history[0]["designs"] == len(every_design(problem))
