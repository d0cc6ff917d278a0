"""Held-out rows of a log: what can be checked of their conditions, and what cannot is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from emsco._utils.missing_values import is_missing
from emsco.batch.batch_labels import CHECKED, FAILED, BatchLabels, check_length
from emsco.batch.cheap_answers import CheapAnswers
from emsco.batch.row_marks import RowMarks
from emsco.exceptions import BatchError
from emsco.rows.columns import Columns, listed
from emsco.rows.fitted_rows import FittedRows, compare
from emsco.rows.rows import Rows

LIKE = (
    "the rows of the log are like those of the batch (same final model, prompt, period and "
    "selection; drawn row by row, not in groups), nothing else was done with them or with rows "
    "that belong to them, and they serve this batch alone"
)
LIKE_UNKNOWN = "the rows known beforehand were not chosen by what their answers would be"
NOT_SHARED = "no row of the log is in the batch, which could not be checked"
NOT_FITTED = "none of them was used to fit or choose the cascade, which could not be checked"


@dataclass(frozen=True)
class Log:
    """Held-out rows: their cheap answers, their final answers, and what is assumed of them."""

    cheap: CheapAnswers
    final: list[Any]
    assumptions: tuple[str, ...]
    shared: Mapping[int, Any] = field(default_factory=dict)  # answers, by row of the batch
    marks: RowMarks = field(default_factory=RowMarks)


def read_log(
    cheap: CheapAnswers,
    final: Any,
    keys: Any = None,
    *,
    batch: RowMarks,
    known: list[Any],
    columns: Columns | None = None,
    rows: Rows | None = None,
    fitted: FittedRows | None = None,
) -> Log:
    """Check held-out rows, as far as that is possible.

    A row of the batch with a key of the log leaves the walk: its answer is known.
    """
    if isinstance(final, BatchLabels):
        taken = np.flatnonzero(final.origin == CHECKED)
        check_length(len(cheap), "log", final.labels)
        n_failed = int((final.origin == FAILED).sum())
        if n_failed:
            raise BatchError(
                f"In `log`, the final model gave {n_failed:,} rows no label. Checks that failed "
                "would be left out, and the others would be easier than the batch."
            )
        cheap, columns, rows = cheap.take(taken), None, None
        answers = [final.labels[row] for row in taken.tolist()]
        keys = None if keys is None else [keys[row] for row in taken.tolist()]
    else:
        answers = listed(final) if hasattr(final, "__len__") else list(final)
        check_length(len(cheap), "log", answers)
        lacking = sum(map(is_missing, answers))
        if lacking:
            raise BatchError(
                f"`log` has no answer for {lacking:,} of {len(answers):,} rows. If they were left "
                "out because they were decided otherwise, the others are not like the batch; the "
                "log must be whole."
            )
    if not answers:
        raise BatchError("`log` has no rows.")
    assumed = [LIKE]
    if any(label is not None for label in known):
        assumed.append(LIKE_UNKNOWN)
    marks = RowMarks.of(len(cheap), None if keys is None else listed(keys), columns)
    shared = _shared(marks, answers, batch)
    if not marks.comparable(batch):
        assumed.append(NOT_SHARED)
    if fitted is None or fitted.rows is None or rows is None:
        assumed.append(NOT_FITTED)
    else:
        found = compare(fitted.look(rows), fitted.rows)
        if found.beyond:
            raise BatchError(
                f"{found.beyond:,} rows of `log` were used to fit the cascade, so its answers to "
                "them are better than to others. Give rows that it has not seen."
            )
        if not found.tells:
            assumed.append(NOT_FITTED)
    return Log(cheap, answers, tuple(assumed), shared, marks)


def _shared(marks: RowMarks, answers: list[Any], batch: RowMarks) -> dict[int, Any]:
    """Return the answers to rows of the batch that the log has as well, if keys say which."""
    if not marks.comparable(batch) or not marks.overlap(batch):
        return {}
    if not marks.by_key:
        raise BatchError(
            "The log and the batch have rows in common. Give `keys`, and those of the log after "
            "its answers, so that they can leave the batch; or remove them."
        )
    answer_of = dict(zip(marks.hashes.tolist(), answers, strict=True))
    both = np.flatnonzero(np.isin(batch.hashes, marks.hashes))
    return {int(row): answer_of[int(batch.hashes[row])] for row in both}
