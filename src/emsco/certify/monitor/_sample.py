"""Rows that wait for their truth: accepted rows, and a random share of all rows.

Keys and labels are checked before anything is counted.

Accepted rows count when their labels arrive. Drawn rows count in the order of their decisions,
because the truth arrives sooner for some than for others: a rejected row is reviewed on the same
day, an accepted one audited a month later. In the order of arrival, labels would come in clumps
with other means, and evidence against a promise would grow although the promise holds. In the order
of decisions, each row is as likely to be wrong as the next, whatever the delays.

A row whose truth never arrives is given up in the end, and counts as right: this may hide a change,
but it never causes an alarm.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from math import isfinite
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco._utils.missing_values import is_missing
from emsco.core.decisions import Decisions
from emsco.exceptions import MonitorError
from emsco.rows.columns import NUMERIC

TEXT, NUMBERS = "text", "numbers"
_COUNTS = {"asked": "requested", "counted": "counted", "given_up": "given_up"}  # in the state


@dataclass(slots=True)
class AuditedRow:
    """A row that was drawn; if it is done without a truth, it was given up.

    If it is not `is_requested`, its truth was known from the start.
    """

    key: Any
    label: Any
    accepted: bool
    truth: Any = None
    is_requested: bool = True
    done: bool = False


# The position, among the rows of a call, of the row that made this one count, and this row.
Counted = tuple[int, AuditedRow]


class AcceptedRows:
    """Accepted rows that wait for a label, and count when it arrives."""

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self.counted = 0
        self.forgotten = 0
        self.waiting: OrderedDict[Any, Any] = OrderedDict()

    @property
    def lacking(self) -> str:
        """That no label has arrived yet; "" if one has, or no row waits."""
        has_waited = self.waiting or self.forgotten
        return "no label of an accepted row has arrived" if has_waited and not self.counted else ""

    def decided(self, decisions: Decisions, keys: Sequence[Any]) -> None:
        """Store the labels that accepted rows were given."""
        rows = zip(keys, decisions.label.tolist(), decisions.accepted.tolist(), strict=True)
        for key, label, accepted in rows:
            if key in self.waiting:  # decided again: the last decision is the one that counts
                del self.waiting[key]
                self.forgotten += 1
            if accepted:
                self.waiting[key] = label
            if len(self.waiting) > self.keep:
                self.waiting.popitem(last=False)
                self.forgotten += 1

    def learn_truth(self, place: int, key: Any, truth: Any) -> list[Counted]:
        """Set the true label of a waiting row, and return the row."""
        self.counted += 1
        return [(place, AuditedRow(key, self.waiting.pop(key), accepted=True, truth=truth))]

    def state(self) -> dict[str, Any]:
        """Return everything that changes, as plain values."""
        rows = [list(row) for row in self.waiting.items()]
        return {"counted": self.counted, "forgotten": self.forgotten, "rows": rows}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from the `state` of another one."""
        self.counted, self.forgotten = int(state["counted"]), int(state["forgotten"])
        self.waiting.update((key, label) for key, label in state["rows"])


