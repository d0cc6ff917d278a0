"""What a search has fitted so far, in a file: a run that was killed goes on from there.

All randomness is drawn by the search from one seed, and fits are all that takes long. So a
checkpoint holds no state of any search: it holds the seed and the table, and a run that goes on is
the same run from its beginning, which finds its fits done.

A file is a line that says what it is, a line of JSON, the arrays of the table as bare bytes, and
the sha256 of all that: data only. It is written whole or not at all, and the one before it is kept
beside it. Size: two bits a row, a set and a threshold, with three classes and more those of the
label too, 8 bytes a set for every 64 sources, and 9 bytes a row for all sources and for each single
one. A run that goes on has the file in memory until it has done what the file holds.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco._ground.atomic import remove_drafts, write_whole
from emsco.exceptions import ArtifactError, CheckpointError, CheckpointWarning, warn
from emsco.search._outcomes import FitRecord, OutcomeTable
from emsco.search._run import identify

PREVIOUS = ".previous"  # what the name of the checkpoint before the last ends in

_MAGIC = b"emsco checkpoint 1\n"
_SEAL = 32  # bytes of a sha256
_SHARE = 1 / 30  # of the time that writing may take
_SHOWN = 40  # characters up to which a message tells what a part of the run was and is

_LOGGER = logging.getLogger("emsco")


class _File(NamedTuple):
    """A checkpoint as it was read, every byte of it checked."""

    path: str
    head: dict[str, Any]
    arrays: memoryview


class Checkpoint:
    """A run on the disk: read when it begins, written as it goes.

    After a step, the table is written if all writing so far has taken at most 3% of the time. Each
    writing is told to the logger `emsco`, as debugging information.

    Parameters
    ----------
    path : str or path
        The file. The one before it has the same name and ends in `.previous`; where the file itself
        is damaged, that is read instead, with a warning.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from emsco import CascadeSearchCV
    >>> from emsco.datasets import make_costly_classification
    >>> X, y, costs = make_costly_classification(600, n_sources=3, random_state=0)
    >>> with TemporaryDirectory() as folder:
    ...     search = CascadeSearchCV(costs=costs, checkpoint=f"{folder}/run.checkpoint")
    ...     front = search.fit(X, y).front_
    ...     again = search.fit(X, y).front_  # fits nothing but the chosen stages
    >>> list(front) == list(again)
    True
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.path.realpath(path)
        self._is_damaged = False  # what stands at the path now
        remove_drafts(self._path)
        self._found = self._read()
        self._seed: int | None = self._found.head["seed"] if self._found else None
        self._run: dict[str, str] = {}
        self._written = -1  # sets that the file has
        self._began = 0.0  # when the search did
        self._spent = 0.0  # seconds of writing so far

    def seeded(self, random_state: Any) -> Any:
        """Give the source of randomness: where it was left open, the seed that was drawn then.

        What it gives is part of the run, as it is before anything is drawn from it.
        """
        if random_state is None:
            if self._seed is None:
                self._seed = int(np.random.randint(2**31))  # noqa: NPY002  # what None means there
            random_state = self._seed
        self._run["random_state"] = identify(random_state)
        return random_state

    @contextmanager
    def keeping(self, table: OutcomeTable, run: Mapping[str, str]) -> Iterator[int]:
        """Fill a table's past, write the table as it grows, and at the end, whatever ends it.

        `run` tells by name all that the table depends on; a checkpoint of another run is refused.
        Gives the number of sets that the past has.
        """
        self._run |= run
        if self._found is None:
            self._write(table)  # what cannot be written should not be searched for
        else:
            self._refuse_another(self._found)
            past = _past_of(self._found, table)
            table.resume(past)
            self._written = len(past.sets)
            self._found = None
        self._began, self._spent = time.monotonic(), 0.0  # the first step is written at once
        table.watch(lambda _: self._write_if_due(table))
        try:
            yield self._written
        except CheckpointError:
            raise
        except BaseException:
            if len(table) > self._written:
                with suppress(CheckpointError):  # it may not hide what went wrong
                    self._write(table)
            raise
        else:
            if self._is_damaged or len(table) > self._written:
                self._write(table)

    def _write_if_due(self, table: OutcomeTable) -> None:
        allowed = _SHARE * (time.monotonic() - self._began)
        if len(table) > self._written and self._spent <= allowed:
            self._write(table)

    def _write(self, table: OutcomeTable) -> None:
        started = time.monotonic()
        record = table.record()
        head = {
            "run": self._run,
            "seed": self._seed,
            "sets": len(record.sets),
            "kept": list(record.kept),
        }
        parts: list[bytes | memoryview] = [
            _MAGIC,
            json.dumps(head).encode() + b"\n",
            *map(_bytes_of, _arrays_of(record)),
        ]
        # The last one is kept, unless it is damaged: then the one before it is.
        keep = None if self._is_damaged else self._path + PREVIOUS
        try:
            write_whole(self._path, _sealed(parts), keep=keep)
        except ArtifactError as error:
            raise CheckpointError(f"The checkpoint {error}") from error
        self._is_damaged = False
        self._written = len(record.sets)
        seconds = time.monotonic() - started
        self._spent += seconds
        _LOGGER.debug("checkpoint of %d source sets: %.3f seconds", self._written, seconds)

    def _read(self) -> _File | None:
        """Read the last checkpoint, or else the one before; None where there is none."""
        damage = ""
        for path in (self._path, self._path + PREVIOUS):
            try:
                found = _checked(path)
            except FileNotFoundError:
                continue
            except (OSError, CheckpointError) as error:
                why = error.strerror if isinstance(error, OSError) else error
                damage = damage or f"{path} is not a whole checkpoint: {why}"
                self._is_damaged = self._is_damaged or path == self._path
                continue
            if damage:
                warn(f"{damage}; the one before it, {path}, is taken.", CheckpointWarning)
            return found
        if damage:
            raise CheckpointError(f"{damage}; there is no other to take; delete it to begin anew.")
        return None

    def _refuse_another(self, found: _File) -> None:
        """Refuse a checkpoint of other rows, prices, parameters or libraries."""
        before, now = found.head["run"], self._run
        differ = []
        for name in sorted(before.keys() | now.keys()):
            was, is_ = str(before.get(name)), str(now.get(name))
            if was != is_:
                short = max(len(was), len(is_)) <= _SHOWN
                differ.append(f"{name} ({was} then, {is_} now)" if short else name)
        if differ:
            raise CheckpointError(
                f"{found.path} is of another run, which differs in {', '.join(differ)}; give this "
                "one a checkpoint of its own, or delete that."
            )


