"""Make the images of the documentation: `python docs/images/make.py`, with EMSCO_DATA set.

Needs matplotlib, selenium, and the Debian packages chromium and chromium-driver.
"""

from __future__ import annotations

import base64
import io
import shutil
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

from PIL import Image
from selenium import webdriver
from sklearn.model_selection import train_test_split

from emsco import CascadeSearchCV
from emsco.datasets import load_cleveland, load_phishing
from emsco.exceptions import SelectionWarning
from emsco.plotting import FlowDisplay, FrontDisplay, HistoryDisplay, SourcesDisplay
from emsco.report import report

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from experiments import pages  # noqa: E402


def save(image: bytes, name: str) -> None:
    """Keep an image with fewer colours: smaller, and no eye sees it."""
    picture = Image.open(io.BytesIO(image)).convert("RGB")
    method = Image.Quantize.MAXCOVERAGE  # a rare colour is kept too
    picture.quantize(256, method, dither=Image.Dither.NONE).save(HERE / name, optimize=True)


def draw(display: Any, name: str) -> None:
    """Keep a plot."""
    drawn = io.BytesIO()
    display.figure_.savefig(drawn, dpi=110)
    save(drawn.getvalue(), name)


def shoot(browser: Any, width: int, name: str) -> None:
    """Keep the whole page as it looks at a width."""
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    time.sleep(1)  # the plot follows the width
    height = browser.execute_script("return document.documentElement.scrollHeight")
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    shot = browser.execute_cdp_cmd(
        "Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip}
    )
    save(base64.b64decode(shot["data"]), name)


def start_browser() -> Any:
    """Start Chromium without a window."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for argument in ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    return webdriver.Chrome(options=options, service=service)


def main() -> None:
    """Make them all."""
    warnings.simplefilter("ignore", SelectionWarning)
    X, y, costs = load_phishing()
    X, X_fresh, y, y_fresh = train_test_split(X, y, stratify=y, random_state=0)
    search = CascadeSearchCV(costs=costs, max_rows=3000, random_state=0, n_jobs=1).fit(X, y)
    draw(FrontDisplay.from_search(search), "front.png")
    draw(FrontDisplay.from_search(pages.searched("phishing", 0)), "front-start.png")
    draw(SourcesDisplay.from_search(search), "sources.png")
    draw(FlowDisplay.from_decisions(search.decide(X_fresh), search, y=y_fresh), "flow.png")

    X, y, costs = load_cleveland()
    X, X_later, y, y_later = train_test_split(X, y, stratify=y, random_state=0)
    hybrid = CascadeSearchCV(costs=costs, random_state=0, n_jobs=1).fit(X, y)
    draw(HistoryDisplay.from_search(hybrid), "history.png")
    draw(FrontDisplay.from_search(hybrid), "front-cleveland.png")
    flow = FlowDisplay.from_decisions(hybrid.decide(X_later), hybrid, y=y_later)
    draw(flow, "flow-cleveland.png")

    browser = start_browser()
    with tempfile.TemporaryDirectory() as folder:
        title = "Is this page phishing?"
        page = report(search, Path(folder) / "report.html", X_fresh, y_fresh, title=title)
        browser.get(page.as_uri())
        shoot(browser, 1280, "report-1280.png")
        with Image.open(HERE / "report-1280.png") as whole:  # what the README shows of it
            whole.crop((0, 0, 1280, 1150)).save(HERE / "report-top.png", optimize=True)
        shoot(browser, 390, "report-390.png")
        move = (
            "for (const [id, at] of [['min_accuracy', 0.8], ['max_cost', 0.85]]) {"
            "const slider = document.getElementById(id); slider.value = at * slider.max;"
            "slider.dispatchEvent(new Event('input')) }"
        )
        browser.execute_script(move)
        shoot(browser, 1280, "report-moved-1280.png")
    browser.quit()


if __name__ == "__main__":
    main()
