"""A population with other shares of classes than the rows at hand: the weight of a row of each."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

from emsco.exceptions import DecisionsError, Parameter, nearest


def share_of(part: float, whole: float) -> float:
    """Return a share; 0 of nothing."""
    return part / whole if whole else 0.0


def weighted_as(population: Mapping[Any, float] | None) -> str:
    """Describe the class shares of a given population; an empty string without one."""
    if population is None:
        return ""
    shares = " and ".join(
        f"{100 * share:.4g}% labelled {label!r}" for label, share in population.items()
    )
    return f", counted as in a population with {shares}"


def weights_of(population: Mapping[Any, float], rows: Mapping[Any, float]) -> dict[Any, float]:
    """Return the weight of a row of each class so that the classes have a population's shares.

    `rows` is the number of rows of each class; their weighted total is the same.

    Examples
    --------
    >>> from emsco.core.population import weights_of
    >>> weights_of({"fraud": 0.1}, {"fraud": 50, "fair": 50})
    {'fraud': 0.2, 'fair': 1.8}
    """
    for label, share in population.items():
        if label not in rows:
            raise DecisionsError(
                Parameter("population")
                + f" names {label!r}, of which there is no row"
                + nearest(label, map(str, rows)),
                value=label,
            )
        if isinstance(share, bool) or not isinstance(share, Real) or not 0 <= float(share) <= 1:
            raise DecisionsError(
                Parameter("population") + f" of {label!r} must be from 0 to 1, got {share!r}.",
                value=share,
            )
        if share and not rows[label]:
            raise DecisionsError(
                Parameter("population") + f" names {label!r}, whose rows all count nothing."
            )
    total, rest = sum(rows.values()), 1 - sum(population.values())
    others = sum(count for label, count in rows.items() if label not in population)
    if rest < -1e-9 or (rest > 1e-9 and not others):
        raise DecisionsError(
            "The shares of "
            + Parameter("population")
            + " must sum to 1, or to less where a class is not named; got "
            f"{sum(population.values()):g}."
        )
    shares = {
        label: population.get(label, max(rest, 0.0) * share_of(count, others))
        for label, count in rows.items()
    }
    return {label: share_of(shares[label] * total, count) for label, count in rows.items()}
