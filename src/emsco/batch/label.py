"""Label a batch as an expensive model would, with a fraction of its calls and an exact promise."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any

from sklearn.utils import _safe_indexing

from emsco._utils.event_loops import run
from emsco._utils.missing_values import is_missing
from emsco._utils.progress import tell
from emsco.batch.answers_store import AnswersStore, JobStore, MemoryStore
from emsco.batch.ask import Wish
from emsco.batch.batch_labels import BatchLabels, check_length
from emsco.batch.cheap_answers import (
    before_final,
    cheap_answers,
    price_of_final,
    read_answers,
)
from emsco.batch.final_calls import Calls, call_all, check_calls
from emsco.batch.log_rows import Log, read_log
from emsco.batch.row_marks import RowMarks
from emsco.batch.task import ColdStart, Task, WalkTask
from emsco.cascade import Decider, decider_of
from emsco.core.costs import Costs
from emsco.exceptions import BatchError
from emsco.rows.columns import listed
from emsco.rows.rows import read_all


@dataclass(frozen=True)
class Batch:
    """Rows to label, whoever gives the final answers, and wherever they are then."""

    n_rows: int
    marks: RowMarks
    index: list[Any] | None
    task: Callable[[AnswersStore], Task]

    def result(self, task: Task, price: float | None) -> BatchLabels:
        """Return the labels, when nothing is due any more."""
        return replace(task.result(), index=self.index, price=price)


def label_batch(
    cascade: Any,
    X: Any,
    final: Any,
    *,
    agreement: float | None = 0.99,
    confidence: float = 0.99,
    max_missed: Mapping[Any, float] | None = None,
    min_precision: Mapping[Any, float] | None = None,
    log: Sequence[Any] | None = None,
    known: Any = None,
    keys: Any = None,
    job: str | os.PathLike[str] | None = None,
    questions: int = 1,
    costs: Costs | None = None,
    search: Any = None,
    price: float | None = None,
    concurrency: int = 8,
    rows_per_call: int | None = None,
) -> BatchLabels:
    """Label rows as a final model would, and call it for as few of them as possible.

    At most a share of one less `agreement` of the labels differ from what the final model would
    have said, with probability `confidence`, whatever the rows, the cascade and its errors are.
    The final model is called in two rounds: for random checks, and for the rows below the place
    where these find the cheap labels wrong too often.

    Parameters
    ----------
    cascade : CascadeClassifier, CascadeSearchCV, Decider or None
        What answers cheaply: a fitted cascade or search; of one with a final model, the stages
        before it. None: nothing is known yet; a random part of the batch is sent first, and a
        cascade is searched on its answers.
    X : pandas or polars frame, or numpy array
        The rows.
    final : callable, model with predict, or live source
        The final model. A function receives rows of X and returns their labels in that order, None
        where it has none; or a mapping of position to label. It may be async. A live source is
        asked by key for the feature `label`, or for the column of logged answers, if the cascade
        has one.
    agreement : float or None, default=0.99
        The least share of labels that are as the final model's. None: only bounds by class.
    confidence : float, default=0.99
        One minus the probability that any promise is broken. There is no slack in it.
    max_missed : mapping of label to share, default=None
        Of the rows that the final model calls this, the largest share labelled otherwise.
    min_precision : mapping of label to share, default=None
        Of the rows labelled this, the least share that the final model calls so.
    log : (X, answers) or (X, answers, keys), default=None
        Held-out rows with the final model's answers, as free checks. They must be like the batch,
        as if both were drawn together, row by row, with nothing else done with them. Not rows that
        reached the final model through a cascade.
    known : sequence or mapping of position to label, default=None
        Answers that are known already; None where there is none. These rows are not sent.
    keys : sequence, default=None
        A key for each row, by which it is recognised; a live source is asked by it.
    job : path, default=None
        A folder that keeps the question and all answers: a killed process goes on there. None:
        they are kept in memory.
    questions : int, default=1
        How many questions will be asked about these rows, which share the confidence.
    costs, search : Costs and CascadeSearchCV, default=None
        Without a cascade: the prices of the sources, or the search to use.
    price : float, default=None
        The price of a row sent. None: that of the cascade's final model, if it has one.
    concurrency : int, default=8
        How many calls are made at the same time, at most. A function that is not async is called
        from as many threads.
    rows_per_call : int, default=None
        The rows in a call. None: one with `job`; otherwise all of a round, for a function.

    Returns
    -------
    BatchLabels
        The labels, where each is from, and what is promised of them.

    Examples
    --------
    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> from emsco import CascadeClassifier
    >>> from emsco.batch import label_batch
    >>> from emsco.datasets import make_costly_classification
    >>> X, y, costs = make_costly_classification(6000, 4, class_sep=2, random_state=0)
    >>> final = HistGradientBoostingClassifier(random_state=0).fit(X[:1000], y[:1000])
    >>> cascade = CascadeClassifier(costs=costs).fit(X[1000:2000], final.predict(X[1000:2000]))
    >>> found = label_batch(cascade, X[2000:], final, agreement=0.97)
    >>> found.promises[0].most  # labels of 4,000 that may differ
    120
    >>> found.rounds, found.avoided > 0.2
    (2, True)
    """
    wish = Wish.of(agreement, confidence, max_missed, min_precision, questions)
    batch = batch_of_rows(cascade, X, wish, log=log, known=known, keys=keys, costs=costs,
                          search=search)  # fmt: skip
    decider = None if cascade is None else decider_of(cascade)
    if price is None and decider is not None:
        price = price_of_final(decider)
    answer = (decider.layout.answers if decider is not None else None) or "label"
    calls = Calls(final, lambda rows: _safe_indexing(X, rows), _listed(keys), answer, price,
                  concurrency, rows_per_call)  # fmt: skip
    return _label(batch, calls, job)


def batch_of_rows(
    cascade: Any,
    X: Any,
    wish: Wish,
    *,
    log: Sequence[Any] | None = None,
    known: Any = None,
    keys: Any = None,
    costs: Costs | None = None,
    search: Any = None,
) -> Batch:
    """Prepare rows, with the parameters of `label_batch`."""
    rows = read_all(X)
    n_rows, columns = rows.n_rows, rows.columns
    values = RowMarks.of(n_rows, None, columns)
    marks = values if keys is None else RowMarks.of(n_rows, _listed(keys), columns)
    index = None if rows.index is None else listed(rows.index.to_numpy())
    index = index if keys is None else _listed(keys)
    read_known = _read_known(known, n_rows)
    if cascade is None:
        if log is not None:
            raise BatchError("Without a cascade there is no `log`: its rows would fit the cascade.")

        def task(store: AnswersStore) -> Task:
            return ColdStart(wish, X, store, read_known, costs, search, values.digest)

    else:
        if costs is not None or search is not None:
            raise BatchError("`costs` and `search` are for a batch without a cascade.")
        decider = decider_of(cascade)
        cheap = cheap_answers(decider, X)
        logged = None
        if log is not None:
            logged = _log_of(log, cascade, before_final(decider), marks, read_known)

        def task(store: AnswersStore) -> Task:
            return WalkTask(wish, cheap, store, read_known, logged, rows=values.digest)

    return Batch(n_rows, marks, index, task)


def label_answers(
    answers: Any,
    trust: Any,
    final: Any,
    *,
    agreement: float | None = 0.99,
    confidence: float = 0.99,
    max_missed: Mapping[Any, float] | None = None,
    min_precision: Mapping[Any, float] | None = None,
    log: Sequence[Any] | None = None,
    known: Any = None,
    keys: Any = None,
    job: str | os.PathLike[str] | None = None,
    questions: int = 1,
    price: float | None = None,
    concurrency: int = 8,
    rows_per_call: int | None = None,
) -> BatchLabels:
    """Label rows by somebody's own cheap answers, with the promise of `label_batch`.

    Parameters
    ----------
    answers : sequence
        A cheap answer to each row; None where there is none. There may be any number of classes.
    trust : sequence of float
        How much each answer is trusted: the larger, the more. If all are between 0 and 1, they
        also plan the number of checks, as the expected share of right answers.
    final : callable or live source
        The final model: a function that receives positions of rows, and returns their labels in
        that order, None where it has none; or a mapping of position to label. It may be async. A
        live source is asked by key for the feature `label`.
    agreement : float or None, default=0.99
        The least share of labels that are as the final model's. None: only bounds by class.
    confidence : float, default=0.99
        One minus the probability that any promise is broken.
    max_missed : mapping of label to share, default=None
        Of the rows that the final model calls this, the largest share labelled otherwise.
    min_precision : mapping of label to share, default=None
        Of the rows labelled this, the least share that the final model calls so.
    log : (answers, trust, final answers) or with keys as a fourth, default=None
        Held-out rows as free checks, as in `label_batch`.
    known : sequence or mapping of position to label, default=None
        Final answers that are known already.
    keys : sequence, default=None
        A key for each row, by which it is recognised whatever answers there are.
    job : path, default=None
        A folder that keeps the question and all answers.
    questions : int, default=1
        How many questions will be asked about these rows, which share the confidence.
    price : float, default=None
        The price of a row sent.
    concurrency : int, default=8
        How many calls are made at the same time, at most.
    rows_per_call : int, default=None
        The rows in a call, as in `label_batch`.

    Returns
    -------
    BatchLabels
        The labels, where each is from, and what is promised of them.

    Examples
    --------
    >>> from emsco.batch import label_answers
    >>> cheap = ["spam" if i % 5 == 0 else "ham" for i in range(2000)]
    >>> trust = [1 - i / 4000 for i in range(2000)]
    >>> def expensive(rows):
    ...     return [cheap[i] if i < 1990 else "spam" for i in rows]
    >>> found = label_answers(cheap, trust, expensive, agreement=0.95)
    >>> found.avoided > 0.5
    True
    """
    wish = Wish.of(agreement, confidence, max_missed, min_precision, questions)
    batch = batch_of_answers(answers, trust, wish, log=log, known=known, keys=keys)
    calls = Calls(final, lambda rows: rows.tolist(), _listed(keys), "label", price, concurrency,
                  rows_per_call)  # fmt: skip
    return _label(batch, calls, job)


def batch_of_answers(
    answers: Any,
    trust: Any,
    wish: Wish,
    *,
    log: Sequence[Any] | None = None,
    known: Any = None,
    keys: Any = None,
) -> Batch:
    """Prepare somebody's own cheap answers, with the parameters of `label_answers`."""
    cheap = read_answers(answers, trust)
    n_rows = len(cheap)
    marks = RowMarks.of(n_rows, _listed(keys), None)
    read_known = _read_known(known, n_rows)
    logged = None
    if log is not None:
        own, scores, final_answers, *log_keys = _parts(log, "(answers, trust, final answers)", 3)
        logged = read_log(read_answers(own, scores), final_answers, *log_keys, batch=marks,
                          known=read_known)  # fmt: skip
    return Batch(n_rows, marks, _listed(keys),
                 lambda store: WalkTask(wish, cheap, store, read_known, logged))  # fmt: skip


