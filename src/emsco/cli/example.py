"""`emsco example`: write rows and prices to try the other commands on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from emsco._utils.progress import followed
from emsco.cli._errors import note
from emsco.cli._options import options
from emsco.cli._output_files import check_outputs
from emsco.exceptions import DatasetError, nearest, require

Files = Iterator[tuple[str, Callable[[], bytes]]]
_MODEL_ROWS = 3_000  # rows on which the example model is fitted
_FINAL = '''\
"""Stands for an expensive model: python final.py job/ask-1.csv job/answers-1.csv."""

import sys

import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

past = pd.read_csv("past.csv")
columns = past.columns.drop("label")
model = HistGradientBoostingClassifier(random_state=0).fit(past[columns], past["label"])


def answer(rows):
    """Return the label of each row."""
    return model.predict(rows[columns])


if __name__ == "__main__":
    ask, answers = sys.argv[1:]
    rows = pd.read_csv(ask)
    rows[["id"]].assign(label=answer(rows)).to_csv(answers, index=False)
'''


@options(
    name="The example: cleveland, label, loans or savings.",
    out="The folder to write to.",
)
def example(
    name: str,
    out: Path = Path(),
    force: bool = False,
) -> None:
    """Write a table with prices, to try the other commands on.

    `cleveland` writes heart.csv, with 303 patients and the label in the column `disease`, and
    heart-costs.toml, with the prices published by Turney in 1995. `label` writes pages.csv, with
    8,430 web pages to label, past.csv, with 3,000 others and their labels, model.emsco, a cheap
    cascade fitted on these, and final.py, a program that stands for an expensive model. `loans`
    writes loans.csv, a made table of 24,000 loans with dates, ids, copies and a leak, of which 0.8%
    defaulted, loans-fresh.csv, with 12,000 loans of the next year, and loans-costs.toml. `savings`
    writes log.csv, with the 8,430 web pages, model.skops, a model fitted on the 3,000 others, and
    log-costs.toml.
    """
    from emsco._utils.atomic_write import write_whole

    if name not in _EXAMPLES:
        raise DatasetError(
            f"The examples are {', '.join(_EXAMPLES)}; got {name!r}{nearest(name, _EXAMPLES)}"
        )
    files = [(out / file, content) for file, content in _EXAMPLES[name]()]
    check_outputs([path for path, _ in files], [], force=force)
    for path, content in followed(files, f"make the example {name}"):
        write_whole(path, [content()])
    note(f"Written: {', '.join(str(path) for path, _ in files)}")


def _cleveland() -> Files:
    from emsco.datasets import load_cleveland

    X, y, costs = load_cleveland()
    yield "heart.csv", lambda: X.assign(disease=y).to_csv(index=False).encode()
    yield "heart-costs.toml", lambda: costs.to_toml().encode()


def _loans() -> Files:
    from emsco.datasets import make_loans

    def table(n_rows: int, year: int) -> bytes:
        X, y, _ = make_loans(n_rows, year=year, random_state=year)
        return bytes(X.assign(defaulted=y).to_csv(index=False).encode())

    yield "loans.csv", lambda: table(24_000, 2023)
    yield "loans-fresh.csv", lambda: table(12_000, 2024)
    yield "loans-costs.toml", lambda: make_loans(1_000).costs.to_toml().encode()


def _pages() -> tuple[Any, Any, Any, Any]:
    """Return 3,000 web pages to fit a model on, their labels, all other pages, and prices."""
    import numpy as np
    from sklearn.utils import _safe_indexing

    from emsco.datasets import load_phishing

    X, y, costs = load_phishing()
    order = np.random.default_rng(0).permutation(len(X))
    known, others = order[:_MODEL_ROWS], order[_MODEL_ROWS:]
    return _safe_indexing(X, known), y[known], _safe_indexing(X, others), costs


def _label() -> Files:
    known, y, pages, costs = _pages()

    def table() -> bytes:
        keyed = pages.copy()
        keyed.insert(0, "id", [f"p{number:04}" for number in range(len(pages))])
        return bytes(keyed.to_csv(index=False).encode())

    def model() -> bytes:
        from emsco import CascadeClassifier, dump

        with TemporaryDirectory() as folder:
            path = Path(folder, "model.emsco")
            dump(CascadeClassifier(costs=costs).fit(known, y), path)
            return path.read_bytes()

    yield "pages.csv", table
    yield "past.csv", lambda: known.assign(label=y).to_csv(index=False).encode()
    yield "model.emsco", model
    yield "final.py", _FINAL.encode


def _savings() -> Files:
    skops = require("skops.io", "skops")
    known, y, log, costs = _pages()

    def model() -> bytes:
        from sklearn.ensemble import HistGradientBoostingClassifier

        fitted = HistGradientBoostingClassifier(random_state=0).fit(known, y)
        return bytes(skops.dumps(fitted))

    yield "log.csv", lambda: log.to_csv(index=False).encode()
    yield "model.skops", model
    yield "log-costs.toml", lambda: costs.to_toml().encode()


_EXAMPLES: dict[str, Callable[[], Files]] = {
    "cleveland": _cleveland,
    "label": _label,
    "loans": _loans,
    "savings": _savings,
}
