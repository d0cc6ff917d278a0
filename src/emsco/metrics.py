"""Scorers that account for rejection."""

from emsco.cascade.metrics import (
    accepted_accuracy,
    aurc,
    coverage,
    expected_loss,
    mean_cost,
    missed,
    negative,
)

__all__ = [
    "accepted_accuracy",
    "aurc",
    "coverage",
    "expected_loss",
    "mean_cost",
    "missed",
    "negative",
]
