"""The kinds of targets: what each one counts as an event, and how it is described.

A target bounds the share of rows to which something bad happens. A new kind is a class like those
here and a line in `KINDS`, the table that `certify`, files and sentences use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from emsco.certify._sample_size import check_between
from emsco.core.evaluation import Evaluation
from emsco.exceptions import CertificateError, Parameter


class Events(NamedTuple):
    """What a target counts: the rows, the events among them, and the share that is allowed.

    `bad` is the word for a row with an event.
    """

    what: str
    share: float
    rows: float
    events: float
    bad: str = "wrong"


class Target(Protocol):
    """One kind of target."""

    def check(self, name: str, value: Any) -> None:
        """Refuse an invalid value."""

    def events(self, value: Any, evaluation: Evaluation) -> Iterator[Events]:
        """Count the events among the rows that were evaluated."""

    def promise(self, value: Any) -> Iterator[str]:
        """Describe in plain words what holds if the target is met."""

    def broken(self, value: Any) -> Iterator[str]:
        """Describe a cascade that breaks the target."""


def percent(share: float) -> str:
    """Format a share; one below 1 is never rounded to 100%."""
    rounded = f"{100 * share:.4g}"
    return f"{100 * share:.10g}%" if rounded == "100" and share < 1 else f"{rounded}%"


class _Share:
    """A target that is one share."""

    def check(self, name: str, value: Any) -> None:
        """Refuse anything but a share."""
        check_between(name, value)


class Accuracy(_Share):
    """The minimum share of accepted rows that are labelled right."""

    def events(self, value: float, evaluation: Evaluation) -> Iterator[Events]:
        """Count errors among accepted rows."""
        errors = evaluation.accepted - evaluation.right
        yield Events("accepted rows", 1 - value, evaluation.accepted, errors)

    def promise(self, value: float) -> Iterator[str]:
        """Describe what holds if it is met."""
        yield f"at least {percent(value)} of accepted answers are right"

    def broken(self, value: float) -> Iterator[str]:
        """Describe what breaks it."""
        yield f"is right on fewer than {percent(value)} of the rows it accepts"


class Agreement(_Share):
    """The minimum share of decisions that are the same as the final model's."""

    def events(self, value: float, evaluation: Evaluation) -> Iterator[Events]:
        """Count changed decisions."""
        changed = evaluation.rows - evaluation.right
        yield Events("decisions", 1 - value, evaluation.rows, changed, "changed")

    def promise(self, value: float) -> Iterator[str]:
        """Describe what holds if it is met."""
        yield f"at least {percent(value)} of decisions are the same as the final model's"

    def broken(self, value: float) -> Iterator[str]:
        """Describe what breaks it."""
        yield f"leaves fewer than {percent(value)} of decisions as the final model's"


class ByLabel:
    """A target that is one share per label; labels must be classes."""

    def check(self, name: str, value: Mapping[Any, float]) -> None:
        """Refuse anything but one share per label."""
        for label, share in value.items():
            check_between(f"{name} of {label!r}", share)


class MaxMissed(ByLabel):
    """Per true class, the maximum share of its rows accepted under another label."""

    def events(self, value: Mapping[Any, float], evaluation: Evaluation) -> Iterator[Events]:
        """Count the rows of each class that are accepted under another label."""
        for label, most in value.items():
            rows = evaluation.class_rows.get(label, 0)
            accepted, right = evaluation.class_accepted, evaluation.class_right
            missed = accepted.get(label, 0) - right.get(label, 0)
            yield Events(f"rows of {label!r}", most, rows, missed)

    def promise(self, value: Mapping[Any, float]) -> Iterator[str]:
        """Describe what holds if it is met."""
        for label, most in value.items():
            own = f"{percent(most)} of the rows of class {label!r}"
            yield f"at most {own} are accepted under another label"

    def broken(self, value: Mapping[Any, float]) -> Iterator[str]:
        """Describe what breaks it."""
        for label, most in value.items():
            yield f"accepts more than {percent(most)} of class {label!r} under another label"


class MaxRejected(ByLabel):
    """Per true class, the maximum share of its rows rejected."""

    def events(self, value: Mapping[Any, float], evaluation: Evaluation) -> Iterator[Events]:
        """Count the rows of each class that are rejected."""
        for label, most in value.items():
            rows = evaluation.class_rows.get(label, 0)
            rejected = rows - evaluation.class_accepted.get(label, 0)
            yield Events(f"rows of {label!r}", most, rows, rejected, "rejected")

    def promise(self, value: Mapping[Any, float]) -> Iterator[str]:
        """Describe what holds if it is met."""
        for label, most in value.items():
            yield f"at most {percent(most)} of the rows of class {label!r} are rejected"

    def broken(self, value: Mapping[Any, float]) -> Iterator[str]:
        """Describe what breaks it."""
        for label, most in value.items():
            yield f"rejects more than {percent(most)} of class {label!r}"


class MinPrecision(ByLabel):
    """Per assigned label, the minimum share of the rows accepted under it that are right."""

    def events(self, value: Mapping[Any, float], evaluation: Evaluation) -> Iterator[Events]:
        """Count the rows accepted under each label that are of another class."""
        if evaluation.accepted and not evaluation.label_accepted:
            raise CertificateError(
                Parameter("min_precision")
                + " needs the number of rows accepted under each label, but the "
                "candidates of this search have no `label_accepted`; run the search again, or "
                "certify a single cascade."
            )
        for label, least in value.items():
            rows = evaluation.label_accepted.get(label, 0)
            wrong = rows - evaluation.class_right.get(label, 0)
            yield Events(f"rows accepted as {label!r}", 1 - least, rows, wrong)

    def promise(self, value: Mapping[Any, float]) -> Iterator[str]:
        """Describe what holds if it is met."""
        for label, least in value.items():
            yield f"at least {percent(least)} of the rows accepted as {label!r} are right"

    def broken(self, value: Mapping[Any, float]) -> Iterator[str]:
        """Describe what breaks it."""
        for label, least in value.items():
            yield f"is right on fewer than {percent(least)} of the rows it accepts as {label!r}"


class MinCoverage(_Share):
    """The minimum share of rows accepted; 0 sets no target, and removes the default filter."""

    def check(self, name: str, value: Any) -> None:
        """Refuse anything but a share."""
        if isinstance(value, bool) or value != 0:
            check_between(name, value)

    def events(self, value: float, evaluation: Evaluation) -> Iterator[Events]:
        """Count rejected rows."""
        if value:
            rejected = evaluation.rows - evaluation.accepted
            yield Events("rows", 1 - value, evaluation.rows, rejected, "rejected")

    def promise(self, value: float) -> Iterator[str]:
        """Describe what holds if it is met."""
        if value:
            yield f"at least {percent(value)} of all rows are accepted"

    def broken(self, value: float) -> Iterator[str]:
        """Describe what breaks it."""
        if value:
            yield f"accepts fewer than {percent(value)} of all rows"


# The targets by name, in the order in which they are described. `max_cost` is not here, because it
# is not a share of rows.
KINDS: dict[str, Target] = {
    "accuracy": Accuracy(),
    "agreement": Agreement(),
    "max_missed": MaxMissed(),
    "max_rejected": MaxRejected(),
    "min_precision": MinPrecision(),
    "min_coverage": MinCoverage(),
}
