"""A task: a question with where its answers are; for a cold start, a first part before it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from emsco.batch.answers_store import AnswersStore, Inquiry
from emsco.batch.ask import Wish, fixed_of, make_question
from emsco.batch.batch_labels import (
    CHEAP,
    CHECKED,
    FAILED,
    KNOWN,
    SENT,
    BatchLabels,
    BatchPromise,
    without_job,
)
from emsco.batch.cheap_answers import CheapAnswers, cheap_answers
from emsco.batch.coins import digest_of, shuffled
from emsco.batch.label_codes import LabelCodes
from emsco.batch.log_rows import Log
from emsco.batch.promises import NEVER, NO_LABEL, Codes, Standing
from emsco.batch.question import CHECKS, REST, Question
from emsco.batch.row_marks import RowMarks
from emsco.cascade import Decider, decider_of
from emsco.core.costs import Costs
from emsco.exceptions import BatchError, EmscoWarning
from emsco.search import CascadeSearchCV

FIRST = "first part"


class Due(NamedTuple):
    """Rows to send to the final model next."""

    name: str
    rows: NDArray[np.intp]


class Task(Protocol):
    """Protocol of what is done step by step, by whoever sends rows to the final model."""

    def inquiry(self, marks: RowMarks) -> Inquiry:
        """Return what the store must know, before any row is sent."""

    def open(self, marks: RowMarks) -> None:
        """Record what is asked."""

    def due(self) -> Due | None:
        """Return the rows to send next, given the answers that the store has; None at the end."""

    def result(self) -> BatchLabels:
        """Return the labels."""

    def read(self, labels: Sequence[Any], *, spelled: bool = False) -> list[Any]:
        """Return labels that have come as they are recorded; refuse those that cannot be.

        `spelled`: every label comes as text.
        """


@dataclass
class WalkTask:
    """Labels by the walk over cheap answers."""

    wish: Wish
    cheap: CheapAnswers
    store: AnswersStore = field(repr=False)
    known: list[Any] = field(repr=False)
    log: Log | None = None
    first: Mapping[int, Any] = field(default_factory=dict)  # answers of a first part, by row
    first_held: frozenset[int] = frozenset()  # of them, those that serve as held-out rows
    rows: str = ""  # a digest of the rows' values

    def __post_init__(self) -> None:
        self.codes = LabelCodes()
        self.codes.read(self.cheap.labels)
        self._planned = self.codes.read(self.known)
        self._planned[self._planned == NO_LABEL] = NEVER
        self._known = self._planned.copy()
        shared = {} if self.log is None else self.log.shared
        # A row of the first part without an answer has none, and is not sent again.
        for row, label in [*self.first.items(), *shared.items()]:
            self._known[row] = self.codes.code(label)
            if row not in self.first_held and row not in shared:
                self._planned[row] = self._known[row]
        self._question: Question | None = None

    @property
    def question(self) -> Question:
        """The question, whose promises and terms are fixed when it is asked first."""
        if self._question is None:
            log = None if self.log is None else (self.log.cheap, self.log.final)
            if log is not None:
                self.codes.read(log[1])
            made: list[Question] = []

            def make() -> str:
                made.append(self._make(log, None))
                return json.dumps([fixed_of(made[0]), made[0].digest.hex()])

            fixed, digest = json.loads(self.store.fixed("terms", make))
            self._question = made[0] if made else self._make(log, fixed)
            if self._question.digest.hex() != digest:
                raise BatchError(
                    "The cheap answers to these rows, or their order, are not what they were when "
                    "the first rows were sent. Go on with the versions of emsco, numpy and "
                    "scikit-learn of then."
                )
        return self._question

    def _make(self, log: Any, fixed: Any) -> Question:
        return make_question(self.wish, self.cheap, self.codes, self._known, self.store.secret,
                             log=log, within=bool(self.first), planned=self._planned,
                             fixed=fixed)  # fmt: skip

    def inquiry(self, marks: RowMarks) -> Inquiry:
        """Return what the store must know, before any row is sent."""
        arrays: list[NDArray[Any]] = [
            self.codes.read(self.cheap.labels),
            self.cheap.trust,
            self._known,
            self._planned,
        ]
        if self.log is not None:
            own = self.log.cheap
            arrays += [self.codes.read(own.labels), own.trust, self.codes.read(self.log.final)]
            marks = marks.joined(self.log.marks)
        plain = json.dumps([self.wish.plain(), self.codes.labels, self.rows], default=repr)
        parts = [b"walk", plain.encode(), marks.to_bytes(), *(array.tobytes() for array in arrays)]
        identity = digest_of(parts).hex()
        return Inquiry(identity, self.wish.level, self.wish.allowed_error, marks)

    def open(self, marks: RowMarks) -> None:
        """Record what is asked."""
        self.store.open(self.inquiry(marks))

    def _final(self) -> Codes:
        question = self.question
        final = np.full(len(self.cheap), NEVER, dtype=np.int32)
        answers = self.store.answers()
        final[np.fromiter(answers, np.intp, len(answers))] = self.codes.read([*answers.values()])
        final[question.known] = self._known[question.known]  # also of a first part
        return final

    def read(self, labels: Sequence[Any], *, spelled: bool = False) -> list[Any]:
        """Return labels as they are recorded."""
        labels = self.codes.spelled(labels) if spelled else labels
        return self.codes.decode(self.codes.read(labels).tolist())

    def due(self) -> Due | None:
        """Return the rows to send next."""
        found = self.question.due(self._final())
        return None if found is None else Due(*found)

    def result(self) -> BatchLabels:
        """Return the labels."""
        question, final = self.question, self._final()
        cheap = question.cheap
        checked = np.zeros(len(cheap), dtype=bool)
        checked[question.checks] = True
        below = question.below(final)
        origin = np.full(len(cheap), CHEAP, dtype="<U7")
        origin[final != NEVER] = SENT
        origin[checked] = CHECKED
        origin[question.known] = KNOWN
        for row in self.first:
            origin[row] = CHECKED if row in self.first_held else SENT
        origin[final == NO_LABEL] = FAILED
        sent = (final != NEVER) & ~question.known
        sent[list(self.first)] = False
        calls = {
            CHECKS: int(checked.sum()),
            REST: int((sent & ~checked & below).sum()),
        }
        calls |= {name: len(rows) for name, rows in question.further(final)}
        if self.first:
            calls = {FIRST: len(self.first)} | calls
        codes = np.where(final == NEVER, cheap, final)
        seen = question.disagreements(final)
        notes = [] if self.store.folder is not None else [without_job()]
        n_failed = int((final == NO_LABEL).sum())
        if n_failed:
            notes.insert(0, f"{n_failed:,} rows have no label: the final model gave none. They "
                            "count as different.")  # fmt: skip
        return BatchLabels(
            labels=self.codes.decode(codes.tolist()),
            origin=origin,
            cheap=self.codes.decode(cheap.tolist()),
            trust=self.cheap.trust,
            index=None,
            promises=tuple(
                BatchPromise(
                    self._sentence(standing, len(cheap)),
                    standing.promise.most,
                    tolerated,
                    n,
                    float(standing.share),
                )
                for standing, tolerated, n in zip(
                    question.standings(final), question.terms.tolerated, seen, strict=True
                )
            ),
            confidence=1 - self.wish.level,
            assumptions=() if self.log is None else self.log.assumptions,
            calls=calls,
            lost=self.store.n_lost,
            stop=question.stop(final),
            rate=question.terms.rate,
            notes=tuple(notes),
        )

    def _sentence(self, standing: Standing, n_rows: int) -> str:
        promise, share = standing.promise, float(standing.share)
        if promise.kind == "agreement":
            return (
                f"at most {standing.left + standing.lacking:,} of {n_rows:,} labels differ from "
                f"what the final model would have said (agreement at least {1 - share:.6g})"
            )
        label = repr(self.codes.labels[promise.code])
        if promise.kind == "missed":
            return f"at most {share:.4g} of the rows that it calls {label} are labelled otherwise"
        return f"at least {1 - share:.4g} of the rows labelled {label} are called so by it"


@dataclass
class ColdStart:
    """Labels where nothing is known yet: a random part of the batch is sent first.

    One half of its answers fits a cascade, the other half is the log of the walk over the rest. As
    the part was drawn at random, nothing is assumed by that.
    """

    wish: Wish
    X: Any = field(repr=False)
    store: AnswersStore = field(repr=False)
    known: list[Any] = field(repr=False)
    costs: Costs | None
    search: CascadeSearchCV | None
    rows: str  # a digest of the rows' values

    def __post_init__(self) -> None:
        if (self.costs is None) == (self.search is None):
            raise BatchError("Without a cascade, give the prices of the sources as `costs`, or a "
                             "`search`.")  # fmt: skip
        free = np.array([row for row, label in enumerate(self.known) if label is None])
        size = first_part(len(free))
        if size >= len(free):
            raise BatchError(
                f"{len(free):,} rows are too few to begin without a cascade: the first part would "
                "be all of them. Send all, or give a cascade."
            )
        self._part = free[shuffled(self.store.secret, "first part", len(free))][:size]
        self._walk: WalkTask | None = None
        self.codes = LabelCodes()

    def inquiry(self, marks: RowMarks) -> Inquiry:
        """Return what the store must know, before any row is sent."""
        plain = json.dumps([self.wish.plain(), self.known, self.rows,
                            repr(self.costs), repr(self.search)], default=repr)  # fmt: skip
        identity = sha256(b"cold start" + plain.encode()).hexdigest()
        return Inquiry(identity, self.wish.level, self.wish.allowed_error, marks)

    def open(self, marks: RowMarks) -> None:
        """Record what is asked."""
        self.store.open(self.inquiry(marks))

    def read(self, labels: Sequence[Any], *, spelled: bool = False) -> list[Any]:
        """Return labels as they are recorded."""
        if self._walk is not None:
            return self._walk.read(labels, spelled=spelled)
        return self.codes.decode(self.codes.read(labels).tolist())

    def due(self) -> Due | None:
        """Return the rows to send next."""
        answers = self.store.answers()
        waiting = [row for row in self._part.tolist() if row not in answers]
        if waiting:
            return Due(FIRST, np.sort(waiting))
        return self.walk.due()

    def result(self) -> BatchLabels:
        """Return the labels."""
        found = self.walk.result()
        half = len(self._part) // 2
        note = (
            f"The first part, {len(self._part):,} random rows: {half:,} fitted the cascade, "
            f"{len(self._part) - half:,} were held out."
        )
        return replace(found, notes=(note, *found.notes))

    @property
    def walk(self) -> WalkTask:
        """The walk over the rest, by a cascade fitted on the first half of the part."""
        if self._walk is None:
            answers = self.store.answers()
            fitted, held = np.split(self._part, [len(self._part) // 2])
            usable = [row for row in fitted.tolist() if answers[row] is not None]

            def fitted_cascade() -> Decider:
                search = self.search
                if search is None:
                    search = CascadeSearchCV(costs=self.costs, random_state=0)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", EmscoWarning)  # the walk does not rest on it
                    search.fit(_safe_indexing(self.X, np.array(usable)),
                               np.array([answers[row] for row in usable]))  # fmt: skip
                return decider_of(search)

            cheap = self._fixed_answers(fitted_cascade)
            log = Log(cheap.take(held), [answers[row] for row in held.tolist()], ())
            first = {row: answers[row] for row in self._part.tolist()}
            self._walk = WalkTask(self.wish, cheap, self.store, self.known, log, first,
                                  frozenset(held.tolist()))  # fmt: skip
        return self._walk

    def _fixed_answers(self, fitted_cascade: Callable[[], Decider]) -> CheapAnswers:
        """Return the cheap answers as they were first: another fit would draw other coins."""

        def make() -> str:
            found = cheap_answers(fitted_cascade(), self.X)
            return json.dumps([found.labels, found.trust.tolist()])

        labels, trust = json.loads(self.store.fixed("cheap", make))
        return CheapAnswers(labels, np.array(trust, dtype=np.float64))


def first_part(n_rows: int) -> int:
    """Return how many rows are sent first, of which half fit a cascade."""
    return int(min(max(400, n_rows // 6), 4_000))
