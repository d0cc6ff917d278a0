"""The report in a real browser: sliders choose what `select` chooses, and nothing is asked for."""

from __future__ import annotations

import json
import random
import re
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from emsco._utils.text_table import cell
from emsco.core.interval import interval_text
from emsco.exceptions import SelectionError
from emsco.report import report
from tests.report.conftest import NAMES

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
    """Load the page at a width, once for the tests that share it."""
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


def middles(browser, selector):
    """Say where parts of the drawing are, in pixels of the window."""
    return browser.execute_script(
        "return [...document.querySelectorAll('#drawing ' + arguments[0])].map((part) => {"
        "const box = part.getBoundingClientRect();"
        "return [(box.left + box.right) / 2, (box.top + box.bottom) / 2] })",
        selector,
    )


def place(browser, evaluation):
    """Say where a candidate must be, by the labels of the axes."""
    pixels = []
    for axis, value in enumerate([evaluation.cost, evaluation.accuracy]):
        ticks = f".tick.{'xy'[axis]}"
        at = [float(t.get_attribute("data-value")) for t in drawn(browser, ticks)]
        where = [middle[axis] for middle in middles(browser, ticks)]
        slope, start = np.polyfit(at, where, 1)  # no axis here is logarithmic
        np.testing.assert_allclose(np.multiply(slope, at) + start, where, atol=2)
        pixels.append(slope * value + start)
    return pixels


def drawn(browser, selector):
    return browser.find_elements(By.CSS_SELECTOR, f"#drawing {selector}")


def seen(browser, layer):
    """List the candidates whose points are drawn, outside or inside the bounds."""
    return browser.execute_script(
        "return [...document.querySelectorAll('#drawing .' + arguments[0] + ' circle')]"
        ".filter((point) => getComputedStyle(point).display !== 'none')"
        ".map((point) => Number(point.dataset.candidate))",
        layer,
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
        (star,) = middles(browser, "[data-mark=chosen]")
        np.testing.assert_allclose(star, place(browser, evaluation), atol=2.5)
        assert figures(browser)["accuracy"][0] == f"{evaluation.accuracy:.1%}"
        tiles = browser.execute_script(
            "return [...document.querySelectorAll('.tile strong')].map((t) => t.textContent)"
        )
        loss = evaluation.cost + 25 * (1 - evaluation.coverage)
        total = search.costs_.total
        assert tiles[0] == f"{evaluation.cost / total:.1%}"
        saved = f"saved: {cell(total - evaluation.cost)} {search.costs_.unit} of {cell(total)} "
        assert saved in text(browser, "tiles")
        assert tiles[1] == f"{cell(loss)} {search.costs_.unit}"
        assert tiles[2:] == [f"{evaluation.coverage:.1%}", f"{evaluation.accuracy:.1%}"]
        assert f"accepts {evaluation.coverage:.1%} of the rows" in text(browser, "told")
        as_many = search.all_sources_at(evaluation.coverage).accuracy
        beside = " accepting as many rows" if evaluation.coverage < 1 else ""
        right = f"is right on {evaluation.accuracy:.1%} of those (all sources{beside}: "
        assert f"{right}{as_many:.1%})" in text(browser, "told")
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
        words = {s.name: f" ({s.description})" for s in search.costs_.sources if s.description}
        unused = ", ".join(name + words.get(name, "") for name in candidate.design.unused)
        told = text(opened, "unused")
        assert told.startswith(f"Never bought: {unused}. That saves ") if unused else told == ""


def test_sources_and_setups_are_told_in_words(opened, search):
    """Where they are bought, and where they are not; visible, and as text."""
    described = {source.name: source.description for source in search.costs_.sources}
    seen = set()
    for position in np.linspace(0, 1, 9):
        move(opened, min_accuracy=float(position))
        stages, unused = opened.find_element(By.ID, "cascade").text, text(opened, "unused")
        design = search.front_[chosen(opened)].design
        words = described["s0"]
        assert (words in stages) == ("s0" in design.acquired(design.n_stages - 1))
        assert (f"s0 ({words})" in unused) == ("s0" in design.unused)
        buys_setup = {NAMES[1], NAMES[2]} & set(design.acquired(design.n_stages - 1))
        assert (search.costs_.descriptions["draw <hr>"] in stages) == bool(buys_setup)
        seen |= {("s0" in design.unused, bool(buys_setup))}
    assert len(seen) > 1


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
    assert seen(opened, "outside") == []
    assert sorted(seen(opened, "inside")) == list(range(len(search.front_)))
    assert "search.choose()" in text(opened, "python")
    assert "emsco select run/ --out model.emsco" in text(opened, "shell")


def test_the_flow_of_fresh_rows_is_shown_for_the_choice_of_the_search(opened, search, rows):
    flow = opened.find_element(By.ID, "flow")
    assert flow.is_displayed()
    assert "How 400 fresh rows flow through the chosen cascade" in flow.text
    told = flow.find_element(By.TAG_NAME, "svg").get_attribute("aria-label")
    leaving = search.decide(rows[1][0])
    first = int(((leaving.exit_stage == 0) & leaving.accepted).sum())
    assert f"accepted at stage 0 {first:,} rows (" in told
    cascade = opened.find_element(By.ID, "cascade")
    assert cascade.location["y"] < flow.location["y"], "what it is about comes first"
    move(opened, max_cost=0.1)
    assert not flow.is_displayed(), "it is about another cascade"


def test_buttons_free_the_bounds_and_bring_the_choice_back(opened, search):
    opened.find_element(By.ID, "free").click()
    settle(opened)
    assert search.front_[chosen(opened)].evaluation.cost == search.front_[0].evaluation.cost
    opened.find_element(By.ID, "start").click()
    settle(opened)
    assert search.front_[chosen(opened)] == search.best_candidate_


def test_every_point_is_where_its_figures_say(opened, search):
    points = middles(opened, ".inside circle")
    order = [int(c.get_attribute("data-candidate")) for c in drawn(opened, ".inside circle")]
    for i, where in list(zip(order, points, strict=True))[::7]:
        wanted = place(opened, search.front_[i].evaluation)
        np.testing.assert_allclose(where, wanted, atol=2.5)
    coverages = [search.front_[i].evaluation.coverage for i in order]
    assert coverages == sorted(coverages), "what accepts more is drawn above"
    shades = {c.get_attribute("fill") for c in drawn(opened, ".inside circle")}
    assert len(shades) > 10


def alone(browser):
    """Give the point that is farthest from all others, and where it is."""
    circles = drawn(browser, ".inside circle")
    points = np.array(middles(browser, ".inside circle"))
    away = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.fill_diagonal(away, np.inf)
    at = int(away.min(axis=1).argmax())
    return int(circles[at].get_attribute("data-candidate")), circles[at], points[at].tolist()


@pytest.mark.parametrize("beside", [0, 8], ids=["on it", "beside it"])
def test_a_click_on_a_point_chooses_it_and_the_pointer_tells_it(opened, search, beside):
    opened.execute_script("document.getElementById('drawing').scrollIntoView({block: 'center'})")
    wanted, point, _ = alone(opened)
    pointer = ActionChains(opened).move_to_element_with_offset(point, beside, 0)
    pointer.perform()
    hover = opened.find_element(By.ID, "hover")
    assert hover.is_displayed()
    evaluation = search.front_[wanted].evaluation
    assert f"accuracy {evaluation.accuracy:.1%}, coverage {evaluation.coverage:.1%}" in hover.text
    pointer.click().perform()
    settle(opened)
    assert chosen(opened) == wanted


def test_a_click_far_from_every_point_chooses_nothing(opened):
    opened.execute_script("document.getElementById('drawing').scrollIntoView({block: 'center'})")
    before = chosen(opened)
    title = drawn(opened, ".title.y")[0]
    ActionChains(opened).move_to_element(title).click().perform()
    assert chosen(opened) == before
    assert not opened.find_element(By.ID, "hover").is_displayed()


def test_arrow_keys_choose_the_next_point(opened, search):
    plot = opened.find_element(By.ID, "plot")
    plot.send_keys(Keys.HOME)
    settle(opened)
    assert chosen(opened) == 0
    plot.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_LEFT)
    settle(opened)
    assert chosen(opened) == 1
    plot.send_keys(Keys.END)
    settle(opened)
    assert chosen(opened) == len(search.front_) - 1


