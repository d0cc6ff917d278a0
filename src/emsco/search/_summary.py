"""What was chosen, and on which rows, in plain words."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from emsco._ground.table import cell
from emsco.words.costs import Costs
from emsco.words.evaluation import Evaluation
from emsco.words.front import Candidate, ParetoFront
from emsco.words.threshold import resolve


def sentences_of_choice(
    chosen: Candidate, reference: Candidate, front: ParetoFront, costs: Costs, classes: NDArray[Any]
) -> str:
    """Say what each stage buys, what it pays, rejects and misses, beside all sources at once."""
    thresholds = resolve(chosen.threshold, classes.tolist(), chosen.design.n_stages)
    lines = [f"Chosen out of {len(front):,} candidates on the front:"]
    for i, sources in enumerate(chosen.design.stages):
        paid = chosen.design.acquired(i - 1) if i else ()
        price = _money(costs.of(sources, paid=paid), costs)
        least = sorted({float(f"{t:.4g}") for t in thresholds[i]})
        sure = " to ".join(cell(value) for value in {least[0]: 0, least[-1]: 0})
        lines.append(f"  stage {i}: buy {', '.join(sources)} for {price}; accept from {sure}")
    if chosen.design.unused:
        lines.append(f"  never bought: {', '.join(chosen.design.unused)}")
    lines += [
        _sentence(chosen.evaluation, costs, "It"),
        _sentence(reference.evaluation, costs, "All sources at once, answering every row,"),
        front.measured_on,
    ]
    return "\n".join(lines)


def measured_on(n_rows: int, n_splits: int, *, needs_labels: bool) -> str:
    """Say which rows figures were measured on, that they were selected there, and what is right."""
    how = "held out once" if n_splits == 1 else f"each held out, in {n_splits} folds"
    fresh = "score_front(X, y)" if needs_labels else "score_front(X)"
    right = "" if needs_labels else " Right is what the final model answers."
    return (
        f"Selected on these {n_rows:,} rows, {how}: figures are optimistic until {fresh} holds "
        f"them against fresh rows.{right}"
    )


def _money(price: float, costs: Costs) -> str:
    return f"{cell(float(price))} {costs.unit}".rstrip()


def _sentence(evaluation: Evaluation, costs: Costs, subject: str) -> str:
    share = f" ({evaluation.cost / costs.total:.1%} of the full price)" if costs.total else ""
    missed = ", ".join(f"{share:.1%} of {label!r}" for label, share in evaluation.missed.items())
    return (
        f"{subject} pays {_money(evaluation.cost, costs)} a row{share}, accepts "
        f"{evaluation.coverage:.1%} of the rows and is right on {evaluation.accuracy:.1%} of "
        f"those; it rejects {1 - evaluation.coverage:.1%} and misses {missed}."
    )
