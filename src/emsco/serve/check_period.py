"""The periods of spot checks on a stream, as a state machine in memory: it decides who is admitted.

Of the cheap answers of a period, at most k may differ from what the final model would have said,
with a probability of at least 1 - d, whatever the world does. An admission is a row whose cheap
answer is fixed, with a coin that nobody has used. While known disagreements and checks under way
are c at most, a coin below the rate q makes the row a check, which the final model answers, and
any other coin lets the cheap answer out. Otherwise the final model answers, whatever the coin is.

Why that holds: call a row bad if the final model would say something else. Each bad row that is
checked is under way from its admission on, and then known for the rest of the period, so that
`known` and `under_way` together never fall below the number of bad rows checked so far. A row's own
check is not among them when it is admitted. So while rows are admitted, at most c bad ones have
been checked. For cheap answer k + 1 that is bad to be let out, at most c of the first k + 1 + c bad
rows that were admitted have been checked. Their coins are independent, of each other and of all
that made the rows bad, since each is drawn after its row was fixed: that has the probability
P(Binomial(k + 1 + c, q) <= c) <= d. The row that is checked as number c + 1 closes the period.

Nothing else counts, and so time does not: a check that never ends stays under way until the period
is over, which is the same as a disagreement. One that ends later is of no other period.

This is the reference. States in databases run it inside a transaction; a state in Redis has the
same transitions as a script.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import floor
from typing import Any, NamedTuple, Self

CHEAP, CHECK, FINAL = "cheap", "check", "final"  # what becomes of an admission

# Why a period is closed, other than by disagreements.
CHANGED = "settings changed"
RESTARTED = "store restarted"  # or replaced: its last writes may be lost
ACCEPTED_LOSS = "state accepted"  # an operator has accepted that the state lost its data


class Admission(NamedTuple):
    """A row whose cheap answer is fixed, and its coin, from 0 to 1, which is used only once."""

    id: str
    coin: float


class CheckOutcome(NamedTuple):
    """The end of a check: whether the final model said the same."""

    id: str
    agrees: bool


Step = Admission | CheckOutcome


@dataclass(frozen=True)
class PeriodTerms:
    """What a period begins with, and what it must not lose until it ends.

    Parameters
    ----------
    settings : str
        A digest of what is promised and of the final model. A change closes the period.
    per_rows : int
        The number of admissions of a period; 0 if it is a time.
    per_seconds : float
        The length of a period, on the clock of the store; 0 if it is a number of rows.
    tolerated, rate : int, float
        c and q of a period that begins; they stay until it ends.
    """

    settings: str
    per_rows: int
    per_seconds: float
    tolerated: int
    rate: float


@dataclass(frozen=True)
class StoreIdentity:
    """Which store keeps the periods, to notice that it may have lost some of its data."""

    server: str = ""  # changes with every restart
    incarnation: str = ""
    was_accepted: bool = False  # whether this incarnation follows another that was lost


@dataclass
class CheckPeriod:
    """A period: what it began with, what is known of its checks, and how many rows it had."""

    number: int
    settings: str
    per_rows: int
    per_seconds: float
    tolerated: int
    rate: float
    server: str
    incarnation: str
    begun: float
    closed: str = ""  # the reason for which it is closed until it ends
    known: int = 0  # disagreements
    cheap: int = 0
    checked: int = 0
    final: int = 0
    finished: int = 0  # checks that have ended
    arrived: int = 0  # the admissions during each of these, added up
    under_way: dict[str, int] = field(default_factory=dict)  # checks: the rows admitted before each

    @classmethod
    def begin(
        cls, number: int, terms: PeriodTerms, store: StoreIdentity, now: float, closed: str = ""
    ) -> Self:
        """Begin a period."""
        return cls(
            number, terms.settings, terms.per_rows, terms.per_seconds, terms.tolerated, terms.rate,
            store.server, store.incarnation, now, closed,
        )  # fmt: skip

    @property
    def rows(self) -> int:
        """How many admissions it had, whatever became of them."""
        return self.cheap + self.checked + self.final

    @property
    def is_open(self) -> bool:
        """Whether the next row is admitted."""
        return not self.closed and self.known + len(self.under_way) <= self.tolerated

    @property
    def ends(self) -> float | None:
        """When it ends, in seconds since 1970; None if that depends on rows."""
        return (self.number + 1) * self.per_seconds if self.per_seconds else None

    def admit(self, one: Admission) -> str:
        """Decide whether a row is answered cheaply, checked, or left to the final model."""
        if self.closed or self.known + len(self.under_way) > self.tolerated:
            self.final += 1
            return FINAL
        if one.coin < self.rate:
            self.under_way[one.id] = self.cheap + self.checked + self.final
            self.checked += 1
            return CHECK
        self.cheap += 1
        return CHEAP

    def finish(self, one: CheckOutcome) -> None:
        """End a check; one that is not under way here is of another period, or has ended."""
        before = self.under_way.pop(one.id, None)
        if before is None:
            return
        self.finished += 1
        self.arrived += self.rows - before
        if not one.agrees:
            self.known += 1

    def to_data(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Return it from JSON data."""
        return cls(**data)


