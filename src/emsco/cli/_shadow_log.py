"""A shadow log: what the cascade in it saves and changes, and its rows as a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from emsco.cli._errors import note
from emsco.exceptions import ArtifactError

if TYPE_CHECKING:
    import pyarrow as pa

    from emsco.serve.shadow_log import ShadowLog, ShadowRow, ShadowSavings

HEADER = "decisions left as they were  cost per row  of the bill  would have changed"
WIDTH = 27  # width of its first column
_SHORT = 12  # digits shown of a digest
ANSWER, TRUTH = "_answer", "_truth"
_COLUMNS = {"_id": "id", "_key": "key", "_time": "time", "_model": "model", ANSWER: "answer",
            TRUTH: "truth"}  # fmt: skip


def line(share: str, cost: float, total: float, changed: int, n_rows: int) -> str:
    """Format a line of the table."""
    count = f"{changed:,} of {n_rows:,} ({changed / n_rows:.2%})"
    paid = cost / total if total else 1.0
    return f"{share.ljust(WIDTH)}{cost:>14,.4g}{paid:>13.1%}  {count}"


def turns(changed: Iterable[tuple[Any, Any]]) -> str:
    """Format how often each answer would have changed, and to what."""
    counted = Counter(changed)
    return ", ".join(f"{n} from {a!r} to {b!r}" for (a, b), n in counted.most_common())


def write_columns(path: Path, columns: dict[str, list[Any]]) -> None:
    """Write columns to a CSV or Parquet file."""
    import pyarrow as pa

    from emsco._utils.atomic_write import write_whole
    from emsco.cli._decision_stream import parts_for

    batch = pa.RecordBatch.from_pydict(columns)
    write_whole(path, parts_for(path)(batch.schema, [batch]))


def print_shadow(folder: Path, changed: Path | None, *, as_json: bool) -> None:
    """Print what the cascade in a shadow log would have saved and changed."""
    from emsco.cli._print import print_json, print_text
    from emsco.serve.shadow_log import read_shadow_log

    log = read_shadow_log(folder)
    found = log.summaries()
    if as_json:
        print_json(_data(log, found))
    else:
        print_text("\n".join(_lines(folder, log, found)))
    if changed is not None:
        rows = [row for one in found for row in one.changed]
        columns = {
            "id": [row.id for row in rows],
            "before": [row.answer for row in rows],
            "after": [row.would_be["label"] for row in rows],
        }
        write_columns(changed, columns)
        note(f"Written: {changed}, with the {len(rows)} decisions that would have changed.")


def _lines(folder: Path, log: ShadowLog, found: list[ShadowSavings]) -> list[str]:
    """Format savings as text."""
    lines = []
    for one in found:
        share = f"{1 - len(one.changed) / one.rows:.2%}"
        lines += [
            f"Your model answered {one.rows:,} rows for {one.paid:,.4g} per row, with the cascade "
            f"{one.model[:_SHORT]} in shadow:",
            "",
            HEADER,
            line(share, one.cost, one.paid, len(one.changed), one.rows),
            "",
            _sentence(one),
            "",
        ]
    if log.failed:
        lines.append(f"{log.failed:,} more rows could not be answered and are left out.")
    if log.others:
        lines.append(f"{log.others:,} more rows were not decided in shadow and are left out.")
    lines.append(
        "These figures describe past rows; they promise nothing. To certify the agreement you "
        f"need: emsco certify MODEL {folder} --agreement SHARE --groups _key"
    )
    return lines


def _sentence(one: ShadowSavings) -> str:
    sentence = f"{one.early:.1%} of rows would never have reached your model. "
    changed = [(row.answer, row.would_be["label"]) for row in one.changed]
    sentence += f"Changed: {turns(changed)}." if changed else "No decision would have changed."
    if one.labelled:
        sentence += (
            f" Of {one.labelled:,} rows with a label, your model was right about "
            f"{one.right / one.labelled:.2%}, and the cascade would have been right about "
            f"{one.would_be_right / one.labelled:.2%}."
        )
    return sentence


def _data(log: ShadowLog, found: list[ShadowSavings]) -> dict[str, Any]:
    """Return savings as JSON data."""
    return {
        "failed": log.failed,
        "not_in_shadow": log.others,
        "cascades": [
            {
                "model": one.model,
                "rows": one.rows,
                "total_cost": one.paid,
                "cost": one.cost,
                "early": one.early,
                "changed": [row.id for row in one.changed],
                "labelled": one.labelled,
                "right": one.right,
                "would_be_right": one.would_be_right,
            }
            for one in found
        ],
    }


@contextmanager
def as_rows(
    path: Path, label: str | None = None, beside: Sequence[str] = tuple(_COLUMNS)
) -> Iterator[Path]:
    """Yield a file of rows unchanged, and a shadow log as a temporary file of rows.

    The log is copied, because the service may still append to it. Beside the features, the file has
    the columns `_id`, `_key` (an HMAC), `_time`, `_model`, `_answer` (of the final model) and
    `_truth` (the label that was sent). If `label` is `_truth`, rows without a label are left out.
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
    left = {
        "could not be answered": log.failed,
        "were not decided in shadow": log.others,
        "have no label": len(log.rows) - len(rows),
    }
    others = ", ".join(f"{n:,} {why}" for why, n in left.items() if n)
    note(f"Read: {len(rows):,} rows of {path}{others and f'; left out: {others}'}.")
    with TemporaryDirectory(prefix=COPIES) as folder:
        copied = Path(folder) / f"{path.resolve().name}.parquet"
        parquet.write_table(_table(path, log, rows, beside), copied)
        yield copied


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
