"""Whether `decide_one` decides 100,000 hostile rows as the decision loop does.

The rows are drawn as for the differential test: values of every type that Python has, in columns of
numbers, text and categories, by cascades with and without a guard. Both must give the same
decision, to the last bit, or the same error.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from emsco.exceptions import EmscoWarning
from experiments.tables import markdown
from tests.soak.differential import Refused, by_the_loop, make_cases, one
from tests.soak.hostile import draw_batch

ROWS, SMALL_ROWS = 100_000, 2_000


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Decide rows both ways, each by a cascade without and one with a guard."""
    warnings.simplefilter("ignore", EmscoWarning)
    wanted, number = SMALL_ROWS if small else ROWS, 0
    decided, refused, quickly = Counter[str](), Counter[str](), Counter[str]()
    with TemporaryDirectory() as made:
        cases = make_cases(Path(made), only)
        while decided.total() + refused.total() < wanted:
            name, (typical, models) = list(cases.items())[number % len(cases)]
            rng = np.random.default_rng([number, 3])
            batch = draw_batch(rng, models[0].held, typical, floats=False)
            for model in models:
                for place in range(batch.n_rows):
                    row = {key: column.given[place] for key, column in batch.columns.items()}
                    found = one(model.cascade.decide_one, row)
                    expected = one(partial(by_the_loop, model.cascade), row)
                    if found != expected:
                        raise SystemExit(f"{name}: {found}\n\ninstead of: {expected}\n\n{row}")
                    (refused if isinstance(found, Refused) else decided)[name] += 1
                    quickly[name] += model.cascade.decider_.one_row.judge(row) is not None
            number += 1
            if number % 1000 == 0:
                done = decided.total() + refused.total()
                print(json.dumps({"batches": number, "rows": done}), flush=True)
    rows = [[name, *(f"{c[name]:,}" for c in (decided, quickly, refused))] for name in decided]
    header = ["cascade", "decided alike", "of them without the loop", "refused alike"]
    return f"{decided.total() + refused.total():,} rows.\n\n{markdown(header, rows)}"
