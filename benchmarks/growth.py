"""How the time of a search grows: with rows, with sources, with stages, and with classes."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator

import numpy as np

from benchmarks.measure import Result
from emsco import CascadeSearchCV
from emsco.datasets import make_costly_classification
from emsco.exceptions import EmscoWarning

ROWS = (1_000, 2_000, 4_000, 8_000, 16_000, 32_000)
SOURCES = (4, 6, 8, 10, 12, 14, 20)
STAGES = (1, 2, 3, 4, 5)
CLASSES = (2, 3, 5, 8)


def run() -> Iterator[Result]:
    """Vary one size at a time; all else as most users have it: 2,000 rows, 8 sources, 4 stages."""
    _seconds(200, 3, 2, 2)  # compiles the kernels
    yield from _series("rows", ROWS, [(n, 8, 4, 2) for n in ROWS])
    yield from _series("sources", SOURCES, [(2_000, n, 4, 2) for n in SOURCES])
    yield from _series("stages", STAGES, [(2_000, 8, n, 2) for n in STAGES])
    yield from _series("classes", CLASSES, [(2_000, 8, 4, n) for n in CLASSES])


def _series(
    what: str, sizes: tuple[int, ...], shapes: list[tuple[int, int, int, int]]
) -> Iterator[Result]:
    times = []
    for size, shape in zip(sizes, shapes, strict=True):
        seconds, facts = _seconds(*shape)
        times.append(seconds)
        yield Result(f"growth.{what}_{size}", seconds, facts=facts)
    slope = np.polyfit(np.log(sizes[-3:]), np.log(times[-3:]), 1)[0]
    yield Result(f"growth.{what}_exponent", float(slope), facts={"over": sizes[-3:]})


def _seconds(
    n_rows: int, n_sources: int, max_stages: int, n_classes: int
) -> tuple[float, dict[str, object]]:
    X, y, costs = make_costly_classification(
        n_rows, n_sources, n_classes=n_classes, class_sep=2.0, random_state=0
    )
    search = CascadeSearchCV(costs=costs, max_stages=max_stages, random_state=0, n_jobs=-1)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmscoWarning)
        search.fit(X, y)
    seconds = time.perf_counter() - start
    told = {
        "search": type(search.search_).__name__,
        "source_sets": search.history_[-1]["source_sets"],
        "front": len(search.front_),
    }
    return seconds, told
