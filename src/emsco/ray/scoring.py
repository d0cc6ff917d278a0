"""Scoring a data set on Ray: every piece of it becomes one file of decisions, exactly once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from emsco._utils.progress import tell
from emsco.arrow import decide_batches, decision_schema, is_url, open_dataset, parts_of
from emsco.cascade import decider_of
from emsco.cascade.fingerprint import fingerprint
from emsco.exceptions import ArtifactError, ValuesError
from emsco.ray.engine import RayEngine
from emsco.ray.output_folder import Folder
from emsco.ray.scoring_plan import Piece, plan, version_of
from emsco.rows.dataset_parts import check_names

FILE = "file"
_GROUP_ROWS = 2**17  # of a file of decisions
_DIFFERENT = ("row", "confidence")  # in every row: dictionaries take long and save nothing


@dataclass(frozen=True)
class ScoringResult:
    """What a run has decided, and what it found decided.

    Parameters
    ----------
    rows, files : int
        Rows that were decided, and files written for them.
    rows_before, files_before : int
        Rows that an earlier run had decided, and their files.
    accepted : int
        How many of `rows` were accepted.
    cost : float
        What `rows` cost in all.
    """

    rows: int
    files: int
    rows_before: int
    files_before: int
    accepted: int
    cost: float


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
    Scored
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
    check_names(dataset.schema, [*decider.columns_read, *keep])
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
