"""The kinds of targets: what each one counts as an event, and what it is called when it is broken.

A target bounds the share of rows to which something bad happens. A new kind is a class like those
here and a line in `KINDS`; `certify`, files and sentences go by that table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from emsco.certify._required import check_between
from emsco.words.evaluation import Evaluation


class Events(NamedTuple):
    """What a target counts: among which rows, how many events, and the share that is allowed."""

    what: str
    share: float
    rows: float
    events: float


class Target(Protocol):
    """One kind of target."""

    def check(self, name: str, value: Any) -> None:
        """Refuse a value that nothing can be asked for by."""

    def events(self, value: Any, evaluation: Evaluation) -> Iterator[Events]:
        """Count the events among the rows that were evaluated."""

    def broken(self, value: Any) -> Iterator[str]:
        """Say what a cascade does that breaks it."""


def percent(share: float) -> str:
    """Print a share."""
    return f"{100 * share:.4g}%"


class _Share:
    """A target that is one share."""

    def check(self, name: str, value: Any) -> None:
        """Refuse what is no share."""
        check_between(name, value)


class Accuracy(_Share):
    """The least share of accepted rows labelled right."""

    def events(self, value: float, evaluation: Evaluation) -> Iterator[Events]:
        """Count errors among accepted rows."""
        errors = evaluation.accepted - evaluation.right
        yield Events("accepted rows", 1 - value, evaluation.accepted, errors)

    def broken(self, value: float) -> Iterator[str]:
        """Say what breaks it."""
        yield f"is right on fewer than {percent(value)} of the rows it accepts"


class Agreement(_Share):
    """The least share of decisions left as the final model's."""

    def events(self, value: float, evaluation: Evaluation) -> Iterator[Events]:
        """Count changed decisions."""
        yield Events("decisions", 1 - value, evaluation.rows, evaluation.rows - evaluation.right)

    def broken(self, value: float) -> Iterator[str]:
        """Say what breaks it."""
        yield f"leaves fewer than {percent(value)} of decisions as the final model's"


class MaxMissed:
    """By true class, the largest share of its rows accepted under another label."""

    def check(self, name: str, value: Mapping[Any, float]) -> None:
        """Refuse what is no share a label."""
        for label, most in value.items():
            check_between(f"{name} of {label!r}", most)

    def events(self, value: Mapping[Any, float], evaluation: Evaluation) -> Iterator[Events]:
        """Count the rows of each class that are accepted under another label."""
        for label, most in value.items():
            rows = evaluation.class_rows.get(label, 0)
            accepted, right = evaluation.class_accepted, evaluation.class_right
            missed = accepted.get(label, 0) - right.get(label, 0)
            yield Events(f"rows of {label!r}", most, rows, missed)

    def broken(self, value: Mapping[Any, float]) -> Iterator[str]:
        """Say what breaks it."""
        for label, most in value.items():
            yield f"accepts more than {percent(most)} of {label!r} under another label"


class MinCoverage(_Share):
    """The least share of rows accepted."""

    def events(self, value: float, evaluation: Evaluation) -> Iterator[Events]:
        """Count rejected rows."""
        yield Events("rows", 1 - value, evaluation.rows, evaluation.rows - evaluation.accepted)

    def broken(self, value: float) -> Iterator[str]:
        """Say what breaks it."""
        yield f"accepts fewer than {percent(value)} of all rows"


# What can be asked for, by name, in the order in which it is told. `max_cost` is no share of rows
# and stands apart.
KINDS: dict[str, Target] = {
    "accuracy": Accuracy(),
    "agreement": Agreement(),
    "max_missed": MaxMissed(),
    "min_coverage": MinCoverage(),
}
