"""The table of what stages before a model save and change, and the report of a shadow log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emsco.cli._errors import note

if TYPE_CHECKING:
    from emsco.serve.shadow_log import ShadowLog, ShadowSavings

HEADER = "decisions left as they were  cost per row  of the bill  would have changed"
WIDTH = 27  # width of its first column
_SHORT = 12  # digits shown of a digest


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
    """Print what the cascade in a shadow log would have saved and changed.

    Parameters
    ----------
    folder : path
        The log.
    changed : path or None
        The file to write the decisions to that would have changed.
    as_json : bool
        Whether to print JSON.
    """
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
