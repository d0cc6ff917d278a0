"""The secret of a state: what the state keeps of a request's keys is an HMAC, by this secret.

The plain hash of a body would tell its key to whoever reads the state: all phone numbers can be
tried out in a moment. The secret is `EMSCO_STATE_KEY`. Without it, a file of SQLite has a secret in
a file beside it, and a store that processes share keeps one itself.
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
from emsco.serve.state.protocol import State

VARIABLE = "EMSCO_STATE_KEY"
_OWN, _CHECK = "key:own:", "key:check:"  # what names of values in a state begin with


async def state_key(state: State) -> bytes:
    """Return the secret of a state, and make one if it has none.

    Parameters
    ----------
    state : State
        The state, open.

    Raises
    ------
    StateError
        If the state belongs to another secret, or if this one is too short.
    """
    own, checked = f"{_OWN}{state.deployment}", f"{_CHECK}{state.deployment}"
    file, is_new = state.key_file, await state.kept(checked) is None
    if os.environ.get(VARIABLE):
        try:
            key = long_secret(VARIABLE)
        except SourcesError as error:
            raise StateError(str(error)) from None
    elif not is_new and (file is None or not file.exists()):
        raise _another(file)
    elif file is not None:
        key = _kept_beside(file)
    else:
        told = (
            "The state itself keeps the secret that hides the keys of requests in it. Set "
            f"{VARIABLE}, so that who reads it cannot try keys out."
        )
        log_event("state", WARNING, text=told)
        return await shared_secret(state, own)
    check = hmac.digest(key, b"the key of this state", "sha256").hex()
    await state.keep(checked, check, was=0)  # the first one stays
    kept = await state.kept(checked)
    if kept is None or not hmac.compare_digest(kept.text, check):
        raise _another(file)
    return key


def _another(file: Path | None) -> StateError:
    beside = "" if file is None else f", or put its file {file} back"
    return StateError(
        f"The deployment belongs to another key: set {VARIABLE} to the one that its processes have"
        f"{beside}. Without that key, give another state."
    )


def _kept_beside(file: Path) -> bytes:
    """Return the secret in a file that only its owner can read, and make it if it is not there."""
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
            f"The key of the state in {file} cannot be used ({type(error).__name__}): put the file "
            f"back, or set {VARIABLE}."
        ) from None
