"""A search that was interrupted goes on from its checkpoint and ends in the same front."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from searches import COSTS, NearestMean, X, Y, search_for
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

from emsco import EMSCO, CascadeSearchCV, Exhaustive, Hybrid, LocalSearch, dump, load
from emsco.datasets import make_costly_classification
from emsco.engine import LocalEngine
from emsco.exceptions import CheckpointError, CheckpointWarning

pytestmark = [
    pytest.mark.filterwarnings("ignore::emsco.exceptions.SelectionWarning"),
    pytest.mark.filterwarnings("ignore::emsco.exceptions.CalibrationWarning"),
]

FRAME, LABELS, _ = make_costly_classification(100, n_sources=7, random_state=0)
SEVEN, PRICES = FRAME.to_numpy(), [3, 1, 4, 1, 5, 9, 2]
X, Y = X[:60], Y[:60]
STRATEGIES = {
    "EMSCO": EMSCO(population=30, generations=6),
    "Exhaustive": Exhaustive(),
    "LocalSearch": LocalSearch(evaluations=2000, fits=90),
    "Hybrid": Hybrid(EMSCO(population=20, generations=4), LocalSearch(evaluations=1500, fits=100)),
}


class StopError(Exception):
    """Raised by a callback, to end a search early."""


def small(**params):
    return search_for(**({"threshold": 0.75} | params))


def stop_at(n_sets):
    def stop(state):
        if state["source_sets"] >= n_sets:
            raise StopError

    return stop


def seven(strategy, **params):
    """Make a search whose fits are done one by one, sixteen a step."""
    own = {"costs": PRICES, "threshold": [0.7, 0.85], "cv": 2, "random_state": 0, "max_stages": 2}
    return CascadeSearchCV(NearestMean(), **({"search": STRATEGIES[strategy]} | own | params))


def assert_same(found, other):
    assert list(found.front_) == list(other.front_)
    assert found.history_ == other.history_
    assert found.all_sources_ == other.all_sources_
    assert found.all_sources_at(0.5) == other.all_sources_at(0.5)
    assert found.best_candidate_ == other.best_candidate_


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_run_that_goes_on_ends_as_one_that_was_never_interrupted(strategy, tmp_path):
    """However it was stopped; stopped twice; and with more workers the second time."""
    path = tmp_path / "checkpoint"
    whole = seven(strategy).fit(SEVEN, LABELS)
    sizes = []
    for n_sets in (20, 60):
        with pytest.raises(StopError):
            seven(strategy, checkpoint=path, callback=stop_at(n_sets)).fit(SEVEN, LABELS)
        sizes.append(path.stat().st_size)
    assert sizes[0] < sizes[1]
    two = LocalEngine(2, threads=True)
    assert_same(seven(strategy, checkpoint=str(path), engine=two).fit(SEVEN, LABELS), whole)
    assert_same(seven(strategy, checkpoint=path).fit(SEVEN, LABELS), whole)


def test_batches_are_taken_whole(tmp_path):
    """Fits of the default classifier begin from one another, so a part would have other bits."""
    table, y, costs = make_costly_classification(60, n_sources=13, random_state=0)
    params = {"costs": costs, "threshold": 0.8, "cv": 2, "max_stages": 2, "random_state": 0}
    whole = CascadeSearchCV(**params).fit(table, y)
    params["checkpoint"] = tmp_path / "checkpoint"
    with pytest.raises(StopError):
        CascadeSearchCV(**params, callback=stop_at(4096)).fit(table, y)
    stopped = _head(params["checkpoint"])["sets"]
    assert 4096 <= stopped < 8191
    assert not stopped % 256  # whole batches
    assert_same(CascadeSearchCV(**params, n_jobs=2).fit(table, y), whole)


def test_nothing_is_fitted_twice(tmp_path, monkeypatch):
    """Not in a run that goes on, and nothing at all in one that was done."""
    monkeypatch.setattr(NearestMean, "fits", 0)
    search = seven("Exhaustive", checkpoint=tmp_path / "checkpoint", refit=False)
    with pytest.raises(StopError):
        search.set_params(callback=stop_at(64)).fit(SEVEN, LABELS)
    for _ in range(2):
        search.set_params(callback=None).fit(SEVEN, LABELS)
        assert NearestMean.fits == 2 * (2**7 - 1)


def test_a_run_that_goes_on_says_so(tmp_path, capsys):
    search = seven("Exhaustive", checkpoint=tmp_path / "checkpoint", verbose=1)
    with pytest.raises(StopError):
        search.set_params(callback=stop_at(64)).fit(SEVEN, LABELS)
    assert "checkpoint" not in capsys.readouterr().err
    fitted = _head(tmp_path / "checkpoint")["sets"]
    search.set_params(callback=None).fit(SEVEN, LABELS)
    line = f"emsco: goes on from a checkpoint with {fitted} source sets\n"
    assert 64 <= fitted < 127
    assert line in capsys.readouterr().err


def test_a_seed_that_was_left_open_is_kept(tmp_path):
    path = tmp_path / "checkpoint"
    with pytest.raises(StopError):
        seven("EMSCO", checkpoint=path, random_state=None, max_rows=80, callback=stop_at(30)).fit(
            SEVEN, LABELS
        )
    resumed = seven("EMSCO", checkpoint=path, random_state=None, max_rows=80).fit(SEVEN, LABELS)
    seed = _head(path)["seed"]
    assert_same(seven("EMSCO", random_state=seed, max_rows=80).fit(SEVEN, LABELS), resumed)


def test_what_is_asked_for_otherwise_is_fitted_anew(tmp_path):
    """A clock may lead a search elsewhere; what it finds is right all the same."""
    path = tmp_path / "checkpoint"
    timed = LocalSearch(evaluations=2000, fits=90, seconds=600)
    with pytest.raises(StopError):
        seven("EMSCO", search=timed, checkpoint=path, callback=stop_at(60)).fit(SEVEN, LABELS)
    head = _head(path)
    bits = np.frombuffer(path.read_bytes()[-_n_bytes(path) - 32 : -32], np.uint8).copy()
    sets = bits[: 8 * head["sets"]].view("<u8")
    sets[20:] = sets[20:][::-1]  # as if it had gone another way after the first ones
    _write(path, head, bits.tobytes())
    resumed = seven("EMSCO", search=timed, checkpoint=path).fit(SEVEN, LABELS)
    assert_same(resumed, seven("EMSCO", search=timed).fit(SEVEN, LABELS))


# Damage.


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Give the two checkpoints of a small run, and the run."""
    path = tmp_path_factory.mktemp("kept") / "checkpoint"
    found = small(checkpoint=path).fit(X, Y)
    return path.read_bytes(), path.with_name("checkpoint.previous").read_bytes(), found


