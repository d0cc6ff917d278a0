"""Progress of long tasks: reported by what works, and shown on standard error if somebody asks.

It is shown as a bar of rich where that is installed, otherwise as lines of text: of a command by
`command_progress`, of a search by `verbose`.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, TextIO, TypeVar

Item = TypeVar("Item")
Watcher = Callable[[str, float], object]  # called with the task and the share of it that is done
Details = Callable[[int | None], str]  # what else is known, in at most so many characters
_watchers: list[Watcher] = []
_KNOWN_FROM = (0.01, 0.5)  # share and seconds of a task before its end can be estimated

_BAR_WIDTH = 12
_BAR_EVERY = 0.1  # seconds between two updates of the bar
_LINES_EVERY = 2.0
_SILENT = 4.0  # seconds without a line after which a command writes one
_MOMENT = 0.5  # seconds before the bar of a command appears
_A_SECOND = 4  # updates of the bar of a command


@contextmanager
def watching(watcher: Watcher, *, alone: bool = False) -> Iterator[None]:
    """Report all tasks inside the block to a watcher; `alone`: to no other."""
    before = _watchers[:]
    _watchers[:] = [watcher] if alone else [*before, watcher]
    try:
        yield
    finally:
        _watchers[:] = before


def tell(what: str, done: float = 0.0) -> None:
    """Report the current task, and which share of it is done."""
    _tell_all(_watchers, what, done)


def _tell_all(watchers: Iterable[Watcher], *report: Any) -> None:
    for watcher in watchers:
        watcher(*report)


def followed(items: Sequence[Item], what: str) -> Iterator[Item]:
    """Yield items one by one, and report which share of them is done."""
    for i, item in enumerate(items):
        tell(what, i / len(items))
        yield item
    if items:
        tell(what, 1.0)


@contextmanager
def part_of(what: str, begin: float, end: float) -> Iterator[None]:
    """Report all tasks inside the block as a part of another one, from share to share.

    Examples
    --------
    >>> from emsco._utils.progress import part_of, tell, watching
    >>> with watching(lambda what, done: print(what, done)), part_of("luck", 0.5, 0.75):
    ...     tell("thresholds", 0.5)
    luck 0.5
    luck 0.625
    """
    watchers = _watchers[:]

    def whole(_part: str, done: float) -> None:
        _tell_all(watchers, what, begin + (end - begin) * done)

    whole("", 0.0)
    with watching(whole, alone=True):
        yield


class Pace:
    """How far a task is, and how many seconds are left of it."""

    def __init__(self, since: float) -> None:
        self._since = since
        self.done = 0.0  # the share that is done
        self._before = 0.0  # the share that was done at `since`
        self._expected = 0.0  # seconds from `since` to the end

    def advance(self, done: float, now: float) -> None:
        """Set the share that is done; only growth counts, because steps take time."""
        if done > self.done:
            self.done = min(float(done), 1.0)
            self._expected = (now - self._since) * (1 - self._before) / (self.done - self._before)

    def restart(self, now: float) -> None:
        """Leave out what is done so far: it says nothing about the speed of the rest."""
        self._since, self._before = now, self.done

    def seconds_left(self, now: float) -> float | None:
        """Estimate the seconds that are left; None while unknown."""
        if self.done == 1:
            return 0.0
        elapsed, gained = now - self._since, self.done - self._before
        if gained < _KNOWN_FROM[0] or elapsed < _KNOWN_FROM[1]:
            return None
        # If a step is overdue, the estimate grows again, instead of "0 left" for minutes.
        overdue = elapsed * (1 - self.done) / gained / 2
        return max(self._expected - elapsed, overdue)


class ProgressLines:
    """Lines of text; they are to be shown at least `every` seconds apart."""

    def __init__(self, stream: TextIO, every: float) -> None:
        self.stream, self.every = stream, every

    def show(self, head: str, done: float, details: Details) -> None:  # noqa: ARG002
        """Write a line."""
        ProgressLines.end(self, head, details)

    def end(self, head: str, details: Details) -> None:
        """Write the last line."""
        width = shutil.get_terminal_size().columns if self.stream.isatty() else None
        self.say(f"{head}: {details(None if width is None else width - len(head) - 2)}")

    def say(self, text: str) -> None:
        """Write a line about something else."""
        self.stream.write(f"{text}\n")
        self.stream.flush()

    def release(self) -> None:
        """Leave the lines where they are."""


class CommandLines(ProgressLines):
    """Lines of a command whose standard error is a file: those of its search, and others.

    Whenever it was silent for a few seconds, a thread writes what it is doing.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream, _LINES_EVERY)
        self._state: tuple[str, Details] | None = None
        self._lock = threading.RLock()
        self._start = self._last = time.monotonic()  # of the command, and of the last line
        self._closed = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def follow(self, head: str, details: Details) -> None:
        """Set what is done now, for the next line."""
        with self._lock:
            self._state = head, details

    def show(self, head: str, done: float, details: Details) -> None:
        """Write a line, unless progress is hidden."""
        self.follow(head, details)
        if not self._closed.is_set():
            super().show(head, done, details)

    def end(self, head: str, details: Details) -> None:
        """Write the last line of a search; the command goes on."""
        super().end(head, details)
        self.follow("emsco: working", lambda _: minutes(time.monotonic() - self._start))

    def say(self, text: str) -> None:
        """Write a line about something else."""
        with self._lock, suppress(OSError, ValueError):  # nobody reads on
            super().say(text)
            self._last = time.monotonic()

    def held(self) -> AbstractContextManager[Any]:
        """Write no line while something else is printed."""
        return self._lock

    def close(self) -> None:
        """Write no more lines."""
        self._closed.set()

    def _watch(self) -> None:
        while not self._closed.wait(_SILENT / 8):
            with self._lock:
                silent = time.monotonic() - self._last >= _SILENT
                if self._state is not None and silent and not self._closed.is_set():
                    super().end(*self._state)


