"""Describe in plain words what was chosen, by which rule, and its figures by class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from emsco._utils.text_table import cell
from emsco.core.caution import AUTO, standard_errors
from emsco.core.costs import Costs
from emsco.core.evaluation import Evaluation
from emsco.core.expense import ErrorCost, error_cost_of, expense_of
from emsco.core.front import Candidate, ParetoFront
from emsco.core.interval import few_rows_text, interval_text
from emsco.core.label_rule import EQUAL, LabelRule
from emsco.core.measures import MEASURES
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
    as_many: Evaluation | None = None,
    label_rule: LabelRule = EQUAL,
    boosted: Sequence[str] = (),
) -> str:
    """Describe the stages, the rule, the cost, and the figures by class of what was chosen.

    All sources at once are described for comparison: accepting as many rows (`as_many`), and
    answering every row. `bounds` are those of the choice, and `boosted` is what boosted trees would
    make of all sources.
    """
    costs, repeats = front.costs, front.repeats
    errors = error_cost_of(bounds or {})
    lines = [f"Chosen from {len(front):,} candidates on the front{_by(chosen)}:"]
    lines += _stages(chosen, costs, classes, label_rule)
    lines += _weights(label_rule, costs, classes)
    lines += [rule] if rule else []
    lines += _figures(chosen.evaluation, costs, "It", errors, repeats)
    if as_many is not None and as_many.accepted < as_many.rows:
        subject = "Buying all sources at once and accepting as many rows"
        lines += _figures(as_many, costs, subject, errors, repeats, is_choice=False)
    subject = "Buying all sources at once and answering every row"
    lines += [
        *_figures(reference.evaluation, costs, subject, errors, repeats),
        *boosted,
        *_error_prices(errors, costs, label_rule),
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
    errors = error_cost_of(bounds)
    # Weighted rows are not counts.
    lines = _figures(fresh, costs, f"{where} it", errors, None if population else 1.0)
    lines += _loss_there(fresh, selected, costs, errors)
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


def _by(chosen: Candidate) -> str:
    return f", with stages by {chosen.learner}" if chosen.learner else ""


def _stages(
    chosen: Candidate, costs: Costs, classes: NDArray[Any], label_rule: LabelRule
) -> list[str]:
    figure = "confidence" if label_rule.is_equal else "share"
    thresholds = resolve(chosen.threshold, classes.tolist(), chosen.design.n_stages)
    lines = []
    for i, sources in enumerate(chosen.design.stages):
        paid = chosen.design.acquired(i - 1) if i else ()
        price = _money(costs.of(sources, paid=paid), costs)
        least = sorted({float(f"{t:.4g}") for t in thresholds[i]})
        sure = " to ".join(cell(value) for value in {least[0]: 0, least[-1]: 0})
        lines.append(
            f"  stage {i}: buy {', '.join(sources)} for {price}; accept at {figure} >= {sure}"
        )
    if chosen.design.unused:
        lines.append(f"  never bought: {', '.join(chosen.design.unused)}")
    return lines


def _weights(label_rule: LabelRule, costs: Costs, classes: NDArray[Any]) -> list[str]:
    """Say by which weights rows are labelled."""
    if label_rule.is_equal:
        return []
    pairs = zip(classes.tolist(), label_rule.weights, strict=True)
    weights = ", ".join(f"{label!r} {cell(weight)}" for label, weight in pairs)
    by = "prices of errors" if costs.errors else "label weights"
    return [
        f"Labels are given by {by}: {weights}. A row gets the label with the largest weighted share"
        " of its probabilities, and is accepted if that share reaches the threshold."
    ]


def _money(price: float, costs: Costs) -> str:
    return f"{cell(float(price))} {costs.unit}".rstrip()


def _figures(
    evaluation: Evaluation,
    costs: Costs,
    subject: str,
    errors: ErrorCost,
    repeats: float | None,
    *,
    is_choice: bool = True,
) -> list[str]:
    """Describe an evaluation, over all rows and by class; with `repeats`, also its intervals."""
    price = f"{_money(evaluation.cost, costs)} per row"
    if costs.total:
        price += f" ({evaluation.cost / costs.total:.1%} of the full price)"
    accepted, rows = evaluation.accepted, evaluation.rows
    accepts = (
        f"accepts {evaluation.coverage:.1%} of the {'stake' * bool(evaluation.by_row) or 'rows'}"
    )
    if is_choice and repeats and 0 < accepted < rows:
        interval = interval_text(*MEASURES["coverage"].effective(evaluation, repeats=repeats))
        accepts += f" (95% interval: {interval})"
    if evaluation.by_row is not None:
        accepts += f", {evaluation.by_row.coverage:.1%} of the rows,"
    those = "those" if evaluation.by_row is None else "the stake it accepts"
    right = f"is right on {evaluation.accuracy:.1%} of {those}" if accepted else "labels none"
    expense = expense_of(evaluation, costs.review, errors).text(costs.unit)
    parts = f"; per row: {expense}" if expense else ""
    sentence = f"{subject} costs {price}, {accepts} and {right}{parts}."
    return [sentence, *_by_class(evaluation, repeats)]


def _by_class(evaluation: Evaluation, repeats: float | None) -> list[str]:
    """Return one line per class, aligned; under a class of few rows, the counts and intervals."""
    lines = []
    for label, line in evaluation.class_lines().items():
        lines.append(line)
        few = few_rows_text(evaluation, label, repeats) if repeats else ""
        lines += [f"    {few}"] if few else []
    return lines


def _error_prices(errors: ErrorCost, costs: Costs, label_rule: LabelRule) -> list[str]:
    """Describe the prices of errors, if a choice was made by loss."""
    if errors is None:
        return []
    prices = "an error costs nothing"
    if isinstance(errors, Mapping):
        each = [f"{_money(price, costs)} for {label!r}" for label, price in errors.items()]
        prices = f"an error costs {' and '.join(each)}"
    elif errors:
        prices = f"an error costs {_money(errors, costs)}"
    searched = (
        "The choice is the best candidate of a front that was searched without prices of errors."
    )
    if not label_rule.is_equal:
        same = costs.errors and errors == dict(costs.errors)
        searched = f"Labels were given by {'these prices' if same else 'other weights, see above'}."
    return [
        f"The loss is what a row costs for sources, review and errors, where {prices}. {searched}"
    ]


def _loss_there(
    fresh: Evaluation, selected: Evaluation, costs: Costs, errors: ErrorCost
) -> list[str]:
    if errors is None:
        return []
    if costs.review is None and fresh.accepted < fresh.rows:
        return ["Its loss there is unknown: it rejects rows, and their review has no price."]
    own, before = (
        _money(expense_of(e, costs.review, errors).loss, costs) for e in (fresh, selected)
    )
    return [f"Its loss is {own} per row there, and {before} on the rows it was selected on."]


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
