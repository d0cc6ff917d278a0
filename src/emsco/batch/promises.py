"""What is promised of a batch: how many labels may differ from the final model's, and in which way.

Promises are about disagreements, which are counted, while users think in shares: a share of the
batch (agreement), of the rows that the final model calls "yes" (missed), or of those labelled "yes"
(precision). How many rows those are is known only in the end. So the number is fixed beforehand, by
what is expected, and in the end it is seen which share follows from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from emsco.batch.spot_checks import Allowance

Kind = Literal["agreement", "missed", "false"]
Codes = NDArray[np.int32]  # the place of each row's label among the labels
NEVER, NO_LABEL = -2, -1  # codes of a row that was not sent, and of one without an answer


@dataclass(frozen=True)
class Promise:
    """At most `most` of the cheap labels disagree in one way, but with probability `error`."""

    kind: Kind
    code: int  # of the class that is missed or falsely answered; NO_LABEL under "agreement"
    share: Fraction  # promised: the largest share of disagreements
    most: int
    error: float

    @property
    def allowance(self) -> Allowance:
        """What it allows."""
        return Allowance(self.most, self.error)

    def broken(self, cheap: Codes, final: Codes) -> NDArray[np.bool_]:
        """Return which rows disagree; one that the final model cannot answer does in every way."""
        if self.kind == "agreement":
            return np.not_equal(cheap, final)
        own, other = (final, cheap) if self.kind == "missed" else (cheap, final)
        differ = (own == self.code) & (other != self.code)
        broken: NDArray[np.bool_] = differ | (final == NO_LABEL)
        return broken

    def concerns(self, cheap: Codes) -> NDArray[np.bool_]:
        """Return which cheap labels could be a disagreement of this promise."""
        if self.kind == "agreement":
            return np.not_equal(cheap, NO_LABEL)
        concerned: NDArray[np.bool_] = (cheap == self.code) == (self.kind == "false")
        return concerned


@dataclass(frozen=True)
class Standing:
    """What a promise comes to, when all answers that were asked for have come.

    Parameters
    ----------
    promise : Promise
        The promise.
    left : int
        How many disagreements may be left among the cheap labels.
    lacking : int
        How many rows have no label, and count as disagreements too.
    share : Fraction
        The share of disagreements that follows from both, at most.
    holds : bool
        Whether the share of those left is at most the promised one: more calls change only these.
    """

    promise: Promise
    left: int
    lacking: int
    share: Fraction
    holds: bool


@dataclass(frozen=True)
class Labelled:
    """The labels of a batch so far: of the final model where it answered, else the cheap one."""

    cheap: Codes
    final: Codes  # NEVER where it was not asked

    @property
    def is_cheap(self) -> NDArray[np.bool_]:
        """Which rows have their cheap label."""
        return np.equal(self.final, NEVER)

    @property
    def labels(self) -> Codes:
        """The code of each row's label; NO_LABEL where the final model gave no answer."""
        return np.where(self.is_cheap, self.cheap, self.final).astype(np.int32)

    def standings(self, promises: tuple[Promise, ...], found: list[int]) -> list[Standing]:
        """Return what each promise comes to.

        `found` are the disagreements of each that were found above the stop after the walk. A row
        that could not be answered is not one of them: what it would have been is unknown.
        """
        lacking = int(np.equal(self.final, NO_LABEL).sum())
        left = [
            max(min(each.most - n, int((self.is_cheap & each.concerns(self.cheap)).sum())), 0)
            for each, n in zip(promises, found, strict=True)
        ]
        others = dict(zip(promises, left, strict=True))
        return [
            Standing(
                each,
                n,
                0 if each.kind == "false" else lacking,  # a row without a label is not labelled so
                self._share(each, n, lacking, others),
                self._share(each, n, 0, others) <= each.share,
            )
            for each, n in others.items()
        ]

    def _share(
        self, promise: Promise, left: int, lacking: int, others: dict[Promise, int]
    ) -> Fraction:
        if promise.kind == "agreement":
            return Fraction(left + lacking, max(len(self.cheap), 1))
        if promise.kind == "false":
            n_labelled = int((self.labels == promise.code).sum())
            return Fraction(left, n_labelled) if left else Fraction(0)
        right, wrong = self.least_right(promise, left, others), left + lacking
        return Fraction(wrong, right + wrong) if wrong else Fraction(0)

    def least_right(self, promise: Promise, left: int, others: dict[Promise, int]) -> int:
        """Return how many rows labelled as a class are so rightly, at least; it may be missed.

        An agreement promise bounds the wrong ones, too: what is missed are other disagreements.
        Where fewer rows are labelled than may disagree, that says nothing, because the worst is
        then not that as many are missed as may be.
        """
        labelled = self.labels == promise.code
        n_labelled = int(labelled.sum())
        wrong = [int((labelled & self.is_cheap).sum())]  # the others are the final model's own
        for other, n in others.items():
            if other.kind == "false" and other.code == promise.code:
                wrong.append(n)
            if other.kind == "agreement" and n_labelled > n:
                wrong.append(max(n - left, 0))
        return n_labelled - min(wrong)
