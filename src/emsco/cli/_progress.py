"""A progress line on the terminal, for commands that take more than a moment."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from emsco._utils.progress import COMPILE, watching

_MOMENT = 0.5  # seconds before the line appears
_EVERY = 0.25  # seconds between updates
_KNOWN_FROM = 0.02  # share done from which the remaining time is estimated


class ProgressLine:
    """A line that a thread updates while a command runs, and that is removed at its end.

    Only if standard error is a terminal: in a file it would be thousands of lines.
    """

    def __init__(self) -> None:
        self._what, self._done, self._detail = "load libraries", 0.0, ""
        self._since = time.monotonic()
        self._width = 0  # characters on the line
        self._held = 0  # number of others writing to the terminal
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def update(self, what: str, done: float, detail: str = "") -> None:
        """Set the current task and the share of it that is done."""
        if what != self._what:
            self._since = time.monotonic()
        self._what, self._done, self._detail = what, done, detail
        if what == COMPILE and not self._ended.is_set():
            self.write(f"emsco: {COMPILE}\n")

    def searched(self, state: dict[str, Any]) -> None:
        """Show the progress of a search, as its callback."""
        parts = [f"{state['source_sets']:,} source sets"]
        if state["designs"]:
            parts += [f"{state['designs']:,} designs", f"front {state['front']:,}"]
        detail = ", ".join(parts)
        if state["phase"] == "done":
            self.write(f"emsco: done: {detail}, {_minutes(state['seconds'])}\n")
        else:
            self.update(state["phase"], state["done"], f": {detail}")

    def run(self) -> None:
        """Show the line until the command ends."""
        start = time.monotonic()
        while not self._ended.wait(_EVERY):
            if time.monotonic() - start >= _MOMENT and not self._held:
                self.write(self._line())

    def write(self, text: str) -> None:
        """Replace the line."""
        with self._lock, suppress(OSError, ValueError):  # a closed terminal
            if self._held and not text.endswith("\n"):
                return
            sys.stderr.write(f"\r\x1b[K{text}" if self._width else text)
            sys.stderr.flush()
            self._width = 0 if text.endswith("\n") else len(text)

    def clear(self) -> None:
        """Remove the line."""
        if self._width:
            self.write("")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hide the line while something else is printed."""
        self.clear()
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1

    def end(self) -> None:
        """Stop, and remove the line."""
        self._ended.set()
        self._held += 1
        with self._lock, suppress(OSError, ValueError):
            if self._width:
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()
                self._width = 0

    def _line(self) -> str:
        elapsed, done = time.monotonic() - self._since, self._done
        share = f" {done:.0%}" if done else ""
        left = ""
        if _KNOWN_FROM <= done < 1:
            left = f", about {_minutes(elapsed * (1 - done) / done)} left"
        text = f"emsco: {self._what}{share}{self._detail}, {_minutes(elapsed)}{left}"
        return text[: shutil.get_terminal_size().columns - 1]


_lines: list[ProgressLine] = []


@contextmanager
def progress_line() -> Iterator[None]:
    """Show a progress line during a block, if standard error is a terminal."""
    if sys.stderr is None or not sys.stderr.isatty() or _lines:
        yield
        return
    line = ProgressLine()
    _lines.append(line)
    thread = threading.Thread(target=line.run, daemon=True)
    thread.start()
    try:
        with watching(line.update):
            yield
    finally:
        _lines.remove(line)
        line.end()


@contextmanager
def held() -> Iterator[None]:
    """Hide the progress line while something else is printed."""
    if not _lines:
        yield
        return
    with _lines[0].held():
        yield


def hush() -> None:
    """Stop showing progress."""
    if _lines:
        _lines[0].end()


def search_callback() -> Any:
    """Return the callback for a search; None if there is no progress line."""
    return _lines[0].searched if _lines else None


def _minutes(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"
