"""Messages of 100 words: fit and decide by their text, beside a pipeline of bare scikit-learn.

The reference hashes the same words and characters, and fits one logistic regression of the same
penalty. A cascade fits six, because a stage is fitted to scores of models that have not seen the
row. Times are of the processor, because both sides use one thread and others use the machine, too.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline, make_union

from benchmarks.measure import Result
from emsco import CascadeClassifier, Costs, Source
from emsco.rows.hashed_text import HALF

WORDS = 50_000  # of the language, of which a few are most frequent
LENGTH = 100
PENALTY = 10.0  # C, as of the cascade
_LETTERS = np.array(list("etaoinshrdlucmfwypvbgkjqxz"))
_TOLERANCE = 0.005


def run(*, small: bool = False) -> Iterator[Result]:
    """Compare time and accuracy on messages whose words speak for their label."""
    yield from compare(5_000 if small else 100_000)


def compare(n_rows: int) -> Iterator[Result]:
    """Fit to so many messages, and decide as many others."""
    texts, y = messages(2 * n_rows)
    fitted, fresh = texts[:n_rows], texts[n_rows:]
    cascade = CascadeClassifier(costs=Costs([Source("message", kind="text", cost=1.0)]))
    times: dict[str, float] = {}
    begin = time.process_time()
    bare = bare_pipeline().fit(fitted, y[:n_rows])
    times["bare_fit"] = time.process_time() - begin
    by_bare = bare.predict(fresh)
    times["bare_decide"] = time.process_time() - begin - times["bare_fit"]
    begin = time.process_time()
    cascade.fit(pd.DataFrame({"message": fitted}), y[:n_rows])
    times["fit"] = time.process_time() - begin
    labels = cascade.decide(pd.DataFrame({"message": fresh})).label
    times["decide"] = time.process_time() - begin - times["fit"]
    ours = times["fit"] + times["decide"]
    theirs = times["bare_fit"] + times["bare_decide"]
    facts = {name: round(seconds, 2) for name, seconds in times.items()} | {"rows": n_rows}
    yield Result("text, fit and decide, times bare scikit-learn", ours / theirs, 1.3, facts=facts)
    right = float((labels == y[n_rows:]).mean())
    of_bare = float((by_bare == y[n_rows:]).mean())
    known = {"accuracy": round(right, 4), "bare": round(of_bare, 4)}
    yield Result("text, accuracy below bare scikit-learn", of_bare - right, _TOLERANCE, facts=known)


def bare_pipeline() -> Any:
    """Return the same pipeline in scikit-learn, unfitted."""
    words = HashingVectorizer(ngram_range=(1, 2), n_features=HALF)
    characters = HashingVectorizer(analyzer="char_wb", ngram_range=(3, 5), n_features=HALF)
    model = LogisticRegression(C=PENALTY, max_iter=1000)
    return make_pipeline(make_union(words, characters), model)


def messages(n_rows: int) -> tuple[NDArray[np.object_], NDArray[np.int64]]:
    """Draw messages of words as frequent as those of a language, and their labels."""
    rng = np.random.default_rng(0)
    spelled = np.array(["".join(rng.choice(_LETTERS, rng.integers(2, 10))) for _ in range(WORDS)])
    share = np.cumsum(1 / np.arange(1, WORDS + 1))
    meaning = rng.normal(size=WORDS)
    texts = np.empty(n_rows, dtype=object)
    labels = np.empty(n_rows, dtype=np.int64)
    for row in range(n_rows):
        drawn = np.searchsorted(share, rng.random(LENGTH) * share[-1])
        texts[row] = " ".join(spelled[drawn])
        labels[row] = meaning[drawn].mean() + rng.normal() / 20 > 0
    return texts, labels
