"""The secret of a state, for the HMAC under which the state stores request bodies.

A plain hash of a body would reveal its key to anyone who can read the state: all phone numbers can
be tried in a moment. The secret is `EMSCO_STATE_KEY`. Without it, an SQLite state has a secret in a
file next to it, and a shared store holds the secret itself.
"""

from __future__ import annotations

import hmac
import os
import secrets
from contextlib import suppress
from pathlib import Path

from emsco.exceptions import SourcesError, StateError
from emsco.live.source import long_secret
from emsco.serve.cas_value import shared_secret
from emsco.serve.events import WARNING, log_event
from emsco.serve.state.base import State

VARIABLE = "EMSCO_STATE_KEY"
_OWN, _CHECK = "key:own:", "key:check:"  # prefixes of the names of values in a state


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
