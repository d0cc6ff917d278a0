"""One line on the terminal that says what a command does, once it takes more than a moment."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from emsco._utils.progress import COMPILE, watching

_MOMENT = 0.5  # seconds in which nothing is said
_EVERY = 0.25  # seconds between two looks of the line
_KNOWN_FROM = 0.02  # share before which the end is anyone's guess


class ProgressLine:
    """A line that a thread writes anew while a command runs, and that is gone when it ends.

    Only where standard error is a terminal: in a file it would be thousands of lines.
    """

    def __init__(self) -> None:
        self._what, self._done, self._detail = "load libraries", 0.0, ""
        self._since = time.monotonic()
        self._shown = 0  # letters on the line
        self._held = 0  # others who write to the terminal
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def told(self, what: str, done: float, detail: str = "") -> None:
        """Take what is done now, and which share of it."""
        if what != self._what:
            self._since = time.monotonic()
        self._what, self._done, self._detail = what, done, detail
        if what == COMPILE and not self._ended.is_set():
            self.write(f"emsco: {COMPILE}\n")

    def searched(self, state: dict[str, Any]) -> None:
        """Take how a search goes, as its callback is told."""
        parts = [f"{state['source_sets']:,} source sets"]
        if state["designs"]:
            parts += [f"{state['designs']:,} designs", f"front {state['front']:,}"]
        detail = ", ".join(parts)
        if state["phase"] == "done":
            self.write(f"emsco: done: {detail}, {_minutes(state['seconds'])}\n")
        else:
            self.told(state["phase"], state["done"], f": {detail}")

    def run(self) -> None:
        """Show the line until the command ends."""
        start = time.monotonic()
        while not self._ended.wait(_EVERY):
            if time.monotonic() - start >= _MOMENT and not self._held:
                self.write(self._line())

    def write(self, text: str) -> None:
        """Replace the line."""
        with self._lock, suppress(OSError, ValueError):  # a terminal that is gone
            if self._held and not text.endswith("\n"):
                return
            sys.stderr.write(f"\r\x1b[K{text}" if self._shown else text)
            sys.stderr.flush()
            self._shown = 0 if text.endswith("\n") else len(text)

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            self.write("")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Leave the terminal to somebody else."""
        self.clear()
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1

    def end(self) -> None:
        """Stop, and take the line away."""
        self._ended.set()
        self._held += 1
        with self._lock, suppress(OSError, ValueError):
            if self._shown:
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()
                self._shown = 0

    def _line(self) -> str:
        elapsed, done = time.monotonic() - self._since, self._done
        share = f" {done:.0%}" if done else ""
        left = ""
        if _KNOWN_FROM <= done < 1:
            left = f", about {_minutes(elapsed * (1 - done) / done)} left"
        text = f"emsco: {self._what}{share}{self._detail}, {_minutes(elapsed)}{left}"
        return text[: shutil.get_terminal_size().columns - 1]


_telling: list[ProgressLine] = []


@contextmanager
def telling() -> Iterator[None]:
    """Say meanwhile what is done, where somebody can see it."""
    if sys.stderr is None or not sys.stderr.isatty() or _telling:
        yield
        return
    teller = ProgressLine()
    _telling.append(teller)
    thread = threading.Thread(target=teller.run, daemon=True)
    thread.start()
    try:
        with watching(teller.told):
            yield
    finally:
        _telling.remove(teller)
        teller.end()


@contextmanager
def held() -> Iterator[None]:
    """Leave the terminal to what is printed meanwhile."""
    if not _telling:
        yield
        return
    with _telling[0].held():
        yield


def hush() -> None:
    """Say nothing any more, where no progress is wanted."""
    if _telling:
        _telling[0].end()


def search_callback() -> Any:
    """Give what a search is to tell how it goes; None where it is to print lines by itself."""
    return _telling[0].searched if _telling else None


def _minutes(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"
