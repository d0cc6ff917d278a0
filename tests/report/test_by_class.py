"""Whom a choice turns away, by which rule it is made, and what review and errors add."""

from __future__ import annotations

import copy
import shlex
import warnings
from dataclasses import replace

import numpy as np
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait
from sklearn.tree import DecisionTreeClassifier

from emsco import Candidate, CascadeSearchCV, ParetoFront
from emsco._utils.text_table import cell
from emsco.core.interval import interval_text
from emsco.datasets import make_costly_classification
from emsco.exceptions import SelectionWarning
from emsco.report import _data, report
from emsco.search import yardstick_of

WORDS = ("rejected", "missed", "recall", "precision")


def text(browser, identity):
    return browser.find_element(By.ID, identity).get_attribute("textContent")


def candidate(browser, search):
    return search.front_[int(browser.find_element(By.ID, "told").get_attribute("data-candidate"))]


def class_table(browser, identity="classes"):
    """Read the table by class: for each class in order, what each word says."""
    rows = browser.execute_script(
        "return [...document.querySelectorAll('#' + arguments[0] + ' tbody tr')].map((row) => ["
        "row.cells[0].firstChild.textContent, [...row.cells].slice(1).map("
        "(cell) => [...cell.children].map((told) => { const kept = told.cloneNode(true);"
        "kept.querySelectorAll('.counts').forEach((counts) => counts.remove());"
        "return kept.textContent }))])",
        identity,
    )
    return {label: dict(zip(WORDS, told, strict=True)) for label, told in rows}


def shown(evaluation, word, label, whole):
    """Print a share of a class as the page does: a dash where there is nothing to divide by."""
    return f"{getattr(evaluation, word)[label]:.1%}" if whole.get(label) else "\u2013"


def of(evaluation, word):
    """Give the counts that a share is of."""
    counts = {"recall": evaluation.class_accepted, "precision": evaluation.label_accepted}
    return counts.get(word, evaluation.class_rows)


def move(browser, **positions):
    browser.execute_async_script(
        "for (const [id, at] of Object.entries(arguments[0])) {"
        "const slider = document.getElementById(id);"
        "slider.value = Math.round(at * slider.max);"
        "slider.dispatchEvent(new Event('input', {bubbles: true})) }"
        "const done = arguments[1]; requestAnimationFrame(() => setTimeout(done, 0))",
        positions,
    )
    WebDriverWait(browser, 60).until(
        lambda b: b.execute_script(
            "const of = (id) => document.getElementById(id).dataset.candidate;"
            "return of('told') === of('plot')"
        )
    )


def quietly(call, *given, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SelectionWarning)
        return call(*given, **options)


@pytest.fixture(scope="module")
def fresh():
    """Give other rows, without one of the classes."""
    X, codes, _ = make_costly_classification(
        700, n_sources=5, n_classes=3, class_sep=1.0, random_state=1
    )
    kept = codes[400:] != 2
    labels = [["healthy", "hyper"][code] for code in codes[400:][kept]]
    return X[400:][kept], labels


@pytest.fixture(scope="module")
def three_page(three, fresh, tmp_path_factory):
    return report(three, tmp_path_factory.mktemp("three") / "report.html", *fresh)


@pytest.fixture(scope="module")
def ten():
    X, y, costs = make_costly_classification(
        600, n_sources=4, n_classes=10, class_sep=2.0, random_state=0
    )
    search = CascadeSearchCV(costs=costs, max_stages=2, threshold=[0.4, 0.6], random_state=0)
    return quietly(search.fit, X, y)


@pytest.fixture
def opened(browser, three_page):
    browser.get(three_page.as_uri())
    return browser


def test_every_class_has_its_shares_beside_fresh_rows_and_all_sources(opened, three, fresh):
    scored = three.score_front(*fresh)
    undefined = 0
    for position in (0.0, 0.5, 0.95):
        move(opened, min_accuracy=0, min_coverage=0, min_precision_1=position)
        chosen = candidate(opened, three)
        on_fresh = scored[three.front_.index(chosen)].fresh
        whole = three.all_sources_.evaluation
        as_many = three.all_sources_at(chosen.evaluation.coverage)
        table = class_table(opened)
        assert list(table) == three.classes_.tolist()
        for label, told in table.items():
            for word in WORDS:
                wanted = [
                    prefix + shown(e, word, label, of(e, word))
                    for prefix, e in (
                        ("", chosen.evaluation),
                        ("fresh ", on_fresh),
                        ("as many rows ", as_many),
                        ("all sources ", whole),
                    )
                ]
                assert told[word] == wanted
                undefined += told[word][1] == "fresh \u2013"
        assert all(told[1] == "fresh \u2013" for told in list(table["it's <hypo>"].values())[:3])
    assert undefined >= 9