def period_at(
    before: CheckPeriod | None, terms: PeriodTerms, store: StoreIdentity, now: float
) -> CheckPeriod:
    """Return the period of a row that is admitted now: the last one, or the next.

    Where something may be lost, nobody knows what was let out already in the period that this
    moment belongs to. So that one is closed, or, if rows are counted, a whole one.
    """
    if before is None:
        closed = ACCEPTED_LOSS if store.was_accepted else ""
        return CheckPeriod.begin(_clock_number(terms, now), terms, store, now, closed)
    if (before.server, before.incarnation) != (store.server, store.incarnation):
        return _closed_period(before, terms, store, now, RESTARTED)
    if (before.per_rows, before.per_seconds) != (terms.per_rows, terms.per_seconds):
        return _closed_period(before, terms, store, now, CHANGED)
    number = before.number + 1 if terms.per_rows else _clock_number(terms, now)
    is_over = before.rows >= terms.per_rows if terms.per_rows else number > before.number
    if is_over:
        return CheckPeriod.begin(number, terms, store, now)
    if before.settings != terms.settings:
        before.closed = before.closed or CHANGED
    return before


def _clock_number(terms: PeriodTerms, now: float) -> int:
    return floor(now / terms.per_seconds) if terms.per_seconds else 0


def _closed_period(
    before: CheckPeriod, terms: PeriodTerms, store: StoreIdentity, now: float, why: str
) -> CheckPeriod:
    number = before.number + 1
    if terms.per_seconds:
        # After the last one only if a clock was set back a little: never the same one twice.
        clock = _clock_number(terms, now)
        is_ahead = before.per_seconds == terms.per_seconds and before.number == clock + 1
        number = before.number if is_ahead else clock
    return CheckPeriod.begin(number, terms, store, now, why)


class Turn(NamedTuple):
    """What became of some steps, and the period after them; None if there was none yet."""

    admitted: list[str]  # of each admission, in order
    period: CheckPeriod | None

    @classmethod
    def lost(cls, steps: Sequence[Step]) -> Self:
        """Return the turn of a store that is not the one that is expected: nothing is admitted."""
        return cls([FINAL for one in steps if isinstance(one, Admission)], None)


def take_turn(
    before: CheckPeriod | None,
    steps: Sequence[Step],
    terms: PeriodTerms,
    store: StoreIdentity,
    now: float,
) -> Turn:
    """Take some steps, all at once, at a time on the clock of the store.

    Examples
    --------
    >>> from emsco.serve.check_period import *
    >>> terms = PeriodTerms("digest", 1000, 0.0, tolerated=0, rate=0.3)
    >>> rows = [Admission("a", 0.7), Admission("b", 0.1), Admission("c", 0.9)]
    >>> admitted, period = take_turn(None, rows, terms, StoreIdentity(), now=0.0)
    >>> admitted  # the last one while a check is under way
    ['cheap', 'check', 'final']
    >>> steps = [CheckOutcome("b", agrees=True), Admission("d", 0.5)]
    >>> take_turn(period, steps, terms, StoreIdentity(), now=1.0).admitted
    ['cheap']
    """
    period, admitted = before, []
    for one in steps:
        if isinstance(one, Admission):
            period = period_at(period, terms, store, now)
            admitted.append(period.admit(one))
        elif period is not None:
            period.finish(one)
    return Turn(admitted, period)
