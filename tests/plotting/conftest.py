"""What the tests of plots share: a search with its rows, figures closed, and eyes for overlaps."""

from __future__ import annotations

from itertools import combinations

import matplotlib as mpl
import pytest

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.text import Text

from emsco import CascadeSearchCV, Costs, Source
from emsco.datasets import make_costly_classification


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


@pytest.fixture(scope="session")
def rows():
    X, y, _ = make_costly_classification(1600, n_sources=4, random_state=0)
    return X[:1000], y[:1000], X[1000:], y[1000:]


@pytest.fixture(scope="session")
def search(rows):
    costs = Costs([Source(f"s{i}", cost=2**i) for i in range(4)], unit="EUR")
    return CascadeSearchCV(costs=costs, random_state=0).fit(*rows[:2])


@pytest.fixture
def assert_legible():
    """No text of a figure lies on another or is cut off, and no axes are empty."""

    def check(figure):
        figure.canvas.draw()
        shown = {text: text.get_window_extent() for text in _texts(figure)}
        whole = figure.bbox
        for text, box in shown.items():
            assert box.x0 >= whole.x0 - 1, text
            assert box.x1 <= whole.x1 + 1, text
            assert box.y0 >= whole.y0 - 1, text
            assert box.y1 <= whole.y1 + 1, text
        for (one, a), (other, b) in combinations(shown.items(), 2):
            width = min(a.x1, b.x1) - max(a.x0, b.x0)
            height = min(a.y1, b.y1) - max(a.y0, b.y0)
            assert width <= 1 or height <= 1, (one, other)
        assert all(ax.has_data() for ax in figure.axes)
        return [text.get_text() for text in shown]

    return check


def _texts(figure):
    """List the texts that are really drawn: ticks outside of the limits are kept, but are not."""
    hidden = set()
    for ax in (child for parent in figure.axes for child in (parent, *parent.child_axes)):
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            slack = (high - low) * 1e-6
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not low - slack <= tick.get_loc() <= high + slack:
                    hidden |= {tick.label1, tick.label2}
    return [
        text
        for text in figure.findobj(Text)
        if text.get_visible() and text.get_text().strip() and text not in hidden
    ]
