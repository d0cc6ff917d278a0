"""The report in a real browser: sliders choose what `select` chooses, and nothing is asked for."""

from __future__ import annotations

import json
import random
import re

import numpy as np
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from emsco._utils.text_table import cell
from emsco.core.interval import interval_text
from emsco.exceptions import SelectionError

WIDTHS = [1280, 390]


def widen(browser, width):
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def as_at_first(browser, width):
    """Bring the page that is open back to how it opens."""
    widen(browser, width)
    browser.execute_script("document.getElementById('start').click(); scrollTo(0, 0)")
    settle(browser)
    return browser


@pytest.fixture(scope="module", params=WIDTHS)
def loaded(browser, page, request):
    """Load the page at a width: so long takes the script of plotly that tests share it."""
    browser.get_log("performance")  # what was before is forgotten
    browser.get_log("browser")
    widen(browser, request.param)
    browser.get(page.as_uri())
    settle(browser)
    return request.param


@pytest.fixture
def opened_at_widths(browser, loaded):
    return as_at_first(browser, loaded)


@pytest.fixture
def opened(browser, page):
    if browser.current_url != page.as_uri():
        browser.get(page.as_uri())
        settle(browser)
    return as_at_first(browser, 1280)


def settle(browser):
    """Wait until the plot shows what the words tell."""
    WebDriverWait(browser, 60).until(
        lambda b: b.execute_script(
            "const of = (id) => document.getElementById(id).dataset.candidate;"
            "return of('told') !== undefined && of('told') === of('plot')"
        )
    )


def press(browser, slider, key):
    """Press a key, and wait until the slider has moved and the page with it."""
    before = slider.get_property("value")
    slider.send_keys(key)
    WebDriverWait(browser, 60).until(lambda _: slider.get_property("value") != before)
    settle(browser)


def text(browser, identity):
    return browser.find_element(By.ID, identity).get_attribute("textContent")


def chosen(browser):
    return int(browser.find_element(By.ID, "told").get_attribute("data-candidate"))


def star(browser):
    """Say where the chosen point is drawn."""
    return browser.execute_script(
        "const star = document.getElementById('plot').data.find((t) => t.name === 'chosen');"
        "return [star.x[0], star.y[0]]"
    )


