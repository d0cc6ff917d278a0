"""The rows that a model was fitted or certified on, in its file: as 64-bit hashes, never values."""

from __future__ import annotations

from typing import Any

import numpy as np

from emsco.exceptions import ArtifactError
from emsco.io._core_values import Data, expect, expect_keys, expect_texts
from emsco.io._members import MemberReader, MemberWriter
from emsco.rows.fitted_rows import ColumnSetHashes, FittedRows, HashedRows
from emsco.rows.ledger import Entry, add_entries, ledger_of
from emsco.rows.row_hashes import CELLS, Hashes
from emsco.rows.row_sketch import Sketch, SmallestHashes


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
    expect_keys(data, "digest", "names", "spreads", "sets", "rows", "groups", "asked")
    names = tuple(expect_texts(data["names"]))
    sets = tuple(tuple(expect_texts(one)) for one in expect(data["sets"], list))
    spreads = expect(data["spreads"], dict)
    known = set(names)
    if not (spreads.keys() <= known and all(known.issuperset(one) for one in sets)):
        raise ArtifactError("its training rows have other columns")
    if not all(0 < expect(spread, float) < np.inf for spread in spreads.values()):
        raise ArtifactError("the spreads of its columns must be positive, finite numbers")
    fitted = FittedRows(
        expect(data["digest"], str),
        names,
        spreads,
        sets,
        None if data["rows"] is None else _rows_from(reader, data["rows"]),
        None if data["groups"] is None else _hashes(reader, data["groups"]),
    )
    entries = [_entry_from(reader, e, fitted.digest) for e in expect(data["asked"], list)]
    if fitted.digest:
        add_entries(entries)
    elif entries:
        raise ArtifactError("it has entries of a ledger, but not the digest of their model")
    return fitted


def _entry_to(writer: MemberWriter, entry: Entry) -> Data:
    return {
        "question": entry.question,
        "share": entry.share,
        "candidates": entry.candidates,
        "figures": entry.figures,
        "number": entry.number,
        "rows": _rows_to(writer, entry.rows),
        "sketch": {
            name: [writer.array(part.hashes), part.total, part.clump]
            for name, part in entry.sketch.parts.items()
        },
    }


def _entry_from(reader: MemberReader, data: Any, fitted: str) -> Entry:
    expect_keys(data, "question", "share", "candidates", "figures", "number", "rows", "sketch")
    share, candidates = expect(data["share"], float), expect(data["candidates"], int)
    figures = expect(data["figures"], int)
    if not 0 <= share <= 1 or candidates < 0 or figures < 1:
        raise ArtifactError("an entry of its ledger is not valid")
    rows, sketch = _rows_from(reader, data["rows"]), _sketch_from(reader, data["sketch"])
    question, number = expect(data["question"], str), expect(data["number"], str)
    return Entry(
        question, share, candidates, rows, number, fitted=fitted, sketch=sketch, figures=figures
    )


def _sketch_from(reader: MemberReader, data: Any) -> Sketch:
    parts = {}
    for name, part in expect(data, dict).items():
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
    expect_keys(data, "keys", "views")
    views = []
    for view in expect(data["views"], list):
        expect_keys(view, "columns", "hashes", "isolated")
        hashes = tuple(_hashes(reader, name) for name in expect(view["hashes"], list))
        if len(hashes) != 1 + len(CELLS) or len({len(h) for h in hashes}) != 1:
            raise ArtifactError("the numbers of hashes of its rows do not match")
        isolated = view["isolated"]
        if isolated is not None:
            isolated = reader.array(isolated, len(hashes[0]))
            if isolated.dtype != np.bool_:
                raise ArtifactError("it does not say which of its rows are isolated")
        views.append(ColumnSetHashes(expect(view["columns"], str), hashes, isolated))
    if len({len(view.hashes[0]) for view in views}) > 1:
        raise ArtifactError("the numbers of hashes of its rows do not match")
    return HashedRows(tuple(views), None if data["keys"] is None else _hashes(reader, data["keys"]))


def _hashes(reader: MemberReader, name: Any) -> Hashes:
    hashes = reader.array(name, None)
    if hashes.dtype != np.uint64 or not len(hashes):
        raise ArtifactError("the hashes of its rows are missing or not valid")
    return hashes
