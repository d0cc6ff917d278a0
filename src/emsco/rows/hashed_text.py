"""Long text as numbers: its words, pairs of words and characters, hashed by scikit-learn.

A text has two parts of length 1: counts of its words and pairs of words, and counts of the
sequences of 3 to 5 characters within its words, as scikit-learn's `HashingVectorizer` counts them.
Nothing is learned here, so there is no vocabulary to keep, and each text is hashed by itself.

A text has ten times as many sequences as words. As each sequence lies within a word, the sequences
of each distinct word are hashed once, and what they add to a score is computed once.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array  # type: ignore[import-untyped]  # scipy has no types

from emsco.exceptions import ArtifactError

Array = NDArray[np.float64]

N_BUCKETS = 2**18  # half of them for words, then half for sequences of characters
HALF = N_BUCKETS // 2
MOST_CHARACTERS = 2**15  # of a text that are looked at, so that no text takes long
_WORDS_AT_ONCE = 2**20
_SAMPLE = "Résumé: 3 NEW e-mails, 你好! 😀\n\tstraße Σ"  # to know whether hashes have changed


@dataclass(frozen=True, eq=False)
class HashedTexts:
    """Hashed texts, as sparse matrices."""

    words: Any  # texts x columns, each row of length 1
    places: Any  # texts x distinct words: 1 for each word of a text, in its order
    sequences: Any  # distinct words x columns
    lengths: Array  # of the sequences of each text
    buckets: NDArray[np.intp] | None = None  # of each column, words first; None: all, in order

    @classmethod
    def of(cls, texts: Sequence[str]) -> HashedTexts:
        """Hash texts, of at least one.

        Examples
        --------
        >>> from emsco.rows.hashed_text import HashedTexts
        >>> len(HashedTexts.of(["free prize", "see you at noon"]))
        2
        """
        words, characters = _vectorizers()
        cut = [text[:MOST_CHARACTERS].lower() for text in texts]
        known: dict[str, int] = {}
        places = array("i")
        ends = [0]
        for text in cut:
            places.extend([known.setdefault(word, len(known)) for word in text.split()])
            ends.append(len(places))
        known.setdefault("", len(known))  # so that there is a word
        found = csr_array(
            (np.ones(len(places)), np.frombuffer(places, np.int32), np.array(ends)),
            shape=(len(cut), len(known)),
        )
        sequences = csr_array(characters.transform(known))
        return cls(csr_array(words.transform(cut)), found, sequences, _lengths(found, sequences))

    def __len__(self) -> int:
        return len(self.lengths)

    def take(self, rows: NDArray[np.intp]) -> HashedTexts:
        """Return some of the texts."""
        words, places, lengths = self.words[rows], self.places[rows], self.lengths[rows]
        return HashedTexts(words, places, self.sequences, lengths, self.buckets)

    def narrow(self) -> HashedTexts:
        """Return the same with columns only for the buckets that some text uses."""
        words, own = _narrow(self.words)
        sequences, others = _narrow(self.sequences)
        buckets = np.concatenate([own, HALF + others])
        return HashedTexts(words, self.places, sequences, self.lengths, buckets)

    @property
    def n_columns(self) -> int:
        """The number of columns, which have weights."""
        return int(self.words.shape[1] + self.sequences.shape[1])

    def by_column(self, table: Array) -> Array:
        """Return the rows of a table of buckets x scores for its columns."""
        return table if self.buckets is None else table[self.buckets]

    def score(self, weights: Array) -> Array:
        """Return texts x scores, for weights of columns x scores.

        The terms of a text are added in the order of its buckets and of its words, so that its
        score is the same, to the last bit, whatever other texts there are.
        """
        n_words = self.words.shape[1]
        scores: Array = self.words @ weights[:n_words]
        scores += self.places @ (self.sequences @ weights[n_words:]) / self.lengths[:, None]
        return scores

    def sum_up(self, by_text: Array) -> Array:
        """Return the sum of all texts, each times a number, by column: the transpose of `score`."""
        sequences = self.sequences.T @ (self.places.T @ (by_text / self.lengths))
        return np.concatenate([self.words.T @ by_text, sequences])


def _narrow(matrix: Any) -> tuple[Any, NDArray[np.intp]]:
    """Leave out empty columns; return the places of the others, too."""
    used = np.flatnonzero(np.bincount(matrix.indices, minlength=matrix.shape[1]))
    indices = np.searchsorted(used, matrix.indices).astype(np.int32)
    shape = (matrix.shape[0], len(used))
    return csr_array((matrix.data, indices, matrix.indptr), shape=shape), used


def digest_of_hashing() -> str:
    """Return a digest of how texts are hashed here; with another one, scores would differ."""
    hashed = HashedTexts.of([_SAMPLE])
    counts = hashed.places @ hashed.sequences
    counts.sort_indices()
    digest = sha256()
    for matrix in (hashed.words, counts):
        digest.update(matrix.indices.astype("<i8").tobytes())
        digest.update(matrix.data.astype("<f8").tobytes())
    return digest.hexdigest()[:16]


def refuse_other_hashing(digest: str) -> None:
    """Refuse weights of texts that were hashed in another way."""
    if digest != digest_of_hashing():
        import sklearn

        raise ArtifactError(
            "it has weights of text that was hashed in another way than scikit-learn "
            f"{sklearn.__version__} does; install the version that is listed in the file"
        )


@cache
def _vectorizers() -> tuple[Any, Any]:
    from sklearn.feature_extraction.text import HashingVectorizer  # takes long to import

    words = HashingVectorizer(ngram_range=(1, 2), n_features=HALF)
    characters = HashingVectorizer(
        analyzer="char_wb", ngram_range=(3, 5), n_features=HALF, norm=None, lowercase=False
    )
    return words, characters


def _lengths(places: Any, sequences: Any) -> Array:
    """Return the length of the counts of sequences of each text; 1 if it has none.

    Squares of counts are whole numbers, so the order in which they are added changes nothing.
    """
    squares = np.empty(places.shape[0])
    for rows in _blocks(places.indptr):
        counts = places[rows] @ sequences
        counts.data **= 2
        squares[rows] = counts.sum(axis=1)
    return np.sqrt(np.where(squares > 0, squares, 1.0))


def _blocks(ends: NDArray[Any]) -> Iterator[slice]:
    """Divide texts so that the counts of a block fit into memory; `ends` counts their words."""
    first = 0
    while first < len(ends) - 1:
        last = int(np.searchsorted(ends, ends[first] + _WORDS_AT_ONCE, side="right")) - 1
        yield slice(first, first := max(last, first + 1))
