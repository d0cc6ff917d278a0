"""Check the designs and thresholds that a strategy proposes, before anything is counted.

A strategy may be anybody's code. A design with a gap, or a threshold that does not exist, would
give wrong counts without an error. Designs are checked all at once, and one by one only if one of
them is invalid.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco.exceptions import SearchError, quoted

_MOST_STAGES = 128  # a stage must fit into one byte
_MOST_BITS = 61  # stages that fit into one word
_MAX_STAGES = 32  # most stages of a design in a message


def check_designs(
    proposed: Any, names: Sequence[str], max_stages: int, *, allow_unused: bool
) -> NDArray[np.int8]:
    """Return proposed designs as small integers; raise an error about the first invalid one."""
    designs = np.asarray(proposed)
    if designs.dtype.kind not in "iu":
        raise SearchError(
            f"The search proposed designs as {designs.dtype}; a design must hold whole numbers: "
            "the stage of each source, or -1 for unused."
        )
    if designs.ndim != 2 or designs.shape[1] != len(names):
        raise SearchError(
            f"The search proposed designs in an array of shape {designs.shape}; it must be "
            f"(n_designs, {len(names)}), one row per design and one column per source."
        )
    max_stages = min(max_stages, _MOST_STAGES)
    if len(designs) and not _all_can_be(designs, max_stages, allow_unused):
        for design in designs:
            _refuse(design, names, max_stages, allow_unused)
    return designs.astype(np.int8, copy=False)


def _all_can_be(designs: NDArray[Any], max_stages: int, allow_unused: bool) -> bool:
    """Return whether every design is valid; False also if there are more stages than bits."""
    if max_stages > _MOST_BITS or designs.min() < (-1 if allow_unused else 0):
        return False
    if designs.max() >= max_stages:
        return False
    # One bit for unused, always set, and one per stage: without gaps they are 11...1.
    bits = np.left_shift(1, designs.astype(np.int8, copy=False) + np.int8(1), dtype=np.int64)
    used = np.bitwise_or.reduce(bits, axis=1) | 1
    return bool(used.min() > 1 and not (used & (used + 1)).any())


def _refuse(
    design: NDArray[Any], names: Sequence[str], max_stages: int, allow_unused: bool
) -> None:
    """Raise an error if one design is invalid."""
    last, unused = int(design.max()), np.flatnonzero(design < 0)
    if design.min() < -1:
        fault = f"which holds {design.min()}; an unused source is -1"
    elif last < 0:
        fault = "which buys nothing; a design has at least one stage"
    elif last >= max_stages:
        fault = f"which has a stage {last}; with at most {max_stages} stages the last is stage "
        fault += f"{max_stages - 1}"
    elif unused.size and not allow_unused:
        fault = f"which leaves {names[unused[0]]!r} unused; allow_unused=False forbids that"
    else:
        skipped = [stage for stage in range(last) if not (design == stage).any()]
        if not skipped:
            return
        fault = f"which buys nothing in stage {skipped[0]}; stages are 0, 1, ... without gaps"
    raise SearchError(f"The search proposed {design_text(design)}, {fault}.")


def check_thresholds(proposed: Any, n_designs: int, max_stages: int, n_thresholds: int) -> None:
    """Refuse anything but one alternative threshold, or one per design and stage."""
    which = np.asarray(proposed)
    if which.dtype.kind not in "iu" or which.shape not in ((), (n_designs, max_stages)):
        raise SearchError(
            f"The search proposed thresholds as {which.dtype} of shape {which.shape}; they must be "
            f"one whole number, or an array of shape ({n_designs}, {max_stages}), one per design "
            "and stage."
        )
    if which.size and (which.min() < 0 or which.max() >= n_thresholds):
        wrong = which.min() if which.min() < 0 else which.max()
        raise SearchError(
            f"The search proposed threshold {wrong}; the alternatives are 0 to {n_thresholds - 1}."
        )


def design_text(design: NDArray[Any]) -> str:
    """Format a design for a message."""
    return f"[{quoted(design.tolist(), most=_MAX_STAGES)}]"
