"""How columns are encoded, in a file: numbers in its JSON, and the weights of text as arrays."""

from __future__ import annotations

from math import inf, isfinite

import numpy as np

from emsco.exceptions import ArtifactError
from emsco.io._core_values import Data, expect, expect_keys, values_of
from emsco.io._json import from_plain, to_plain
from emsco.io._members import MemberReader, MemberWriter
from emsco.rows.columns import is_level
from emsco.rows.encoding import Category, ColumnEncoding, Number
from emsco.rows.hashed_text import N_BUCKETS, digest_of_hashing, refuse_other_hashing
from emsco.rows.text_encoding import Text

_TEXT_ARRAYS = ("buckets", "weights", "intercepts", "centre", "scale")


def encoding_to(writer: MemberWriter, encoding: ColumnEncoding, name: str) -> Data:
    """Store how a column is encoded."""
    if isinstance(encoding, Number):
        numbers = {"centre": encoding.centre, "scale": encoding.scale, "median": encoding.median}
        return {key: None if value is None else float(value) for key, value in numbers.items()}
    if isinstance(encoding, Text):
        arrays = {key: writer.array(getattr(encoding, key)) for key in _TEXT_ARRAYS}
        return {"hashing": digest_of_hashing(), **arrays, "missing": encoding.missing_seen}
    levels = to_plain(list(encoding.levels), f"column {name!r}")
    return {"levels": levels, "pooled": encoding.pooled, "missing": encoding.missing_seen}


def encoding_from(reader: MemberReader, data: Data, n_classes: int) -> ColumnEncoding:
    """Read the encoding of a column back."""
    if "levels" in expect(data, dict):
        plain, pooled, missing = values_of(data, levels=list, pooled=bool, missing=bool)
        levels = tuple(from_plain(plain))
        if not all(map(is_level, levels)) or len(set(levels)) != len(levels):
            raise ArtifactError("it has a repeated or invalid category")
        return Category(levels, pooled, missing)
    if "hashing" in data:
        return _text_from(reader, data, 1 if n_classes == 2 else n_classes)
    centre, scale, median = values_of(data, centre=float, scale=float, median=object)
    number = Number(centre, scale, None if median is None else expect(median, float))
    if not 0 < number.scale < inf or not isfinite(number.centre):
        raise ArtifactError(
            f"it has a column with the scale {number.scale} and the centre {number.centre}"
        )
    return number


def _text_from(reader: MemberReader, data: Data, n_scores: int) -> Text:
    """Read the weights of hashed text back."""
    expect_keys(data, "hashing", *_TEXT_ARRAYS, "missing")
    refuse_other_hashing(expect(data["hashing"], str))
    buckets = reader.array(data["buckets"], None)
    weights = reader.array(data["weights"], n_scores, len(buckets))
    by_score = {name: reader.array(data[name], n_scores) for name in _TEXT_ARRAYS[2:]}
    of_types = weights.dtype == np.float32 and buckets.dtype == np.int32
    if not of_types or any(numbers.dtype != np.float64 for numbers in by_score.values()):
        raise ArtifactError("the weights of a text have another type of number")
    if not all(np.isfinite(numbers).all() for numbers in (weights, *by_score.values())):
        raise ArtifactError("the weights of a text must be finite numbers")
    if not (by_score["scale"] > 0).all():
        raise ArtifactError("the scores of a text must have a scale above 0")
    if (buckets[1:] <= buckets[:-1]).any():
        raise ArtifactError("the buckets of a text must be sorted, each once")
    if len(buckets) and not (0 <= buckets[0] <= buckets[-1] < N_BUCKETS):
        raise ArtifactError(f"the buckets of a text must be from 0 to {N_BUCKETS - 1}")
    return Text(buckets, weights, **by_score, missing_seen=expect(data["missing"], bool))
