"""How long the phases of a search take, to estimate what is left of all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

_KNOWN_FROM = 0.5  # seconds of planned work after which its speed is known
_MEASURED = 0.01  # share of work after which the rest follows from it
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


def seconds_left(work: Workload, done: WorkDone, phase: str, own: float | None) -> float:
    """Estimate the seconds that are left of a search, by its own speed so far.

    `own` are those of the present phase, if known. What is not begun takes as long as planned, but
    slower or faster by what was done so far.
    """
    sets = min(done.n_sets / work.n_sets, 1.0)
    planned = sets * work.fit + done.share * work.search
    slower = (done.fit + done.search) / planned if planned > _KNOWN_FROM else 1.0
    after = work.after_search
    if phase in after:
        after_this = list(after)[list(after).index(phase) + 1 :]
        left = slower * after[phase] if own is None else own
        return left + slower * sum(after[name] for name in after_this) + work.later
    fits = _rest(sets, done.fit, slower * work.fit)
    if done.share > _SEARCHED:  # it may end before as many sets are fitted as it could fit
        fits = min(fits, done.fit * (1 - done.share) / done.share)
    search = _rest(done.share, done.search, slower * work.search)
    return fits + search + slower * sum(after.values()) + work.later


def _rest(share: float, seconds: float, planned: float) -> float:
    """Return what is left of work of which a share took so many seconds."""
    return seconds * (1 - share) / share if share > _MEASURED else planned * (1 - share)
