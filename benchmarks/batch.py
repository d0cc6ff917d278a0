"""A batch of a million rows: planned, and walked with a final model that costs no time."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator

import numpy as np

from benchmarks.measure import Result, apart, peak_mb
from emsco.batch import label_answers, plan_batch

ROWS, SMALL_ROWS = 1_000_000, 100_000
SECONDS, MEGABYTES = 10.0, 1024.0  # for a million rows


def run(*, small: bool = False) -> Iterator[Result]:
    """Measure time and memory in a process of its own; small: a tenth of the rows and seconds."""
    n_rows = SMALL_ROWS if small else ROWS
    told = apart("benchmarks.batch", str(n_rows))
    seconds = told["plan_seconds"] + told["walk_seconds"]
    yield Result("batch: seconds to plan and walk", seconds, SECONDS * n_rows / ROWS, facts=told)
    yield Result("batch: peak memory in MB", told["peak_mb"], MEGABYTES)


def main(n_rows: int) -> None:
    """Plan and walk a batch of five classes, and print what it took."""
    rng = np.random.default_rng(0)
    trust = 1 - 0.3 * rng.random(n_rows) ** 3
    cheap = rng.integers(0, 5, n_rows)
    final = np.where(rng.random(n_rows) > trust, (cheap + 1) % 5, cheap)
    start = time.process_time()
    plan_batch(trust=trust)
    planned = time.process_time()
    found = label_answers(cheap, trust, lambda rows: final[rows], agreement=0.98)
    walked = time.process_time()
    told = {
        "rows": n_rows,
        "plan_seconds": round(planned - start, 2),
        "walk_seconds": round(walked - planned, 2),
        "avoided": round(found.avoided, 3),
        "agreement": float((np.array(found.labels) == final).mean()),
        "peak_mb": peak_mb(),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main(int(sys.argv[1]))
