"""What a column holds, if its costs say so: text, numbers, categories, dates, or nothing to use.

The texts of the type "text" are names, such as codes, that are compared as a whole. A source of the
kind "text" has columns of long text, such as messages, whose words and characters count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from emsco._utils.frozen_mapping import FrozenMapping
from emsco.exceptions import CostsError, nearest

TEXT_TYPE = "text"
NUMBER_TYPE = "number"
CATEGORY_TYPE = "category"
DATE_TYPE = "date"
SKIP = "skip"
TYPES = (TEXT_TYPE, NUMBER_TYPE, CATEGORY_TYPE, DATE_TYPE)
LONG_TEXT = "long text"  # the type that the columns of a source of the kind "text" have
TEXT_KIND = "text"


def check_types(
    value: str | Mapping[str, str] | None, features: Sequence[str], source: str, kind: str | None
) -> str | FrozenMapping[str, str] | None:
    """Check the type of a source, one for all of its features or one for each of some; its kind."""
    if kind not in (None, TEXT_KIND):
        raise CostsError(f"The kind of source {source!r} must be {TEXT_KIND!r}, got {kind!r}.")
    if value is None:
        return None
    by_feature = {source: value} if isinstance(value, str) else value
    if not isinstance(by_feature, Mapping):
        raise CostsError(f"The type of source {source!r} must be text, got {value!r}.")
    for feature, own in by_feature.items():
        if own not in TYPES:
            more = (
                "; to leave a column out, use it in a file, or `skipped` of `Costs`."
                if own == SKIP
                else nearest(str(own), [*TYPES, SKIP])
            )
            raise CostsError(
                f"The type of {feature!r} must be one of {', '.join(TYPES)}, got {own!r}{more}"
            )
        if not isinstance(value, str) and feature not in features:
            raise CostsError(
                f"Source {source!r} has a type for {feature!r}, which is none of its features"
                + nearest(feature, features)
            )
    if kind is not None and (isinstance(value, str) or by_feature.keys() >= set(features)):
        raise CostsError(
            f"Source {source!r} has the kind {kind!r}, so its columns are long text, but `type` "
            "says of each of them that it is something else; leave `kind` or `type` out."
        )
    return value if isinstance(value, str) else FrozenMapping(dict(value)) or None


def types_by_feature(sources: Iterable[Any]) -> dict[str, str]:
    """Return the declared type of each feature of sources that has one."""
    found: dict[str, str] = {}
    for source in sources:
        if source.kind is not None:
            found |= dict.fromkeys(source.features, LONG_TEXT)
        if isinstance(source.type, str):
            found |= dict.fromkeys(source.features, source.type)
        elif source.type is not None:
            found |= source.type
    return found


def long_texts(types: Mapping[str, str]) -> list[str]:
    """Return the columns of long text.

    Examples
    --------
    >>> from emsco.core.value_type import long_texts
    >>> long_texts({"body": "long text", "zip": "text"})
    ['body']
    """
    return [name for name, kind in types.items() if kind == LONG_TEXT]
