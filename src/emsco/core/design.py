"""An ordered partition of the sources into stages."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from emsco.core.costs import Costs
from emsco.exceptions import DesignError, nearest, quoted


def compress(assignment: ArrayLike) -> NDArray[np.int64]:
    """Renumber the stages in use as 0, 1, ... in the same order; -1 stays unused."""
    stages = np.array(assignment, dtype=np.int64)
    listed = stages.tolist()  # so few numbers are sorted faster than by numpy
    renumbered = {stage: i for i, stage in enumerate(sorted({s for s in listed if s >= 0}))}
    return np.array([renumbered.get(stage, -1) for stage in listed], dtype=np.int64)


@dataclass(frozen=True, eq=False, repr=False)
class StageDesign:
    """Which sources are bought in which order.

    Parameters
    ----------
    assignment : sequence of int
        The stage of every source, counted from 0; -1 for a source that is never bought. Empty
        stages are removed.
    names : sequence of str, default=None
        The names of the sources. A named design is matched to costs by name, an unnamed one by
        position.

    Examples
    --------
    >>> from emsco import StageDesign
    >>> design = StageDesign([0, 2, -1, 0], names=["age", "lab", "scan", "sex"])
    >>> design.stages
    (('age', 'sex'), ('lab',))
    >>> design.unused, design.acquired(1)
    (('scan',), ('age', 'lab', 'sex'))
    >>> design == StageDesign.from_stages([["sex", "age"], ["lab"]], design.names)
    True
    """

    assignment: NDArray[np.int64]
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        stages = np.asarray(self.assignment)
        if stages.ndim != 1 or stages.dtype.kind not in "iu":
            raise DesignError(
                f"`assignment` must have one integer per source, got {self.assignment!r}."
            )
        if (stages < -1).any():
            raise DesignError(f"A stage must be >= 0, or -1 for unused; got {stages.min()}.")
        if not (stages >= 0).any():
            raise DesignError("A design must buy at least one source; all are unused.")
        assignment = compress(stages)
        assignment.flags.writeable = False
        object.__setattr__(self, "assignment", assignment)
        if self.names is not None:
            names = tuple(self.names)
            object.__setattr__(self, "names", names)
            if len(names) != len(assignment):
                raise DesignError(f"There are {len(assignment)} stages for {len(names)} names.")
            if len(set(names)) != len(names):
                raise DesignError(f"Every source must be named only once in a design, got {names}.")

    @classmethod
    def from_stages(
        cls, stages: Iterable[Iterable[Any]], names: Sequence[str] | None = None
    ) -> StageDesign:
        """Make a design from the names of each stage's sources.

        `names` lists all sources; those in no stage are unused. None: the sources of the stages, in
        their order.
        """
        listed = [[stage] if isinstance(stage, str) else list(stage) for stage in stages]
        for number, stage in enumerate(listed):
            if not stage:
                raise DesignError(f"Stage {number} is empty; every stage must buy a source.")
        flat = [source for stage in listed for source in stage]
        if len(set(flat)) != len(flat):
            raise DesignError(f"A source must be bought only once, got the stages {listed}.")
        known = list(flat if names is None else names)
        unknown = [source for source in flat if source not in known]
        if unknown:
            raise DesignError(f"{unknown[0]!r} is not a source" + nearest(unknown[0], known))
        stage_of = {source: number for number, stage in enumerate(listed) for source in stage}
        return cls(
            np.array([stage_of.get(name, -1) for name in known], dtype=np.int64), tuple(known)
        )

    @staticmethod
    def count(n: int, max_stages: int, *, unused: bool = False) -> int:
        """Count the designs of `n` sources with at most `max_stages` stages.

        Examples
        --------
        >>> from emsco import StageDesign
        >>> StageDesign.count(14, 4)
        254152083
        >>> StageDesign.count(2, 2, unused=True)  # a|b  b|a  ab  a  b
        5
        """
        free = 1 if unused else 0  # what else an index may be besides one of the k stages

        def onto(k: int) -> int:
            return sum((-1) ** j * comb(k, j) * (k + free - j) ** n for j in range(k + 1))

        return sum(onto(k) for k in range(1, min(n, max_stages) + 1))

    @cached_property
    def _labels(self) -> tuple[Any, ...]:
        return tuple(range(len(self.assignment))) if self.names is None else self.names

    def _where(self, chosen: NDArray[np.bool_]) -> tuple[Any, ...]:
        return tuple(self._labels[i] for i in np.flatnonzero(chosen))

    @cached_property
    def n_stages(self) -> int:
        """The number of stages."""
        return int(self.assignment.max()) + 1

    @cached_property
    def stages(self) -> tuple[tuple[Any, ...], ...]:
        """The sources that each stage buys: names, or positions in an unnamed design."""
        return tuple(self._where(self.assignment == stage) for stage in range(self.n_stages))

    @property
    def unused(self) -> tuple[Any, ...]:
        """The sources that are never bought."""
        return self._where(self.assignment < 0)

    def acquired(self, stage: int) -> tuple[Any, ...]:
        """Return the sources bought up to and including a stage."""
        if not 0 <= stage < self.n_stages:
            raise DesignError(f"`stage` must be in 0..{self.n_stages - 1}, got {stage}.")
        return self._where((self.assignment >= 0) & (self.assignment <= stage))

    def align(self, costs: Costs) -> StageDesign:
        """Return the same design over exactly the sources of `costs`, after checking requirements.

        A named design may leave sources out; they are unused. An unnamed design must assign every
        source, by position.
        """
        if self.names is None:
            if len(self.assignment) != len(costs.names):
                raise DesignError(
                    f"The design assigns {len(self.assignment)} sources but `costs` has "
                    f"{len(costs.names)}; give it names, or one stage per source."
                )
            aligned = StageDesign(self.assignment, costs.names)
        elif self.names == costs.names:
            aligned = self
        else:
            unknown = [name for name in self.names if name not in costs.names]
            if unknown:
                raise DesignError(
                    f"The design names {quoted(unknown)}, which has no price in `costs`"
                    + nearest(unknown[0], costs.names)
                )
            aligned = StageDesign.from_stages(self.stages, costs.names)
        for source, stage in zip(costs.sources, aligned.assignment.tolist(), strict=True):
            for required in source.requires if stage >= 0 else ():
                if not 0 <= aligned.assignment[costs.names.index(required)] <= stage:
                    raise DesignError(
                        f"Stage {stage} buys {source.name!r} before {required!r}, which it "
                        f"requires; buy {required!r} in stage {stage} or earlier."
                    )
        return aligned

    @cached_property
    def _key(self) -> Hashable:
        known = len(self.assignment) if self.names is None else frozenset(self.names)
        return known, tuple(frozenset(stage) for stage in self.stages)

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, StageDesign) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    def __str__(self) -> str:
        return " | ".join(" ".join(str(source) for source in stage) for stage in self.stages)

    def __repr__(self) -> str:
        names = "" if self.names is None else f", names={list(self.names)}"
        return f"StageDesign({self.assignment.tolist()}{names})"
