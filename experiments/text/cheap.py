"""The cheap sources: log-odds from word counts and from character n-grams.

Each representation is wide and sparse, so its source gives one column: the log-odds of a linear
classifier of it. It is fitted on the answers of the dear model in the log, without any labels. The
rows of the log themselves get log-odds of fits without their fold, like those that later rows get.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import Pipeline, make_pipeline

from experiments.text.messages import Division

CLASSIFIERS: dict[str, Pipeline] = {
    "words": make_pipeline(CountVectorizer(), LogisticRegression(solver="liblinear")),
    "characters": make_pipeline(
        TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True),
        LogisticRegression(C=10, solver="liblinear"),
    ),
}


class Columns(NamedTuple):
    """A frame of the log and one of the batch, with a column for each cheap source."""

    log: pd.DataFrame
    batch: pd.DataFrame


def columns(texts: NDArray[np.object_], answers: NDArray[np.int64], division: Division) -> Columns:
    """Make the columns of both parts; only the answers in the log are looked at."""
    log, batch = (texts[part] for part in division)
    own = answers[division.log]
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    made: list[dict[str, NDArray[np.float64]]] = [{}, {}]
    for name, classifier in CLASSIFIERS.items():
        made[0][name] = cross_val_predict(
            clone(classifier), log, own, cv=folds, method="decision_function"
        )
        made[1][name] = clone(classifier).fit(log, own).decision_function(batch)
    return Columns(*map(pd.DataFrame, made))
