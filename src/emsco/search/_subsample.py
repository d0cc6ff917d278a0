"""A data set larger than memory: a sample of its rows to search on, and all rows to refit on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from numpy.typing import NDArray

from emsco.engine import Engine
from emsco.exceptions import ColumnsError
from emsco.learners.block_newton import BlockTraining, check_learner
from emsco.learners.protocol import Learner
from emsco.rows.dataset_blocks import Blocks

SEARCHED_ROWS = 200_000  # at most, if `max_rows` is None: coverage is then known to 0.1 point
_GROUPS = "groups"
_WEIGHT = "sample_weight"


class Subsample(NamedTuple):
    """Rows to search on, as if the user had given them, and their data set."""

    X: Any
    y: NDArray[Any]
    params: dict[str, Any]
    blocks: Blocks
    learner: Learner

    def training(self, names: tuple[str, ...]) -> BlockTraining:
        """Return all rows, to fit the chosen stages on; `names` are the columns of sources."""
        return BlockTraining(self.learner, self.blocks, names)


def draw(
    dataset: Any,
    y: Any,
    params: Mapping[str, Any],
    max_rows: int | None,
    seed: int,
    learner: Learner,
    guard: Any,
    final: Any,
    engine: Engine,
) -> Subsample:
    """Draw rows to search on, with classes in proportion.

    Labels, weights and groups are given by the names of their columns.
    """
    check_learner(learner, guard, final)
    for name, column in params.items():
        if name not in (_GROUPS, _WEIGHT) or not isinstance(column, str):
            raise ColumnsError(
                f"With a data set, `fit` takes only the names of columns for {_WEIGHT} and "
                f"{_GROUPS}, got {name}={column!r:.80}."
            )
    blocks = Blocks.of(dataset, y, params.get(_WEIGHT), engine)
    sample = blocks.sample(max_rows or SEARCHED_ROWS, seed, blocks.names, every_class=True)
    frame = sample.table.to_pandas()
    drawn: dict[str, Any] = {}
    if sample.weight is not None:
        drawn[_WEIGHT] = sample.weight
    if _GROUPS in params:
        if params[_GROUPS] not in frame:
            raise ColumnsError(f"The data set has no column {params[_GROUPS]!r} for the groups.")
        drawn[_GROUPS] = frame[params[_GROUPS]].to_numpy()
    return Subsample(frame, sample.labels, drawn, blocks, learner)
