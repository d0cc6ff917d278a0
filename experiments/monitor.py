"""How often a monitor alarms without a cause, and how soon with one."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy import stats  # type: ignore[import-untyped]  # scipy ships no types

from emsco import Decisions
from emsco.monitor import CertificateMonitor
from experiments.tables import markdown

DECISIONS = 20_000
AT_ONCE = 5_000  # decisions; alarms name the very one, whatever the portions
CALIBRATION_ROWS = 2_000
ALPHA = 0.01
COSTS = np.array([1.0, 6.0, 30.0])  # paid by a row that leaves at each stage
SURELY = 0.001  # a bar is missed where chance alone would miss it as rarely
CHANGE = 10_000  # decisions, before something changes


@dataclass(frozen=True)
class World:
    """How rows fare: where they leave, and how often an accepted one is right."""

    exits: tuple[float, ...] = (0.6, 0.25, 0.15)
    accepted_last: float = 1 / 3  # of the rows that get to the last stage; others leave accepted
    accuracy: float = 0.95

    def decide(self, rng: np.random.Generator, n_rows: int) -> tuple[Decisions, NDArray[Any]]:
        """Draw decisions and the true labels."""
        last = len(self.exits) - 1
        stage = rng.choice(last + 1, size=n_rows, p=self.exits)
        accepted = (stage < last) | (rng.random(n_rows) < self.accepted_last)
        label = rng.integers(2, size=n_rows)
        truth = np.where(rng.random(n_rows) < self.accuracy, label, 1 - label)
        return Decisions(label, accepted, stage, np.ones(n_rows), COSTS[stage]), truth


@dataclass(frozen=True)
class Labels:
    """Which rows are labelled, and how late."""

    share: float = 1.0
    wrong_share: float | None = None  # of rows with a wrong answer; None: the same
    late: int = 0  # decisions at most

    def due(
        self, rng: np.random.Generator, wrong: NDArray[np.bool_]
    ) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
        """Choose rows, and how many decisions later their labels come."""
        share = self.share if self.wrong_share is None else self.wrong_share
        chosen = rng.random(len(wrong)) < np.where(wrong, share, self.share)
        return chosen, rng.integers(self.late + 1, size=len(wrong))


@dataclass(frozen=True)
class Case:
    """What the world is at first and becomes later, and what is known of it."""

    name: str
    before: World = World()
    after: World | None = None  # None: nothing changes
    labels: Labels = Labels()
    change: int = CHANGE
    estimated: bool = True  # coverage, cost and exits, on calibration rows drawn for every run
    watched: str | None = None  # the promise that breaks; None: whichever alarms
    bar: bool = True


FEW_AND_LATE = Labels(share=0.2, late=2_000)
WORSE = World(accuracy=0.90)
# Twice as many rows at the last stage, and as many accepted as before.
BUSIER = World(exits=(0.6 * 70 / 85, 0.25 * 70 / 85, 0.30), accepted_last=2 / 3)
CASES = (
    Case("nothing changes, promises exact", estimated=False),
    Case("nothing changes"),
    Case("nothing changes; a fifth labelled, up to 2,000 decisions late", labels=FEW_AND_LATE),
    Case("accuracy 90% from the start", after=WORSE, change=0, watched="accuracy"),
    Case("accuracy 95% to 90%", after=WORSE, watched="accuracy"),
    Case(
        "accuracy 97% to 92%",
        before=World(accuracy=0.97),
        after=World(accuracy=0.92),
        watched="accuracy",
        bar=False,
    ),
    Case(
        "accuracy 95% to 90%; a fifth labelled, up to 2,000 decisions late",
        after=WORSE,
        labels=FEW_AND_LATE,
        watched="accuracy",
    ),
    Case("twice the traffic of the last stage from the start", after=BUSIER, change=0,
         watched="exits"),
    Case("twice the traffic of the last stage", after=BUSIER, watched="exits"),
    Case(
        "nothing changes; wrong answers come to light twice as often as right ones",
        labels=Labels(share=0.2, wrong_share=0.4),
        watched="accuracy",
        bar=False,
    ),
    Case(
        "accuracy 95% to 90%; wrong answers come to light half as often as right ones",
        after=WORSE,
        labels=Labels(share=0.2, wrong_share=0.1),
        watched="accuracy",
        bar=False,
    ),
)  # fmt: skip


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Simulate runs of 20,000 decisions through the monitor itself; give the table."""
    lines, missed = [], []
    for number, case in enumerate(CASES):
        if only and str(number) not in only:
            continue
        runs = 5 if small else 1_000 if case.after is None and case.bar else 150
        workers = Parallel(n_jobs=1 if small else 2)  # five runs are over before workers have begun
        found = workers(delayed(simulate)(case, (number, seed)) for seed in range(runs))
        figures = summary(case, found)
        print(json.dumps({"case": case.name, "runs": runs} | figures), flush=True)
        lines.append([case.name, f"{runs:,}", *_cells(figures)])
        missed += _missed(case, figures, runs)
    header = ["what happens", "runs", "alarms without cause %", "noticed %",
              "median delay, decisions",
              "9 of 10 within", "median delay, labels"]  # fmt: skip
    report = (
        f"Runs of {DECISIONS:,} decisions, alpha {ALPHA:.0%}; changes come after "
        f"{CHANGE:,} decisions; coverage, cost and exits are estimated on {CALIBRATION_ROWS:,} "
        f"calibration rows of every run.\n\n{markdown(header, lines)}"
    )
    if missed:
        raise SystemExit(f"{report}\n\nMissed: {'; '.join(missed)}.")
    return report


