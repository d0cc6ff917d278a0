"""Prices as people state them, matched with the columns of X."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np

from emsco.core.costs import Costs
from emsco.exceptions import ColumnsError, nearest, quoted, warn


def resolve_costs(
    costs: Costs | Mapping[str, float] | Sequence[float] | str | os.PathLike[str] | None,
    feature_names: Sequence[str],
) -> Costs:
    """Turn any of the ways to state costs into `Costs` that own columns of X, each once.

    A sequence matches the columns by position, everything else by name; None prices every feature
    at 1, and a path names a TOML file. Columns that nothing prices belong to no source: a warning
    names them.
    """
    if costs is None:
        return Costs.per_feature([1.0] * len(feature_names), feature_names)
    if isinstance(costs, str | os.PathLike):
        costs = Costs.from_toml(costs)
    elif not isinstance(costs, Costs | Mapping):
        return Costs.per_feature(np.asarray(costs).tolist(), feature_names)
    owned = list(costs) if isinstance(costs, Mapping) else costs.features
    yielded, known = set(owned), set(feature_names)
    lost = [feature for feature in owned if feature not in known]
    unowned = [name for name in feature_names if name not in yielded]
    if lost:
        raise ColumnsError(
            f"`costs` names {len(owned)} features but X has {len(feature_names)}; "
            f"not in X: {quoted(lost)}" + nearest(lost[0], unowned)
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
