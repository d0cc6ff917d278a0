"""Whether spot checks on a stream keep their promise, whatever the world does.

The state machine is the product's own, and so is the arithmetic of its rate. The world sees all
but the coins: in nine cases it drifts, attacks, sends again, hangs up, loses replies, turns clocks
and delays checks. In three more, a rule of the machine is dropped: then the promise must break, or
the experiment could not see it. It ends with an error if a promise is broken more often than chance
explains (the smallest exact p-value times the number of cases must be at least 0.01), or if one
without its rule is kept.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random
from typing import NamedTuple

from scipy.stats import binom  # type: ignore[import-untyped]  # scipy has no types

from emsco.certify.check_rate import rate_for
from emsco.serve.check_period import (
    CHECK,
    FINAL,
    Admission,
    CheckOutcome,
    CheckPeriod,
    PeriodTerms,
    StoreIdentity,
    period_at,
)
from experiments.results import Row, load, save
from experiments.tables import markdown

NAME, COMMAND = "stream", "python -m experiments stream"
ROWS, MOST, TOLERATED, ERROR = 1_000, 20, 3, 0.01
RATE = rate_for(MOST, TOLERATED, ERROR)
LEAST = 0.01  # of the smallest p-value times the number of cases
BROKEN = 1e-6  # the p-value below which a promise is broken beyond doubt
TERMS = PeriodTerms("stream", ROWS, 0.0, TOLERATED, RATE)
DAILY = PeriodTerms("stream", 0, 86_400.0, TOLERATED, RATE)
HERE = StoreIdentity()
PERIODS, FEW_PERIODS = 10_000, 150


class View(NamedTuple):
    """What the world knows when it chooses the next row: everything but coins."""

    place: int  # of the row in its period
    period: CheckPeriod
    rng: Random


Chooser = Callable[[View], bool]  # whether the final model would say something else
Delay = Callable[[Random, bool], float]  # rows until the final model has answered


def _heavy(rng: Random, is_bad: bool) -> float:
    """Mostly at once, now and then longer than a period; bad rows take longer."""
    return float(min(rng.paretovariate(0.8 if is_bad else 1.2), 5_000.0))


def _share(share: float) -> Chooser:
    return lambda view: view.rng.random() < share


def _jump(view: View) -> bool:
    return view.rng.random() < (0.002 if view.place < ROWS // 2 else 0.2)


def _drift(view: View) -> bool:
    return view.rng.random() < 0.2 * view.place / ROWS


def _attack(view: View) -> bool:
    """Send bad rows right after each check, as long as no other is under way."""
    return bool(view.period.checked) and not view.period.under_way


@dataclass(frozen=True)
class World:
    """What the world does, and which rule of the machine is dropped."""

    bad: Chooser
    delay: Delay = lambda *_: 3.0  # of every check alike
    sends_again: float = 0.0  # the probability that a caller does not wait for a check
    hangs_up: float = 0.0  # the probability that a caller who sent a bad row has it cancelled
    loses_request: float = 0.0  # before it is written, whatever its coin
    loses_reply: float = 0.0  # of a check, after it is written
    turns_clocks: bool = False
    # Rules, of which each is dropped in one case
    counts_under_way: bool = True
    counts_cancelled: bool = True
    keeps_coins: bool = True  # not: after an unknown write, the coin is drawn again


CASES = {
    "no drift": World(_share(0.06)),
    "a jump": World(_jump),
    "slow drift": World(_drift),
    "bad rows after each check": World(_attack),
    "resends": World(_share(0.06), sends_again=0.7),
    "disconnects": World(_share(0.06), hangs_up=0.5),
    "conflicts of writes": World(_share(1.0), loses_request=0.2, loses_reply=0.5),
    "clock skew": World(_share(0.06), turns_clocks=True),
    "delays": World(_share(0.06), delay=_heavy),
}
CONTROLS = {
    "open checks not counted": World(_share(1.0), lambda *_: 20.0, counts_under_way=False),
    "cancelled checks dropped": World(_share(0.06), hangs_up=0.5, counts_cancelled=False),
    "coins drawn again": World(_share(0.06), loses_reply=0.5, keeps_coins=False),
}


@dataclass
class Play:
    """One period after another, with what came of them."""

    world: World
    rng: Random
    number: int = 0
    due: list[tuple[float, str, bool]] = field(default_factory=list)  # checks, by when they end

    def period(self) -> tuple[int, int]:
        """Play a period: how many cheap answers differed, and how many there were."""
        period, wrong = CheckPeriod.begin(self.number, TERMS, HERE, 0.0), 0
        self.number += 1
        world, rng = self.world, self.rng
        again: list[bool] = []  # rows that are sent again
        for place in range(ROWS):
            self._end_checks(period, place)
            if period.known > period.tolerated:  # closed until it ends
                break
            is_bad = again.pop() if again else world.bad(View(place, period, rng))
            became = self._admit(period, f"{self.number}-{place}", place, is_bad)
            if became == CHECK and rng.random() < world.sends_again:
                again.append(is_bad)
            wrong += is_bad and became == "cheap"
        return wrong, period.cheap

    def _admit(self, period: CheckPeriod, name: str, place: float, is_bad: bool) -> str:
        """Admit a row as the service does, or as a service without one of the rules does."""
        world, rng = self.world, self.rng
        one = Admission(name, rng.random())
        if rng.random() < world.loses_request:
            return FINAL
        known = period.known
        if not world.counts_under_way:  # as if none were
            period.known -= len(period.under_way)
        became = period.admit(one)
        period.known = known
        if became != CHECK:
            return became
        is_cancelled = is_bad and rng.random() < world.hangs_up
        # With an unknown reply, too, the final model answers, and the check goes on.
        if rng.random() < world.loses_reply and not world.keeps_coins:
            del period.under_way[name]
            return self._admit(period, f"{name}.", place, is_bad)
        if is_cancelled and not world.counts_cancelled:
            del period.under_way[name]
            return became
        heappush(self.due, (place + world.delay(rng, is_bad), name, not is_bad))
        return became

    def _end_checks(self, period: CheckPeriod, now: float) -> None:
        due = self.due
        while due and due[0][0] <= now:
            _, name, agrees = heappop(due)
            period.finish(CheckOutcome(name, agrees))

    def end(self) -> None:
        """Let the rows of a period pass for checks that are later than it."""
        self.due = [(when - ROWS, name, agrees) for when, name, agrees in self.due]

    def days(self, n_days: int) -> tuple[list[int], int]:
        """Play days on clocks that are turned; give the wrong answers of each, and the cheap."""
        wrong: dict[int, int] = {}
        rng, period, cheap, place = self.rng, None, 0, 0
        step = DAILY.per_seconds / ROWS
        last = n_days * ROWS
        while place < last:
            # The store's clock, which is turned by up to an hour, and sometimes by two days.
            now = place * step + rng.uniform(-3_600, 3_600)
            now -= 2 * DAILY.per_seconds * (rng.random() < 0.001)
            period = period_at(period, DAILY, HERE, now)
            self._end_checks(period, place)
            is_bad = self.world.bad(View(place, period, rng))
            if self._admit(period, str(place), place, is_bad) == "cheap":
                cheap += 1
                wrong[period.number] = wrong.get(period.number, 0) + is_bad
            place += 1
        return [wrong.get(day, 0) for day in range(n_days)], cheap


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Play every case; `only` names some. Small: fewer periods, not kept."""
    n_periods = FEW_PERIODS if small else PERIODS
    rows: list[Row] = []
    cases = CASES | CONTROLS
    for case, world in cases.items():
        if only and case not in only:
            continue
        rows.append(_played(case, world, n_periods))
        print(json.dumps(rows[-1]), flush=True)
    if not small and not only:
        for row in rows:
            save(NAME, COMMAND, [row], [*cases])
    _check(rows, small=small)
    return table(rows if small or only else load(NAME))


