"""The targets of a certificate, tested together as one hypothesis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from emsco._utils.frozen_mapping import FrozenMapping
from emsco.certify._binomial import tail
from emsco.certify._sample_size import rows_for
from emsco.certify._target_kinds import KINDS, ByLabel, Events, percent
from emsco.core.evaluation import Evaluation
from emsco.exceptions import CertificateError, Message, Parameter, quoted

COMMON = ("accuracy", "agreement", "max_missed", "min_coverage", "max_cost")  # in every certificate
AGREEMENT_ALONE = (
    Parameter("agreement")
    + " compares with the final model and other targets compare with labels, so they "
    "cannot be certified together; certify them separately, on different rows."
)


class Targets:
    """Targets that a certified cascade meets, all at the same time. Targets are immutable.

    Parameters
    ----------
    accuracy : float, default=None
        The minimum share of accepted rows that are labelled right.
    agreement : float, default=None
        The minimum share of rows decided as the final model would decide them.
    max_missed : mapping of label to float, default=None
        Per true class, the maximum share of its rows that are accepted under another label.
    max_rejected : mapping of label to float, default=None
        Per true class, the maximum share of its rows that are rejected.
    min_precision : mapping of label to float, default=None
        Per assigned label, the minimum share of the rows accepted under it that are right.
    min_coverage : float, default=None
        The minimum share of rows accepted. 0 sets no target; it removes the filter by which
        candidates of a search need a selected coverage of at least 0.5.
    max_cost : float, default=None
        The maximum mean cost per row.
    **others
        Any other kind of target, by its name.

    Examples
    --------
    >>> from emsco.certify import Targets
    >>> print(Targets(max_rejected={"sick": 0.2}, min_precision={"sick": 0.9}).broken())
    rejects more than 20% of class 'sick' or is right on fewer than 90% of the rows it accepts as
    'sick'
    """

    accuracy: float | None
    agreement: float | None
    max_missed: Mapping[Any, float]
    # Stored only if they are given.
    max_rejected: Mapping[Any, float] = FrozenMapping()
    min_precision: Mapping[Any, float] = FrozenMapping()
    min_coverage: float | None
    max_cost: float | None

    def __init__(
        self,
        *,
        accuracy: float | None = None,
        agreement: float | None = None,
        max_missed: Mapping[Any, float] | None = None,
        max_rejected: Mapping[Any, float] | None = None,
        min_precision: Mapping[Any, float] | None = None,
        min_coverage: float | None = None,
        max_cost: float | None = None,
        **others: Any,
    ) -> None:
        unknown = others.keys() - KINDS.keys()
        if unknown:
            raise TypeError(f"Unknown target {min(unknown)!r}; the targets are {quoted(KINDS)}.")
        by_label = {"max_rejected": max_rejected, "min_precision": min_precision}
        others |= {name: FrozenMapping(value) for name, value in by_label.items() if value}
        self.__dict__.update(
            accuracy=accuracy,
            agreement=agreement,
            max_missed=FrozenMapping(max_missed),
            min_coverage=min_coverage,
            max_cost=max_cost,
            **others,
        )
        own = [value for name, value in others.items() if value is not None]
        if accuracy is agreement is None and not self.max_missed and not own:
            raise CertificateError(
                "Give at least one target to certify: "
                + Message(", ").join(map(Parameter, ("accuracy", "max_missed", "max_rejected")))
                + " or "
                + Parameter("min_precision")
                + ", alone or together, or "
                + Parameter("agreement")
                + "."
            )
        if agreement is not None and (accuracy is not None or self.max_missed or own):
            raise CertificateError(AGREEMENT_ALONE)
        for name, value in self._targets().items():
            KINDS[name].check(name, value)
        if max_cost is not None and not max_cost >= 0:
            raise CertificateError(
                Parameter("max_cost") + f" must be a number >= 0, got {max_cost!r}.", value=max_cost
            )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Targets are immutable; {name!r} cannot be set.")

    def to_dict(self) -> dict[str, Any]:
        """Return the targets by name: those in every certificate, and all others that are given."""
        return dict(self.__dict__)

    def digested(self) -> list[Any]:
        """List the values that distinguish questions; targets beyond `COMMON` have their names."""
        values = self.to_dict()
        return [*(values.pop(name) for name in COMMON), *(list(other) for other in values.items())]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Targets) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(tuple(self.to_dict().items()))

    def __repr__(self) -> str:
        parameters = ", ".join(f"{name}={value!r}" for name, value in self.to_dict().items())
        return f"Targets({parameters})"

    def labels(self) -> Iterator[tuple[str, Any]]:
        """Yield every label that a target names, with the name of the target."""
        for name, value in self._targets().items():
            if isinstance(KINDS[name], ByLabel):
                yield from ((name, label) for label in value)

    def _targets(self) -> dict[str, Any]:
        """Return the targets that are given, except the cost."""
        values = {name: self.__dict__.get(name) for name in KINDS}
        return {name: v for name, v in values.items() if v is not None and v != {}}

    def p_value(self, evaluation: Evaluation, cost: float) -> float:
        """Return the p-value of "some target is broken": the largest p-value of all targets.

        Each test is exact for any number of accepted rows, or of rows of a class.

        Parameters
        ----------
        evaluation : Evaluation
            The counts.
        cost : float
            The p-value of "the mean cost is above `max_cost`".
        """
        p_values = [0.0 if self.max_cost is None else cost]
        for _, share, rows, events, _ in self._events(evaluation):
            p_values.append(float(tail(events, rows, share)))
        return max(p_values)

    def met_by(self, evaluation: Evaluation) -> bool:
        """Return whether figures, as counted, meet the targets."""
        return not self.missed_by(evaluation)

    def missed_by(self, evaluation: Evaluation) -> list[str]:
        """Describe the targets that figures, as counted, miss; a share of no rows misses all."""
        missed = [
            f"{events:,.10g} of {rows:,.10g} {what} are {bad}, but at most {percent(share)} may be"
            if rows
            else f"there are no {what}"
            for what, share, rows, events, bad in self._events(evaluation)
            if not rows or events > share * rows
        ]
        if self.max_cost is not None and evaluation.cost > self.max_cost:
            missed.append(f"it costs {evaluation.cost:.4g} per row, more than {self.max_cost:g}")
        return missed

    def _events(self, evaluation: Evaluation) -> list[Events]:
        """Return the events that each target counts."""
        targets = self._targets().items()
        return [found for name, value in targets for found in KINDS[name].events(value, evaluation)]

    def shortfalls(self, evaluation: Evaluation, cost: float, level: float) -> list[Shortfall]:
        """Return each target that fails, with the rows needed for the same number of events.

        `cost` is an upper bound of the mean cost.
        """
        found = []
        for what, share, rows, events, bad in self._events(evaluation):
            if tail(events, rows, share) > level:
                needed = rows_for(share, level, int(events))
                found.append(Shortfall(what, int(rows), int(events), needed, bad))
        if self.max_cost is not None and cost > self.max_cost:
            found.append(Shortfall("cost", int(evaluation.rows), None, None, ""))
        return found

    def promise(self, unit: str = "") -> str:
        """Describe in plain words what holds if all targets are met."""
        targets = self._targets().items()
        parts = [part for name, value in targets for part in KINDS[name].promise(value)]
        if self.max_cost is not None:
            parts.append(f"the mean cost per row is at most {self.max_cost:g} {unit}".rstrip())
        return _joined(parts, "and")

    def broken(self, unit: str = "") -> str:
        """Describe a cascade that breaks at least one of the targets."""
        targets = self._targets().items()
        parts = [part for name, value in targets for part in KINDS[name].broken(value)]
        if self.max_cost is not None:
            cost = f"{self.max_cost:g} {unit}".rstrip()
            parts.append(f"costs more than {cost} per row on average")
        return _joined(parts, "or")


def _joined(parts: list[str], word: str) -> str:
    """Join phrases with commas and a last word."""
    return f" {word} ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


class Shortfall(NamedTuple):
    """A target that could not be shown to hold, with the rows and events seen and the rows needed.

    `events` are errors, misses or rejected rows; `needed` is the number of rows that would have
    been enough with the same number of events. Both are None for the cost. `bad` is the word for
    what happens to a row in an event; "" for the cost.
    """

    what: str
    rows: int
    events: int | None
    needed: int | None
    bad: str

    def __str__(self) -> str:
        if self.needed is None:
            return f"{self.rows:,} rows do not show that the cost is low enough"
        bad = f"{self.events:,} {self.bad}"
        return (
            f"{self.rows:,} {self.what} with {bad} are too few (at least {self.needed:,} are "
            f"needed with {bad})"
        )
