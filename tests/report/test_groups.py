"""The panel of groups tells what a breakdown tells, whatever groups are called."""

from __future__ import annotations

from html import escape, unescape

import numpy as np
import pytest

from emsco import evaluate
from emsco.exceptions import ValuesError
from emsco.report import report
from tests.report.conftest import HOSTILE


def panel_of(path):
    """Return the panel of a page, and what is beside it."""
    text = path.read_text(encoding="utf-8")
    begin = text.index('<section class="card" id="groups"')
    end = text.index("</section>", begin)
    return text[begin:end]


def test_fresh_rows_are_shown_by_group(search, rows, tmp_path):
    """Names are escaped, and each figure is that of the evaluation of the group."""
    X, y = rows[1]
    groups = np.where(np.arange(len(y)) % 3 == 0, HOSTILE, "b & c")
    panel = panel_of(report(search, tmp_path / "page.html", X, y, by=groups))
    assert HOSTILE not in panel
    parts = evaluate(search.decide(X), y, by=groups)
    for header, lines in parts.tables():
        assert escape(header[0]) in panel
        for name, _, *figures in lines:
            assert f'<th scope="row">{escape(name)}</th>' in panel
            assert all(escape(figure) in panel for figure in figures)
    for gap in parts.gaps:
        assert str(gap) in unescape(panel)
    assert "do not show that a decision is fair" in panel


def test_without_fresh_rows_the_searched_ones_are_shown(search, rows, tmp_path):
    groups = ["a", "b"] * (len(rows[0][1]) // 2)
    panel = panel_of(report(search, tmp_path / "page.html", by=groups))
    assert "on the rows it was selected on" in panel
    own = search.found_.breakdown(search.best_candidate_, groups)
    assert all(str(gap) in unescape(panel) for gap in own.gaps)


def test_no_groups_no_panel(page):
    assert 'id="groups"' not in page.read_text(encoding="utf-8")


def test_groups_of_other_rows_are_refused_and_nothing_is_written(search, rows, tmp_path):
    X, y = rows[1]
    with pytest.raises(ValuesError, match="one label for each of the 400 rows of X, got 399"):
        report(search, tmp_path / "page.html", X, y, by=["a"] * 399)
    assert not (tmp_path / "page.html").exists()
