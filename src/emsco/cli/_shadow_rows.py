"""A shadow log as a file of rows, for other commands."""

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
    """Yield a file of rows unchanged, and a shadow log as a temporary file of rows.

    The log is copied, because the service may still append to it. Beside the features, the file has
    the columns `_id`, `_key` (an HMAC), `_time`, `_model`, `_answer` (of the final model) and
    `_truth` (the label that was sent).

    Parameters
    ----------
    path : path
        A file, or the folder of a log.
    label : str, default=None
        The column that rows must have. If it is `_truth`, rows without a label are left out.
    beside : sequence of str, default=all
        The columns to add to the features.
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
    note(_summary(path, log, rows))
    with TemporaryDirectory(prefix=COPIES) as folder:
        copied = Path(folder) / f"{path.resolve().name}.parquet"
        parquet.write_table(_table(path, log, rows, beside), copied)
        yield copied


def _summary(path: Path, log: ShadowLog, rows: Sequence[ShadowRow]) -> str:
    """Format how many rows are read, and how many are left out and why."""
    left = {
        "could not be answered": log.failed,
        "were not decided in shadow": log.others,
        "have no label": len(log.rows) - len(rows),
    }
    others = [f"{n:,} {why}" for why, n in left.items() if n]
    message = f"Read: {len(rows):,} rows of {path}"
    return f"{message}; left out: {', '.join(others)}." if others else f"{message}."


def _table(
    path: Path, log: ShadowLog, rows: Sequence[ShadowRow], beside: Sequence[str]
) -> pa.Table:
    import pyarrow as pa

    features = log.features
    for name in features:
        if name in _COLUMNS:
            raise ArtifactError(
                f"A feature in {path} must not be called {name!r}, like a column of the log."
            )
    columns: dict[str, list[Any]] = {name: [row.values[name] for row in rows] for name in features}
    columns |= {name: [getattr(row, _COLUMNS[name]) for row in rows] for name in beside}
    return pa.table({name: _array(values) for name, values in columns.items()})


def _array(values: list[Any]) -> pa.Array:
    """Return values of one type unchanged, and mixed values as text."""
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if value is None else str(value) for value in values])
