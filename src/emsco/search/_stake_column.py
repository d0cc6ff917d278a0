"""What is at stake on the rows of X: an array, or a column of X that is no feature by itself."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco.core.costs import Costs
from emsco.core.stakes import read_stake
from emsco.core.validation import read_costs
from emsco.exceptions import ColumnsError, ValuesError, nearest
from emsco.rows.columns import container_of
from emsco.rows.rows import pick

Stake = NDArray[np.float64] | None


def stake_of(X: Any, stake: Any) -> Stake:
    """Read stakes, given as an array or by the name of a column of X.

    Examples
    --------
    >>> import pandas as pd
    >>> from emsco.search._stake_column import stake_of
    >>> X = pd.DataFrame({"age": [30, 40], "amount": [900.0, 12.5]})
    >>> stake_of(X, "amount").tolist()
    [900.0, 12.5]
    """
    if stake is None:
        return None
    if not isinstance(stake, str):
        return read_stake(stake, X.shape[0] if hasattr(X, "shape") else len(X))
    if container_of(X) == "array":
        raise ColumnsError(
            f"stake={stake!r} names a column, so X must be a frame; or give the stakes as an array."
        )
    columns = [str(name) for name in X.columns]
    if stake not in columns:
        raise ColumnsError(f"X has no column {stake!r} for the stakes" + nearest(stake, columns))
    values = pick(X, [stake])[stake]
    try:
        return read_stake(np.ma.asarray(values) if np.ma.isMaskedArray(values) else values, len(X))
    except ValuesError as error:
        raise ValuesError(
            f"Column {stake!r} cannot be stakes. {error}", row=error.row, column=stake
        ) from error


def without_stake(X: Any, stake: Any, features: Any) -> Any:
    """Leave the column of stakes out of X, unless it is among these features."""
    if not isinstance(stake, str) or container_of(X) == "array" or stake in features:
        return X
    return X.drop(columns=[stake]) if container_of(X) == "pandas" else X.drop(stake)


def priced_columns(costs: Any, names: list[str]) -> list[str]:
    """Return the columns that `costs` price by name; without names, all if there are as many."""
    if isinstance(costs, str | PathLike):
        costs = read_costs(costs)
    if isinstance(costs, Costs):
        return list(costs.features)
    if isinstance(costs, Mapping):
        return list(costs)
    return names if costs is not None and len(costs) == len(names) else []
