"""Bounds that hold with a margin: what the margin is, and what it never changes."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emsco import Candidate, Costs, Evaluation, ParetoFront, StageDesign
from emsco.core.caution import less_margin, standard_errors, wilson
from emsco.core.measures import optimisable
from emsco.core.selection import Bounds
from emsco.exceptions import SelectionError

COSTS = Costs.per_feature({"a": 1, "b": 2, "c": 4})


@st.composite
def evaluations(draw, classes=("x", "y", "z")):
    """Draw counts of three classes, with every label that was given."""
    rows = {c: draw(st.integers(1, 60)) for c in classes}
    accepted = {c: draw(st.integers(0, n)) for c, n in rows.items()}
    right = {c: draw(st.integers(0, n)) for c, n in accepted.items()}
    labelled = dict(right)
    for c in classes:
        for _ in range(accepted[c] - right[c]):
            labelled[draw(st.sampled_from([other for other in classes if other != c]))] += 1
    return Evaluation(
        rows=sum(rows.values()),
        accepted=sum(accepted.values()),
        right=sum(right.values()),
        paid=float(draw(st.integers(0, 500))),
        class_rows=rows,
        class_accepted=accepted,
        class_right=right,
        worst_latency=float(draw(st.integers(0, 3))),
        label_accepted=labelled,
    )


@st.composite
def fronts(draw, luck=None):
    found = draw(st.lists(evaluations(), min_size=1, max_size=8))
    candidates = [
        Candidate(StageDesign([0, -1, -1]), 0.5 + i / 100, e) for i, e in enumerate(found)
    ]
    return ParetoFront(candidates, COSTS, luck=luck, repeats=draw(st.sampled_from([1.0, 3.0])))


@st.composite
def bounds(draw):
    share = st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.9, 1.0])
    by_label = st.dictionaries(st.sampled_from("xyz"), share, max_size=2)
    kinds = {
        "min_accuracy": share, "min_coverage": share, "max_cost": st.integers(0, 5),
        "max_missed": by_label, "max_rejected": by_label, "min_precision": by_label,
        "max_latency": st.integers(0, 3),
    }  # fmt: skip
    names = draw(st.sets(st.sampled_from(sorted(kinds))))
    asked = {name: draw(kinds[name]) for name in sorted(names)}
    return asked | {"by": draw(st.sampled_from(["cost", "accuracy", "coverage", "fitness"]))}


def by_hand(front, z, by="cost", **asked):
    """Choose as the words of the issue say, one candidate and one bound at a time."""

    def wilson_bound(part, whole, own, *, upper):
        if not whole:
            return 0.0 if not own else float(upper)
        p = part / whole
        centre, half = (
            p + own**2 / (2 * whole),
            own * math.sqrt(p * (1 - p) / whole + own**2 / (4 * whole**2)),
        )
        return (centre + half if upper else centre - half) / (1 + own**2 / whole)

    def accuracy(e, own):
        m, r = e.accepted / front.repeats, e.right / front.repeats
        p = (r + 1) / (m + 2)
        return r / m - own * math.sqrt(p * (1 - p) / m)

    def meets(e):
        near = 1e-9
        own = lambda bound: 0.0 if bound in (0, 1) else z  # noqa: E731
        if "min_accuracy" in asked:
            least = asked["min_accuracy"]
            if accuracy(e, own(least)) < least - near:
                return False
        if e.coverage < asked.get("min_coverage", 0) or e.cost > asked.get("max_cost", 99):
            return False
        if e.worst_latency > asked.get("max_latency", 99):
            return False
        k = front.repeats
        for label, most in asked.get("max_missed", {}).items():
            missed = (e.class_accepted[label] - e.class_right[label]) / k
            if wilson_bound(missed, e.class_rows[label] / k, own(most), upper=True) > most + near:
                return False
        for label, most in asked.get("max_rejected", {}).items():
            rejected = (e.class_rows[label] - e.class_accepted[label]) / k
            if wilson_bound(rejected, e.class_rows[label] / k, own(most), upper=True) > most + near:
                return False
        for label, least in asked.get("min_precision", {}).items():
            right, whole = e.class_right[label] / k, e.label_accepted[label] / k
            if wilson_bound(right, whole, own(least), upper=False) < least - near:
                return False
        return True

    able = [c for c in front if meets(c.evaluation)]
    score = {
        "cost": lambda e: e.cost,
        "accuracy": lambda e: -accuracy(e, z),
        "coverage": lambda e: -e.coverage,
        "fitness": lambda e: -math.hypot(e.accuracy, e.coverage, 1 - e.cost / COSTS.total),
    }[by]
    return [score(c.evaluation) for c in able], able


@settings(max_examples=200)
@given(fronts(), bounds(), st.sampled_from([0, 1, 1.7, 3]))
def test_a_choice_is_what_the_definition_says(front, asked, z):
    if not len(front):
        return
    scores, able = by_hand(front, z, **asked)
    if able:
        chosen = front.select(**asked, caution=z)
        assert scores[able.index(chosen)] == pytest.approx(min(scores))
    else:
        with pytest.raises(SelectionError) as e:
            front.select(**asked, caution=z)
        assert e.value.closest in front


@given(st.integers(0, 50), st.integers(0, 50), st.floats(0, 5))
def test_margins_are_on_the_safe_side_and_grow_with_caution(part, more, z):
    whole = part + more
    share = part / whole if whole else 0.0
    low, high = (float(bound) for bound in wilson(part, whole, z))
    assert 0 <= low <= share + 1e-12
    assert share - 1e-12 <= high <= 1
    assert float(less_margin(part, whole, z)) <= share
    wider = wilson(part, whole, z + 1)
    if z:
        assert float(wider[0]) <= low + 1e-12 <= high + 2e-12 <= float(wider[1]) + 3e-12
    assert [float(bound) for bound in wilson(part, whole, 0)] == [share, share]
    assert float(less_margin(part, whole, 0)) == share


def test_margins_have_the_width_of_their_definitions():
    assert less_margin([90, 100], [100, 100], 1).round(3).tolist() == [0.869, 0.99]
    low, high = wilson([2], [100], 1)
    assert f"{low[0]:.3f} {high[0]:.3f}" == "0.010 0.039"


def test_caution_is_luck_and_never_less_than_one():
    assert standard_errors("auto", 2.4) == 2.4
    assert standard_errors("auto", -0.3) == standard_errors("auto", None) == 1
    assert standard_errors(0, 2.4) == 0
    for wrong in (-1, "much", None, True, float("nan"), float("inf")):
        with pytest.raises(SelectionError, match="`caution` must be 'auto' or a number"):
            standard_errors(wrong, 1.0)


def candidate(accepted, right, paid, threshold=0.75):
    e = Evaluation(100, accepted, right, paid)
    return Candidate(StageDesign([0, 1, -1]), threshold, e)


FRONT = ParetoFront(
    [candidate(90, 81, 100), candidate(90, 84, 200), candidate(90, 88, 300)], COSTS, luck=2.0
)


def test_the_default_asks_for_a_margin_and_0_for_none():
    assert FRONT.select(min_accuracy=0.9, caution=0) is FRONT[0]
    assert FRONT.select(min_accuracy=0.9, caution=1) is FRONT[1]
    assert FRONT.select(min_accuracy=0.9) is FRONT[2], "two standard errors, as luck is"
    alike = ParetoFront(FRONT, COSTS)
    assert alike.select(min_accuracy=0.9) is alike[1], "one where luck is not known"


def test_bounds_of_none_and_all_are_as_counted():
    sure = ParetoFront([candidate(50, 50, 100), candidate(90, 88, 50)], COSTS, luck=3.0)
    assert sure.select(min_accuracy=1.0).evaluation.right == 50
    assert sure.select(min_accuracy=0.0).evaluation.right == 88


def test_the_most_accurate_is_so_less_its_margin():
    few = ParetoFront([candidate(10, 10, 100), candidate(90, 88, 50)], COSTS)
    assert few.select(by="accuracy", caution=0).evaluation.accepted == 10
    assert few.select(by="accuracy", caution=2).evaluation.accepted == 90


def test_rows_that_folds_repeat_are_counted_once():
    once = ParetoFront([candidate(90, 84, 100)], COSTS)
    thrice = ParetoFront([candidate(90, 84, 100)], COSTS, repeats=3.0)
    bound = 0.9
    assert once.select(min_accuracy=bound, caution=1)
    with pytest.raises(SelectionError):
        thrice.select(min_accuracy=bound, caution=1)
    assert thrice.select(min_accuracy=bound, caution=0)


def test_what_cannot_be_met_says_how_far_each_bound_can_and_what_no_caution_gives():
    with pytest.raises(SelectionError) as e:
        FRONT.select(min_accuracy=0.95, max_cost=2.5)
    told = str(e.value)
    assert told.startswith("No candidate meets cost <= 2.5 and accuracy >= 0.95, for shares of row")
    assert (
        "At best, with the other bounds as given: cost: no candidate meets the other bounds; "
        "accuracy 0.8774 with " in told
    )
    assert "No candidate meets them without the margin (caution=0) either." in told
    with pytest.raises(SelectionError, match=r"Without the margin, caution=0 gives a \| b at"):
        FRONT.select(min_accuracy=0.97)
    with pytest.raises(SelectionError) as e:
        FRONT.select(max_cost=0.5, min_coverage=0.95)
    assert "margin" not in str(e.value), "cost and coverage have none"


def test_precision_that_a_file_did_not_keep_is_told_by_name():
    three = dict.fromkeys("xyz", 10)
    e = Evaluation(30, 30, 30, 30.0, three, three, three)
    front = ParetoFront([Candidate(StageDesign([0, -1, -1]), 0.5, e)], COSTS)
    assert e.precision == {}
    with pytest.raises(SelectionError, match="`min_precision` needs the number of rows"):
        front.select(min_precision={"x": 0.5})
    with pytest.raises(SelectionError, match="`max_rejected` names 'w', which is not a class"):
        front.select(max_rejected={"w": 0.5})


@pytest.mark.parametrize(
    "wrong",
    [
        {"min_precision": 0.9},
        {"max_missed": {"x": "0.1"}},
        {"max_rejected": {"x": float("nan")}},
        {"min_accuracy": "0.9"},
        {"max_cost": float("nan")},
    ],
    ids=str,
)
def test_bounds_that_are_no_numbers_are_refused_by_name(wrong):
    (name,) = wrong
    with pytest.raises(SelectionError, match=f"`{name}.* must be a"):
        FRONT.select(**wrong)


def test_luck_is_part_of_a_front():
    assert ParetoFront(FRONT, COSTS, luck=2.0) == FRONT != ParetoFront(FRONT, COSTS, luck=1.0)
    assert FRONT.thinned([0, 2], "Thinned.").luck == 2.0
    assert [c.evaluation.right for c in FRONT.thinned([2, 0], "Thinned.")] == [81, 88]
    assert FRONT.thinned([0], "Thinned.").measured_on == "Thinned."
    assert FRONT.merge(ParetoFront(FRONT, COSTS, luck=3.0)).luck == 3.0
    assert FRONT.merge(ParetoFront(FRONT, COSTS)).luck is None
    assert FRONT.merge(ParetoFront(FRONT, COSTS, luck=1.0, repeats=2.0)).repeats == 2.0
    for wrong in ({"luck": float("nan")}, {"repeats": 0.5}):
        with pytest.raises(SelectionError, match="must be a number"):
            ParetoFront(FRONT, COSTS, **wrong)


def test_every_choice_has_its_rule_in_a_sentence():
    for by, optimised in optimisable().items():
        told = Bounds(by=by, min_accuracy=0.9).sentence(1.7, 12)
        assert told.startswith(f"Rule: {optimised.best} of 12 candidates with accuracy >= 0.9;")
        assert "1.7 standard errors" in told
        assert ("as counted" in told) == (by in ("coverage", "fitness", "loss"))
    assert Bounds().sentence(1.7, 12) == "Rule: the cheapest of 12 candidates."


def test_a_choice_among_ten_thousand_takes_milliseconds():
    rng = np.random.default_rng(0)
    found = []
    for i in range(10_000):  # none dominates another: what is dearer is more accurate
        accepted = int(rng.integers(500, 1_000))
        right = int(accepted * (0.5 + i / 25_000))
        rows = {"x": 500, "y": 500}
        half = {"x": accepted // 2, "y": accepted - accepted // 2}
        good = {"x": min(right // 2, half["x"]), "y": 0}
        good["y"] = right - good["x"]
        e = Evaluation(1_000, accepted, right, 100.0 + i, rows, half, good)
        found.append(Candidate(StageDesign([0, 1, 2]), 0.75, e))
    front = ParetoFront(found, COSTS, luck=1.7)
    asked = {"min_accuracy": 0.7, "min_coverage": 0.8, "max_missed": {"x": 0.4}}
    front.select(**asked)
    took = []
    for _ in range(5):
        began = time.perf_counter()
        front.select(**asked)
        took.append(time.perf_counter() - began)
    assert min(took) < 0.01
