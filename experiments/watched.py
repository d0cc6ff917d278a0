"""What a watched service notices, and how soon, where the labels that it is sent are biased.

Customers' labels are self-selected: wrong answers come to light more often than right ones, or less
often. And frauds mature before non-frauds. The service draws a share of the rows for an audit, and
counts their labels by cohort. Beside it: a monitor that is told all labels as they come.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import stats  # type: ignore[import-untyped]  # scipy ships no types

from emsco import Decisions
from emsco.certify.monitor import Alarm, CertificateMonitor
from emsco.serve.audit_cohorts import Audit
from emsco.serve.audit_watch import AuditWatch
from emsco.serve.state.base import AuditMark, State, VersionedValue
from experiments.monitor import ALPHA, CALIBRATION_ROWS, COSTS, SURELY, World
from experiments.results import write
from experiments.tables import markdown

DAY = 86_400.0
DAYS, CHANGE = 200, 100
AUDITED = 100  # rows a day: as many decisions as `experiments monitor` has until the change
LABEL_AFTER = 30  # days
REVIEWED = 0.98  # of the audited rows; the label of the others never comes
MEASURED = 709  # labels, the median delay of `experiments monitor` for the same change
WITHIN = 1.25  # times that, at most
FIGURES = (
    "early", "early_share", "followed", "noticed", "median_labels", "nine_of_ten", "median_days",
    "accuracy", "accuracy_at_worst",
)  # fmt: skip
FRAUDS = (0.05, 0.6)  # the share of frauds among right and among wrong answers


@dataclass(frozen=True)
class Case:
    """What changes, who sends labels, and whether rows are audited."""

    name: str
    after: World | None = None  # None: nothing changes
    told: tuple[float, float] = (0.2, 0.4)  # of right and of wrong answers, labels sent
    is_audited: bool = True
    bar: bool = True
    runs: int = 150


WORSE = World(accuracy=0.90)
MORE, LESS, ALL = (0.2, 0.4), (0.2, 0.1), (1.0, 1.0)
CASES = (
    Case("audited; nothing changes; wrong answers come to light twice as often", runs=200),
    Case("audited; accuracy 95% to 90%; wrong answers come to light half as often", WORSE, LESS),
    Case("not audited; nothing changes; wrong answers come to light twice as often", told=MORE,
         is_audited=False, bar=False, runs=20),
    Case("not audited; nothing changes; all rows labelled, frauds before non-frauds", told=ALL,
         is_audited=False, bar=False, runs=20),
    Case("not audited; accuracy 95% to 90%; wrong answers come to light half as often, all at once",
         WORSE, LESS, is_audited=False, bar=False, runs=20),
)  # fmt: skip
AT_ONCE = (4,)  # cases whose labels all come the same day, so that self-selection is seen alone


class Memory:
    """The part of a service's state that a watch needs, in memory: a million rows are many."""

    def __init__(self) -> None:
        self._kept: dict[str, VersionedValue] = {}
        self._rows: dict[str, AuditMark] = {}
        self._order: list[tuple[float, str]] = []

    async def keep(self, name: str, text: str, was: int | None = None) -> bool:
        """Keep a value, if its version is this one."""
        version = self._kept[name].version if name in self._kept else 0
        if was is None or was == version:
            self._kept[name] = VersionedValue(text, version + 1)
        return was is None or was == version

    async def get_value(self, name: str) -> VersionedValue | None:
        """Return a value."""
        return self._kept.get(name)

    async def mark(self, rows: Sequence[AuditMark]) -> None:
        """Keep rows, in the order of time."""
        self._rows.update((row.id, row) for row in rows)
        self._order += [(row.at, row.id) for row in rows]

    async def marked(self, ids: Sequence[str]) -> list[AuditMark]:
        """Return those that are marked."""
        return [self._rows[one] for one in ids if one in self._rows]

    async def label(self, id: str, label: Any) -> bool:  # noqa: A002
        """Keep a label; False: it is the same."""
        row = self._rows[id]
        self._rows[id] = replace(row, truth=label)
        return bool(row.truth != label)

    async def due(
        self,
        before: float,
        since: float = 0.0,
        model: str | None = None,  # noqa: ARG002  # there is one
    ) -> list[AuditMark]:
        """Return rows made before a time."""
        first, last = (bisect_left(self._order, (at, "")) for at in (since, before))
        return [self._rows[one] for _, one in self._order[first:last]]

    async def forget(self, before: float) -> None:
        """Keep them all."""


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Simulate services for 200 days; give the table."""
    rows, missed = [], []
    scale = 0.1 if small else 1.0
    for number, case in enumerate(CASES):
        if only and str(number) not in only:
            continue
        runs = case.runs if not small else 2 if case.bar else 1
        found = [simulate(number, seed, scale) for seed in range(runs)]
        figures = summary(case, found)
        print(json.dumps({"case": case.name, "runs": runs} | figures), flush=True)
        rows.append({"case": case.name, "runs": runs} | dict.fromkeys(FIGURES, "") | figures)
        missed += _missed(case, figures, runs)
    if not small and not only:
        write("watched", "python -m experiments watched", rows)
    report = (
        f"Services of {DAYS} days with {AUDITED} audited rows a day ({AUDITED / _rate(scale):.0%} "
        f"of all), of which {REVIEWED:.0%} are labelled; frauds within 5 days, non-frauds after 20 "
        f"to 30; rows count after {LABEL_AFTER} days. alpha {ALPHA:.0%}; the change comes on day "
        f"{CHANGE}.\n\n{table(rows)}"
    )
    if missed:
        raise SystemExit(f"{report}\n\nMissed: {'; '.join(missed)}.")
    return report


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Lay out a row for each case."""
    header = ["what happens", "runs", "alarms without cause %", "noticed %",
              "median delay, labels counted", "9 of 10 within", "median delay, days",
              "accuracy of the labelled %", "if all others were wrong %"]  # fmt: skip
    return markdown(header, [[row["case"], f"{row['runs']:,}", *_cells(row)] for row in rows])


