"""Loops over packed bits and trees, compiled from src/kernels.

Rows are bits, 64 to a word. For a source set, `accepted` marks the rows whose confidence reaches
the threshold, and `right` those of them that are labelled right.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Words = NDArray[np.uint64]
Numbers = NDArray[np.float64]

def evaluate_chains(
    positions: Integers,  # of each set of each chain in the tables; -1 if the chain cannot be
    prices: Integers,  # of the same sets, in whole units
    which: Integers,  # of the alternative thresholds each stage has
    begins: Integers,  # where each design's chain begins
    accepted: Words,  # thresholds x sets x words
    right: Words,  # thresholds x sets x words
    everyone: Words,  # words: a bit for each row there is
    planes: Words,  # words x planes: the bits of the stakes of rows; without any, rows are counted
    masks: Words,  # classes x words: a bit for each row of a class
    out_accepted: Integers,
    out_right: Integers,
    out_paid: Integers,
    out_class_accepted: Integers,  # designs x classes
    out_class_right: Integers,
    out_reached: Integers,  # rows that reach each set of each chain
    /,
) -> None:
    """Count accepted rows, right ones and price units for many designs, or add up their stakes."""

def count_labels(
    positions: Integers,
    which: Integers,
    begins: Integers,
    accepted: Words,  # thresholds x sets x words
    labels: Words,  # bits of the label's code x sets x words
    everyone: Words,
    planes: Words,
    out: Integers,  # designs x classes
    /,
) -> None:
    """Count for many designs the rows accepted under each label."""

def walk(
    firsts: Integers,  # the sets that the first stage may buy
    accepted: Words,  # sets x words, a set's position being its bits
    right: Words,
    price: Integers,
    exists: NDArray[np.bool_],  # whether a set is closed under what its sources require
    spread: Words,  # a set with four bits per source, the first source highest
    missed_masks: Words,  # classes with a limit on missed rows x words
    most_missed: Integers,  # the limit of each
    rejected_masks: Words,  # the same for what is rejected
    most_rejected: Integers,
    least: Integers,  # the lowest cost at each place; a design that costs more is dominated
    cells: Integers,
    keys: Words,
    state: Integers,  # of the walk: next first, depth, designs walked, list entries used
    chain: Integers,
    rest: Integers,
    following: Integers,
    undecided: Words,  # depths x words
    sums: Integers,  # depths x (accepted, right, paid, rows left)
    missed: Integers,  # depths x classes with a limit on missed rows
    spreads: Words,
    planes: Words,  # words x planes: the bits of the stakes of rows; without any, rows are counted
    max_stages: int,
    use_all: bool,  # whether the last stage must have bought every source
    width: int,  # of `least`, as a square
    step: int,  # counts that share a place; 0 if every pair (accepted, wrong) has its own
    /,
) -> bool:
    """Walk every chain of sets that starts with one of `firsts`; return whether it is finished.

    If a list fills up, the walk stops before its next loop; it is called again with the same arrays
    once there is room.
    """

def add_leaves(
    X: Numbers,
    sets: Words,  # one word per set
    source: Integers,  # of each column of X
    begins: Integers,  # where each tree's nodes begin
    feature: Integers,
    threshold: Numbers,
    missing_left: NDArray[np.uint8],
    left: NDArray[np.uint32],  # counted from the tree's first node
    right: NDArray[np.uint32],
    is_leaf: NDArray[np.uint8],
    value: Numbers,
    raw: Numbers,  # rows x classes x sets: where leaves are added
    /,
) -> None:
    """Add the leaf of each tree to each row and set; an iteration has one tree per class."""

def read_numbers(
    row: Mapping[str, Any],
    features: tuple[str, ...],
    lows: bytes,  # a float64 for each feature
    highs: bytes,
    values: list[Any],  # where numbers are put, as floats
    begin: int,  # the place of the first
    /,
) -> bool:
    """Read the numbers of a row; return whether each is a float or an int within its limits."""

def add_products(
    values: list[Any],
    places: bytes,  # an int64 for each slope
    slopes: bytes,  # float64
    /,
) -> float:
    """Add slope times value, in order."""
