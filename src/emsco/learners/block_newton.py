"""Logistic regressions fitted to a data set larger than memory: Newton's sums, block by block.

The loss of a logistic regression is a sum over rows, and so are its gradient and curvature. They
are computed for each chunk of the data set and added; the Newton steps are those of fits in memory.
All sets of features are fitted in the same passes over the data.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from emsco.core.label_rule import EQUAL, LabelRule
from emsco.core.value_type import LONG_TEXT, NUMBER_TYPE, TEXT_TYPE
from emsco.exceptions import ColumnsError
from emsco.learners._logistic_loss import Loss, TrainingRows, class_base, make_rows
from emsco.learners._newton import Trial, descend, descend_in_memory, full_penalty
from emsco.learners.logistic import LinearFit, LogisticLearner
from emsco.learners.protocol import Encodings, Learner
from emsco.rows.arrow_columns import (
    Labels,
    TextColumn,
    as_numbers,
    is_number_type,
    is_text_type,
    value_type,
)
from emsco.rows.column_reader import ColumnReader
from emsco.rows.dataset_blocks import Blocks, Chunk, ColumnRoles, batches_of
from emsco.rows.encoding import Array, Category, Codes, ColumnEncoding

_START_ROWS = 2**16  # whose fit is the start for all rows

Features: TypeAlias = tuple[str, ...]
Sums: TypeAlias = tuple[Array, Array | None]
ColumnsTrial: TypeAlias = tuple[NDArray[np.intp], Trial]  # weights of some columns
Steps: TypeAlias = Generator[Trial, Sums, Array]


def check_learner(learner: Learner, guard: Any, final: Any) -> None:
    """Refuse what needs all rows at once, and say what to do instead."""
    advice = (
        "needs all rows at once, but a data set is read block by block. Fit on rows in memory, "
        "such as those of emsco.arrow.sample_rows(dataset, y, max_rows)"
    )
    if not isinstance(learner, LogisticLearner):
        name = type(learner.estimator).__name__
        raise ColumnsError(f"{name} {advice}, or use the default classifier: estimator=None.")
    if guard is not None:
        raise ColumnsError(f"The guard {type(guard).__name__} {advice}, or use guard=None.")
    if final is not None:
        raise ColumnsError(f"The final model {type(final).__name__} {advice}, or use final=None.")


def check_types(types: Mapping[str, str], schema: pa.Schema) -> None:
    """Refuse declared types that the columns of a data set do not have already."""
    for name, kind in types.items():
        held = value_type(schema.field(name).type)
        if kind == TEXT_TYPE and is_text_type(held):
            continue
        if kind == NUMBER_TYPE and is_number_type(held):
            continue
        if kind == LONG_TEXT:
            raise ColumnsError(
                f"The long text of {name!r} is fitted to all rows at once, but a data set is read "
                "block by block. Fit on rows in memory, such as those of "
                "emsco.arrow.sample_rows(dataset, y, max_rows), or leave the column out."
            )
        raise ColumnsError(
            f"The costs declare {name!r} to be of the type {kind}, but the data set holds {held}; "
            "convert the column, or fit on rows in memory, such as those of "
            "emsco.arrow.sample_rows(dataset, y, max_rows)."
        )


@dataclass(frozen=True)
class BlockEncoding:
    """How a block is turned into encoded columns."""

    encodings: Encodings  # of each feature, in the order of columns
    roles: ColumnRoles
    classes: NDArray[Any]

    @property
    def names(self) -> list[str]:
        """The columns that are read."""
        return [*self.encodings, *self.roles.names]

    @property
    def n_columns(self) -> int:
        """The number of encoded columns, with the intercept."""
        return 1 + sum(encoding.width for encoding in self.encodings.values())

    def columns_of(self, features: Iterable[str]) -> NDArray[np.intp]:
        """Name the encoded columns of some features, the intercept first."""
        ends = np.cumsum([1, *(encoding.width for encoding in self.encodings.values())])
        places = {name: np.arange(*ends[i : i + 2]) for i, name in enumerate(self.encodings)}
        return np.concatenate([[0], *(places[name] for name in features)]).astype(np.intp)

    def codes(self, batch: pa.RecordBatch, first_row: int) -> NDArray[np.intp]:
        """Return the class code of each row of a block."""
        label = self.roles.label
        return Labels.read(batch.column(label), label, first_row).codes(self.classes)

    def rows(self, batch: pa.RecordBatch, first_row: int) -> TrainingRows:
        """Encode a block."""
        codes = self.codes(batch, first_row)
        columns = np.empty((self.n_columns - 1, batch.num_rows))
        end = 0
        for name, encoding in self.encodings.items():
            block = slice(end, end := end + encoding.width)
            columns[block] = encoding.encode(_values(batch.column(name), encoding)).T
        weight = self.roles.read_weight(batch, first_row)
        return make_rows(columns, codes, weight, len(self.classes))


def _values(column: pa.Array, encoding: ColumnEncoding) -> NDArray[Any]:
    if not isinstance(encoding, Category):
        return as_numbers(column)
    texts = TextColumn.read(column, encoding.levels)
    return encoding.codes(texts.words)[texts.places].view(Codes)


def _sum_chunk(chunk: Chunk, shared: tuple[BlockEncoding, list[ColumnsTrial]]) -> list[Sums]:
    """Sum the gradient and the curvature at trials, each on its own columns, over a chunk."""
    encoded, trials = shared
    totals: list[Sums] = []
    for first_row, batch in batches_of(chunk, encoded.names):
        rows = encoded.rows(batch, first_row)
        sums = [
            Loss(_taken(rows, columns), 1).evaluate(trial.weights, curved=trial.curved)
            for columns, trial in trials
        ]
        totals = _added(totals, sums)
    return totals


def _taken(rows: TrainingRows, columns: NDArray[np.intp]) -> TrainingRows:
    return rows if len(columns) == len(rows.columns) else rows.take(columns)


def _added(totals: list[Sums], sums: list[Sums]) -> list[Sums]:
    if not totals:  # copied, because what an engine returns may be read-only
        return [(g.copy(), None if c is None else c.copy()) for g, c in sums]
    for (gradient, curvature), (more, bend) in zip(totals, sums, strict=True):
        gradient += more
        if curvature is not None and bend is not None:
            curvature += bend
    return totals


class BlockTraining:
    """Replaces `Training` if the rows are a data set: fits stages by sums over its blocks.

    `names` are the columns of sources, in the order of the data set.
    """

    def __init__(
        self, learner: Learner, blocks: Blocks, names: Sequence[str], container: str = "pandas"
    ) -> None:
        self.learner = learner
        self.rule: LabelRule = EQUAL
        self.container = container
        self.names = list(names)
        self.fitted: dict[Features, LinearFit] = {}
        self._blocks = blocks
        self._readers: dict[str, ColumnReader] = {}

    @cached_property
    def classes(self) -> NDArray[Any]:
        """The labels."""
        return self._blocks.classes

    @property
    def most_frequent(self) -> int:
        """The position of the most frequent class."""
        return int(np.argmax(list(self._blocks.counts.values())))

    @property
    def class_shares(self) -> list[float]:
        """The share of rows that each class has."""
        return [count / self._blocks.n_rows for count in self._blocks.counts.values()]

    def judged_by(self, rule: LabelRule) -> BlockTraining:
        """Return the same rows, labelled by another rule."""
        self.rule = rule
        return self

    def reader(self, name: str) -> ColumnReader:
        """Learn how a column is read."""
        self._learn([name])
        return self._readers[name]

    def guarded(self, guard: Any, used: Sequence[str]) -> Any:  # noqa: ARG002  # as Training
        """Refuse a guard: it learns all rows at once."""
        check_learner(self.learner, guard, None)

    def fit(self, features: Features, number: int | None = None) -> LinearFit:
        """Return the classifier of a set of columns, fitted if necessary."""
        del number
        self.fit_many([features])
        return self.fitted[features]

    def fit_many(self, sets: Iterable[Features]) -> None:
        """Fit sets of columns that are not fitted yet, all in the same passes over the data."""
        new = [features for features in dict.fromkeys(sets) if features not in self.fitted]
        if not new:
            return
        used = {name for features in new for name in features}
        names = [name for name in self.names if name in used]
        self._learn(names)
        encodings = {name: self._readers[name].encoding for name in names}
        known = {name: own for name, own in encodings.items() if own is not None}
        encoded = BlockEncoding(known, self._blocks.roles, self.classes)
        base = class_base(len(self.classes))
        for features, (weights, n_rounds) in zip(new, self._descend(encoded, new), strict=True):
            by_score = weights.reshape(base.shape[1], -1)
            full = by_score if len(self.classes) == 2 else base @ by_score
            self.fitted[features] = LinearFit.of(full[:, 1:], full[:, 0], n_rounds)

    def _learn(self, names: Sequence[str]) -> None:
        new = [name for name in names if name not in self._readers]
        if new:
            self._readers |= self._blocks.readers(new)

    def _descend(self, encoded: BlockEncoding, sets: Sequence[Features]) -> list[tuple[Array, int]]:
        """Return the weights of each set, and how many steps they took, all in the same passes."""
        columns = [encoded.columns_of(features) for features in sets]
        steps = dict(enumerate(self._begin(encoded, columns)))
        trials = {i: next(step) for i, step in steps.items()}
        arrived: dict[int, tuple[Array, int]] = {}
        n_rounds = 0
        while trials:
            n_rounds += 1
            sums = self._sum(encoded, [(columns[i], trial) for i, trial in trials.items()])
            for i, found in zip(list(trials), sums, strict=True):
                try:
                    trials[i] = steps[i].send(found)
                except StopIteration as end:
                    arrived[i] = end.value, n_rounds
                    del trials[i]
        return [arrived[i] for i in range(len(sets))]

    def _begin(self, encoded: BlockEncoding, sets: Sequence[NDArray[np.intp]]) -> Iterator[Steps]:
        """Begin every descent from the fit of a few rows, where these tell all classes."""
        n_scores, n_columns = class_base(len(self.classes)).shape[1], encoded.n_columns
        zero = Trial(np.zeros((n_scores * n_columns, 1)), curved=False)
        ((gradient, _),) = self._sum(encoded, [(np.arange(n_columns), zero)])
        by_score = gradient.reshape(n_scores, n_columns)
        few = self._few_rows(encoded)
        for columns in sets:
            penalty = full_penalty(n_scores, len(columns))
            start = np.zeros_like(penalty)
            if few is not None:
                loss, share = Loss(_taken(few[0], columns), 1), few[1]
                with warnings.catch_warnings():  # it need not converge, as it is only a start
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    start = descend_in_memory(loss, penalty * share, start)[0]
            yield descend(by_score[:, columns].ravel(), penalty, start)

    def _few_rows(self, encoded: BlockEncoding) -> tuple[TrainingRows, float] | None:
        """Read the beginning of parts all over the data set, and say which share it is.

        None where these rows do not show every class: then a fit of them could be far off.
        """
        parts = [part for chunk in self._blocks.chunks for part in chunk]
        some = [parts[i] for i in np.unique(np.linspace(0, len(parts) - 1, 8).astype(int))]
        each = _START_ROWS // len(some)
        batches = [next(part.batches(encoded.names, rows=each)) for part in some]
        (batch,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
        weight = encoded.roles.read_weight(batch, 0)
        counts = np.bincount(encoded.codes(batch, 0), weight, minlength=len(self.classes))
        if not (counts > 0).all() or batch.num_rows >= self._blocks.n_rows:
            return None
        return encoded.rows(batch, 0), batch.num_rows / self._blocks.n_rows

    def _sum(self, encoded: BlockEncoding, trials: list[ColumnsTrial]) -> list[Sums]:
        """Sum over all chunks, in their order."""
        totals: list[Sums] = []
        for sums in self._blocks.map(_sum_chunk, (encoded, trials)):
            totals = _added(totals, sums)
        return totals
