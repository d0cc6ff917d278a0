"""A certificate as data: it comes back whole, and it is held against the cascade beside it."""

from __future__ import annotations

import copy
import json
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from emsco import CascadeClassifier, CascadeSearchCV, InputGuard, dump, load
from emsco.certify import Certificate, certify
from emsco.datasets import make_costly_classification
from emsco.exceptions import ArtifactError, CertificateError, CertificateWarning
from emsco.monitor import CertificateMonitor
from emsco.rows.ledger import forget_all
from tests.soak.forgeries import opened, seal

sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))
from commands import call


@pytest.fixture(scope="module")
def data():
    return make_costly_classification(3000, 3, class_sep=3, random_state=0)


@pytest.fixture(scope="module")
def found(data):
    X, y, costs = data
    search = CascadeSearchCV(costs=costs, threshold=[0.7, 0.9], guard=InputGuard(), cv=3)
    return search.fit(X[:1000], y[:1000])


@pytest.fixture(scope="module")
def several(found, data):
    """Certify many candidates, for targets of every kind."""
    X, y, _ = data
    asked = {"accuracy": 0.8, "max_missed": {0: 0.3}, "min_coverage": 0.4, "max_cost": 6.5}
    forget_all()  # the cascade of these tests may have been asked on the same rows
    return certify(copy.deepcopy(found), X[1000:], y[1000:], **asked)


@pytest.fixture(scope="module")
def certified(data):
    """Give a cascade with a certificate of its own."""
    X, y, costs = data
    cascade = CascadeClassifier(costs=costs, guard=InputGuard()).fit(X[:1000], y[:1000])
    forget_all()  # the search of these tests may have been asked on the same rows
    cascade.certificate_ = certify(cascade, X[1000:], y[1000:], accuracy=0.8)
    assert cascade.certificate_.certified
    return cascade


def forged(model, path, change):
    """Write a file with every hash right, but changed."""
    dump(model, path)
    manifest, members = opened(path.read_bytes())
    change(manifest)
    seal(manifest, members, path)
    return path


def halve_a_limit(manifest):
    manifest["model"]["training"]["guard"]["dict"]["columns"]["dict"]["s0"]["dict"]["high"] /= 2


def test_a_certificate_comes_back_whole(several):
    assert len(several.candidates) > 1
    assert Certificate.from_data(several.to_data()) == several


def test_one_that_could_not_be_given_comes_back(found, data):
    X, y, _ = data
    refused = certify(copy.deepcopy(found), X[1000:1050], y[1000:1050], accuracy=0.999)
    assert not refused.certified
    assert Certificate.from_data(refused.to_data()) == refused


def test_doubts_are_told_after_the_promise(several):
    doubts = ("Known rows could not be recognised.", "Nobody knows more.")
    doubtful = replace(several, doubts=doubts)
    assert doubtful.sentence == f"{several.sentence} {doubts[0]} {doubts[1]}"
    assert doubts[0] in repr(doubtful)
    assert Certificate.from_data(doubtful.to_data()) == doubtful != several


def test_a_file_gives_back_a_certificate(found, several, tmp_path):
    search = copy.deepcopy(found).choose(several.select().candidate)
    search.certificate_ = several
    search.best_cascade_.certificate_ = replace(several, doubts=("Who knows?",))
    for model in (search, search.best_cascade_):
        dump(model, tmp_path / "model.emsco")
        loaded = load(tmp_path / "model.emsco")
        assert type(loaded.certificate_) is Certificate
        assert loaded.certificate_ == model.certificate_
        assert loaded.certificate_.holds_for(loaded)
        CertificateMonitor.of(loaded.certificate_, loaded, share=0.5)
        dump(loaded, tmp_path / "again.emsco")
        assert (tmp_path / "again.emsco").read_bytes() == (tmp_path / "model.emsco").read_bytes()


def test_thousands_of_certified_candidates_fit_into_a_file(certified, tmp_path):
    one = certified.certificate_
    many = replace(one, tried=5000, candidates=one.candidates * 5000)
    cascade = copy.copy(certified)
    cascade.certificate_ = many
    dump(cascade, tmp_path / "model.emsco")
    assert load(tmp_path / "model.emsco").certificate_ == many


def test_a_cascade_that_was_changed_in_its_file_is_loaded_with_a_warning(certified, tmp_path):
    path = forged(certified, tmp_path / "model.emsco", halve_a_limit)
    with pytest.warns(CertificateWarning, match="model.emsco: The certificate does not hold"):
        changed = load(path)
    assert not changed.certificate_.holds_for(changed)
    with pytest.raises(ArtifactError, match="is about another cascade"):
        dump(changed, tmp_path / "again.emsco")


