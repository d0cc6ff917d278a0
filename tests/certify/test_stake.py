"""Certificates of shares of a stake are false as rarely as they say, and enforce their cap."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from emsco import CascadeClassifier, CascadeSearchCV, dump, load
from emsco.certify import Certificate, Targets, certify, certify_together
from emsco.datasets import make_costly_classification
from emsco.exceptions import CertificateError, ColumnsError, DecisionsError, MonitorError
from emsco.monitor import CertificateMonitor
from emsco.rows.ledger import forget_all
from experiments.stake_certificates import SHARE, STAKES, look_at_stakes

DRAWS = 60
CAP = 80.0


@pytest.fixture(scope="module")
def table():
    X, y, costs = make_costly_classification(5000, 3, class_sep=3, random_state=0)
    stakes = np.random.default_rng(1).uniform(0, 100, len(y))
    return X, y, costs, stakes


@pytest.fixture(scope="module")
def search(table):
    X, y, costs, _ = table
    return CascadeSearchCV(costs=costs, threshold=[0.8, 0.95], random_state=0).fit(
        X[:2000], y[:2000]
    )


@pytest.fixture
def fresh(table):
    X, y, _, stakes = table
    return X[2000:], y[2000:], stakes[2000:]


@pytest.mark.parametrize("name", ["one huge stake", "errors at large stakes"])
def test_a_false_promise_is_as_rare_as_allowed(name):
    """Counting rows breaks it always; so does the largest stake of the sample if one is huge."""
    seeds = np.random.SeedSequence(7).spawn(DRAWS)
    looks = [look_at_stakes(name, seed) for seed in seeds]
    counts = {key: sum(look[key] for look in looks) for key in looks[0]}
    assert counts["false"] <= binom.ppf(0.9999, DRAWS, SHARE)
    assert counts["by rows"] == DRAWS
    if name == "one huge stake":
        assert counts["cap of the sample"] > binom.ppf(0.9999, DRAWS, SHARE)


def test_shares_at_the_boundary_are_exact():
    """The simulated populations have exactly the promised share of the stake wrong."""
    rng = np.random.default_rng(0)
    for name, case in STAKES.items():
        stakes = case.stakes(rng, 4_000_000)
        stakes = stakes[stakes <= case.cap]
        share = stakes @ case.wrong(stakes) / stakes.sum()
        assert share == pytest.approx(SHARE, rel=0.12 if "huge" in name else 0.01), name


def test_a_row_is_kept_in_proportion_to_its_stake(search, table):
    """None without a stake, and none above the cap; the coin falls anew for other rows."""
    X, y, _, _ = table
    kept = []
    for seed in range(12):
        forget_all()
        rng = np.random.default_rng(seed)
        stakes = rng.choice([0.0, 20.0, 80.0, 90.0], len(y) - 2000)
        certificate = certify(
            search.best_cascade_, X[2000:], y[2000:], accuracy=0.5, stake=stakes, cap=CAP
        )
        counts = [(stakes == value).sum() for value in (20.0, 80.0, 90.0)]
        kept.append((certificate.stake.kept - counts[1]) / counts[0])
        assert certificate.stake.kept >= counts[1], "a row at the cap is always kept"
        assert certificate.stake.above == counts[2]
    assert np.mean(kept) == pytest.approx(0.25, abs=0.02)
    assert len({round(share, 6) for share in kept}) > 8


def test_asking_again_in_any_order_keeps_the_same_rows(search, fresh):
    X, y, stakes = fresh
    asked = {"accuracy": 0.95, "cap": CAP}
    first = certify(search, X, y, stake=stakes, **asked)
    order = np.random.default_rng(0).permutation(len(y))
    again = certify(search, X.iloc[order], y[order], stake=stakes[order], **asked)
    assert again == first
    forget_all()  # as in another process
    assert certify(search, X, y, stake=stakes, **asked) == first


@pytest.mark.parametrize("change", ["cap", "stakes", "rows"])
def test_another_cap_or_stake_is_another_question(search, fresh, change):
    X, y, stakes = fresh
    certify(search, X, y, accuracy=0.95, stake=stakes, cap=CAP)
    other = {
        "cap": {"stake": stakes, "cap": CAP + 1},
        "stakes": {"stake": stakes * 1.01, "cap": CAP},
        "rows": {},
    }[change]
    with pytest.raises(CertificateError, match="already used"):
        certify(search, X, y, accuracy=0.95, **other)


def test_all_stakes_at_the_cap_count_as_rows_do(search, fresh):
    X, y, _ = fresh
    by_rows = certify(search, X, y, accuracy=0.95)
    forget_all()
    by_stake = certify(search, X, y, accuracy=0.95, stake=np.full(len(y), 7.0), cap=7)
    counted = [[c.evaluation for c in one.candidates] for one in (by_rows, by_stake)]
    assert counted[0] == counted[1]
    assert by_stake.stake.effective_rows == len(y)


def test_the_certificate_says_what_it_counts_and_how_many_rows_are_missing(search, fresh):
    X, y, stakes = fresh
    certificate = certify(search, X, y, accuracy=0.95, stake=stakes, cap=CAP)
    text = " ".join([certificate.sentence, *certificate.notes])
    assert "counting the stake 'stake' instead of rows and sending rows above 80 to review" in text
    below = stakes <= CAP
    assert certificate.stake.effective_rows == pytest.approx(stakes[below].sum() / CAP)
    assert f"Effective rows: {stakes[below].sum() / CAP:,.1f}" in text
    assert f"{(~below).sum():,} here" in text
    forget_all()
    few = certify(search, X, y, accuracy=0.95, stake=stakes, cap=1e6)
    assert not few.certified
    told = re.search(r"about ([\d,]+) calibration rows are needed, ([\d,]+) more", few.sentence)
    needed, more = (int(number.replace(",", "")) for number in told.groups())
    assert needed - more == len(y)
    assert needed > 100 * len(y)


def test_the_cost_is_that_of_all_rows(search, fresh):
    X, y, stakes = fresh
    cascade = search.best_cascade_
    certificate = certify(cascade, X, y, accuracy=0.9, stake=stakes, cap=CAP)
    capped = certificate.enforce(cascade)
    (one,) = certificate.candidates
    assert one.reached[0] == len(y)
    paid = capped.decide(X, stake=stakes).cost.mean()
    assert one.evaluation.cost == pytest.approx(paid)


def test_the_promise_is_about_the_cascade_that_enforces_the_cap(search, fresh, tmp_path):
    X, y, stakes = fresh
    certificate = certify(search, X, y, accuracy=0.95, stake=stakes, cap=CAP)
    chosen = search.cascade(certificate.select().candidate)
    assert not certificate.holds_for(chosen)
    with pytest.raises(CertificateError, match=r"cap on 'stake', 80, is not enforced"):
        certificate.check(chosen)
    capped = certificate.enforce(chosen)
    assert certificate.holds_for(capped)
    decisions = capped.decide(X, stake=stakes)
    assert not decisions.accepted[stakes > CAP].any()
    with pytest.raises(DecisionsError, match="every row needs its stake"):
        capped.decide(X)
    dump(capped, tmp_path / "capped.emsco")
    loaded = load(tmp_path / "capped.emsco")
    assert loaded.certificate_ == certificate
    assert loaded.certificate_.holds_for(loaded)
    with pytest.raises(MonitorError, match="counts the stake 'stake'"):
        CertificateMonitor.of(certificate, capped)


def test_a_stake_can_be_a_column_that_is_no_source(table):
    X, y, costs, stakes = table
    frame = pd.DataFrame(X, columns=costs.features)
    cascade = CascadeClassifier(costs=costs).fit(frame[:2000], y[:2000])
    fresh = frame[2000:].assign(amount=stakes[2000:])
    certificate = certify(cascade, fresh, y[2000:], accuracy=0.8, stake="amount", cap=CAP)
    capped = certificate.enforce(cascade)
    assert capped.decide(fresh).accepted[stakes[2000:] > CAP].sum() == 0
    with pytest.raises(DecisionsError, match="give the column 'amount'"):
        capped.decide(frame)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cap": None}, "`stake` and `cap` must be given together"),
        ({"stake": None}, "`stake` and `cap` must be given together"),
        ({"stake": [1.0]}, "one number for each of 3000 rows, got 1"),
        ({"stake": "amount"}, "lacks the column 'amount'"),
        ({"cap": -1}, "`cap` must be a number above 0"),
        ({"cap": 1e-9}, "No row has a stake above 0 and up to the cap"),
    ],
)
def test_what_is_no_stake_is_refused_and_the_rows_stay_fresh(search, fresh, change, message):
    X, y, stakes = fresh
    asked = {"accuracy": 0.95, "stake": stakes, "cap": CAP}
    with pytest.raises((CertificateError, ColumnsError, DecisionsError), match=message):
        certify(search, X, y, **(asked | change))
    certify(search, X, y, **asked)


@pytest.mark.parametrize("bad", [np.nan, -1.0, np.inf])
def test_a_stake_that_is_no_number_is_named_by_row(search, fresh, bad):
    X, y, stakes = fresh
    stakes = stakes.copy()
    stakes[17] = bad
    with pytest.raises(CertificateError, match=f"row 17 has {bad:g} in 'stake'"):
        certify(search, X, y, accuracy=0.95, stake=stakes, cap=CAP)


def test_agreement_and_final_models_take_no_stake(table, fresh):
    X, y, costs, _ = table
    final = CascadeClassifier().fit(X[:500], y[:500])
    cascade = CascadeClassifier(costs=costs, final=final).fit(X[500:1000], y[500:1000])
    asked = {"stake": fresh[2], "cap": CAP}
    with pytest.raises(CertificateError, match="`stake` cannot be certified of `agreement`"):
        certify(cascade, fresh[0], agreement=0.9, **asked)
    with pytest.raises(CertificateError, match="of a cascade with a final model"):
        certify(cascade, *fresh[:2], accuracy=0.9, final_fitted_elsewhere=True, **asked)


def test_rows_that_have_shown_figures_take_no_stake(search, fresh):
    X, y, stakes = fresh
    search.score_front(X, y)
    with pytest.raises(CertificateError, match="`stake` needs rows that have shown nothing"):
        certify(search, X, y, accuracy=0.95, stake=stakes, cap=CAP)


def test_a_cap_from_the_sample_is_doubted(search, fresh):
    X, y, stakes = fresh
    certificate = certify(search, X, y, accuracy=0.9, stake=stakes, cap=stakes.max())
    assert "this holds only if it was fixed before they were looked at" in certificate.sentence


def test_several_questions_share_the_coin(search, fresh):
    X, y, stakes = fresh
    questions = [Targets(accuracy=0.9), Targets(accuracy=0.95)]
    answers = certify_together(search, X, y, questions, stake=stakes, cap=CAP)
    assert len({answer.stake for answer in answers}) == 1


@pytest.mark.parametrize("name", ["kept", "cap", "total", "above", "column"])
def test_a_forged_file_is_refused_or_tells_another_cap(search, fresh, name):
    X, y, stakes = fresh
    certificate = certify(search, X, y, accuracy=0.9, stake=stakes, cap=CAP)
    data = certificate.to_data()
    assert Certificate.from_data(data) == certificate
    forged = {"kept": 1, "cap": -1.0, "total": 0.0, "above": 3000, "column": ""}[name]
    with pytest.raises(CertificateError):
        Certificate.from_data(data | {"stake": data["stake"] | {name: forged}})