def simulate(case: Case, seed: tuple[int, int]) -> dict[str, Any]:
    """Run one monitor over 20,000 decisions; say when it alarmed."""
    rng = np.random.default_rng(seed)
    monitor = _monitor(case, rng)
    change = DECISIONS if case.after is None else case.change
    parts = [case.before.decide(rng, change), (case.after or case.before).decide(rng, DECISIONS)]
    decisions = Decisions.concatenate([parts[0][0], parts[1][0]])[:DECISIONS]
    truth = np.concatenate([parts[0][1], parts[1][1]])[:DECISIONS]
    chosen, late = case.labels.due(rng, decisions.label != truth)
    rows = np.flatnonzero(chosen & decisions.accepted)
    comes = rows + late[rows]
    rows, comes = (order[np.argsort(comes, kind="stable")] for order in (rows, comes))
    alarms: dict[str, tuple[int, int]] = {}
    for start in range(0, DECISIONS, AT_ONCE):
        raised = [*monitor.decided(decisions[start : start + AT_ONCE])]
        due = rows[(comes >= start) & (comes < start + AT_ONCE)]
        raised += monitor.labelled(due, truth[due])
        for alarm in raised:
            by_label = alarm.what == "accuracy"
            alarms[alarm.what] = (int(comes[alarm.at - 1]) + 1 if by_label else alarm.at, alarm.at)
    labels_before = int((comes < change).sum())
    return {"change": change, "labels_before": labels_before, "alarms": alarms}


def _monitor(case: Case, rng: np.random.Generator) -> CertificateMonitor:
    world = replace(case.before)
    exits = np.array(world.exits)
    coverage = 1 - exits[-1] * (1 - world.accepted_last)
    rows = None
    if case.estimated:
        rows = CALIBRATION_ROWS
        seen, _ = world.decide(rng, rows)
        exits = np.bincount(seen.exit_stage, minlength=len(COSTS)) / rows
        coverage = float(seen.accepted.mean())
    return CertificateMonitor(
        accuracy=0.95,
        coverage=coverage,
        cost=float(exits @ COSTS),
        exits=exits.tolist(),
        total=float(COSTS[-1]),
        rows=rows,
        alpha=ALPHA,
    )


def summary(case: Case, found: list[dict[str, Any]]) -> dict[str, Any]:
    """Count runs with an alarm before the change, and delays of those without."""
    early, decisions, labels = 0, [], []
    for one in found:
        if any(at <= one["change"] for at, _ in one["alarms"].values()):
            early += 1
        elif case.after is not None:
            at, labelled = one["alarms"].get(case.watched, (np.inf, np.inf))
            decisions.append(at - one["change"])
            labels.append(labelled - one["labels_before"])
    figures: dict[str, Any] = {"early": early}
    if case.after is not None:
        noticed = np.isfinite(decisions)
        figures |= {"followed": len(decisions), "noticed": int(noticed.sum())}
        if noticed.any():
            figures |= {
                "median": float(np.median(decisions)),
                "nine_of_ten": float(np.quantile(decisions, 0.9, method="higher")),
            }
        if case.watched == "accuracy" and noticed.any():
            figures["median_labels"] = float(np.median(labels))
    return figures | {"early_share": early / len(found)}


def _cells(figures: dict[str, Any]) -> list[str]:
    def whole(name: str) -> str:
        number = figures.get(name)
        return "-" if number is None else f"{number:,.0f}" if np.isfinite(number) else "never"

    followed = figures.get("followed")
    noticed = f"{100 * figures['noticed'] / followed:.1f}" if followed else "-"
    early = f"{100 * figures['early_share']:.1f}"
    return [early, noticed, whole("median"), whole("nine_of_ten"), whole("median_labels")]


def _missed(case: Case, figures: dict[str, Any], runs: int) -> list[str]:
    """Name what a case misses beyond chance."""
    missed = []
    if case.bar and stats.binom.sf(figures["early"] - 1, runs, ALPHA) < SURELY:
        missed.append(f"{figures['early']} of {runs} runs alarm without a cause: {case.name}")
    if case.bar and case.after is not None and figures["noticed"] < 0.95 * figures["followed"]:
        missed.append(f"noticed {figures['noticed']} of {figures['followed']} times: {case.name}")
    return missed