def test_a_checkpoint_cut_anywhere_is_never_another_front(kept, tmp_path):
    """At every 64th byte: the one before is taken, with a warning, or it is a named error."""
    last, before, found = kept
    path = tmp_path / "checkpoint"
    cuts = range(0, len(last), 64)
    assert len(cuts) > 30
    for end in cuts:
        path.write_bytes(last[:end])
        with pytest.raises(CheckpointError, match=f"{path} is not a valid checkpoint"):
            small(checkpoint=path).fit(X, Y)
        path.with_name("checkpoint.previous").write_bytes(before)
        with pytest.warns(CheckpointWarning, match=f"{path} is not a valid checkpoint.*previous"):
            again = small(checkpoint=path).fit(X, Y)
        assert list(again.front_) == list(found.front_)
        assert path.read_bytes() == last  # whole again
        path.with_name("checkpoint.previous").unlink()


@pytest.mark.parametrize("place", [0, 25, 300, 2000, -40, -1])
def test_a_flipped_bit_is_found(kept, place, tmp_path):
    path = tmp_path / "checkpoint"
    data = bytearray(kept[0])
    data[place] ^= 4
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match="is not a valid checkpoint"):
        small(checkpoint=path).fit(X, Y)


@pytest.mark.parametrize("head", ["[]", "{", '{"run": {}}', '{"run": {}, "seed": "a"}'])
def test_what_was_made_up_is_refused(head, tmp_path):
    _write(tmp_path / "checkpoint", json.loads(head) if head != "{" else None, b"")
    with pytest.raises(CheckpointError, match="its header is not valid"):
        small(checkpoint=tmp_path / "checkpoint").fit(X, Y)


@pytest.mark.parametrize(("change", "told"), [(-5, "shorter"), (5, "longer")])
def test_arrays_of_another_length_are_refused(kept, change, told, tmp_path):
    path = tmp_path / "checkpoint"
    path.write_bytes(kept[0])
    head, arrays = _head(path), kept[0][-_n_bytes(path) - 32 : -32]
    _write(path, head, arrays[:change] if change < 0 else arrays + bytes(change))
    with pytest.raises(CheckpointError, match=f"is {told} than its header states"):
        small(checkpoint=path).fit(X, Y)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seed", True),
        ("seed", -1),
        ("seed", 10**20),
        ("sets", True),
        ("sets", 2.0),
        ("sets", 10**30),
        ("kept", [-1]),
        ("kept", [0, 0]),
        ("kept", [0.0]),
        ("kept", {}),
        ("run", {"rows": 1}),
        ("more", 1),
    ],
)
def test_heads_that_no_run_writes_are_refused(name, value, kept, tmp_path):
    path = tmp_path / "checkpoint"
    path.write_bytes(kept[0])
    head, arrays = _head(path), kept[0][-_n_bytes(path) - 32 : -32]
    _write(path, head | {name: value}, arrays)
    with pytest.raises(CheckpointError, match=r"header is not valid|shorter than its header"):
        small(checkpoint=path).fit(X, Y)


