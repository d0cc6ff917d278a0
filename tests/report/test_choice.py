"""The page chooses what `ParetoFront.select` chooses: a thousand bounds at once, three classes."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest

from emsco.core.caution import standard_errors
from emsco.core.selection import Bounds
from emsco.exceptions import SelectionError
from emsco.report import report

BY_CLASS = ("max_missed", "max_rejected", "min_precision")

# Frames come when they are called for: a thousand choices take seconds.
AT_ONCE = """
const asked = window.requestAnimationFrame;
const at = (id) => document.getElementById(id);
const fire = (element, kind) => element.dispatchEvent(new Event(kind, {bubbles: true}));
let frame = null, before = null;
window.requestAnimationFrame = (show) => { frame = show; return 0; };
const read = () => ({
  bounds: [...document.querySelectorAll('.slider input')].map((s) => [s.id, s.dataset.bound])
    .filter(([, bound]) => bound !== '').map(([id, bound]) => [id, Number(bound)]),
  candidate: Number(at('told').dataset.candidate), told: at('told').textContent,
  rule: at('rule').textContent, python: at('python').textContent, shell: at('shell').textContent,
});
try { return arguments[0].map(CHOOSE) }
finally { window.requestAnimationFrame = asked }
"""
BY_SLIDERS = AT_ONCE.replace(
    "CHOOSE",
    """([caution, positions]) => {
  if (caution !== before) {
    at('caution').value = caution === 'auto' ? 'auto' : 'number';
    fire(at('caution'), 'change');
    at('caution_number').value = caution;
    if (caution !== 'auto') fire(at('caution_number'), 'input');
    before = caution;
  }
  for (const [id, share] of Object.entries(positions)) {
    at(id).value = Math.round(share * at(id).max);
    fire(at(id), 'input');
  }
  frame();
  return read();
}""",
)
BY_CLICKS = AT_ONCE.replace(
    "CHOOSE",
    """(place) => {
  const point = document.querySelector(`#drawing .inside [data-candidate='${place}']`);
  point.dispatchEvent(new MouseEvent('click', {bubbles: true}));
  return {...read(), caution: at('caution').value};
}""",
)


@pytest.fixture(scope="module")
def page(three, tmp_path_factory):
    return report(three, tmp_path_factory.mktemp("choice") / "report.html")


@pytest.fixture
def opened(browser, page):
    browser.get(page.as_uri())
    return browser


def drawn(generator, loose):
    """Draw where sliders stand: some of them away from their loose end, more or less far."""
    many = generator.choice([0.15, 0.3, 0.6])
    positions = {}
    for identity, end in loose.items():
        away = generator.random() ** 0.5 if generator.random() < many else 0
        positions[identity] = abs(end - (1 if generator.random() < 0.02 else away))
    return generator.choice(["auto", "auto", 0, 0.5, 1, 1.7, 3]), positions


def by_label(bounds, labels):
    """Give the page's bounds as `ParetoFront.select` takes them."""
    asked = {}
    for identity, value in bounds:
        parameter, _, place = identity.rpartition("_")
        if parameter in BY_CLASS:
            asked.setdefault(parameter, {})[labels[int(place)]] = value
        else:
            asked[identity] = value
    return asked


def in_python(lines):
    """Read what would choose the same."""
    line = next(row for row in lines.splitlines() if row.startswith("search.choose("))
    return eval(line.replace("search.choose", "dict"))  # the page's own line


def at_best(told):
    """Read how far each bound could be met; names hold no digits here."""
    sentence = told[told.index("At best") :].partition(". ")[0]
    return re.findall(r"\d[\d.,]*|no candidate", sentence)


def selected(front, **asked):
    """Select; where nothing is within the bounds, give the closest and the error."""
    try:
        return front.select(**asked), None
    except SelectionError as error:
        return error.closest, error


def test_a_thousand_bounds_choose_what_select_chooses(opened, three):
    """Also where they cannot be met: then the closest, and how far each could be."""
    front, labels = three.front_, three.classes_.tolist()
    assert front.repeats == 3
    names = [f"{parameter}_{k}" for parameter in BY_CLASS for k in range(len(labels))]
    loose = {
        name: float(name.startswith("max_"))
        for name in ["max_cost", "min_coverage", "min_accuracy", *names]
    }
    generator = random.Random(22)
    cases = [drawn(generator, loose) for _ in range(1000)]
    cases.sort(key=lambda case: str(case[0]))  # to change caution seldom
    met, chosen, used = 0, set(), Counter()
    for (caution, _), seen in zip(cases, opened.execute_script(BY_SLIDERS, cases), strict=True):
        asked = by_label(seen["bounds"], labels)
        used.update(asked.keys())
        expected, error = selected(front, **asked, caution=caution)
        if error is not None:
            assert seen["told"].startswith("No candidate is within these bounds")
            assert at_best(seen["told"]) == at_best(str(error))
        else:
            met += 1
            assert seen["told"].startswith("The cheapest cascade within the bounds costs")
            z = standard_errors(caution, front.luck)
            assert seen["rule"] == Bounds(**asked).sentence(z, len(front))
        assert front[seen["candidate"]] == expected, (asked, caution)
        # What it says to type gives what it shows, also where its bounds cannot be met.
        typed = in_python(seen["python"])
        assert front.select(**typed) == expected
        assert ("--caution" in seen["shell"]) == ("caution" in typed)
        chosen.add(seen["candidate"])
    assert 300 < met < 700
    assert len(chosen) > 100
    assert min(used.values()) > 200
    assert len(used) == 6


@pytest.mark.parametrize("caution", ["auto", 25])
def test_every_point_is_chosen_by_a_click_and_by_what_is_typed(opened, three, caution):
    """With the margin where bounds can, else as counted; no bound is set, and no point is grey."""
    front = three.front_
    opened.execute_script(BY_SLIDERS, [[caution, {"max_cost": 1.0}]])
    places = [*range(0, len(front), 3)]
    with_margin, with_more = 0, 0
    for i, seen in zip(places, opened.execute_script(BY_CLICKS, places), strict=True):
        assert seen["candidate"] == i
        typed = in_python(seen["python"])
        assert front.select(**typed) == front[i]
        told = typed.get("caution", "auto")
        assert told in (caution, 0)
        assert seen["bounds"] == []
        assert seen["told"].startswith("The cascade that ")
        assert seen["caution"] == {"auto": "auto", 25: "number"}[caution]
        with_margin += told == caution
        with_more += any(name in typed for name in BY_CLASS)
    assert 0 < with_more < len(places) / 2  # bounds on coverage and accuracy do for most
    if caution == "auto":
        assert with_margin > 0.9 * len(places)
    else:  # so wide that some cannot be chosen with it
        assert len(places) / 2 < with_margin < len(places)


def test_without_bounds_what_is_typed_is_not_the_default_choice(opened, three):
    opened.execute_script("document.getElementById('free').click()")
    line = opened.execute_script("return document.getElementById('python').textContent")
    assert in_python(line) == {"by": "cost"}
    chosen = opened.execute_script("return document.getElementById('told').dataset.candidate")
    assert three.front_[int(chosen)] == three.front_.select(by="cost")
