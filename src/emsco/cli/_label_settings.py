"""What a labelling job was begun with: options, and digests of the files that they name."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields
from hashlib import file_digest
from pathlib import Path
from typing import Any

from emsco.cli._options import flag_of
from emsco.exceptions import ArtifactError, BatchError

_FILES = ("rows", "model", "log", "costs", "final", "chat")


@dataclass(frozen=True)
class LabelSettings:
    """The options of `emsco label begin` that decide what is asked; paths are absolute."""

    rows: Path
    model: Path | None
    answers: str | None
    trust: str | None
    costs: Path | None
    agreement: float | None
    confidence: float
    max_missed: list[str] | None
    min_precision: list[str] | None
    key: str | None
    known: str | None
    log: Path | None
    label: str
    final: str | None
    chat: Path | None
    deferred: bool
    price: float | None
    questions: int
    trust_type: list[str] | None
    newlines_in_cells: bool
    text: list[str] | None = None

    def to_json(self, job: Path) -> str:
        """Write the settings, with the paths of files as seen from the job, and their digests."""
        plain = asdict(self) | {
            name: os.path.relpath(path.resolve(), job.resolve())
            for name, path in self._files().items()
        }
        digests = {name: _digest(path) for name, path in self._files().items()}
        if self.chat is not None:
            from emsco.cli._label_chat import chat_digest

            digests["chat"] = chat_digest(self.chat)
        return json.dumps({"options": plain, "digests": digests}, default=str)

    def _files(self) -> dict[str, Path]:
        found = {name: getattr(self, name) for name in _FILES}
        if self.final is not None:
            found["final"] = final_file(self.final)
        return {name: path for name, path in found.items() if path is not None}


def settings_of(job: Path, begun: str) -> LabelSettings:
    """Read the settings of a job; refuse files that have changed since it was begun."""
    try:
        both = json.loads(begun)
        plain = dict(both["options"])
        for name in both["digests"]:
            path = Path(os.path.normpath(job.resolve() / plain[name]))
            plain[name] = str(path) if name == "final" else path
        found = LabelSettings(**plain)
    except (ValueError, KeyError, TypeError) as error:
        raise BatchError(f"The settings of {job} cannot be read: {error}.") from error
    _refuse_changed(job, begun, found.to_json(job))
    return found


def refuse_other(job: Path, begun: str, now: str) -> None:
    """Refuse settings other than those with which a job was begun."""
    before, after = json.loads(begun)["options"], json.loads(now)["options"]
    for field in fields(LabelSettings):
        name = field.name
        if before[name] != after[name]:
            what = "rows" if name == "rows" else flag_of(name)
            raise BatchError(
                f"{job} was begun with {what} {_said(before[name])}, not {_said(after[name])}. "
                "Repeat the same command to go on, or begin another job with --out."
            )
    _refuse_changed(job, begun, now)


def _refuse_changed(job: Path, begun: str, now: str) -> None:
    before, after = json.loads(begun), json.loads(now)["digests"]
    for name, digest in before["digests"].items():
        if after.get(name) != digest:
            path = os.path.normpath(job / before["options"][name])
            raise BatchError(
                f"{path} has changed since {job} was begun, so its question is another one. Put "
                "the file back as it was, or begin another job."
            )


def _said(value: Any) -> str:
    if value is None or value == []:
        return "(none)"
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def final_file(final: str) -> Path | None:
    """Return the file of a final model; None if it is a function."""
    return Path(final) if Path(final).suffix in (".skops", ".onnx") else None


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error.strerror}.") from error
