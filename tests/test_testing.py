"""The suites pass every part of our own, and catch, for each promise, a part that breaks it."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from toy_search import RandomDesigns

from emsco import (
    EMSCO,
    Candidate,
    CascadeSearchCV,
    Exhaustive,
    Hybrid,
    LocalEngine,
    LocalSearch,
    ParetoFront,
)
from emsco.datasets import make_costly_classification
from emsco.exceptions import ContractError, SearchError
from emsco.search import SearchResult
from emsco.testing import check_engine, check_search
from emsco.testing._problems import QUESTIONS

LOCAL = LocalSearch(150, fits=100)


def breaks(check, part, said):
    with pytest.raises(ContractError, match=said) as caught:
        check(part)
    assert isinstance(caught.value, AssertionError)
    assert type(part).__name__ in str(caught.value)


# Our own.


@pytest.mark.parametrize("threads", [True, False])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_our_engine_keeps_its_promises(n_jobs, threads):
    check_engine(LocalEngine(n_jobs, threads=threads))


@pytest.mark.parametrize(
    "search",
    [
        Exhaustive(),
        EMSCO(population=16, generations=4),
        LOCAL,
        Hybrid(EMSCO(population=16, generations=2), LOCAL),
        RandomDesigns(),
    ],
    ids=lambda search: type(search).__name__,
)
def test_our_searches_and_a_toy_keep_their_promises(search):
    check_search(search)


def test_a_search_of_ones_own_plugs_in():
    X, y, costs = make_costly_classification(600, n_sources=4, random_state=0)
    search = CascadeSearchCV(costs=costs, search=RandomDesigns(), random_state=0).fit(X, y)
    assert isinstance(search.search_, RandomDesigns)
    assert len(search.front_) > 3
    assert search.decide(X).accepted.any()


def test_the_problems_differ_as_they_say():
    by = {question.told: question.make() for question in QUESTIONS}
    assert len(by["three classes and several thresholds"].classes) == 3
    assert by["three classes and several thresholds"].n_thresholds == 3
    assert any(source.requires for source in by["requirements and setups"].costs.sources)
    assert by["requirements and setups"].costs.setups
    assert not by["no source unused"].allow_unused
    assert by["one source"].n_sources == 1
    assert by["one stage"].max_stages == 1
    assert by["66 sources"].n_sources == 66
    limited, nothing = by["`max_missed`"], by["nothing feasible"]
    free = replace(limited, max_missed={})
    assert Exhaustive().run(limited).front != Exhaustive().run(free).front
    assert len(Exhaustive().run(nothing).front) == 0


def test_no_test_runner_is_needed():
    code = "from emsco.testing import *; import sys; sys.exit('pytest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Broken engines.


class Plain:
    """An engine that is right; each below breaks one promise."""

    n_workers = 2

    def map(self, function, chunks, *, shared=None):
        return [function(chunk, shared) for chunk in chunks]


class Unordered(Plain):
    """The last one done comes last."""

    def map(self, function, chunks, *, shared=None):
        results = super().map(function, chunks, shared=shared)
        return results[1:] + results[:1]


class Losing(Plain):
    """A result too few."""

    def map(self, function, chunks, *, shared=None):
        return super().map(function, chunks, shared=shared)[:7]


class Lazy(Plain):
    """No list."""

    def map(self, function, chunks, *, shared=None):
        return (function(chunk, shared) for chunk in chunks)


class Busy(Plain):
    """Does not know what to do without chunks."""

    def map(self, function, chunks, *, shared=None):
        return super().map(function, chunks, shared=shared) if len(chunks) else None


class Swallowing(Plain):
    """Leaves None where a function raised."""

    def map(self, function, chunks, *, shared=None):
        results = []
        for chunk in chunks:
            try:
                results.append(function(chunk, shared))
            except Exception:
                results.append(None)
        return results


class Renaming(Plain):
    """Raises an error of its own."""

    def map(self, function, chunks, *, shared=None):
        try:
            return super().map(function, chunks, shared=shared)
        except Exception as error:
            raise RuntimeError("a worker failed") from error


class Forgetful(Plain):
    """Raises the same type and message, without what the error carried."""

    def map(self, function, chunks, *, shared=None):
        try:
            return super().map(function, chunks, shared=shared)
        except Exception as error:
            raise type(error)(str(error)) from None


class Dying(Plain):
    """Does nothing any more once something was raised."""

    dead = False

    def map(self, function, chunks, *, shared=None):
        if self.dead:
            return []
        try:
            return super().map(function, chunks, shared=shared)
        except Exception:
            self.dead = True
            raise


class Sharing(Plain):
    """Keeps arrays that were shared first, for all calls."""

    kept = None

    def map(self, function, chunks, *, shared=None):
        if isinstance(shared, np.ndarray):
            self.kept = shared if self.kept is None else self.kept
            shared = self.kept
        return super().map(function, chunks, shared=shared)


class Caching(Plain):
    """Keeps results by chunk, whatever was shared, but for arrays."""

    def __init__(self):
        self.known = {}

    def map(self, function, chunks, *, shared=None):
        if isinstance(shared, np.ndarray) or not all(isinstance(c, int) for c in chunks):
            return super().map(function, chunks, shared=shared)
        for chunk in chunks:
            if (function, chunk) not in self.known:
                self.known[function, chunk] = function(chunk, shared)
        return [self.known[function, chunk] for chunk in chunks]


class Rounding(Plain):
    """Sends what is shared as small floats."""

    def map(self, function, chunks, *, shared=None):
        if isinstance(shared, np.ndarray):
            shared = shared.astype(np.float32).astype(np.float64)
        return super().map(function, chunks, shared=shared)


class Lossy(Plain):
    """Sends the arrays of a pair as small floats, which only fits give."""

    def map(self, function, chunks, *, shared=None):
        results = super().map(function, chunks, shared=shared)
        if results and isinstance(results[0], tuple) and isinstance(results[0][0], np.ndarray):
            return [(confidence.round(1), label) for confidence, label in results]
        return results


class Workerless(Plain):
    """Says that nobody works."""

    n_workers = 0


class Uncounted:
    """Does not say who works."""

    def map(self, function, chunks, *, shared=None):
        return [function(chunk, shared) for chunk in chunks]


def test_an_engine_of_another_kind_passes():
    check_engine(Plain())


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        (Unordered(), "loses the order of its chunks"),
        (Losing(), "where .* is right"),
        (Lazy(), "gives a generator; `map` gives a list"),
        (Busy(), r"gives None where \[\] is right"),
        (Swallowing(), "swallows what a function raises, ValuesError: Row 5 cannot be judged"),
        (Renaming(), "raises RuntimeError: a worker failed, where a function raised ValuesError"),
        (Forgetful(), "loses what an error carries"),
        (Dying(), "does no more work after an error"),
        (Sharing(), "hands on the shared data of an earlier call"),
        (Caching(), "gives results of an earlier call"),
        (Rounding(), "changes the shared data"),
        (Lossy(), "changes the front of a search with the default classifier"),
        (Workerless(), "`n_workers` of the engine Workerless must be a whole number >= 1, got 0"),
        (Uncounted(), "has no n_workers"),
    ],
    ids=lambda part: type(part).__name__ if hasattr(part, "map") else "",
)
def test_a_broken_engine_is_caught(engine, said):
    breaks(check_engine, engine, said)


# Broken searches.


class Listing(RandomDesigns):
    """No SearchResult."""

    def run(self, problem, rng, callback=None):
        return list(super().run(problem, rng, callback).front)


class Unsorted(RandomDesigns):
    """No ParetoFront."""

    def run(self, problem, rng, callback=None):
        front, history = super().run(problem, rng, callback)
        return SearchResult(list(front), history)


class Dominated(RandomDesigns):
    """Returns what it has met and knows to be beaten."""

    def run(self, problem, rng, callback=None):
        front, history = super().run(problem, rng, callback)
        drawn = self.draw(problem, rng)
        met = problem.candidates(drawn[problem.evaluate(drawn).feasible])
        best = {_figures(candidate) for candidate in problem.front([*front, *met])}
        beaten = [candidate for candidate in met if _figures(candidate) not in best]
        return SearchResult(problem.front(beaten), history)


def _figures(candidate):
    e = candidate.evaluation
    return e.accuracy, e.coverage, e.cost


class MadeUp(RandomDesigns):
    """Pays half of what the problem says."""

    def run(self, problem, rng, callback=None):
        front, history = super().run(problem, rng, callback)
        better = [
            Candidate(c.design, c.threshold, replace(c.evaluation, paid=c.evaluation.paid / 2))
            for c in front
        ]
        return SearchResult(problem.front(better), history)


class Unheeding(RandomDesigns):
    """Makes candidates of what is not feasible."""

    def run(self, problem, rng, callback=None):
        front, history = super().run(problem, rng, callback)
        everything = problem.candidates(self.draw(problem, rng))
        return SearchResult(front.merge(problem.front(everything)), history)


class Permissive(RandomDesigns):
    """Forgets how much may be missed."""

    def run(self, problem, rng, callback=None):
        return super().run(replace(problem, max_missed={}), rng, callback)


class Sloppy(RandomDesigns):
    """Proposes a design that cannot be, and looks away."""

    wrong = -2

    def run(self, problem, rng, callback=None):
        with suppress(SearchError):
            problem.evaluate(np.full((1, problem.n_sources), self.wrong))
        return super().run(problem, rng, callback)


class Empty(Sloppy):
    """Proposes to buy nothing."""

    wrong = -1


class Gaping(Sloppy):
    """Proposes a second stage without a first."""

    wrong = 1


class Endless(Sloppy):
    """Proposes a stage beyond all."""

    wrong = 99


class Unused(RandomDesigns):
    """Leaves sources out where it may not."""

    def run(self, problem, rng, callback=None):
        return super().run(replace(problem, allow_unused=True), rng, callback)


class Long(RandomDesigns):
    """Takes a stage more than there may be."""

    def run(self, problem, rng, callback=None):
        longer = replace(problem, max_stages=problem.max_stages + 1)
        return super().run(longer, rng, callback)


class Raised(RandomDesigns):
    """Takes a threshold of its own."""

    def run(self, problem, rng, callback=None):
        front, history = super().run(problem, rng, callback)
        other = [Candidate(c.design, 0.99, c.evaluation) for c in front]
        return SearchResult(problem.front(other), history)


class Repriced(RandomDesigns):
    """Gives a front at other prices."""

    def run(self, problem, rng, callback=None):
        front, history = super().run(problem, rng, callback)
        return SearchResult(ParetoFront(front, replace(problem.costs, unit="EUR")), history)


class OwnWill(RandomDesigns):
    """Ignores the generator it is given."""

    def run(self, problem, rng, callback=None):  # noqa: ARG002  # that is its fault
        return super().run(problem, np.random.default_rng(), callback)


class Common(RandomDesigns):
    """Draws from the generator that all share."""

    def run(self, problem, rng, callback=None):
        np.random.rand()  # noqa: NPY002  # that is its fault
        return super().run(problem, rng, callback)


class Learning(RandomDesigns):
    """Does better every time."""

    runs = 0

    def run(self, problem, rng, callback=None):
        type(self).runs += 1
        more = RandomDesigns(5 * self.runs)
        return more.run(problem, rng, callback)


class Crowded(RandomDesigns):
    """Lets the number of workers decide."""

    def run(self, problem, rng, callback=None):
        more = RandomDesigns(5 * problem.table.engine.n_workers)
        return more.run(problem, rng, callback)


class Failing(RandomDesigns):
    """Cannot do with one source."""

    def run(self, problem, rng, callback=None):
        if problem.n_sources == 1:
            raise SearchError("Too few sources.")
        return super().run(problem, rng, callback)


class Silent(RandomDesigns):
    """Tells nobody anything."""

    def run(self, problem, rng, callback=None):  # noqa: ARG002  # that is its fault
        return super().run(problem, rng)


class Deaf(RandomDesigns):
    """Does not stop."""

    def run(self, problem, rng, callback=None):
        def muffled(entry):
            with suppress(Exception):
                callback(entry)

        return super().run(problem, rng, callback and muffled)


class Dragging(RandomDesigns):
    """Stops, but not at once."""

    def run(self, problem, rng, callback=None):
        try:
            return super().run(problem, rng, callback)
        finally:
            problem.evaluate(np.zeros((1, problem.n_sources), dtype=np.int8))


class Telling(RandomDesigns):
    """Tells something else."""

    changed = {}  # noqa: RUF012  # nobody changes it
    left_out = ()

    def run(self, problem, rng, callback=None):
        def tell(entry):
            entry |= self.changed
            for key in self.left_out:
                del entry[key]
            if callback is not None:
                callback(entry)

        return super().run(problem, rng, tell)


class Keyless(Telling):
    """Leaves the hypervolume out."""

    left_out = ("hypervolume",)


class Unfinished(Telling):
    """Ends in the middle."""

    changed = {"done": 0.5}  # noqa: RUF012


class Percent(Telling):
    """Tells shares as percentages."""

    changed = {"done": 100}  # noqa: RUF012


class Miscounting(Telling):
    """Tells of sets that are not fitted."""

    changed = {"source_sets": 10**6}  # noqa: RUF012


class Unknowing(Telling):
    """Tells of a threshold that there is not."""

    changed = {"threshold": 0.123}  # noqa: RUF012


class Vague(Telling):
    """Tells of many designs."""

    changed = {"designs": "many"}  # noqa: RUF012


class Terse(RandomDesigns):
    """Tells shares alone."""

    def run(self, problem, rng, callback=None):
        return super().run(problem, rng, callback and (lambda entry: callback(entry["done"])))


class Ancient(RandomDesigns):
    """Gives a history that nothing can be added to."""

    def run(self, problem, rng, callback=None):
        front, history = super().run(problem, rng, callback)
        return SearchResult(front, tuple(history))


@pytest.mark.parametrize(
    ("search", "said"),
    [
        (Listing(), "gives a list; `run` gives a SearchResult, on the problem with two classes"),
        (Unsorted(), "gives a list as its front"),
        (Dominated(), "gives a candidate that a design it evaluated beats"),
        (MadeUp(), "makes figures up"),
        (Unheeding(), "proposes what cannot be .* which it requires"),
        (Permissive(), "breaks `requires` or `max_missed` by"),
        (Sloppy(), "proposes what cannot be .*holds -2"),
        (Empty(), "proposes what cannot be .*buys nothing"),
        (Gaping(), "proposes what cannot be .*without gaps"),
        (Endless(), "proposes what cannot be .*has a stage 99"),
        (Unused(), "unused in .*, which allow_unused=False forbids"),
        (Long(), "gives a candidate of 4 stages, where max_stages=3"),
        (Raised(), "at threshold 0.99, which is none of the alternatives"),
        (Repriced(), "gives a front at other prices"),
        (OwnWill(), "gives another front with the same seed"),
        (Common(), "draws from a generator that all share"),
        (Learning(), "gives another front with the same seed"),
        (Crowded(), "gives another front with another number of workers"),
        (Failing(), r"raises SearchError \(Too few sources.\), on the problem with one source"),
        (Silent(), "tells its callback nothing"),
        (Deaf(), "swallows what its callback raises"),
        (Dragging(), "goes on evaluating after its callback has raised"),
        (Keyless(), r"does not tell \['hypervolume'\]"),
        (Unfinished(), "do not end at 1"),
        (Percent(), "tells done=100; it is a share"),
        (Miscounting(), "tells of 1000000 source sets"),
        (Unknowing(), "tells of threshold 0.123, which is none of the alternatives"),
        (Vague(), "tells designs='many'; it is a whole number"),
        (Terse(), "tells a float, not a dict"),
        (Ancient(), "gives a history that is not a list"),
    ],
    ids=lambda part: type(part).__name__ if hasattr(part, "run") else "",
)
def test_a_broken_search_is_caught(search, said):
    breaks(check_search, search, said)


def test_only_what_is_large_is_large():
    """An exhaustive search of sixty-six sources refuses, and is right to."""
    large = [question for question in QUESTIONS if question.is_large]
    assert [question.told for question in large] == ["66 sources"]
    with pytest.raises(SearchError, match="66 sources"):
        Exhaustive().run(large[0].make())
