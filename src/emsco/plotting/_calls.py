"""The calls of a final model that labelling a batch is expected to take, against the agreement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from emsco.plotting._style import BLUE, INK, PALE, RED, axes, bare

_COLOURS = (BLUE, RED, INK, PALE)


class CallsDisplay:
    """Expected calls of a final model against the agreement, a line for each confidence.

    Create it with `plan_batch(...).plot()`.

    Parameters
    ----------
    agreements : sequence of float
        The agreements.
    confidences : sequence of float
        The confidences.
    calls : array of shape (n_agreements, n_confidences)
        The expected calls; NaN where no promise can be made.
    n_rows : int
        The rows of the batch.

    Attributes
    ----------
    figure_, ax_ : matplotlib Figure and Axes
        The figure and the axes drawn on.

    Examples
    --------
    >>> from emsco.plotting import CallsDisplay
    >>> calls = [[300, 400], [900, 1100]]
    >>> display = CallsDisplay([0.95, 0.99], [0.9, 0.99], calls, n_rows=2500).plot()
    >>> display.ax_.get_xlabel(), display.ax_.get_ylabel()
    ('agreement', 'expected calls, share of rows')
    """

    def __init__(
        self,
        agreements: Sequence[float],
        confidences: Sequence[float],
        calls: ArrayLike,
        *,
        n_rows: int,
    ) -> None:
        self.agreements, self.confidences = list(agreements), list(confidences)
        self.calls = np.asarray(calls, dtype=np.float64)
        self.n_rows = n_rows

    def plot(self, ax: Any = None) -> Self:
        """Draw the plot.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            The axes to draw on. None: a new figure.
        """
        self.figure_, self.ax_ = axes(ax, 6.4, 4.0)
        places = np.arange(len(self.agreements))
        for number, confidence in enumerate(self.confidences):
            shares = self.calls[:, number] / max(self.n_rows, 1)
            colour = _COLOURS[number % len(_COLOURS)]
            self.ax_.plot(places, shares, "o-", color=colour, linewidth=1.6, clip_on=False,
                          label=f"{confidence:.6g}")  # fmt: skip
        self.ax_.set(xlabel="agreement", ylabel="expected calls, share of rows", ylim=(0, 1.02))
        # Evenly spread, because agreements are ever closer to 1.
        self.ax_.set_xticks(places, [f"{each:.6g}" for each in self.agreements])
        self.ax_.yaxis.set_major_formatter("{x:.0%}")
        self.ax_.legend(title="confidence", frameon=False, loc="upper left")
        bare(self.ax_)
        return self
