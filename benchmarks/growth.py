"""How the time of a search grows: with rows, with sources, with stages, and with classes."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.measure import Result
from emsco import CascadeSearchCV
from emsco.datasets import make_costly_classification
from emsco.exceptions import EmscoWarning

ROWS = (1_000, 2_000, 4_000, 8_000, 16_000, 32_000)
SOURCES = (4, 6, 8, 10, 12, 14, 20)
STAGES = (1, 2, 3, 4, 5)
CLASSES = (2, 3, 5, 8)


def run(*, small: bool = False) -> Iterator[Result]:
    """Vary one size at a time; all else as most users have it: 2,000 rows, 8 sources, 4 stages.

    Small: two sizes of each, with all else small too.
    """
    _seconds(200, 3, 2, 2)  # compiles the kernels
    rows, sources, stages = (300, 4, 2) if small else (2_000, 8, 4)
    most = 2 if small else None
    yield from _series("rows", (200, 400) if small else ROWS, lambda n: (n, sources, stages, 2))
    yield from _series("sources", SOURCES[:most], lambda n: (rows, n, stages, 2))
    yield from _series("stages", STAGES[:most], lambda n: (rows, sources, n, 2))
    yield from _series("classes", CLASSES[:most], lambda n: (rows, sources, stages, n))


def _series(
    what: str, sizes: tuple[int, ...], shape: Callable[[int], tuple[int, int, int, int]]
) -> Iterator[Result]:
    times = []
    for size in sizes:
        seconds, facts = _seconds(*shape(size))
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