class AuditSample:
    """Rows drawn, until they can be counted."""

    def __init__(self, share: float, seed: int, keep: int, needs: str = "its truth") -> None:
        self.share = share
        self.seed = seed
        self.keep = keep
        self.needs = needs
        self.requested = 0  # rows that were asked for their truth; `counted`: those that got it
        self.counted = 0
        self.given_up = 0
        self.waiting: dict[Any, AuditedRow] = {}
        self._rows: deque[AuditedRow] = deque()

    @property
    def lacking(self) -> str:
        """What is lacking if fewer than half of the rows asked for have counted; else ""."""
        if 2 * self.counted >= self.requested:
            return ""
        return (
            f"{self.counted:,} of {self.requested:,} drawn rows have counted; "
            f"{len(self.waiting):,} wait for {self.needs}, and {self.given_up:,} were given up"
        )

    def decided(
        self, decisions: Decisions, keys: Sequence[Any], number: int, last: int | None = None
    ) -> list[Counted]:
        """Draw among rows, the first of which has this number; return rows that count now.

        The truth of rows that exit at the stage `last` is their label.
        """
        bits = np.random.PCG64(self.seed).advance(number)  # a row is drawn by its number alone
        drawn = np.random.Generator(bits).random(len(decisions)) < self.share
        counted: list[Counted] = []
        places = np.flatnonzero(drawn).tolist()
        for place, label, accepted, stage in zip(
            places,
            decisions.label[drawn].tolist(),
            decisions.accepted[drawn].tolist(),
            decisions.exit_stage[drawn].tolist(),
            strict=True,
        ):
            row = AuditedRow(keys[place], label, accepted)
            if stage == last:
                row.truth, row.is_requested, row.done = label, False, True
            if row.key in self.waiting:  # decided again: the last decision is the one that counts
                self._done(row.key)
            self.requested += row.is_requested
            self._append(row)
            counted += self._take(place)
        return counted

    def learn_truth(self, place: int, key: Any, truth: Any) -> list[Counted]:
        """Set the truth of a waiting row, and return the rows that count now."""
        self._done(key, truth)
        return self._take(place)

    def gave_up(self, place: int, key: Any) -> list[Counted]:
        """Stop waiting for the truth of a row, and return the rows that count now."""
        if key in self.waiting:
            self._done(key)
        return self._take(place)

    def _append(self, row: AuditedRow) -> None:
        self._rows.append(row)
        if not row.done:
            self.waiting[row.key] = row

    def _done(self, key: Any, truth: Any = None) -> None:
        row = self.waiting.pop(key)
        row.truth, row.done = truth, True

    def _take(self, place: int) -> list[Counted]:
        """Remove and return the rows that can be counted, in the order of their decisions."""
        counted = []
        while self._rows and (self._rows[0].done or len(self._rows) > self.keep):
            row = self._rows.popleft()
            if not row.done:
                self._done(row.key)
            self.counted += row.is_requested and row.truth is not None
            self.given_up += row.truth is None
            counted.append((place, row))
        return counted

    def state(self) -> dict[str, Any]:
        """Return everything that changes, as plain values."""
        return {
            **{key: getattr(self, name) for key, name in _COUNTS.items()},
            "rows": [list(astuple(row)) for row in self._rows],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from the `state` of another one."""
        for key, name in _COUNTS.items():
            setattr(self, name, int(state[key]))
        for fields in state["rows"]:
            self._append(AuditedRow(*fields))


def listed(values: Any, what: str) -> list[Any]:
    """Return values as a list of Python's own types."""
    if hasattr(values, "tolist"):
        values = values.tolist()
    if not isinstance(values, Iterable):
        raise MonitorError(f"The {what} must be a list, with one entry per row; got {values!r}.")
    return [value.item() if isinstance(value, np.generic) else value for value in values]


def listed_keys(values: Any) -> list[Any]:
    """Return keys as a list; JSON must be able to store them unchanged."""
    keys = listed(values, "keys")
    for key in keys:
        if not isinstance(key, int | str) and not (isinstance(key, float) and isfinite(key)):
            raise MonitorError(
                f"A key must be text or a number, so that JSON can store it; got {key!r}. Convert "
                "it to text."
            )
    return keys


def listed_labels(values: Any, keys: Sequence[Any], kind: str | None) -> list[Any]:
    """Return labels as a list, None for missing ones; they must have the type of the classes."""
    labels = listed(values, "labels")
    if len(labels) != len(keys):
        raise MonitorError(f"There are {len(keys)} keys but {len(labels)} labels.")
    known: type | None = None
    for place, label in enumerate(labels):
        if not isinstance(label, str | int) and np.ndim(label) == 0 and is_missing(label):
            labels[place] = None
        elif type(label) is not known:  # a type is checked once, not for every row
            kind, known = same_kind(label, kind, f" for row {keys[place]!r}"), type(label)
    return labels


def kind_of(labels: NDArray[Any], kind: str | None) -> str | None:
    """Return whether decided labels are text or numbers; they must be of the given kind."""
    if labels.dtype.kind in NUMERIC or labels.dtype.kind == "U":  # all have the type of the first
        labels = labels[:1]
    for label in labels.tolist():
        kind = same_kind(label, kind)
    return kind


def same_kind(label: Any, kind: str | None, where: str = "") -> str:
    """Return whether a label is text or a number; it must be of the given kind, if any."""
    own = TEXT if isinstance(label, str) else NUMBERS if isinstance(label, Number) else None
    if kind is not None and own != kind:
        raise MonitorError(
            f"Labels must have the type of the classes: the classes are {kind}, got {label!r}"
            f"{where}."
        )
    if own is None:
        raise MonitorError(f"Labels must be text or numbers, got {label!r}{where}.")
    return own
