"""Unknown charges, settled by what the vendor's bill says.

They never become known by themselves, however old they are: only a bill tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from emsco.exceptions import StateError
from emsco.live.counters import money

if TYPE_CHECKING:
    import sqlalchemy as sa

_MORE = 1e-6  # sums of prices are not exact


def share_of(charged: float, unknown: float) -> float:
    """Return the share of what is unknown that was charged.

    Raises
    ------
    StateError
        If more was charged than is unknown, or less than nothing.

    Examples
    --------
    >>> from emsco.serve.state.settlement import share_of
    >>> share_of(3.0, unknown=12.0), share_of(0.0, unknown=0.0)
    (0.25, 0.0)
    """
    if not 0 <= charged <= unknown + _MORE:
        raise StateError(
            f"What was charged of the unknown must be from 0 to {money(unknown, '')}, got "
            f"{charged!r}. If the bill has more, it is about calls that this state does not know."
        )
    return min(charged / unknown, 1.0) if unknown else 0.0


def settle_tables(
    connection: sa.Connection,
    sql: Mapping[str, sa.TextClause],
    source: str,
    day: int,
    charged: float,
) -> float:
    """Settle what is unknown in the tables of a state, and return how much that was."""
    values = {"source": source, "day": day}
    connection.execute(sql["hold"], values)  # writes first: nobody changes what is read now
    unknown = float(connection.execute(sql["unknown"], values).scalar_one())
    values |= {"share": share_of(charged, unknown)}
    for name in ("settle_cap", "settle_intents", "settle_spent"):
        connection.execute(sql[name], values)
    return unknown
