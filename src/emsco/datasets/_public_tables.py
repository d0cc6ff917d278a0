"""Public tables with prices for their columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

import numpy as np

from emsco._utils.frozen_mapping import FrozenMapping
from emsco.core.costs import Costs, Source
from emsco.core.validation import resolve_costs
from emsco.datasets._table_files import CostlyData, Folder, frame, read, rows
from emsco.exceptions import DatasetError, quoted, require

Choice = TypeVar("Choice")


def _one_of(what: str, option: object, known: Mapping[Any, Choice]) -> Choice:
    """Look an option up."""
    if option not in known:
        raise DatasetError(f"`{what}` must be one of {quoted(known)}, got {option!r}.")
    return known[option]


def _unpriced(name: str, folder: Folder) -> CostlyData:
    """Read a table for which no prices are published: every feature costs 1."""
    X, y = rows(name, folder)
    return CostlyData(X, y, resolve_costs(None, list(X)))


def _turney(
    name: str,
    folder: Folder,
    *,
    setups: Mapping[str, str] | None = None,
    more: Sequence[Source] = (),
    described: Mapping[str, str] = FrozenMapping(),
) -> Costs:
    """Read Turney's prices: the first test of a group costs the full price, the others less.

    The difference is the setup that the group shares; `setups` renames groups. `described` says
    what sources and setups are.
    """
    sources, prices = [], {}
    for test in frame(name, folder, keep_default_na=False).to_dict("records"):
        full, group = test["full_cost"], test.get("group") or None
        cost = test.get("discount_cost", full)
        if group is not None:
            group = (setups or {}).get(group, group)
            prices[group] = round(full - cost, 2)  # cents; 7.27 - 5.17 is not 2.1 in binary
        feature = test["feature"]
        words = described.get(feature, "")
        sources.append(Source(feature, cost=cost, setup=group, description=words))
    of_setups = {name: described[name] for name in prices if name in described}
    return Costs([*sources, *more], setups=prices, unit="CAD", descriptions=of_setups)


def load_pima(folder: Folder = None) -> CostlyData:
    """Load Pima Indians diabetes: 768 rows, 8 features, labels 0 and 1 (diabetes).

    The prices are Turney's; glucose and insulin share the cost of drawing blood. In glucose,
    blood_pressure, skin_thickness, insulin and bmi, 0 stands for a missing value, as in the
    original.

    Source: Pima Indians Diabetes, once at UCI; CC0 at Kaggle. Prices: Turney (1995).
    """
    X, y = rows("pima.csv", folder)
    return CostlyData(X, y, _turney("costs_pima.csv", folder, setups={"A": "blood"}))


def load_credit(folder: Folder = None) -> CostlyData:
    """Load Australian credit approval: 690 rows, 14 anonymised features, labels 0 and 1.

    The prices follow Hamilton and Fulp (CEC 2022): a feature costs 10, 100 or 1000, more if its
    Gini importance is higher; here by terciles of its importance in a random forest.

    Source: Statlog (Australian Credit Approval), UCI; CC BY 4.0.
    """
    # scikit-learn's forests take longer to import than all of this file.
    from sklearn.ensemble import RandomForestClassifier

    X, y = rows("credit.csv", folder)
    forest = RandomForestClassifier(n_estimators=200, random_state=0)
    importance = forest.fit(X.to_numpy(dtype=float), y).feature_importances_
    tercile = 1 + np.argsort(np.argsort(importance)) * 3 // len(importance)
    return CostlyData(X, y, Costs.per_feature((10.0**tercile).tolist(), list(X)))


def load_heart(folder: Folder = None) -> CostlyData:
    """Load heart failure records: 299 rows sorted by `time`, 12 features, labels 0 and 1 (died).

    The prices follow Hamilton and Fulp (CEC 2022): a feature costs 10 or 100; here 10 if it is
    asked and 100 if it is measured. `time`, the days of follow-up, is unknown when a patient
    arrives.

    Source: Heart Failure Clinical Records, UCI 519; CC BY 4.0.
    """
    questions = {"age", "anaemia", "diabetes", "high_blood_pressure", "sex", "smoking"}
    X, y = rows("heart.csv", folder)
    return CostlyData(X, y, Costs.per_feature({f: 10 if f in questions else 100 for f in X}))


_CLEVELAND = {
    "age": "age in years",
    "sex": "1 = male, 0 = female",
    "cp": "type of chest pain: typical angina, atypical angina, other pain, asymptomatic",
    "trestbps": "blood pressure at rest, on admission",
    "chol": "cholesterol in the blood",
    "fbs": "whether the blood sugar is above 120 mg/dl, fasting",
    "restecg": "electrocardiogram (ECG) at rest",
    "thalach": "highest heart rate during exercise",
    "exang": "whether exercise causes angina",
    "oldpeak": "how far exercise lowers the ST segment of the ECG",
    "slope": "slope of the ST segment at the peak of exercise",
    "ca": "number of major vessels, 0 to 3, that fluoroscopy shows",
    "thal": "thallium test: normal, a fixed or a reversible defect",
    "A": "a blood sample, for chol and fbs",
    "B": "an exercise test, for thalach and thal",
    "C": "an exercise test with ECG, for exang, oldpeak and slope",
}


def load_cleveland(folder: Folder = None) -> CostlyData:
    """Load Cleveland heart disease: 303 rows, 13 features, "healthy" or "sick".

    The prices are Turney's, and his groups are the setups: A (chol, fbs), B (thalach, thal) and C
    (exang, oldpeak, slope); descriptions say what each is. Four values of ca and two of thal are
    missing.

    Source: Heart Disease, UCI 45; CC BY 4.0. Prices: Turney (1995).
    """
    X, label = rows("heart_cleveland.csv", folder)
    y = np.where(label == 1, "sick", "healthy")
    return CostlyData(X, y, _turney("costs_heart_cleveland.csv", folder, described=_CLEVELAND))


def load_thyroid(folder: Folder = None, *, classes: Literal[2, 3] = 2) -> CostlyData:
    """Load thyroid disease: 7,200 rows, 21 features, "healthy" or "sick" (7.4 %).

    The prices are Turney's. With `classes=3` the labels are those of the original: 1 (2.3 %) and 2
    (5.1 %) are sick, 3 is healthy. The official 3,772 training rows come first, followed by the
    3,428 test rows. FTI is computed from TT4 and T4U: it is free and requires both.

    Source: Thyroid Disease, UCI 102; CC BY 4.0. Prices: Turney (1995).
    """
    as_given = _one_of("classes", classes, {2: False, 3: True})
    parts, labels = zip(
        *(rows(f"thyroid_{part}.csv", folder) for part in ("train", "test")), strict=True
    )
    X = require("pandas").concat(parts, ignore_index=True)
    label = np.concatenate(labels)
    y = label if as_given else np.where(label == 3, "healthy", "sick")
    computed = Source("FTI", cost=0, requires=("TT4", "T4U"))
    return CostlyData(X, y, _turney("costs_thyroid.csv", folder, more=[computed]))


def load_hepatitis(folder: Folder = None) -> CostlyData:
    """Load hepatitis: 155 rows, 19 features with many missing values, labels 0 and 1 (died).

    No published prices were found: every feature costs 1.

    Source: Hepatitis, UCI 46; CC BY 4.0.
    """
    return _unpriced("hepatitis.csv", folder)


def load_magic(folder: Folder = None) -> CostlyData:
    """Load MAGIC gamma telescope: 19,020 rows sorted by class, 10 features.

    The labels are 0 and 1 (gamma). Every feature costs 1.

    Source: MAGIC Gamma Telescope, UCI 159; CC BY 4.0.
    """
    return _unpriced("magic.csv", folder)


def load_spambase(folder: Folder = None) -> CostlyData:
    """Load Spambase: 4,601 rows sorted by class, 57 features.

    The labels are 0 and 1 (spam). Every feature costs 1.

    Source: Spambase, UCI; CC BY 4.0.
    """
    return _unpriced("spambase.csv", folder)


def load_phishing(folder: Folder = None, *, sources: Literal[7, 13] = 7) -> CostlyData:
    """Load web page phishing: 11,430 rows, 87 features, "legitimate" or "phishing".

    No prices are published. With 7 sources, the text of the URL costs 1, fetching the page 30,
    whois 100, and four services 5 to 50 each. With 13 sources, URL, page and whois are split into
    three sources each, with a price of 1. The sources of the page share the setup "fetch" of 27,
    those of whois the setup "whois" of 97. In domain_age and domain_registration_length, -1 stands
    for unknown.

    Source: Hannousse and Yahiouche, Web page phishing detection (doi 10.17632/c2gw7fy2j4), Mendeley
    Data; CC BY 4.0.
    """
    make = _one_of("sources", sources, {7: _phishing7, 13: _phishing13})
    X, label = rows("phishing.csv.gz", folder)
    y = np.where(label == 1, "phishing", "legitimate")
    return CostlyData(X, y, make(list(X)))


_SERVICES = (
    Source("web_traffic", cost=50),
    Source("dns_record", cost=5),
    Source("google_index", cost=40),
    Source("page_rank", cost=40),
)


def _phishing7(names: list[str]) -> Costs:
    return Costs(
        [
            Source("url", features=names[:56], cost=1),
            Source("page", features=names[56:80], cost=30),
            Source("whois", features=names[80:83], cost=100),
            *_SERVICES,
        ]
    )


def _phishing13(names: list[str]) -> Costs:
    def block(name: str, start: int, stop: int, setup: str | None = None) -> Source:
        return Source(name, features=names[start:stop], cost=1, setup=setup)

    return Costs(
        [
            block("url_1", 0, 20),
            block("url_2", 20, 40),
            block("url_3", 40, 56),
            block("page_1", 56, 64, "fetch"),
            block("page_2", 64, 72, "fetch"),
            block("page_3", 72, 80, "fetch"),
            *(Source(name, cost=1, setup="whois") for name in names[80:83]),
            *_SERVICES,
        ],
        setups={"fetch": 27, "whois": 97},
    )


def _connections(name: str, folder: Folder) -> CostlyData:
    """Read connections of KDD Cup 1999, in the four sources that its columns come from."""
    X, label = rows(name, folder)
    names = list(X)
    costs = Costs(
        [
            Source("header", features=names[:9], cost=1),
            Source("content", features=names[9:22], cost=10),
            Source("time_window", features=names[22:31], cost=5),
            Source("host_window", features=names[31:], cost=20),
        ]
    )
    return CostlyData(X, np.where(label == 1, "attack", "normal"), costs)


def load_kdd(folder: Folder = None) -> CostlyData:
    """Load KDD Cup 1999 without duplicates: 145,586 rows, 41 features, "attack" or "normal".

    No prices are published. There are 4 sources: the header costs 1, the content 10, the time
    window 5 and the host window 20. Three features are text.

    Source: KDD Cup 1999, UCI 130. Not part of the package.
    """
    return _connections("kddcup99_dedup.csv.gz", folder)


def load_nslkdd(folder: Folder = None, *, part: Literal["train", "test"] = "train") -> CostlyData:
    """Load NSL-KDD, with the columns, labels and prices of `load_kdd`.

    The training part is KDDTrain+_20Percent with 25,192 rows, the test part KDDTest+ with 22,544.
    The test part contains kinds of attack that the training part does not.

    Source: NSL-KDD, University of New Brunswick. Not part of the package.
    """
    files = {"train": "nslkdd_train20.csv.gz", "test": "nslkdd_test.csv.gz"}
    return _connections(_one_of("part", part, files), folder)


def load_covtype(folder: Folder = None, *, classes: Literal[2, 7] = 2) -> CostlyData:
    """Load forest cover types: 581,012 rows, 54 features in 12 sources.

    y is 1 for cover type 2 and 0 for the others; with `classes=7` it is the cover type, 1 to 7. No
    prices are published; here they are 1 to 5, and 20 for the soil. A hillshade is computed from
    aspect and slope: it costs 1 and requires both.

    Source: Covertype, UCI 31; CC BY 4.0. Not part of the package.
    """
    labels = _one_of("classes", classes, {2: None, 7: "covtype_class7.csv.gz"})
    X, y = rows("covtype.csv.gz", folder)
    if labels is not None:
        y = frame(labels, folder)["cover_type"].to_numpy()
    prices = {
        "Elevation": 2, "Aspect": 2, "Slope": 2,
        "Horizontal_Distance_To_Hydrology": 5, "Vertical_Distance_To_Hydrology": 5,
        "Horizontal_Distance_To_Roadways": 4, "Horizontal_Distance_To_Fire_Points": 4,
    }  # fmt: skip
    shades = ("Hillshade_9am", "Hillshade_Noon", "Hillshade_3pm")
    names = list(X)
    costs = Costs(
        [
            *(Source(name, cost=price) for name, price in prices.items()),
            *(Source(name, cost=1, requires=("Aspect", "Slope")) for name in shades),
            Source("wilderness_area", features=names[10:14], cost=1),
            Source("soil_type", features=names[14:], cost=20),
        ]
    )
    return CostlyData(X, y, costs)


def load_example(
    folder: Folder = None, *, part: Literal["train", "val", "test"] = "train"
) -> CostlyData:
    """Load the example of the EMSCO authors' script: 15 synthetic features with prices, 0 or 1.

    The parts "train", "val" and "test" have 1,999, 999 and 999 rows.

    Source: the public script of the authors of EMSCO; MIT.
    """
    files = {name: f"emsco_example_{name}.csv" for name in ("train", "val", "test")}
    X, y = rows(_one_of("part", part, files), folder)
    prices = read("emsco_example_costs.txt", folder).decode().split(",")
    return CostlyData(X, y, Costs.per_feature([float(price) for price in prices], list(X)))
