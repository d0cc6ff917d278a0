"""Data sets are the published ones, every column priced once; made ones are as asked."""

from __future__ import annotations

import pickle
import re
import shutil
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from emsco import CascadeClassifier, StageDesign
from emsco.datasets import (
    CostlyData,
    _table_files,
    load_cleveland,
    load_covtype,
    load_credit,
    load_example,
    load_heart,
    load_hepatitis,
    load_kdd,
    load_magic,
    load_nslkdd,
    load_phishing,
    load_pima,
    load_spambase,
    load_thyroid,
    make_costly_classification,
    make_loans,
)
from emsco.exceptions import CostsError, DatasetError, EmscoError

# name: loader, rows, columns, sources, rows of each class, price of everything
PUBLISHED = {
    "pima": (load_pima, 768, 8, 8, {0: 500, 1: 268}, 44.29),
    "credit": (load_credit, 690, 14, 14, {0: 383, 1: 307}, 4550),
    "heart": (load_heart, 299, 12, 12, {0: 203, 1: 96}, 660),
    "cleveland": (load_cleveland, 303, 13, 13, {"healthy": 164, "sick": 139}, 323.97),
    "thyroid": (load_thyroid, 7200, 21, 21, {"healthy": 6666, "sick": 534}, 76.11),
    "hepatitis": (load_hepatitis, 155, 19, 19, {0: 123, 1: 32}, 19),
    "magic": (load_magic, 19020, 10, 10, {0: 6688, 1: 12332}, 10),
    "spambase": (load_spambase, 4601, 57, 57, {0: 2788, 1: 1813}, 57),
    "phishing": (load_phishing, 11430, 87, 7, {"legitimate": 5715, "phishing": 5715}, 266),
    "phishing 13": (
        partial(load_phishing, sources=13), 11430, 87, 13,
        {"legitimate": 5715, "phishing": 5715}, 268,
    ),
    "kdd": (load_kdd, 145_586, 41, 4, {"attack": 57_754, "normal": 87_832}, 36),
    "nslkdd": (load_nslkdd, 25_192, 41, 4, {"attack": 11_743, "normal": 13_449}, 36),
    "nslkdd test": (
        partial(load_nslkdd, part="test"), 22_544, 41, 4, {"attack": 12_833, "normal": 9_711}, 36,
    ),
    "example": (load_example, 1999, 15, 15, {0: 985, 1: 1014}, 171),
    "example val": (partial(load_example, part="val"), 999, 15, 15, {0: 503, 1: 496}, 171),
    "example test": (partial(load_example, part="test"), 999, 15, 15, {0: 517, 1: 482}, 171),
    "covtype 7": (
        partial(load_covtype, classes=7), 581_012, 54, 12,
        {1: 211_840, 2: 283_301, 3: 35_754, 4: 2_747, 5: 9_493, 6: 17_367, 7: 20_510}, 48,
    ),
}  # fmt: skip
SMALL = [name for name, (_, n_rows, *_) in PUBLISHED.items() if n_rows < 8000]


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_table_is_the_published_one_with_each_column_priced_once(name, data_folder):
    load, n_rows, n_features, n_sources, counts, total = PUBLISHED[name]
    X, y, costs = load(data_folder)
    assert X.shape == (n_rows, n_features)
    assert y.shape == (n_rows,)
    assert list(X.index[[0, -1]]) == [0, n_rows - 1]
    assert "label" not in X
    assert len(costs.names) == n_sources
    owned = [feature for source in costs.sources for feature in source.features]
    assert sorted(owned) == sorted(X)
    assert costs.total == total
    assert Counter(y.tolist()) == counts


@pytest.mark.parametrize("name", SMALL)
def test_a_cascade_fits_and_decides_each_small_one(name, data_folder):
    """The sources that require nothing come first, so requirements hold."""
    X, y, costs = PUBLISHED[name][0](data_folder)
    stages = [
        [source.name for source in costs.sources if source.cost <= 1 and not source.requires],
        [source.name for source in costs.sources if source.cost > 1 or source.requires],
    ]
    stages = [stage for stage in stages if stage]
    cascade = CascadeClassifier(
        design=StageDesign.from_stages(stages), costs=costs, threshold=0.8
    ).fit(X, y)
    decisions = cascade.decide(X)
    assert set(cascade.classes_) == set(y)
    assert np.mean(cascade.predict(X) == y) > max(Counter(y).values()) / len(y)
    assert max(decisions.cost) <= costs.total


def test_a_large_data_set_is_found_by_the_environment_variable(data_folder, monkeypatch):
    monkeypatch.setenv("EMSCO_DATA", str(data_folder))
    loaded = load_nslkdd()
    assert isinstance(loaded, CostlyData)
    assert loaded.X.equals(load_nslkdd(str(data_folder)).X)


