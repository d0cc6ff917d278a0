"""Values that processes share: secrets, and values changed by compare-and-set."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Generic, Protocol, Self, TypeVar

from emsco.exceptions import MonitorError, StateError
from emsco.serve.state.base import State

_TRIES = 20  # losing the race more often than this is not chance


class TextState(Protocol):
    """Protocol of values that can be stored as text."""

    def to_text(self) -> str:
        """Return the state that changes, as text."""

    def after(self, text: str) -> Self:
        """Return a copy that continues from stored text."""


T = TypeVar("T", bound=TextState)
R = TypeVar("R")


class CasValue(Generic[T]):
    """A value in the state of a service, as last seen by this process."""

    def __init__(self, state: State, name: str, new: T) -> None:
        self._state, self._name, self._new = state, name, new
        self._first = new.to_text()
        self._version = -1  # of the value; -1: not read yet
        self.value: T = new.after(self._first)

    async def read(self) -> T:
        """Return the stored value."""
        stored = await self._state.get_value(self._name)
        version = 0 if stored is None else stored.version
        if version != self._version:
            self.value = self._new.after(self._first if stored is None else stored.text)
            self._version = version
        return self.value

    async def change(self, change: Callable[[T], R]) -> R:
        """Apply a function to the stored value and store the result; return what it returns.

        The function may be called several times, each time with a fresh value, and must have no
        other effects. It runs in a thread: counting a large cohort takes a while, and requests must
        not wait for it.
        """
        for _ in range(_TRIES):
            stored = await self._state.get_value(self._name)
            before, version = (self._first, 0) if stored is None else (stored.text, stored.version)
            value, outcome, text = await asyncio.to_thread(self._changed, before, change)
            if await self._state.keep(self._name, text, was=version):
                self.value, self._version = value, version + 1
                return outcome
        raise MonitorError(
            f"{self._name} could not be changed in {_TRIES} attempts: other processes keep "
            "changing it."
        )

    def _changed(self, before: str, change: Callable[[T], R]) -> tuple[T, R, str]:
        value = self._new.after(before)
        outcome = change(value)
        return value, outcome, value.to_text()


async def shared_secret(state: State, name: str) -> bytes:
    """Return a secret that all processes share; the first process creates it."""
    await state.keep(name, os.urandom(32).hex(), was=0)
    stored = await state.get_value(name)
    if stored is None:
        raise StateError(f"The state does not store the secret {name!r}.")
    state.secrets[name] = stored.text
    return bytes.fromhex(stored.text)
