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
from emsco.certify.monitor import CertificateMonitor
from experiments.tables import markdown

DECISIONS = 20_000
AT_ONCE = 5_000  # decisions; alarms name the very one, whatever the portions
AT_ONCE_DRAWN = 500  # alarms name rows drawn, not decisions; so a delay is known to so many
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
    agreement: float | None = None  # with a final model, which is the last stage

    def decide(self, rng: np.random.Generator, n_rows: int) -> tuple[Decisions, NDArray[Any]]:
        """Draw decisions and the truth: labels, or what the final model answers."""
        last = len(self.exits) - 1
        stage = rng.choice(last + 1, size=n_rows, p=self.exits)
        right = np.full(n_rows, self.accuracy)
        accepted = (stage < last) | (rng.random(n_rows) < self.accepted_last)
        if self.agreement is not None:
            accepted[:] = True
            right = np.where(stage < last, 1 - (1 - self.agreement) / (1 - self.exits[-1]), 1.0)
        label = rng.integers(2, size=n_rows)
        truth = np.where(rng.random(n_rows) < right, label, 1 - label)
        return Decisions(label, accepted, stage, np.ones(n_rows), COSTS[stage]), truth

    @property
    def missed(self) -> float:
        """The share of either class accepted under the other label."""
        return (1 - self.exits[-1] * (1 - self.accepted_last)) * (1 - self.accuracy)


