"""Settlement of unknown charges by the vendor's bill.

Unknown charges stay unknown, however old they are, until a bill settles them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from emsco.exceptions import StateError
from emsco.live.accounts import money

if TYPE_CHECKING:
    import sqlalchemy as sa

_MORE = 1e-6  # sums of prices are not exact


def share_of(charged: float, unknown: float) -> float:
    """Return the share of the unknown amount that was charged.

    Raises
    ------
    StateError
        If more was charged than is unknown, or a negative amount.

    Examples
    --------
    >>> from emsco.serve.state.settlement import share_of
    >>> share_of(3.0, unknown=12.0), share_of(0.0, unknown=0.0)
    (0.25, 0.0)
    """
    if not 0 <= charged <= unknown + _MORE:
        raise StateError(
            f"The charged part of the unknown amount must be from 0 to {money(unknown, '')}, got "
            f"{charged!r}. If the bill has more, it includes calls that this state does not know."
        )
    return min(charged / unknown, 1.0) if unknown else 0.0


def settle_tables(
    connection: sa.Connection,
    sql: Mapping[str, sa.TextClause],
    source: str,
    day: int,
    charged: float,
) -> float:
    """Settle the unknown charges in the tables of a state; return the unknown amount."""
    values = {"source": source, "day": day}
    connection.execute(sql["hold"], values)  # write first, so that no one changes what is read
    unknown = float(connection.execute(sql["unknown"], values).scalar_one())
    values |= {"share": share_of(charged, unknown)}
    for name in ("settle_cap", "settle_intents", "settle_spent"):
        connection.execute(sql[name], values)
    return unknown
