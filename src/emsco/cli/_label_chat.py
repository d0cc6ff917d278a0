"""The final model of `emsco label begin --chat`: a chat model, and what its answers have cost."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from sklearn.utils import _safe_indexing

from emsco.batch.final_calls import Calls
from emsco.chat.chat_file import read_chat_file
from emsco.chat.chat_model import ChatModel
from emsco.cli._label_rows import LabelRows
from emsco.cli._label_words import LabelWords, text_of
from emsco.exceptions import BatchError

_DECIDING = ("base_url", "model", "prompt", "labels")


def chat_digest(path: Path) -> str:
    """Return a digest of what decides the answers: prices and limits may change in between."""
    model = read_chat_file(path)
    return sha256(json.dumps([model.to_data()[name] for name in _DECIDING]).encode()).hexdigest()


def chat_labels(path: Path) -> list[str]:
    """Return the labels of a chat model, as files have them."""
    return [text_of(label) for label in read_chat_file(path).labels]


def chat_calls(path: Path, rows: LabelRows, price: float | None) -> Calls:
    """Return how a chat model is called for the rows of a job."""
    model, frame = read_chat_file(path), rows.frame()
    model.template.check(list(frame.columns))
    final = ChatOfJob(model, rows.words)
    return Calls(final, lambda places: _safe_indexing(frame, places), price=price)


@dataclass(frozen=True)
class ChatOfJob:
    """A chat model, whose labels are those of a job."""

    model: ChatModel
    words: LabelWords

    @property
    def concurrency(self) -> int:
        """How many questions are asked at the same time."""
        return self.model.concurrency

    async def __call__(self, rows: Any) -> list[Any]:
        """Return the label of each row."""
        async with self.open_calls() as call:
            return await call(rows)

    @asynccontextmanager
    async def open_calls(self) -> AsyncIterator[Callable[[Any], Awaitable[list[Any]]]]:
        """Open the connections, and give what is called."""
        async with self.model.open_calls() as ask:

            async def call(rows: Any) -> list[Any]:
                return [self._read(label) for label in await ask(rows)]

            yield call

    def _read(self, label: Any) -> Any:
        if label is None:
            return None
        text = text_of(label)
        fault = self.words.unknown(text)
        if fault is not None:
            raise BatchError(f"The chat model answered with an {fault}")
        return self.words.label(text)


def spending_note(path: Path) -> str | None:
    """Say what a chat model has cost so far; None if it has no prices."""
    model = read_chat_file(path)
    if model.price_in is None:
        return None
    spending = model.spending()
    unknown = (
        f", and up to {spending.unknown:.4g} more for {spending.n_unknown:,} calls whose cost is "
        "not known"
        if spending.n_unknown
        else ""
    )
    return f"{model.model} has cost {spending.known:.4g}{unknown}."
