"""Run a coroutine from code that is not async, also where an event loop runs already."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from threading import Thread
from typing import Any, TypeVar

Result = TypeVar("Result")


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine to its end; in a thread if an event loop runs here, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    found: list[Result] = []
    errors: list[BaseException] = []

    def in_thread() -> None:
        try:
            found.append(asyncio.run(work))
        except BaseException as error:
            errors.append(error)

    thread = Thread(target=in_thread)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return found[0]
