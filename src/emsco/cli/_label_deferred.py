"""`emsco label --chat --deferred`: batch files for a provider, and its result files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from sklearn.utils import _safe_indexing

from emsco.batch.task import Due
from emsco.chat.answer_cache import AnswerCache
from emsco.chat.chat_file import read_chat_file
from emsco.chat.chat_model import ChatModel
from emsco.chat.deferred import DeferredQuestions, PendingRequest
from emsco.cli._errors import note
from emsco.cli._label_job import LabelJob
from emsco.cli._label_words import text_of
from emsco.exceptions import ArtifactError

_NOTE = "deferred"


@dataclass(frozen=True)
class DeferredRounds:
    """The batch files of a job."""

    job: LabelJob
    model: ChatModel
    frame: Any

    @classmethod
    def of(cls, job: LabelJob) -> DeferredRounds:
        """Return those of a job."""
        assert job.settings.chat is not None
        model, frame = read_chat_file(job.settings.chat), job.rows.frame()
        model.template.check(list(frame.columns))
        return cls(job, model, frame)

    def take(self) -> None:
        """Read the result of the last file, if it is there."""
        files = self._files()
        if not files or files[-1]:
            return
        answers = self._path("answers", len(files))
        if not answers.exists():
            return
        with self._questions() as questions:
            _, pending, _ = self._state(questions)
            found = questions.read(answers, pending, self._name(len(files)))
        self._keep([*files[:-1], True])
        failed = f", and {found.n_failed:,} to be asked again" if found.n_failed else ""
        note(f"Read: {answers}, with {found.n_answers:,} answers{failed}.")

    def ask(self) -> str | None:
        """Record what has come, and write what is to be asked; None if nothing is."""
        with self._questions() as questions:
            while True:
                labels, pending, due = self._state(questions)
                if due is None:
                    return None
                if pending:
                    return self._write(questions, pending, due)
                words = self.job.rows.words
                read = [None if label is None else words.label(text_of(label)) for label in labels]
                self.job.store.record(zip(due.rows.tolist(), read, strict=True))

    def _state(
        self, questions: DeferredQuestions
    ) -> tuple[list[Any], dict[str, PendingRequest], Due | None]:
        """Return the labels of the rows that are due, and what they wait for."""
        due = self.job.task.due()
        if due is None:
            return [], {}, None
        asked_rows = self.model.questions(_safe_indexing(self.frame, due.rows))
        return *questions.labels(asked_rows), due

    def _write(
        self, questions: DeferredQuestions, pending: dict[str, PendingRequest], due: Due
    ) -> str:
        files = self._files()
        is_new = not files or files[-1]  # otherwise its result is waited for
        if is_new:
            files.append(False)
            answers = self._path("answers", len(files))
            if answers.exists():
                raise ArtifactError(
                    f"{answers} is there already, although its requests are made only now; move "
                    "it away, and repeat the command."
                )
        path = self._path("ask", len(files))
        if is_new or not path.exists():
            questions.write(path, pending.values(), self._name(len(files)))
            self._keep(files)
        return (
            f"{'Written' if is_new else 'Waiting'}: {path}, with {len(pending):,} requests to "
            f"{self.model.model} ({due.name}). Give it to the provider as a batch, put the result "
            f"into {self._path('answers', len(files))}, and run `emsco label next "
            f"{self.job.folder}`."
        )

    @contextmanager
    def _questions(self) -> Iterator[DeferredQuestions]:
        cache = AnswerCache(self.model.answers)
        try:
            yield DeferredQuestions(self.model, cache)
        finally:
            cache.close()

    def _path(self, what: str, number: int) -> Path:
        return self.job.folder / f"{what}-{number}.jsonl"

    def _name(self, number: int) -> str:
        """Return what tells the reservations of a file from those of all others."""
        return f"{sha256(self.job.store.secret).hexdigest()[:16]} {number}"

    def _files(self) -> list[bool]:
        """Return of each file that was written whether its result was read."""
        return list(json.loads(self.job.store.note(_NOTE) or "[]"))

    def _keep(self, files: list[bool]) -> None:
        self.job.store.set_note(_NOTE, json.dumps(files))
