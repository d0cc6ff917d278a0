"""Names for columns without names."""

from __future__ import annotations


def generated_names(n_features: int) -> list[str]:
    """Name columns that have no names, as scikit-learn does: x0, x1, ..."""
    return [f"x{i}" for i in range(n_features)]
