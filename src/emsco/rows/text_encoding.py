"""Encode long text as log-odds: the scores of a linear model of its hashed words and characters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco.rows.hashed_text import MOST_CHARACTERS, N_BUCKETS, HashedTexts

Array = NDArray[np.float64]

_AT_ONCE = 2**23  # characters that are hashed at a time, so that long texts fit into memory


class ScoredText(str):
    """A text that keeps its scores, so that a later stage does not hash it again."""

    __slots__ = ("scores",)

    scores: Array | None


def as_scored(values: Sequence[Any]) -> list[Any]:
    """Return values with texts that can keep their scores."""
    return [_scored(value) if isinstance(value, str) else value for value in values]


def _scored(text: str) -> ScoredText:
    scored = ScoredText(text)
    scored.scores = None
    return scored


@dataclass(frozen=True, eq=False)
class Text:
    """How a column of long text is encoded: scaled log-odds, with a mark for missing values.

    With two classes there is one score, the log-odds of the second class; with more, each class has
    its log-odds against all others. A missing text gets the mean score.
    """

    buckets: NDArray[np.int32]  # that have weights, in order
    weights: NDArray[np.float32]  # scores x buckets
    intercepts: Array  # of each score
    centre: Array
    scale: Array
    missing_seen: bool  # whether training had missing values

    @property
    def width(self) -> int:
        """The number of encoded columns."""
        return len(self.intercepts) + self.missing_seen

    def __reduce__(self) -> tuple[Any, ...]:
        # Without what is derived from the fields.
        fields = (self.buckets, self.weights, self.intercepts, self.centre, self.scale)
        return Text, (*fields, self.missing_seen)

    @cached_property
    def _table(self) -> Array:
        table = np.zeros((N_BUCKETS, len(self.intercepts)))
        table[self.buckets] = self.weights.T
        return table

    def score(self, hashed: HashedTexts) -> Array:
        """Return the scores of hashed texts, rows x scores, each scaled."""
        scores: Array = (
            hashed.score(hashed.by_column(self._table)) + self.intercepts - self.centre
        ) / self.scale
        return scores

    def scores_of(self, values: NDArray[Any]) -> Array:
        """Return the scaled scores of texts, rows x scores: 0 where there is no text."""
        items = values.tolist()
        fresh = [v for v in items if isinstance(v, str) and getattr(v, "scores", None) is None]
        found = chain.from_iterable(self.score(HashedTexts.of(part)) for part in _parts(fresh))
        none = np.zeros(len(self.intercepts))
        scores = np.empty((len(items), len(none)))
        for row, value in enumerate(items):
            own = getattr(value, "scores", None)
            if own is None:
                own = next(found) if isinstance(value, str) else none
                if isinstance(value, ScoredText):
                    value.scores = own
            scores[row] = own
        return scores

    def encode(self, values: NDArray[Any]) -> Array:
        """Return the block of encoded columns, rows x width."""
        return self.block(self.scores_of(values), lacks_text(values))

    def block(self, scores: Array, missing: NDArray[np.bool_]) -> Array:
        """Return the block of encoded columns from scaled scores."""
        return np.column_stack([scores, missing]) if self.missing_seen else scores

    def term(self, weights: Array) -> TextTerm:
        """Return what the column adds to scores with these weights, scores x width."""
        return TextTerm(self, weights)


@dataclass(frozen=True)
class TextTerm:
    """What a column of long text adds to linear scores."""

    text: Text
    weights: Array  # scores x width

    def __call__(self, values: NDArray[Any]) -> Array:
        """Return scores x rows."""
        scores = self.text.scores_of(values)
        added: Array = self.weights[:, :1] * scores[:, 0]
        for place in range(1, scores.shape[1]):  # in this order, for one row as for many
            added += self.weights[:, place : place + 1] * scores[:, place]
        if self.text.missing_seen:
            added = np.where(lacks_text(values), self.weights[:, -1:], added)
        return added


def _parts(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Divide texts into parts of so many characters."""
    ends = np.cumsum([min(len(text), MOST_CHARACTERS) for text in texts]) // _AT_ONCE
    starts = np.flatnonzero(np.diff(ends, prepend=-1)).tolist()
    for first, last in zip(starts, [*starts[1:], len(texts)], strict=True):
        yield texts[first:last]


def lacks_text(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Mark the values that are missing."""
    return np.array([value is None for value in values.tolist()], dtype=np.bool_)
