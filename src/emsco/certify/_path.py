"""Paths: the thresholds of one design from strict to loose, and how far rows allow to go.

A path is fixed before the calibration rows are looked at. It starts where every stage needs a
confidence of 1, and leads past its knots, between which one stage at a time is loosened. So its
thresholds are as dense as the scores, and at every point at most one of them moves. A looser point
never sends a row further than a stricter one.

Every point stands for a hypothesis: from there on, too many decisions differ from the final
model's. They are tested in order, each at the full level, up to the first that is not rejected. To
certify falsely, the first point that breaks the promise must be passed, which happens with at most
the level (a fixed sequence: Maurer, Hothorn and Lehmacher 1995). A point is passed if at most `c`
calibration rows differ there, so one that is looser counts for nothing behind one with more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco.certify.binomial import tail
from emsco.core.design import StageDesign
from emsco.core.evaluation import Evaluation
from emsco.core.front import Candidate

FRONT, LADDER = "front", "ladder"  # what a certificate tests: candidates, or points of a path
BY_LADDER = (
    "Certified by the ladder: the thresholds of one design were loosened in an order fixed "
    "beforehand, up to the last point before too many decisions would have differed."
)
_STEPS = 32  # between two knots, if several stages move: each takes a part of its way in turn
_NOTHING = Evaluation(0, 0, 0, 0)  # thresholds between those of the search have no selected figures


@dataclass(frozen=True)
class StageAnswers:
    """What each stage before the final model says of calibration rows: rows x stages.

    Parameters
    ----------
    scores : array of float
        How confident a stage is; it answers if that reaches its threshold.
    differ : array of bool
        Whether its answer differs from the final model's.
    """

    scores: NDArray[np.float64]
    differ: NDArray[np.bool_]


@dataclass(frozen=True)
class Stop:
    """How far a path was followed.

    Parameters
    ----------
    thresholds : tuple of float
        Of the stages before the final model, at the last point that was passed; () if none was.
    knots : int
        How many knots were passed.
    most : int
        The largest count of differing rows up to there; if no point was passed, that of the first.
    """

    thresholds: tuple[float, ...]
    knots: int
    most: int


@dataclass(frozen=True)
class Path:
    """The thresholds of the stages before the final model, from strict to loose.

    Parameters
    ----------
    design : StageDesign
        The design.
    knots : tuple of tuple of float
        Thresholds of the stages before the final model; none is above that of the knot before.
    learner : str, default=""
        The name of the estimator that fits the stages, if a search has several.
    """

    design: StageDesign
    knots: tuple[tuple[float, ...], ...]
    learner: str = ""

    def candidate(self, thresholds: tuple[float, ...]) -> Candidate:
        """Return the candidate at a point; the final model accepts whatever its threshold is."""
        each = (*thresholds, thresholds[-1])
        threshold = each[0] if len(set(each)) == 1 else each
        return Candidate(self.design, threshold, _NOTHING, self.learner)

    def digested(self) -> list[Any]:
        """List the values that distinguish one path from another."""
        return [self.design.assignment, self.learner, np.array(self.knots)]

    def follow(self, answers: StageAnswers, tolerated: int) -> Stop:
        """Follow the path up to the last point before more than so many rows differ.

        Examples
        --------
        >>> import numpy as np
        >>> from emsco import StageDesign
        >>> from emsco.certify._path import Path, StageAnswers
        >>> path = Path(StageDesign([0, 1]), knots=((0.6,),))
        >>> scores = np.array([0.95, 0.9, 0.8, 0.8, 0.7])[:, None]
        >>> differ = np.array([False, True, False, True, False])[:, None]
        >>> path.follow(StageAnswers(scores, differ), tolerated=1).thresholds  # just above 0.8
        (0.8000000000000002,)
        """
        points, ends = self._points()
        leg, stage = self._legs(points, answers.scores)
        ranks, events = _in_order(leg, stage, -np.where(leg > 0, answers.scores, 0.0))
        is_passable = leg < len(points)
        changes = np.zeros(len(events))
        n_stages = answers.scores.shape[1]
        rows = np.arange(len(leg))
        exits, differs = np.full(len(rows), n_stages), np.zeros(len(rows))
        for reached in np.argsort(ranks, axis=1, kind="stable").T:
            earlier = (reached < exits) & is_passable[rows, reached]
            after = np.where(earlier, answers.differ[rows, reached], differs)
            np.add.at(changes, ranks[rows, reached], after - differs)
            exits, differs = np.where(earlier, reached, exits), after
        counts = np.cumsum(changes).astype(np.intp)
        beyond = np.flatnonzero(counts > tolerated)
        if not len(beyond):
            return Stop(self.knots[-1], len(self.knots), int(max(counts, default=0)))
        first = int(beyond[0])
        row, moving = events[first]
        last_leg = int(leg[row, moving])
        if not last_leg:
            return Stop((), 0, int(counts[first]))
        found = np.where(np.arange(n_stages) < moving, points[last_leg], points[last_leg - 1])
        # Strictly above the score of the row that would be too many: its equals would come along.
        found[moving] = np.nextafter(answers.scores[row, moving], 2.0)
        knots = int(np.searchsorted(ends, last_leg))
        return Stop(tuple(found.tolist()), knots, int(max(counts[:first], default=0)))

    def _points(self) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        """Return the ends of the legs, with the start, and which of them are the knots."""
        n_stages = len(self.knots[0])
        knots = np.array([(1.0,) * n_stages, *self.knots])
        steps = 1 if n_stages == 1 else _STEPS
        ends = np.arange(len(knots)) * steps
        places = np.arange(ends[-1] + 1)
        points = np.column_stack([np.interp(places, ends, own) for own in knots.T])
        return np.minimum.accumulate(points), ends[1:]

    @staticmethod
    def _legs(
        points: NDArray[np.float64], scores: NDArray[np.float64]
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the leg on which each stage comes to accept each row, and its stage there.

        On leg 0, the start, all stages are loosened at once.
        """
        legs = [
            np.searchsorted(-points[:, stage], -own, side="left")
            for stage, own in enumerate(scores.T)
        ]
        leg = np.column_stack(legs)
        return leg, np.where(leg > 0, np.arange(scores.shape[1]), 0)


def _in_order(
    leg: NDArray[np.intp], stage: NDArray[np.intp], depth: NDArray[np.float64]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rank events by leg, stage and depth, equal ones alike; return one row and stage for each."""
    keys = [values.ravel() for values in (depth, stage, leg)]
    order = np.lexsort(keys)
    is_new = np.zeros(len(order), dtype=np.intp)
    for key in keys:
        is_new[1:] |= np.diff(key[order]) != 0
    ranks = np.empty(len(order), dtype=np.intp)
    ranks[order] = np.cumsum(is_new)
    first = order[np.flatnonzero(np.append(1, is_new[1:]))]
    events = np.column_stack(np.unravel_index(first, leg.shape))
    return ranks.reshape(leg.shape), events


def tolerated(rows: int, share: float, level: float) -> int:
    """Return how many of the rows may differ so that `share` is rejected; -1 if not even none.

    Examples
    --------
    >>> from emsco.certify._path import tolerated
    >>> tolerated(1000, share=0.01, level=0.1), tolerated(100, share=0.01, level=0.1)
    (5, -1)
    """
    counts = np.arange(rows + 1)
    return int(np.searchsorted(tail(counts, rows, share), level, side="right")) - 1