def _rate(scale: float) -> int:
    """Return the decisions a day; a small run has fewer, and audits more of them."""
    return round(5_000 * scale)


@dataclass
class Day:
    """The decisions of a day, what is true of them, and when labels come, in days."""

    decisions: Decisions
    truth: NDArray[np.intp]
    comes: NDArray[np.float64]  # what customers send; infinite: never
    reviewed: NDArray[np.float64]  # what comes of a row that is audited


def a_day(case: Case, rng: np.random.Generator, day: int, n_rows: int, at_once: bool) -> Day:
    """Draw a day: what is decided, and which labels come when."""
    world = World() if case.after is None or day < CHANGE else case.after
    decisions, truth = world.decide(rng, n_rows)
    wrong = decisions.label != truth
    fraud = rng.random(n_rows) < np.where(wrong, FRAUDS[1], FRAUDS[0])
    label = np.where(wrong, ~fraud, fraud).astype(np.intp)
    decisions = Decisions(
        label, decisions.accepted, decisions.exit_stage, decisions.confidence, decisions.cost
    )
    matures = np.where(fraud, rng.integers(0, 5, n_rows), rng.integers(20, 30, n_rows))
    told = rng.random(n_rows) < np.where(wrong, case.told[1], case.told[0])
    comes = np.where(told, 0.0 if at_once else matures, np.inf)
    reviewed = np.where(rng.random(n_rows) < REVIEWED, matures, np.inf)
    return Day(decisions, fraud.astype(np.intp), comes, reviewed)


def promised(rng: np.random.Generator, keep: int) -> CertificateMonitor:
    """Promise what holds before the change, as `experiments monitor` does."""
    seen, _ = World().decide(rng, CALIBRATION_ROWS)
    exits = np.bincount(seen.exit_stage, minlength=len(COSTS)) / CALIBRATION_ROWS
    return CertificateMonitor(
        accuracy=0.95,
        coverage=float(seen.accepted.mean()),
        cost=float(exits @ COSTS),
        exits=exits.tolist(),
        total=float(COSTS[-1]),
        rows=CALIBRATION_ROWS,
        alpha=ALPHA,
        keep=keep,
    )


def simulate(number: int, seed: int, scale: float) -> dict[str, Any]:
    """Run one service for 200 days; say when it alarmed."""
    case, rng = CASES[number], np.random.default_rng((number, seed))
    days: list[Day] = []
    n_rows = _rate(scale)

    def next_day() -> Day:
        days.append(a_day(case, rng, len(days), n_rows, number in AT_ONCE))
        if len(days) > LABEL_AFTER + 2:  # what has no label by now gets none
            days[len(days) - LABEL_AFTER - 3] = cast(Day, None)
        return days[-1]

    if case.is_audited:
        with contextlib.redirect_stderr(io.StringIO()):  # the service logs its alarms
            return asyncio.run(_audited(rng, seed, days, next_day, n_rows))
    return _fed(rng, days, next_day)