def test_bounds_are_dotted_lines_and_points_outside_them_are_grey(opened, search):
    move(opened, max_cost=0.6, min_accuracy=0.4, min_coverage=0.3)
    settle(opened)
    asked = bounds_of(opened)
    inside = [i for i, c in enumerate(search.front_) if c.evaluation.cost <= asked["max_cost"]]
    assert 0 < len(seen(opened, "inside")) < len(search.front_)
    assert set(seen(opened, "inside")) <= set(inside)
    assert sorted(seen(opened, "inside") + seen(opened, "outside")) == [*range(len(search.front_))]
    lines = {line.get_attribute("data-bound"): line for line in drawn(opened, ".bound")}
    assert lines.keys() == {"cost", "accuracy", "coverage"}
    at = SimpleNamespace(cost=asked["max_cost"], accuracy=asked["min_accuracy"])
    x, y = place(opened, at)
    (own,) = middles(opened, "[data-bound=cost]")
    assert abs(own[0] - x) < 2.5
    (own,) = middles(opened, "[data-bound=accuracy]")
    assert abs(own[1] - y) < 2.5


def test_labels_of_ticks_never_overlap(opened_at_widths):
    for axis, (low, high) in {"x": (0, 2), "y": (1, 3), "bar": (0, 2)}.items():
        boxes = opened_at_widths.execute_script(
            "return [...document.querySelectorAll('#drawing .tick.' + arguments[0])].map((t) => {"
            "const box = t.getBoundingClientRect();"
            "return [box.left, box.top, box.right, box.bottom] })",
            axis,
        )
        assert len(boxes) >= 3
        boxes.sort(key=lambda box: box[low])
        assert all(a[high] < b[low] for a, b in pairwise(boxes))
        outer = opened_at_widths.execute_script("return innerWidth")
        assert all(box[0] >= 0 and box[2] <= outer for box in boxes)


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_text_stands_out_in_light_and_in_dark(opened, mode):
    """By the contrast that WCAG asks of small text: 4.5 to 1."""
    scheme = {"name": "prefers-color-scheme", "value": mode}
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    try:
        colours = opened.execute_script(
            "const of = (selector, what) => getComputedStyle(document.querySelector(selector))"
            "[what].match(/\\d+/g).slice(0, 3).map(Number);"
            "return [['.card', '.card h2', 'color'], ['.card', '.note', 'color'],"
            "['.told', '.told', 'color'], ['body', 'footer', 'color'],"
            "['.prices .paid', '.prices .paid', 'color'], ['.card', '#drawing .tick', 'fill'],"
            "['pre', 'pre', 'color'], ['button', 'button', 'color']].map(([paper, text, what]) =>"
            "[of(paper, 'backgroundColor'), of(text, what)])"
        )
    finally:
        opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    for paper, ink in colours:
        low, high = sorted(map(luminance, (paper, ink)))
        assert (high + 0.05) / (low + 0.05) >= 4.5, (paper, ink)
    assert (luminance(colours[0][0]) < 0.2) == (mode == "dark")


