"""Values that several processes share: a secret, and one that each changes by compare-and-set."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Generic, Protocol, Self, TypeVar

from emsco.exceptions import MonitorError, StateError
from emsco.serve.state.protocol import State

_TRIES = 20  # another process was faster each time: more than chance


class TextState(Protocol):
    """Protocol of what can be kept as text."""

    def to_text(self) -> str:
        """Return all that changes."""

    def after(self, text: str) -> Self:
        """Return what goes on where another one was."""


T = TypeVar("T", bound=TextState)
R = TypeVar("R")


class CasValue(Generic[T]):
    """A value in the state of a service, as this process saw it last.

    Parameters
    ----------
    state : State
        Where it is kept.
    name : str
        Its name there.
    new : TextState
        What it is if nothing is kept yet; it is never changed itself.
    """

    def __init__(self, state: State, name: str, new: T) -> None:
        self._state, self._name, self._new = state, name, new
        self._first = new.to_text()
        self._version = -1  # of the value; -1: none was read yet
        self.value: T = new.after(self._first)

    async def read(self) -> T:
        """Return the value that is kept now."""
        kept = await self._state.kept(self._name)
        version = 0 if kept is None else kept.version
        if version != self._version:
            self.value = self._new.after(self._first if kept is None else kept.text)
            self._version = version
        return self.value

    async def change(self, change: Callable[[T], R]) -> R:
        """Change the value, from what is kept now; return what the function returns.

        The function may be called again, with another value, and must not count on the first call.
        It runs in a thread: to count a cohort of many rows takes a while, and requests must go on.
        """
        for _ in range(_TRIES):
            kept = await self._state.kept(self._name)
            before, version = (self._first, 0) if kept is None else (kept.text, kept.version)
            value, outcome, text = await asyncio.to_thread(self._changed, before, change)
            if await self._state.keep(self._name, text, was=version):
                self.value, self._version = value, version + 1
                return outcome
        raise MonitorError(f"{self._name} is changed by others all the time.")

    def _changed(self, before: str, change: Callable[[T], R]) -> tuple[T, R, str]:
        value = self._new.after(before)
        outcome = change(value)
        return value, outcome, value.to_text()


async def shared_secret(state: State, name: str) -> bytes:
    """Return a secret that all processes share; the first that asks for it has made it."""
    await state.keep(name, os.urandom(32).hex(), was=0)
    kept = await state.kept(name)
    if kept is None:
        raise StateError(f"The state does not keep the secret {name!r}.")
    state.secrets[name] = kept.text
    return bytes.fromhex(kept.text)