async def _audited(
    rng: np.random.Generator, seed: int, days: list[Day], next_day: Callable[[], Day], n_rows: int
) -> dict[str, Any]:
    """Let a watch follow; every label that comes is sent to it."""
    now, audit = 0.0, AUDITED / n_rows
    every = 1 if n_rows == _rate(1.0) else 5  # days until a watch works, which otherwise is at once
    monitor = promised(rng, keep=100_000)
    watch = AuditWatch(
        monitor, cast(State, Memory()), model="model", classes=[0, 1], audit=audit, seed=seed,
        label_after=LABEL_AFTER * DAY, cohort=DAY, clock=lambda: now,
    )  # fmt: skip
    alarms: dict[str, dict[str, Any]] = {}
    before = 0
    for today in range(DAYS + LABEL_AFTER + 1):
        now = today * DAY
        if today < DAYS:
            day = next_day()
            ids = [f"{today}-{row}" for row in range(len(day.truth))]
            watch.decided(day.decisions, ids, "model")
            drawn = Audit(audit, str(seed).encode()).drawn(ids)
            day.comes[drawn] = day.reviewed[drawn]
            if today < CHANGE:
                before += int((day.decisions.accepted & (day.comes < np.inf))[drawn].sum())
        labels: dict[str, int] = {}
        for earlier in range(max(0, today - LABEL_AFTER), min(today + 1, DAYS)):
            own = days[earlier]
            (due,) = np.nonzero(own.comes == today - earlier)
            labels |= {f"{earlier}-{row}": int(own.truth[row]) for row in due.tolist()}
        await watch.feedback(labels)
        if today % every == 0:
            await watch.work()
        for alarm in watch.alarms:
            alarms.setdefault(alarm.what, _found(alarm, today, before))
    audited = watch.models["model"].cohorts.value.total
    shown = {
        name: getattr(audited, name) for name in ("accuracy", "accuracy_at_worst", "unlabelled")
    }
    return {"alarms": alarms, **shown}


def _fed(rng: np.random.Generator, days: list[Day], next_day: Callable[[], Day]) -> dict[str, Any]:
    """Let a monitor follow that is told all labels as they come."""
    monitor = promised(rng, keep=10_000_000)
    alarms: dict[str, dict[str, Any]] = {}
    before = 0
    for today in range(DAYS + LABEL_AFTER + 1):
        if today == CHANGE:
            before = monitor.counts["labelled"]
        if today < DAYS:
            day = next_day()
            monitor.decided(day.decisions, [f"{today}-{r}" for r in range(len(day.truth))])
        for earlier in range(max(0, today - LABEL_AFTER), min(today + 1, DAYS)):
            own = days[earlier]
            (due,) = np.nonzero((own.comes == today - earlier) & own.decisions.accepted)
            monitor.labelled([f"{earlier}-{row}" for row in due.tolist()], own.truth[due])
        for alarm in monitor.alarms:
            alarms.setdefault(alarm.what, _found(alarm, today, before))
    return {"alarms": alarms}


def _found(alarm: Alarm, today: int, before: int) -> dict[str, Any]:
    return {"day": today, "labels": alarm.at - before}


def summary(case: Case, found: list[dict[str, Any]]) -> dict[str, Any]:
    """Count runs with an alarm without a cause, and delays of those without."""
    early, labels, days = 0, [], []
    for one in found:
        accuracy = one["alarms"].get("accuracy", {"day": np.inf, "labels": np.inf})
        others = [alarm for what, alarm in one["alarms"].items() if what != "accuracy"]
        is_early = accuracy["day"] < CHANGE or (case.is_audited and accuracy["labels"] <= 0)
        if others or is_early or (case.after is None and one["alarms"]):
            early += 1
        elif case.after is not None:
            labels.append(accuracy["labels"])
            days.append(accuracy["day"] - CHANGE)
    figures: dict[str, Any] = {"early": early, "early_share": early / len(found)}
    if case.after is not None and labels:
        noticed = int(np.isfinite(labels).sum())
        figures |= {"followed": len(labels), "noticed": noticed}
        if noticed > len(labels) / 2:
            figures |= {
                "median_labels": float(np.median(labels)),
                "nine_of_ten": float(np.quantile(labels, 0.9, method="higher")),
                "median_days": float(np.median(days)),
            }
    for name in ("accuracy", "accuracy_at_worst"):
        if case.is_audited:
            figures[name] = float(np.mean([one[name] for one in found]))
    return figures


def _cells(figures: dict[str, Any]) -> list[str]:
    def told(name: str, form: str = ",.0f", times: float = 1) -> str:
        number = figures[name]
        return "-" if number == "" else f"{times * number:{form}}" if number < np.inf else "never"

    followed = figures["followed"]
    noticed = f"{100 * figures['noticed'] / followed:.1f}" if followed else "-"
    return [
        told("early_share", ".1f", 100), noticed, told("median_labels"), told("nine_of_ten"),
        told("median_days"), told("accuracy", ".1f", 100), told("accuracy_at_worst", ".1f", 100),
    ]  # fmt: skip


def _missed(case: Case, figures: dict[str, Any], runs: int) -> list[str]:
    """Name what a case misses beyond chance."""
    if not case.bar:
        return []
    missed = []
    if stats.binom.sf(figures["early"] - 1, runs, ALPHA) < SURELY:
        missed.append(f"{figures['early']} of {runs} runs alarm without a cause: {case.name}")
    if case.after is not None:
        if figures.get("noticed", 0) < 0.95 * figures.get("followed", 1):
            missed.append(f"noticed {figures.get('noticed', 0)} times: {case.name}")
        elif runs >= 100 and figures["median_labels"] > WITHIN * MEASURED:
            missed.append(f"noticed after {figures['median_labels']:,.0f} labels: {case.name}")
    return missed
