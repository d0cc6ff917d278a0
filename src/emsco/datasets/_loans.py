"""A made table of loans with what real tables have: dates, ids, copies, a leak, a rare class."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco.core.costs import Costs, Review, Source
from emsco.datasets._table_files import CostlyData
from emsco.exceptions import require

_DEFAULTED = 0.008  # share of loans that are not paid back
_REPEATED = 0.015  # share of rows that repeat another one
_PURPOSES = ("car", "kitchen", "debt", "travel", "other")
_RISK_OF_PURPOSE = np.array([-0.3, -0.2, 0.7, 0.1, 0.0])
_CHANNELS = ("branch", "web", "broker")
_REGIONS = ("01", "04", "10", "20", "30", "50", "60", "70", "80", "90")  # begins of postcodes
_RISK_OF_REGION = np.array([0.3, 1.2, 0.4, 0.0, 0.0, 0.2, 0.0, -0.4, -0.5, -0.2])
_WANTS = ("replace the old", "pay for a new", "repair the", "share the cost of a")
_THINGS = ("car before the winter", "kitchen after the move", "roof of the house", "family visit")
_REMARKS = ("Asked for the money this week.", "Has had an account since school.", "Called twice.")


def make_loans(n_rows: int = 24_000, *, year: int = 2023, random_state: int = 0) -> CostlyData:
    """Make a table of loans as tables come: 0.8% of them are not paid back.

    Nothing in it is real. `loan_id` has a value for each loan, and 1.5% of the rows repeat another
    row. `applied_on` and `employed_since` are dates. Postcodes such as 04300 begin with a zero,
    `currency` is always the same, `note` is long text, and values of `income` and `bureau_score`
    are missing. `collection_fees` is a leak: such fees are charged after a loan was not paid back.

    The costs skip `loan_id`, `applied_on`, `currency`, `note` and `collection_fees`. The form
    is free, the account costs 0.4, and the two parts of the bureau's file 0.9 and 1.2, with 0.6 for
    the first of them. Reading the documents costs 4.5, asking the employer 11, and a review 18.
    An error costs 150 on a loan that would have been paid back and is refused, and 2,500 on one
    that is granted and is not paid back (`costs.errors`).

    Parameters
    ----------
    n_rows : int, default=24_000
        The number of rows, repeated ones included.
    year : int, default=2023
        When the loans were applied for; nothing else depends on it.
    random_state : int, default=0
        The source of randomness.

    Examples
    --------
    >>> from emsco.datasets import make_loans
    >>> X, y, costs = make_loans()
    >>> X.postcode[0], X.applied_on[0], f"{(y == 'yes').mean():.1%}"
    ('10100', '2023-11-21', '0.8%')
    >>> costs.names
    ('form', 'account', 'bureau_score', 'bureau_file', 'documents', 'employer')
    >>> dict(costs.errors)
    {'no': 150.0, 'yes': 2500.0}
    """
    rng = np.random.default_rng(random_state)
    n_repeated = round(_REPEATED * n_rows)
    columns, risk = _applications(n_rows - n_repeated, year, rng)
    y = _defaulted(risk, rng)
    columns["collection_fees"] = _fees(y, rng)
    # Repeat some rows, and mix all.
    order = np.r_[np.arange(len(y)), rng.choice(len(y), n_repeated, replace=False)]
    order = rng.permutation(order)
    table = require("pandas").DataFrame({name: column[order] for name, column in columns.items()})
    return CostlyData(table, np.where(y[order], "yes", "no").astype(object), _costs())


def _applications(
    n_rows: int, year: int, rng: np.random.Generator
) -> tuple[dict[str, Any], NDArray[np.float64]]:
    """Make the columns of different applications, and the risk of each, in log odds."""
    strain = rng.normal(size=n_rows)  # how short of money somebody is: seen by no source alone
    day = np.datetime64(f"{year}-01-01") + rng.integers(0, 365, n_rows)
    employed = np.exp(rng.normal(7.0 - 0.35 * strain, 0.8)).clip(0, 15_000).round()  # days
    region = rng.integers(0, len(_REGIONS), n_rows)
    purpose = rng.choice(len(_PURPOSES), n_rows, p=[0.35, 0.2, 0.15, 0.1, 0.2])
    channel = rng.choice(len(_CHANNELS), n_rows, p=[0.45, 0.4, 0.15])
    months = rng.choice([12, 24, 36, 48, 60, 84], n_rows)
    income = (np.exp(rng.normal(7.8 - 0.12 * strain, 0.4)) / 10).round() * 10
    amount = np.exp(rng.normal(8.9, 0.6, n_rows)).round(-2)
    burden = amount / months / income
    forged = rng.random(n_rows) < np.where(channel == 2, 0.05, 0.008)
    risk = (
        1.8 * strain
        + 1.4 * np.minimum(burden / 0.12, 3)
        + 1.5 * (employed < 400)
        + 2.0 * ((channel == 2) & (strain > 0.8))
        + 4.5 * forged
        + _RISK_OF_PURPOSE[purpose]
        + _RISK_OF_REGION[region]
    )
    score = (610 - 60 * strain + 35 * rng.normal(size=n_rows)).round()
    digits = 100 * rng.integers(1, 9, n_rows)
    picked = (rng.integers(0, len(texts), n_rows) for texts in (_WANTS, _THINGS, _REMARKS))
    spoken = zip(*picked, amount, strict=True)
    columns = {
        "loan_id": _texts(f"L{number:07}" for number in rng.permutation(10 * n_rows)[:n_rows]),
        "applied_on": day.astype(str).astype(object),
        "channel": np.array(_CHANNELS, dtype=object)[channel],
        "purpose": np.array(_PURPOSES, dtype=object)[purpose],
        "currency": np.full(n_rows, "EUR", dtype=object),
        "amount": amount,
        "months": months,
        "income": np.where(rng.random(n_rows) < 0.06, np.nan, income),
        "employed_since": (day - employed.astype(np.int64)).astype(str).astype(object),
        "postcode": _texts(
            f"{_REGIONS[place]}{three:03}" for place, three in zip(region, digits, strict=True)
        ),
        "note": _texts(
            f"Customer wants to {_WANTS[want]} {_THINGS[thing]}, for {price:.0f} in all. "
            f"{_REMARKS[remark]}"
            for want, thing, remark, price in spoken
        ),
        "low_balance_days": (6 + 5 * strain + 4 * rng.normal(size=n_rows)).clip(0, 31).round(),
        "bounced_debits": rng.poisson(np.exp(-1.0 + 0.8 * strain)),
        "bureau_score": np.where(rng.random(n_rows) < 0.04, np.nan, score),
        "late_payments": rng.poisson(np.exp(-1.2 + 0.8 * strain)),
        "inquiries": rng.poisson(np.exp(0.3 + 0.4 * strain)),
        "documents_score": (75 - 35 * forged + 9 * rng.normal(size=n_rows)).clip(0, 100).round(),
        "employer_says": np.where(
            rng.random(n_rows) < np.where(forged, 0.85, 0.02),
            "unknown",
            np.where(rng.random(n_rows) < 0.15, "no answer", "confirmed"),
        ).astype(object),
    }
    return columns, risk


def _texts(texts: Iterable[str]) -> NDArray[np.object_]:
    return np.array([*texts], dtype=object)


def _defaulted(risk: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw the loans that are not paid back: the same number in every table of this size."""
    drawn = np.argsort(-(risk + rng.logistic(size=len(risk))), kind="stable")
    y = np.zeros(len(risk), dtype=np.bool_)
    y[drawn[: round(_DEFAULTED * len(risk))]] = True
    return y


def _fees(y: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.float64]:
    """Make the fees of collecting what was not paid back."""
    charged = rng.random(len(y)) < np.where(y, 0.99, 0.001)
    return np.where(charged, np.exp(rng.normal(4.5, 0.5, len(y))).round(2), 0.0)


def _costs() -> Costs:
    form = (
        "channel", "purpose", "amount", "months", "income", "employed_since", "postcode",
    )  # fmt: skip
    types = {"employed_since": "date", "postcode": "text"}
    bureau = ("late_payments", "inquiries")
    return Costs(
        [
            Source("form", features=form, cost=0, type=types),
            Source("account", features=("low_balance_days", "bounced_debits"), cost=0.4),
            Source("bureau_score", cost=0.9, setup="bureau"),
            Source("bureau_file", features=bureau, cost=1.2, setup="bureau"),
            Source("documents", features=("documents_score",), cost=4.5),
            Source("employer", features=("employer_says",), cost=11),
        ],
        setups={"bureau": 0.6},
        review=Review(18, accuracy=0.97),
        errors={"no": 150.0, "yes": 2500.0},
        unit="EUR",
        skipped=("loan_id", "applied_on", "currency", "note", "collection_fees"),
    )
