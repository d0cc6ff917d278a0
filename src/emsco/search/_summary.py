"""Describe in plain words what was chosen, by which rule, and its figures by class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from emsco._utils.text_table import cell
from emsco.core.caution import AUTO, standard_errors
from emsco.core.costs import Costs
from emsco.core.evaluation import Evaluation
from emsco.core.front import Candidate, ParetoFront
from emsco.core.scored_front import FreshDifference
from emsco.core.selection import margin_text
from emsco.core.threshold import resolve
from emsco.core.validation import weighted_as
from emsco.exceptions import Keyword, Message


def sentences_of_choice(
    chosen: Candidate,
    reference: Candidate,
    front: ParetoFront,
    classes: NDArray[Any],
    rule: str = "",
    bounds: Mapping[str, Any] | None = None,
) -> str:
    """Describe the stages, the rule, the cost, and the figures by class of what was chosen.

    All sources at once are described for comparison. `asked` are the bounds of the choice.
    """
    costs = front.costs
    lines = [f"Chosen from {len(front):,} candidates on the front:"]
    lines += _stages(chosen, costs, classes)
    lines += [rule] if rule else []
    lines += [_sentence(chosen.evaluation, costs, "It"), *_by_class(chosen.evaluation)]
    lines += [
        _sentence(
            reference.evaluation, costs, "Buying all sources at once and answering every row"
        ),
        *_by_class(reference.evaluation),
        *_losses(chosen.evaluation, reference.evaluation, costs, bounds or {}),
        *_luck(front.luck),
        front.measured_on,
    ]
    return Message("\n").join(lines)


def sentences_of_fresh(
    fresh: Evaluation,
    n_rows: int,
    selected: Evaluation,
    different: Sequence[FreshDifference],
    costs: Costs,
    bounds: Mapping[str, Any],
    population: Mapping[Any, float] | None,
) -> str:
    """Describe the chosen cascade on fresh rows, and how it differs from the selected figures."""
    where = f"On {n_rows:,} fresh rows{weighted_as(population)}{',' * (population is not None)}"
    lines = [_sentence(fresh, costs, f"{where} it"), *_by_class(fresh)]
    lines += _loss_there(fresh, selected, costs, bounds)
    words = "more than two standard errors from the selected figures"
    if different:
        lines.append(
            f"These figures differ by {words} (about one figure in twenty does so by chance):"
        )
        lines += [f"  {one}" for one in different]
    else:
        lines.append(f"No figure differs by {words}.")
    if population is not None:
        lines.append(
            "Only shares within a class are compared, because the classes had other shares of the "
            "rows in the search, and a front cannot be weighted to a population."
        )
    return "\n".join(lines)


def _stages(chosen: Candidate, costs: Costs, classes: NDArray[Any]) -> list[str]:
    thresholds = resolve(chosen.threshold, classes.tolist(), chosen.design.n_stages)
    lines = []
    for i, sources in enumerate(chosen.design.stages):
        paid = chosen.design.acquired(i - 1) if i else ()
        price = _money(costs.of(sources, paid=paid), costs)
        least = sorted({float(f"{t:.4g}") for t in thresholds[i]})
        sure = " to ".join(cell(value) for value in {least[0]: 0, least[-1]: 0})
        lines.append(
            f"  stage {i}: buy {', '.join(sources)} for {price}; accept at confidence >= {sure}"
        )
    if chosen.design.unused:
        lines.append(f"  never bought: {', '.join(chosen.design.unused)}")
    return lines


def _money(price: float, costs: Costs) -> str:
    return f"{cell(float(price))} {costs.unit}".rstrip()


def _price(evaluation: Evaluation, costs: Costs) -> str:
    """Describe the mean cost of a row, including its review if that has a price."""
    share = f"{evaluation.cost / costs.total:.1%} of the full price" if costs.total else ""
    if costs.review is None or not costs.review.cost:
        text = f"{_money(evaluation.cost, costs)} per row"
        return f"{text} ({share})" if share else text
    review = costs.review.cost * (1 - evaluation.coverage)
    text = (
        f"{cell(evaluation.cost)} for sources + {cell(review)} for review = "
        f"{_money(evaluation.cost + review, costs)} per row"
    )
    return f"{text} (sources: {share})" if share else text


def _sentence(evaluation: Evaluation, costs: Costs, subject: str) -> str:
    right = f"is right on {evaluation.accuracy:.1%} of those"
    return (
        f"{subject} costs {_price(evaluation, costs)}, accepts {evaluation.coverage:.1%} of the "
        f"rows and {right if evaluation.accepted else 'labels none'}."
    )


def _by_class(evaluation: Evaluation) -> list[str]:
    """Return one line per class, aligned."""
    lines = {f"of {label!r}": words for label, words in evaluation.by_class(width=6).items()}
    width = max(map(len, lines), default=0)
    return [f"  {name:<{width}} {words}" for name, words in lines.items()]


def _losses(
    chosen: Evaluation, reference: Evaluation, costs: Costs, bounds: Mapping[str, Any]
) -> list[str]:
    """Describe the loss, if a choice was made by it."""
    if bounds.get("by") != "loss":
        return []
    error_cost = bounds.get("error_cost") or 0.0
    prices = "an error costs nothing"
    if isinstance(error_cost, Mapping):
        each = [f"{_money(price, costs)} for {label!r}" for label, price in error_cost.items()]
        prices = f"an error costs {' and '.join(each)}"
    elif error_cost:
        prices = f"an error costs {_money(error_cost, costs)}"
    own, all_at_once = (_loss(e, costs, bounds) for e in (chosen, reference))
    return [
        f"If {prices}, its loss is {own} per row (sources, review and errors), and {all_at_once} "
        "for all sources at once. It is the best candidate of a front that was searched without "
        "prices of errors."
    ]


def _loss_there(
    fresh: Evaluation, selected: Evaluation, costs: Costs, bounds: Mapping[str, Any]
) -> list[str]:
    if bounds.get("by") != "loss":
        return []
    if costs.review is None and fresh.accepted < fresh.rows:
        return ["Its loss there is unknown: it rejects rows, and their review has no price."]
    own, before = (_loss(e, costs, bounds) for e in (fresh, selected))
    return [f"Its loss is {own} per row there, and {before} on the rows it was selected on."]


def _loss(evaluation: Evaluation, costs: Costs, bounds: Mapping[str, Any]) -> str:
    error_cost = bounds.get("error_cost") or 0.0
    if isinstance(error_cost, Mapping):  # fresh rows may hold no row of a class
        error_cost = {c: price for c, price in error_cost.items() if c in evaluation.class_rows}
    return _money(evaluation.loss(review=costs.review, error_cost=error_cost), costs)


def _luck(luck: float | None) -> list[str]:
    """Describe the measured luck and the margin that follows from it."""
    if luck is None:
        return []
    z = standard_errors(AUTO, luck)
    found = f"{margin_text(max(luck, 0.0))} better" if luck >= 0.05 else "no better"
    more = "that margin" if z == luck else f"a margin of {margin_text(z)}"
    return [
        f"Luck: when the search is repeated on parts of the rows, choices look {found} than they "
        "are; " + Keyword("caution", AUTO) + f" adds {more} to bounds."
    ]
