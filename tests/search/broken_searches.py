"""Searches that each break one promise, for the suite to catch; else they are the toy."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
from toy_search import RandomDesigns

from emsco import Candidate, ParetoFront
from emsco.exceptions import SearchError
from emsco.search import SearchResult


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
