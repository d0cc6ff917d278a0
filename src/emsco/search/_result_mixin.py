"""What a fitted search shows: parts of its result, and decisions of the chosen cascade."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from emsco.cascade import CascadeClassifier
from emsco.core.costs import Costs
from emsco.core.decisions import Decisions
from emsco.core.evaluation import Evaluation
from emsco.core.front import Candidate, ParetoFront
from emsco.exceptions import SelectionError
from emsco.rows.fitted_rows import FittedRows
from emsco.search._problem import Search
from emsco.search.fitted_search import Choice, FittedSearch


class ResultMixin:
    """Views of `found_` and `choice_`, which `fit` and `choose` set and nothing else changes."""

    found_: FittedSearch
    choice_: Choice

    def decide(self, X: Any, *, factors: bool = False) -> Decisions:
        """Decide rows with the chosen cascade: buy stages, exit when confident, or reject.

        `factors` asks for what each feature contributed to each decision, `Decision.factors`.
        """
        return self._chosen().decide(X, factors=factors)

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict a label for every row, by the last stage bought, even if it rejects the row."""
        return self._chosen(X).predict(X)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probabilities of the last stage bought, one column per class."""
        return self._chosen(X).predict_proba(X)

    @property
    def front_(self) -> ParetoFront:
        """The non-dominated candidates."""
        return self._found().front

    @property
    def all_sources_(self) -> Candidate:
        """All sources at once answering every row."""
        return self._found().all_sources

    @property
    def best_candidate_(self) -> Candidate:
        """The chosen candidate."""
        return self._choice().candidate

    @property
    def best_cascade_(self) -> CascadeClassifier:
        """The cascade of the chosen candidate."""
        cascade = self._choice().cascade
        if cascade is None:
            raise AttributeError("best_cascade_ is available only after a refit.")
        return cascade

    @property
    def best_estimator_(self) -> CascadeClassifier:
        """The chosen cascade, under scikit-learn's name for it."""
        if not hasattr(self, "best_cascade_"):
            raise AttributeError("best_estimator_ is available only after a refit.")
        return self.best_cascade_

    @property
    def history_(self) -> list[dict[str, Any]]:
        """The progress of the search."""
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
        """The number of folds."""
        return self._found().n_splits

    @property
    def fitted_rows_(self) -> FittedRows:
        """Hashes of the rows seen in `fit`, by which a certificate recognises them."""
        return self._found().rows

    def _found(self) -> FittedSearch:
        if "found_" not in self.__dict__:  # before `fit` there is no such attribute
            raise AttributeError("This attribute is available only after fit; call fit first.")
        return self.found_

    def _choice(self) -> Choice:
        if "choice_" not in self.__dict__:
            raise AttributeError("This attribute is available only after a choice; call choose().")
        return self.choice_

    def _check_is_chosen(self) -> None:
        check_is_fitted(self, "front_")
        if not hasattr(self, "best_candidate_"):
            raise NotFittedError("No candidate of the front was chosen yet; call choose(...).")

    def _chosen(self, X: Any = None) -> CascadeClassifier:
        """Return the chosen cascade; X, if given, must have the columns that `fit` saw."""
        self._check_is_chosen()
        if not hasattr(self, "best_cascade_"):
            raise NotFittedError(
                f"refit=False with {self.n_splits_} folds leaves no cascade to decide with; "
                "call choose(refit=True)."
            )
        if X is not None:
            self.found_.layout.check(self, X)
        return self.best_cascade_

    def all_sources_at(self, coverage: float) -> Evaluation:
        """Evaluate all sources at once, accepting only the given share of most confident rows.

        The rows and folds are those of the front, so that a candidate can be compared with what
        rejecting as many rows would give by itself.
        """
        check_is_fitted(self, "front_")
        if not 0 <= coverage <= 1:
            raise SelectionError(f"`coverage` must be from 0 to 1, got {coverage}.")
        return self.found_.reference.at(coverage)