def test_the_recall_is_said_to_be_that_of_accepted_rows(opened):
    heads = opened.execute_script(
        "return [...document.querySelectorAll('#classes .wide-head th')].map((h) => h.textContent)"
    )
    assert heads == ["class", "rejected", "missed", "recall when accepted", "precision"]
    tile = opened.find_element(By.CSS_SELECTOR, ".tile.class").text
    footer = opened.find_element(By.TAG_NAME, "footer").text
    for told in (tile, footer):
        assert told.count("recall") == told.count("recall when accepted") == 1


def test_shares_of_few_rows_have_their_counts_and_intervals(opened, three, fresh):
    chosen = candidate(opened, three)
    e = three.score_front(*fresh)[three.front_.index(chosen)].fresh
    told = opened.execute_script(
        "return [...document.querySelectorAll('#classes .counts')].map((counts) => "
        "[counts.parentElement.firstChild.textContent, counts.textContent])"
    )
    counted = [text for before, text in told if before == "fresh "]
    for label in ("healthy", "hyper"):
        part, whole = e.class_right[label], e.class_accepted[label]
        line = f"{part} of {whole} ({interval_text(part, whole)})"
        assert (line in counted) == (0 < whole < 100)


def test_tiles_tell_classes_at_a_glance_and_the_sentence_tells_whom_it_rejects(opened, three):
    tiles = opened.execute_script(
        "return [...document.querySelectorAll('.tile.class')].map((tile) => ["
        "tile.querySelector('.name').textContent,"
        "...[...tile.querySelectorAll('.own')].map((cell) => cell.textContent)])"
    )
    evaluation = candidate(opened, three).evaluation
    assert tiles == [
        [f"class {label}", *(shown(evaluation, w, label, of(evaluation, w)) for w in WORDS)]
        for label in three.classes_.tolist()
    ]
    for label, rejected in evaluation.rejected.items():
        told = f"{rejected:.1%} of class {label}" if rejected else f"none of class {label}"
        assert told in text(opened, "told")
        assert told in text(opened, "cascade")


def test_review_is_in_every_total(opened, three):
    move(opened, min_accuracy=0.9)
    evaluation = candidate(opened, three).evaluation
    review = 12 * (1 - evaluation.coverage)
    total = cell(evaluation.cost + review)
    paid = f"cost {cell(evaluation.cost)} + review {cell(review)} = loss {total}"
    assert f"; per row: {paid}." in text(opened, "told")
    assert f"loss{total}" in text(opened, "tiles")
    assert f"cost {cell(evaluation.cost)} + review {cell(review)}" in text(opened, "tiles")
    hover = opened.execute_script(
        "document.querySelector('#drawing [data-mark=chosen]')"
        ".dispatchEvent(new PointerEvent('pointermove', {bubbles: true}));"
        "return document.getElementById('hover').textContent"
    )
    assert paid in hover
    assert "rejected" in hover


def test_the_rule_is_the_searchs_own_at_first_and_follows_the_sliders(opened, three):
    assert three.choice_.is_default
    told = (
        f"{three.choice_.rule} This choice follows the default rule; once you move a slider, the "
        "cheapest candidate within the bounds is chosen instead."
    )
    assert text(opened, "rule") == told
    move(opened, max_rejected_2=0.5)
    assert text(opened, "rule").startswith(f"Rule: the cheapest of {len(three.front_)} candidates")
    assert "rejected it's <hypo> <= 0." in text(opened, "rule")
    assert "must meet their bounds with a margin of 1.3 standard errors." in text(opened, "rule")
    opened.find_element(By.ID, "start").click()
    assert text(opened, "rule") == told


