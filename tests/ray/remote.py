"""Functions and data that tests send to workers."""

from __future__ import annotations

import os
import time
from pathlib import Path

import ray
from fsspec.implementations.local import LocalFileSystem

from emsco.exceptions import ValuesError


class Elsewhere(LocalFileSystem):
    """Files of this machine, by a scheme that fsspec alone knows."""

    protocol = "elsewhere"

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.removeprefix("elsewhere://"))


def add(chunk, shared):
    return chunk + shared


def first_of(chunk, shared):
    return chunk, shared.data[0]


def task_of(_chunk, _shared):
    return ray.get_runtime_context().get_task_id()


def slow_task_of(_chunk, _shared):
    time.sleep(0.6)
    return ray.get_runtime_context().get_task_id()


def span_of(_chunk, _shared):
    started = time.time()
    time.sleep(0.2)
    return started, time.time()


def niceness(_chunk, _shared):
    return os.nice(0), os.environ["OMP_NUM_THREADS"]


def refuse(chunk, _shared):
    raise ValuesError(f"Row {chunk} cannot be judged.", row=chunk, column="age")


class UnsendableError(Exception):
    """Pickle cannot make it again: it would be given one argument."""

    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


def refuse_in_vain(_chunk, _shared):
    raise UnsendableError("this", "that")


def die_once(chunk, shared):
    """Kill the worker the first time, and leave a trace of every attempt."""
    trace = Path(shared) / str(chunk)
    attempts = trace.read_text() if trace.exists() else ""
    trace.write_text(attempts + "x")
    if chunk == 3 and not attempts:
        os._exit(1)
    return chunk**2


def die(_chunk, _shared):
    os._exit(1)


class Counted:
    """Shared data that count how often they are pickled."""

    def __init__(self, data):
        self.data = data
        self.pickled = 0

    def __reduce__(self):
        self.pickled += 1
        return Counted, (self.data,)