def _label(batch: Batch, calls: Calls, job: str | os.PathLike[str] | None) -> BatchLabels:
    check_calls(calls, batch.n_rows)
    store: AnswersStore = MemoryStore() if job is None else JobStore(job)
    try:
        task = batch.task(store)
        task.open(batch.marks)
        send_all(task, calls, store)
        return batch.result(task, calls.price)
    finally:
        if isinstance(store, JobStore):
            store.close()


def send_all(task: Task, calls: Calls, store: AnswersStore) -> None:
    """Send the rows that are due, until none is."""
    read = partial(task.read, spelled=calls.is_spelled)
    while (due := task.due()) is not None:
        name, rows = due
        run(call_all(calls, rows, what=f"final model, {name}", store=store, read=read))
    tell("label", 1.0)


def _listed(values: Any) -> list[Any] | None:
    return None if values is None else listed(values)


def _read_known(known: Any, n_rows: int) -> list[Any]:
    """Return the known answer to each row, None where there is none."""
    if known is None:
        return [None] * n_rows
    values: list[Any]
    if isinstance(known, Mapping):
        beyond = [
            row for row in known if not isinstance(row, Integral) or not 0 <= int(row) < n_rows
        ]
        if beyond:
            raise BatchError(f"`known` names the row {beyond[0]!r}; there are {n_rows:,} rows.")
        values = [known.get(row) for row in range(n_rows)]
    else:
        values = listed(known)
        check_length(n_rows, "known", values)
    return [None if is_missing(value) else value for value in values]


def _parts(log: Any, shape: str, least: int) -> Sequence[Any]:
    if not isinstance(log, tuple | list) or len(log) not in (least, least + 1):
        raise BatchError(f"`log` must be {shape}, or with the rows' keys as the last.")
    return log


def _log_of(
    log: Sequence[Any], cascade: Any, decider: Decider, marks: RowMarks, known: list[Any]
) -> Log:
    """Read held-out rows, and the cheap answers to them."""
    X, final, *keys = _parts(log, "(X, answers)", 2)
    rows = decider.layout.read_known(X)
    return read_log(
        cheap_answers(decider, X), final, *keys, batch=marks, known=known,
        columns=read_all(X).columns, rows=rows,
        fitted=getattr(cascade, "fitted_rows_", None),
    )  # fmt: skip
