"""Values that processes share: those changed by compare-and-set, and secrets.

One secret is the key of the HMAC under which the state stores request bodies: a plain hash of a
body would reveal its key to anyone who can read the state, as all phone numbers can be tried in a
moment. It is `EMSCO_STATE_KEY`. Without it, an SQLite state has a secret in a file next to it, and
a shared store holds the secret itself.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

from emsco.exceptions import MonitorError, SourcesError, StateError
from emsco.live.source import long_secret
from emsco.serve.events import WARNING, log_event
from emsco.serve.state.base import State

VARIABLE = "EMSCO_STATE_KEY"
_OWN, _CHECK = "key:own:", "key:check:"  # prefixes of the names of values in a state
_FORMAT = 1  # of values changed by compare-and-set
_TRIES = 20  # losing the race more often than this is not chance


class StoredState(Protocol):
    """Protocol of values that can be stored as JSON."""

    def to_data(self) -> dict[str, Any]:
        """Return the state that changes, as JSON data."""

    def after(self, data: dict[str, Any]) -> Self:
        """Return a copy that continues from stored data."""


T = TypeVar("T", bound=StoredState)
R = TypeVar("R")


class CasValue(Generic[T]):
    """A value in the state of a service, as last seen by this process."""

    def __init__(self, state: State, name: str, new: T) -> None:
        self._state, self._name, self._new = state, name, new
        self._first = _to_text(new)
        self._version = -1  # of the value; -1: not read yet
        self.value: T = self._after(self._first)

    async def read(self) -> T:
        """Return the stored value."""
        stored = await self._state.get_value(self._name)
        version = 0 if stored is None else stored.version
        if version != self._version:
            self.value = self._after(self._first if stored is None else stored.text)
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
        value = self._after(before)
        outcome = change(value)
        return value, outcome, _to_text(value)

    def _after(self, text: str) -> T:
        data = json.loads(text)
        if data["format"] != _FORMAT:
            raise MonitorError(
                f"{self._name} must have format {_FORMAT}, but is stored with {data['format']!r}."
            )
        return self._new.after(data)


def _to_text(value: StoredState) -> str:
    return json.dumps({"format": _FORMAT, **value.to_data()})


async def shared_secret(state: State, name: str) -> bytes:
    """Return a secret that all processes share; the first process creates it."""
    await state.keep(name, os.urandom(32).hex(), was=0)
    stored = await state.get_value(name)
    if stored is None:
        raise StateError(f"The state does not store the secret {name!r}.")
    state.secrets[name] = stored.text
    return bytes.fromhex(stored.text)


async def state_key(state: State) -> bytes:
    """Return the secret of a state; create one if it has none."""
    own, checked = f"{_OWN}{state.deployment}", f"{_CHECK}{state.deployment}"
    file, is_new = state.key_file, await state.get_value(checked) is None
    if os.environ.get(VARIABLE):
        try:
            key = long_secret(VARIABLE)
        except SourcesError as error:
            raise StateError(str(error)) from None
    elif not is_new and (file is None or not file.exists()):
        raise _wrong_key(file)
    elif file is not None:
        key = _secret_in(file)
    else:
        message = (
            "The state itself holds the secret that hides the keys of requests. Set "
            f"{VARIABLE}, so that someone who can read the state cannot guess keys."
        )
        log_event("state", WARNING, text=message)
        return await shared_secret(state, own)
    check = hmac.digest(key, b"the key of this state", "sha256").hex()
    await state.keep(checked, check, was=0)  # the first one is kept
    stored = await state.get_value(checked)
    if stored is None or not hmac.compare_digest(stored.text, check):
        raise _wrong_key(file)
    return key


def _wrong_key(file: Path | None) -> StateError:
    beside = "" if file is None else f", or restore its file {file}"
    return StateError(
        f"The deployment was created with another key: set {VARIABLE} to the key of its processes"
        f"{beside}. If that key is lost, use a new state."
    )


def _secret_in(file: Path) -> bytes:
    """Return the secret in a file that only its owner can read; create the file if needed."""
    try:
        if not file.exists():
            new = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
            with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as writing:
                writing.write(secrets.token_hex(32))
            try:
                with suppress(FileExistsError):  # another process was faster
                    os.link(new, file)
            finally:
                new.unlink()
        return bytes.fromhex(file.read_text())
    except (OSError, ValueError) as error:
        raise StateError(
            f"The key of the state in {file} cannot be used ({type(error).__name__}): restore the "
            f"file, or set {VARIABLE}."
        ) from None
