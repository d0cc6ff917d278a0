"""A measure that the package does not have: of the rows given a label, the share that are wrong."""

from __future__ import annotations

from emsco.core.measure import DRAWN_LABELS, WILSON, Measure
from emsco.core.measures import register

FALSE_ALARMS = Measure(
    name="false_alarms",
    part=("label_accepted", "class_right"),
    whole=("label_accepted",),
    margin=WILSON,
    parameter="max_false_alarms",
    target="max_false_alarms",
    help="The maximum share of rows accepted under a label that are wrong",
    rows="rows accepted as {label!r}",
    promise="{limit} of the rows accepted as {label!r} are wrong",
    does="is wrong on {limit} of the rows it accepts as {label!r}",
    watched_by=DRAWN_LABELS,
    observed="drawn rows accepted as {label!r} were wrong",
)

if __name__ == "__main__":  # the command line, with options of the measure
    register(FALSE_ALARMS)

    from emsco.cli._app import app

    app()
