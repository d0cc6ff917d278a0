"""The paper's operators, which select and change designs, on a whole population at once.

A population is an int8 array with one row per design and one column per source; -1 is unused. Every
operator takes and returns such arrays, and draws all randomness from the given `rng`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Assignments = NDArray[np.int8]
Floats = NDArray[np.float64]


def compress(assignments: NDArray[np.integer]) -> Assignments:
    """Renumber the stages in use as 0, 1, ... in every design; -1 stays unused."""
    size = len(assignments)
    rows = np.arange(size)[:, None]
    width = int(assignments.max(initial=-1)) + 1
    # One column more than there are stages: index -1 finds it, so unused needs no special case.
    in_use = np.zeros((size, width + 1), dtype=np.int8)
    in_use[rows, assignments] = 1
    renumbered = np.cumsum(in_use, axis=1, dtype=np.int8) - np.int8(1)
    renumbered[:, -1] = -1
    compressed: Assignments = renumbered[rows, assignments]
    return compressed


def stage_counts(assignments: Assignments) -> NDArray[np.int64]:
    """Count the stages of every compressed design, the paper's |Q| = max [Q] + 1."""
    last: NDArray[np.int64] = assignments.max(axis=1, initial=-1).astype(np.int64)
    return last + 1


def sort_keys(assignments: Assignments) -> NDArray[np.bytes_]:
    """Return a key for every design that sorts by stage count, then by assignment."""
    counts = stage_counts(assignments).astype(np.int8)
    return row_keys(np.column_stack([counts - np.int8(1), assignments]))


def row_keys(rows: NDArray[np.int8]) -> NDArray[np.bytes_]:
    """Return keys that sort like the rows, which hold numbers >= -1."""
    # Bytes sort as unsigned numbers: -1 becomes 0, and 127 becomes 128 by overflow.
    shifted = np.ascontiguousarray(rows + np.int8(1))
    return shifted.view(f"S{shifted.shape[1]}").ravel()


def initial_population(
    size: int, n_sources: int, max_stages: int, rng: np.random.Generator
) -> Assignments:
    """Draw designs of two stages; if only one stage is possible, return that design."""
    if n_sources == 1 or max_stages == 1:
        return np.zeros((size, n_sources), dtype=np.int8)
    drawn = rng.integers(0, 2, (size, n_sources), dtype=np.int8)
    while (single := drawn.min(axis=1) == drawn.max(axis=1)).any():
        drawn[single] = rng.integers(0, 2, (int(single.sum()), n_sources), dtype=np.int8)
    return drawn


def transfer(
    stages: NDArray[np.integer],
    parent_stages: NDArray[np.integer] | int,
    child_stages: NDArray[np.integer] | int,
) -> Assignments:
    """Carry stages of a parent over to a child: max(round((a + 1) / |R| x |C|) - 1, 0)."""
    # Multiplied before it is divided, so that halves are exact and rint rounds them as the paper.
    scaled = np.rint((stages + 1.0) * child_stages / parent_stages) - 1
    return np.where(stages < 0, -1, np.maximum(scaled, 0)).astype(np.int8)


def crossover(
    first: Assignments, second: Assignments, rate: float, rng: np.random.Generator
) -> Assignments:
    """Make one child of every pair of parents.

    With probability `rate` each index comes from either parent by a fair coin, its stage carried
    over to a stage count that is |A|, |B| or round((|A| + |B|) / 2), each with probability 1/3.
    Otherwise the child is one of its parents, by a fair coin.
    """
    size = len(first)
    counts = np.stack([stage_counts(first), stage_counts(second)])
    middle = np.rint(counts.sum(axis=0) / 2).astype(np.int64)
    child_stages = np.vstack([counts, middle])[rng.integers(3, size=size), np.arange(size)]
    from_first = rng.random(first.shape) < 0.5
    parent_stages = np.where(from_first, counts[0][:, None], counts[1][:, None])
    combined = transfer(np.where(from_first, first, second), parent_stages, child_stages[:, None])
    passed = np.where(rng.random((size, 1)) < 0.5, first, second)
    return compress(np.where(rng.random((size, 1)) < rate, combined, passed))


