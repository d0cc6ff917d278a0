"""Fit linear models to columns of long text: hashed once, then fitted to any of the rows.

A stage must weigh the log-odds of a text as they will be on fresh rows. So each training row gets
those of a model that was fitted without it: training rows are divided into cells, and the rows of a
cell are scored by a model of the others. Fresh rows are scored by a model of all training rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco._utils.progress import followed
from emsco.learners._text_newton import fit_text
from emsco.rows.encoding import Array, number_of
from emsco.rows.hashed_text import HashedTexts
from emsco.rows.text_encoding import Text, lacks_text

Rows = NDArray[np.intp]

_CELLS = 5
_LEAST_BLOCKS, _LARGEST_BLOCK = 3, 0.5  # share of rows: otherwise blocks are no cells
_HALF = 0.5  # of a row, for a class that is not among the rows of a fit, or alone there


class TextRows(NamedTuple):
    """The rows that are fitted to, and what is known of each."""

    rows: Rows  # positions in the table
    codes: NDArray[np.intp]  # of classes
    weight: Array
    blocks: NDArray[np.intp] | None  # rows of one block stay in one cell; None: unknown

    def take(self, places: NDArray[np.intp]) -> TextRows:
        """Return some of the rows."""
        blocks = None if self.blocks is None else self.blocks[places]
        return TextRows(self.rows[places], self.codes[places], self.weight[places], blocks)

    def cells(self) -> NDArray[np.intp]:
        """Divide the rows: by their blocks, or else at random, with classes in proportion."""
        if self.blocks is not None:
            known, cells = np.unique(self.blocks, return_inverse=True)
            if len(known) > 1:
                return cells
        cells = np.empty(len(self.rows), dtype=np.intp)
        order = np.random.default_rng(0).permutation(len(self.rows))
        by_class = order[np.argsort(self.codes[order], kind="stable")]
        cells[by_class] = np.arange(len(self.rows)) % _CELLS
        return cells


class TextTable:
    """The columns of long text of a table; each is hashed once, and each model fitted once."""

    def __init__(self, columns: Mapping[str, NDArray[Any]], n_classes: int) -> None:
        self._columns = columns
        self._n_classes = n_classes
        self._hashed: dict[str, HashedTexts] = {}
        self._models: dict[tuple[str, bytes], Text] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_hashed": {}}  # which is large, and quickly made again

    def learn(self, name: str, own: TextRows, *, may_be_missing: bool) -> tuple[Text, Array]:
        """Learn the encoding of a column from some rows, and return it with their own block."""
        missing = lacks_text(self._columns[name][own.rows])
        scores = self._crossed(name, own, ~missing)
        centre, scale = _centre_and_scale(scores[~missing], own.weight[~missing])
        missing_seen = may_be_missing or bool(missing.any())
        model = self._model(name, own)
        text = replace(model, centre=centre, scale=scale, missing_seen=missing_seen)
        scaled = np.where(missing[:, None], 0.0, (scores - centre) / scale)
        return text, text.block(scaled, missing)

    def block(self, name: str, text: Text, rows: Rows) -> Array:
        """Encode other rows of the table."""
        missing = lacks_text(self._columns[name][rows])
        scaled = np.where(missing[:, None], 0.0, self._scored(name, text, rows))
        return text.block(scaled, missing)

    def _crossed(self, name: str, own: TextRows, present: NDArray[np.bool_]) -> Array:
        """Score each row by a model that was fitted without its cell."""
        cells = own.cells()
        scores = np.zeros((len(own.rows), 1 if self._n_classes == 2 else self._n_classes))
        for cell in followed(np.unique(cells[present]).tolist(), "fit text"):
            others = own.take(np.flatnonzero(cells != cell))
            inside = np.flatnonzero((cells == cell) & present)
            scores[inside] = self._scored(name, self._model(name, others), own.rows[inside])
        return scores

    def _scored(self, name: str, text: Text, rows: Rows) -> Array:
        # By a copy, because only the model that decides keeps its table.
        return replace(text).score(self._all(name).take(rows))

    def _model(self, name: str, own: TextRows) -> Text:
        """Return the model fitted to some rows, whose scores are not scaled."""
        key = name, own.rows.tobytes()
        if key not in self._models:
            self._models[key] = self._fit(name, own)
        return self._models[key]

    def _fit(self, name: str, own: TextRows) -> Text:
        counted = (own.weight > 0) & ~lacks_text(self._columns[name][own.rows])
        own = own.take(np.flatnonzero(counted))
        hashed, every = self._all(name).take(own.rows), own.weight.sum()
        weights, odds = [], []
        for code in range(self._n_classes == 2, self._n_classes):
            truth = own.codes == code
            true = own.weight[truth].sum()
            fitted = np.zeros(hashed.n_columns), np.log((true + _HALF) / (every - true + _HALF))
            if 0 < true < every:
                fitted = fit_text(hashed, truth, own.weight)
            weights.append(fitted[0])
            odds.append(fitted[1])
        # Rounded at once, so that every row is scored by the weights that files have.
        table = np.array(weights, dtype=np.float32)
        used = np.flatnonzero(table.any(axis=0))
        buckets = used if hashed.buckets is None else hashed.buckets[used]
        none = np.zeros(len(odds))
        return Text(buckets.astype(np.int32), table[:, used], np.array(odds), none, none + 1, False)

    def _all(self, name: str) -> HashedTexts:
        """Return the hashed texts of every row."""
        if name not in self._hashed:
            texts = self._columns[name].tolist()
            self._hashed[name] = HashedTexts.of([text or "" for text in texts]).narrow()
        return self._hashed[name]


def _centre_and_scale(scores: Array, weight: Array) -> tuple[Array, Array]:
    """Return the mean and the deviation of each score; 0 and 1 if no row counts."""
    if not weight.any():
        return np.zeros(scores.shape[1]), np.ones(scores.shape[1])
    centre = np.average(scores, axis=0, weights=weight)
    scale = np.sqrt(np.average((scores - centre) ** 2, axis=0, weights=weight))
    pairs = zip(centre.tolist(), scale.tolist(), strict=True)
    return centre, np.array([number_of(*pair, 1.0, None).scale for pair in pairs])


def blocks_of(
    n_rows: int, tests: Sequence[NDArray[np.intp]], groups: NDArray[Any] | None
) -> NDArray[np.intp] | None:
    """Divide rows into blocks that no cell may divide; None if nothing is known of them.

    Rows of different test folds are as unlike as a splitter makes them: other groups, other times.
    If folds overlap or leave out most rows, groups are dealt to as many blocks as there are cells.
    """
    blocks = np.full(n_rows, -1, dtype=np.intp)
    for number, test in enumerate(tests):
        if (blocks[test] < 0).all():
            blocks[test] = number
    counts = np.unique(blocks, return_counts=True)[1]
    if len(counts) >= _LEAST_BLOCKS and counts.max() <= _LARGEST_BLOCK * n_rows:
        return blocks
    if groups is None:
        return None
    known, places = np.unique(groups, return_inverse=True)
    dealt = np.random.default_rng(0).permutation(len(known)) % _CELLS
    return dealt[places]
