"""A measure that is described wrongly cannot be made, and a registered one is never replaced."""

from __future__ import annotations

from dataclasses import fields

import pytest

from emsco import Evaluation
from emsco.core.measure import COUNTS, Measure
from emsco.core.measures import MEASURES, register
from emsco.exceptions import SelectionError


def test_counts_are_those_of_an_evaluation():
    """Beside them it holds the same counts again, of rows and of squares."""
    assert {one.name for one in fields(Evaluation)} == {*COUNTS, "by_row", "squares"}


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"name": ""}, "must be an identifier, got ''"),
        ({"name": "false alarms"}, "must be an identifier"),
        ({"part": ("acepted",)}, "did you mean 'accepted'"),
        ({"whole": ("all",)}, "counts 'all', which no evaluation holds"),
        ({"margin": "wilson"}, "`margin` of measure 'errors' must be one of"),
        ({"unit": "percent"}, "`unit` of measure 'errors' must be one of"),
        ({"watched_by": "everybody"}, "`watched_by` of measure 'errors' must be one of"),
    ],
)
def test_a_measure_that_cannot_be_counted_is_refused(wrong, why):
    given = {"name": "errors", "part": ("accepted", "right"), "whole": ("rows",)} | wrong
    with pytest.raises(SelectionError, match=why):
        Measure(**given)


@pytest.mark.parametrize("known", [{"name": "missed"}, {"name": "own", "parameter": "max_cost"}])
def test_no_measure_replaces_another(known):
    before = dict(MEASURES)
    with pytest.raises(SelectionError, match="There is a measure"):
        register(Measure(part=("accepted",), whole=("rows",), **known))
    assert before == MEASURES
