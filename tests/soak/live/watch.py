"""What every live decision is held against while faults go on: the table, and what the fault does.

A rule says which rows a fault must reject, and with which reasons. A call during which the rule
changed is held against the table alone: nobody knows which of the two it met.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco import Decisions
from emsco.core.decisions import kind_of
from tests.soak.live.problem import NAMES, Problem

# What a busy machine does to a row that no fault meets: true reasons, and counted apart.
NOISE = ("timeout", "deadline", "circuit open")


@dataclass(eq=False)
class Rule:
    """What must become of rows.

    Parameters
    ----------
    fault : str
        What goes on.
    affected : array of bool, default=None
        The rows that must be rejected. None: no row.
    kinds : tuple of str, default=()
        The kinds of reasons with which.
    source : str, default=None
        The source that the reasons must name. None: any.
    late : bool, default=False
        Whether an affected row may also be decided as on the table: a paid call that took too long
        goes on, and its answer is for whoever asks next.
    strict : bool, default=True
        Whether rows are held against the rule; if not, against the table alone.
    opens : bool, default=False
        Whether the breaker may open: rows that are not affected are then left alone as well.
    """

    fault: str
    affected: NDArray[np.bool_] | None = None
    kinds: tuple[str, ...] = ()
    source: str | None = None
    late: bool = False
    strict: bool = True
    opens: bool = False


@dataclass
class Tally:
    """What became of the rows that one fault met."""

    decisions: int = 0
    accepted: int = 0
    affected: int = 0
    right: int = 0  # of the affected
    late: int = 0  # of the affected, that got the answer of an earlier call
    noise: int = 0
    wrong: list[str] = field(default_factory=list)

    def told(self) -> dict[str, Any]:
        """Give it for a line of JSON."""
        return {"decisions": self.decisions, "accepted": self.accepted, "affected": self.affected,
                "right": self.right, "late": self.late, "noise": self.noise,
                "wrong": self.wrong[:5]}  # fmt: skip


class Watch:
    """Holds decisions against the table and against the rule of the moment."""

    def __init__(self, problem: Problem) -> None:
        self._decided = problem.decided
        self.rule = Rule("none")
        self.tallies: dict[str, Tally] = {}
        self.labels: list[str] = []  # accepted ones that the table would not have given
        self.exceptions: list[str] = []
        self.reasons: Counter[str] = Counter()
        # By source, when a row that needed it was accepted last and first, and rejected last.
        self.accepted: dict[str, float] = {}
        self.failed: dict[str, float] = {}
        self.opened: dict[str, float] = {}

    @property
    def decisions(self) -> int:
        """How many rows were decided."""
        return sum(tally.decisions for tally in self.tallies.values())

    @property
    def tally(self) -> Tally:
        """What became of the rows that the present fault met."""
        return self.tallies.setdefault(self.rule.fault, Tally())

    def raised(self, error: Exception) -> None:
        """Note an exception, of which there must be none."""
        self.exceptions.append(f"{self.rule.fault}: {error!r}")

    def note(self, rows: NDArray[np.intp], got: Decisions, before: Rule) -> None:
        """Hold the decisions of one call against the rule under which it began."""
        table = self._decided
        tally = self.tallies.setdefault(before.fault, Tally())
        tally.decisions += len(rows)
        tally.accepted += int(got.accepted.sum())
        given = got.accepted & ((got.label != table.label[rows]) | ~table.accepted[rows])
        self.labels += [f"{before.fault}: row {row}" for row in rows[given]]
        self._note_sources(got)
        if before is self.rule and before.strict:
            self._hold(rows, got, before, tally)

    def _note_sources(self, got: Decisions) -> None:
        now = time.monotonic()
        last = int(got.exit_stage[got.accepted].max(initial=-1))
        for name in NAMES[: last + 1]:
            self.accepted[name] = now
        for reason in set(got.reason[~got.accepted].tolist()):
            kind, _, name = reason.partition(": ")
            if kind in ("error", *NOISE):
                self.failed[name] = now
                if kind == "circuit open":
                    self.opened.setdefault(name, now)

    def _hold(self, rows: NDArray[np.intp], got: Decisions, rule: Rule, tally: Tally) -> None:
        affected = np.zeros(len(rows), dtype=np.bool_)
        if rule.affected is not None:
            affected = rule.affected[rows]
        tally.affected += int(affected.sum())
        for i, row in enumerate(rows.tolist()):
            reason = got.reason[i]
            kind, _, name = reason.partition(": ")
            if rule.opens and kind == "circuit open":
                tally.right += int(affected[i])
                continue
            if affected[i]:
                if kind in rule.kinds and rule.source in (None, name):
                    tally.right += 1
                    continue
                if rule.late and reason == self._decided.reason[row]:
                    tally.late += 1
                    continue
            elif reason == self._decided.reason[row]:
                continue
            if kind in NOISE:
                tally.noise += 1
            else:
                tally.wrong.append(f"row {row}: {reason or 'accepted'}")
        self.reasons.update(f"{rule.fault}: {kind_of(r)}" for r in got.reason[affected].tolist())
