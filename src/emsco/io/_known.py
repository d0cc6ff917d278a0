"""Which rows a model knows, in its file: 64-bit hashes of them, never a value."""

from __future__ import annotations

from typing import Any

import numpy as np

from emsco._rows import FittedRows, Hashes, Spent
from emsco.exceptions import ArtifactError
from emsco.io._bundle import Reader, Writer
from emsco.io._words import Data, expect, expect_keys, expect_texts


def known_to(writer: Writer, rows: FittedRows) -> Data:
    """Keep the rows that a model was fitted on, in no order, and those it was certified on."""
    spent = [
        _hashed_to(writer, one) | {"question": one.question, "share": one.share}
        for one in rows.spent
    ]
    return _hashed_to(writer, rows) | {"spent": spent}


def known_from(reader: Reader, data: Any) -> FittedRows:
    """Give them back."""
    expect_keys(data, "names", "values", "keys", "spent")
    spent = []
    for one in expect(data["spent"], list):
        expect_keys(one, "names", "values", "keys", "question", "share")
        names, values, keys = _hashed_from(reader, one)
        question, share = expect(one["question"], str), expect(one["share"], float)
        if values is None or not 0 < share <= 1:
            raise ArtifactError("it was certified on rows that cannot be")
        spent.append(Spent(names, values, keys, question, share))
    return FittedRows(*_hashed_from(reader, data), spent)


def _hashed_to(writer: Writer, rows: FittedRows | Spent) -> Data:
    return {
        "names": list(rows.names),
        "values": None if rows.values is None else writer.array(np.sort(rows.values)),
        "keys": None if rows.keys is None else writer.array(np.sort(rows.keys)),
    }


def _hashed_from(
    reader: Reader, data: Data
) -> tuple[tuple[str, ...], Hashes | None, Hashes | None]:
    found = []
    for name in ("values", "keys"):
        hashes = None if data[name] is None else reader.array(data[name], None)
        if hashes is not None and (hashes.dtype != np.uint64 or not len(hashes)):
            raise ArtifactError("the hashes of its rows are none")
        found.append(hashes)
    return tuple(expect_texts(data["names"])), found[0], found[1]
