"""The targets of a certificate, tested together as one hypothesis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Context
from typing import Any, NamedTuple

from emsco._utils.frozen_mapping import FrozenMapping
from emsco.certify.binomial import check_between, rows_for, tail
from emsco.core.evaluation import Evaluation
from emsco.core.measure import Measure
from emsco.core.measures import certifiable
from emsco.exceptions import CertificateError, Message, Parameter, nearest, quoted

COMMON = ("accuracy", "agreement", "max_missed", "min_coverage", "max_cost")  # in every certificate
_DIGITS = Context(prec=4), Context(prec=10)
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
    **targets
        Any other target, by the keyword of its measure.

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
    min_coverage: float | None
    max_cost: float | None

    def __init__(self, **targets: Any) -> None:
        measures = certifiable()
        for name in targets.keys() - measures.keys():
            raise TypeError(
                f"Unknown target {name!r}{nearest(name, measures)} The targets are "
                f"{quoted(measures)}."
            )
        self.__dict__.update(dict.fromkeys(COMMON), max_missed=FrozenMapping())
        for name, measure in measures.items():
            value = targets.get(name)
            if measure.is_by_class and value:
                self.__dict__[name] = FrozenMapping(value)
            elif not measure.is_by_class and value is not None:
                self.__dict__[name] = value
        alone = [name for name in self._names() if measures[name].certifies_alone]
        if not alone:
            known = [n for n, m in measures.items() if m.certifies_alone and n != "agreement"]
            raise CertificateError(
                "Give at least one target to certify: "
                + Message(", ").join(map(Parameter, known[:-1]))
                + " or "
                + Parameter(known[-1])
                + ", alone or together, or "
                + Parameter("agreement")
                + "."
            )
        if self.agreement is not None and len(alone) > 1:
            raise CertificateError(AGREEMENT_ALONE)
        for measure, label, limit in self._limits():
            name = measure.target if label is None else f"{measure.target} of {label!r}"
            check_between(name, limit)
        if self.max_cost is not None and not self.max_cost >= 0:
            raise CertificateError(
                Parameter("max_cost") + f" must be a number >= 0, got {self.max_cost!r}.",
                value=self.max_cost,
            )

    def __getattr__(self, name: str) -> Any:
        """Return a target that is not given."""
        measure = certifiable().get(name)
        if measure is None:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")
        return FrozenMapping() if measure.is_by_class else None

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
        for measure, label, _ in self._limits():
            if measure.is_by_class:
                yield measure.target, label

    def _names(self) -> list[str]:
        """List the names of the targets that are given."""
        measures = certifiable()
        values = {name: self.__dict__.get(name) for name in measures}
        # Not compared with an empty mapping, which a number of numpy's cannot be.
        return [
            n for n, v in values.items() if (bool(v) if measures[n].is_by_class else v is not None)
        ]

    def measures(self) -> Iterator[tuple[Measure, Any]]:
        """Yield the measure of each target that is given, and its limits; a coverage of 0 is none.

        The limits are one number, or one for each label.
        """
        for name in self._names():
            value = self.__dict__[name]
            if name != "min_coverage" or isinstance(value, bool) or value != 0:
                yield certifiable()[name], value

    def _limits(self) -> Iterator[tuple[Measure, Any, float]]:
        """Yield each limit on a share, with its measure and label; None: all rows."""
        for measure, value in self.measures():
            if measure.is_share:
                limits = value if measure.is_by_class else {None: value}
                yield from ((measure, label, limit) for label, limit in limits.items())

    def p_value(self, evaluation: Evaluation, cost: float) -> float:
        """Return the p-value of "some target is broken": the largest p-value of all targets.

        Each test is exact for any number of accepted rows, or of rows of a class. `cost` is the
        p-value of "the mean cost is above `max_cost`".
        """
        p_values = [float(tail(e.events, e.rows, e.share)) for e in self._events(evaluation)]
        return max([0.0 if self.max_cost is None else cost, *p_values])

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

    def _events(self, evaluation: Evaluation) -> Iterator[Events]:
        """Yield what each target counts."""
        for measure, label, limit in self._limits():
            if evaluation.accepted and not measure.labels(evaluation):
                raise CertificateError(
                    Parameter(measure.target)
                    + " needs the number of rows accepted under each label, but the candidates of "
                    "this search have no `label_accepted`; run the search again, or certify a "
                    "single cascade."
                )
            events, rows = measure.bad_count(evaluation, label)
            share = 1 - limit if measure.is_better_high else limit
            yield Events(measure.rows.format(label=label), share, rows, events, measure.bad)

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
        return _joined(self._phrases("promise", ("at most", "at least"), unit), "and")

    def broken(self, unit: str = "") -> str:
        """Describe a cascade that breaks at least one of the targets."""
        return _joined(self._phrases("does", ("more than", "fewer than"), unit), "or")

    def _phrases(self, words: str, than: tuple[str, str], unit: str) -> list[str]:
        """Put the limit of each target into a phrase of its measure."""
        phrases = [(measure, label, percent(limit)) for measure, label, limit in self._limits()]
        if self.max_cost is not None:
            cost = f"{self.max_cost:g} {unit}".rstrip()
            phrases.append((certifiable()["max_cost"], None, cost))
        return [
            getattr(measure, words).format(
                limit=f"{than[measure.is_better_high]} {limit}", label=label
            )
            for measure, label, limit in phrases
        ]


def percentage(share: float) -> float:
    """Return a share in percent, of four digits; one below 1 is never rounded to 100."""
    few, many = (float(n.create_decimal_from_float(float(100 * share))) for n in _DIGITS)
    return many if few == 100 and share < 1 else few


def percent(share: float) -> str:
    """Format a share as `percentage` rounds it."""
    return f"{percentage(share):.10g}%"


def _joined(parts: list[str], word: str) -> str:
    """Join phrases with commas and a last word."""
    return f" {word} ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


class Events(NamedTuple):
    """What a target counts: the rows, the bad ones among them, and the share that is allowed.

    `bad` is the word for a bad row.
    """

    what: str
    share: float
    rows: float
    events: float
    bad: str


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
