"""How long the phases of a search take, to estimate what is left of all of them."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

# The plan counts as if so many seconds had passed as planned: the first fits start workers, and
# small steps come first, so what they took says little about the rest. From the second step on,
# fits learn faster, because most of their work is alike; other phases are judged only by them.
_OF_FITS, _OF_OTHERS = 1.0, 10.0
_MEASURED = 0.01  # share of the search after which the rest follows from it
_SEARCHED = 0.1  # share of the search after which its fits follow from it


class Workload(NamedTuple):
    """The seconds that each phase may take if this machine is idle; a phase of 0 is left out."""

    n_sets: float  # to fit
    fit: float
    search: float
    thresholds: float = 0.0
    luck: float = 0.0
    later: float = 0.0  # what learners take that follow

    @property
    def after_search(self) -> dict[str, float]:
        """The phases that follow the search, in order."""
        return {"thresholds": self.thresholds, "luck": self.luck}


@dataclass(frozen=True)
class WorkDone:
    """What was done of the fits and of the search, which alternate, and the seconds it took."""

    n_sets: int  # fitted
    fit: float
    share: float  # of the search
    search: float
    lately: tuple[int, float] = (0, 0.0)  # sets and seconds of the later half of the fits


class FitTimes:
    """How long fits took, to know the speed of those in the later half of the time."""

    def __init__(self) -> None:
        self._times = [(0, 0.0)]

    def note(self, n_sets: int, seconds: float) -> None:
        """Note how many sets were fitted in how many seconds, both since the start."""
        if n_sets > self._times[-1][0]:
            self._times.append((n_sets, seconds))

    @property
    def lately(self) -> tuple[int, float]:
        """The sets and seconds since half of the seconds had passed, without the first step."""
        n_sets, seconds = self._times[-1]
        half = bisect_right(self._times, seconds / 2, key=itemgetter(1)) - 1
        sets_before, seconds_before = self._times[max(half, len(self._times) > 2)]
        return n_sets - sets_before, seconds - seconds_before


def seconds_left(work: Workload, done: WorkDone, phase: str, own: float | None) -> float:
    """Estimate the seconds that are left of a search, by its own speed so far.

    `own` are those of the present phase, if known. What is not begun takes as long as planned, but
    slower or faster by what was done so far.
    """
    sets = min(done.n_sets / work.n_sets, 1.0)
    planned = sets * work.fit + done.share * work.search
    slower = (done.fit + done.search + _OF_OTHERS) / (planned + _OF_OTHERS)
    after = work.after_search
    if phase in after:
        after_this = list(after)[list(after).index(phase) + 1 :]
        left = slower * after[phase] if own is None else own
        return left + slower * sum(after[name] for name in after_this) + work.later
    n_lately, took = done.lately
    as_planned = _OF_FITS if n_lately < done.n_sets else _OF_OTHERS  # that was the first step
    speed = (took + as_planned) / (n_lately / work.n_sets * work.fit + as_planned)
    fits = speed * work.fit * (1 - sets)
    if done.share > _SEARCHED:  # it may end before as many sets are fitted as it could fit
        fits = min(fits, done.fit * (1 - done.share) / done.share)
    search = slower * work.search * (1 - done.share)
    if done.share > _MEASURED:
        search = done.search * (1 - done.share) / done.share
    return fits + search + slower * sum(after.values()) + work.later
