"""What is asked of rows is written down first, and every route to ask again leads there."""

from __future__ import annotations

import copy
import json
import pickle
import resource
import threading

import numpy as np
import pytest
from scipy.stats import beta

from emsco import CascadeClassifier, CascadeSearchCV, InputGuard, dump, load
from emsco.certify import Targets, certify, certify_together
from emsco.datasets import make_costly_classification
from emsco.exceptions import ArtifactError, CertificateError, ValuesError
from emsco.rows.fitted_rows import ColumnSetHashes, HashedRows
from emsco.rows.ledger import Entry, forget_all, keep_ledger, ledger_of
from emsco.rows.row_sketch import Sketch, SmallestHashes

ALREADY = "already used for a certificate"
STRICT, LOOSE = 0.99999, 0.8


@pytest.fixture(scope="module")
def data():
    return make_costly_classification(3000, 3, class_sep=3, random_state=0)


@pytest.fixture(scope="module")
def rows(data):
    X, y, _ = data
    return X[1000:2000].reset_index(drop=True), y[1000:2000]


def fit_search(data):
    X, y, costs = data
    return CascadeSearchCV(costs=costs, threshold=[0.6, 0.9]).fit(X[:1000], y[:1000])


@pytest.fixture(scope="module")
def search(data):
    return fit_search(data)


def entry(question="q", share=1.0, candidates=0, seed=0):
    hashes = np.random.default_rng(seed).integers(2**63, size=30).astype(np.uint64)
    rows = HashedRows((ColumnSetHashes("c", (hashes,) * 3),), hashes)
    sketch = Sketch({"3": SmallestHashes(np.sort(hashes), 30, 1)})
    return Entry(question, share, candidates, rows, fitted="rows", sketch=sketch, figures=9)


@pytest.mark.parametrize(
    "other",
    [
        lambda search, _: search,
        lambda search, _: copy.deepcopy(search),
        lambda search, _: pickle.loads(pickle.dumps(search)),
        lambda _, data: fit_search(data),
        lambda search, _: search.cascade(search.front_[-1]),
        lambda _, data: CascadeClassifier(costs=data[2]).fit(data[0][:1000], data[1][:1000]),
    ],
    ids=["itself", "a copy", "a pickle", "the same fit", "its cascade", "another on its rows"],
)
@pytest.mark.parametrize(
    "disguise",
    [
        lambda X: {"X": X},
        lambda X: {"X": X.set_axis([f"new {i}" for i in range(len(X))])},
        lambda X: {"X": X, "keys": [f"new {i}" for i in range(len(X))]},
        lambda X: {"X": X.astype(np.float32).to_numpy()},
        lambda X: {"X": X.round(3)},
    ],
    ids=["as they were", "a new index", "new keys", "float32", "rounded"],
)
def test_whoever_asks_again_on_the_same_rows_is_refused(search, data, rows, other, disguise):
    X, y = rows
    assert not certify(search, X, y, accuracy=STRICT).certified
    with pytest.raises(CertificateError, match=ALREADY):
        certify(other(search, data), y=y, accuracy=LOOSE, **disguise(X))


def standardised(X):
    return (X - X.mean()) / X.std()


