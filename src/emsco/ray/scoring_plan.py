"""What is to be scored: parts of input files, each with the name of the file that it becomes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from pathlib import PurePosixPath
from typing import Any

from pyarrow.fs import LocalFileSystem

from emsco.arrow import DatasetPart
from emsco.exceptions import ArtifactError

ROWS = 2**20  # of a part, unless a row group has more: about a second of work
_FORMAT = "emsco part 1"  # another where the same rows would be written otherwise


@dataclass(frozen=True)
class Piece:
    """Consecutive row groups of one input file that become one file of decisions.

    `version` tells the state of the input file, and `first_row` counts within it.
    """

    parts: tuple[DatasetPart, ...]
    version: str
    first_row: int
    name: str

    @property
    def path(self) -> str:
        """The input file."""
        return self.parts[0].path

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return sum(part.n_rows for part in self.parts)


def plan(parts: Sequence[DatasetPart], digest: str, keep: Sequence[str]) -> list[Piece]:
    """Divide parts of a data set into pieces.

    A piece is named by its input file, the version of that file, its rows, the digest of the model
    and the columns kept: whoever plans again, now or later, gets the same name for the same work.
    """
    pieces = []
    for path, own in groupby(parts, key=lambda part: part.path):
        inside = list(own)
        version = version_of(inside[0])
        start = inside[0].first_row
        for some in _gathered(inside):
            first_row = some[0].first_row - start
            n_rows = sum(part.n_rows for part in some)
            identity = (_FORMAT, path, version, str(first_row), str(n_rows), digest, *keep)
            hashed = sha256("\0".join(identity).encode()).hexdigest()[:16]
            stem = PurePosixPath(path).stem[:80]
            name = f"{stem}-{first_row:012d}-{n_rows}-{hashed}.parquet"
            pieces.append(Piece(tuple(some), version, first_row, name))
    return pieces


def version_of(part: DatasetPart) -> str:
    """Tell the state of an input file: by its etag if the store has one, else by size and time."""
    if not part.path:
        raise ArtifactError(
            "Rows in memory are scored by `cascade.decide` or `emsco.arrow.decide_batches`; "
            "`decide_dataset` takes files."
        )
    system = part.fragment.filesystem
    if isinstance(system, LocalFileSystem) and not os.path.isabs(part.path):
        raise ArtifactError(
            f"{part.path} is a relative path, which workers with other working folders cannot "
            "find; open the data set by an absolute one."
        )
    try:
        with system.open_input_stream(part.path) as stream:
            metadata: dict[Any, Any] = stream.metadata() or {}
        for name, value in metadata.items():
            if _text(name).lower() == "etag":
                return f"etag {_text(value)}"
        info = system.get_file_info(part.path)
    except OSError as error:
        raise ArtifactError(f"{part.path} cannot be read: {error}.") from error
    return f"size {info.size} time {info.mtime_ns}"


def _gathered(parts: Sequence[DatasetPart]) -> Iterator[list[DatasetPart]]:
    """Gather consecutive row groups until they have enough rows."""
    held: list[DatasetPart] = []
    for part in parts:
        held.append(part)
        if sum(one.n_rows for one in held) >= ROWS:
            yield held
            held = []
    if held:
        yield held


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