def test_show_says_when_a_certificate_does_not_fit(certified, tmp_path):
    dump(certified, tmp_path / "model.emsco")
    shown = call("show", tmp_path / "model.emsco")
    assert certified.certificate_.sentence in shown.out
    assert "does not hold" not in shown.out + shown.err
    told = json.loads(call("show", tmp_path / "model.emsco", "--json").out)["certificate"]
    assert told == {"sentence": certified.certificate_.sentence, "holds": True, "problem": ""}
    path = forged(certified, tmp_path / "model.emsco", halve_a_limit)
    shown = call("show", path)
    assert "The certificate does not hold for this cascade" in shown.out
    assert not json.loads(call("show", path, "--json").out)["certificate"]["holds"]
    assert "does not hold" in call("decide", path, _rows(tmp_path)).err


def _rows(folder):
    path = folder / "rows.csv"
    pd.DataFrame({"s0": [0.1], "s1": [0.1], "s2": [0.1]}).to_csv(path, index=False)
    return path


def test_a_search_that_has_not_chosen_what_is_certified_says_so(found, several, tmp_path):
    search = copy.deepcopy(found)
    certified = {candidate.candidate for candidate in several.candidates}
    search.choose(next(c for c in search.front_ if c not in certified))
    search.certificate_ = several
    dump(search, tmp_path / "search.emsco")
    with pytest.warns(CertificateWarning, match="does not hold for this cascade"):
        load(tmp_path / "search.emsco")
    shown = call("show", tmp_path / "search.emsco")
    assert several.sentence in shown.out
    assert "does not hold for this cascade" in shown.out


NAN = float("nan")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("confidence", 1.0),
        ("confidence", NAN),
        ("confidence", "0.99"),
        ("share", 0.0),
        ("share", 1.5),
        ("rows", 0),
        ("rows", 2001),
        ("rows", 1999),
        ("rows", True),
        ("rows_given", 2000.0),
        ("tried", 0),
        ("tried", None),
        ("twins", -1),
        ("twins", "none"),
        ("unit", None),
        ("doubts", "Known rows could not be recognised."),
        ("doubts", [1]),
        ("sources", ["s0", "s1"]),
        ("sources", "s0"),
        ("rows_fingerprint", 7),
        ("targets", {"accuracy": 0.9}),
        ("targets", None),
        ("candidates", [{}]),
        ("candidates", None),
        ("shortfalls", [{"what": "rows", "rows": 10, "events": 1, "needed": 20}]),
        ("unknown", 1),
    ],
)
def test_what_cannot_be_a_certificate_is_refused(name, value, several):
    with pytest.raises(CertificateError):
        Certificate.from_data(several.to_data() | {name: value})


@pytest.mark.parametrize("name", ["accuracy", "max_missed", "min_coverage", "max_cost"])
@pytest.mark.parametrize("value", [NAN, -1, "0.9", [0.9], {0: NAN}, {0: 2}])
def test_what_cannot_be_targets_is_refused(name, value, several):
    data = several.to_data()
    data["targets"] = data["targets"] | {name: value}
    with pytest.raises(CertificateError):
        Certificate.from_data(data)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("fingerprint", None),
        ("assignment", [0, 0.5, 1]),
        ("assignment", [-1, -1, -1]),
        ("threshold", NAN),
        ("threshold", "0.9"),
        ("fresh_rows", 1),
        ("fresh_right", NAN),
        ("fresh_paid", NAN),
        ("fresh_class_rows", [1, 1]),
        ("fresh_labels", [0]),
        ("selected_accepted", "all"),
        ("reached", [1]),
        ("reached", None),
        ("prices", [NAN]),
        ("p_value", 1.5),
        ("least_accuracy", NAN),
        ("coverage", [0.9, 0.1]),
        ("coverage", [0.5]),
        ("most_cost", float("inf")),
        ("labels", [0, 0]),
        ("labels", [[0], [1]]),
        ("labels", [0, 7]),
        ("most_missed", [0.5, 1.5]),
        ("unknown", 1),
    ],
)
def test_what_cannot_be_certified_is_refused(name, value, several):
    data = several.to_data()
    data["candidates"] = [dict(told) for told in data["candidates"]]
    data["candidates"][0][name] = value
    with pytest.raises(CertificateError):
        Certificate.from_data(data)
