"""A search compared with the truth: labels or the answers of its final model, on fresh rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import accuracy_score
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from emsco._utils.progress import followed
from emsco.cascade.fingerprint import digest_of
from emsco.core.evaluation import Evaluation, evaluate_known
from emsco.core.front import Candidate
from emsco.core.labels import describe_unknown, read_given_labels, unknown_labels
from emsco.core.population import weighted_as, weights_of
from emsco.core.scored_front import ScoredCandidate, ScoredFront, differences
from emsco.exceptions import ClassesError, LabelsWarning, Parameter, warn
from emsco.learners.final_stage import predict_labels
from emsco.rows.ledger import Entry, ledger_of
from emsco.rows.row_sketch import Sketch
from emsco.search._result_mixin import ResultMixin
from emsco.search._summary import sentences_of_choice, sentences_of_fresh
from emsco.search.fitted_search import check_lengths


class FreshRowsMixin(ResultMixin):
    """Methods about the truth of rows, and about rows that the search has not seen."""

    target: str
    final: Any
    refit: bool | str
    guard: Any

    @property
    def needs_labels(self) -> bool:
        """Whether labels define what is right; otherwise the final model's answers do."""
        return self.target != "agreement"

    def truth(self, X: Any, y: ArrayLike | None = None) -> NDArray[Any]:
        """Return the truth for each row: its label, or the final model's answer.

        Parameters
        ----------
        X : numpy array, pandas or polars frame
            The rows.
        y : array, default=None
            Their labels. If the target is agreement, `y` must be None.
        """
        if self.needs_labels and y is None:
            raise ClassesError("`y` is needed: give the labels of X.")
        if not self.needs_labels and y is not None:
            raise ClassesError(
                "A search for agreement takes no `y`: the final model's answers are the truth."
            )
        if not self.needs_labels:
            return predict_labels(self.final, X, len(X))
        right: NDArray[Any] = column_or_1d(read_given_labels(y), warn=True)
        return right

    def score(
        self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the share of rows that `predict` labels right.

        If the target is agreement, `y` is ignored as in `fit`, because scikit-learn passes it on.
        """
        truth = self.truth(X, y if self.needs_labels else None)
        return float(accuracy_score(truth, self.predict(X), sample_weight=sample_weight))

    def summary(
        self,
        X: Any = None,
        y: ArrayLike | None = None,
        *,
        population: Mapping[Any, float] | None = None,
    ) -> str:
        """Describe in plain words what was chosen and why, its cost, and its rejects and misses.

        Parameters
        ----------
        X : numpy array, pandas or polars frame, default=None
            Fresh rows. The summary then also describes the chosen cascade on these rows, and lists
            the figures that differ by more than two standard errors from the selected ones. For
            certificates, these rows then count as having shown the whole front, because a user who
            has seen the figures of one candidate may choose another because of them.
        y : array, default=None
            The labels of X; None if the target is agreement.
        population : mapping of label to float, default=None
            The shares of classes among future rows, if X has other shares; the figures on fresh
            rows are weighted to them. The front and the choice are not weighted, and certificates
            take no population.
        """
        self._check_is_chosen()
        choice, front = self.choice_, self.front_
        summary = sentences_of_choice(
            choice.candidate, self.all_sources_, front, self.classes_, choice.rule, choice.bounds
        )
        if X is None:
            if y is not None or population is not None:
                raise ClassesError(
                    "`y` and " + Parameter("population") + " need fresh rows; give the rows as X."
                )
            return summary
        cascade = self._chosen()
        truth = self._known_truth(X, y, population)
        selected = choice.candidate.evaluation
        self._note_shown(X, truth, [] if choice.candidate in front else [choice.candidate])
        decisions = cascade.decide(X)
        check_lengths(len(decisions), len(truth))
        fresh = sentences_of_fresh(
            evaluate_known(decisions, truth, population=population),
            len(truth),
            selected,
            differences(
                selected,
                decisions,
                truth,
                repeats=front.repeats,
                within_classes=population is not None,
            ),
            self.costs_,
            choice.bounds,
            population,
        )
        return summary + f"\n{fresh}"

    def score_front(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        population: Mapping[Any, float] | None = None,
    ) -> ScoredFront:
        """Evaluate every candidate of the front on fresh rows.

        Selected figures look better than they are; the table shows both side by side, with the
        optimism between them. Each source set is fitted once, however many candidates use it.

        Parameters
        ----------
        X : numpy array, pandas or polars frame
            The fresh rows.
        y : array, default=None
            Their labels; None if the target is agreement. A label that `fit` did not see is counted
            as a class of its own, of which no row is right, and is warned of.
        population : mapping of label to float, default=None
            The shares of classes among future rows, if X has other shares, as in `evaluate`. Fresh
            figures are weighted to them, so the optimism then also includes the effect of other
            shares. Selected figures are not weighted, and certificates take no population.
        """
        check_is_fitted(self, "front_")
        truth = self._known_truth(X, y, population)
        self._note_shown(X, truth)
        scored = [
            ScoredCandidate(c, e)
            for c, e in zip(self.front_, self._afresh(X, truth, population), strict=True)
        ]
        return ScoredFront(
            scored,
            f"{self.front_.measured_on} Fresh figures on {len(truth):,} other "
            f"rows{weighted_as(population)}.",
        )

    def _afresh(
        self, X: Any, truth: NDArray[Any], population: Mapping[Any, float] | None
    ) -> list[Evaluation]:
        """Evaluate the front on fresh rows.

        For a population, and for labels that are no classes, by decisions and not by counts.
        """
        if not len(self.front_):
            return []
        if population is None and not unknown_labels(truth, self.classes_):
            return self.found_.score(self, X, truth, self.refit, self.guard)
        evaluations = []
        for candidate in followed(self.front_, "decide fresh rows by every candidate"):
            decisions = self.found_.cascade(candidate, self.refit, self.guard).decide(X)
            check_lengths(len(decisions), len(truth))
            evaluations.append(evaluate_known(decisions, truth, population=population))
        return evaluations

    def _known_truth(
        self, X: Any, y: ArrayLike | None, population: Mapping[Any, float] | None
    ) -> NDArray[Any]:
        """Return the truth of fresh rows; warn of labels that `fit` did not see.

        An answer of the final model that `fit` did not see is refused, and so is a population with
        a class that these rows lack.
        """
        truth = self.truth(X, y)
        labels, counts = np.unique(truth, return_counts=True)
        unknown = unknown_labels(truth, self.classes_)
        if unknown and not self.needs_labels:
            raise ClassesError(
                f"The final model answers {next(iter(unknown))!r}, which `fit` did not see."
            )
        if unknown:
            warn(
                "`y` holds labels that `fit` did not see, so no such row can be right: "
                + describe_unknown(unknown, self.classes_.tolist()),
                LabelsWarning,
            )
        if population is not None:
            weights_of(population, dict(zip(labels.tolist(), counts.tolist(), strict=True)))
        return truth

    def _note_shown(self, X: Any, truth: NDArray[Any], more: Sequence[Candidate] = ()) -> None:
        """Record in the ledger that these rows show figures of the front, before they do.

        A cascade that is later certified on them may have been chosen because of these figures,
        even if they were the figures of another candidate; and so may the kind of target and its
        class. So it is recorded how many figures of each cascade a certificate can be about:
        accuracy or agreement, coverage and cost, and of each class what is missed, what is rejected
        and the precision.
        """
        fitted = self.found_.rows
        if not fitted.digest:
            return
        known = self.found_.layout.read_known(X)
        check_lengths(len(known), len(truth))
        front = [[c.design.assignment, c.threshold] for c in (*self.front_, *more)]
        entry = Entry(
            digest_of(["shown", front]),
            0.0,
            len(front),
            fitted.look(known),
            fitted=fitted.digest,
            sketch=Sketch.of(known.columns, truth),
            figures=3 + 3 * len(self.classes_),
        )
        with ledger_of(fitted.digest).open() as page:
            page.append([entry])
