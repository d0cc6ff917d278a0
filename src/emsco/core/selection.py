"""The choice among candidates: bounds that must be met with a margin, and the best within them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco._utils.text_table import cell
from emsco.core.caution import Shares, less_margin, shares_of, wilson
from emsco.core.costs import Costs
from emsco.core.evaluation import Evaluation, share_counts, total_loss
from emsco.exceptions import Keyword, Message, Parameter, SelectionError, nearest

# What a choice may optimise, and the words for it in the sentence about a choice.
BEST = {
    "cost": "the cheapest",
    "accuracy": "the most accurate",
    "coverage": "the one with the highest coverage",
    "fitness": "the one with the highest fitness, as defined in the paper,",
    "loss": "the one with the lowest loss",
}


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

    def __len__(self) -> int:
        return len(self._evaluations)

    def take(self, places: NDArray[np.intp]) -> Figures:
        """Return the figures of some of the evaluations."""
        return Figures([self._evaluations[place] for place in places.tolist()])


class _Bound(NamedTuple):
    """One bound: the figure, the limit, the class, and a sign: +1 if a larger figure is worse."""

    word: str
    bound: float
    sign: int
    label: Any = None

    @property
    def name(self) -> str:
        return self.word if self.label is None else f"{self.word} {self.label}"

    def margin(self, z: float) -> float:
        """Return the margin of this bound in standard errors.

        Coverage, cost and latency are used as counted, because luck changes them little. So are
        bounds of 0 and 1, which could not be met with a margin by any number of rows.
        """
        return 0.0 if self.word in _AS_COUNTED or self.bound in (0, 1) else z

    def values(self, figures: Figures, z: float, repeats: float) -> Shares:
        """Return the figures, moved by the margin, that are compared with the bound."""
        if self.word in _AS_COUNTED:
            return _AS_COUNTED[self.word](figures)
        own = self.margin(z)
        if self.word == "accuracy":
            return _accuracy(figures, own, repeats)
        part, whole = _counts_of(self.word, self.label, figures)
        k = repeats if own else 1.0
        return wilson(part / k, whole / k, own)[max(self.sign, 0)]

    def shortfalls(self, figures: Figures, z: float, repeats: float) -> Shares:
        """Return by how much each candidate misses the bound; 0 if it meets it."""
        short: Shares = np.maximum(0.0, self.sign * (self.values(figures, z, repeats) - self.bound))
        return short

    def __str__(self) -> str:
        return f"{self.name} {'<=' if self.sign > 0 else '>='} {cell(self.bound)}"


_AS_COUNTED: dict[str, Callable[[Figures], Shares]] = {
    "cost": lambda f: shares_of(f.paid, f.rows),
    "coverage": lambda f: shares_of(f.accepted, f.rows),
    "worst_latency": lambda f: f.worst_latency,
}


@dataclass(frozen=True)
class Bounds:
    """The bounds that a chosen candidate must meet, and what to optimise within them."""

    max_cost: float | None = None
    min_coverage: float | None = None
    min_accuracy: float | None = None
    max_missed: Mapping[Any, float] | None = None
    max_rejected: Mapping[Any, float] | None = None
    min_precision: Mapping[Any, float] | None = None
    max_latency: float | None = None
    by: str = "cost"
    error_cost: float | Mapping[Any, float] | None = None

    def __post_init__(self) -> None:
        if self.by not in BEST:
            raise SelectionError(
                Parameter("by")
                + f" must be one of {', '.join(BEST)}; got {self.by!r}"
                + nearest(self.by, BEST),
                value=self.by,
            )
        if self.error_cost is not None and self.by != "loss":
            raise SelectionError(
                Parameter("error_cost")
                + " needs "
                + Keyword("by", "loss")
                + ", got "
                + Keyword("by", self.by)
                + ".",
                value=self.error_cost,
            )
        for name in ("max_missed", "max_rejected", "min_precision"):
            shares = getattr(self, name)
            if shares is not None and not isinstance(shares, Mapping):
                raise SelectionError(
                    Parameter(name) + f" must be a mapping of label to share, got {shares!r}.",
                    value=shares,
                )
            for label, share in (shares or {}).items():
                _check_number(f"{name} of {label!r}", share)
        for name in ("max_cost", "min_coverage", "min_accuracy", "max_latency"):
            if getattr(self, name) is not None:
                _check_number(name, getattr(self, name))

    def as_list(self) -> list[_Bound]:
        """List the bounds."""
        found = [
            _Bound(word, bound, sign)
            for word, bound, sign in (
                ("cost", self.max_cost, 1),
                ("coverage", self.min_coverage, -1),
                ("accuracy", self.min_accuracy, -1),
            )
            if bound is not None
        ]
        for word, sign, bounds in (
            ("missed", 1, self.max_missed),
            ("rejected", 1, self.max_rejected),
            ("precision", -1, self.min_precision),
        ):
            found += [_Bound(word, share, sign, label) for label, share in (bounds or {}).items()]
        if self.max_latency is not None:
            found.append(_Bound("worst_latency", self.max_latency, 1))
        return found

    def choose(self, figures: Figures, costs: Costs, z: float, repeats: float) -> int | None:
        """Return the position of the best candidate within the bounds; None if there is none."""
        met = [bound.shortfalls(figures, z, repeats) == 0 for bound in self.as_list()]
        within = np.flatnonzero(_all_of(met, len(figures)))
        if not within.size:
            return None
        cost = shares_of(figures.paid, figures.rows)[within]
        accuracy = shares_of(figures.right, figures.accepted)[within]
        coverage = shares_of(figures.accepted, figures.rows)[within]
        if self.by == "cost":
            score = cost
        elif self.by == "coverage":
            score = -coverage
        elif self.by == "accuracy":
            score = -_accuracy(figures, z, repeats)[within]
        elif self.by == "fitness":
            saved = 1 - shares_of(cost, np.full(len(within), costs.total))
            score = -np.hypot(np.hypot(accuracy, coverage), saved)
        else:
            score = self._loss(figures.take(within), costs)
        # Ties: the lower cost, the higher accuracy, the higher coverage, then the first.
        return int(within[np.lexsort([-coverage, -accuracy, cost, score])[0]])

    def _loss(self, figures: Figures, costs: Costs) -> Shares:
        error_cost = 0.0 if self.error_cost is None else self.error_cost
        return shares_of(total_loss(figures, costs.review, error_cost), figures.rows)

    def sentence(self, z: float, n_front: int) -> str:
        """Describe the rule by which a candidate is chosen."""
        bounds = self.as_list()
        within = f" with {' and '.join(map(str, bounds))}" if bounds else ""
        text = f"Rule: {BEST[self.by]} of {n_front:,} candidates{within}"
        if any(bound.margin(z) for bound in bounds) or (self.by == "accuracy" and z):
            text += f"; shares of rows must meet their bounds with a margin of {margin_text(z)}"
        if self.by in ("coverage", "fitness", "loss"):
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
    limits = bounds.as_list()
    short = [bound.shortfalls(figures, z, repeats) for bound in limits]
    longest = np.where(figures.worst_latency > 0, figures.worst_latency, 1.0)
    units: dict[str, Any] = {"cost": costs.total or 1.0, "worst_latency": longest}
    shares = [by / units.get(bound.word, 1.0) for bound, by in zip(limits, short, strict=True)]
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
            value = left.min() if bound.sign > 0 else left.max()
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


def _check_number(name: str, value: object) -> None:
    if not isinstance(value, Real) or isnan(value):
        raise SelectionError(f"`{name}` must be a number, got {value!r}.")


def _all_of(met: Sequence[NDArray[np.bool_]], n_candidates: int) -> NDArray[np.bool_]:
    every: NDArray[np.bool_] = np.logical_and.reduce([np.ones(n_candidates, dtype=np.bool_), *met])
    return every


def margin_text(z: float) -> str:
    """Describe the width of a margin."""
    return f"{z:.2g} standard error{'s' * (z != 1)}"


def _accuracy(figures: Figures, z: float, repeats: float) -> Shares:
    """Return accuracy minus a margin; without a margin, exactly as counted."""
    k = repeats if z else 1.0
    return less_margin(figures.right / k, figures.accepted / k, z)


def _counts_of(word: str, label: Any, figures: Figures) -> tuple[Shares, Shares]:
    """Return how many rows a share of a class counts, and out of how many."""
    parameter = "min_precision" if word == "precision" else f"max_{word}"
    if label not in figures.class_rows:
        raise SelectionError(
            Parameter(parameter)
            + f" names {label!r}, which is not a class"
            + nearest(label, [str(known) for known in figures.class_rows]),
            value=label,
        )
    if word == "precision" and label not in figures.label_accepted:
        raise SelectionError(
            Parameter("min_precision")
            + " needs the number of rows accepted under each label, which the file of "
            "this front does not contain; run the search again."
        )
    counts: tuple[Shares, Shares] = share_counts(figures, word, label)
    return counts
