"""What is told of a search is right, printed rarely, and leaves a clean terminal."""

from __future__ import annotations

import io
import re
import sys
import time

import numpy as np
import pytest
from problems import problem_of

from emsco import CascadeSearchCV
from emsco._utils import progress as progress_module
from emsco._utils.frozen_mapping import FrozenMapping
from emsco._utils.progress import (
    ProgressBar,
    command_progress,
    followed,
    held,
    hush,
    part_of,
    tell,
    watching,
)
from emsco.exceptions import ValuesError
from emsco.search._progress import Progress
from emsco.search._workload import WorkDone, Workload, seconds_left
from emsco.search.strategies.emsco import EMSCO
from emsco.search.strategies.hybrid import Hybrid
from emsco.search.strategies.local_search import LocalSearch

HIDDEN, SHOWN = "\x1b[?25l", "\x1b[?25h"  # the cursor


class Clock:
    """A clock that goes on when told to."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    """What was written to something that says that it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def clock():
    return Clock()


def terminal_of(monkeypatch):
    """Make standard error a terminal; within a test, because pytest sets it anew for each."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


@pytest.fixture
def without_rich(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)


def state(**known):
    return {
        "phase": "search",
        "source_sets": 8191,
        "designs": 1_200_000,
        "front": 57,
        "hypervolume": 0.8123,
        "done": 0.42,
        "seconds": 12.0,
        "seconds_left": 17.0,
        **known,
    }


def visible(written):
    """Give lines without what colours them and moves the cursor."""
    return re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", written))


def test_items_that_are_followed_tell_which_share_of_them_is_done():
    heard = []
    with watching(lambda what, done: heard.append((what, done))):
        assert sum(followed([1, 2], "add")) == 3
    assert heard == [("add", 0.0), ("add", 0.5), ("add", 1.0)]


def test_every_event_is_told_with_its_phase(clock):
    states = []
    with Progress(states.append, total_sets=8, clock=clock) as progress:
        clock.now += 1
        progress.fitted(2)
        clock.now += 1
        progress.searched({"source_sets": 5, "designs": 30, "front": 4, "hypervolume": 0.5})
        progress.fitted(6)
        progress.searched({"done": 0.75})
        progress.phase("thresholds")
        progress.searched({"done": 0.5})
        progress.phase("refit")
    told = [
        {"phase": "fit", "source_sets": 2, "designs": 0, "front": 0, "hypervolume": 0.0}
        | {"done": 0.25, "seconds": 1.0, "seconds_left": 3.0},
        {"phase": "search", "source_sets": 5, "designs": 30, "front": 4, "hypervolume": 0.5}
        | {"done": 0.0, "seconds": 2.0, "seconds_left": None},
    ]
    assert states[:2] == told
    rest = [(state["phase"], state["source_sets"], state["done"]) for state in states[2:]]
    assert rest == [
        ("search", 6, 0.0),
        ("search", 6, 0.75),
        ("thresholds", 6, 0.0),
        ("thresholds", 6, 0.5),
        ("refit", 6, 0.0),
        ("done", 6, 1.0),
    ]
    assert all((state["designs"], state["front"]) == (30, 4) for state in states[2:])


def test_the_share_of_fits_is_told_only_where_their_number_is_known():
    states = []
    with Progress(states.append) as progress:
        progress.fitted(5)
    with Progress(states.append, total_sets=4) as progress:
        progress.fitted(np.int64(5))
    assert [state["done"] for state in states] == [0.0, 1.0, 1.0, 1.0]


def test_designs_of_earlier_thresholds_are_added():
    low, high = FrozenMapping({"a": 0.6}), FrozenMapping({"a": 0.9})
    counts = [(low, 10), (low, 30), (high, 5), (high, 40), (0.5, 50), (0.5, 7)]
    states = []
    with Progress(states.append) as progress:
        for threshold, designs in counts:
            progress.searched({"threshold": threshold, "designs": designs})
        progress.searched({"front": 1})
    # The last count falls at the same threshold: another search has begun there.
    assert [state["designs"] for state in states] == [10, 30, 35, 70, 120, 127, 127, 127]


def test_a_real_search_is_told_from_its_history():
    states, problem = [], problem_of(5, max_stages=3, thresholds=(0.65, 0.8))
    search = Hybrid(EMSCO(population=20, generations=3), LocalSearch(evaluations=300))
    with Progress(states.append) as progress:
        result = search.run(problem, np.random.default_rng(0), callback=progress.searched)
    assert len(states) == len(result.history) + 1
    assert states[-1]["source_sets"] == len(problem.table)
    designs = [state["designs"] for state in states]
    assert designs == sorted(designs)


def test_what_is_left_is_unknown_at_first_and_then_told_smoothly(clock):
    """Steps of random length make no jumps, though the rest is told between them too."""
    left, rng = [], np.random.default_rng(0)
    with Progress(lambda state: left.append(state["seconds_left"]), clock=clock) as progress:
        progress.searched({"done": 0.0})
        for done in np.arange(1, 100) / 100:
            clock.now += rng.uniform(0.5, 1.5)
            progress.searched({"done": done})
            clock.now += 0.1
            progress.fitted(1)
    assert left[0] is None
    known = np.array(left[21:-1])
    assert np.abs(np.diff(known)).max() < 6
    assert np.abs(known - np.linspace(99, 0, len(known))).max() < 15
    assert left[-1] == 0


def test_what_is_left_is_unknown_before_half_a_second(clock):
    left = []
    with Progress(lambda state: left.append(state["seconds_left"]), clock=clock) as progress:
        for done in (0.1, 0.2, 0.3):
            clock.now += 0.2
            progress.searched({"done": done})
    assert left[:2] == [None, None]
    assert left[2] == pytest.approx(1.4)


def test_what_a_checkpoint_had_says_nothing_of_what_is_left(clock):
    told = []
    with Progress(told.append, total_sets=100, clock=clock) as progress:
        progress.goes_on(60)
        progress.fitted(60)
        assert told[-1]["done"] == 0.6
        clock.now += 10
        progress.fitted(70)
        assert told[-1]["seconds_left"] == pytest.approx(30)
        clock.now += 10
        progress.fitted(80)
        assert told[-1]["seconds_left"] == pytest.approx(20)


def test_a_search_that_stalls_is_never_told_to_be_about_to_end(clock):
    left = []
    with Progress(lambda state: left.append(state["seconds_left"]), clock=clock) as progress:
        clock.now += 10
        progress.searched({"done": 0.5})
        for _ in range(50):
            clock.now += 1
            progress.fitted(1)
    assert min(left[:-1]) > 5
    assert left[-2] == 30


def test_the_time_of_a_search_runs_from_the_last_fit(clock):
    states = []
    with Progress(states.append, total_sets=1, clock=clock) as progress:
        clock.now += 5
        progress.fitted(1)
        clock.now += 10
        progress.searched({"done": 0.5})
    assert [state["seconds_left"] for state in states] == [0, 10, 0]


def test_nothing_is_printed_by_default(capfd):
    with Progress(print) as progress:
        progress.fitted(1)
    assert capfd.readouterr().err == ""
    with Progress() as progress:
        progress.fitted(1)
    assert capfd.readouterr() == ("", "")


def test_lines_come_every_two_seconds_and_at_both_ends(clock, capsys):
    told = []
    with Progress(told.append, verbose=1, clock=clock) as progress:
        for i in range(1281):
            progress.searched({"designs": 3000 * i, "front": 7, "done": i / 1280})
            clock.now += 1 / 256
    assert len(told) == 1282
    assert capsys.readouterr().err.splitlines() == [
        "emsco: search: 0 source sets, 0:00",
        "emsco: search 40%: 0 source sets, 1,536,000 designs, front 7, 0:02, about 0:03 left",
        "emsco: search 80%: 0 source sets, 3,072,000 designs, front 7, 0:04, about 0:01 left",
        "emsco: done: 0 source sets, 3,840,000 designs, front 7, 0:05",
    ]


def test_a_line_an_event_on_request(clock, monkeypatch):
    terminal = terminal_of(monkeypatch)
    with Progress(verbose=2, total_sets=4, clock=clock) as progress:
        for i in range(1, 5):
            progress.fitted(i)
        clock.now += 3700
    assert terminal.getvalue().splitlines() == [
        "emsco: fit 25%: 1 source sets, 0:00",
        "emsco: fit 50%: 2 source sets, 0:00",
        "emsco: fit 75%: 3 source sets, 0:00",
        "emsco: fit 100%: 4 source sets, 0:00",
        "emsco: done: 4 source sets, 1:01:40",
    ]


def test_a_search_says_at_once_that_it_reads_and_that_it_fits(clock, capsys):
    states = []
    with Progress(states.append, verbose=1, clock=clock) as progress:
        progress.phase("read")
        clock.now += 1
        progress.begin_fits(4)
        clock.now += 1
        progress.fitted(2)
    assert capsys.readouterr().err.splitlines() == [
        "emsco: read: 0 source sets, 0:00",
        "emsco: fit: 0 source sets, 0:01",
        "emsco: done: 2 source sets, 0:02",
    ]
    assert [(state["phase"], state["done"]) for state in states] == [
        ("read", 0.0),
        ("fit", 0.0),
        ("fit", 0.5),
        ("done", 1.0),
    ]


def test_rows_are_read_under_the_eyes_of_the_callback():
    states = []
    X = np.random.default_rng(0).normal(size=(600, 2))
    search = CascadeSearchCV(callback=states.append, random_state=0)
    search.fit(X, X[:, 0] > 0)
    assert [state["phase"] for state in states[:2]] == ["read", "fit"]
    with pytest.raises(ValuesError):
        search.fit(np.full((600, 2), np.inf), X[:, 0] > 0)
    assert states[-1]["phase"] == "read"


@pytest.mark.usefixtures("without_rich")
def test_without_rich_there_are_lines_that_fit_the_terminal(clock, monkeypatch):
    terminal = terminal_of(monkeypatch)
    with Progress(verbose=1, clock=clock) as progress:
        clock.now += 12
        progress.searched({**state(), "threshold": 0.9})
    lines = terminal.getvalue().splitlines()
    assert lines == [
        "emsco: search 42%: 1,200,000 designs, front 57, 0:12, about 0:17 left",
        "emsco: done: 8,191 source sets, 1,200,000 designs, front 57, 0:12",
    ]


def test_a_dumb_terminal_has_lines(monkeypatch):
    pytest.importorskip("rich")
    terminal = terminal_of(monkeypatch)
    monkeypatch.setenv("TERM", "dumb")
    with Progress(verbose=1) as progress:
        progress.fitted(3)
    assert terminal.getvalue().startswith("emsco: fit: 3 source sets, 0:00\n")


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_a_bar_fits_the_terminal(width, clock):
    console = pytest.importorskip("rich.console")
    file = io.StringIO()
    with Progress(clock=clock) as progress:
        terminal = console.Console(force_terminal=True, file=file, width=width)
        progress._display = ProgressBar(terminal)
        for phase in ("fit", "search", "thresholds"):
            progress.phase(phase)
            clock.now += 12
            progress.searched(state(designs=254_152_083))
    lines = visible(file.getvalue())
    assert max(map(len, lines)) <= width
    assert any(line.startswith("emsco: thresholds 42% ━") for line in lines)
    assert ("hypervolume 0.812" in file.getvalue()) == (width >= 100)


def test_a_bar_is_shown_ten_times_a_second_and_goes_when_the_search_ends(clock, monkeypatch):
    pytest.importorskip("rich")
    terminal = terminal_of(monkeypatch)
    with Progress(verbose=1, clock=clock) as progress:
        for i in range(1001):
            progress.searched({"designs": 1000 * i, "done": i / 1000})
            clock.now += 0.001
        progress.phase("refit")
        sys.stderr.write("a warning, say\n")
    assert sys.stderr is terminal
    written = terminal.getvalue()
    bars = [line for line in visible(written) if "━" in line]
    assert 10 <= len(bars) <= 15
    assert any(line.startswith("emsco: refit ━") for line in bars)
    assert "a warning, say" in visible(written)
    # The last thing drawn is erased, the cursor is back, and one line stays.
    end = written[written.rindex("━") :]
    assert "\x1b[2K" in end
    assert written.rindex(SHOWN) > written.rindex(HIDDEN)
    assert visible(end)[-2:] == ["emsco: done: 0 source sets, 1,000,000 designs, front 0, 0:01", ""]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_what_a_callback_raises_stops_the_search_and_closes_the_bar(error, monkeypatch):
    pytest.importorskip("rich")
    terminal = terminal_of(monkeypatch)

    def stop(told):
        calls.append(told["phase"])
        raise error("enough")

    calls, problem = [], problem_of(5, max_stages=3)
    with pytest.raises(error, match="enough"), Progress(stop, verbose=1) as progress:
        Hybrid().run(problem, np.random.default_rng(0), callback=progress.searched)
    assert calls == ["search"]
    assert sys.stderr is terminal
    written = terminal.getvalue()
    assert written.count(HIDDEN) == written.count(SHOWN) == 1
    assert written.endswith("\x1b[1A\x1b[2K")
    assert "done" not in written


def test_what_a_callback_raises_at_the_very_end_goes_through():
    def stop(told):
        if told["phase"] == "done":
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"), Progress(stop) as progress:
        progress.fitted(1)


def test_a_callback_may_keep_and_change_what_it_is_told(capsys):
    states = []

    def change(told):
        states.append(told)
        told.clear()

    with Progress(change, verbose=2, total_sets=2) as progress:
        progress.fitted(1)
        progress.fitted(2)
    assert len({id(told) for told in states}) == 3
    assert "fit 100%: 2 source sets" in capsys.readouterr().err


def test_a_command_shows_what_it_does_after_a_moment_and_makes_room_for_text(monkeypatch):
    pytest.importorskip("rich")
    terminal = terminal_of(monkeypatch)
    with command_progress():
        with Progress(verbose=1) as progress:
            time.sleep(2)
            progress.searched({"designs": 10, "done": 0.5})
            time.sleep(0.5)
        with held():
            sys.stderr.write("a note, say\n")
        tell("write", 0.25)
        time.sleep(0.5)
        hush()
        tell("afterwards")
        time.sleep(0.5)
    assert sys.stderr is terminal
    written = terminal.getvalue()
    lines = visible(written)
    assert any(line.startswith("emsco: search 50% ━") for line in lines)
    assert "emsco: done: 0 source sets, 10 designs, front 0, 0:02" in lines or "0:03" in written
    assert "a note, say" in lines
    assert any(line.startswith("emsco: write 25% ━") for line in lines)
    assert "afterwards" not in written
    assert written.endswith("\x1b[2K")


def test_a_command_in_a_file_writes_a_line_whenever_it_was_silent_for_long(monkeypatch):
    """And none of what is over in a moment, none while text is printed, and none when hushed."""
    file = io.StringIO()
    monkeypatch.setattr(sys, "stderr", file)
    monkeypatch.setattr(sys, "__stderr__", file)
    monkeypatch.setattr(progress_module, "_SILENT", 0.4)
    with command_progress():
        tell("read", 0.5)
        time.sleep(0.1)
        with Progress(verbose=1) as progress:
            progress.searched({"designs": 10, "done": 0.5})
            time.sleep(1.2)
        tell("write", 0.25)
        time.sleep(1.2)
        with held():
            before = file.getvalue()
            time.sleep(0.8)
            assert file.getvalue() == before
        hush()
        tell("afterwards")
        time.sleep(0.8)
    lines = file.getvalue().splitlines()
    heads = [line.partition(":")[2].partition(":")[0].strip() for line in lines]
    assert heads[:3] == ["search 50%", "search 50%", "search 50%"]
    assert heads.count("write 25%") >= 2
    assert set(heads) == {"search 50%", "done", "write 25%"}


def test_a_command_whose_libraries_load_for_long_says_so_in_a_file(monkeypatch):
    file = io.StringIO()
    monkeypatch.setattr(sys, "stderr", file)
    monkeypatch.setattr(sys, "__stderr__", file)
    monkeypatch.setattr(progress_module, "_SILENT", 0.4)
    with command_progress():
        time.sleep(0.1)
        assert file.getvalue() == ""
        time.sleep(0.6)
    assert file.getvalue().startswith("emsco: load libraries: 0:0")


def test_a_command_called_by_a_program_writes_no_lines_of_its_own(monkeypatch):
    """Where standard error is replaced, what is written there is that program's."""
    file = io.StringIO()
    monkeypatch.setattr(sys, "stderr", file)
    monkeypatch.setattr(progress_module, "_SILENT", 0.1)
    with command_progress():
        tell("read", 0.5)
        time.sleep(0.5)
    assert file.getvalue() == ""


