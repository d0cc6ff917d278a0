"""A question: labels for a batch, as a machine that says which rows to send next.

All that decides is fixed before the first answer: cheap labels, the order, promises, the rate of
checks. Then `due` says, by the answers that have come so far, which rows are to be sent to the
final model. It is asked again after they have been answered, until it has nothing left; whoever
sends the rows, and how long that takes, changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco.batch.coins import digest_of, draw
from emsco.batch.promises import NEVER, NO_LABEL, Codes, Labelled, Promise, Standing
from emsco.batch.spot_checks import Terms, stop_rank

CHECKS, REST, MORE = "checks", "rest", "more"  # rounds of calls
_GROWTH = 2  # a further round has one row for so many that were sent before it, and at least these:
_LEAST = 100


class Round(NamedTuple):
    """Rows to send to the final model together."""

    name: str
    rows: NDArray[np.intp]


@dataclass(frozen=True)
class HeldOutRows:
    """Rows of known answers: their codes, and how many rows of the walk stand above each."""

    cheap: Codes
    final: Codes
    above: NDArray[np.intp]


@dataclass(frozen=True)
class Question:
    """Labels for a batch, with a promise.

    Parameters
    ----------
    labels : tuple
        The labels that codes stand for.
    cheap : array of int
        The code of each row's cheap label; NO_LABEL where there is none.
    order : array of int
        The rows of the walk, the most trusted first. All others that are not known are sent.
    known : array of bool
        The rows that were answered beforehand, or could not be.
    promises : tuple of Promise
        What is promised.
    terms : Terms
        The rate of checks, and what each promise tolerates.
    secret : bytes
        What draws the coins.
    held_out : HeldOutRows or None, default=None
        Rows that serve as free checks.
    """

    labels: tuple[Any, ...]
    cheap: Codes
    order: NDArray[np.intp]
    known: NDArray[np.bool_]
    promises: tuple[Promise, ...]
    terms: Terms
    secret: bytes = field(repr=False)
    held_out: HeldOutRows | None = None

    @cached_property
    def digest(self) -> bytes:
        """A digest of all that decides."""
        plain = [list(self.labels), self.terms.rate.hex(), self.terms.tolerated]
        plain += [
            [each.kind, each.code, str(each.share), each.most, each.error.hex()]
            for each in self.promises
        ]
        arrays: list[NDArray[Any]] = [self.cheap, self.order, self.known]
        if self.held_out is not None:
            arrays += [self.held_out.cheap, self.held_out.final, self.held_out.above]
        return digest_of(
            [b"emsco batch 1", json.dumps(plain, default=repr).encode()]
            + [array.astype("<i8").tobytes() for array in arrays]
        )

    def with_secret(self, secret: bytes) -> Question:
        """Return the same question with other coins."""
        other = replace(self, secret=secret)
        vars(other)["digest"] = self.digest  # does not depend on the secret
        return other

    @cached_property
    def checked(self) -> NDArray[np.bool_]:
        """Whether each row of the walk, in its order, is checked."""
        return draw(self.secret, self.digest, self.order, self.terms.rate)

    @property
    def checks(self) -> NDArray[np.intp]:
        """The rows that are checked."""
        return np.sort(self.order[self.checked])

    def stop(self, final: Codes) -> int:
        """Return how many rows of the walk stand above the stop, when all checks have come."""
        return min(self._stop(promise, n, final) for promise, n in self._tolerated())

    def _tolerated(self) -> Sequence[tuple[Promise, int]]:
        return list(zip(self.promises, self.terms.tolerated, strict=True))

    def _stop(self, promise: Promise, tolerated: int, final: Codes) -> int:
        checked = self.order[self.checked]
        wrong = promise.broken(self.cheap[checked], final[checked])
        known = np.flatnonzero(self.checked)[wrong].astype(np.float64)
        if self.held_out is not None:
            held = self.held_out
            known = np.append(known, held.above[promise.broken(held.cheap, held.final)] - 0.5)
        return stop_rank(known, tolerated, len(self.order))

    def disagreements(self, final: Codes) -> list[int]:
        """Return how many checks disagree, by promise."""
        checked = self.order[self.checked]
        return [int(p.broken(self.cheap[checked], final[checked]).sum()) for p in self.promises]

    def due(self, final: Codes) -> Round | None:
        """Return which rows to send next, given the codes of all final answers so far."""
        waiting = self.order[self.checked & (final[self.order] == NEVER)]
        if len(waiting):
            return Round(CHECKS, np.sort(waiting))
        waiting = np.flatnonzero(self.below(final) & (final == NEVER))
        if len(waiting):
            return Round(REST, waiting)
        for name, rows in self.further(final)[-1:]:
            waiting = rows[final[rows] == NEVER]
            if len(waiting):
                return Round(name, waiting)
        return None

    def further(self, final: Codes) -> list[Round]:
        """Return the rounds after the second one, the last of which may not have come whole.

        Each follows from the answers to those before it, so that it does not matter in which parts
        they came.
        """
        final_then = np.where(self._is_further(final), NEVER, final)
        rounds: list[Round] = []
        while len(rows := self._more(final_then)):
            rounds.append(Round(f"{MORE} {len(rounds) + 1}" if rounds else MORE, rows))
            final_then[rows] = final[rows]
            if (final[rows] == NEVER).any():
                break
        return rounds

    def _is_further(self, final: Codes) -> NDArray[np.bool_]:
        """Return which rows were sent although they stand above the stop and were not checked."""
        later: NDArray[np.bool_] = (final != NEVER) & ~self.known & ~self.below(final)
        later[self.checks] = False
        return later

    def below(self, final: Codes) -> NDArray[np.bool_]:
        """Return which rows have no cheap label to keep: below the stop, or without any."""
        below = ~self.known
        below[self.order[: self.stop(final)]] = False
        return below

    def standings(self, final: Codes) -> list[Standing]:
        """Return what each promise comes to."""
        later = self._is_further(final) & (final != NO_LABEL)
        found = [int(p.broken(self.cheap[later], final[later]).sum()) for p in self.promises]
        return Labelled(self.cheap, final).standings(self.promises, found)

    def _more(self, final: Codes) -> NDArray[np.intp]:
        """Return cheap labels to look at, because the share that follows is not as promised.

        Any rows may be looked at, in any order: each disagreement that is found is one fewer left.
        """
        cheap = final[self.order] == NEVER
        for standing in self.standings(final):
            if standing.holds:
                continue
            promise = standing.promise
            concerned = cheap & promise.concerns(self.cheap[self.order])
            if promise.kind == "missed":
                labelled = cheap & ~promise.concerns(self.cheap[self.order])
                if labelled.any():  # those of the class itself are few, and count once confirmed
                    concerned = labelled
            n_sent = int(((final != NEVER) & ~self.known).sum())
            size = max(_LEAST, n_sent // _GROWTH)
            return np.sort(self.order[concerned][-size:])  # the least trusted ones
        return np.empty(0, dtype=np.intp)


def no_answers(question: Question) -> Codes:
    """Return the codes of final answers before there are any."""
    return np.full(len(question.cheap), NEVER, dtype=np.int32)


__all__ = ["CHECKS", "MORE", "NO_LABEL", "REST", "HeldOutRows", "Question", "Round", "no_answers"]