CHANGES = {
    "a column added": lambda X: X.assign(more=np.arange(len(X)) * 7 % 11),
    "a column dropped": lambda X: X.drop(columns="s1"),
    "columns renamed": lambda X: X.rename(columns="new {}".format),
    "standardised": standardised,
    "an array": lambda X: X.to_numpy(),
    "one row left out": lambda X: X[1:].reset_index(drop=True),
    "an array, standardised": lambda X: standardised(X).to_numpy(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_model_of_changed_columns_does_not_get_the_same_rows_again(search, data, rows, change):
    X, y, _ = data
    changed, training = CHANGES[change](rows[0]), CHANGES[change](X[:1000])
    other = CascadeClassifier(threshold=0.6).fit(training, y[1000 - len(training) : 1000])
    certify(search, *rows, accuracy=STRICT)
    with pytest.raises(CertificateError, match=ALREADY):
        certify(other, changed, rows[1][len(rows[1]) - len(changed) :], accuracy=LOOSE)


def test_a_model_of_other_rows_does_not_get_the_same_rows_again(search, data, rows):
    X, y, costs = data
    other = CascadeClassifier(costs=costs).fit(X[2000:], y[2000:])
    certify(search, *rows, accuracy=STRICT)
    with pytest.raises(CertificateError, match=ALREADY):
        certify(other, *rows, accuracy=LOOSE)
    forget_all()
    search.score_front(*rows)
    assert certify(other, *rows, accuracy=LOOSE).tried == len(search.front_), "looking counts too"


def test_a_model_of_other_rows_gets_fresh_rows(search, data, rows):
    X, y, costs = data
    other = CascadeClassifier(costs=costs).fit(X[:900], y[:900])
    certify(search, *rows, accuracy=STRICT)
    # Another table often has the same index.
    fresh = X[2000:].set_axis(rows[0].index + 5)
    certify(search, rows[0].set_axis(rows[0].index + 5), rows[1], accuracy=STRICT)
    assert certify(other, fresh, y[2000:], accuracy=LOOSE).certified


def test_a_loaded_model_knows_what_was_asked_before_and_after(search, rows, tmp_path):
    X, y = rows
    dump(search.best_cascade_, tmp_path / "before.emsco")
    certify(search, X, y, accuracy=STRICT)
    dump(search.best_cascade_, tmp_path / "after.emsco")
    with pytest.raises(CertificateError, match=ALREADY):
        certify(load(tmp_path / "before.emsco"), X, y, accuracy=LOOSE)
    forget_all()  # another process
    with pytest.raises(CertificateError, match=ALREADY):
        certify(load(tmp_path / "after.emsco"), X, y, accuracy=LOOSE)


def test_a_ledger_file_is_shared_by_processes(search, rows, tmp_path):
    X, y = rows
    ledger = tmp_path / "ledger.jsonl"
    first = certify(search, X, y, accuracy=0.9, ledger=ledger)
    forget_all()
    with pytest.raises(CertificateError, match=ALREADY):
        certify(search, X, y, accuracy=LOOSE, ledger=ledger)
    assert certify(search, X, y, accuracy=0.9, ledger=ledger) == first, "the same is free"
    assert len(ledger.read_text().splitlines()) == 1


def test_a_question_is_on_the_disk_before_it_is_answered(search, rows, tmp_path, monkeypatch):
    X, y = rows
    ledger, seen = tmp_path / "ledger.jsonl", []
    decide = CascadeClassifier.decide

    def deciding(self, rows):
        seen.append(len(ledger.read_text().splitlines()))
        return decide(self, rows)

    monkeypatch.setattr(CascadeClassifier, "decide", deciding)
    certify(search, X, y, accuracy=0.9, ledger=ledger)
    assert seen[0] == 1


def test_rows_that_cannot_be_decided_spend_nothing(search, rows, tmp_path):
    X, y = rows
    ledger = tmp_path / "ledger.jsonl"
    broken = X.copy()
    broken.iloc[-1, 0] = np.nan
    with pytest.raises(ValuesError):
        certify(search, broken, y, accuracy=STRICT, ledger=ledger)
    forget_all()
    assert certify(search, X, y, accuracy=LOOSE, ledger=ledger).certified


def test_asking_again_after_another_guard_is_another_question(data, rows):
    X, y = rows
    search = fit_search(data)
    certify(search, X, y, accuracy=LOOSE)
    search.set_params(guard=InputGuard()).choose(by="accuracy")
    with pytest.raises(CertificateError, match=ALREADY):
        certify(search, X, y, accuracy=LOOSE)


@pytest.mark.parametrize("of", ["cascade", "search"])
def test_looking_at_many_candidates_spends(search, rows, of):
    """One that was chosen by what the rows showed is one of as many as were shown."""
    X, y = rows
    model = search if of == "search" else search.cascade(search.front_[-1])
    unseen = certify(model, X, y, accuracy=LOOSE)
    forget_all()
    n_shown = len(search.score_front(X, y))
    looked = certify(model, X, y, accuracy=LOOSE)
    assert looked.tried == max(n_shown, unseen.tried)
    assert {c.fingerprint for c in looked.candidates} <= {c.fingerprint for c in unseen.candidates}
    if of == "cascade":
        bounds = [c.candidates[0].bounds for c in (looked, unseen)]
        assert bounds[0].accuracy < bounds[1].accuracy
        assert bounds[0].coverage[0] < bounds[1].coverage[0]


@pytest.mark.parametrize("target", ["accuracy", "max_missed"])
def test_a_target_that_was_chosen_by_what_was_shown_pays_for_all_others(search, rows, target):
    """Nine figures of each cascade could have been chosen: three, and three of each class."""
    X, y = rows
    candidate = search.front_[-1]
    shown = search.score_front(X, y)[len(search.front_) - 1].fresh
    n_cascades = len(search.front_)
    errors, total = shown.accepted - shown.right, shown.accepted
    if target == "max_missed":
        errors, total = shown.class_accepted[0] - shown.class_right[0], shown.class_rows[0]

    def asked_at(level):
        """Give the tightest target that passes at this level."""
        share = float(beta.ppf(1 - level, errors + 1, total - errors)) + 1e-9
        return {"accuracy": 1 - share} if target == "accuracy" else {"max_missed": {0: share}}

    model = search.cascade(candidate)
    assert not certify(model, X, y, **asked_at(0.01 / n_cascades / 8.9)).certified
    forget_all()
    search.score_front(X, y)
    assert certify(model, X, y, **asked_at(0.01 / n_cascades / 9.1)).certified


def test_looking_after_the_question_changes_no_answer(search, rows):
    X, y = rows
    cascade = search.cascade(search.front_[-1])
    first = certify(cascade, X, y, accuracy=LOOSE)
    search.score_front(X, y)
    assert certify(cascade, X, y, accuracy=LOOSE) == first


def test_looking_at_other_rows_costs_nothing(search, data, rows):
    X, y, _ = data
    search.score_front(X[2000:], y[2000:])
    assert certify(search.best_cascade_, *rows, accuracy=LOOSE).tried == 1


def test_rows_that_cannot_be_told_apart_leave_a_doubt():
    rng = np.random.default_rng(0)
    X, y = rng.integers(2, size=(3000, 2)).astype(float), rng.integers(2, size=3000)
    cascade = CascadeClassifier(threshold=0.51).fit(X[:1000], y[:1000])
    first = certify(cascade, X[1000:2000], y[1000:2000], accuracy=0.1)
    again = certify(cascade, X[2000:], y[2000:], accuracy=0.1)
    assert "used for an earlier certificate" not in first.sentence
    assert "used for an earlier certificate" in again.sentence
    for certificate in (first, again):
        assert "whether the model was fitted on these rows" in certificate.sentence
        assert "whether these rows are independent" in certificate.sentence


def test_threads_cannot_both_ask(search, rows):
    X, y = rows
    came = []

    def ask(accuracy):
        try:
            came.append(certify(search.best_cascade_, X, y, accuracy=accuracy).certified)
        except CertificateError:
            came.append(None)

    threads = [threading.Thread(target=ask, args=(0.7 + i / 100,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(came, key=str) == [None] * 7 + [True]


def test_questions_are_declared_together_or_not_at_all(search, rows):
    X, y = rows
    questions = [Targets(accuracy=0.9), Targets(accuracy=0.8)]
    together = certify_together(search, X, y, questions)
    assert certify(search, X, y, accuracy=0.8, share=0.5) == together[1]
    with pytest.raises(CertificateError, match=ALREADY):
        certify(search, X, y, accuracy=0.8)
    with pytest.raises(CertificateError, match=ALREADY):
        certify_together(search, X, y, [*questions, Targets(accuracy=0.7)])


# The file itself.


def test_a_ledger_comes_back_from_its_file(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger_of("rows").keep_in(path)
    ledger_of("others").keep_in(path)
    asked, shown = entry(), entry("shown", 0.0, 40, seed=1)
    with ledger_of("rows").open() as record:
        record([asked, shown])
    with ledger_of("others").open() as record:
        record([entry("third")])
    forget_all()
    again = ledger_of("rows")
    again.keep_in(path)
    again.refresh()
    first, second, third = again.entries
    assert third.question == "third", "what is asked of rows holds for every model"
    assert (first.question, first.share, first.candidates) == ("q", 1.0, 0)
    assert (second.question, second.share, second.candidates) == ("shown", 0.0, 40)
    assert np.array_equal(first.rows.keys, np.sort(asked.rows.keys))
    assert np.array_equal(second.rows.views[0].hashes[2], np.sort(shown.rows.keys))
    assert (second.figures, second.fitted) == (9, "rows")
    assert np.array_equal(second.sketch.parts["3"].hashes, shown.sketch.parts["3"].hashes)


def test_a_line_that_a_dying_process_left_half_is_no_question(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger_of("rows").keep_in(path)
    with ledger_of("rows").open() as record:
        record([entry("first"), entry("second", seed=1)])
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    forget_all()
    ledger_of("rows").keep_in(path)
    with ledger_of("rows").open() as record:
        assert [e.question for e in ledger_of("rows").entries] == ["first"]
        record([entry("third", seed=2)])
    lines = path.read_text().splitlines()
    assert [json.loads(line)["question"] for line in lines] == ["first", "third"]


def test_a_sketch_without_hashes_is_damage(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger_of("rows").keep_in(path)
    with ledger_of("rows").open() as record:
        record([entry()])
    path.write_text(json.dumps(json.loads(path.read_text()) | {"sketch": {"3": ["", 5, 1]}}) + "\n")
    forget_all()
    ledger_of("rows").keep_in(path)
    with pytest.raises(ArtifactError, match=r"is damaged \(its sketch\)"):
        ledger_of("rows").refresh()


@pytest.mark.parametrize(
    "damage", ['{"format": 1}', "nothing", '{"format": 3, "fitted": "rows"}', "[]"]
)
def test_a_damaged_ledger_is_refused_by_its_line(tmp_path, damage):
    path = tmp_path / "ledger.jsonl"
    path.write_text(damage + "\n")
    ledger_of("rows").keep_in(path)
    with pytest.raises(ArtifactError, match="Line 1 of the ledger"), ledger_of("rows").open():
        pass


def test_a_ledger_that_cannot_be_written_stops_the_question(search, rows, tmp_path):
    X, y = rows
    with pytest.raises(ArtifactError, match="cannot be opened: No such file or directory"):
        certify(search, X, y, accuracy=LOOSE, ledger=tmp_path / "none" / "ledger.jsonl")
    forget_all()
    path = tmp_path / "ledger.jsonl"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(ArtifactError, match=r"File too large\. No question was answered"):
            certify(search, X, y, accuracy=LOOSE, ledger=path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == b""


def test_a_model_without_rows_has_no_ledger_to_keep(tmp_path):
    keep_ledger(CascadeClassifier(), tmp_path / "ledger.jsonl")
    assert not (tmp_path / "ledger.jsonl").exists()
