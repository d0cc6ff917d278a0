"""What a certificate of a cascade means when its sources may fail."""

from __future__ import annotations

from emsco.core.costs import Costs

_ALL_ANSWER = (
    "A certificate of this cascade is about decisions for which every source answers. A source "
    "that fails rejects rows: coverage falls and the shares of rejected rows rise. The share of a "
    "class that is missed can only fall. Accuracy and precision on accepted rows may move either "
    "way. Agreement counts such rows as changed."
)


def promise(costs: Costs, sources: tuple[str, ...], max_cost: float | None) -> str:
    """Return what a certificate means live; a `max_cost` below the full price voids it.

    Examples
    --------
    >>> from emsco import Costs, Source
    >>> from emsco.live.certificate_scope import promise
    >>> costs = Costs([Source("age", cost=1), Source("blood", cost=9)])
    >>> promise(costs, ("age", "blood"), max_cost=5.0)
    'No certificate of this cascade holds: `max_cost` is 5, and all of its sources cost 10.'
    """
    full = costs.of(sources)
    if max_cost is not None and max_cost < full:
        return (
            f"No certificate of this cascade holds: `max_cost` is {max_cost:g}, and all of its "
            f"sources cost {full:g}."
        )
    return _ALL_ANSWER
