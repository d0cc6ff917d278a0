"""JSON answers for clients: one object per decided row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pydantic_core import to_json

from emsco.core.decisions import ACCEPTED, Decisions
from emsco.serve.rejection_causes import is_passing


def decision_rows(
    ids: Sequence[str], decisions: Decisions, *, receipt: bool
) -> list[dict[str, Any]]:
    """Return the decisions as one JSON object per row."""
    accepted = decisions.accepted.tolist()
    # Building the reasons takes as long as everything else, and most rows have none.
    reasons = [ACCEPTED] * len(accepted) if all(accepted) else decisions.reason.tolist()
    columns = zip(
        decisions.label.tolist(), accepted, reasons, decisions.confidence.tolist(),
        decisions.cost.tolist(), decisions.exit_stage.tolist(), decisions.latency.tolist(),
        strict=True,
    )  # fmt: skip
    rows: list[dict[str, Any]] = [
        {"id": one, "label": label if accepts else None, "accepted": accepts,
         # A client that reads only `label` must not act on a rejected row. If no stage judged the
         # row, its confidence is 0 and there is no guess.
         "guess": None if accepts or not confidence else label,
         "reason": reason, "retry": not accepts and is_passing(reason),
         "confidence": confidence, "cost": cost, "exit_stage": stage, "latency": latency}
        for one, (label, accepts, reason, confidence, cost, stage, latency)
        in zip(ids, columns, strict=True)
    ]  # fmt: skip
    if receipt and decisions.receipts is not None:
        for row, one in zip(rows, decisions.receipts, strict=True):
            row["receipt"] = _receipt(one)
    if decisions.factors is not None:
        for row, one in zip(rows, decisions.factors, strict=True):
            row["factors"] = asdict(one) | {"features": dict(one.features), "score": one.score}
    return rows


def _receipt(receipt: Any) -> dict[str, Any]:
    fields = asdict(receipt) | {"paid": receipt.paid, "unknown": list(receipt.unknown)}
    return {name: value for name, value in fields.items() if name not in ("id", "model")}


def dumped(answer: Any) -> bytes:
    """Serialize an answer as JSON."""
    return to_json(answer, inf_nan_mode="null", fallback=_plain)


def _plain(value: Any) -> Any:
    item = getattr(value, "item", None)  # of numpy
    return str(value) if item is None else item()