@dataclass(frozen=True)
class Labels:
    """Which rows are labelled, and how late."""

    share: float = 1.0
    wrong_share: float | None = None  # of rows with a wrong answer; None: the same
    rejected_share: float = 0.0  # of rejected rows
    late: int = 0  # decisions at most; of rejected rows labels come at once

    def due(
        self, rng: np.random.Generator, decisions: Decisions, wrong: NDArray[np.bool_]
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Choose rows; give them in the order that their labels come in, and when they come."""
        share = self.share if self.wrong_share is None else self.wrong_share
        accepted = decisions.accepted
        likely = np.where(accepted, np.where(wrong, share, self.share), self.rejected_share)
        rows = np.flatnonzero(rng.random(len(wrong)) < likely)
        late = rng.integers(self.late + 1, size=len(wrong)) * accepted
        comes = rows + late[rows]
        order = np.argsort(comes, kind="stable")
        return rows[order], comes[order]


@dataclass(frozen=True)
class Case:
    """What the world is at first and becomes later, and what is known of it."""

    name: str
    before: World = World()
    after: World | None = None  # None: nothing changes
    labels: Labels = Labels()
    change: int = CHANGE
    estimated: bool = True  # coverage, cost and exits, on calibration rows drawn for every run
    promised: str = "accuracy"  # or "agreement" or "missed", watched by a share of rows drawn
    share: float = 1.0
    keep: int = 100_000
    watched: str | None = None  # the promise that breaks; None: whichever alarms
    bar: bool = True

    @property
    def runs(self) -> int:
        """How many runs tell enough."""
        many, few = (1_000, 150) if self.promised == "accuracy" else (200, 100)
        return many if self.after is None and self.bar else few


FEW_AND_LATE = Labels(share=0.2, late=2_000)
ALL = Labels(rejected_share=1.0)
ALL_LATE = Labels(rejected_share=1.0, late=2_000)
SOME_LOST = Labels(share=0.98, rejected_share=0.98, late=2_000)
AGREES = World(agreement=0.98)
DIFFERS, DIFFERS_MORE = World(agreement=0.95), World(agreement=0.93)
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
    Case("nothing changes, agreement 98%", AGREES, promised="agreement"),
    Case("nothing changes, agreement 98%; a fifth drawn, answers up to 2,000 decisions late",
         AGREES, labels=ALL_LATE, promised="agreement", share=0.2),
    Case("agreement 98% to 95%", AGREES, DIFFERS, promised="agreement", watched="agreement"),
    Case("agreement 98% to 93%; a fifth drawn, answers up to 2,000 decisions late",
         AGREES, DIFFERS_MORE, ALL_LATE, promised="agreement", share=0.2, watched="agreement"),
    Case("nothing changes, 4.5% of each class missed", labels=ALL, promised="missed"),
    Case("nothing changes, 4.5% missed; half drawn, accepted rows labelled up to 2,000 decisions "
         "later than rejected ones", labels=ALL_LATE, promised="missed", share=0.5),
    Case("nothing changes, 4.5% missed; rejected rows never labelled", labels=Labels(),
         promised="missed"),
    Case("missed 4.5% to 9%", after=WORSE, labels=ALL, promised="missed", watched="missed"),
    Case("missed 4.5% to 9%; half drawn, accepted rows labelled up to 2,000 decisions later than "
         "rejected ones", after=WORSE, labels=ALL_LATE, promised="missed", share=0.5,
         watched="missed"),
    Case("missed 4.5% to 9%; the same, and one label in fifty never comes", after=WORSE,
         labels=SOME_LOST, promised="missed", share=0.5, keep=1_500, watched="missed", bar=False),
)  # fmt: skip


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Simulate runs of 20,000 decisions through the monitor itself; give the table."""
    lines, missed = [], []
    for number, case in enumerate(CASES):
        if only and str(number) not in only:
            continue
        runs = 5 if small else case.runs
        workers = Parallel(n_jobs=1 if small else 2)  # five runs are over before workers have begun
        found = workers(delayed(simulate)(case, (number, seed)) for seed in range(runs))
        figures = summary(case, found)
        print(json.dumps({"case": case.name, "runs": runs} | figures), flush=True)
        lines.append([case.name, f"{runs:,}", *_cells(figures, runs)])
        missed += _missed(case, figures, runs)
    header = ["what happens", "runs", "alarms without cause %", "noticed %",
              "median delay, decisions", "9 of 10 within", "median delay, labels or answers",
              "said not to be watched %"]  # fmt: skip
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
    rows, comes = case.labels.due(rng, decisions, decisions.label != truth)
    alarms: dict[str, tuple[int, int]] = {}
    drawn = case.promised != "accuracy"
    at_once = AT_ONCE_DRAWN if drawn else AT_ONCE
    labels_before = int((comes < change).sum())
    for start in range(0, DECISIONS, at_once):
        if start == change and drawn:
            labels_before = _used(monitor)
        raised = [*monitor.decided(decisions[start : start + at_once])]
        due = rows[(comes >= start) & (comes < start + at_once)]
        tell = monitor.answered if case.promised == "agreement" else monitor.labelled
        raised += tell(due, truth[due])
        for alarm in raised:
            what = alarm.what.split()[0]  # of two classes missed, whichever is first
            if what == "accuracy":
                at = int(comes[alarm.at - 1]) + 1, alarm.at
            elif what in ("agreement", "missed"):
                at = start + at_once, _used(monitor)
            else:
                at = alarm.at, alarm.at
            alarms.setdefault(what, at)
    return {
        "change": change,
        "labels_before": labels_before,
        "alarms": alarms,
        "not_watched": [*monitor.not_watched],
    }


def _used(monitor: CertificateMonitor) -> int:
    return monitor.counts["labelled"] + monitor.counts["answered"]


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
    promised: dict[str, Any] = {"accuracy": 0.95}
    if case.promised == "agreement":
        coverage, promised = 1.0, {"agreement": world.agreement}
    elif case.promised == "missed":
        promised = {"max_missed": {0: world.missed, 1: world.missed}}
    if case.promised != "accuracy":
        seed = int(rng.integers(2**32))
        promised |= {"share": case.share, "random_state": seed, "keep": case.keep}
    return CertificateMonitor(
        **promised,
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
        if case.watched in ("accuracy", "agreement", "missed") and noticed.any():
            figures["median_labels"] = float(np.median(labels))
    figures |= {"not_watched": sum(case.promised in one for one in map(_names, found))}
    return figures | {"early_share": early / len(found)}


def _names(one: dict[str, Any]) -> set[str]:
    return {what.split()[0] for what in one["not_watched"]}


def _cells(figures: dict[str, Any], runs: int) -> list[str]:
    def whole(name: str) -> str:
        number = figures.get(name)
        return "-" if number is None else f"{number:,.0f}" if np.isfinite(number) else "never"

    followed = figures.get("followed")
    noticed = f"{100 * figures['noticed'] / followed:.1f}" if followed else "-"
    early = f"{100 * figures['early_share']:.1f}"
    said = f"{100 * figures['not_watched'] / runs:.0f}"
    return [early, noticed, whole("median"), whole("nine_of_ten"), whole("median_labels"), said]


def _missed(case: Case, figures: dict[str, Any], runs: int) -> list[str]:
    """Name what a case misses beyond chance."""
    missed = []
    if case.bar and stats.binom.sf(figures["early"] - 1, runs, ALPHA) < SURELY:
        missed.append(f"{figures['early']} of {runs} runs alarm without a cause: {case.name}")
    if case.bar and case.after is not None and figures["noticed"] < 0.95 * figures["followed"]:
        missed.append(f"noticed {figures['noticed']} of {figures['followed']} times: {case.name}")
    return missed