def is_there(path: str | os.PathLike[str]) -> bool:
    """Say whether there is a checkpoint to go on from."""
    return os.path.exists(path) or os.path.exists(f"{os.fspath(path)}{PREVIOUS}")


def remove(path: str | os.PathLike[str]) -> None:
    """Delete a checkpoint and the one before it."""
    for each in (os.path.realpath(path), os.path.realpath(path) + PREVIOUS):
        with suppress(FileNotFoundError):
            os.unlink(each)


def _arrays_of(record: FitRecord) -> list[NDArray[Any]]:
    """List a table's arrays in the order in which they are written."""
    kept = record.kept.values()
    return [
        record.sets,
        *record.accepted,
        *record.right,
        *record.labels,
        *(confidence for confidence, _ in kept),
        *(label for _, label in kept),
    ]


def _bytes_of(array: NDArray[Any]) -> memoryview:
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return np.ascontiguousarray(little).reshape(-1).view(np.uint8).data


def _sealed(parts: list[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    seal = sha256()
    for part in parts:
        seal.update(part)
        yield part
    yield seal.digest()


def _checked(path: str) -> _File:
    """Read a file and hold it against its seal."""
    with open(path, "rb") as file:
        data = file.read()
    view = memoryview(data)
    if not data.startswith(_MAGIC):
        raise CheckpointError("it does not begin as one does")
    if sha256(view[:-_SEAL]).digest() != data[-_SEAL:]:
        raise CheckpointError("it was cut or changed")
    try:
        end = data.index(b"\n", len(_MAGIC))
        head = json.loads(data[len(_MAGIC) : end])
    except (ValueError, RecursionError):
        head = None
    if not _is_head(head):  # although its seal is right: somebody made it up
        raise CheckpointError("it does not say what it holds")
    return _File(path, head, view[end + 1 : -_SEAL])


def _is_head(head: Any) -> bool:
    """Say whether JSON tells what a checkpoint does: a run, its seed, and what the arrays hold."""
    if not isinstance(head, dict) or head.keys() != {"run", "seed", "sets", "kept"}:
        return False
    run, seed, n_sets, kept = (head[name] for name in ("run", "seed", "sets", "kept"))
    return (
        isinstance(run, dict)
        and all(isinstance(told, str) for told in run.values())
        and (seed is None or (type(seed) is int and 0 <= seed < 2**31))
        and type(n_sets) is int
        and n_sets >= 0
        and isinstance(kept, list)
        and all(type(place) is int and 0 <= place < n_sets for place in kept)
        and len(set(kept)) == len(kept)
    )


def _past_of(found: _File, table: OutcomeTable) -> FitRecord:
    """Read the arrays of a table like this one."""
    n_sets, places, at = found.head["sets"], found.head["kept"], 0
    record = table.record()

    def take(dtype: str, *shape: int) -> NDArray[Any]:
        nonlocal at
        start, at = at, at + prod(shape) * np.dtype(dtype).itemsize
        if at > len(found.arrays):
            raise CheckpointError(f"{found.path} holds less than it says.")
        native = np.dtype(dtype).newbyteorder("=")
        return (
            np.frombuffer(found.arrays[start:at], dtype).reshape(shape).astype(native, copy=False)
        )

    n_thresholds, _, n_words = record.accepted.shape
    sets = take("<u8", n_sets, record.sets.shape[1])
    accepted = take("<u8", n_thresholds, n_sets, n_words)
    right = take("<u8", n_thresholds, n_sets, n_words)
    labels = take("<u8", len(record.labels), n_sets, n_words)
    confidence = take("<f8", len(places), table.n_rows)
    label = take("<u1", len(places), table.n_rows)
    if at != len(found.arrays):
        raise CheckpointError(f"{found.path} holds more than it says.")
    kept = {place: (confidence[i], label[i]) for i, place in enumerate(places)}
    past = FitRecord(sets, accepted, right, labels, kept)
    if not table.could_hold(past):
        raise CheckpointError(
            f"{found.path} holds outcomes that contradict one another or the rows; delete it to "
            "begin anew."
        )
    return past
