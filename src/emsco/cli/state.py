"""`emsco state`: initialize the shared state of services, or accept that it has lost its data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emsco.cli._options import options

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from emsco.serve.incarnation import Incarnation
    from emsco.serve.state import State


@options()
def init(state: str, deployment: str) -> None:
    """Initialize the state of a deployment, once, before its first service starts.

    A service with paid sources never does this itself, because it could not tell a new state from
    one that has lost its data. Do not run it at every start.
    """
    from emsco.cli._print import print_text
    from emsco.serve.incarnation import begin

    new = _written(state, deployment, begin)
    print_text(f"The state of {deployment} is initialized: incarnation {new.id}.")


@options()
def accept(state: str, deployment: str) -> None:
    """Accept a state that has lost its data, or a different state, and resume paid calls.

    Find out first what was lost. Requests whose ids are no longer in the state are decided and paid
    for again, and the daily limits start over.
    """
    from emsco.cli._print import print_text
    from emsco.serve.incarnation import accept as write

    new = _written(state, deployment, write)
    print_text(f"The state of {deployment} is accepted: incarnation {new.id}.")


def _written(
    address: str, deployment: str, write: Callable[[State], Awaitable[Incarnation]]
) -> Incarnation:
    import asyncio

    from emsco.serve.settings import Settings
    from emsco.serve.state import open_state

    name = Settings(state=address, deployment=deployment).deployment  # checked

    async def run() -> Incarnation:
        opened = await open_state(address, deployment=name)
        try:
            return await write(opened)
        finally:
            await opened.close()

    return asyncio.run(run())
