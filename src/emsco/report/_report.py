"""The page: escaped text, data as JSON that cannot end its script, everything in one file."""

from __future__ import annotations

import inspect
import io
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

from emsco._utils.atomic_write import write_whole
from emsco._utils.text_table import cell
from emsco.certify import Certificate
from emsco.exceptions import Parameter, SelectionError, require
from emsco.plotting import FlowDisplay
from emsco.report._data import page_data
from emsco.report._lines import python_lines, shell_line
from emsco.report._words import lead_of, measured_on, title_of, written
from emsco.search import without_stake

# What changes nothing but the time, or what is told on the way, reproduces nothing.
_NOT_TOLD = {"costs", "n_jobs", "engine", "callback", "verbose"}
# In the order in which they run: each uses those before it, and shares their names.
_SCRIPTS = (
    "text",
    "choice",
    "figures",
    "bounds",
    "cascade",
    "tiles",
    "tables",
    "lines",
    "ticks",
    "plot",
    "pointer",
    "page",
)
_SHARE_WORD = (
    " &middot; share: the part of a row's weighted probabilities that its label has; the threshold "
    "of a stage is for it"
)


def report(
    search: Any,
    path: str | os.PathLike[str],
    X: Any = None,
    y: ArrayLike | None = None,
    *,
    stake: ArrayLike | str | None = None,
    population: Mapping[Any, float] | None = None,
    certificate: Any = None,
    title: str | None = None,
) -> Path:
    """Write a search as a single HTML file, to explore it, choose a candidate and share it.

    The page shows the front, with sliders for the maximum cost, the minimum coverage and accuracy,
    and, per class, the shares missed and rejected and the precision. Bounds must be met with a
    margin, as in `ParetoFront.select`, whose width is set by the caution. The choice of the search,
    and then the cheapest candidate within the bounds, is drawn stage by stage, with its figures,
    also per class, beside those of all sources. With fresh rows, their flow through the choice of
    the search is drawn. Below are the lines that choose the candidate in Python and on the command
    line. The page works offline: it loads nothing.

    Parameters
    ----------
    search : CascadeSearchCV
        The fitted search.
    path : path
        The file to write.
    X, y : rows and their labels, default=None
        Fresh rows, which the search has not seen; their figures are shown beside the selected ones.
        If the target is agreement, no labels are needed.
    stake : array or str, default=None
        What is at stake on the fresh rows, or the column of X that holds it; needed if the search
        was given stakes.
    population : mapping of label to float, default=None
        The share of each class in the population that the fresh rows come from, if the rows were
        drawn with other shares.
    certificate : Certificate, or object with a `sentence`, default=None
        The result of `certify`; its sentence and notes are shown unchanged, together with whether
        it is about the cascade that the search chose. None: the certificate of the chosen cascade,
        if it has one.
    title : str, default=None
        The title of the page. None: the classes, the number of rows, the part of the full price
        that the choice costs, its accuracy and its coverage.

    Returns
    -------
    Path
        The path of the file written.

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
    if (X is None) != (y is None) and (X is None or search.needs_labels):
        raise SelectionError("Fresh rows are X and y; give both or neither.")
    if not len(search.front_):
        raise SelectionError("The front is empty: no candidate accepts any row.")
    if population is not None and X is None:
        raise SelectionError(
            Parameter("population") + " says what fresh rows stand for; give X and y, too."
        )
    data = page_data(search, X, y, population, stake)
    params = _parameters_to_dict(search)
    data["python"] = python_lines(search, params)
    data["shell"], left_out = shell_line(params)
    page = _filled(
        _part("template.html"),
        {
            "title": escape(title_of(search) if title is None else title),
            "lead": escape(lead_of(search, data)),
            "byline": escape(f"{measured_on(search, data, population)} {written()}"),
            "flow": _flow(search, data, without_stake(X, stake, search.found_.layout.names), y),
            "loss": _loss(search, data),
            "loss_word": " &middot; loss: cost, review and errors" * _has_loss(data),
            "share_word": _SHARE_WORD * (data["deciding"] == "share"),
            "certificate": _certificate(search, certificate),
            "not_in_shell": _not_in_shell(left_out),
            "toml": escape(search.costs_.to_toml()),
            "summary": escape(
                search.summary() if hasattr(search, "best_candidate_") else repr(search.front_)
            ),
            "style": _part("report.css"),
            "data": _json(data),
            "script": _script(),
        },
    )
    write_whole(path, [page.encode()])
    return Path(path)


def _part(name: str) -> str:
    return files("emsco.report").joinpath(name).read_text(encoding="utf-8")


def _script() -> str:
    """Put the files of the script together, where none of their names is left to the page."""
    parts = "".join(_part(f"{name}.js") for name in _SCRIPTS)
    return f'"use strict";\n(function () {{\n{parts}}})();\n'


def _filled(template: str, parts: Mapping[str, str]) -> str:
    """Put every part in its place at once, so that none is looked for inside another."""
    return re.sub(r"\{\{ (\w+) \}\}", lambda match: parts[match[1]], template)


def _json(data: Any) -> str:
    """Write JSON in which nothing can end the script that holds it or begin another."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _flow(search: Any, data: Mapping[str, Any], X: Any, y: ArrayLike | None) -> str:
    """Draw how fresh rows flow through the cascade that the search chose."""
    if X is None or data["chosen"] is None or not hasattr(search, "best_cascade_"):
        return ""
    pyplot = require("matplotlib.pyplot", "report")
    truth = search.truth(X, y)
    display = FlowDisplay.from_decisions(search.decide(X), search, y=truth)
    display.ax_.set_title("", loc="left")  # tiles and tables tell these figures
    for text in set(display.ax_.texts) - set(display.texts_):
        text.remove()
    drawn = io.StringIO()
    display.figure_.savefig(drawn, format="svg", transparent=True)
    pyplot.close(display.figure_)
    texts = "; ".join(" ".join(text.get_text().split()) for text in display.texts_)
    return (
        '<section class="card" id="flow" aria-labelledby="flow-title"><h2 id="flow-title">'
        f"How {len(truth):,} fresh rows flow through the chosen cascade</h2>"
        f'<div class="wide">{_inline(drawn.getvalue(), texts)}</div></section>'
    )