def set_caution(browser, value, number=None):
    browser.execute_async_script(
        "const [value, number, done] = arguments, at = (id) => document.getElementById(id);"
        "at('caution').value = value; at('caution').dispatchEvent(new Event('change'));"
        "if (number !== null) { at('caution_number').value = number;"
        "at('caution_number').dispatchEvent(new Event('input')) }"
        "requestAnimationFrame(() => setTimeout(done, 0))",
        value,
        number,
    )


def test_caution_is_a_control_and_is_told_where_it_is_not_auto(opened):
    options = [o.text for o in opened.find_elements(By.CSS_SELECTOR, "#caution option")]
    assert options == ["auto: 1.3 standard errors", "0: as counted", "a number"]
    assert (
        text(opened, "luck") == "Repeated searches showed that luck is worth 1.3 standard errors."
    )
    move(opened, min_accuracy=0.7, max_rejected_2=0.5)
    assert "caution" not in text(opened, "python") + text(opened, "shell")
    set_caution(opened, "0")
    assert "caution=0)" in text(opened, "python")
    assert "--caution 0 --out" in text(opened, "shell")
    assert "--max-rejected 'it'\\''s <hypo>=0." in text(opened, "shell")
    assert "margin" not in text(opened, "rule")
    set_caution(opened, "number", "0.75")
    assert "caution=0.75)" in text(opened, "python")
    set_caution(opened, "number", "-3")
    typed = opened.find_element(By.ID, "caution_number")
    assert typed.get_attribute("aria-invalid") == "true"
    assert "caution=0.75)" in text(opened, "python")
    set_caution(opened, "auto")
    assert not typed.is_displayed()
    assert "caution" not in text(opened, "python")


def chosen_by(search, **bounds):
    """Choose anew in a copy."""
    other = copy.copy(search)
    other.choose(**bounds)
    return other


def test_it_opens_with_the_bounds_that_the_search_was_given(browser, three, tmp_path):
    asked = {
        "max_cost": None,
        "min_coverage": 0.613,
        "max_rejected": {"hyper": 0.6},
        "caution": 0.4,
        "by": "cost",
    }
    search = chosen_by(three, **asked)
    browser.get(report(search, tmp_path / "bounds.html").as_uri())
    assert candidate(browser, search) == search.best_candidate_
    told = "search.choose(min_coverage=0.613, max_rejected={'hyper': 0.6}, caution=0.4)"
    assert told in text(browser, "python")
    assert text(browser, "rule") == search.choice_.rule
    assert "hyper <= 0.6; shares of rows must meet their bounds with a margin of 0.4" in text(
        browser, "rule"
    )
    counts = [e.text for e in browser.find_elements(By.CSS_SELECTOR, "#sliders .count")]
    assert counts == ["", "1 bound", ""]


