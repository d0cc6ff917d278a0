"""Prices, populations, labels and groups as people state them, checked and read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from emsco._utils.missing_values import is_missing
from emsco.core.costs import Costs
from emsco.core.costs_file import CSV_ENDING
from emsco.core.measure import share_of
from emsco.exceptions import (
    ClassesError,
    ColumnsError,
    DecisionsError,
    LabelsWarning,
    Parameter,
    ValuesError,
    kind_of_label,
    nearest,
    nearest_class,
    quoted,
    warn,
)


def resolve_costs(
    costs: Costs | Mapping[str, float] | Sequence[float] | str | os.PathLike[str] | None,
    feature_names: Sequence[str],
) -> Costs:
    """Turn any of the ways to state costs into `Costs` that own columns of X, each once.

    A sequence matches the columns by position, everything else by name; None prices every feature
    at 1, and a path names a TOML file, or a price list in CSV. Columns that nothing prices belong
    to no source: a warning names them, unless `Costs` skip them.
    """
    if costs is None:
        return Costs.per_feature([1.0] * len(feature_names), feature_names)
    if isinstance(costs, str | os.PathLike):
        costs = read_costs(costs)
    elif not isinstance(costs, Costs | Mapping):
        return Costs.per_feature(np.asarray(costs).tolist(), feature_names)
    owned = list(costs) if isinstance(costs, Mapping) else costs.features
    yielded, known = set(owned), set(feature_names)
    lost = [feature for feature in owned if feature not in known]
    skipped = costs.skipped if isinstance(costs, Costs) else ()
    unowned = [name for name in feature_names if name not in yielded and name not in skipped]
    if lost:
        raise ColumnsError(
            f"`costs` names {len(owned)} features but X has {len(feature_names)}; "
            f"not in X: {quoted(lost)}" + nearest(lost[0], unowned) + _hint(feature_names)
        )
    if not owned:
        raise ColumnsError(f"`costs` has no price for any column of X: {quoted(unowned)}.")
    if unowned:
        warn(
            f"Columns left out, because `costs` has no price for them: {quoted(unowned)}. Give a "
            "column the price 0 if it is free.",
            UserWarning,
        )
    if isinstance(costs, Mapping):
        return Costs.per_feature(costs, [name for name in feature_names if name in yielded])
    return costs


def _hint(feature_names: Sequence[str]) -> str:
    """Say what to do if X has no names at all, as behind most steps of a pipeline."""
    if list(feature_names) != [f"x{place}" for place in range(len(feature_names))]:
        return ""
    return (
        " X has no column names: give a frame; in a Pipeline, steps before keep names after "
        "pipeline.set_output(transform='pandas')."
    )


def leave_out(costs: Costs, features: Iterable[str]) -> Costs:
    """Return costs that skip some features; a source without any other is no longer one.

    A source that another one requires stays as it is.
    """
    out = set(features)
    required = {name for source in costs.sources for name in source.requires}
    sources = []
    for source in costs.sources:
        used = tuple(f for f in source.features if f not in out or source.name in required)
        out -= set(used)
        if used:
            kinds = {f: kind for f, kind in costs.types.items() if f in used}
            one = source if used == source.features else replace(source, features=used, type=kinds)
            sources.append(one)
    named = {source.setup for source in sources}
    setups = {name: price for name, price in costs.setups.items() if name in named}
    skipped = (*costs.skipped, *(f for f in costs.features if f in out))
    return replace(costs, sources=sources, setups=setups, skipped=skipped)


def read_costs(path: str | os.PathLike[str]) -> Costs:
    """Read a file of prices: a price list if its name ends in .csv, otherwise TOML."""
    is_list = os.fspath(path).lower().endswith(CSV_ENDING)
    return Costs.from_csv(path) if is_list else Costs.from_toml(path)


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


def read_given_labels(y: Any) -> Any:
    """Return labels without types that only pandas has; refuse rows without a label.

    Labels of different kinds, such as text and numbers, are refused as well: they have no order.
    """
    return _read(y, "label")


def read_groups(groups: ArrayLike, n_rows: int) -> NDArray[Any]:
    """Return the group of each row; refuse rows without a group."""
    named = np.asarray(_read(groups, "group"))
    if named.shape != (n_rows,):
        raise ValuesError(
            f"`groups` must have one entry for each of {n_rows} rows; its shape is {named.shape}."
        )
    return named


def unknown_labels(truth: NDArray[Any], classes: NDArray[Any]) -> dict[Any, int]:
    """Count the rows of each label that is not a class of a model."""
    labels, counts = np.unique(truth, return_counts=True)
    known = set(classes.tolist())
    pairs = zip(labels.tolist(), counts.tolist(), strict=True)
    return {label: count for label, count in pairs if label not in known}


def describe_unknown(unknown: dict[Any, int], classes: Iterable[Any]) -> str:
    """List unknown labels with their number of rows, and the class that the first resembles."""
    parts = [f"{label!r} ({count:,} rows)" for label, count in list(unknown.items())[:4]]
    more = [] if len(unknown) <= 4 else [f"{len(unknown) - 4} more"]
    return ", ".join([*parts, *more]) + nearest_class(next(iter(unknown)), classes)


def refuse_other_kind(truth: Iterable[Any], decided: Iterable[Any]) -> None:
    """Refuse text as the truth of decisions that are numbers, and the other way round."""
    true, known = list(truth), list(decided)
    texts, others = ({isinstance(one, str) for one in labels} for labels in (true, known))
    if not true or not known or texts & others:
        return
    raise ClassesError(
        f"`y` must hold labels of the type that decisions hold; it holds {kind_of_label(true[0])} "
        f"({true[0]!r}), and decisions hold {kind_of_label(known[0])} ({known[0]!r}), so no row "
        "would be right; convert one of them."
    )


def warn_similar(truth: Iterable[Any], decided: Iterable[Any]) -> None:
    """Warn of a label that is no decided one, but would be with other letters or as a number."""
    decided = list(decided)
    spelled = {_spelled(label): label for label in decided}
    for label in set(truth) - set(decided):
        if _spelled(label) in spelled:
            warn(
                f"`y` holds {label!r}, and decisions hold {spelled[_spelled(label)]!r}: these "
                "count as different classes, so no such row is right.",
                LabelsWarning,
            )


def _spelled(label: Any) -> str:
    return str(label).strip().casefold()


def _read(raw: Any, what: str) -> Any:
    """Check one value per row, and return them as numpy or scikit-learn can take them."""
    if isinstance(raw, np.ma.MaskedArray):
        _refuse(raw.mask, what, "it is masked")
        return raw
    nullable = getattr(getattr(raw, "dtype", None), "numpy_dtype", None)  # of Int64, boolean, ...
    if nullable is not None and hasattr(raw, "isna"):
        _refuse(raw.isna().to_numpy(), what, "it is missing")
        return raw.to_numpy(dtype=nullable)
    try:
        # A list with texts would be an array of texts, and a missing value the text 'nan'.
        kind = object if isinstance(raw, list | tuple) else None
        values = np.asarray(raw, dtype=kind)
    except ValueError:  # such as lists of different lengths, which scikit-learn refuses
        return raw
    if values.ndim == 2 and values.shape[1] == 1:  # scikit-learn takes a column, with a warning
        values = values[:, 0]
    if values.ndim != 1:
        return raw
    if values.dtype.kind == "f":
        _refuse(np.isnan(values), what, "it is NaN")
    elif values.dtype.kind in "mM":
        _refuse(np.isnat(values), what, "it is NaT")
    elif values.dtype.kind == "O":
        listed = values.tolist()
        _refuse(np.array([is_missing(value) for value in listed], bool), what, "it is missing")
        texts = [isinstance(value, str) for value in listed]
        if any(texts) and not all(texts):
            row = texts.index(not texts[0])
            raise ValuesError(
                f"Row 0 has the {what} {listed[0]!r} and row {row} has {listed[row]!r}; use either "
                "text or numbers.",
                row=row,
            )
    return raw


def _refuse(missing: Any, what: str, why: str) -> None:
    if np.any(missing):
        row = int(np.argmax(missing))
        raise ValuesError(f"Row {row} has no {what}: {why}; leave the row out.", row=row)
