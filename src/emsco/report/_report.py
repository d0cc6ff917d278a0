"""The page: text escaped, data as JSON that cannot end its script, everything in one file."""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from emsco._atomic import write_whole
from emsco._table import cell
from emsco.exceptions import SelectionError, require
from emsco.report._data import page_data

# What changes nothing but the time, or what is told on the way, reproduces nothing.
_NOT_TOLD = {"costs", "n_jobs", "engine", "callback", "verbose"}


def report(
    search: Any,
    path: str | os.PathLike[str],
    X: Any = None,
    y: ArrayLike | None = None,
    *,
    certificate: Any = None,
    title: str | None = None,
) -> Path:
    """Write a search as one HTML file to look at, choose in, and send around.

    The page shows the front with sliders for the most to pay, the least coverage and accuracy and
    the most missed of each class. The cheapest candidate within them is drawn stage by stage, its
    figures stand beside those of all sources, and the lines that choose it in Python and on the
    command line stand below. It works offline: nothing is loaded from anywhere.

    Parameters
    ----------
    search : CascadeSearchCV
        The fitted search.
    path : path
        The file to write.
    X, y : rows and their labels, default=None
        Fresh rows, which the search has not seen; their figures stand beside the selected ones.
    certificate : object with a `sentence`, default=None
        What was certified of the chosen cascade, told in its own words.
    title : str, default=None
        The page's title. None: "emsco report".

    Returns
    -------
    Path
        The file written.

    Examples
    --------
    >>> import tempfile
    >>> from emsco import CascadeSearchCV
    >>> from emsco.datasets import make_costly_classification
    >>> from emsco.report import report
    >>> X, y, costs = make_costly_classification(1000, n_sources=3, random_state=0)
    >>> search = CascadeSearchCV(costs=costs, random_state=0).fit(X[:600], y[:600])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report(search, f"{folder}/report.html", X[600:], y[600:]).name
    'report.html'
    """
    check_is_fitted(search, "front_")
    if (X is None) != (y is None):
        raise SelectionError("Fresh rows are X and y; give both or neither.")
    if not len(search.front_):
        raise SelectionError("The front is empty: no candidate accepts any row.")
    plotly = require("plotly.offline", "report").get_plotlyjs()
    data = page_data(search, X, y)
    data["python"] = _constructor(search)
    page = _filled(
        _part("template.html"),
        {
            "title": escape(title or "emsco report"),
            "lead": escape(_lead(search, data)),
            "measured_on": escape(_measured_on(search, data)),
            "certificate": _certificate(certificate),
            "summary": escape(_summary(search)),
            "style": _part("report.css"),
            "plotly": plotly,
            "data": _json(data),
            "script": _part("report.js"),
        },
    )
    write_whole(path, [page.encode()])
    return Path(path)


def _part(name: str) -> str:
    return files("emsco.report").joinpath(name).read_text(encoding="utf-8")


def _filled(template: str, parts: Mapping[str, str]) -> str:
    """Put every part in its place at once, so that none is looked for inside another."""
    return re.sub(r"\{\{ (\w+) \}\}", lambda match: parts[match[1]], template)


def _json(data: Any) -> str:
    """Write JSON in which nothing can end the script that holds it or begin another."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _lead(search: Any, data: Mapping[str, Any]) -> str:
    costs, n_front = search.costs_, len(search.front_)
    price = f"{cell(costs.total)} {costs.unit}".rstrip()
    lead = (
        f"{len(costs.names)} sources, {price} for all of them. {type(search.search_).__name__} "
        f"found {n_front:,} candidate{'s' * (n_front != 1)} that no other beats in accuracy, "
        "coverage and cost at once."
    )
    if len(data["design_of"]) < n_front:
        lead += f" The page shows {len(data['design_of']):,} of them, evenly."
    chosen = getattr(search, "best_candidate_", None)
    if chosen is not None and data["chosen"] is None:
        lead += f" The search chose {chosen}; that is not on the front."
    return lead


def _measured_on(search: Any, data: Mapping[str, Any]) -> str:
    told: str = search.front_.measured_on
    if "fresh_rows" in data:
        told = told.partition(":")[0] + f". Fresh: {data['fresh_rows']:,} other rows."
    return told


def _certificate(certificate: Any) -> str:
    if certificate is None:
        return ""
    return (
        '<section class="card" aria-labelledby="certified"><h2 id="certified">Certificate</h2>'
        f"<blockquote>{escape(str(certificate.sentence))}</blockquote>"
        '<p class="note">Of the cascade that was certified; it says nothing of another that the '
        "bounds above may choose.</p></section>"
    )


def _summary(search: Any) -> str:
    return search.summary() if hasattr(search, "best_candidate_") else repr(search.front_)


def _constructor(search: Any) -> str:
    """Write the search as Python, with prices in a file and what differs from the defaults."""
    defaults = inspect.signature(type(search).__init__).parameters
    told = ['costs="costs.toml"']
    for name, value in search.get_params(deep=False).items():
        if name not in _NOT_TOLD and repr(value) != repr(defaults[name].default):
            told.append(f"{name}={' '.join(repr(value).split())}")
    return f"{type(search).__name__}({', '.join(told)})"
