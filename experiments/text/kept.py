"""What is kept of the transformer: its log-odds of all messages, and the embeddings of some.

A few hundred embeddings, as float16, are enough to run the whole chain where there is no torch. The
log-odds of all messages let every draw be measured again. The columns of the first draw are for the
page of the gallery, which reads no messages.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.results import FOLDER
from experiments.text import cheap, dear, messages
from tests.soak.live.bars import tell

FILE = FOLDER / "text.npz"
EMBEDDED = 280  # messages whose embeddings are kept


class Kept(NamedTuple):
    """What the file holds."""

    scores: dear.Floats  # the transformer's log-odds, of every message
    weights: dear.Floats  # of its classifier
    embedded: NDArray[np.int16]  # positions of the messages whose embeddings are kept
    embeddings: NDArray[np.float16]
    log: NDArray[np.int16]  # positions of the first draw
    batch: NDArray[np.int16]
    words: dear.Floats  # log-odds of the first draw: of the log, then of the batch
    characters: dear.Floats


def load() -> Kept:
    """Read the file."""
    with np.load(FILE, allow_pickle=False) as file:
        return Kept(**{name: file[name] for name in Kept._fields})


def embed() -> None:
    """Make the embeddings of all messages, fit the classifier, and keep what is needed of them."""
    texts, labels, _ = messages.load()
    embeddings = dear.load_transformer()(texts.tolist())
    own = messages.head(len(texts))
    weights = dear.fit_weights(embeddings[own], labels[own])
    scores = dear.score(embeddings, weights).astype(np.float32)
    others = messages.others(len(texts))
    embedded = np.sort(np.random.default_rng(1).permutation(others)[:EMBEDDED])
    first = messages.divide(others, 0)
    columns = cheap.columns(texts, dear.answers(scores), first)
    kept = Kept(
        scores,
        weights,
        embedded.astype(np.int16),
        embeddings[embedded].astype(np.float16),
        first.log.astype(np.int16),
        first.batch.astype(np.int16),
        *(
            np.append(columns.log[name], columns.batch[name]).astype(np.float32)
            for name in cheap.CLASSIFIERS
        ),
    )
    np.savez_compressed(FILE, **kept._asdict())
    right = dear.answers(scores[others]) == labels[others]
    tell("embed", messages=len(texts), head=len(own), right=round(float(right.mean()), 4))