def mutation_probabilities(n_stages: int, beta: float) -> Floats:
    """Return the probability of every stage 0..|Q| to which a mutating index may be assigned.

    The beta-binomial with alpha = 1, C(|Q|, j) B(j + 1, |Q| - j + beta) / B(1, beta): it starts at
    beta / (|Q| + beta), and each term is the one before times (|Q| - j) / (|Q| - j - 1 + beta).
    """
    left = np.arange(n_stages, 0.0, -1.0)
    return np.cumprod(np.append(beta / (n_stages + beta), left / (left - 1 + beta)))


def increment_probability(n_stages: int, n_sources: int, rate: float, beta: float) -> float:
    """Return the paper's P_incr = 1 - (1 - m p)^n, that mutating a design opens a new stage."""
    opens = mutation_probabilities(n_stages, beta)[-1]
    return float(1 - (1 - rate * opens) ** n_sources)


@lru_cache(maxsize=32)
def _cumulative(max_stages: int, beta: float) -> Floats:
    """Stack the cumulative mutation probabilities over 0..0, 0..1, ..., 0..max_stages - 1."""
    table = np.ones((max_stages, max_stages))
    for last in range(max_stages):
        # The last entry is exactly 1, so that every draw below 1 finds a stage.
        table[last, :last] = np.cumsum(mutation_probabilities(last, beta))[:last]
    table.flags.writeable = False
    return table


def mutate(
    assignments: Assignments,
    rate: float,
    beta: float,
    max_stages: int,
    allow_unused: bool,
    rng: np.random.Generator,
) -> Assignments:
    """Assign every index anew with probability `rate`.

    The stage is drawn from `mutation_probabilities` over 0..min(|Q|, max_stages - 1), |Q| counted
    before any index mutates. Where sources may be unused, a mutating index is left unused with
    probability 1 / (|Q| + 2) instead. A child may come out with every source unused.
    """
    rows, columns = np.nonzero(rng.random(assignments.shape) < rate)
    n_stages = stage_counts(assignments)[rows]
    last = np.minimum(n_stages, max_stages - 1)
    drawn = (rng.random((len(rows), 1)) >= _cumulative(max_stages, beta)[last]).sum(axis=1)
    if allow_unused:
        drawn[rng.random(len(rows)) < 1 / (n_stages + 2)] = -1
    mutated = assignments.copy()
    mutated[rows, columns] = drawn
    return compress(mutated)


def domination_levels(
    accepted: NDArray[np.int64], accuracy: Floats, paid: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the non-domination level of each evaluation: 0 if no other dominates it."""
    import moocore

    # Ranks instead of prices: whole numbers of any size, which floats may not represent exactly.
    price_order = np.unique(paid, return_inverse=True)[1]
    ranks = moocore.pareto_rank(np.column_stack([-accepted, -accuracy, price_order]))
    levels: NDArray[np.int64] = np.asarray(ranks, dtype=np.int64)
    return levels - (levels.min() if len(levels) else 0)  # older releases of moocore count from 1


def log_fitness(ranks: NDArray[np.integer], norms: Floats, epsilon: float) -> Floats:
    """Return log f = rank x log gamma + log norm, gamma = largest norm / smallest norm + epsilon.

    `ranks` are the paper's: the best designs have the highest. In log space, since gamma^rank
    overflows when there are many levels.
    """
    gamma = norms.max() / norms.min() + epsilon
    logs: Floats = ranks * np.log(gamma) + np.log(norms)
    return logs


def roulette(fitness: Floats, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw positions, each with a probability proportional to exp of its log fitness."""
    wheel = np.cumsum(np.exp(fitness - fitness.max()))
    drawn: NDArray[np.int64] = np.searchsorted(wheel, rng.random(size) * wheel[-1], side="right")
    return drawn