def _played(case: str, world: World, n_periods: int) -> Row:
    begin = time.process_time()
    play = Play(world, Random(f"stream: {case}"))  # the digest of a text: streams of their own
    if world.turns_clocks:
        counts, cheap = play.days(n_periods)
    else:
        counts, cheap = [], 0
        for _ in range(n_periods):
            wrong, answered = play.period()
            play.end()
            counts.append(wrong)
            cheap += answered
    return {
        "case": case, "periods": n_periods, "broken": sum(one > MOST for one in counts),
        "allowed": ERROR, "avoided": round(cheap / ROWS / n_periods, 4),
        "seconds": round(time.process_time() - begin, 1),
    }  # fmt: skip


def _check(rows: list[Row], *, small: bool) -> None:
    """End with an error if a promise is broken too often, or one without a rule is kept."""
    chances = {row["case"]: binom.sf(row["broken"] - 1, row["periods"], ERROR) for row in rows}
    ours = {case: chance for case, chance in chances.items() if case in CASES}
    if ours and min(ours.values()) * len(ours) < LEAST:
        worst = min(ours, key=lambda case: ours[case])
        raise SystemExit(f"The promise is broken too often: {worst}, p {ours[worst]:.3g}.")
    for case in CONTROLS.keys() & chances.keys():
        if chances[case] > (LEAST if small else BROKEN):
            raise SystemExit(f"The experiment sees nothing: {case}, p {chances[case]:.3g}.")


def table(rows: list[Row]) -> str:
    """Return the table of all cases."""
    lines = [
        [row["case"], f"{row['periods']:,}", f"{row['broken'] / row['periods']:.2%}",
         f"{row['allowed']:.0%}", f"{row['avoided']:.1%}", f"{row['seconds']:.0f}"]
        for row in rows
    ]  # fmt: skip
    header = ["case", "periods", "broken", "allowed", "calls avoided", "CPU seconds"]
    return markdown(header, lines)