LARGE = ("kdd", "nslkdd", "nslkdd test", "covtype", "covtype 7")
PACKED = {name: load for name, (load, *_) in PUBLISHED.items() if name not in LARGE}


@pytest.mark.parametrize("name", PACKED)
def test_small_tables_are_part_of_the_package_and_are_the_published_ones(
    name, data_folder, tmp_path, monkeypatch
):
    """Whatever the environment says, and from any folder."""
    monkeypatch.setenv("EMSCO_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    X, y, costs = PACKED[name]()
    published = PACKED[name](data_folder)
    assert X.equals(published.X)
    assert (y == published.y).all()
    assert costs == published.costs


def test_the_package_holds_less_than_two_megabytes_of_tables_each_with_its_licence():
    root = Path(_table_files.__file__).parent
    files = sorted((root / "tables").iterdir())
    assert sum(path.stat().st_size for path in files) < 2_000_000
    notice = (Path(__file__).parents[2] / "NOTICE").read_text(encoding="utf-8")
    for path in files:
        name = path.name.removesuffix(".gz")
        assert name in notice or (name.startswith("emsco_example_") and "emsco_example_*" in notice)
    for load in PACKED.values():
        assert "Source: " in getattr(load, "func", load).__doc__


def test_thyroid_has_three_classes_where_asked():
    two, three = load_thyroid(), load_thyroid(classes=3)
    assert Counter(three.y.tolist()) == {1: 166, 2: 368, 3: 6666}
    assert ((three.y == 3) == (two.y == "healthy")).all()
    assert three.X.equals(two.X)


def test_pima_shares_the_drawing_of_blood(data_folder):
    costs = load_pima(data_folder).costs
    assert costs.unit == "CAD"
    assert costs.setups == {"blood": 2.1}
    assert costs.of(["glucose"]) == 17.61
    assert costs.of(["insulin"]) == 22.78
    assert costs.of(["insulin"], paid=["glucose"]) == 20.68


def test_cleveland_has_turneys_three_groups(data_folder):
    costs = load_cleveland(data_folder).costs
    assert costs.unit == "CAD"
    assert costs.setups == {"A": 2.1, "B": 101.9, "C": 86.3}
    groups = {source.name: source.setup for source in costs.sources if source.setup}
    assert groups == {
        "chol": "A", "fbs": "A", "thalach": "B", "thal": "B",
        "exang": "C", "oldpeak": "C", "slope": "C",
    }  # fmt: skip
    assert costs.of(["thal"]) == 102.9
    assert costs.of(["exang", "oldpeak", "slope"]) == 89.3


def test_credit_prices_five_features_at_10_five_at_100_and_four_at_1000(data_folder):
    prices = {source.name: source.cost for source in load_credit(data_folder).costs.sources}
    assert Counter(prices.values()) == {10: 5, 100: 5, 1000: 4}
    assert prices["A8"] == 1000  # the feature that decides most applications


def test_heart_is_cheap_to_ask_and_dear_to_measure(data_folder):
    costs = load_heart(data_folder).costs
    assert {source.name for source in costs.sources if source.cost == 10} == {
        "age", "anaemia", "diabetes", "high_blood_pressure", "sex", "smoking",
    }  # fmt: skip


def test_thyroids_fti_is_free_and_comes_with_what_it_is_computed_from(data_folder):
    X, _, costs = load_thyroid(data_folder)
    assert costs.unit == "CAD"
    assert list(X) == list(costs.names)
    assert costs.of(["FTI"]) == 0
    assert costs.unmet(["FTI", "TT4"]) == (("FTI", "T4U"),)
    assert costs.of(["TSH", "T3"]) == 34.19


def test_phishing_in_seven_sources(data_folder):
    X, _, costs = load_phishing(data_folder)
    sizes = [(source.name, len(source.features), source.cost) for source in costs.sources]
    assert sizes == [
        ("url", 56, 1), ("page", 24, 30), ("whois", 3, 100), ("web_traffic", 1, 50),
        ("dns_record", 1, 5), ("google_index", 1, 40), ("page_rank", 1, 40),
    ]  # fmt: skip
    assert costs.columns("whois") == (
        "whois_registered_domain", "domain_registration_length", "domain_age",
    )  # fmt: skip
    assert [f for source in costs.sources for f in source.features] == list(X)


def test_phishing_in_thirteen_sources_pays_a_fetch_and_a_whois_query_once(data_folder):
    X, _, costs = load_phishing(data_folder, sources=13)
    assert [len(source.features) for source in costs.sources] == [20, 20, 16, 8, 8, 8] + 7 * [1]
    assert [f for source in costs.sources for f in source.features] == list(X)
    assert costs.setups == {"fetch": 27, "whois": 97}
    assert costs.of(["url_1", "url_2", "url_3"]) == 3
    assert costs.of(["page_1"]) == 28
    assert costs.of(["page_1", "page_2", "page_3"]) == 30
    assert costs.of(["domain_age"]) == 98
    assert costs.of(["domain_age"], paid=["domain_registration_length"]) == 1
    assert costs.of(["web_traffic", "dns_record", "google_index", "page_rank"]) == 135


def test_connections_come_in_four_sources(data_folder):
    costs = load_nslkdd(data_folder).costs
    ends = {s.name: (len(s.features), s.features[0], s.features[-1]) for s in costs.sources}
    assert ends == {
        "header": (9, "duration", "urgent"),
        "content": (13, "hot", "is_guest_login"),
        "time_window": (9, "count", "srv_diff_host_rate"),
        "host_window": (10, "dst_host_count", "dst_host_srv_rerror_rate"),
    }
    assert [source.cost for source in costs.sources] == [1, 10, 5, 20]


def test_the_example_has_its_scripts_prices(data_folder):
    costs = load_example(data_folder).costs
    prices = [source.cost for source in costs.sources]
    assert prices == [12, 16, 9, 16, 17, 1, 16, 21, 4, 1, 18, 15, 8, 2, 15]


def test_covtypes_hillshades_need_aspect_and_slope(data_folder):
    _, y, costs = load_covtype(data_folder)
    assert np.bincount(y).tolist() == [297_711, 283_301]
    assert costs.total == 48
    shades = [source.name for source in costs.sources if source.requires]
    assert shades == ["Hillshade_9am", "Hillshade_Noon", "Hillshade_3pm"]
    assert costs.unmet(shades[:1]) == ((shades[0], "Aspect"), (shades[0], "Slope"))
    assert costs.of(shades) == 3
    assert len(costs.columns("wilderness_area")) == 4
    assert len(costs.columns("soil_type")) == 40
    assert costs.of(["wilderness_area", "soil_type"]) == 21


def test_every_known_file_says_where_it_is_public():
    known = _table_files.registry()
    packed = {path.name for path in (Path(_table_files.__file__).parent / "tables").iterdir()}
    assert packed <= {f"{name.removesuffix('.gz')}.gz" for name in known}
    assert all(
        re.fullmatch(r"[0-9a-f]{64}", sha256) and public for sha256, public in known.values()
    )


def test_without_a_folder_the_error_says_what_to_get_and_what_to_set(monkeypatch):
    monkeypatch.delenv("EMSCO_DATA", raising=False)
    with pytest.raises(DatasetError, match="is not part of the package") as raised:
        load_covtype()
    message = str(raised.value)
    for told in ("covtype.csv.gz", "UCI Covertype", "sha256 b683ff68", "EMSCO_DATA"):
        assert told in message
    assert isinstance(raised.value, EmscoError)
    assert isinstance(raised.value, FileNotFoundError)
    assert str(pickle.loads(pickle.dumps(raised.value))) == message


def test_a_missing_file_is_named_with_its_folder(tmp_path, data_folder):
    with pytest.raises(DatasetError, match=r"magic\.csv is not in .*UCI MAGIC.*sha256 aabb8506"):
        load_magic(tmp_path)
    shutil.copy(data_folder / "pima.csv", tmp_path)
    with pytest.raises(DatasetError, match=r"costs_pima\.csv is not in .*Turney 1995"):
        load_pima(tmp_path)


def test_an_altered_file_is_refused(tmp_path, data_folder):
    """One flipped label would change every figure and nothing else."""
    original = (data_folder / "heart.csv").read_bytes()
    (tmp_path / "heart.csv").write_bytes(original[:-2] + b"1\n")
    with pytest.raises(DatasetError, match=r"heart\.csv is not the expected.*sha256 adabe9ef"):
        load_heart(tmp_path)


@pytest.mark.parametrize(
    ("load", "message"),
    [
        (partial(load_phishing, sources=8), "`sources` must be one of 7, 13, got 8"),
        (partial(load_thyroid, classes=4), "`classes` must be one of 2, 3, got 4"),
        (partial(load_covtype, classes=3), "`classes` must be one of 2, 7, got 3"),
        (partial(load_nslkdd, part="val"), "`part` must be one of 'train', 'test', got 'val'"),
        (partial(load_example, part="all"), "`part` must be one of 'train', 'val', 'test'"),
    ],
)
def test_an_unknown_option_is_answered_with_the_known_ones(load, message, data_folder):
    with pytest.raises(DatasetError, match=message):
        load(data_folder)


def test_numbers_are_read_to_the_last_bit(data_folder):
    """Older versions of pandas miss it in a quarter of these, unless told."""
    lines = (data_folder / "emsco_example_train.csv").read_text().splitlines()[1:]
    written = [[float(value) for value in line.split(",")[:-1]] for line in lines]
    np.testing.assert_array_equal(load_example(data_folder).X.to_numpy(), written)


def test_the_module_is_imported_without_pandas_which_only_its_functions_need(refused_without):
    """scikit-learn loads pandas where there is one, so it is hidden from both."""
    code = "from emsco import datasets; print('imported'); datasets.make_costly_classification()"
    imported, told = refused_without("pandas", code).splitlines()
    assert imported == "imported"
    assert "pip install 'pandas'" in told


@settings(max_examples=25)
@given(
    n_sources=st.integers(1, 5),
    features_per_source=st.integers(1, 3),
    n_classes=st.integers(2, 4),
    seed=st.integers(0, 99),
)
def test_made_problems_are_as_asked(n_sources, features_per_source, n_classes, seed):
    make = partial(
        make_costly_classification,
        60, n_sources, features_per_source=features_per_source, n_classes=n_classes,
    )  # fmt: skip
    X, y, costs = make(random_state=seed)
    assert X.shape == (60, n_sources * features_per_source)
    assert costs.names == tuple(f"s{i}" for i in range(n_sources))
    assert [f for source in costs.sources for f in source.features] == list(X)
    assert list(X)[-1] == f"s{n_sources - 1}" + f"_{features_per_source - 1}" * (
        features_per_source > 1
    )
    assert [source.cost for source in costs.sources] == [2**i for i in range(n_sources)]
    assert np.issubdtype(y.dtype, np.integer)
    assert np.bincount(y).tolist() == [60 // n_classes] * n_classes
    again = make(random_state=np.random.default_rng(seed))
    assert X.equals(again.X)
    assert (y == again.y).all()


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("features_per_source", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_dearer_sources_tell_more(n_classes, features_per_source, seed):
    X, y, costs = make_costly_classification(
        6000, n_classes=n_classes, features_per_source=features_per_source, random_state=seed
    )
    accuracies = [
        LogisticRegression().fit(X[list(source.features)], y).score(X[list(source.features)], y)
        for source in costs.sources
    ]
    assert (np.diff(accuracies) > 0).all()
    assert accuracies[0] > 1 / n_classes
    together = LogisticRegression().fit(X, y).score(X, y)
    assert together > accuracies[-1]


def test_classes_further_apart_are_easier_to_tell():
    accuracies = []
    for class_sep in (0.5, 1, 2):
        X, y, _ = make_costly_classification(class_sep=class_sep, random_state=0)
        accuracies.append(LogisticRegression().fit(X, y).score(X, y))
    assert accuracies == sorted(accuracies)
    assert accuracies[0] < 0.9 < 0.99 < accuracies[-1]


@pytest.mark.parametrize("none", [{"n_sources": 0}, {"features_per_source": 0}])
def test_a_problem_without_features_is_refused(none):
    with pytest.raises(CostsError, match="at least one"):
        make_costly_classification(**none)


# The messy table ---------------------------------------------------------------------------------


def test_loans_are_the_same_at_every_call_and_others_by_seed_and_year():
    one, again = make_loans(3000), make_loans(3000)
    assert one.X.equals(again.X)
    assert one.y.tolist() == again.y.tolist()
    assert not make_loans(3000, random_state=1).X.equals(one.X)
    later = make_loans(3000, year=2024)
    assert set(later.X.applied_on.str[:4]) == {"2024"}
    assert later.X.drop(columns=["applied_on", "employed_since"]).equals(
        one.X.drop(columns=["applied_on", "employed_since"])
    )


def test_loans_are_as_messy_as_their_docstring_says():
    X, y, costs = make_loans()
    assert X.shape == (24_000, 19)
    assert (y == "yes").mean() == pytest.approx(0.008, abs=5e-4)
    assert X.duplicated().sum() == 360
    once = X.drop_duplicates()
    assert once.loan_id.is_unique
    assert X.currency.nunique() == 1
    assert X.postcode.str.fullmatch(r"\d{5}").all()
    assert 0.1 < X.postcode.str.startswith("0").mean() < 0.3
    assert X.note.str.len().min() > 60
    assert set(X.columns[X.isna().any()]) == {"income", "bureau_score"}
    leak = np.where(X.collection_fees > 0, "yes", "no")
    assert (leak[y == "yes"] == "yes").mean() > 0.95
    assert (leak == y).mean() > 0.99
    unpriced = X.columns.difference(costs.features)
    assert set(unpriced) == {"loan_id", "applied_on", "currency", "note", "collection_fees"}
    assert costs.errors == {"no": 150.0, "yes": 2500.0}