class ProgressBar:
    """A bar below what is printed, removed at the end.

    That of a command appears after a moment, and is drawn by a thread as long as the command
    runs. Otherwise there is no thread, because user code may fork.
    """

    every = _BAR_EVERY

    def __init__(self, console: Any = None) -> None:
        self._console, self._is_of_command = console, console is None
        self._state: tuple[str, float, Details] = "", 0.0, str
        self._live: Any = None
        self._held = 1 if self._is_of_command else 0  # reasons not to draw it
        self._lock = threading.RLock()
        self._timer: threading.Timer | None = None
        if self._is_of_command:
            self._after(_MOMENT, self._appear)

    def _after(self, seconds: float, function: Callable[[], None]) -> None:
        self._timer = threading.Timer(seconds, function)
        self._timer.daemon = True
        self._timer.start()

    def _appear(self) -> None:
        """Begin to draw, if standard error is a terminal that can show a bar."""
        console = _console()
        with self._lock:
            if console is not None:
                self._console = console
                self._held -= 1
                self._draw()

    def show(self, head: str, done: float, details: Details) -> None:
        """Draw the bar anew."""
        self._state = head, done, details
        self._draw()

    def end(self, head: str, details: Details) -> None:
        """Replace the bar of a search by a line."""
        self.release()
        width = self._console.width if self._console else shutil.get_terminal_size().columns
        self.say(f"{head}: {details(width - len(head) - 2)}")

    def say(self, text: str) -> None:
        """Print a line above the bar, which stays."""
        with self.held(), suppress(OSError, ValueError):  # a closed terminal
            print(text, file=self._console.file if self._console else sys.stderr, flush=True)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Remove the bar while something else is printed."""
        with self._lock:
            self._held += 1
            self._remove()
        try:
            yield
        finally:
            with self._lock:
                self._held -= 1
                if self._is_of_command and not self._held:
                    self._after(_MOMENT / 2, self._draw)  # more text may follow
                else:
                    self._draw()

    def release(self) -> None:
        """Remove the bar if the search is over that it is of."""
        if not self._is_of_command:
            self.close()

    def close(self) -> None:
        """Remove the bar for good."""
        with self._lock:
            self._held += 1
            if self._timer is not None:
                self._timer.cancel()
            self._remove()

    def _remove(self) -> None:
        if self._live is not None:
            with suppress(OSError, ValueError):
                self._live.stop()

    def _draw(self) -> None:
        with self._lock, suppress(OSError, ValueError):
            if self._held or not self._state[0]:
                return
            if self._live is None:
                from rich.live import Live

                self._live = Live(
                    console=self._console,
                    get_renderable=self._drawn,
                    auto_refresh=self._is_of_command,
                    refresh_per_second=_A_SECOND,
                    transient=True,
                    # Text printed to a terminal goes above the bar; a file gets what is written.
                    redirect_stdout=sys.stdout is not None and sys.stdout.isatty(),
                )
            self._live.start()
            if not self._is_of_command:
                self._live.refresh()

    def _drawn(self) -> Any:
        from rich.progress_bar import ProgressBar as Bar
        from rich.table import Table
        from rich.text import Text

        head, done, details = self._state
        text = details(self._console.width - len(head) - _BAR_WIDTH - 2)
        drawn = Table.grid(padding=(0, 1))
        drawn.add_row(Text(head), Bar(1.0, done, _BAR_WIDTH), Text(text, no_wrap=True))
        return drawn


def _console() -> Any:
    """Return a console of rich on standard error; None if it cannot show a bar."""
    try:
        from rich.console import Console
    except ImportError:
        return None
    console = Console(stderr=True)
    return console if console.is_interactive else None


def open_display(verbose: int) -> ProgressLines | ProgressBar | None:
    """Return what shows progress: nothing for 0, a bar or a line at times for 1, all lines for 2.

    While a command shows its own progress, its bar or lines are used.
    """
    if verbose < 1 or sys.stderr is None:
        return None
    if _displays and (verbose < 2 or isinstance(_displays[0], ProgressBar)):
        return _displays[0]
    console = _console() if verbose < 2 and sys.stderr.isatty() else None
    if console is not None:
        return ProgressBar(console)
    return ProgressLines(sys.stderr, _LINES_EVERY if verbose < 2 else 0.0)


_displays: list[ProgressBar | CommandLines] = []  # of the command that runs, if it has one


@contextmanager
def command_progress() -> Iterator[None]:
    """Show all that is reported during a block: on a terminal as a bar, after a moment.

    Otherwise there is a line whenever nothing was written for a few seconds, but none if standard
    error is replaced: then it is not the command that owns it.
    """
    if sys.stderr is None or _displays or not (sys.stderr.isatty() or sys.stderr is sys.__stderr__):
        yield
        return
    display = ProgressBar() if sys.stderr.isatty() else CommandLines(sys.stderr)
    task, since, pace = "", 0.0, Pace(0.0)

    def details(width: int | None) -> str:
        now = time.monotonic()
        left = pace.seconds_left(now)
        text = minutes(now - since)
        return f"{text}, about {minutes(left)} left"[:width] if left else text[:width]

    def show(what: str, done: float) -> None:
        nonlocal task, since, pace
        now = time.monotonic()
        name = what.partition(": ")[0]  # what stands after it is how far the task is, in its words
        if name != task:
            task, since, pace = name, now, Pace(now)
        pace.advance(done, now)
        head = f"emsco: {what}{f' {done:.0%}' if done else ''}"
        if isinstance(display, ProgressBar):
            display.show(head, done, details)
        else:
            display.follow(head, details)

    _displays.append(display)
    try:
        show("load libraries", 0.0)
        with watching(show):
            yield
    finally:
        _displays.remove(display)
        display.close()


def held() -> AbstractContextManager[None]:
    """Make room while something else is printed."""
    return _displays[0].held() if _displays else nullcontext()


def hush(*, on_terminal: bool = True) -> None:
    """Show no more progress of this command; with `on_terminal=False`, none in a file."""
    if _displays and (on_terminal or isinstance(_displays[0], CommandLines)):
        _displays[0].close()


def minutes(seconds: float) -> str:
    """Format a time."""
    whole, rest = divmod(round(seconds), 60)
    hours, whole = divmod(whole, 60)
    return f"{hours}:{whole:02}:{rest:02}" if hours else f"{whole}:{rest:02}"