def test_where_errors_have_prices_the_loss_is_told(browser, three, tmp_path):
    prices = {"healthy": 20.0, "it's <hypo>": 500.0}
    search = chosen_by(three, by="loss", error_cost=prices)
    page = report(search, tmp_path / "loss.html")
    browser.get(page.as_uri())
    assert candidate(browser, search) == search.best_candidate_
    rows = browser.execute_script(
        "return [...document.querySelectorAll('#figures tbody tr')]"
        ".map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    loss = next(values for name, *values in rows if name.startswith("= loss"))
    evaluations = [
        search.best_candidate_.evaluation,
        search.all_sources_at(search.best_candidate_.evaluation.coverage),
        search.all_sources_.evaluation,
    ]
    review = search.costs_.review
    assert loss == [cell(e.loss(review=review, error_cost=prices)) for e in evaluations]
    assert text(browser, "told").startswith("The cascade that the search chose costs")
    assert text(browser, "rule").startswith(f"{search.choice_.rule} This choice follows this rule;")
    repeated = f"search.choose(by='loss', error_cost={prices!r})"
    assert repeated in text(browser, "python")
    line = next(line for line in text(browser, "shell").splitlines() if "emsco select" in line)
    flags = ["--by", "loss", "--error-cost", "healthy=20.0", "--error-cost", "it's <hypo>=500.0"]
    assert shlex.split(line) == ["emsco", "select", "run/", *flags, "--out", "model.emsco"]
    assert "20 for healthy, 0 for hyper, 500 for it&#x27;s &lt;hypo&gt;" in page.read_text()
    assert "best of a front that was searched without error prices" in page.read_text()
    assert _data.page_data(chosen_by(three, by="loss", error_cost=7.0))["error_cost"] == 7.0


def test_many_classes_come_worst_first_and_the_rest_is_opened(browser, ten, tmp_path):
    browser.get(report(ten, tmp_path / "ten.html").as_uri())
    evaluation = candidate(browser, ten).evaluation
    labels = ten.classes_.tolist()
    worst = sorted(labels, key=lambda c: (-evaluation.rejected[c] - evaluation.missed[c], c))
    first, rest = class_table(browser), class_table(browser, "other-classes")
    assert [*first, *rest] == [str(label) for label in worst]
    assert (len(first), len(rest)) == (8, 2)
    assert not browser.find_element(By.ID, "other-classes").is_displayed()
    browser.find_element(By.CSS_SELECTOR, "#others summary").click()
    assert browser.find_element(By.ID, "other-classes").is_displayed()
    (tile,) = browser.find_elements(By.CSS_SELECTOR, ".tile.class")
    most = max(labels, key=lambda c: evaluation.rejected[c])
    assert f"most rejected: {most}{evaluation.rejected[most]:.1%}" in tile.get_attribute(
        "textContent"
    )
    groups = browser.find_elements(By.CSS_SELECTOR, "#sliders details")
    assert [group.get_attribute("open") for group in groups] == [None] * 3
    wide, inner = browser.execute_script(
        "return [document.documentElement.scrollWidth, window.innerWidth]"
    )
    assert wide <= inner


def test_precision_is_left_out_where_it_is_not_known(browser, three, tmp_path):
    """As of a front whose evaluations have no counts by label."""

    def forget(known):
        evaluation = replace(known.evaluation, label_accepted=None)
        return Candidate(known.design, known.threshold, evaluation)

    search = copy.copy(three)
    front = ParetoFront(map(forget, three.front_), three.costs_, "", luck=None, repeats=3.0)
    search.found_ = replace(three.found_, front=front)
    search.choice_ = replace(three.choice_, candidate=forget(three.best_candidate_), rule="")
    browser.get(report(search, tmp_path / "unknown.html").as_uri())
    assert {told["precision"][0] for told in class_table(browser).values()} == {"\u2013"}
    assert not browser.find_elements(By.ID, "min_precision_0")
    assert browser.find_elements(By.ID, "max_rejected_0")
    assert text(browser, "luck") == "The luck in a choice is unknown, so auto is 1."
    assert text(browser, "rule") == ""


def test_several_learners_weights_and_boosted_trees_are_told(browser, tmp_path):
    X, codes, costs = make_costly_classification(300, n_sources=3, class_sep=0.8, random_state=2)
    labels = np.where(codes == 1, "sick", "well")
    tree = DecisionTreeClassifier(max_depth=3, min_samples_leaf=10, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SelectionWarning)
        search = CascadeSearchCV(
            {"linear": None, "tree": tree},
            costs=costs,
            label_weights={"sick": 4.0, "well": 1.0},
            threshold=[0.6, 0.8],
            luck=False,
            random_state=0,
        ).fit(X, labels)
    browser.get(report(search, tmp_path / "report.html").as_uri())
    boosted = yardstick_of(search.found_)
    places = {c.learner: i for i, c in enumerate(search.front_)}
    assert places.keys() == {"linear", "tree"}
    for learner, place in places.items():
        browser.execute_script(
            "document.querySelector(`#drawing .inside [data-candidate='${arguments[0]}']`)"
            ".dispatchEvent(new MouseEvent('click', {bubbles: true}))",
            place,
        )
        assert candidate(browser, search) == search.front_[place]
        found = search.front_[place]
        assert text(browser, "cascade-title") == f"The chosen cascade, by {learner}"
        stages = [
            p.text
            for p in browser.find_elements(By.CSS_SELECTOR, "#cascade .stage p")
            if p.text.startswith("accepts")
        ]
        assert len(stages) == found.design.n_stages
        assert all(p.startswith("accepts from share ") for p in stages)
        coverage = found.evaluation.coverage
        words = f"With boosted trees, all sources at once are right on {boosted.at(1).accuracy:.1%}"
        words += " of all rows"
        if coverage < 1:
            words += f", and on {boosted.at(coverage).accuracy:.1%} of as many"
        assert text(browser, "boosted") == words + "."
    footer = browser.find_element(By.TAG_NAME, "footer").text
    assert "share: the part of a row's weighted probabilities" in footer
