"""RayEngine gives what LocalEngine gives, sends data once, and outlives workers and nodes."""

from __future__ import annotations

import copy
import importlib
import pickle
import threading
import time
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet
import pytest
import remote
from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB

from emsco import CascadeClassifier, CascadeSearchCV, LocalEngine, LocalSearch
from emsco.arrow import open_dataset
from emsco.cascade.fingerprint import fingerprint
from emsco.datasets import make_costly_classification
from emsco.exceptions import EngineError, ValuesError
from emsco.ray import RayEngine
from emsco.testing import check_engine


def test_it_keeps_the_promises_of_an_engine(engine):
    assert engine.n_workers == 2
    check_engine(engine)


def test_shared_data_are_sent_once_for_calls_in_a_row(engine):
    """And anew when they are other data, or another function."""
    data, other = remote.Counted([1, 2]), remote.Counted([3])
    for _ in range(3):
        assert engine.map(remote.first_of, range(5), shared=data) == [(i, 1) for i in range(5)]
    assert data.pickled == 1
    assert engine.map(remote.first_of, [7], shared=other) == [(7, 3)]
    assert engine.map(remote.first_of, [7], shared=data) == [(7, 1)]
    assert (data.pickled, other.pickled) == (2, 1)


def test_a_search_sends_its_rows_once(engine, monkeypatch):
    """Although it calls the engine many times."""
    sent, maps = [], []
    send, run = RayEngine._send, RayEngine.as_finished

    def count_sent(self, function, shared):
        before = self._sent
        reference = send(self, function, shared)
        sent.append(self._sent is not before)
        return reference

    def count_maps(self, *given, **more):
        maps.append(1)
        return run(self, *given, **more)

    monkeypatch.setattr(RayEngine, "_send", count_sent)
    monkeypatch.setattr(RayEngine, "as_finished", count_maps)
    X, y, costs = make_costly_classification(200, n_sources=8, random_state=0)
    CascadeSearchCV(
        GaussianNB(), costs=costs, cv=2, engine=engine, random_state=0, select={"by": "coverage"}
    ).fit(X, y)
    assert len(maps) > 2
    assert sum(sent) == 1


def test_short_chunks_share_a_task_and_long_ones_do_not(engine):
    """A task of Ray's costs a millisecond; a task that is lost should be no long work."""
    tasks = engine.map(remote.task_of, range(5000))
    assert len(set(tasks)) < 50
    tasks = engine.map(remote.slow_task_of, range(8))
    assert len(set(tasks)) == 8


def test_results_come_as_they_finish(engine):
    places = [place for place, _ in engine.as_finished(remote.add, range(10), shared=1)]
    assert sorted(places) == list(range(10))


def test_what_is_no_longer_wanted_is_not_done(engine):
    """The rest of a stream that is left does not hold up the next call."""
    stream = engine.as_finished(remote.slow_task_of, range(200))
    next(stream)
    stream.close()
    started = time.monotonic()
    assert engine.map(remote.add, [1, 2], shared=1) == [2, 3]
    assert time.monotonic() - started < 20


def test_an_error_comes_with_its_type_message_fields_and_origin(engine):
    with pytest.raises(ValuesError, match=r"^Row 0 cannot be judged\.$") as caught:
        engine.map(remote.refuse, [0])
    assert type(caught.value) is ValuesError
    assert (caught.value.row, caught.value.column) == (0, "age")
    assert "remote.py" in str(caught.value.__cause__)


def test_an_error_that_cannot_be_sent_is_told(engine):
    with pytest.raises(EngineError, match="UnsendableError: this and that"):
        engine.map(remote.refuse_in_vain, [0])


def test_a_module_that_workers_lack_is_named(engine, tmp_path, monkeypatch):
    """It is found here, but the nodes were started before."""
    (tmp_path / "only_here.py").write_text("def add(chunk, shared):\n    return chunk\n")
    monkeypatch.syspath_prepend(tmp_path)
    only_here = importlib.import_module("only_here")
    with pytest.raises(EngineError, match="cannot load what it was sent: No module named 'only_"):
        engine.map(only_here.add, [1])


