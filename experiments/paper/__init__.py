"""The paper's experiments, made again: one file for each of its tables and figures."""

from __future__ import annotations

import importlib
import json
import time

from experiments.results import Row, load, save

PARTS = ("comparison", "draws", "fronts", "optimal_found", "mutation", "landscape")
COMMAND = "python -m experiments paper"


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Measure every part, or `only` some, as "fronts" or "fronts:Pima"; give their tables.

    What is measured is kept in `experiments/results`. Small: the smallest case of each, not kept.
    """
    tables = []
    for part in PARTS:
        module = importlib.import_module(f"experiments.paper.{part}")
        cases = list(module.CASES)
        asked = [name for name in cases if not only or {part, f"{part}:{name}"} & set(only)]
        rows: list[Row] = []
        for name in asked[:1] if small else asked:
            start = time.perf_counter()
            rows = []
            for row in module.measure(name, small=small):
                rows.append(row)
                print(json.dumps({"part": part} | row), flush=True)
            print(f"{part}, {name}: {time.perf_counter() - start:.0f} s", flush=True)
            if not small:
                save(module.NAME, f"{COMMAND} --only {part}", rows, cases)
        if asked:
            tables.append(f"{part}\n\n{module.table(rows if small else load(module.NAME))}")
    return "\n\n".join(tables)