@pytest.mark.parametrize("forged", ["accepted", "right", "confidence", "label", "rows beyond"])
def test_outcomes_that_no_fit_gives_are_refused(forged, kept, tmp_path):
    """Sealed again, they would end in an error of the search, or in another front."""
    path = tmp_path / "checkpoint"
    path.write_bytes(kept[0])
    head, arrays = _head(path), bytearray(kept[0][-_n_bytes(path) - 32 : -32])
    n_sets, n_kept, n_rows = head["sets"], len(head["kept"]), len(X)
    assert n_kept
    n_words = -(-n_rows // 64)
    starts = np.cumsum([0, 8 * n_sets, 8 * n_sets * n_words, 8 * n_sets * n_words])
    starts = dict(zip(["sets", "accepted", "right", "confidence"], starts.tolist(), strict=True))
    starts["label"] = starts["confidence"] + 8 * n_kept * n_rows
    assert starts["label"] + n_kept * n_rows == len(arrays)
    if forged == "rows beyond":
        last_word = starts["accepted"] + 8 * (n_words - 1)
        assert n_rows % 64
        arrays[last_word + 7] |= 0x80
    elif forged == "confidence":
        arrays[starts["confidence"] : starts["confidence"] + 8] = np.float64(1e-9).tobytes()
        arrays[starts["confidence"] + 8 : starts["confidence"] + 16] = np.float64(1.0).tobytes()
    elif forged == "label":
        arrays[starts["label"]] = 200
    else:
        arrays[starts[forged] : starts[forged] + 8 * n_words] = (
            bytes(8 * n_words) if forged == "accepted" else b"\xff" * 8 * n_words
        )
    _write(path, head, bytes(arrays))
    with pytest.raises(CheckpointError, match="holds outcomes that contradict"):
        small(checkpoint=path).fit(X, Y)


def test_on_a_full_disk_the_last_checkpoint_stays_as_it_was(tmp_path):
    path = tmp_path / "checkpoint"
    with pytest.raises(StopError):
        seven("Exhaustive", checkpoint=path, callback=stop_at(30)).fit(SEVEN, LABELS)
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, limits[1]))
    try:
        with pytest.raises(CheckpointError, match="checkpoint cannot be written: File too large"):
            seven("Exhaustive", checkpoint=path).fit(SEVEN, LABELS)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    assert {p.name for p in tmp_path.iterdir()} == {"checkpoint", "checkpoint.previous"}
    whole = seven("Exhaustive").fit(SEVEN, LABELS)
    assert_same(seven("Exhaustive", checkpoint=path).fit(SEVEN, LABELS), whole)


def test_what_cannot_be_written_is_told_before_the_first_fit(tmp_path):
    seen = []
    search = small(checkpoint=tmp_path / "no such folder" / "c", callback=seen.append)
    with pytest.raises(CheckpointError, match="cannot be written: No such file or directory"):
        search.fit(X, Y)
    assert not any(event["source_sets"] for event in seen)


# Other runs.


class SomeModel:
    """A final model that answers one thing, but for some rows."""

    def __init__(self, exceptions=0):
        self.exceptions = exceptions

    def predict(self, X):
        return np.where(np.arange(len(X)) < self.exceptions, "sick", "well")


OTHER_X = X.copy()
OTHER_X.iloc[3, 1] += 1
OTHER_Y = Y.copy()
OTHER_Y[5] = "sick" if Y[5] == "well" else "well"
OTHERS = {
    "rows": ({}, {"X": OTHER_X}),
    "labels": ({}, {"y": OTHER_Y}),
    "fit parameters": ({}, {"sample_weight": np.linspace(1, 2, len(Y))}),
    "costs": ({"costs": dict(zip(COSTS.names, [1, 2, 3], strict=True))}, {}),
    "estimator": ({"estimator": LogisticRegression(C=2)}, {}),
    "search": ({"search": EMSCO(population=7)}, {}),
    "threshold": ({"threshold": 0.8}, {}),
    "max_stages (2 then, 1 now)": ({"max_stages": 1}, {}),
    "allow_unused (True then, False now)": ({"allow_unused": False}, {}),
    "max_rejected": ({"max_rejected": {"sick": 0.2}}, {}),
    "max_missed": ({"max_missed": {"sick": 0.2}}, {}),
    "folds": ({"cv": KFold(3, shuffle=True, random_state=1)}, {}),
    "final model": ({"final": SomeModel()}, {}),
    "random_state (0 then, 1 now)": ({"random_state": 1}, {}),
}


