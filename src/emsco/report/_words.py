"""What the page says first: the title, the lead, and on which rows it was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from emsco import __version__
from emsco._utils.text_table import cell
from emsco.core.evaluation import Evaluation
from emsco.core.measure import rows_of
from emsco.core.validation import weighted_as
from emsco.exceptions import Message

_MOST_NAMED = 4  # classes in a title
_ADVICE = 3  # parts of a note that tell how to measure fresh rows, in Python


def title_of(search: Any) -> str:
    """Say what is decided, on how many rows, for which part of the price, and how well."""
    rows = round(rows_of(search.all_sources_.evaluation).rows / search.front_.repeats)
    title = f"{_decided(search.classes_.tolist())}, {rows:,} row{'s' * (rows != 1)}"
    chosen = getattr(search, "best_candidate_", None)
    if chosen is None:
        return title
    evaluation: Evaluation = chosen.evaluation
    figures = [_accuracy(evaluation)]
    if search.costs_.total:
        figures.insert(0, f"{evaluation.cost / search.costs_.total:.1%} of the price")
    return f"{title}: {', '.join(figures)}"


def _decided(classes: Sequence[Any]) -> str:
    labels = [str(label) for label in classes]
    if len(labels) > _MOST_NAMED:
        return f"{len(labels)} classes"
    named = " or ".join(filter(None, [", ".join(labels[:-1]), labels[-1]]))
    return f"class {named}" if all(isinstance(label, int | float) for label in classes) else named


def _accuracy(evaluation: Evaluation) -> str:
    if evaluation.accepted == evaluation.rows:
        return f"{evaluation.accuracy:.1%} right, every row accepted"
    stake = " of the stake" if evaluation.is_by_stake else ""
    return f"{evaluation.accuracy:.1%} right on the {evaluation.coverage:.1%}{stake} accepted"


def lead_of(search: Any, data: Mapping[str, Any]) -> str:
    """Say what all sources cost, what the choice saves, and what else the page shows."""
    costs, n_front, n_shown = search.costs_, len(search.front_), data["n_on_front"]
    unit = f" {costs.unit}".rstrip()
    sources = f"{len(costs.names)} source{'s' * (len(costs.names) != 1)}"
    said = [f"All {sources} together cost {cell(costs.total)}{unit} per row."]
    chosen = getattr(search, "best_candidate_", None)
    if chosen == search.all_sources_:
        said += _of_all_sources(search, data)
    elif chosen is not None:
        said += _of_choice(search, chosen.evaluation, unit)
        said += _of_fresh(data, costs.total) if data["fresh"] is not None else []
    others = f"{n_front:,} candidate{'s' * (n_front != 1)}"
    said.append(f"The page shows {others} that no other beats in accuracy, coverage and cost.")
    if n_shown < n_front:
        said[-1] = (
            f"The page shows {n_shown:,} of {others} that no other beats in accuracy, coverage and "
            "cost, evenly; among all of them its bounds may choose one that it does not show."
        )
    if chosen is not None and data["chosen"] == n_shown:
        said.append("What the search chose is not among them.")
    return " ".join(said)


def _of_all_sources(search: Any, data: Mapping[str, Any]) -> list[str]:
    """Say that every row has the full price; where no candidate qualified, that this is why."""
    why = "No candidate qualified, so the" if "no candidate meets it" in data["rule"] else "The"
    what = "all sources at once" if search.needs_labels else "the final model alone"
    right = f"This is right on {search.all_sources_.evaluation.accuracy:.1%} of the {data['of']}"
    whole = data["fresh"] and data["all_sources"]["fresh"]
    if whole:
        share = whole["right"][0] / whole["rows"]
        right += f", and on {share:.1%} of {data['fresh_rows']:,} fresh rows"
    return [f"{why} search chose {what}, for every row and the full price.", f"{right}."]


def _of_choice(search: Any, evaluation: Evaluation, unit: str) -> list[str]:
    saved = search.costs_.total - evaluation.cost
    as_many = search.all_sources_at(evaluation.coverage).accuracy
    said, subject = [], "The cascade that the search chose is"
    if saved > 0:
        said.append(
            "The cascade that the search chose buys them in stages, and the later ones only for "
            f"rows that are not decided yet: it costs {cell(evaluation.cost)}{unit} per row and "
            f"saves {cell(saved)}{unit}."
        )
        subject = "Its labels are"
    said.append(
        f"{subject} right on {evaluation.accuracy:.1%} of the "
        f"{'stake' if evaluation.is_by_stake else 'rows'} that it accepts; all "
        f"sources at once, accepting as many rows, are right on {as_many:.1%}."
    )
    return said


def _of_fresh(data: Mapping[str, Any], total: float) -> list[str]:
    """Say how the choice did on fresh rows, where it could be evaluated on them."""
    fresh, i = data["fresh"], data["chosen"]
    if fresh["accepted"][i] is None:
        return []
    n_rows = fresh.get("n_rows", fresh["rows"])
    price = f"costs {fresh['paid'][i] / n_rows / total:.1%} of the price, " if total else ""
    accepted, whole = fresh["accepted"][i], data["all_sources"]["fresh"]
    right = f" and is right on {fresh['right'][i] / accepted:.1%} of those" if accepted else ""
    if right and whole is not None:
        right += (
            f"; all sources at once are right on {whole['right'][0] / whole['rows']:.1%} of all"
        )
    return [
        f"On {data['fresh_rows']:,} fresh rows, it {price}accepts {accepted / fresh['rows']:.1%}"
        f"{right}."
    ]


def measured_on(
    search: Any, data: Mapping[str, Any], population: Mapping[Any, float] | None
) -> str:
    """Say which rows the figures are of."""
    selected, *more = Message(search.front_.measured_on).parts
    rest = more[_ADVICE:]
    if "fresh_rows" not in data:
        optimistic = ", so these figures look better than those of fresh rows will be."
        return "".join([selected, optimistic * (len(more) >= _ADVICE), *rest])
    fresh = f". Fresh: {data['fresh_rows']:,} other rows{weighted_as(population)}."
    text = "".join([selected, fresh, *rest])
    if data["all_sources"]["fresh"] is None or None in data["fresh"]["accepted"]:
        text += " A dash: the file that the search is out of keeps no such cascade."
    return text


def written() -> str:
    """Say when the page was written, and by what."""
    now = datetime.now(UTC)
    return f"Written on {now.day} {now:%B %Y}, {now:%H:%M} UTC, by emsco {__version__}."
