"""Test candidates on calibration rows, in order, and bound the figures of those that pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from emsco._utils.progress import tell
from emsco.cascade import CascadeClassifier
from emsco.cascade.fingerprint import fingerprints
from emsco.certify._candidate_counts import CalibrationRows, CandidateCounts
from emsco.certify._certified_candidate import CertifiedCandidate, ChosenCandidate
from emsco.certify._hypothesis_family import Family, passed
from emsco.certify._targets import Shortfall, Targets
from emsco.core.front import Candidate


class TestedFamily(NamedTuple):
    """The number of candidates tried, those certified or what the closest lacks, and the choice."""

    tried: int
    candidates: tuple[CertifiedCandidate, ...]
    shortfalls: tuple[Shortfall, ...]
    chosen: ChosenCandidate | None


def answer(
    family: Family,
    build: Callable[[Candidate], CascadeClassifier],
    targets: Targets,
    level: float,
    n_shown: int,
    counted: dict[int, CandidateCounts],
    rows: CalibrationRows,
) -> TestedFamily:
    """Test candidates; `counted` has the counts of those that were tested before.

    If these rows have shown the figures of `n_shown` candidates, each has an equal part of the
    level and hands it to no other, because the question may have been chosen by what was seen. A
    tested candidate that is not on the front was not shown, and has an additional part.
    """
    n_candidates = len(family.candidates)
    tried = max(n_candidates, n_shown + family.off_front if n_shown else 0)
    tested: dict[int, CandidateCounts] = {}
    p_values: dict[int, float] = {}

    def p_value(place: int) -> float:
        candidate = family.candidates[place]
        if id(candidate) not in counted:
            tell("test candidates", len(tested) / n_candidates)
            counted[id(candidate)] = CandidateCounts.of(candidate, build(candidate), rows)
        tested[place] = counted[id(candidate)]
        p_values[place] = tested[place].p_value(targets)
        return p_values[place]

    def lacking(places: Iterable[int]) -> tuple[Shortfall, ...]:
        """Return what the closest of some candidates lacks, if none of them has passed."""
        place = min(places, key=lambda place: p_values[place] / levels[place])
        return tuple(tested[place].shortfalls(targets, levels[place]))

    if n_shown:
        levels = np.full(n_candidates, level / tried)
        places = [place for place in range(n_candidates) if p_value(place) <= levels[place]]
    else:
        levels = level * family.shares
        places = passed(levels, p_value)
    chosen = None
    if family.chosen is not None:
        why = family.why_not
        if not why:
            place = next(i for i, c in enumerate(family.candidates) if c is family.chosen)
            why = "" if place in places else "; ".join(map(str, lacking([place])))
        chosen = ChosenCandidate(family.chosen, tested=not family.why_not, why=why)
    # The level is divided among all candidates that might be listed, and then among the bounds of
    # each, so that all bounds hold at once.
    digests = fingerprints(tested[place].cascade for place in places)
    listed = [
        tested[place].certified_alone(
            p_values[place],
            targets,
            level / tried,
            own,
            keeps=not family.keeps or family.keeps[place],
        )
        for place, own in zip(places, digests, strict=True)
    ]
    return TestedFamily(tried, tuple(listed), () if places else lacking(tested), chosen)


def list_groups(
    family: Family,
    build: Callable[[Candidate], CascadeClassifier],
    targets: Targets,
    level: float,
    rows: CalibrationRows,
) -> TestedFamily:
    """List the groups in which one cascade keeps the targets, by Holm's procedure.

    Any group is listed falsely with at most the level, however the p-values depend on each other.
    """
    (candidate,) = family.candidates
    counts = CandidateCounts.of(candidate, build(candidate), rows)
    p_values = counts.p_values(targets)
    through, left = holm(list(p_values.values()), level)
    listed = [group for group, is_so in zip(p_values, through, strict=True) if is_so]
    rest = counts._replace(by_group={g: c for g, c in counts.by_group.items() if g not in listed})
    lacking = tuple(rest.shortfalls(targets, left)) if rest.by_group else ()
    certified: tuple[CertifiedCandidate, ...] = ()
    if listed:
        (own,) = fingerprints([counts.cascade])
        most = max(p_values[group] for group in listed)
        certified = (counts.certified_alone(most, targets, level, own, keeps=True, passed=listed),)
    chosen = None
    if family.chosen is not None:
        why = "" if listed else "; ".join(map(str, lacking))
        chosen = ChosenCandidate(family.chosen, tested=True, why=why)
    return TestedFamily(1, certified, lacking, chosen)


def holm(p_values: Sequence[float], level: float) -> tuple[list[bool], float]:
    """Return which hypotheses Holm's procedure rejects, and the level of the first it does not.

    Examples
    --------
    >>> from emsco.certify._hypothesis_tests import holm
    >>> holm([0.02, 0.001, 0.3], level=0.05)
    ([True, True, False], 0.05)
    """
    through = [False] * len(p_values)
    for step, place in enumerate(np.argsort(p_values, kind="stable").tolist()):
        own = level / (len(p_values) - step)
        if p_values[place] > own:
            return through, own
        through[place] = True
    return through, level
