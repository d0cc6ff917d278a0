"""The choice among candidates: bounds that must be met with a margin, and the best within them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from math import isnan
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco._utils.text_table import cell
from emsco.core.caution import Shares
from emsco.core.costs import Costs
from emsco.core.evaluation import Evaluation
from emsco.core.measure import COUNTED, Measure, check_error_cost
from emsco.core.measures import MEASURES, boundable, optimisable
from emsco.exceptions import Keyword, Message, Parameter, SelectionError, nearest, nearest_class


class _ByLabel(Mapping[Any, Shares]):
    """One count by class of many evaluations, as an array per label, read when it is first used."""

    def __init__(self, name: str, evaluations: Sequence[Evaluation]) -> None:
        self._name, self._evaluations = name, evaluations
        self._read: dict[Any, Shares] = {}

    def __getitem__(self, label: Any) -> Shares:
        if label not in self._read:
            counts = [getattr(e, self._name)[label] for e in self._evaluations]
            self._read[label] = np.array(counts, dtype=np.float64)
        return self._read[label]

    def __iter__(self) -> Any:
        return iter(getattr(self._evaluations[0], self._name))

    def __len__(self) -> int:
        return len(getattr(self._evaluations[0], self._name))


class Figures:
    """The counts of many evaluations, as arrays under the names of `Evaluation`."""

    def __init__(self, evaluations: Sequence[Evaluation]) -> None:
        self._evaluations = evaluations
        self._read: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._read:
            if name.startswith(("class_", "label_")):
                self._read[name] = _ByLabel(name, self._evaluations)
            else:
                counts = [getattr(e, name) for e in self._evaluations]
                self._read[name] = np.array(counts, dtype=np.float64)
        return self._read[name]

    @cached_property
    def by_row(self) -> Figures | None:
        """The figures counted by row, if these are of stakes."""
        return self._others("by_row")

    @cached_property
    def squares(self) -> Figures | None:
        """The sums of squared stakes, if these figures are of stakes."""
        return self._others("squares")

    def _others(self, name: str) -> Figures | None:
        others = [getattr(evaluation, name) for evaluation in self._evaluations]
        return None if None in others or not others else Figures(others)

    def __len__(self) -> int:
        return len(self._evaluations)

    def take(self, places: NDArray[np.intp]) -> Figures:
        """Return the figures of some of the evaluations."""
        return Figures([self._evaluations[place] for place in places.tolist()])


class Bound(NamedTuple):
    """A measure, the limit that it must meet, and the class that it is about, if any."""

    measure: Measure
    limit: float
    label: Any = None

    @property
    def name(self) -> str:
        """The name of the figure that is bounded."""
        return self.measure.name_of(self.label)

    def margin(self, z: float) -> float:
        """Return the margin of this bound in standard errors.

        Bounds of 0 and 1 have none, because no number of rows could meet them with a margin.
        """
        return 0.0 if self.measure.margin == COUNTED or self.limit in (0, 1) else z

    def values(self, figures: Figures, z: float, repeats: float) -> Shares:
        """Return the figures, moved by the margin, that are compared with the bound."""
        measure, label = self.measure, self.label
        if measure.is_by_class and label not in figures.class_rows:
            raise SelectionError(
                Parameter(measure.parameter)
                + f" names {label!r}, which is not a class"
                + nearest_class(label, figures.class_rows),
                value=label,
            )
        if measure.is_by_class and label not in measure.labels(figures):
            raise SelectionError(
                Parameter(measure.parameter)
                + " needs the number of rows accepted under each label, which the file of this "
                "front does not contain; run the search again."
            )
        return measure.values(figures, label, self.margin(z), repeats)

    def shortfalls(self, figures: Figures, z: float, repeats: float) -> Shares:
        """Return by how much each candidate misses the bound; 0 if it meets it."""
        excess = self.measure.sign * (self.values(figures, z, repeats) - self.limit)
        short: Shares = np.maximum(0.0, excess)
        return short

    def __str__(self) -> str:
        return f"{self.name} {'<=' if self.measure.sign > 0 else '>='} {cell(self.limit)}"


class Bounds:
    """The bounds that a chosen candidate must meet, and what to optimise within them."""

    def __init__(
        self,
        *,
        by: str = "cost",
        error_cost: float | Mapping[Any, float] | None = None,
        **limits: Any,
    ) -> None:
        if by not in optimisable():
            raise SelectionError(
                Parameter("by")
                + f" must be one of {', '.join(optimisable())}; got {by!r}"
                + nearest(by, optimisable()),
                value=by,
            )
        if error_cost is not None and by != "loss":
            raise SelectionError(
                Parameter("error_cost")
                + " needs "
                + Keyword("by", "loss")
                + ", got "
                + Keyword("by", by)
                + ".",
                value=error_cost,
            )
        check_error_cost(error_cost)
        check_names(limits)
        self.by, self.error_cost = by, error_cost
        self.limits: list[Bound] = []
        for name, measure in boundable().items():
            limit = limits.get(name)
            if measure.is_by_class:
                self.limits += [Bound(measure, *own) for own in _shares(name, limit)]
            elif limit is not None:
                _check_number(name, limit, is_share=measure.is_share)
                self.limits.append(Bound(measure, limit))

    def choose(self, figures: Figures, costs: Costs, z: float, repeats: float) -> int | None:
        """Return the position of the best candidate within the bounds; None if there is none."""
        met = [bound.shortfalls(figures, z, repeats) == 0 for bound in self.limits]
        within = np.flatnonzero(_all_of(met, len(figures)))
        if not within.size:
            return None
        errors = 0.0 if self.error_cost is None else self.error_cost
        score = optimisable()[self.by].scores(figures, within, costs, errors, z, repeats)
        # Ties: the lower cost, the higher accuracy, the higher coverage, then the first.
        cost, accuracy, coverage = (
            MEASURES[name].values(figures)[within] for name in ("cost", "accuracy", "coverage")
        )
        return int(within[np.lexsort([-coverage, -accuracy, cost, score])[0]])

    def sentence(self, z: float, n_front: int) -> str:
        """Describe the rule by which a candidate is chosen."""
        bounds = self.limits
        within = f" with {' and '.join(map(str, bounds))}" if bounds else ""
        optimised = optimisable()[self.by]
        is_moved = optimised.margin != COUNTED
        text = f"Rule: {optimised.best} of {n_front:,} candidates{within}"
        if any(bound.margin(z) for bound in bounds) or (is_moved and z):
            text += f"; shares of rows must meet their bounds with a margin of {margin_text(z)}"
        if self.by != "cost" and not is_moved:
            text += f"; {self.by} is used as counted"
        return f"{text}."


def why_not(
    bounds: Bounds,
    figures: Figures,
    costs: Costs,
    z: float,
    repeats: float,
    name_of: Callable[[int], object],
) -> tuple[str, int]:
    """Explain why no candidate meets the bounds, and return the position of the closest one.

    For each bound, the explanation has the best value with the other bounds as given. `name_of`
    describes the candidate at a position.
    """
    limits = bounds.limits
    short = [bound.shortfalls(figures, z, repeats) for bound in limits]
    longest = np.where(figures.worst_latency > 0, figures.worst_latency, 1.0)
    units: dict[str, Any] = {"share": 1.0, "money": costs.total or 1.0, "seconds": longest}
    shares = [by / units[bound.measure.unit] for bound, by in zip(limits, short, strict=True)]
    closest = int(np.argmin(np.sum(shares, axis=0)))
    failed = [bound.name for bound, by in zip(limits, short, strict=True) if by[closest]]
    margin = any(bound.margin(z) for bound in limits)
    sentences = [
        f"No candidate meets {' and '.join(map(str, limits))}"
        + f", for shares of rows with a margin of {margin_text(z)}" * margin
        + f"; the closest, {name_of(closest)}, fails {', '.join(failed)}."
    ]
    best = []
    for i, bound in enumerate(limits):
        others = [by == 0 for k, by in enumerate(short) if k != i]
        left = bound.values(figures, z, repeats)[_all_of(others, len(figures))]
        if left.size:
            value = left.min() if bound.measure.sign > 0 else left.max()
            best.append(
                f"{bound.name} {cell(float(value))}{' with the margin' * (bound.margin(z) > 0)}"
            )
        else:
            best.append(f"{bound.name}: no candidate meets the other bounds")
    others_fixed = ", with the other bounds as given" * (len(limits) > 1)
    sentences.append(f"At best{others_fixed}: {'; '.join(best)}.")
    if margin:
        counted = bounds.choose(figures, costs, 0.0, repeats)
        sentences.append(
            "No candidate meets them without the margin (" + Keyword("caution", 0) + ") either."
            if counted is None
            else "Without the margin, " + Keyword("caution", 0) + f" gives {name_of(counted)}."
        )
    return Message(" ").join(sentences), closest


def check_names(limits: Mapping[str, Any]) -> None:
    """Refuse a keyword that bounds no measure."""
    known = [*boundable(), "by", "error_cost", "caution"]
    for name in limits:
        if name not in known:
            raise SelectionError(f"Candidates cannot be selected by {name!r}{nearest(name, known)}")


def _shares(name: str, shares: object) -> list[tuple[float, Any]]:
    """Return pairs of a limit and the class that it is about."""
    if shares is None:
        return []
    if not isinstance(shares, Mapping):
        raise SelectionError(
            Parameter(name) + f" must be a mapping of label to share, got {shares!r}.", value=shares
        )
    for label, share in shares.items():
        _check_number(name, share, is_share=True, label=label)
    return [(share, label) for label, share in shares.items()]


def _check_number(name: str, value: object, *, is_share: bool, label: Any = None) -> None:
    about = "" if label is None else f" of {label!r}"
    if not isinstance(value, Real) or isnan(value):
        raise SelectionError(Parameter(name) + f"{about} must be a number, got {value!r}.")
    number = float(value)
    if is_share and not 0 <= number <= 1:
        percent = f"; {number:g}% is {number / 100:g}" if 1 < number <= 100 else ""
        raise SelectionError(
            Parameter(name) + f"{about} is a share from 0 to 1, got {value!r}{percent}.",
            value=value,
        )


def _all_of(met: Sequence[NDArray[np.bool_]], n_candidates: int) -> NDArray[np.bool_]:
    every: NDArray[np.bool_] = np.logical_and.reduce([np.ones(n_candidates, dtype=np.bool_), *met])
    return every


def margin_text(z: float) -> str:
    """Describe the width of a margin."""
    return f"{z:.2g} standard error{'s' * (z != 1)}"
