"""What the tests of reports share: a search with hostile names, its rows, and a real browser."""

from __future__ import annotations

import json
import shutil
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from selenium import webdriver
from sklearn.model_selection import RepeatedStratifiedKFold

from emsco import CascadeSearchCV, Costs, ParetoFront, Review, Source
from emsco.datasets import make_costly_classification
from emsco.exceptions import SelectionWarning
from emsco.report import report

# Names as an attacker, or a bad day, would choose them.
HOSTILE = "</script><img src=x onerror=document.title='owned'>"
NAMES = ["s0", HOSTILE, "<b>bold</b> & co", "quo\"te's {{ data }}", "s4"]
LABELS = ["it's \u2028<i>well</i>", "sick"]


COSTS = Costs(
    [
        Source(NAMES[0], cost=1, description="asked <b>by phone</b> & free of risk"),
        Source(NAMES[1], cost=2.5, setup="draw <hr>"),
        Source(NAMES[2], cost=4, setup="draw <hr>"),
        Source(NAMES[3], cost=8, latency=2.0),
        Source(NAMES[4], cost=16, latency=1.0),
    ],
    setups={"draw <hr>": 3},
    descriptions={"draw <hr>": "a sample </script> of blood"},
    review=Review(25.0),
    unit="EUR & <u>more</u>",
)


@pytest.fixture(scope="session")
def rows():
    X, y, _ = make_costly_classification(600, n_sources=5, random_state=0)
    frame = pd.DataFrame(np.asarray(X), columns=NAMES)
    labels = np.array(LABELS)[y]
    return (frame[:200], labels[:200]), (frame[200:], labels[200:])


@pytest.fixture(scope="session")
def search(rows):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SelectionWarning)  # of so few rows, to be quick
        return CascadeSearchCV(costs=COSTS, max_stages=3, random_state=0).fit(*rows[0])


LUCK = 1.3


@pytest.fixture(scope="session")
def three():
    """Search three classes on folds that repeat three times, with luck as if it were measured."""
    X, codes, costs = make_costly_classification(
        400, n_sources=5, n_classes=3, class_sep=1.0, random_state=1
    )
    labels = np.array(["healthy", "hyper", "it's <hypo>"])[codes]
    costs = replace(costs, review=Review(12.0))
    cv = RepeatedStratifiedKFold(n_splits=3, n_repeats=3, random_state=0)
    search = CascadeSearchCV(
        costs=costs, max_stages=3, cv=cv, threshold=[0.5, 0.6, 0.7, 0.8, 0.9], random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SelectionWarning)
        search.fit(X, labels)
    front = search.front_
    front = ParetoFront(front, costs, front.measured_on, luck=LUCK, repeats=front.repeats)
    search.found_ = replace(search.found_, front=front)
    return search


# As a file keeps it; of cascades that are not there.
CERTIFICATE = SimpleNamespace(
    sentence="At most 7 % of <accepted> rows are wrong & that holds with 95 % confidence."
)


@pytest.fixture(scope="session")
def page(search, rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    title = f"A title {HOSTILE}"
    return report(search, path, *rows[1], certificate=CERTIFICATE, title=title)


@pytest.fixture(scope="session")
def data_of():
    """Read back what a page knows."""

    def read(page):
        text = page.read_text(encoding="utf-8")
        begin = text.index('<script type="application/json" id="data">')
        return json.loads(text[text.index(">", begin) + 1 : text.index("</script>", begin)])

    return read


@pytest.fixture(scope="module")
def browser():
    """Start Chromium without a window; everything it asks for is written down."""
    names = ("chromium", "chromium-browser", "google-chrome")
    binary = next(filter(None, map(shutil.which, names)), None)
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.fail("Install a browser and its driver: apt-get install chromium chromium-driver.")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    started.set_page_load_timeout(120)
    started.set_script_timeout(120)
    yield started
    started.quit()
