"""Totals of live decisions: accepted, paid, saved, and why rows were rejected."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from emsco.core.decisions import Decisions
from emsco.exceptions import quoted
from emsco.live.purchases import KNOWN

_MOST_REASONS = 5


@dataclass
class LiveCounters:
    """Totals of live decisions, added block by block."""

    unit: str = ""
    rows: int = 0
    accepted: int = 0
    paid: float = 0.0
    saved: float = 0.0
    fetched: int = 0
    not_fetched: int = 0
    unknown: Counter[str] = field(default_factory=Counter)  # by source
    unknown_paid: float = 0.0
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, decisions: Decisions) -> None:
        """Count a block of live decisions."""
        self.rows += len(decisions)
        self.accepted += int(decisions.accepted.sum())
        self.paid += float(decisions.cost.sum())
        self.reasons.update(decisions.reason[~decisions.accepted].tolist())
        for receipt in decisions.receipts or ():
            self.saved += receipt.saved
            self.fetched += sum(fetch.how != KNOWN for fetch in receipt.fetches)
            self.not_fetched += len(receipt.not_needed)
            for fetch in receipt.fetches:
                if not fetch.billed:
                    self.unknown[fetch.source] += 1
                    self.unknown_paid += fetch.paid

    def sentence(self) -> str:
        """Format as text.

        Examples
        --------
        >>> from emsco.live.counters import LiveCounters
        >>> LiveCounters("EUR", rows=4, accepted=3, paid=12.0, saved=30.0, fetched=5, not_fetched=7,
        ...       reasons={"timeout: whois": 1}).sentence()
        '4 rows, 75.0% accepted. 12 EUR paid; 30 EUR saved, as 7 of 12 fetches were not needed. \
Rejected: timeout: whois (1).'
        """
        if not self.rows:
            return "There were no rows."
        total = self.fetched + self.not_fetched
        text = (
            f"{self.rows:,} rows, {self.accepted / self.rows:.1%} accepted. "
            f"{self._money(self.paid)} paid; {self._money(self.saved)} saved, as "
            f"{self.not_fetched:,} of {total:,} fetches were not needed."
        )
        if self.unknown:
            text += (
                f" Of the amount paid, {self._money(self.unknown_paid)} may not have been "
                f"charged: {sum(self.unknown.values()):,} fetches from {quoted(self.unknown)} got "
                "no answer."
            )
        if self.reasons:
            most = Counter(self.reasons).most_common()
            listed = ", ".join(f"{reason} ({n:,})" for reason, n in most[:_MOST_REASONS])
            rest = sum(n for _, n in most[_MOST_REASONS:])
            text += f" Rejected: {listed}" + (f", other reasons ({rest:,})." if rest else ".")
        return text

    def _money(self, amount: float) -> str:
        return money(amount, self.unit)


def money(amount: float, unit: str) -> str:
    """Format an amount with its unit.

    Examples
    --------
    >>> from emsco.live.counters import money
    >>> money(1234567.891, "EUR"), money(0.00012346, ""), money(3, "EUR")
    ('1,234,567.89 EUR', '0.0001235', '3 EUR')
    """
    number = f"{amount:,.2f}".removesuffix(".00") if abs(amount) >= 100 else f"{amount:.4g}"
    return f"{number} {unit}".rstrip()
