"""What a decision rests on: how much each feature contributed to the score of its label."""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum
from typing import Any


@dataclass(frozen=True)
class Factors:
    """What each feature contributed to one decision, against a stated reference.

    The score of a linear stage is a sum. `score` says how much more probable the label is than the
    other classes: for two classes it is the log-odds of the label, for more classes the logarithm
    of its probability minus the mean logarithm of the others. It is `base`, which a row at the
    reference would have, plus what each feature adds. A positive contribution speaks for the label.

    Parameters
    ----------
    label : object
        The label of the decision.
    stage : int
        The stage that the row left at, counted from 0.
    features : tuple of (str, float), default=()
        Each feature with its contribution, the largest first, whatever its sign. Empty: there are
        none, and `why_none` says why.
    base : float, default=None
        The score at the reference. None: there are no contributions.
    reference : str, default=""
        The row that contributions are measured from, in words.
    why_none : str, default=""
        Why there are no contributions.

    Examples
    --------
    >>> from emsco.core.factors import Factors
    >>> found = Factors(
    ...     "sick", 1, features=(("marker", 1.75), ("age", -0.5)), base=-0.25,
    ...     reference="a row at the mean of training",
    ... )
    >>> found.score
    1.0
    >>> print(found)
    'sick' at stage 1: score 1
      -0.25  base
      +1.75  marker
       -0.5  age
    The base is the score of a row at the mean of training.
    >>> print(Factors("well", 0, why_none="Stage 0 is not linear."))
    'well' at stage 0: no factors. Stage 0 is not linear.
    """

    label: Any
    stage: int
    features: tuple[tuple[str, float], ...] = ()
    base: float | None = None
    reference: str = ""
    why_none: str = ""

    @property
    def score(self) -> float | None:
        """The sum of the base and all contributions; None where there are none."""
        if self.base is None:
            return None
        return fsum([self.base, *(contribution for _, contribution in self.features)])

    def __str__(self) -> str:
        head = f"{self.label!r} at stage {self.stage}: "
        if self.base is None:
            return f"{head}no factors. {self.why_none}"
        lines = [(self.base, "base")]
        lines += [(contribution, feature) for feature, contribution in self.features]
        width = max(len(f"{amount:+.4g}") for amount, _ in lines)
        rows = [f"{f'{amount:+.4g}':>{width + 2}}  {name}" for amount, name in lines]
        base = f"The base is the score of {self.reference}."
        return "\n".join([f"{head}score {self.score:.4g}", *rows, base])