@pytest.mark.parametrize("part", OTHERS)
def test_a_checkpoint_of_another_run_is_refused_by_name(part, kept, tmp_path):
    params, given = OTHERS[part]
    path = tmp_path / "checkpoint"
    path.write_bytes(kept[0])
    rows = {"X": X, "y": Y} | given
    with pytest.raises(CheckpointError) as raised:
        small(**({"checkpoint": path} | params)).fit(**rows)
    differing = str(raised.value).partition("differs in ")[2].partition(";")[0]
    assert part in differing
    assert path.read_bytes() == kept[0]


@pytest.mark.parametrize("target", ["labels", "agreement"])
def test_another_final_model_is_another_run(target, tmp_path):
    """One that answers a single row otherwise is refused; one that answers the same is not."""
    path, params = tmp_path / "checkpoint", {"target": target, "cv": 2}
    found = small(checkpoint=path, final=SomeModel(20), **params).fit(X, Y)
    again = small(checkpoint=path, final=SomeModel(20), **params).fit(X, Y)
    assert list(again.front_) == list(found.front_)
    with pytest.raises(CheckpointError, match=r"differs in.* final model"):
        small(checkpoint=path, final=SomeModel(21), **params).fit(X, Y)
    with pytest.raises(CheckpointError, match=r"differs in.* final model"):
        small(checkpoint=path, cv=2).fit(X, Y)


def test_a_checkpoint_of_other_libraries_is_refused_by_name(kept, tmp_path):
    path = tmp_path / "checkpoint"
    path.write_bytes(kept[0])
    head = _head(path)
    head["run"]["numpy"] = "1.0"
    _write(path, head, kept[0][-_n_bytes(path) - 32 : -32])
    with pytest.raises(CheckpointError, match=r"differs in numpy \(1.0 then"):
        small(checkpoint=path).fit(X, Y)


def test_what_comes_after_a_search_may_differ(kept, tmp_path):
    path = tmp_path / "checkpoint"
    path.write_bytes(kept[0])
    again = small(checkpoint=path, select={"by": "coverage"}, n_jobs=2, refit=False).fit(X, Y)
    assert list(again.front_) == list(kept[2].front_)


def test_clones_have_the_path_and_files_do_not(kept, tmp_path):
    search = kept[2]
    assert clone(search).checkpoint == search.checkpoint
    dump(search, tmp_path / "search.emsco")
    assert load(tmp_path / "search.emsco").checkpoint is None


# Killed.

CHILD = """
import sys, time, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, {folder!r})
from test_checkpoint import LABELS, SEVEN, seven
slowly = lambda state: time.sleep(0.05)
seven("Hybrid", checkpoint={path!r}, callback=slowly).fit(SEVEN, LABELS)
"""


def test_a_killed_process_goes_on(tmp_path):
    """With -9, as soon as something is fitted; a half draft of it is cleared away."""
    path = tmp_path / "checkpoint"
    code = CHILD.format(folder=str(Path(__file__).parent), path=str(path))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.Popen([sys.executable, "-c", code], env=environment)
    deadline = time.monotonic() + 60
    while not path.exists() or not _head(path)["sets"]:
        assert time.monotonic() < deadline
        assert child.poll() is None
        time.sleep(0.005)
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    (tmp_path / f".checkpoint.{'0a' * 8}").write_bytes(b"half")
    assert_same(
        seven("Hybrid", checkpoint=path).fit(SEVEN, LABELS), seven("Hybrid").fit(SEVEN, LABELS)
    )
    assert {p.name for p in tmp_path.iterdir()} == {"checkpoint", "checkpoint.previous"}


# A file, taken apart.


def _head(path):
    return json.loads(path.read_bytes().split(b"\n", 2)[1])


def _n_bytes(path):
    return len(path.read_bytes().split(b"\n", 2)[2]) - 32


def _write(path, head, arrays):
    told = b"{" if head is None else json.dumps(head).encode()
    data = b"emsco checkpoint 1\n" + told + b"\n" + arrays
    path.write_bytes(data + sha256(data).digest())
