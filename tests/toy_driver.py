"""A driver of one's own: values come from Python functions, a call a row and feature."""

from __future__ import annotations

import numpy as np


def from_functions(decider, functions, keys):
    """Decide the rows that keys name."""

    def answer(ask):
        values = {f: np.array([functions[f](keys[row]) for row in ask.rows]) for f in ask.features}
        return decider.answer(values, ask.rows)

    return decider.drive(len(keys), answer)
