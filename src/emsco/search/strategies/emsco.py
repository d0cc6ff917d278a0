"""EMSCO, the paper's genetic search over stage designs.

A generation is ranked by non-domination level, then by the norm of (coverage, accuracy, inverse
cost). Its elite passes to the next generation unchanged; the rest of that generation is bred by
roulette selection, crossover and mutation (`_operators`):

    g1 = coverage    g2 = accuracy    g3 = (least paid + d) / (paid + d)
    norm = sqrt(g1^2 + g2^2 + g3^2)   fitness = gamma^rank x norm
    gamma = largest norm / smallest norm + epsilon
    elite size = max(round(elite_fraction x distinct), distinct non-dominated)

Departures from the paper, each followed by how to restore its behaviour:

- The elite counts distinct *evaluations*. Each is kept once, by the design with the fewest stages,
  then the smallest assignment; otherwise designs that tie would fill the population. To restore:
  `elite="designs"`.
- Sources may be unused. To restore: `allow_unused=False` of the problem.
- Designs that break `max_missed`, `max_rejected` or `requires` rank below all others and are never
  part of the elite. To restore: give none of these.
- The new stage of a mutating index is drawn from 0..min(|Q|, max_stages - 1), so that no design
  exceeds `max_stages`. To restore: set `max_stages` to the number of sources.
- `mutation_rate` is 1 / the number of sources. In the paper's experiments: 0.05 or 0.075.
- The halting condition on a constant best design is off. To restore: set `patience`.
- Several thresholds are searched one after the other and their fronts are merged. To restore: give
  one threshold.
- The front is sorted by cost, has one design per evaluation, and no design that accepts nothing.
  `front.select(by="fitness")` returns the paper's first design; `EMSCO.evolve` yields every design.
- g3 has d = 1e-9 x the largest total cost, for free sources. Without free sources it changes
  nothing but digits beyond the ninth.

Gaps and slips of the paper are settled as follows: children join the next generation; compression
renumbers after each distinct stage; in the first population each index is in stage 1 with
probability 1/2, redrawn until both stages exist; a parent passed on by crossover is still mutated;
|Q| is counted before any index mutates; the roulette works in log space, because gamma^rank
overflows; rounding is numpy.rint. The authors' script draws mutated stages uniformly: `beta=1`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco.core.front import Candidate
from emsco.exceptions import SearchError
from emsco.search._problem import Counts, Problem, SearchResult
from emsco.search.strategies import _operators as operators
from emsco.search.strategies._archive import Callback, History
from emsco.search.strategies._operators import Assignments, Floats


class Generation(NamedTuple):
    """A population, best design first, with everything that the next one is made from."""

    number: int
    assignments: Assignments
    counts: Counts
    log_fitness: Floats
    front: NDArray[np.bool_]  # feasible, and dominated by none
    distinct: NDArray[np.bool_]  # feasible, and the first of its evaluation (or design)
    elite: NDArray[np.intp]  # positions of what passes on unchanged
    evaluated: int  # designs evaluated up to here
    unchanged: int  # generations that the best design has stayed the same
    halted: str | None = None

    @property
    def evaluations(self) -> NDArray[np.bool_]:
        """A mask of the simplest design of every feasible evaluation."""
        return self.counts.feasible & _starts(*self.counts[1:])


def _whole(value: Any, least: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def _share(value: Any) -> bool:
    return isinstance(value, Real) and 0 <= float(value) <= 1


def _positive(value: Any) -> bool:
    return isinstance(value, Real) and 0 < float(value) < np.inf


_RULES: tuple[tuple[str, str, Callable[[Any], bool]], ...] = (
    ("population", "a whole number >= 1", lambda value: _whole(value, 1)),
    ("generations", "a whole number >= 0", lambda value: _whole(value, 0)),
    ("mutation_rate", "None or from 0 to 1", lambda value: value is None or _share(value)),
    ("crossover_rate", "a number from 0 to 1", _share),
    ("elite_fraction", "a number from 0 to 1", _share),
    ("beta", "a number above 0", _positive),
    ("epsilon", "a number above 0", _positive),
    ("growth", "a whole number >= 0", lambda value: _whole(value, 0)),
    ("patience", "None or a whole number >= 1", lambda value: value is None or _whole(value, 1)),
    ("elite", "'evaluations' or 'designs'", lambda value: value in ("evaluations", "designs")),
)


@dataclass(frozen=True)
class EMSCO:
    """The paper's genetic search: selection, crossover, mutation and elitism.

    Parameters
    ----------
    population : int, default=300
        The number of designs in a generation.
    generations : int, default=150
        The number of generations bred after the first.
    mutation_rate : float, default=None
        The probability that the stage of a source is redrawn. None: 1 / the number of sources.
    crossover_rate : float, default=0.8
        The probability that a child combines its parents instead of copying one.
    elite_fraction : float, default=0.2
        The share of distinct designs that pass to the next generation unchanged; non-dominated
        ones always do.
    beta : float, default=2.0
        The bias of mutation towards early stages; 1 means no bias.
    epsilon : float, default=0.01
        The minimum separation between the fitness of two non-domination levels.
    growth : int, default=0
        The number of designs by which the population grows while the elite fills it.
    patience : int, default=None
        Stop when the best design has not changed for this many generations. None: never.
    elite : {"evaluations", "designs"}, default="evaluations"
        What makes two members of the elite distinct.

    Examples
    --------
    >>> from emsco.search.strategies.emsco import EMSCO
    >>> EMSCO(population=100, patience=20).beta
    2.0
    """

    population: int = 300
    generations: int = 150
    mutation_rate: float | None = None
    crossover_rate: float = 0.8
    elite_fraction: float = 0.2
    beta: float = 2.0
    epsilon: float = 0.01
    growth: int = 0
    patience: int | None = None
    elite: str = "evaluations"

    def __post_init__(self) -> None:
        for name, must, holds in _RULES:
            value = getattr(self, name)
            if not holds(value):
                raise SearchError(f"`{name}` must be {must}, got {value!r}.")

    def run(
        self, problem: Problem, rng: np.random.Generator, callback: Callback = None
    ) -> SearchResult:
        """Search every threshold of a problem; `callback` gets each entry of the history."""
        candidates: list[Candidate] = []
        history = History(callback)
        for threshold in range(problem.n_thresholds):
            span = problem.span(threshold)
            last = self.breed(problem, rng, threshold, history, span)
            found = last.assignments[last.front & last.evaluations]
            candidates += problem.candidates(found, threshold)
        return SearchResult(problem.front(candidates), [*history])

    def breed(
        self,
        problem: Problem,
        rng: np.random.Generator,
        threshold: int,
        history: History,
        span: tuple[float, float] = (0.0, 1.0),
    ) -> Generation:
        """Search one threshold, add to the history, and return the last generation.

        `span` is the part of the whole search that this one covers, as two shares.
        """
        for generation in self.evolve(problem, rng, threshold):
            share = 1.0 if generation.halted else generation.number / self.generations
            places = np.flatnonzero(generation.front & generation.evaluations)
            stages = np.bincount(operators.stage_counts(generation.assignments), minlength=2)
            history.append(
                {
                    "threshold": problem.thresholds[threshold],
                    "done": span[0] + (span[1] - span[0]) * share,
                    "source_sets": len(problem.table),
                    "generation": generation.number,
                    "population": len(generation.assignments),
                    "front": len(places),
                    "evaluations": int(generation.evaluations.sum()),
                    "elite": len(generation.elite),
                    "best": generation.assignments[0].tolist(),
                    "log_fitness": float(generation.log_fitness[0]),
                    "hypervolume": problem.hypervolume(generation.counts.take(places)),
                    "stages": stages[1:].tolist(),
                    "designs": generation.evaluated,
                    "halted": generation.halted,
                }
            )
        return generation

    def evolve(
        self, problem: Problem, rng: np.random.Generator, threshold: int = 0
    ) -> Iterator[Generation]:
        """Yield one generation after the other; the last one says why the search halted."""
        size = self.population
        first = operators.initial_population(size, problem.n_sources, problem.max_stages, rng)
        generation = self._ranked(first, problem.evaluate(first, threshold), problem)
        while generation.halted is None:
            yield generation
            elite = generation.elite
            size = self._resized(size, len(elite))
            children = self._children(generation, size - len(elite), problem, rng)
            # The elite keeps its counts: only children are evaluated.
            counts = generation.counts.take(elite).join(problem.evaluate(children, threshold))
            assignments = np.concatenate([generation.assignments[elite], children])
            generation = self._ranked(assignments, counts, problem, generation)
        yield generation

    def _ranked(
        self,
        assignments: Assignments,
        counts: Counts,
        problem: Problem,
        previous: Generation | None = None,
    ) -> Generation:
        """Sort a population by fitness and find its elite."""
        ranks, norms = _judged(counts, problem)
        keys = operators.sort_keys(assignments)
        accepted, right, paid = (np.where(counts.feasible, count, 0) for count in counts[1:])
        # Ties in fitness are ordered by evaluation, and then the simplest design comes first.
        order = np.lexsort((keys, paid, right, accepted, -norms, -ranks))
        told_apart = (keys,) if self.elite == "designs" else (accepted, right, paid)
        distinct = counts.feasible[order] & _starts(*(what[order] for what in told_apart))
        front = counts.feasible[order] & (ranks[order] == ranks.max())
        elite_size = max(
            int(np.rint(self.elite_fraction * distinct.sum())), int((distinct & front).sum())
        )
        generation = Generation(
            number=0,
            assignments=assignments[order],
            counts=counts.take(order),
            log_fitness=operators.log_fitness(ranks[order], norms[order], self.epsilon),
            front=front,
            distinct=distinct,
            elite=np.flatnonzero(distinct)[:elite_size],
            evaluated=len(assignments),
            unchanged=0,
        )
        if previous is not None:
            same = np.array_equal(generation.assignments[0], previous.assignments[0])
            generation = generation._replace(
                number=previous.number + 1,
                evaluated=previous.evaluated + len(assignments) - len(previous.elite),
                unchanged=previous.unchanged + 1 if same and front[0] else 0,
            )
        halted = None
        if generation.number >= self.generations:
            halted = "generations"
        elif self.patience is not None and generation.unchanged >= self.patience:
            halted = "patience"
        elif self.growth == 0 and len(generation.elite) == len(generation.assignments):
            halted = "elite"
        return generation._replace(halted=halted)

    def _resized(self, size: int, elite_size: int) -> int:
        """Grow a population that its elite fills; shrink it again when there is room."""
        if elite_size == size:
            size += self.growth
        if elite_size < size - self.growth and size > self.population:
            size -= self.growth
        return size

    def _children(
        self, generation: Generation, size: int, problem: Problem, rng: np.random.Generator
    ) -> Assignments:
        """Breed so many designs; one that buys nothing is drawn again."""
        chosen = operators.roulette(generation.log_fitness, 2 * size, rng)
        parents = generation.assignments[chosen]
        children = operators.mutate(
            operators.crossover(parents[:size], parents[size:], self.crossover_rate, rng),
            1 / problem.n_sources if self.mutation_rate is None else self.mutation_rate,
            self.beta,
            problem.max_stages,
            problem.allow_unused,
            rng,
        )
        empty = children.max(axis=1, initial=-1) < 0
        if empty.any():
            children[empty] = self._children(generation, int(empty.sum()), problem, rng)
        return children


def _starts(*columns: NDArray[Any]) -> NDArray[np.bool_]:
    """Mark the rows of sorted columns that differ from the row before."""
    starts = np.ones(len(columns[0]), dtype=np.bool_)
    starts[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return starts


def _judged(counts: Counts, problem: Problem) -> tuple[NDArray[np.int64], Floats]:
    """Return the paper's ranks (the best is the highest, infeasible ones are 0) and the norms."""
    ranks, norms = np.zeros(len(counts.feasible), dtype=np.int64), np.ones(len(counts.feasible))
    if not counts.feasible.any():
        return ranks, norms
    accepted, right, paid = (count[counts.feasible] for count in counts[1:])
    accuracy = right / np.maximum(accepted, 1)
    levels = operators.domination_levels(accepted, accuracy, paid)
    ranks[counts.feasible] = levels.max() - levels + (0 if counts.feasible.all() else 1)
    spare = 1e-9 * max(problem.total * problem.n_rows, 1)
    inverse_cost = (paid.min() + spare) / (paid + spare)
    norm = np.sqrt((accepted / problem.whole) ** 2 + accuracy**2 + inverse_cost**2)
    norms[:] = norm.min()
    norms[counts.feasible] = norm
    return ranks, norms