def test_a_worker_that_dies_is_replaced(engine, tmp_path):
    assert engine.map(remote.die_once, range(6), shared=str(tmp_path)) == [0, 1, 4, 9, 16, 25]
    assert (tmp_path / "3").read_text() == "xx"


def test_a_function_that_always_kills_its_worker_is_given_up(engine, nodes):
    few = RayEngine(address=nodes.address, retries=1)
    with pytest.raises(EngineError, match=r"gave up a task \(WorkerCrashedError.*died 2 times"):
        few.map(remote.die, [0])
    assert engine.map(remote.add, [1], shared=1) == [2]


def test_other_versions_are_refused(engine, monkeypatch):
    """They would give other fits, and nobody would notice."""
    monkeypatch.setattr("emsco.ray.engine.versions_here", lambda: {"numpy": "0.9"})
    with pytest.raises(EngineError, match=r"has numpy .*, and this process has 0\.9; install"):
        engine.map(remote.add, [1], shared=2)


def test_workers_take_one_thread_and_their_share_of_the_cores(engine):
    """Not at niceness 15, as Ray has it, where any other process would stop them."""
    assert engine.map(remote.niceness, [0]) == [(0, "1")]


def test_copies_share_the_cluster_and_not_the_data(engine):
    """Searches are cloned, and their parameters copied."""
    engine.map(remote.add, [1], shared=remote.Counted([1]) and 5)
    for other in (
        copy.deepcopy(engine),
        pickle.loads(pickle.dumps(engine)),
        clone(CascadeSearchCV(engine=engine)).engine,
    ):
        assert other.map(remote.add, [1], shared=2) == [3]
        other.close()  # does not end what it has not begun
    assert engine.map(remote.add, [1], shared=1) == [2]


@pytest.mark.usefixtures("engine")
def test_fewer_workers_than_cpus_can_be_asked_for(nodes):
    assert RayEngine(1, address=nodes.address).n_workers == 1
    assert RayEngine(-1, address=nodes.address).n_workers == 2
    assert RayEngine(7).n_workers == 2  # connected as this process is
    spans = sorted(RayEngine(1, address=nodes.address).map(remote.span_of, range(6)))
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))


@pytest.mark.parametrize("n_jobs", [0, -2])
def test_impossible_numbers_are_refused(n_jobs):
    with pytest.raises(EngineError, match=f"must be None, -1 or a number >= 1, got {n_jobs}"):
        RayEngine(n_jobs)
    with pytest.raises(EngineError, match="`patience` above 0"):
        RayEngine(patience=0)


@pytest.mark.usefixtures("engine")
def test_another_cluster_than_the_one_at_hand_is_refused():
    with pytest.raises(EngineError, match="is connected to the Ray cluster at"):
        _ = RayEngine(address="127.0.0.1:1").n_workers


def test_blocks_of_a_data_set_are_fitted_where_they_are(engine, tmp_path):
    """To the same cascade, bit for bit."""
    X, y, costs = make_costly_classification(3000, n_sources=5, random_state=0)
    table = pa.Table.from_pandas(X).append_column("y", pa.array(y))
    pa.parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=500)
    rows = open_dataset(tmp_path / "rows.parquet")
    here, there = (
        fingerprint(CascadeClassifier(costs=costs).fit(rows, "y", engine=used))
        for used in (None, engine)
    )
    assert here == there


def test_a_node_that_is_killed_during_a_search_changes_nothing(engine, nodes):
    """The same front, history and choice, with confidences of thousands of rows lost on the way."""
    X, y, costs = make_costly_classification(3000, n_sources=8, random_state=0)

    def found(used, callback=None):
        search = CascadeSearchCV(
            GaussianNB(),
            costs=costs,
            search=LocalSearch(evaluations=1000, fits=100),
            cv=2,
            engine=used,
            random_state=0,
            callback=callback,
            select={"by": "coverage"},
        ).fit(X, y)
        return [list(search.front_), search.history_, search.best_candidate_]

    killers = []

    def kill(state):
        if state["source_sets"] > 30 and not killers:
            killers.append(threading.Thread(target=nodes.kill))
            killers[0].start()

    try:
        assert found(engine, kill) == found(LocalEngine())
        assert killers
        killers[0].join()
        assert len(nodes.alive) == 1
    finally:
        nodes.replace()
