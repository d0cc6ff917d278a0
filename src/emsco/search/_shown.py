"""What a fitted search shows: parts of what it found, and the decisions of what was chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from emsco.cascade import CascadeClassifier
from emsco.exceptions import SelectionError
from emsco.rows.known import FittedRows
from emsco.search._problem import Search
from emsco.search.found import Choice, Found
from emsco.words.costs import Costs
from emsco.words.decisions import Decisions
from emsco.words.evaluation import Evaluation
from emsco.words.front import Candidate, ParetoFront


class ShowsWhatItFound:
    """Views of `found_` and `choice_`, which `fit` and `choose` set and nothing else changes."""

    found_: Found
    choice_: Choice

    def decide(self, X: Any) -> Decisions:
        """Decide rows by the chosen cascade: buy stage by stage, exit when confident, or reject."""
        return self._chosen().decide(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Give a label for every row: the last stage bought decides, also where it rejects."""
        return self._chosen(X).predict(X)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Give the probabilities of the last stage bought, a column a class."""
        return self._chosen(X).predict_proba(X)

    @property
    def front_(self) -> ParetoFront:
        """The candidates that no other beats."""
        return self._found().front

    @property
    def all_sources_(self) -> Candidate:
        """All sources at once answering every row."""
        return self._found().all_sources

    @property
    def best_candidate_(self) -> Candidate:
        """The candidate that was chosen."""
        return self._choice().candidate

    @property
    def best_cascade_(self) -> CascadeClassifier:
        """The cascade of the candidate that was chosen."""
        cascade = self._choice().cascade
        if cascade is None:
            raise AttributeError("best_cascade_ comes with a fitted cascade.")
        return cascade

    @property
    def best_estimator_(self) -> CascadeClassifier:
        """The chosen cascade, under scikit-learn's name for it."""
        if not hasattr(self, "best_cascade_"):
            raise AttributeError("best_estimator_ comes with a fitted cascade.")
        return self.best_cascade_

    @property
    def history_(self) -> list[dict[str, Any]]:
        """How the search went."""
        return self._found().history

    @property
    def search_(self) -> Search:
        """The search that was run."""
        return self._found().strategy

    @property
    def costs_(self) -> Costs:
        """The prices."""
        return self._found().costs

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels."""
        return self._found().classes

    @property
    def n_splits_(self) -> int:
        """How many folds there were."""
        return self._found().n_splits

    @property
    def fitted_rows_(self) -> FittedRows:
        """Hashes of the rows that `fit` saw, by which a certificate knows them again."""
        return self._found().rows

    def _found(self) -> Found:
        if "found_" not in self.__dict__:  # before `fit` there is no such attribute
            raise AttributeError("This comes with a fitted search; call fit first.")
        return self.found_

    def _choice(self) -> Choice:
        if "choice_" not in self.__dict__:
            raise AttributeError("This comes with a choice; call choose(...).")
        return self.choice_

    def _check_is_chosen(self) -> None:
        check_is_fitted(self, "front_")
        if not hasattr(self, "best_candidate_"):
            raise NotFittedError("Nothing of the front is chosen yet; call choose(...).")

    def _chosen(self, X: Any = None) -> CascadeClassifier:
        """Give the chosen cascade; X, where given, must have the columns that `fit` saw."""
        self._check_is_chosen()
        if not hasattr(self, "best_cascade_"):
            raise NotFittedError(
                f"refit=False with {self.n_splits_} folds leaves no cascade to decide by; "
                "call choose(refit=True)."
            )
        if X is not None:
            self.found_.layout.check(self, X)
        return self.best_cascade_

    def all_sources_at(self, coverage: float) -> Evaluation:
        """Evaluate all sources at once with a reject option: the surest rows, so many, accepted.

        On the same rows and folds as the front, so that a candidate can be held against what its
        coverage alone would give.
        """
        check_is_fitted(self, "front_")
        if not 0 <= coverage <= 1:
            raise SelectionError(f"`coverage` must be from 0 to 1, got {coverage}.")
        return self.found_.reference.at(coverage)