def _inline(svg: str, texts: str) -> str:
    """Make an SVG file part of a page: without what is about the file, or for the whole page."""
    svg = svg[svg.index("<svg ") :]  # the XML declaration and the DOCTYPE are before it
    of_files = r"<!--.*?-->|<metadata>.*?</metadata>|<style\b.*?</style>|\sxmlns(:\w+)?=\"[^\"]*\""
    svg = re.sub(of_files, "", svg, flags=re.DOTALL)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(texts)}" ', 1)


def _has_loss(data: Mapping[str, Any]) -> bool:
    return bool(data["costs"]["review"]) or data["error_cost"] is not None


def _loss(search: Any, data: Mapping[str, Any]) -> str:
    """Say what a loss is of, where errors have prices."""
    errors = data["error_cost"]
    if errors is None:
        return ""
    priced = (
        f"{cell(errors)} each"
        if isinstance(errors, float | int)
        else ", ".join(f"{cell(e)} for {c}" for c, e in zip(data["labels"], errors, strict=True))
    )
    unit = f" {search.costs_.unit}".rstrip()
    searched = "the best of a front that was searched without error prices"
    if not search.found_.stages.rule.is_equal:
        prices = "these prices" if search.costs_.errors else "label weights"
        searched = f"labels were given by {prices}"
    each = "" if data["of"] == "rows" else " per unit at stake"
    note = (
        f"loss: mean paid per row for sources, review and errors, which cost {priced}{unit}{each}; "
    )
    note += searched
    return f'<p class="note">{escape(note)}</p>'


def _certificate(search: Any, certificate: Any) -> str:
    if certificate is None:
        certificate = getattr(getattr(search, "best_cascade_", None), "certificate_", None)
    if certificate is None:
        return ""
    about = "It is about the cascade that was certified"
    notes = "".join(f"<p>{escape(line)}</p>" for line in getattr(certificate, "notes", ()))
    if isinstance(certificate, Certificate):
        holds = certificate.holds_for(search)
        about = f"It is {'' if holds else 'not '}about the cascade that the search chose"
    return (
        '<section class="card" aria-labelledby="certified"><h2 id="certified">Certificate</h2>'
        f"<blockquote>{escape(str(certificate.sentence))}</blockquote>{notes}"
        f'<p class="note">{about}; of another that the bounds above may choose it says '
        "nothing.</p></section>"
    )


def _parameters_to_dict(search: Any) -> dict[str, Any]:
    """Give the parameters that differ from the defaults and change what is found."""
    defaults = inspect.signature(type(search).__init__).parameters
    return {
        name: value
        for name, value in search.get_params(deep=False).items()
        if name not in _NOT_TOLD and repr(value) != repr(defaults[name].default)
    }


def _not_in_shell(left_out: list[str]) -> str:
    if not left_out:
        return ""
    names = escape(", ".join(left_out))
    return f'<p class="note">The command line cannot tell {names}; Python can.</p>'
