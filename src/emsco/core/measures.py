"""The measures of a cascade, in one registry.

Bounds of a choice, targets of a certificate, promises of a monitor, options of the command line,
columns of tables and sliders of a report go over `MEASURES`, so a new measure is one object and
`register(measure)`.

>>> from emsco import Evaluation
>>> from emsco.core.measures import MEASURES
>>> evaluation = Evaluation(rows=10, accepted=8, right=6, paid=50)
>>> MEASURES["accuracy"].of(evaluation), MEASURES["cost"].of(evaluation)
(0.75, 5.0)
"""

from __future__ import annotations

from emsco.core.measure import (
    DECISIONS,
    DRAWN_ANSWERS,
    DRAWN_LABELS,
    LABELS,
    LESS_ERRORS,
    WILSON,
    FitnessMeasure,
    LossMeasure,
    Measure,
)
from emsco.exceptions import SelectionError

MEASURES: dict[str, Measure] = {}  # by name, in the order in which bounds are listed

# The order in tables: these come first, then any others. Those by class follow the others.
_COLUMNS = ("accuracy", "coverage", "cost", "rejected", "missed", "recall", "precision")


def register(measure: Measure) -> Measure:
    """Add a measure to the registry; its name and keywords must be new.

    Examples
    --------
    >>> from emsco.core.measure import Measure
    >>> from emsco.core.measures import register
    >>> register(Measure(name="missed", part=("accepted", "right"), whole=("rows",)))
    Traceback (most recent call last):
    emsco.exceptions.SelectionError: There is a measure 'missed' already.
    """
    for known in MEASURES.values():
        same = {measure.name, measure.parameter, measure.target} - {""}
        for name in same & {known.name, known.parameter, known.target}:
            raise SelectionError(f"There is a measure {name!r} already.")
    MEASURES[measure.name] = measure
    return measure


def boundable() -> dict[str, Measure]:
    """Return the measures that a choice can bound, by parameter."""
    return {m.parameter: m for m in MEASURES.values() if m.parameter}


def certifiable() -> dict[str, Measure]:
    """Return the measures that can be certified, by parameter: of answers, by class, the rest."""
    known = [m for m in MEASURES.values() if m.target]
    known.sort(key=lambda m: (not m.certifies_alone, not m.is_share))
    return {m.target: m for m in known}


def optimisable() -> dict[str, Measure]:
    """Return the measures that a choice can optimise, by name."""
    return {m.name: m for m in MEASURES.values() if m.best}


def columns(*, by_class: bool) -> list[Measure]:
    """Return the measures that tables show, whole or by class, except latencies."""
    listed = [m for m in MEASURES.values() if m.in_tables and m.unit != "seconds"]
    of_kind = [m for m in listed if m.is_by_class == by_class]
    return sorted(of_kind, key=lambda m: (*_COLUMNS, m.name).index(m.name))


def latencies() -> list[Measure]:
    """Return the measures that tables show only if anything takes time."""
    return [m for m in MEASURES.values() if m.in_tables and m.unit == "seconds"]


LOSS = LossMeasure(
    name="loss",
    part=("paid",),
    unit="money",
    in_tables=False,
    best="the one with the lowest loss",
)

for _measure in (
    Measure(
        name="cost",
        part=("paid",),
        whole=("rows",),
        unit="money",
        parameter="max_cost",
        target="max_cost",
        certifies_alone=False,
        help="The maximum mean cost per row",
        best="the cheapest",
        promise="the mean cost per row is {limit}",
        does="costs {limit} per row on average",
        watched_by=DECISIONS,
    ),
    Measure(
        name="coverage",
        part=("accepted",),
        whole=("rows",),
        is_better_high=True,
        parameter="min_coverage",
        target="min_coverage",
        certifies_alone=False,
        help="The minimum share of rows accepted",
        best="the one with the highest coverage",
        rows="rows",
        bad="rejected",
        promise="{limit} of all rows are accepted",
        does="accepts {limit} of all rows",
        watched_by=DECISIONS,
    ),
    Measure(
        name="accuracy",
        part=("right",),
        whole=("accepted",),
        is_better_high=True,
        margin=LESS_ERRORS,
        parameter="min_accuracy",
        target="accuracy",
        help="The minimum share of accepted rows that are labelled correctly",
        best="the most accurate",
        rows="accepted rows",
        promise="{limit} of accepted answers are right",
        does="is right on {limit} of the rows it accepts",
        watched_by=LABELS,
        observed="labels of accepted rows show an error",
    ),
    Measure(
        name="agreement",
        part=("right",),
        whole=("rows",),
        is_better_high=True,
        target="agreement",
        in_tables=False,
        help="The minimum share of decisions that are the same as the final model's",
        rows="decisions",
        bad="changed",
        promise="{limit} of decisions are the same as the final model's",
        does="leaves {limit} of decisions as the final model's",
        watched_by=DRAWN_ANSWERS,
        observed="rows drawn were decided differently from the final model",
    ),
    Measure(
        name="missed",
        part=("class_accepted", "class_right"),
        whole=("class_rows",),
        margin=WILSON,
        parameter="max_missed",
        target="max_missed",
        help="The maximum share of a class's rows accepted under another label",
        figure="{share} missed",
        rows="rows of {label!r}",
        promise="{limit} of the rows of class {label!r} are accepted under another label",
        does="accepts {limit} of class {label!r} under another label",
        watched_by=DRAWN_LABELS,
        observed="drawn rows of class {label!r} were accepted under another label",
    ),
    Measure(
        name="rejected",
        part=("class_rows", "class_accepted"),
        whole=("class_rows",),
        margin=WILSON,
        parameter="max_rejected",
        target="max_rejected",
        help="The maximum share of a class's rows rejected",
        figure="{share} rejected",
        rows="rows of {label!r}",
        bad="rejected",
        promise="{limit} of the rows of class {label!r} are rejected",
        does="rejects {limit} of class {label!r}",
    ),
    Measure(
        name="precision",
        part=("class_right",),
        whole=("label_accepted",),
        is_better_high=True,
        margin=WILSON,
        parameter="min_precision",
        target="min_precision",
        help="The minimum share of rows accepted under a label that are correct",
        rows="rows accepted as {label!r}",
        promise="{limit} of the rows accepted as {label!r} are right",
        does="is right on {limit} of the rows it accepts as {label!r}",
    ),
    Measure(
        name="recall",
        part=("class_right",),
        whole=("class_accepted",),
        is_better_high=True,
        words="recall when accepted",
    ),
    Measure(name="latency", part=("waited",), whole=("rows",), unit="seconds"),
    Measure(
        name="worst_latency",
        part=("worst_latency",),
        unit="seconds",
        parameter="max_latency",
        help="The maximum latency of any row",
    ),
    FitnessMeasure(
        name="fitness",
        part=(),
        is_better_high=True,
        in_tables=False,
        best="the one with the highest fitness, as defined in the paper,",
    ),
    LOSS,
):
    register(_measure)
