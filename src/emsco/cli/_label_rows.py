"""The rows of a labelling job: what is shown of them, their cheap answers, and their labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from emsco.batch.ask import Wish
from emsco.batch.cheap_answers import before_final
from emsco.batch.label import Batch, batch_of_answers, batch_of_rows
from emsco.cascade import Decider, decider_of
from emsco.cli._errors import note
from emsco.cli._key_file import check_key_type
from emsco.cli._label_settings import LabelSettings
from emsco.cli._label_words import LabelWords, text_of
from emsco.cli._labelled_frame import read_features
from emsco.cli._model_file import load_cascade
from emsco.cli._options import by_class, shares_by_label
from emsco.cli._spreadsheet import CODE, is_header_of
from emsco.cli._table_file import TableFile, check_columns, open_rows, report_rows
from emsco.core.costs import Costs, Source
from emsco.core.value_type import TEXT_KIND
from emsco.exceptions import ArtifactError, BatchError, ColumnsError, ValuesError, quoted
from emsco.rows.arrow_columns import as_objects

ROW = "row"  # the column of row numbers, where there is no key
RESULTS = ("label", "origin", "cheap", "trust")  # the other columns of the labels


@dataclass(frozen=True)
class LabelRows:
    """Rows to label.

    Parameters
    ----------
    batch : Batch
        The rows, as the library labels them.
    words : LabelWords
        The labels that are known.
    key : str
        The column by which files name rows.
    keys : list of str
        What it has for each row.
    visible : Table
        What is shown of the rows: neither cheap answers nor known ones.
    frame : callable
        Returns what is shown as a pandas frame, for a final model.
    """

    batch: Batch
    words: LabelWords
    key: str
    keys: list[str]
    visible: pa.Table = field(repr=False)
    frame: Callable[[], Any] = field(repr=False)


def read_label_rows(settings: LabelSettings, new: Sequence[str]) -> LabelRows:
    """Read the rows of a job, with all that their question needs."""
    rows = open_rows(settings.rows, newlines_in_cells=settings.newlines_in_cells)
    hidden = [name for name in (settings.answers, settings.trust, settings.known) if name]
    key = settings.key or ROW
    check_columns(rows, [*rows.names, *hidden, *([settings.key] if settings.key else [])])
    names = [name for name in rows.names if name not in hidden]
    answers = next((name for name in names if is_header_of(name, settings.label)), None)
    for taken, why in (
        (None if settings.key else ROW, "number rows; name it by --key"),
        (CODE, "name rows for spreadsheets"),
        (answers, "hold answers; give another name by --label"),
    ):
        if taken in names:
            raise ColumnsError(
                f"{settings.rows} has a column {taken!r}, which is to {why}, or rename it."
            )
    table = rows.table(rows.names)
    if not table.num_rows:
        raise ArtifactError(f"{settings.rows} has no rows.")
    report_rows(settings.rows, table.num_rows)
    keys = list(map(str, range(table.num_rows)))
    if settings.key:
        if key in (*hidden, *RESULTS):
            raise ColumnsError(
                f"--key {key}: another column of the labels is called so; rename it."
            )
        check_key_type(rows.types[key], settings.rows, key)
        keys = _keys(settings.rows, key, table.column(key))
    reader = _Reader(settings, LabelWords((), new), table, keys)
    frame = partial(_frame, settings, [name for name in names if name != key])
    return LabelRows(
        reader.batch(), reader.words, key, keys, _visible(table, key, keys, names), frame
    )


def _keys(path: Path, key: str, column: pa.ChunkedArray) -> list[str]:
    found = _texts(column)
    first: dict[str, int] = {}
    for row, text in enumerate(found):
        if not text:
            raise ValuesError(f"Row {row} of {path} has no key in {key!r}.", row=row)
        if first.setdefault(text, row) != row:
            raise BatchError(
                f"Rows {first[text]} and {row} of {path} have the same key, {text!r}; a key must "
                "be that of one row."
            )
    return found


def _texts(column: pa.ChunkedArray) -> list[str]:
    """Return cells as text; missing ones are empty."""
    return ["" if value is None else text_of(value) for value in as_objects(column).tolist()]


def _visible(table: pa.Table, key: str, keys: list[str], names: Sequence[str]) -> pa.Table:
    """Return what ask files have: the key or the number of each row, and the columns."""
    columns: dict[str, Any] = {key: pa.array(keys)}
    for name in names:
        column = table.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_nested(column.type):
            raise ColumnsError(
                f"Column {name!r} holds {column.type}, which CSV cannot show; leave it out, or "
                "make columns of it."
            )
        columns.setdefault(name, column)
    return pa.table(columns)


def _frame(settings: LabelSettings, names: Sequence[str]) -> Any:
    rows = open_rows(settings.rows, newlines_in_cells=settings.newlines_in_cells)
    return read_features(rows, names, again=True)


@dataclass(frozen=True)
class _Reader:
    """Reads cheap answers, known ones and the log, by the settings."""

    settings: LabelSettings
    words: LabelWords
    table: pa.Table
    keys: list[str]

    def batch(self) -> Batch:
        """Return the rows as the library labels them."""
        settings = self.settings
        if settings.answers is not None:
            return self._by_answers(settings.answers)
        if settings.model is not None:
            return self._by_model(settings.model)
        return self._cold()

    def _by_answers(self, column: str) -> Batch:
        answers = self._cheap(self.table, column, self.settings.rows)
        trust = self._trust(self.settings.rows)
        log = None
        if self.settings.log is not None:
            path = self.settings.log
            table = self._log_table(path, [column])
            own = self._cheap(table, column, path)
            log = [own, self._trust(path), *self._logged(table, path)]
        known = self._known()  # before the promises, which may name its labels
        return batch_of_answers(answers, trust, self._wish(), log=log, known=known,
                                keys=self._row_keys())  # fmt: skip

    def _by_model(self, path: Path) -> Batch:
        cascade = load_cascade(path, self.settings.trust_type)
        decider = before_final(decider_of(cascade))
        for label in decider.classes.tolist():
            self.words.learn(label)
        X = self._features(self.settings.rows, decider)
        log = None
        if self.settings.log is not None:
            own = self.settings.log
            log = [self._features(own, decider), *self._logged(self._log_table(own, []), own)]
        known = self._known()
        return batch_of_rows(cascade, X, self._wish(), log=log, known=known,
                             keys=self._row_keys())  # fmt: skip

    def _cold(self) -> Batch:
        settings = self.settings
        known = self._known()
        rows = open_rows(settings.rows, newlines_in_cells=settings.newlines_in_cells)
        prices, names = self._priced(rows)
        X = read_features(rows, names, types=prices.types, again=True)
        return batch_of_rows(None, X, self._wish(), known=known, keys=self._row_keys(),
                             costs=prices)  # fmt: skip

    def _priced(self, rows: TableFile) -> tuple[Costs, list[str]]:
        """Return the prices of the columns that are used, and these columns."""
        from emsco.cli.search import load_costs, priced

        settings = self.settings
        roles = [settings.key] if settings.key else []
        if settings.costs is not None:
            prices: Costs = load_costs(settings.costs)
            return prices, priced(rows, settings.known, prices, settings.costs, roles)
        names = list(dict.fromkeys(settings.text or []))
        check_columns(rows, names)
        others = [n for n in rows.names if n not in {*names, *roles, settings.known}]
        if others:
            note(f"emsco: not used, because --text does not name them: {quoted(others)}.")
        return Costs([Source(name, kind=TEXT_KIND, cost=1.0) for name in names]), names

    def _features(self, path: Path, decider: Decider) -> Any:
        """Read the columns that a model knows, with its types."""
        rows = open_rows(path, newlines_in_cells=self.settings.newlines_in_cells)
        held = set(rows.names)
        names = [name for name in decider.layout.names if name in decider.readers or name in held]
        return read_features(rows, names, readers=decider.readers, again=True)

    def _trust(self, path: Path) -> Any:
        assert self.settings.trust is not None
        rows = open_rows(path, newlines_in_cells=self.settings.newlines_in_cells)
        found = read_features(rows, [self.settings.trust], again=True)[self.settings.trust]
        values = found.to_numpy()
        if values.dtype.kind == "O":
            raise ColumnsError(
                f"Column {self.settings.trust!r} of {path} must hold numbers, and holds "
                f"{quoted(dict.fromkeys(found.dropna()), most=3)}."
            )
        return values.astype(np.float64)

    def _log_table(self, path: Path, more: Sequence[str]) -> pa.Table:
        rows = open_rows(path, newlines_in_cells=self.settings.newlines_in_cells)
        names = [self.settings.label, *more, *([self.settings.key] if self.settings.key else [])]
        check_columns(rows, names)
        table = rows.table(names)
        report_rows(path, table.num_rows)
        return table

    def _logged(self, table: pa.Table, path: Path) -> list[Any]:
        """Return the final answers of the log, and its keys."""
        key = self.settings.key
        answers = self._final(table, self.settings.label, path)
        return [answers, *([_keys(path, key, table.column(key))] if key else [])]

    def _known(self) -> list[Any] | None:
        column = self.settings.known
        return None if column is None else self._final(self.table, column, self.settings.rows)

    def _cheap(self, table: pa.Table, column: str, path: Path) -> list[Any]:
        """Return cheap answers, whose labels are known from then on."""
        texts = _texts(table.column(column))
        self.words.add(texts, f"Column {column!r} of {path}")
        return [self.words.label(text) if text else None for text in texts]

    def _final(self, table: pa.Table, column: str, path: Path) -> list[Any]:
        """Return final answers, whose labels must be known."""
        texts = _texts(table.column(column))
        for row, text in enumerate(texts):
            fault = self.words.unknown(text) if text else None
            if fault is not None:
                raise ValuesError(
                    f"Row {row} of {path} has in {column!r} the {fault.rstrip('.')} A label that "
                    "is right although the cheap answers lack it is declared by --new-label.",
                    row=row,
                    column=column,
                )
        return [self.words.label(text) if text else None for text in texts]

    def _row_keys(self) -> list[str] | None:
        return self.keys if self.settings.key else None

    def _wish(self) -> Wish:
        settings, labels = self.settings, self.words.by_text.values()
        shares = {
            flag: by_class(shares_by_label(texts, flag), labels, flag)
            for flag, texts in (("--max-missed", settings.max_missed),
                                ("--min-precision", settings.min_precision))
        }  # fmt: skip
        return Wish.of(settings.agreement, settings.confidence, shares["--max-missed"],
                       shares["--min-precision"], settings.questions)  # fmt: skip
