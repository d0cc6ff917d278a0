"""Choosing a candidate of the front, in `fit` and later."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from emsco.cascade import CascadeClassifier
from emsco.core.front import Candidate, ParetoFront
from emsco.core.selection import check_names
from emsco.exceptions import SelectionError
from emsco.learners import learner_of
from emsco.search._refit_stages import STAGES, check_refit, most_alike
from emsco.search._score_front import FreshRowsMixin
from emsco.search._thresholds import AUTO
from emsco.search.default_rule import Selection, select_as_asked
from emsco.search.fitted_search import Choice, FittedSearch


class ChoosingMixin(FreshRowsMixin):
    """Methods that choose a candidate of the front, or build the cascade of one."""

    estimator: Any
    threshold: Any
    max_missed: Mapping[Any, float] | None
    max_rejected: Mapping[Any, float] | None
    select: Mapping[str, Any] | Callable[[ParetoFront], Candidate] | None

    def choose(
        self, candidate: Candidate | None = None, *, refit: bool | str | None = None, **bounds: Any
    ) -> Self:
        """Choose another candidate; only source sets not yet fitted are fitted.

        Parameters
        ----------
        candidate : Candidate, default=None
            The candidate to choose. None: choose by bounds.
        refit : bool or "stages", default=None
            Whether to fit on all rows; None: as set for the search.
        **bounds : dict
            Keywords of `ParetoFront.select`. Without any, or with `caution` alone, the rule of the
            search is used, with that caution.
        """
        check_is_fitted(self, "front_")
        if candidate is not None and bounds:
            raise SelectionError("Give either a candidate or bounds, not both.")
        check_names(bounds)
        refit = self.refit if refit is None else refit
        check_refit(refit, learner_of(self.estimator))
        select: Any = bounds if candidate is None else candidate
        if candidate is None and not bounds.keys() - {"caution"}:
            default = self.select
            select = {**default, **bounds} if isinstance(default, Mapping) else bounds or default
        self._choose(select, refit)
        return self

    def cascade(self, candidate: Candidate) -> CascadeClassifier:
        """Build the cascade of any candidate, fitted on all rows given to `fit`.

        With `refit=False` and a one-split `cv`, it is fitted on the training rows of that split.
        """
        check_is_fitted(self, "front_")
        return self.found_.cascade(candidate, self.refit, self.guard)

    def _choose(self, select: Any, refit: bool | str) -> None:
        found = self.found_.holding(select)
        selected = self._select(select, found)
        if refit == STAGES and found.stages.learner.is_one_model:
            found = found.separate(selected.candidate.design, by_stage=self.threshold == AUTO)
            if isinstance(select, Candidate):
                selected = selected._replace(candidate=most_alike(found.front, select))
            else:
                selected = self._select(select, found)
        candidate, rule, bounds = selected
        cascade = None
        if refit or found.evaluated is not None:
            cascade = found.cascade(candidate, refit, self.guard)
        choice = Choice(
            candidate,
            cascade,
            None if cascade is None else cascade.decider_,
            is_refitted=bool(refit) or found.evaluated is None,
            rule=rule,
            bounds=bounds,
        )
        self.found_, self.choice_ = found, choice  # last, so that an error changes nothing

    def _select(self, select: Any, found: FittedSearch) -> Selection:
        return select_as_asked(
            select,
            found.front,
            found.all_sources,
            found.n_rows,
            {"max_missed": self.max_missed or {}, "max_rejected": self.max_rejected or {}},
            agreement=not self.needs_labels,
        )
