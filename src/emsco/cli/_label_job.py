"""A labelling job in a folder: what is sent in files, what came back, and the labels in the end.

All that matters is in one SQLite file. Each step is recorded before its file is written, and a file
is written under a temporary name and then renamed, so that a killed command is simply repeated.
"""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
from emsco.cli._answers_file import AnswersColumns, AnswersReader, refused, unanswered
from emsco.cli._decision_stream import csv_parts
from emsco.cli._errors import note
from emsco.cli._label_rows import LabelRows
from emsco.cli._label_settings import LabelSettings
from emsco.cli._label_words import text_of
from emsco.cli._reviewer_answers import (
    ReviewerAnswers,
    digest_of_file,
    late_notes,
    merged,
    refuse_changed,
)
from emsco.cli._round_files import SheetFiles
from emsco.cli._spreadsheet import (
    CODE,
    SentRows,
    header_with_labels,
    needs_codes,
    row_codes,
    without_formulas,
)
from emsco.exceptions import ArtifactError, BatchError

LABELS, EVIDENCE = "labels.csv", "evidence.json"
_ROUNDS, _REVIEWED = "rounds", "reviewed"


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
        names = [LABELS, EVIDENCE, self._files(1).ask.name]
        paths = [self.folder / name for name in names]
        strange = next((path for path in paths if path.exists()), self._files(1).strange())
        if strange is not None:
            raise ArtifactError(f"{strange} is there, but not of this job; choose another folder.")

    def _files(self, number: int) -> SheetFiles:
        return SheetFiles(self.folder, number)

    def waiting(self) -> SheetFiles | None:
        """Return the files that wait for answers; None if all that were sent have come."""
        rounds, due = self._rounds(), self.task.due()
        if due is None or not rounds or rounds[-1] != _digest(due.rows):
            return None
        reviewed = self._reviewed(len(rounds))
        files = self._files(len(rounds))
        return files.settling if reviewed is not None and reviewed.disputed else files

    def _rounds(self) -> list[str]:
        return list(json.loads(self.store.note(_ROUNDS) or "[]"))

    def _reviewed(self, number: int) -> ReviewerAnswers | None:
        """Return what reviewers answered to a round; None if their files were not read yet."""
        text = self.store.note(f"{_REVIEWED} {number}")
        return None if text is None else ReviewerAnswers(**json.loads(text))

    def take(
        self,
        waiting: SheetFiles,
        failed: str | None,
        new: Sequence[str],
        *,
        newlines_in_cells: bool,
    ) -> None:
        """Record the answers to a round, if there are any and all files can be accepted.

        Nothing is recorded before rows that were answered differently are settled. What was read is
        kept before it is recorded, so that a file that changes meanwhile changes nothing.
        """
        due = self.task.due()
        assert due is not None
        reviewed = self._reviewed(waiting.number)
        if reviewed is None or reviewed.disputed:
            rows = due.rows.tolist() if reviewed is None else reviewed.disputed
            reader = AnswersReader(
                AnswersColumns(self.rows.key, self.settings.label),
                SentRows([self.rows.keys[row] for row in rows], row_codes(self.store.secret, rows)),
                self.rows.words,
                failed,
                newlines_in_cells or self.settings.newlines_in_cells,
            )
            found = self._merged(waiting, due, rows, reader, reviewed)
            if found is None:
                return
            reviewed = found
            self.declare(new)
            self.store.set_note(f"{_REVIEWED} {waiting.number}", reviewed.to_json())
        if not reviewed.disputed:
            label = self.rows.words.label
            self.store.record(
                (row, None if text is None else label(text)) for row, text in reviewed.answers
            )

    def _merged(
        self,
        waiting: SheetFiles,
        due: Due,
        rows: Sequence[int],
        reader: AnswersReader,
        reviewed: ReviewerAnswers | None,
    ) -> ReviewerAnswers | None:
        """Read what has come; None if nothing has."""
        found = waiting.found()
        if reviewed is not None:
            refuse_changed([*self._files(waiting.number).found().values()], reviewed, waiting.ask)
            if len(found) > 1:
                raise BatchError(
                    f"{' and '.join(map(str, found.values()))} both settle the same rows; keep one "
                    "of them."
                )
        if not found:
            return None
        digests = {path.name: digest_of_file(path) for path in found.values()}
        by_reviewer = {}
        for name, path in found.items():
            answers = reader.read(path, whole=len(found) == 1)
            by_reviewer[name] = {rows[place]: text for place, text in answers.items()}
            if digest_of_file(path) != digests[path.name]:
                raise BatchError(f"{path} changed while it was read; repeat the command.")
        if reviewed is not None:
            return reviewed.settled(digests, *by_reviewer.values())
        answered = set().union(*by_reviewer.values())
        lacking = unanswered([self.rows.keys[row] for row in rows if row not in answered])
        if lacking:
            raise refused([*found.values()], lacking)
        answers_of_all = merged(rows, digests, by_reviewer, f"Round {waiting.number} ({due.name})")
        settling = waiting.settling
        if answers_of_all.disputed and (settling.ask.exists() or settling.found()):
            raise _too_early(next(iter([*settling.found().values(), settling.ask])))
        for text in answers_of_all.notes:
            note(text)
        return answers_of_all

    def ask(self) -> tuple[SheetFiles, Due] | None:
        """Write the rows that are due next to a file; None if none is."""
        due = self.task.due()
        rounds = self._rounds()
        for number in range(1, len(rounds) + 1):
            self._note_late_files(number)
        if due is None:
            return None
        digest = _digest(due.rows)
        if not rounds or rounds[-1] != digest:
            rounds.append(digest)
            strange = self._files(len(rounds)).strange()
            if strange is not None:
                raise _too_early(strange)
            self.store.set_note(_ROUNDS, json.dumps(rounds))
        files = self._files(len(rounds))
        reviewed = self._reviewed(len(rounds))
        if reviewed is not None and reviewed.disputed:
            files, due = files.settling, Due("answered differently", np.array(reviewed.disputed))
        if not files.ask.exists():  # never over one that somebody may have filled in
            self._write_sheet(files.ask, due.rows)
        return files, due

    def _note_late_files(self, number: int) -> None:
        """Say which files changed, or came, after the answers to a round were recorded."""
        reviewed = self._reviewed(number)
        if reviewed is not None and not reviewed.disputed:
            files = self._files(number)
            found = [*files.found().values(), *files.settling.found().values()]
            for text in late_notes(found, reviewed):
                note(text)

    def _write_sheet(self, path: Path, rows: NDArray[np.intp]) -> None:
        """Write rows for people: in random order, with a column to fill in."""
        rows = rows[shuffled(self.store.secret, path.name, len(rows))]
        table = without_formulas(self.rows.visible.take(rows))
        table = table.rename_columns([self.rows.key, *table.column_names[1:]])
        if needs_codes(self.rows.keys[row] for row in rows.tolist()):
            codes = row_codes(self.store.secret, rows.tolist())
            table = table.append_column(CODE, pa.array(codes))
        header = header_with_labels(self.settings.label, self.rows.words.by_text)
        _write(path, table.append_column(header, pa.array([""] * len(rows))), is_marked=True)

    def finish(self) -> BatchLabels:
        """Write the labels and the evidence, when nothing is due any more."""
        found = self.rows.batch.result(self.task, self.settings.price)
        rounds = range(1, len(self._rounds()) + 1)
        said = [text for number in rounds for text in getattr(self._reviewed(number), "notes", [])]
        found = replace(found, notes=(*found.notes, *said))
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


def _too_early(path: Path) -> ArtifactError:
    return ArtifactError(
        f"{path} is there already, although its rows are sent only now; move it away, and repeat "
        "the command."
    )


def _digest(rows: NDArray[np.intp]) -> str:
    return sha256(rows.astype("<i8").tobytes()).hexdigest()


def _write(path: Path, table: pa.Table, *, is_marked: bool = False) -> None:
    """Write CSV; with a mark, spreadsheets know that letters beyond ASCII are UTF-8."""
    parts = csv_parts(table.schema, table.to_batches())
    if is_marked:
        text = b"".join(parts)
        parts = iter([text if text.isascii() else BOM_UTF8 + text])
    write_whole(path, parts)
