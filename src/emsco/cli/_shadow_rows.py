"""The log of a cascade in shadow as a file of rows, which other commands take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from emsco.cli._errors import note
from emsco.exceptions import ArtifactError

if TYPE_CHECKING:
    import pyarrow as pa

    from emsco.serve.shadow_log import ShadowLog, ShadowRow

ANSWER, TRUTH = "_answer", "_truth"
_COLUMNS = {"_id": "id", "_key": "key", "_time": "time", "_model": "model", ANSWER: "answer",
            TRUTH: "truth"}  # fmt: skip


@contextmanager
def as_rows(
    path: Path, label: str | None = None, beside: Sequence[str] = tuple(_COLUMNS)
) -> Iterator[Path]:
    """Give a file of rows as it is, and the log of a cascade in shadow as a file of its own.

    The file is a copy, as the service may write on; it is deleted in the end. Beside the features,
    it has the columns `_id`, `_key` (an HMAC), `_time`, `_model`, `_answer` (of the final model)
    and `_truth` (the label that was sent).

    Parameters
    ----------
    path : path
        A file, or the folder of a log.
    label : str, default=None
        The column that rows must have. If it is `_truth`, rows without a label are left out.
    beside : sequence of str, default=all
        The columns to have beside the features.
    """
    if not path.is_dir():
        yield path
        return
    from pyarrow import parquet

    from emsco.cli._table_file import COPIES
    from emsco.serve.shadow_log import read_shadow_log

    log = read_shadow_log(path)
    rows: Sequence[ShadowRow] = log.rows
    if label == TRUTH:
        rows = [row for row in rows if row.truth is not None]
        if not rows:
            raise ArtifactError(f"No row of {path} has a label; send them to POST /v1/feedback.")
    note(_told(path, log, rows))
    with TemporaryDirectory(prefix=COPIES) as folder:
        copied = Path(folder) / f"{path.resolve().name}.parquet"
        parquet.write_table(_table(path, log, rows, beside), copied)
        yield copied


def _told(path: Path, log: ShadowLog, rows: Sequence[ShadowRow]) -> str:
    """Say which rows are taken, and which are left out and why."""
    left = {
        "could not be answered": log.failed,
        "were not decided in shadow": log.others,
        "have no label": len(log.rows) - len(rows),
    }
    others = [f"{n:,} {why}" for why, n in left.items() if n]
    told = f"Read: {len(rows):,} rows of {path}"
    return f"{told}; left out: {', '.join(others)}." if others else f"{told}."


def _table(
    path: Path, log: ShadowLog, rows: Sequence[ShadowRow], beside: Sequence[str]
) -> pa.Table:
    import pyarrow as pa

    features = log.features
    for name in features:
        if name in _COLUMNS:
            raise ArtifactError(f"A feature in {path} is called {name!r}, as a column of the log.")
    columns: dict[str, list[Any]] = {name: [row.values[name] for row in rows] for name in features}
    columns |= {name: [getattr(row, _COLUMNS[name]) for row in rows] for name in beside}
    return pa.table({name: _array(values) for name, values in columns.items()})


def _array(values: list[Any]) -> pa.Array:
    """Return values of one type as they are, and others as text."""
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if value is None else str(value) for value in values])
