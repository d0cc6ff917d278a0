"""A labelling job in a folder: what is sent in files, what came back, and the labels in the end.

All that matters is in one SQLite file. Each step is recorded before its file is written, and a file
is written under a temporary name and then renamed, so that a killed command is simply repeated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from emsco._utils.atomic_write import write_whole
from emsco.batch import BatchLabels
from emsco.batch.answers_store import JobStore
from emsco.batch.coins import shuffled
from emsco.batch.task import Due, Task
from emsco.cli._answers_file import AnswersColumns, read_answers_file
from emsco.cli._decision_stream import csv_parts
from emsco.cli._label_rows import LabelRows
from emsco.cli._label_settings import LabelSettings
from emsco.cli._label_words import text_of
from emsco.exceptions import ArtifactError, BatchError

LABELS, EVIDENCE = "labels.csv", "evidence.json"
_ROUNDS = "rounds"


class AskFile(NamedTuple):
    """Rows that wait for answers: which round this is, and its files."""

    number: int
    ask: Path
    answers: Path


@contextmanager
def open_store(folder: Path) -> Iterator[JobStore]:
    """Open a job, for one process at a time."""
    store = JobStore(folder)
    try:
        yield store
    finally:
        store.close()


class Begun(NamedTuple):
    """What a job was begun with: its settings, its question, and the labels declared so far."""

    settings: str
    question: str
    new: list[str]

    @classmethod
    def of(cls, store: JobStore) -> Begun | None:
        """Return what a job was begun with; None if it was not begun."""
        text = store.note("begun")
        return None if text is None else cls(*json.loads(text))

    def write(self, store: JobStore) -> None:
        """Keep it in the job."""
        store.set_note("begun", json.dumps(self))


@dataclass
class LabelJob:
    """A job whose rows have been read.

    Parameters
    ----------
    folder : Path
        Its folder.
    store : JobStore
        Where its question and answers are.
    settings : LabelSettings
        What it was begun with.
    rows : LabelRows
        Its rows.
    """

    folder: Path
    store: JobStore
    settings: LabelSettings
    rows: LabelRows

    def __post_init__(self) -> None:
        self.task: Task = self.rows.batch.task(self.store)

    def open(self, new: Sequence[str]) -> None:
        """Ask the question, or go on with it; refuse another one. `new` are declared labels."""
        inquiry = self.task.inquiry(self.rows.batch.marks)
        begun = Begun.of(self.store)
        if begun is not None and begun.question != inquiry.identity:
            raise BatchError(
                f"The cheap answers to the rows of {self.folder}, or their trust, are not what "
                "they were when it was begun, although no file has changed. Go on with the "
                "versions of emsco, numpy and scikit-learn of then."
            )
        self.store.open(inquiry)
        if begun is None:
            self._refuse_strange_files()
            self.task.due()  # refuses promises that cannot be made
            settings = self.settings.to_json(self.folder)
            Begun(settings, inquiry.identity, list(new)).write(self.store)
        for label in self.store.answers().values():
            if label is not None:
                self.rows.words.learn(label)

    def declare(self, new: Sequence[str]) -> None:
        """Keep labels that were declared."""
        begun = Begun.of(self.store)
        assert begun is not None
        begun._replace(new=list(dict.fromkeys([*begun.new, *new]))).write(self.store)

    def _refuse_strange_files(self) -> None:
        names = [LABELS, EVIDENCE, *(path.name for path in self._files(1)[1:])]
        strange = [name for name in names if (self.folder / name).exists()]
        if strange:
            raise ArtifactError(
                f"{self.folder / strange[0]} is there, but not of this job; choose another folder."
            )

    def _files(self, number: int) -> AskFile:
        return AskFile(
            number, self.folder / f"ask-{number}.csv", self.folder / f"answers-{number}.csv"
        )

    def waiting(self) -> AskFile | None:
        """Return the round that waits for answers; None if all that were sent have come."""
        rounds, due = self._rounds(), self.task.due()
        if due is None or not rounds or rounds[-1] != _digest(due.rows):
            return None
        return self._files(len(rounds))

    def _rounds(self) -> list[str]:
        return list(json.loads(self.store.note(_ROUNDS) or "[]"))

    def take(self, waiting: AskFile, failed: str | None, *, newlines_in_cells: bool) -> None:
        """Record the answers to a round, if the whole file can be accepted."""
        due = self.task.due()
        assert due is not None
        found = read_answers_file(
            waiting.answers,
            AnswersColumns(self.rows.key, self.settings.label),
            [self.rows.keys[row] for row in due.rows.tolist()],
            self.rows.words,
            failed=failed,
            newlines_in_cells=newlines_in_cells or self.settings.newlines_in_cells,
        )
        self.store.record(zip(due.rows.tolist(), found, strict=True))

    def ask(self) -> tuple[AskFile, Due] | None:
        """Write the rows that are due next to a file; None if none is."""
        due = self.task.due()
        if due is None:
            return None
        rounds, digest = self._rounds(), _digest(due.rows)
        if not rounds or rounds[-1] != digest:
            rounds.append(digest)
            files = self._files(len(rounds))
            for path in files[1:]:
                if path.exists():
                    raise ArtifactError(
                        f"{path} is there already, although its rows are sent only now; move it "
                        "away, and repeat the command."
                    )
            self.store.set_note(_ROUNDS, json.dumps(rounds))
        files = self._files(len(rounds))
        if not files.ask.exists():  # never over one that somebody may have filled in
            order = shuffled(self.store.secret, files.ask.name, len(due.rows))
            _write(files.ask, self.rows.visible.take(due.rows[order]))
        return files, due

    def finish(self) -> BatchLabels:
        """Write the labels and the evidence, when nothing is due any more."""
        found = self.rows.batch.result(self.task, self.settings.price)
        if not (self.folder / LABELS).exists():
            columns = {
                self.rows.key: self.rows.keys,
                "label": _as_texts(found.labels),
                "origin": found.origin.tolist(),
                "cheap": _as_texts(found.cheap),
                "trust": pa.array(found.trust, from_pandas=True),
            }
            _write(self.folder / LABELS, pa.table(columns))
        if not (self.folder / EVIDENCE).exists():
            found.dump(self.folder / EVIDENCE)
        return found


def _as_texts(labels: Sequence[Any]) -> list[str]:
    return ["" if label is None else text_of(label) for label in labels]


def _digest(rows: NDArray[np.intp]) -> str:
    return sha256(rows.astype("<i8").tobytes()).hexdigest()


def _write(path: Path, table: pa.Table) -> None:
    write_whole(path, csv_parts(table.schema, table.to_batches()))
