"""The rows that a model was fitted or certified on, in its file: as 64-bit hashes, never values."""

from __future__ import annotations

from typing import Any

import numpy as np

from emsco.exceptions import ArtifactError
from emsco.io._core_values import Data, expect, expect_texts, values_of
from emsco.io._members import MemberReader, MemberWriter
from emsco.rows.fitted_rows import ColumnSetHashes, FittedRows, HashedRows
from emsco.rows.ledger import Entry, add_entries, ledger_of
from emsco.rows.row_hashes import CELLS, Hashes
from emsco.rows.row_sketch import Sketch, SmallestHashes

# What an entry of the ledger holds besides its rows, in the order of its JSON.
_ENTRY = {"question": str, "share": float, "candidates": int, "figures": int, "number": str}


def known_to(writer: MemberWriter, fitted: FittedRows) -> Data:
    """Store hashes of the rows that a model was fitted on, without their order, and its ledger.

    If the writer leaves rows out, no hash is stored.
    """
    rows = writer.rows
    entries: tuple[Entry, ...] = ()
    if rows and fitted.digest:
        ledger = ledger_of(fitted.digest)
        ledger.refresh()
        entries = tuple(entry for entry in ledger.entries if entry.fitted == fitted.digest)
    return {
        "digest": fitted.digest,
        "names": list(fitted.names),
        "spreads": dict(fitted.spreads),
        "sets": [list(names) for names in fitted.sets],
        "rows": None if fitted.rows is None or not rows else _rows_to(writer, fitted.rows),
        "groups": None if fitted.groups is None or not rows else writer.array(fitted.groups),
        "asked": [_entry_to(writer, entry) for entry in entries],
    }


def known_from(reader: MemberReader, data: Any) -> FittedRows:
    """Read them back, and add the stored entries to the ledger of this process."""
    digest, names, spreads, sets, rows, groups, stored = values_of(
        data, digest=str, names=list, spreads=dict, sets=list, rows=object, groups=object,
        asked=list,
    )  # fmt: skip
    known, sets = set(expect_texts(names)), tuple(tuple(expect_texts(one)) for one in sets)
    if not (spreads.keys() <= known and all(known.issuperset(one) for one in sets)):
        raise ArtifactError("its training rows have other columns")
    if not all(0 < expect(spread, float) < np.inf for spread in spreads.values()):
        raise ArtifactError("the spreads of its columns must be positive, finite numbers")
    rows = None if rows is None else _rows_from(reader, rows)
    groups = None if groups is None else _hashes(reader, groups)
    fitted = FittedRows(digest, tuple(names), spreads, sets, rows, groups)
    entries = [_entry_from(reader, entry, digest) for entry in stored]
    if digest:
        add_entries(entries)
    elif entries:
        raise ArtifactError("it has entries of a ledger, but not the digest of their model")
    return fitted


def _entry_to(writer: MemberWriter, entry: Entry) -> Data:
    return {name: getattr(entry, name) for name in _ENTRY} | {
        "rows": _rows_to(writer, entry.rows),
        "sketch": {
            name: [writer.array(part.hashes), part.total, part.clump]
            for name, part in entry.sketch.parts.items()
        },
    }


def _entry_from(reader: MemberReader, data: Any, fitted: str) -> Entry:
    *values, rows, sketch = values_of(data, **_ENTRY, rows=object, sketch=dict)
    entry = dict(zip(_ENTRY, values, strict=True))
    if not 0 <= entry["share"] <= 1 or entry["candidates"] < 0 or entry["figures"] < 1:
        raise ArtifactError("an entry of its ledger is not valid")
    rows, sketch = _rows_from(reader, rows), _sketch_from(reader, sketch)
    return Entry(rows=rows, sketch=sketch, fitted=fitted, **entry)


def _sketch_from(reader: MemberReader, data: Any) -> Sketch:
    parts = {}
    for name, part in data.items():
        if len(expect(part, list)) != 3:
            raise ArtifactError("a sketch of its rows is not valid")
        hashes = _hashes(reader, part[0])
        total, clump = expect(part[1], int), expect(part[2], int)
        if total < len(hashes) or clump < 1:
            raise ArtifactError("a sketch of its rows is not valid")
        parts[name] = SmallestHashes(hashes, total, clump)
    return Sketch(parts)


def _rows_to(writer: MemberWriter, rows: HashedRows) -> Data:
    ordered = rows.in_no_order()
    return {
        "keys": None if ordered.keys is None else writer.array(ordered.keys),
        "views": [
            {
                "columns": view.columns,
                "hashes": [writer.array(h) for h in view.hashes],
                "isolated": None if view.isolated is None else writer.array(view.isolated),
            }
            for view in ordered.views
        ],
    }


def _rows_from(reader: MemberReader, data: Any) -> HashedRows:
    keys, stored = values_of(data, keys=object, views=list)
    views = []
    for view in stored:
        columns, names, isolated = values_of(view, columns=str, hashes=list, isolated=object)
        hashes = tuple(_hashes(reader, name) for name in names)
        if len(hashes) != 1 + len(CELLS) or len({len(h) for h in hashes}) != 1:
            raise ArtifactError("the numbers of hashes of its rows do not match")
        if isolated is not None:
            isolated = reader.array(isolated, len(hashes[0]))
            if isolated.dtype != np.bool_:
                raise ArtifactError("it does not say which of its rows are isolated")
        views.append(ColumnSetHashes(columns, hashes, isolated))
    if len({len(view.hashes[0]) for view in views}) > 1:
        raise ArtifactError("the numbers of hashes of its rows do not match")
    return HashedRows(tuple(views), None if keys is None else _hashes(reader, keys))


def _hashes(reader: MemberReader, name: Any) -> Hashes:
    hashes = reader.array(name, None)
    if hashes.dtype != np.uint64 or not len(hashes):
        raise ArtifactError("the hashes of its rows are missing or not valid")
    return hashes
