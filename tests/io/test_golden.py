"""Golden files: one of each kind, as it was written, is read to the last bit.

`tests/files/make.py` has written them, and what they hold to `expected.json`. A change after which
one of them cannot be read, or says something else, fails here.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from emsco import CertificateMonitor, Costs, load
from emsco.certify import certify, fingerprint
from emsco.exceptions import CertificateError
from emsco.live import Sources
from emsco.rows.ledger import forget_all, ledger_of
from emsco.serve.shadow_log import read_shadow_log

FOLDER = Path(__file__).parents[1] / "files"
FIELDS = ("label", "accepted", "exit_stage", "cost", "reason", "latency")


@pytest.fixture(autouse=True)
def _new_ledger():
    forget_all()
    yield
    forget_all()


@pytest.fixture(scope="module")
def expected():
    return json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("kind", "table"),
    [
        ("cascade", "patients"),
        ("search", "patients"),
        ("final", "numbers"),
        ("logged", "numbers"),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.InconsistentVersionWarning")
def test_a_model_decides_as_it_did(expected, kind, table):
    model = load(FOLDER / f"{kind}.emsco")
    rows = pd.DataFrame(expected["rows"][table])
    decisions = model.decide(rows if kind != "final" else rows.drop(columns="verdict"))
    for name in FIELDS:
        assert getattr(decisions, name).tolist() == expected[kind][name], name
    # Exponentials differ in their last bit from chip to chip; weights do not.
    np.testing.assert_allclose(decisions.confidence, expected[kind]["confidence"], rtol=1e-12)
    if kind != "final":  # pickled models differ from version to version of their library
        cascade = model.best_cascade_ if kind == "search" else model
        assert fingerprint(cascade) == expected[kind]["fingerprint"]


def test_a_certificate_holds_for_its_cascade(expected):
    cascade = load(FOLDER / "cascade.emsco")
    certificate = cascade.certificate_
    certificate.check(cascade)
    assert certificate.certified
    assert certificate.targets.to_dict() == expected["certificate"]["targets"]
    assert certificate.rows_fingerprint == expected["certificate"]["rows"]
    bounds = [json.loads(json.dumps(c.bounds[:3])) for c in certificate.candidates]
    assert bounds == expected["certificate"]["bounds"]


def test_a_front_has_its_figures(expected):
    front = load(FOLDER / "front.emsco")
    assert list(front) == list(load(FOLDER / "search.emsco").front_)
    assert len(front) == len(expected["front"])
    for candidate, figures in zip(front, expected["front"], strict=True):
        evaluation = candidate.evaluation
        assert [list(stage) for stage in candidate.design.stages] == figures["stages"]
        assert candidate.threshold == figures["threshold"]
        for name in ("accuracy", "coverage", "cost"):
            assert getattr(evaluation, name) == figures[name]
        assert evaluation.class_right == figures["right"]
        assert evaluation.label_accepted == figures["given"]


def test_a_ledger_knows_the_question_that_was_asked(expected, tmp_path):
    path = shutil.copy(FOLDER / "ledger.jsonl", tmp_path)
    cascade = load(FOLDER / "cascade.emsco")
    (own,) = ledger_of(cascade.fitted_rows_.digest).entries
    forget_all()  # the file of the cascade has the entry too
    ledger_of("another model").keep_in(path)
    ledger_of("another model").refresh()
    (entry,) = ledger_of("another model").entries
    for name in ("question", "share", "candidates", "figures", "number", "fitted", "withdraws"):
        assert getattr(entry, name) == getattr(own, name), name
    columns, labels = expected["fresh"]
    rows = pd.DataFrame(columns).astype({"ward": "category"})
    again = certify(cascade, rows, labels, accuracy=0.6, ledger=path)
    (counted,), (before,) = again.candidates, cascade.certificate_.candidates
    assert again.rows_fingerprint == cascade.certificate_.rows_fingerprint
    assert (counted.fingerprint, counted.evaluation) == (before.fingerprint, before.evaluation)
    with pytest.raises(CertificateError, match="already used for a certificate"):
        certify(cascade, rows, labels, accuracy=0.5, ledger=path)


def test_a_monitor_goes_on_from_its_state(expected):
    text = (FOLDER / "monitor.json").read_text(encoding="utf-8")
    monitor = CertificateMonitor.from_state(json.loads(text))
    assert json.dumps(monitor.state()) == text.rstrip("\n")
    raised = monitor.labelled(range(100, 300), expected["monitor"]["wrong"])
    assert [[alarm.what, alarm.at] for alarm in raised] == expected["monitor"]["alarms"]
    assert raised


def test_a_decision_log_has_its_rows(expected):
    log = read_shadow_log(FOLDER)
    assert [vars(row) for row in log.rows] == expected["log"]["rows"]
    assert (log.failed, log.others) == (0, 0)


def test_prices_and_sources_are_read_and_written_alike():
    costs = Costs.from_toml(FOLDER / "costs.toml")
    assert costs == load(FOLDER / "cascade.emsco").costs_
    assert costs.to_toml() == (FOLDER / "costs.toml").read_text(encoding="utf-8")
    sources = Sources.from_toml(FOLDER / "sources.toml")
    kinds = [type(source).__name__ for source in sources.values()]
    assert kinds == ["KnownSource", "RedisSource", "HTTPSource", "SQLSource"]
    assert sources.to_toml() == (FOLDER / "sources.toml").read_text(encoding="utf-8")
