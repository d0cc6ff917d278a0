"""What each feature contributed to decisions that were made by a linear stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco.cascade.decision_loop import Plan
from emsco.core.decisions import ACCEPTED, LOW_CONFIDENCE, Decisions
from emsco.core.factors import Factors
from emsco.exceptions import ColumnsError, quoted
from emsco.learners.linear_score import LinearScore, linear_score, why_not_linear
from emsco.rows.column_reader import ColumnReader
from emsco.rows.columns import Column, Columns, object_array

_TOO_LARGE = "A value is so large that what it contributes cannot be held."


def factors_of(
    plan: Plan, readers: Mapping[str, ColumnReader], values: Columns, decisions: Decisions
) -> list[Factors]:
    """Return what each feature contributed to each decision, or why that is unknown."""
    found: list[Factors] = [
        Factors(label, stage, why_none=f"The row was rejected for the reason {reason!r}.")
        for label, stage, reason in zip(
            decisions.label.tolist(),
            decisions.exit_stage.tolist(),
            decisions.reason.tolist(),
            strict=True,
        )
    ]
    judged = np.isin(decisions.reason.astype(str), (ACCEPTED, LOW_CONFIDENCE))
    code_of = {label: code for code, label in enumerate(plan.classes.tolist())}
    bought: set[str] = set()
    for number, stage in enumerate(plan.stages):
        bought.update(stage.features)
        (rows,) = (judged & (decisions.exit_stage == number)).nonzero()
        if not rows.size:
            continue
        features = [name for name in readers if name in bought]
        encodings = {f: e for f in features if (e := readers[f].encoding) is not None}
        score = linear_score(stage.judge, features, encodings)
        labels = decisions.label[rows].tolist()
        if score is None:
            why = why_not_linear(stage.judge, number)
            stage_factors = [Factors(label, number, why_none=why) for label in labels]
        else:
            columns = {f: readers[f].read(_taken(values, f, rows)) for f in features}
            codes = np.array([code_of[label] for label in labels], dtype=np.intp)
            stage_factors = _linear_factors(score, columns, codes, labels, number)
        for row, factors in zip(rows.tolist(), stage_factors, strict=True):
            found[row] = factors
    return found


def _linear_factors(
    score: LinearScore,
    columns: Mapping[str, Column],
    codes: NDArray[np.intp],
    labels: Sequence[Any],
    number: int,
) -> list[Factors]:
    """Return what each feature contributed to the rows of one linear stage."""
    names = list(score.adds)
    bases, added = score.contributions(columns, codes)
    order = np.argsort(-np.abs(added), axis=0, kind="stable")
    factors = []
    for row, label in enumerate(labels):
        amounts = added[:, row].tolist()
        if not np.isfinite(sum(amounts)):
            factors.append(Factors(label, number, why_none=_TOO_LARGE))
            continue
        features = tuple((names[place], amounts[place]) for place in order[:, row].tolist())
        factors.append(Factors(label, number, features, float(bases[row]), score.reference))
    return factors


def _taken(values: Columns, name: str, rows: NDArray[np.intp]) -> Column:
    if name not in values:
        raise ColumnsError(
            f"Factors need the values that a row was decided by; {quoted([name])} is missing."
        )
    column = values[name]
    if isinstance(column, list | tuple):
        column = object_array(column)
    return column[rows]
