"""Scoring a data set on Ray: every piece of it becomes one file of decisions, exactly once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from pyarrow.fs import LocalFileSystem

from emsco._utils.progress import tell
from emsco.arrow import (
    DatasetPart,
    decide_batches,
    decision_schema,
    is_url,
    open_dataset,
    parts_of,
)
from emsco.cascade import decider_of
from emsco.cascade.fingerprint import fingerprint
from emsco.exceptions import ArtifactError, ValuesError
from emsco.ray.engine import RayEngine
from emsco.ray.output_folder import Folder
from emsco.rows.dataset_parts import check_names

FILE = "file"
ROWS = 2**20  # of a piece, unless a row group has more: about a second of work
_FORMAT = "emsco part 1"  # another where the same rows would be written otherwise
_GROUP_ROWS = 2**17  # of a file of decisions
_DIFFERENT = ("row", "confidence")  # in every row: dictionaries take long and save nothing


@dataclass(frozen=True)
class ScoringResult:
    """What a run has decided, and what it found decided."""

    rows: int  # that were decided
    files: int  # written for them
    rows_before: int  # that an earlier run had decided
    files_before: int
    accepted: int  # of `rows`
    cost: float  # of `rows` in all


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


@dataclass(frozen=True)
class _Order:
    """What every worker needs to know."""

    decider: Any
    folder: Folder
    keep: tuple[str, ...]


def decide_dataset(
    cascade: Any,
    dataset: Any,
    out: str | os.PathLike[str],
    *,
    keep: Sequence[str] = (),
    engine: RayEngine | None = None,
    force: bool = False,
) -> ScoringResult:
    """Decide all rows of a data set on a Ray cluster, and write the decisions to a folder.

    Row groups of the input are decided by the workers, stage by stage: columns of later stages are
    read only for row groups with undecided rows. A worker holds one row group in memory, and the
    decisions on about a million rows.

    Every file of decisions is written whole, under a name made of the input file, its etag (or
    else its size and time), its rows and the digest of the model. So a run that died is continued
    by the same call, which decides only what is missing; no row is written twice.

    Parameters
    ----------
    cascade : CascadeClassifier, CascadeSearchCV or Decider
        What decides.
    dataset : pyarrow.dataset.Dataset, str or path
        The rows: a data set of files, or what `emsco.arrow.open_dataset` takes. All nodes must be
        able to read it.
    out : str or path
        The folder to write: a path that all nodes share, or a URL such as `s3://...`, as
        `emsco.arrow.open_dataset` takes it. It is made if necessary.
    keep : sequence of str, default=()
        Columns of the input to copy to the front of each decision. Without any, decisions begin
        with `file`, the path of the input file, and `row`, the number of the row in it.
    engine : RayEngine, default=None
        What runs it. None: a cluster on this machine, for this call.
    force : bool, default=False
        Whether to delete decisions in the folder that are not of this input and model. By default
        such a folder is refused.

    Returns
    -------
    ScoringResult
        How many rows were decided, and how many had been before.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa, pyarrow.dataset, pyarrow.parquet
    >>> from sklearn.datasets import load_iris
    >>> from emsco import CascadeClassifier
    >>> from emsco.ray import RayEngine, decide_dataset
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> cascade = CascadeClassifier().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:  # doctest: +SKIP
    ...     pa.parquet.write_table(pa.Table.from_pandas(X), f"{folder}/iris.parquet")
    ...     with RayEngine(n_jobs=1) as engine:
    ...         scored = decide_dataset(
    ...             cascade, f"{folder}/iris.parquet", f"{folder}/decided", engine=engine
    ...         )
    ...     decided = pa.dataset.dataset(f"{folder}/decided").to_table()
    >>> scored.rows, decided.column_names[:3]  # doctest: +SKIP
    (150, ['file', 'row', 'label'])
    """
    if isinstance(dataset, str | os.PathLike):
        # Workers have other working folders.
        dataset = open_dataset(dataset if is_url(dataset) else os.path.abspath(dataset))
    decider = decider_of(cascade)
    keep = tuple(dict.fromkeys(keep))
    check_names(dataset.schema.names, [*decider.columns_read, *keep])
    decision_schema(decider, dataset.schema, keep=keep)  # refuses what cannot be kept
    pieces = plan(parts_of(dataset), fingerprint(decider), keep)
    folder = Folder.make(out)
    folder.refuse_inside(piece.path for piece in pieces)
    names = {piece.name for piece in pieces}
    folder.refuse_others(names, force=force)
    there = folder.names()
    missing = [piece for piece in pieces if piece.name not in there]
    counted = [(0, 0, 0.0)]
    if missing:
        with RayEngine() if engine is None else nullcontext(engine) as running:
            order = _Order(decider, folder, keep)
            for _, counts in running.as_finished(_score, missing, shared=order):
                counted.append(counts)
                tell("decide rows", (len(counted) - 1) / len(missing))
        folder.remove_drafts(names)
    rows, accepted, cost = (sum(column) for column in zip(*counted, strict=True))
    return ScoringResult(
        rows=int(rows),
        files=len(missing),
        rows_before=sum(piece.n_rows for piece in pieces) - int(rows),
        files_before=len(pieces) - len(missing),
        accepted=int(accepted),
        cost=float(cost),
    )


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


def _score(piece: Piece, order: _Order) -> tuple[int, int, float]:
    """Decide a piece and write it; return its rows, how many were accepted, and the cost."""
    batches: list[pa.RecordBatch] = []
    row = piece.first_row
    try:
        for part in piece.parts:
            batches += decide_batches(order.decider, part, keep=order.keep, first_row=row)
            row += part.n_rows
    except ValuesError as error:
        message = f"{piece.path}: {error}"
        raise ValuesError(message, row=error.row, column=error.column) from error
    if version_of(piece.parts[0]) != piece.version:
        raise ArtifactError(
            f"{piece.path} was changed while it was read; run the command again when it is at rest."
        )
    table = pa.Table.from_batches(batches)
    counts = table.num_rows, pc.sum(table["accepted"]).as_py(), pc.sum(table["cost"]).as_py()
    if not order.keep:
        numbers = np.arange(piece.first_row, piece.first_row + table.num_rows)
        table = table.add_column(0, "row", pa.array(numbers))
        table = table.add_column(0, FILE, pa.repeat(piece.path, table.num_rows))
    few = [name for name in table.column_names if name not in (*_DIFFERENT, *order.keep)]
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(table, sink, row_group_size=_GROUP_ROWS, use_dictionary=few)
    order.folder.write(piece.name, sink.getvalue())
    return counts