def figures(browser):
    """Read the table: a row by its name."""
    rows = browser.execute_script(
        "return [...document.querySelectorAll('#figures tbody tr')]"
        ".map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    return {name: values for name, *values in rows}


def move(browser, **positions):
    """Put sliders somewhere, each at a share of its length, as dragging does."""
    browser.execute_async_script(
        "for (const [id, at] of Object.entries(arguments[0])) {"
        "const slider = document.getElementById(id);"
        "slider.value = Math.round(at * slider.max);"
        "slider.dispatchEvent(new Event('input', {bubbles: true})) }"
        "const done = arguments[1]; requestAnimationFrame(() => setTimeout(done, 0))",
        positions,
    )


def bounds_of(browser):
    """Read what would choose the same in Python."""
    line = next(row for row in text(browser, "python").splitlines() if ".choose(" in row)
    return eval(line.replace("search.choose", "dict"))  # the page's own line


def test_it_opens_with_the_choice(browser, loaded, search):
    assert loaded in WIDTHS
    assert search.front_[chosen(browser)] == search.best_candidate_


def test_the_choice_follows_the_sliders(opened_at_widths, search):
    browser = opened_at_widths
    for positions in ({}, {"min_accuracy": 0.2}, {"min_accuracy": 0.8, "min_coverage": 0.3}):
        move(browser, **positions)
        settle(browser)
        candidate = search.best_candidate_  # at first, and then by bounds
        if positions:
            candidate = search.front_.select(**bounds_of(browser))
        evaluation = candidate.evaluation
        assert search.front_[chosen(browser)] == candidate
        assert star(browser) == [evaluation.cost, evaluation.accuracy]
        assert figures(browser)["accuracy"][0] == f"{evaluation.accuracy:.1%}"
        tiles = browser.execute_script(
            "return [...document.querySelectorAll('.tile strong')].map((t) => t.textContent)"
        )
        loss = evaluation.cost + 25 * (1 - evaluation.coverage)
        assert tiles[0] == f"{cell(loss)} {search.costs_.unit}"
        assert tiles[1:] == [f"{evaluation.coverage:.1%}", f"{evaluation.accuracy:.1%}"]
        assert f"accepts {evaluation.coverage:.1%} of the rows" in text(browser, "told")
    assert candidate != search.best_candidate_


def test_nothing_is_asked_for_and_nothing_goes_wrong(opened_at_widths, page):
    browser = opened_at_widths
    move(browser, max_cost=0.5, min_coverage=0.5, min_accuracy=0.5, max_missed_0=0.5)
    settle(browser)
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
    assert page.as_uri() in asked  # so the log does see requests
    asked = [url for url in asked if url != page.as_uri()]
    assert set(asked) <= {"data:,"}
    assert [e for e in browser.get_log("browser") if e["level"] in ("SEVERE", "WARNING")] == []


def test_the_page_may_not_ask_even_if_it_wanted_to(opened):
    refused = opened.execute_async_script(
        "const done = arguments[0];"
        "addEventListener('securitypolicyviolation', (e) => done(e.effectiveDirective));"
        "fetch('https://example.com/').catch(() => {})"
    )
    assert refused == "connect-src"


def test_sliders_choose_what_select_chooses(opened, search):
    """At thirty places of sliders at once; where nothing is within, the closest is shown."""
    generator = random.Random(0)
    seen, fitting = set(), 0
    for _ in range(30):
        positions = {"max_cost": 1, "min_coverage": 0, "min_accuracy": 0, "max_missed_0": 1}
        for identity, loose in [*positions.items(), ("max_missed_1", 1)]:
            away = generator.random() if generator.random() < 0.6 else 0
            positions[identity] = abs(loose - away)
        move(opened, **positions)
        try:
            expected = search.front_.select(**slider_bounds(opened, search))
            begin = "The cheapest cascade within the bounds costs"
            fitting += 1
        except SelectionError as error:
            expected, begin = error.closest, "No candidate is within these bounds"
        assert search.front_[chosen(opened)] == expected
        assert text(opened, "told").startswith(begin)
        # What the page says to type gives what it shows, also where its bounds cannot be met.
        assert search.front_.select(**bounds_of(opened)) == expected
        seen.add(chosen(opened))
    assert len(seen) > 10
    assert 5 < fitting < 30


def slider_bounds(browser, search):
    """Read the bounds that the sliders tell."""
    told = browser.execute_script(
        "return [...document.querySelectorAll('.slider')].map("
        "(s) => [s.querySelector('input').id, s.querySelector('output').textContent])"
    )
    values = {}
    for identity, value in told:
        if value == "no bound":
            continue
        number = float(re.match(r"[\d.,]+", value)[0].replace(",", ""))
        number = round(number / 100, 6) if value.endswith("%") else number
        parameter, _, place = identity.rpartition("_")
        if place.isdigit():
            values.setdefault(parameter, {})[search.classes_.tolist()[int(place)]] = number
        else:
            values[identity] = number
    return values


def test_the_table_tells_the_chosen_beside_all_sources(opened, search, rows):
    scored = search.score_front(*rows[1])
    for position in (0.3, 0.6, 0.9):
        move(opened, min_accuracy=0, min_coverage=position)
        i = chosen(opened)
        own, fresh = search.front_[i].evaluation, scored[i].fresh
        whole, as_many = search.all_sources_.evaluation, search.all_sources_at(own.coverage)
        table = figures(opened)
        assert table["accuracy"][:2] == [f"{own.accuracy:.1%}", f"{fresh.accuracy:.1%}"]
        assert table["coverage"][:2] == [f"{own.coverage:.1%}", f"{fresh.coverage:.1%}"]
        assert table["accuracy"][2] == f"{as_many.accuracy:.1%}"
        assert table["accuracy"][3] == f"{whole.accuracy:.1%}"
        assert table["its 95% interval"][:2] == [
            interval_text(e.accepted, e.rows) if 0 < e.coverage < 1 else "\u2013"
            for e in (own, fresh)
        ]
        costs = next(values for name, values in table.items() if name.startswith("cost"))
        assert costs[:2] == [cell(float(own.cost)), cell(float(fresh.cost))]
        review = {name: values for name, values in table.items() if name.startswith("+ review")}
        assert [values[0] for values in review.values()] == [cell(25 * (1 - own.coverage))]
        loss = next(values for name, values in table.items() if name.startswith("= loss"))
        assert loss[1] == cell(fresh.cost + 25 * (1 - fresh.coverage))
        assert loss[3] == cell(float(whole.cost))


def test_the_cascade_is_drawn_stage_by_stage_with_its_prices(opened, search):
    for position in (0.2, 0.7, 1.0):
        move(opened, min_accuracy=position)
        candidate = search.front_[chosen(opened)]
        stages = opened.execute_script(
            "return [...document.querySelectorAll('#cascade .stage:not(.rejected)')].map((s) => ["
            "[...s.querySelectorAll('ul li:not(.setup) span:first-child')]"
            ".map((n) => n.textContent),"
            "s.querySelector('h3 span:last-child').textContent])"
        )
        assert [tuple(names) for names, _ in stages] == list(candidate.design.stages)
        for i, (names, price) in enumerate(stages):
            paid = candidate.design.acquired(i - 1) if i else ()
            of = search.costs_.of(names, paid=paid)
            assert price == f"for {cell(of)} {search.costs_.unit}"
        unused = ", ".join(candidate.design.unused)
        told = text(opened, "unused")
        assert told.startswith(f"Never bought: {unused}. That saves ") if unused else told == ""


def test_a_bar_shows_what_each_stage_takes_of_the_full_price(opened, search):
    for position in (0.2, 1.0):
        move(opened, min_accuracy=position)
        design = search.front_[chosen(opened)].design
        costs = search.costs_
        wanted = [costs.of(design.acquired(i)) for i in range(design.n_stages)]
        wanted = [*np.diff([0, *wanted]), costs.total - wanted[-1]]
        widths = opened.execute_script(
            "return [...document.querySelectorAll('#prices span')]"
            ".map((s) => s.getBoundingClientRect().width)"
        )
        wanted = [price for price in wanted if price > 1e-9]
        np.testing.assert_allclose(
            np.array(widths) / sum(widths), np.array(wanted) / sum(wanted), atol=0.01
        )


def test_sliders_have_labels_and_move_by_keys(opened, search):
    slider = opened.find_element(By.ID, "min_coverage")
    label = opened.find_element(By.CSS_SELECTOR, "label[for=min_coverage]")
    assert label.text.startswith("coverage, at least")
    before = slider.get_attribute("aria-valuetext")
    press(opened, slider, Keys.END)
    assert slider.get_attribute("aria-valuetext") != before
    assert slider.get_attribute("aria-valuetext") in label.text
    press(opened, slider, Keys.HOME)
    assert slider.get_attribute("aria-valuetext") == "no bound"
    press(opened, slider, Keys.ARROW_RIGHT)
    assert re.fullmatch(r"\d+\.\d%", slider.get_attribute("aria-valuetext"))
    accuracy = opened.find_element(By.ID, "min_accuracy")
    press(opened, accuracy, Keys.END)
    assert slider_bounds(opened, search)["min_accuracy"] <= 1
    press(opened, accuracy, Keys.HOME)
    evaluation = search.front_[chosen(opened)].evaluation
    assert evaluation.cost == search.front_[0].evaluation.cost  # nothing asked for: the cheapest


def test_it_opens_without_bounds_that_nobody_set(opened, search):
    told = opened.execute_script(
        "return [...document.querySelectorAll('.slider output')].map((o) => o.textContent)"
    )
    assert set(told) == {"no bound"}
    grey, coloured = opened.execute_script(
        "return document.getElementById('plot').data.slice(0, 2).map((t) => t.x.length)"
    )
    assert (grey, coloured) == (0, len(search.front_))
    assert "search.choose()" in text(opened, "python")
    assert "emsco select run/ --out model.emsco" in text(opened, "shell")


def test_the_flow_of_fresh_rows_is_shown_for_the_choice_of_the_search(opened, search, rows):
    flow = opened.find_element(By.ID, "flow")
    assert flow.is_displayed()
    assert "How 400 fresh rows flow through it" in flow.text
    told = flow.find_element(By.TAG_NAME, "svg").get_attribute("aria-label")
    leaving = search.decide(rows[1][0])
    first = int(((leaving.exit_stage == 0) & leaving.accepted).sum())
    assert f"accepted at stage 0 {first:,} rows (" in told
    tiles = opened.find_element(By.ID, "tiles")
    assert tiles.location["y"] < flow.location["y"]
    move(opened, max_cost=0.1)
    assert not flow.is_displayed(), "it is about another cascade"


def test_buttons_free_the_bounds_and_bring_the_choice_back(opened, search):
    opened.find_element(By.ID, "free").click()
    settle(opened)
    assert search.front_[chosen(opened)].evaluation.cost == search.front_[0].evaluation.cost
    opened.find_element(By.ID, "start").click()
    settle(opened)
    assert search.front_[chosen(opened)] == search.best_candidate_


def test_a_click_on_a_point_chooses_it(opened, search):
    wanted = len(search.front_) // 2
    opened.execute_script(
        "document.getElementById('plot').emit('plotly_click',"
        "{points: [{customdata: arguments[0]}]})",
        wanted,
    )
    settle(opened)
    assert chosen(opened) == wanted


def test_nothing_is_wider_than_the_window(opened_at_widths):
    opened = opened_at_widths
    for position in (0.0, 1.0):
        move(opened, min_accuracy=position)
        settle(opened)
        wide, inner = opened.execute_script(
            "return [document.documentElement.scrollWidth, window.innerWidth]"
        )
        assert wide <= inner
    outside = opened.execute_script(
        "return [...document.querySelectorAll('body *')].filter((e) => {"
        "const box = e.getBoundingClientRect();"
        "return box.width && (box.left < -1 || box.right > window.innerWidth + 1)"
        "&& !e.closest('svg') && !e.closest('.wide') })"
        ".map((e) => e.tagName + '.' + e.className)"
    )
    assert outside == []


def test_hostile_names_are_shown_as_they_are_written(opened, search):
    assert opened.title.startswith("A title </script><img")
    assert opened.execute_script("return document.images.length") == 0
    assert (
        opened.execute_script("return document.querySelectorAll('main b, main i, hr').length") == 0
    )
    assert not opened.execute_script("return document.querySelectorAll('#plot a').length")
    names = opened.execute_script(
        "return [...document.getElementById('plot').data[1].text].join('')"
    )
    assert "<img" not in names
    assert "&lt;img" in names
    axis = opened.execute_script("return document.querySelector('#plot .xtitle').textContent")
    assert axis == f"cost ({search.costs_.unit})"
