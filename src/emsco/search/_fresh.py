"""A search held against the truth: labels, or what its final model answers; and fresh rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import accuracy_score
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from emsco.cascade.fingerprint import digest_of
from emsco.exceptions import ClassesError
from emsco.rows.ledger import Entry, ledger_of
from emsco.search._shown import ShowsWhatItFound
from emsco.words.scored import ScoredCandidate, ScoredFront


class HeldAgainstTruth(ShowsWhatItFound):
    """What is right for a row, and how a search does on rows that it has not seen."""

    target: str
    final: Any
    refit: bool | str
    guard: Any

    @property
    def needs_labels(self) -> bool:
        """Whether labels say what is right; else the final model's answers do."""
        return self.target != "agreement"

    def truth(self, X: Any, y: ArrayLike | None = None) -> NDArray[Any]:
        """Give what is right for each row: its label, or what the final model answers.

        Parameters
        ----------
        X : numpy array, pandas or polars frame
            The rows.
        y : array, default=None
            Their labels. Where the target is agreement there are none, and some are refused.
        """
        if self.needs_labels and y is None:
            raise ClassesError("`y` is needed: the labels of X say what is right.")
        if not self.needs_labels and y is not None:
            raise ClassesError(
                "A search for agreement takes no `y`: right is what the final model answers."
            )
        right: NDArray[Any] = column_or_1d(
            y if self.needs_labels else self.final.predict(X), warn=True
        )
        return right

    def score(
        self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Give the share of rows that `predict` labels right.

        Where the target is agreement, `y` is ignored as in `fit`, because scikit-learn hands it on.
        """
        truth = self.truth(X, y if self.needs_labels else None)
        return float(accuracy_score(truth, self.predict(X), sample_weight=sample_weight))

    def score_front(self, X: Any, y: ArrayLike | None = None) -> ScoredFront:
        """Hold every candidate of the front against fresh rows.

        What was selected looks better than it is; the table puts both figures side by side, with
        the optimism between them. Each source set is fitted once, whatever the candidates. `y`
        holds the labels of X; where the target is agreement there are none.
        """
        check_is_fitted(self, "front_")
        truth = self.truth(X, y)
        unknown = set(np.unique(truth).tolist()) - set(self.classes_.tolist())
        if unknown:
            said = "`y` holds" if self.needs_labels else "The final model answers"
            raise ClassesError(f"{said} {min(unknown, key=str)!r}, which `fit` did not see.")
        self._note_shown(X)
        fresh = (
            self.found_.score(self, X, truth, self.refit, self.guard) if len(self.front_) else []
        )
        scored = [ScoredCandidate(c, e) for c, e in zip(self.front_, fresh, strict=True)]
        return ScoredFront(
            scored, f"{self.front_.measured_on} Fresh figures on {len(truth):,} other rows."
        )

    def _note_shown(self, X: Any) -> None:
        """Write down which rows show how the whole front does, before they do.

        Whoever then certifies one cascade on them may have chosen it by what was seen.
        """
        fitted = self.found_.rows
        if not fitted.digest:
            return
        rows = fitted.look(self.found_.layout.read_known(X))
        front = [[c.design.assignment, c.threshold] for c in self.front_]
        with ledger_of(fitted.digest).open() as page:
            page.append([Entry(digest_of(["shown", front]), 0.0, len(front), rows)])
