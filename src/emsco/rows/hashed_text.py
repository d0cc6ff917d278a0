"""Long text as numbers: its words, pairs of words and characters, hashed by scikit-learn.

There is no vocabulary, so nothing is learned here, and each text is hashed by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack, vstack  # type: ignore[import-untyped]  # has no types

from emsco.exceptions import ArtifactError

N_BUCKETS = 2**18  # half of them for words, half for characters
MOST_CHARACTERS = 2**15  # of a text that are looked at, so that no text takes long
_CHARACTERS_AT_ONCE, _TEXTS_AT_ONCE = 2**22, 2**13
_SAMPLE = "Résumé: 3 NEW e-mails, 你好! 😀\n\tstraße Σ"  # to know whether hashes have changed


def hash_texts(texts: Sequence[str]) -> Any:
    """Return a sparse matrix with a row for each text and a column for each bucket.

    A row has two parts of length 1: counts of words and of pairs of words, and counts of sequences
    of 3 to 5 characters within a word. It is that of scikit-learn's `HashingVectorizer`, to the
    last bit, whatever other texts there are.

    Examples
    --------
    >>> from emsco.rows.hashed_text import hash_texts
    >>> hash_texts(["free prize", "see you at noon"]).sum(axis=1).shape
    (2,)
    """
    cut = [text[:MOST_CHARACTERS].lower() for text in texts]
    parts = [hstack(_parts_of(block), format="csr") for block in _blocks(cut)]
    return parts[0] if len(parts) == 1 else vstack(parts, format="csr")


def digest_of_hashing() -> str:
    """Return a digest of how texts are hashed here; another one means that scores would differ."""
    hashed = hash_texts([_SAMPLE])
    return sha256(hashed.indices.astype("<i8").tobytes() + hashed.data.tobytes()).hexdigest()[:16]


def refuse_other_hashing(digest: Any) -> None:
    """Refuse weights of texts that were hashed in another way."""
    if digest != digest_of_hashing():
        import sklearn

        raise ArtifactError(
            f"it has weights of text that was hashed otherwise than scikit-learn "
            f"{sklearn.__version__} does; install the version that is listed in the file"
        )


def _parts_of(texts: Sequence[str]) -> list[Any]:
    words, characters, normalize = _vectorizers()
    return [words.transform(texts), normalize(_sequences(texts, characters))]


def _sequences(texts: Sequence[str], characters: Any) -> Any:
    """Count sequences of characters: those of each word, which is taken apart only once."""
    places: dict[str, int] = {}
    indices: list[int] = []
    ends = [0]
    for text in texts:
        indices += [places.setdefault(word, len(places)) for word in text.split()]
        ends.append(len(indices))
    shape = (len(texts), max(len(places), 1))
    counts = csr_array((np.ones(len(indices)), indices, ends), shape=shape)
    hashed = counts @ csr_array(characters.transform(list(places) or [""]))
    hashed.sort_indices()
    return hashed


@cache
def _vectorizers() -> tuple[Any, Any, Any]:
    from sklearn.feature_extraction.text import HashingVectorizer  # takes long to import
    from sklearn.preprocessing import normalize

    words = HashingVectorizer(ngram_range=(1, 2), n_features=N_BUCKETS // 2)
    characters = HashingVectorizer(
        analyzer="char_wb", ngram_range=(3, 5), n_features=N_BUCKETS // 2, norm=None
    )
    return words, characters, normalize


def _blocks(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Divide texts so that the words and counts of a block fit into memory."""
    first = size = 0
    for place, text in enumerate(texts):
        is_full = size + len(text) > _CHARACTERS_AT_ONCE or place - first == _TEXTS_AT_ONCE
        if is_full and place > first:
            yield texts[first:place]
            first, size = place, 0
        size += len(text)
    yield texts[first:]
