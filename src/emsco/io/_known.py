"""The rows that a model was fitted or certified on, in its file: as 64-bit hashes, never values."""

from __future__ import annotations

from typing import Any

import numpy as np

from emsco.exceptions import ArtifactError
from emsco.io._bundle import Reader, Writer
from emsco.io._words import Data, expect, expect_keys, expect_texts
from emsco.rows.hashes import CELLS, Hashes
from emsco.rows.known import FittedRows, HashedRows, View
from emsco.rows.ledger import Entry, ledger_of


def known_to(writer: Writer, fitted: FittedRows) -> Data:
    """Store hashes of the rows that a model was fitted on, without their order, and its ledger.

    If the writer leaves rows out, no hash is stored.
    """
    rows = writer.rows
    asked: tuple[Entry, ...] = ()
    if rows and fitted.digest:
        ledger = ledger_of(fitted.digest)
        ledger.refresh()
        asked = ledger.entries
    return {
        "digest": fitted.digest,
        "names": list(fitted.names),
        "spreads": dict(fitted.spreads),
        "sets": [list(names) for names in fitted.sets],
        "rows": None if fitted.rows is None or not rows else _rows_to(writer, fitted.rows),
        "asked": [_entry_to(writer, entry) for entry in asked],
    }


def known_from(reader: Reader, data: Any) -> FittedRows:
    """Read them back, and add the stored entries to the ledger of this process."""
    if "values" in expect(data, dict):
        return _older(reader, data)
    expect_keys(data, "digest", "names", "spreads", "sets", "rows", "asked")
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
    )
    entries = [_entry_from(reader, entry) for entry in expect(data["asked"], list)]
    if fitted.digest:
        ledger_of(fitted.digest).add(entries)
    elif entries:
        raise ArtifactError("it has entries of a ledger, but not the digest of their model")
    return fitted


def _older(reader: Reader, data: Data) -> FittedRows:
    """Skip hashes of an earlier kind, which are no longer compared."""
    expect_keys(data, "names", "values", "keys", "spent")
    for one in (data, *(expect(spent, dict) for spent in expect(data["spent"], list))):
        for name in ("values", "keys"):
            if one.get(name) is not None:
                reader.array(one[name], None)
    return FittedRows()


def _entry_to(writer: Writer, entry: Entry) -> Data:
    return {
        "question": entry.question,
        "share": entry.share,
        "candidates": entry.candidates,
        "number": entry.number,
        "rows": _rows_to(writer, entry.rows),
    }


def _entry_from(reader: Reader, data: Any) -> Entry:
    expect_keys(data, "question", "share", "candidates", "number", "rows")
    share, candidates = expect(data["share"], float), expect(data["candidates"], int)
    if not 0 <= share <= 1 or candidates < 0:
        raise ArtifactError("an entry of its ledger is not valid")
    rows = _rows_from(reader, data["rows"])
    question, number = expect(data["question"], str), expect(data["number"], str)
    return Entry(question, share, candidates, rows, number)


def _rows_to(writer: Writer, rows: HashedRows) -> Data:
    ordered = rows.in_no_order()
    return {
        "keys": None if ordered.keys is None else writer.array(ordered.keys),
        "views": [
            {"columns": view.columns, "hashes": [writer.array(h) for h in view.hashes]}
            for view in ordered.views
        ],
    }


def _rows_from(reader: Reader, data: Any) -> HashedRows:
    expect_keys(data, "keys", "views")
    views = []
    for view in expect(data["views"], list):
        expect_keys(view, "columns", "hashes")
        hashes = tuple(_hashes(reader, name) for name in expect(view["hashes"], list))
        if len(hashes) != 1 + len(CELLS) or len({len(h) for h in hashes}) != 1:
            raise ArtifactError("the numbers of hashes of its rows do not match")
        views.append(View(expect(view["columns"], str), hashes))
    if len({len(view.hashes[0]) for view in views}) > 1:
        raise ArtifactError("the numbers of hashes of its rows do not match")
    return HashedRows(tuple(views), None if data["keys"] is None else _hashes(reader, data["keys"]))


def _hashes(reader: Reader, name: Any) -> Hashes:
    hashes = reader.array(name, None)
    if hashes.dtype != np.uint64 or not len(hashes):
        raise ArtifactError("the hashes of its rows are missing or not valid")
    return hashes
