"""The designs one change away from others, for many designs at once.

A source moves to another stage, to a new stage, or out; two stages are exchanged or merged; a stage
is split; or two consecutive stages, or the last stage and the unused sources, are divided in
another way, which replaces one source set of the chain.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from emsco.search.strategies._operators import Assignments, compress, stage_counts

Places = NDArray[np.int8]  # 0 unused, 2 the first stage, 4 the second, ...; odd for a new stage


def neighbours(
    designs: Assignments,
    max_stages: int,
    allow_unused: bool,
    divisions: int,
    rng: np.random.Generator,
) -> tuple[Assignments, NDArray[np.intp]]:
    """Return designs one change away, and of which design each is a neighbour; some are repeated.

    They include every move, exchange and merger, and `divisions` random divisions per design.
    """
    places = (2 * (designs + 1)).astype(np.int8)
    last = places.max(axis=1)
    made = [_moved(places, last, allow_unused), _exchanged(places, last), _merged(places, last)]
    if divisions:
        made.append(_divided(places, last, allow_unused, divisions, rng))
    near = np.concatenate([np.repeat(np.arange(len(designs)), rows.shape[1]) for rows in made])
    flat = compress(np.concatenate([rows.reshape(-1, rows.shape[2]) for rows in made]) - np.int8(1))
    counts = stage_counts(flat)
    good = (counts > 0) & (counts <= max_stages)
    return flat[good], near[good]


def perturbed(
    designs: Assignments, max_stages: int, allow_unused: bool, rng: np.random.Generator
) -> Assignments:
    """Move about one to four sources of each design at random; leave out invalid results."""
    places = (2 * (designs + 1)).astype(np.int8)
    lowest = 0 if allow_unused else 1
    targets = rng.integers(lowest, places.max(axis=1)[:, None] + 2, size=designs.shape)
    share = rng.integers(1, 5, size=(len(designs), 1)) / designs.shape[1]
    moved = np.where(rng.random(designs.shape) < share, targets, places).astype(np.int8)
    changed = compress(moved - np.int8(1))
    counts = stage_counts(changed)
    return changed[(counts > 0) & (counts <= max_stages)]


def _moved(places: Places, last: NDArray[np.int8], allow_unused: bool) -> Places:
    """Move each source to each existing place, and to a new stage between any two."""
    n_designs, n_sources = places.shape
    targets = np.arange(0 if allow_unused else 1, last.max() + 2, dtype=np.int8)
    moved = np.broadcast_to(
        places[:, None, None, :], (n_designs, n_sources, len(targets), n_sources)
    ).copy()
    source = np.arange(n_sources)
    # All places behind the last stage of a shorter design are the same new stage.
    moved[:, source, :, source] = np.minimum(targets, last[:, None] + np.int8(1))
    return moved.reshape(n_designs, -1, n_sources)


def _exchanged(places: Places, last: NDArray[np.int8]) -> Places:
    """Exchange any two stages."""
    stages = np.arange(2, last.max() + 1, 2, dtype=np.int8)
    early, late = (stages[chosen][:, None] for chosen in np.triu_indices(len(stages), 1))
    here = places[:, None, :]
    return np.where(here == early, late, np.where(here == late, early, here))


def _merged(places: Places, last: NDArray[np.int8]) -> Places:
    """Merge each stage with the one before it."""
    late = np.arange(4, last.max() + 1, 2, dtype=np.int8)[:, None]
    here = places[:, None, :]
    return np.where(here == late, late - np.int8(2), here)


def _divided(
    places: Places,
    last: NDArray[np.int8],
    allow_unused: bool,
    divisions: int,
    rng: np.random.Generator,
) -> Places:
    """Split a stage, or divide two neighbouring ones in another way, at random."""
    n_designs, n_sources = places.shape
    shape = (n_designs, divisions, 1)
    n_stages = (last // 2)[:, None, None]
    early = 2 * rng.integers(1, n_stages + 1, size=shape)
    # Half of the time the stage is split, otherwise it is divided anew with the one after it; for
    # the last stage, these are the unused sources.
    late = early + rng.integers(1, 3, size=shape)
    behind = late > 2 * n_stages + 1
    late = np.where(behind, 0 if allow_unused else early + 1, late)
    here = places[:, None, :]
    pooled = (here == early) | (here == late)
    first = rng.random((n_designs, divisions, n_sources)) < rng.random(shape)
    return np.where(pooled, np.where(first, early, late), here).astype(np.int8)
