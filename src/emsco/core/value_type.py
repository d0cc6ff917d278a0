"""What a column holds, if its costs say so: text, numbers, categories, dates, or nothing to use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from emsco._utils.frozen_mapping import FrozenMapping
from emsco.exceptions import CostsError, nearest

TEXT_TYPE = "text"
NUMBER_TYPE = "number"
CATEGORY_TYPE = "category"
DATE_TYPE = "date"
SKIP = "skip"
TYPES = (TEXT_TYPE, NUMBER_TYPE, CATEGORY_TYPE, DATE_TYPE)


def check_types(
    value: str | Mapping[str, str] | None, features: Sequence[str], source: str
) -> str | FrozenMapping[str, str] | None:
    """Check the type of a source: one for all of its features, or one for each of some."""
    if value is None:
        return None
    by_feature = {source: value} if isinstance(value, str) else value
    if not isinstance(by_feature, Mapping):
        raise CostsError(f"The type of source {source!r} must be text, got {value!r}.")
    for feature, kind in by_feature.items():
        if kind not in TYPES:
            more = (
                "; to leave a column out, use it in a file, or `skipped` of `Costs`."
                if kind == SKIP
                else nearest(str(kind), [*TYPES, SKIP])
            )
            raise CostsError(
                f"The type of {feature!r} must be one of {', '.join(TYPES)}, got {kind!r}{more}"
            )
        if not isinstance(value, str) and feature not in features:
            raise CostsError(
                f"Source {source!r} has a type for {feature!r}, which is none of its features"
                + nearest(feature, features)
            )
    return value if isinstance(value, str) else FrozenMapping(dict(value)) or None


def types_by_feature(
    value: str | Mapping[str, str] | None, features: Sequence[str]
) -> dict[str, str]:
    """Return the declared type of each feature that has one."""
    if value is None:
        return {}
    return dict.fromkeys(features, value) if isinstance(value, str) else dict(value)