def test_parts_of_a_task_are_reported_as_its_shares_and_to_nobody_else():
    whole, hidden = [], []
    with watching(lambda *report: hidden.append(report)):
        inner = watching(lambda *report: whole.append(report), alone=True)
        with inner, part_of("luck", 0.5, 1.0), part_of("inner", 0.5, 1.0):
            tell("thresholds", 0.5)
        tell("afterwards")
    assert whole == [("luck", 0.5), ("luck", 0.75), ("luck", 0.875)]
    assert hidden == [("afterwards", 0.0)]


def test_what_is_left_is_of_all_phases_by_the_speed_of_what_is_done(clock):
    """Fits take twice as long as expected: then so will the rest, until it is known better."""
    work, left, took = Workload(100, 500.0, 100.0, 50.0, 50.0), [], [0.0]
    with Progress(lambda s: left.append(s["seconds_left"]), clock=clock) as progress:
        progress.begin_fits(100, work, lambda: took[0])
        assert left[-1] == 700  # as expected
        clock.now, took[0] = clock.now + 500, 500.0
        progress.fitted(50)
        assert left[-1] == pytest.approx(500 + 2 * 200, rel=0.03)
        clock.now, took[0] = clock.now + 600, 1000.0
        progress.searched({"source_sets": 100, "done": 0.5})
        slower = 1110 / 560
        assert left[-1] == pytest.approx(100 + slower * 100)
        progress.phase("thresholds")
        assert left[-1] == pytest.approx(slower * 100)
        clock.now += 100
        progress.searched({"done": 0.5})
        assert left[-1] == pytest.approx(100 + slower * 50)
        progress.phase("luck")
        assert left[-1] == pytest.approx(slower * 50)
        progress.phase("refit")
        assert left[-1] is None


def test_what_the_first_fits_take_says_little_about_the_rest(clock):
    """Of 100 fits of 0.1 s each the first takes 3 s, because workers start."""
    work, left, took = Workload(100, 10.0, 10.0), [], [3.0]
    with Progress(lambda s: left.append(s["seconds_left"]), clock=clock) as progress:
        progress.begin_fits(100, work, lambda: took[0])
        clock.now += 3
        progress.fitted(1)
        assert 18 < left[-1] < 60  # and not 300
        clock.now, took[0] = clock.now + 1, 4.0
        progress.fitted(11)
        assert left[-1] == pytest.approx(9 + 10, rel=0.2)  # those that followed tell more


def test_a_search_that_ends_before_it_used_its_fits_is_expected_to():
    work = Workload(1000, 100.0, 10.0)
    nearly = WorkDone(n_sets=100, fit=10.0, share=0.9, search=9.0)
    assert seconds_left(work, nearly, "search", None) == pytest.approx(10 / 9 + 1)
