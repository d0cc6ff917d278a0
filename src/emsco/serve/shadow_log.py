"""Reads the log of a cascade in shadow: its rows, and what the cascade would have saved.

Only rows decided in shadow count. For other rows, the log has only the values that the cascade
bought, and the rows for which it bought everything are not a fair sample.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emsco.exceptions import ArtifactError
from emsco.live.decision_log import DECISIONS, LABELS


@dataclass(frozen=True)
class ShadowRow:
    """A row that the final model answered in shadow mode."""

    id: str
    key: str  # its HMAC
    time: str
    model: str  # the digest of the cascade
    answer: Any  # of the final model
    paid: float  # for all sources
    # What the cascade would have decided: label, exit_stage, cost, saved, and whether it would have
    # used the final model.
    would_be: Mapping[str, Any]
    values: Mapping[str, Any]
    truth: Any = None


@dataclass(frozen=True)
class ShadowLog:
    """The usable rows of a log, and the number of other rows."""

    rows: tuple[ShadowRow, ...]  # with all values, one per decision, oldest first
    failed: int = 0  # not answered, because a source failed or a value was invalid
    others: int = 0  # not decided in shadow

    @property
    def features(self) -> tuple[str, ...]:
        """The features that all rows have."""
        names = dict.fromkeys(self.rows[0].values)
        for row in self.rows:
            if len(row.values) != len(names) or not names.keys() <= row.values.keys():
                names = {name: None for name in names if name in row.values}
        return tuple(names)

    def summaries(self) -> list[ShadowSavings]:
        """Return what each cascade would have saved and changed, the latest first."""
        by_model: dict[str, list[ShadowRow]] = {}
        for row in reversed(self.rows):
            by_model.setdefault(row.model, []).append(row)
        return [ShadowSavings.of(model, own[::-1]) for model, own in by_model.items()]


@dataclass(frozen=True)
class ShadowSavings:
    """What a cascade in shadow would have saved and changed."""

    model: str  # the digest of the cascade
    rows: int  # that the final model answered
    paid: float  # per row
    cost: float  # that the cascade would have paid per row
    early: float  # the share of rows that would not have reached the final model
    changed: tuple[ShadowRow, ...]  # that the cascade would have answered differently
    labelled: int  # rows with a true label, and how many of them both get right
    right: int
    would_be_right: int

    @classmethod
    def of(cls, model: str, rows: Sequence[ShadowRow]) -> ShadowSavings:
        """Summarize the rows of one cascade."""
        labelled = [row for row in rows if row.truth is not None]
        return cls(
            model=model,
            rows=len(rows),
            paid=sum(row.paid for row in rows) / len(rows),
            cost=sum(row.would_be["cost"] for row in rows) / len(rows),
            early=sum(not row.would_be["final"] for row in rows) / len(rows),
            changed=tuple(row for row in rows if row.would_be["label"] != row.answer),
            labelled=len(labelled),
            right=sum(row.answer == row.truth for row in labelled),
            would_be_right=sum(row.would_be["label"] == row.truth for row in labelled),
        )


def read_shadow_log(folder: Path) -> ShadowLog:
    """Read the log of a cascade in shadow.

    If a decision was repeated after a crash, only the last one counts.
    """
    entries: dict[str, dict[str, Any]] = {}
    for entry in sorted(_entries(folder, DECISIONS), key=lambda one: str(one["time"])):
        entries.pop(entry["id"], None)
        entries[entry["id"]] = entry
    shadowed = [entry for entry in entries.values() if "shadow" in entry]
    whole = [entry for entry in shadowed if entry["accepted"] and entry["shadow"] is not None]
    if not whole:
        raise ArtifactError(
            f"{folder} has no row that was decided in shadow with all its values; it must be the "
            "folder of `emsco serve --shadow --log FOLDER --log-values`."
        )
    truths = {
        entry["id"]: entry["label"]
        for entry in sorted(_entries(folder, LABELS), key=lambda one: str(one["time"]))
    }
    rows = tuple(
        ShadowRow(
            entry["id"], entry["key"], entry["time"], entry["model"], entry["label"],
            entry["cost"], entry["shadow"], entry["values"], truths.get(entry["id"]),
        )
        for entry in whole
    )  # fmt: skip
    return ShadowLog(rows, len(shadowed) - len(whole), len(entries) - len(shadowed))


def _entries(folder: Path, kind: str) -> Iterator[dict[str, Any]]:
    """Yield the entries of all files of a kind.

    A killed process may leave an incomplete last line. The log then continues in another file,
    because files are named by process.
    """
    for path in sorted(folder.glob(f"{kind}-*.jsonl")):
        try:
            lines = path.read_bytes().split(b"\n")
        except OSError as error:
            raise ArtifactError(f"{path} cannot be read: {error.strerror}.") from error
        for number, line in enumerate(lines[:-1]):  # without an incomplete last line
            try:
                entry = json.loads(line)
                entry["id"], entry["time"]
            except (ValueError, KeyError, TypeError) as error:
                raise ArtifactError(
                    f"Line {number + 1} of {path} is not a decision-log entry."
                ) from error
            yield entry
