"""A kind of target that the package does not have: a least recall, by class."""

from __future__ import annotations

from emsco.certify._target_kinds import Events, percent


class MinRecall:
    """By true class, the least share of its accepted rows that are labelled right."""

    def check(self, name, value):
        """Refuse what is no share a label."""
        if not all(0 < least < 1 for least in value.values()):
            raise ValueError(f"{name} must be shares by label, got {value}.")

    def events(self, value, evaluation):
        """Count the accepted rows of a class that are labelled otherwise."""
        for label, least in value.items():
            rows = evaluation.class_accepted[label]
            yield Events(
                f"accepted rows of {label!r}", 1 - least, rows, rows - evaluation.class_right[label]
            )

    def promise(self, value):
        """Say what holds if it is kept."""
        for label, least in value.items():
            yield f"at least {percent(least)} of the accepted rows of {label!r} are right"

    def broken(self, value):
        """Say what breaks it."""
        for label, least in value.items():
            yield f"is right on fewer than {percent(least)} of the accepted rows of {label!r}"
