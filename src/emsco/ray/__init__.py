"""Fits and scoring on a Ray cluster: `RayEngine`, and `decide_dataset` on top of it.

Nothing here imports Ray before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emsco._utils.public_names import lazy

if TYPE_CHECKING:
    from emsco.ray.engine import RayEngine as RayEngine
    from emsco.ray.scoring import decide_dataset as decide_dataset

# Loaded at first use: a worker needs neither pyarrow to fit nor the classifiers to score.
PLACES = {"RayEngine": "ray.engine", "decide_dataset": "ray.scoring"}

__all__ = sorted(PLACES)
__getattr__, __dir__ = lazy(__name__, PLACES)
