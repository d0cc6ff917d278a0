"""What stages are fitted on: training rows, read once; or the fitted stages of a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_method_params,
    _check_sample_weight,
    assert_all_finite,
    check_consistent_length,
)

from emsco._utils.frozen_mapping import FrozenMapping
from emsco.core.costs import Costs
from emsco.core.label_rule import EQUAL, LabelRule
from emsco.core.validation import read_given_labels, resolve_costs
from emsco.core.value_type import LONG_TEXT, long_texts
from emsco.exceptions import ArtifactError, ClassesError, ColumnsError, ValuesError, quoted
from emsco.learners.final_model import logged, refuse_unused
from emsco.learners.protocol import Fold, Learner
from emsco.learners.text_fits import TextRows, TextTable
from emsco.rows.column_reader import ColumnReader, kind_of
from emsco.rows.columns import (
    Columns,
    as_categories,
    has_missing,
    is_category,
    plain,
    refuse_invalid,
)
from emsco.rows.declared_types import declare_columns
from emsco.rows.encoding import Array, ColumnEncoding, learn, read
from emsco.rows.guard import InputGuard
from emsco.rows.rows import Layout, Rows
from emsco.rows.text_encoding import Text

MOST_CLASSES = 256  # a code must fit into one byte


def read_given(
    owner: Any,
    X: Any,
    y: Any,
    *,
    learner: Learner,
    costs: Any,
    final: Any,
    params: Mapping[str, Any],
) -> tuple[Layout, Rows, Costs, Training, Any]:
    """Read X and y as `fit` is given them in memory, and match the prices with the columns.

    Returns the layout of X, the rows with the columns of sources, the prices, the training rows for
    the learner, and X for splitters. `owner` is the estimator that is being fitted.
    """
    layout, rows, table = Layout.learn(owner, X, y, logged(final))
    labels = _check_labels(y, len(rows))
    resolved = resolve_costs(costs, rows.names)
    layout, rows = layout.using(rows, resolved.features)
    refuse_unused(layout.unused, final)
    sources = [resolved.columns(name) for name in resolved.names]
    columns = declare_columns(rows.columns, resolved.types)
    training = Training(
        learner,
        rows.container,
        columns,
        labels,
        dict(params),
        sources,
        types=resolved.types,
        raw=rows.columns,
    )
    return layout, rows, resolved, training, table


def _check_takes_rule(learner: Learner, rule: LabelRule) -> None:
    """Refuse label weights for a learner that would ignore them."""
    kinds = type(learner).__mro__
    said = next((i for i, kind in enumerate(kinds) if "takes_label_weights" in vars(kind)), None)
    # What a class says is about its own `fits`, not about that of a subclass.
    own = next((i for i, kind in enumerate(kinds) if "fits" in vars(kind)), 0)
    takes = said is not None and said <= own and vars(kinds[said])["takes_label_weights"]
    if not rule.is_equal and not takes:
        raise ClassesError(
            f"{type(learner).__name__} does not take label weights: its outcomes must come from "
            "`training.rule.judge(probability)`, and it must say `takes_label_weights = True`."
        )


def _check_labels(y: ArrayLike | None, n_rows: int) -> NDArray[Any]:
    """Check the labels of training rows: one per row, and at least two classes."""
    labels: NDArray[Any] = column_or_1d(read_given_labels(y), warn=True)
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    check_consistent_length(labels, np.empty(n_rows))
    classes = np.unique(labels)
    if len(classes) < 2:
        raise ClassesError(
            f"`y` must have at least 2 classes, got 1 class: {classes.tolist()[0]!r}."
        )
    return labels


@dataclass(eq=False)
class Training:
    """Rows to fit on; what is learned about columns, and every fit, is kept."""

    learner: Learner
    container: str  # in which the user's own classifiers get their columns
    columns: Columns  # every column, in the order of X, read as its declared type
    labels: NDArray[Any]
    params: dict[str, Any]  # passed to the `fit` of every estimator
    sources: Sequence[Sequence[str]] = ()  # for a classifier that predicts for every set
    may_be_missing: Set[str] = frozenset()  # columns with missing values that these rows lack
    types: Mapping[str, str] = FrozenMapping()  # of columns, declared by the costs
    raw: Columns | None = None  # columns as X had them, if some types are declared
    rule: LabelRule = EQUAL  # how probabilities become labels
    texts: TextTable | None = None  # columns of long text, of all rows that were read
    rows: NDArray[np.intp] | None = None  # which of them these are; None: all
    blocks: NDArray[np.intp] | None = None  # rows that a fit of text must not divide

    fitted: dict[tuple[str, ...], Any] = field(init=False, default_factory=dict)
    shared: dict[str, Any] = field(init=False, default_factory=dict)  # fitted for several sets
    _values: dict[str, NDArray[Any]] = field(init=False, default_factory=dict)
    _readers: dict[str, ColumnReader] = field(init=False, default_factory=dict)
    _encodings: dict[str, ColumnEncoding] = field(init=False, default_factory=dict)
    _blocks: dict[str, Array] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        # Codes are positions in classes.
        self.classes, self.codes = np.unique(self.labels, return_inverse=True)
        self.params = dict(self.params)
        named = [name for name in long_texts(self.types) if name in self.columns]
        if named and self.learner.is_one_model:
            raise ColumnsError(
                f"{type(self.learner.estimator).__name__} takes numbers, and {quoted(named)} holds "
                "long text; leave it out of the costs, or use the default classifier."
            )
        if named and self.texts is None:
            columns = {name: self.columns[name] for name in named}
            self.texts = TextTable(columns, len(self.classes))
        self._weight = np.ones(len(self.labels))
        if self.weight is None:
            return
        if not self.learner.takes_weights():
            raise ColumnsError(
                f"`sample_weight` was given, but {type(self.learner.estimator).__name__}.fit does "
                "not take it."
            )
        self._weight = _check_sample_weight(self.weight, self.labels, ensure_non_negative=True)
        if not self._weight.any():
            raise ValuesError("`sample_weight` must be above 0 for at least one row.")
        self.params["sample_weight"] = self._weight

    @property
    def weight(self) -> Array | None:
        """How much each row counts; None if all count 1."""
        return self.params.get("sample_weight")

    @property
    def names(self) -> list[str]:
        """Every column, in the order of X."""
        return list(self.columns)

    @property
    def most_frequent(self) -> int:
        """The position of the most frequent class."""
        return int(np.unique(self.labels, return_counts=True)[1].argmax())

    def take(self, rows: NDArray[np.intp]) -> Training:
        """Return the same with some of the rows, without anything learned."""
        return replace(
            self,
            columns={name: column[rows] for name, column in self.columns.items()},
            labels=self.labels[rows],
            params=_check_method_params(self.labels, self.params, indices=rows),
            rows=rows if self.rows is None else self.rows[rows],
            blocks=None if self.blocks is None else self.blocks[rows],
            may_be_missing={name for name in self.columns if has_missing(self.values(name))},
        )

    def judged_by(self, rule: LabelRule) -> Training:
        """Return the same rows, labelled by another rule, with everything learned."""
        _check_takes_rule(self.learner, rule)
        changed = replace(self, rule=rule)
        for name in ("fitted", "shared", "_values", "_readers", "_encodings", "_blocks"):
            setattr(changed, name, getattr(self, name))
        return changed

    @property
    def class_shares(self) -> list[float]:
        """The share of rows, or of their weights, that each class has."""
        shares: list[float] = (np.bincount(self.codes, self._weight) / self._weight.sum()).tolist()
        return shares

    def by(self, learner: Learner) -> Training:
        """Return the same rows for another learner, without anything learned."""
        return replace(self, learner=learner)

    def refuse_missing_class(self, folds: Sequence[Fold]) -> None:
        """Refuse folds from which a classifier cannot learn every class."""
        n_classes = len(self.classes)
        if n_classes > MOST_CLASSES:
            raise ClassesError(f"`y` may have at most {MOST_CLASSES} classes, got {n_classes}.")
        for number, fold in enumerate(folds):
            rows = fold.train[self._weight[fold.train] > 0]
            counts = np.bincount(self.codes[rows], minlength=n_classes)
            if not counts.all():
                counted = "" if self.weight is None else " with a sample_weight above 0"
                raise ClassesError(
                    f"Every training fold must contain every class; fold {number} has no "
                    f"row{counted} of the class {self.classes.tolist()[np.argmin(counts)]!r}. "
                    "Stratify the folds, or use fewer."
                )

    def values(self, name: str) -> NDArray[Any]:
        """Return a column as plain values; infinity raises an error."""
        if name not in self._values:
            values = plain(self.columns[name])
            refuse_invalid(values, name, missing_seen=True, raw=self.columns[name])
            self._values[name] = values
        return self._values[name]

    def reader(self, name: str) -> ColumnReader:
        """Learn how a column is read."""
        if name not in self._readers:
            values = self.values(name)
            kind = kind_of(self.columns[name], values)
            if self.learner.encodes:
                encoding = self.encoding(name)
                reader = ColumnReader(kind, encoding.missing_seen, encoding)
            else:
                missing_seen = name in self.may_be_missing or has_missing(values)
                reader = ColumnReader(kind, missing_seen)
            self._readers[name] = reader.declared(self.types.get(name))
        return self._readers[name]

    def encoding(self, name: str) -> ColumnEncoding:
        """Learn how the default classifier encodes a column."""
        if name not in self._encodings:
            may_be_missing, column = name in self.may_be_missing, self.columns[name]
            if self.types.get(name) == LONG_TEXT:
                self._learn_text(name, may_be_missing)
            else:
                learned = learn(column, name, self._weight, may_be_missing=may_be_missing)
                self._encodings[name] = learned
        return self._encodings[name]

    def _learn_text(self, name: str, may_be_missing: bool) -> None:
        """Learn how long text is encoded; these rows get scores of models fitted without them."""
        assert self.texts is not None
        own = TextRows(self._places, self.codes, self._weight, self.blocks)
        found = self.texts.learn(name, own, may_be_missing=may_be_missing)
        self._encodings[name], self._blocks[name] = found

    @property
    def _places(self) -> NDArray[np.intp]:
        """The positions of these rows among all that were read."""
        return np.arange(len(self.labels)) if self.rows is None else self.rows

    def encoded(self, name: str) -> Array:
        """Return a column as the numbers that the default classifier takes."""
        encoding = self.encoding(name)
        if name not in self._blocks:
            self._blocks[name] = encoding.encode(read(encoding, self.columns[name]))
        return self._blocks[name]

    def tested(self, fold: Fold, train: Training, name: str) -> Array:
        """Encode a column of the rows that a fold evaluates, as its training rows have taught."""
        encoding = train.encoding(name)
        if isinstance(encoding, Text) and fold.test_columns is None and self.texts is not None:
            return self.texts.block(name, encoding, self._places[fold.test])
        column = fold.tested(self.columns, [name])[name]
        values, missing_seen = read(encoding, column), encoding.missing_seen
        refuse_invalid(values, name, missing_seen=missing_seen, rows=fold.test, raw=column)
        return encoding.encode(values)

    def guarded(self, guard: Any, used: Sequence[str]) -> Any:
        """Return a guard that has learned some of the columns."""
        fitted = clone(guard, safe=False)
        # A guard must know declared categories, even if their values are numbers.
        fitted.fit(
            {
                name: as_categories(values) if is_category(self.columns[name]) else values
                for name, values in ((name, self.values(name)) for name in used)
            }
        )
        return fitted

    def fit(self, features: tuple[str, ...], number: int | None = None) -> Any:
        """Return the classifier of a set of columns, fitted if necessary."""
        if features not in self.fitted:
            self.fitted[features] = self.learner.fit(self, features, number)
        return self.fitted[features]


@dataclass(frozen=True)
class FittedStages:
    """Replaces `Training` if there are no rows: it returns fitted stages, and fits none."""

    learner: Learner
    container: str
    classes: NDArray[Any]
    most_frequent: int
    names: Sequence[str]
    readers: Mapping[str, ColumnReader]  # of each column that a stage sees
    fitted: Mapping[tuple[str, ...], Any]
    guard: InputGuard | None = None  # has learned all these columns
    rule: LabelRule = EQUAL  # how probabilities become labels

    def reader(self, name: str) -> ColumnReader:
        """Return how a column is read."""
        return self.readers[name] if name in self.readers else self._refuse([name])

    def fit(self, features: tuple[str, ...], number: int | None = None) -> Any:  # noqa: ARG002
        """Return the classifier of a set of columns."""
        return self.fitted[features] if features in self.fitted else self._refuse(features)

    def guarded(self, guard: Any, used: Sequence[str]) -> InputGuard:  # noqa: ARG002  # as Training
        """Return the guard with what it learned about some columns."""
        known = {} if self.guard is None else self.guard.learned_
        unknown = [name for name in used if name not in known]
        if self.guard is None or unknown:
            self._refuse(unknown)
        fitted: InputGuard = clone(self.guard)
        fitted.learned_ = FrozenMapping({name: known[name] for name in used})
        return fitted

    def _refuse(self, features: Sequence[str]) -> Any:
        raise ArtifactError(
            f"The file of this search has no stage on {quoted(features)}, and no training rows to "
            "fit it on. Fit the search again, or call cascade(candidate) for every candidate that "
            "may be chosen before you dump it."
        )
