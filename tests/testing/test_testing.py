"""The suites pass every part of our own, and catch, for each promise, a part that breaks it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import broken_searches as broken
import numpy as np
import pytest
from toy_search import RandomDesigns

from emsco import (
    EMSCO,
    CascadeSearchCV,
    Exhaustive,
    Hybrid,
    LocalEngine,
    LocalSearch,
)
from emsco.datasets import make_costly_classification
from emsco.exceptions import ContractError, SearchError
from emsco.testing import check_engine, check_search
from emsco.testing._small_problems import QUESTIONS

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
    by = {question.description: question.make() for question in QUESTIONS}
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


@pytest.mark.parametrize(
    ("search", "said"),
    [
        (
            broken.Listing(),
            "gives a list; `run` gives a SearchResult, on the problem with two classes",
        ),
        (broken.Unsorted(), "gives a list as its front"),
        (broken.Dominated(), "gives a candidate that a design it evaluated beats"),
        (broken.MadeUp(), "makes figures up"),
        (broken.Unheeding(), "proposes what cannot be .* which it requires"),
        (broken.Permissive(), "breaks `requires` or a limit by class, by"),
        (broken.Sloppy(), "proposes what cannot be .*holds -2"),
        (broken.Empty(), "proposes what cannot be .*buys nothing"),
        (broken.Gaping(), "proposes what cannot be .*without gaps"),
        (broken.Endless(), "proposes what cannot be .*has a stage 99"),
        (broken.Unused(), "unused in .*, which allow_unused=False forbids"),
        (broken.Long(), "gives a candidate of 4 stages, where max_stages=3"),
        (broken.Raised(), "at threshold 0.99, which is none of the alternatives"),
        (broken.Repriced(), "gives a front at other prices"),
        (broken.OwnWill(), "gives another front with the same seed"),
        (broken.Common(), "draws from a generator that all share"),
        (broken.Learning(), "gives another front with the same seed"),
        (broken.Crowded(), "gives another front with another number of workers"),
        (
            broken.Failing(),
            r"raises SearchError \(Too few sources.\), on the problem with one source",
        ),
        (broken.Silent(), "tells its callback nothing"),
        (broken.Deaf(), "swallows what its callback raises"),
        (broken.Dragging(), "goes on evaluating after its callback has raised"),
        (broken.Keyless(), r"does not tell \['hypervolume'\]"),
        (broken.Unfinished(), "do not end at 1"),
        (broken.Percent(), "tells done=100; it is a share"),
        (broken.Miscounting(), "tells of 1000000 source sets"),
        (broken.Unknowing(), "tells of threshold 0.123, which is none of the alternatives"),
        (broken.Vague(), "tells designs='many'; it is a whole number"),
        (broken.Terse(), "tells a float, not a dict"),
        (broken.Ancient(), "gives a history that is not a list"),
    ],
    ids=lambda part: type(part).__name__ if hasattr(part, "run") else "",
)
def test_a_broken_search_is_caught(search, said):
    breaks(check_search, search, said)


def test_only_what_is_large_is_large():
    """An exhaustive search of sixty-six sources refuses, and is right to."""
    large = [question for question in QUESTIONS if question.is_large]
    assert [question.description for question in large] == ["66 sources"]
    with pytest.raises(SearchError, match="66 sources"):
        Exhaustive().run(large[0].make())