def luminance(colour):
    parts = np.array(colour) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


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
    told = opened.execute_script(
        "return [...document.querySelectorAll('#drawing .inside circle')].map((point) => {"
        "point.dispatchEvent(new PointerEvent('pointermove', {bubbles: true}));"
        "return document.getElementById('hover').firstChild.textContent }).join(' ')"
    )
    assert "</script><img" in told
    assert opened.execute_script("return document.querySelectorAll('#hover :not(div)').length") == 0
    axis = opened.execute_script("return document.querySelector('#drawing .title.x').textContent")
    assert axis == f"cost per row ({search.costs_.unit})"


# A choice that is not on the front ---------------------------------------------------------------


@pytest.fixture(scope="module")
def all_sources(search, rows, tmp_path_factory):
    """Write the page of a search that chose all sources, which another candidate beats."""
    chosen, everything = search.best_candidate_, search.all_sources_
    assert everything not in search.front_
    try:
        search.choose(everything)
        return report(search, tmp_path_factory.mktemp("all") / "report.html", *rows[1])
    finally:
        search.choose(chosen)


@pytest.mark.parametrize("width", WIDTHS)
def test_tiles_star_drawing_and_lines_agree_where_the_choice_is_not_on_the_front(
    browser, all_sources, search, width
):
    widen(browser, width)
    browser.get(all_sources.as_uri())
    settle(browser)
    whole = search.all_sources_.evaluation
    assert chosen(browser) == len(search.front_)
    assert text(browser, "told").startswith("The cascade that the search chose costs ")
    assert f"right on {whole.accuracy:.1%} of those" in text(browser, "told")
    tiles = [tile.text for tile in browser.find_elements(By.CSS_SELECTOR, "#tiles strong")]
    assert tiles[0] == "100.0%"
    assert tiles[-2:] == ["100.0%", f"{whole.accuracy:.1%}"]
    own = figures(browser)["accuracy"]
    assert own[0] == own[-2] == f"{whole.accuracy:.1%}"
    (star,) = middles(browser, "[data-mark=chosen]")
    (square,) = middles(browser, "[data-mark='all sources, every row']")
    np.testing.assert_allclose(star, square, atol=2.5)
    (stage,) = browser.find_elements(By.CSS_SELECTOR, "#cascade .stage:not(.rejected)")
    assert f"for {cell(search.costs_.total)}" in stage.text
    assert browser.find_element(By.ID, "flow").is_displayed()
    assert "search.choose(search.all_sources_)" in text(browser, "python")
    assert "emsco select run/" not in text(browser, "shell")


def test_bounds_and_keys_choose_from_the_front_alone(browser, all_sources, search):
    widen(browser, 1280)
    browser.get(all_sources.as_uri())
    settle(browser)
    assert sorted(seen(browser, "inside")) == list(range(len(search.front_)))
    best = max(candidate.evaluation.coverage for candidate in search.front_)
    slider = browser.find_element(By.ID, "min_coverage")
    press(browser, slider, Keys.END)
    assert slider_bounds(browser, search)["min_coverage"] <= best
    assert chosen(browser) < len(search.front_)
    assert not browser.find_element(By.ID, "flow").is_displayed()
    assert "chosen by the search" in text(browser, "legend")
    browser.find_element(By.ID, "start").click()
    settle(browser)
    assert chosen(browser) == len(search.front_)
    browser.find_element(By.ID, "plot").send_keys(Keys.ARROW_RIGHT)
    settle(browser)
    assert chosen(browser) == len(search.front_) - 1
