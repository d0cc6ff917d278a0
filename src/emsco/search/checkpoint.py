"""The fits of a search so far, in a file, so that a run that was killed can be resumed.

A search draws all randomness from one seed, and only fits take long. So a checkpoint does not hold
the state of a search, but the seed and the table: a resumed run repeats the run from its start, and
finds these fits done.

A file is data only: a line that identifies the format, a line of JSON, the arrays of the table as
raw bytes, and the sha256 of all that. It is written whole or not at all, and the previous one is
kept. Size: two bits per row, set and threshold (with three or more classes those of the label too),
8 bytes per set for every 64 sources, and 9 bytes per row for all sources and for each single one. A
resumed run holds the file in memory until it has used all of it.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import is_dataclass
from hashlib import sha256
from math import prod
from platform import python_version
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco._utils.atomic_write import remove_drafts, write_whole
from emsco.cascade.fingerprint import Pickled, digest_of
from emsco.exceptions import (
    ArtifactError,
    CertificateError,
    CheckpointError,
    CheckpointWarning,
    warn,
)
from emsco.learners.protocol import Fold
from emsco.learners.training import Training
from emsco.rows.row_hashes import hash_exactly
from emsco.search._outcome_table import FitRecord, OutcomeTable
from emsco.search._problem import Problem, Search

PREVIOUS = ".previous"  # suffix of the previous checkpoint

_MAGIC = b"emsco checkpoint 1\n"
_SEAL = 32  # bytes of a sha256
_SHARE = 1 / 30  # of the time may go into writing
_MAX_LENGTH = 40  # longest values that a message shows

_LIBRARIES = ("emsco", "numpy", "scipy", "sklearn")  # that fit the default classifier

_LOGGER = logging.getLogger("emsco")


class _File(NamedTuple):
    """A checkpoint that was read and checked."""

    path: str
    head: dict[str, Any]
    arrays: memoryview


class Checkpoint:
    """A run on the disk: read at the start, written as it proceeds.

    After a step, the table is written if writing has taken at most 3% of the time so far. The
    logger `emsco` gets a debug message each time.
    The previous file has the same name with the suffix `.previous`; it is read, with a warning, if
    the last one is damaged.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.path.realpath(path)
        self._is_damaged = False  # the file at the path
        remove_drafts(self._path)
        self._found = self._read()
        self._seed: int | None = self._found.head["seed"] if self._found else None
        self._run: dict[str, str] = {}
        self._written = -1  # sets in the file
        self._began = 0.0  # start of the search
        self._write_seconds = 0.0  # so far

    def of(self, learner: str) -> Checkpoint:
        """Return the checkpoint of another learner of the same run, in a file of its own."""
        other = Checkpoint(_path_of(self._path, learner))
        other._seed, other._run = self._seed, dict(self._run)
        return other

    def seeded(self, random_state: Any) -> Any:
        """Return the source of randomness; for None, the seed of the checkpoint or a new one.

        Its state before anything is drawn from it identifies the run.
        """
        if random_state is None:
            if self._seed is None:
                self._seed = int(np.random.randint(2**31))  # noqa: NPY002  # None means this
            random_state = self._seed
        self._run["random_state"] = _identify(random_state)
        return random_state

    @contextmanager
    def keeping(self, table: OutcomeTable, run: Mapping[str, str]) -> Iterator[int]:
        """Restore a table, and write it as it grows and at the end, even after an error.

        `run` names everything that the table depends on; a checkpoint of another run is refused.
        Yields the number of restored sets.
        """
        self._run |= run
        if self._found is None:
            self._write(table)  # fail before the search if it cannot be written
        else:
            self._refuse_another(self._found)
            past = _past_of(self._found, table)
            table.resume(past)
            self._written = len(past.sets)
            self._found = None
        self._began, self._write_seconds = time.monotonic(), 0.0  # so the first step is written

        def write_if_due(n_sets: int) -> None:
            allowed = _SHARE * (time.monotonic() - self._began)
            if n_sets > self._written and self._write_seconds <= allowed:
                self._write(table)

        table.watch(write_if_due)
        try:
            yield self._written
        except CheckpointError:
            raise
        except BaseException:
            if len(table) > self._written:
                with suppress(CheckpointError):  # it must not hide the original error
                    self._write(table)
            raise
        else:
            if self._is_damaged or len(table) > self._written:
                self._write(table)

    def _write(self, table: OutcomeTable) -> None:
        started = time.monotonic()
        record = table.record()
        head = {
            "run": self._run,
            "seed": self._seed,
            "sets": len(record.sets),
            "kept": list(record.outcomes),
        }
        parts: list[bytes | memoryview] = [
            _MAGIC,
            json.dumps(head).encode() + b"\n",
            *map(_bytes_of, _arrays_of(record)),
        ]
        # Keep the last one as previous, unless it is damaged: then the previous one stays.
        keep = None if self._is_damaged else self._path + PREVIOUS
        seal = sha256()
        for part in parts:
            seal.update(part)
        try:
            write_whole(self._path, [*parts, seal.digest()], keep=keep)
        except ArtifactError as error:
            raise CheckpointError(f"The checkpoint {error}") from error
        self._is_damaged = False
        self._written = len(record.sets)
        seconds = time.monotonic() - started
        self._write_seconds += seconds
        _LOGGER.debug("checkpoint of %d source sets: %.3f seconds", self._written, seconds)

    def _read(self) -> _File | None:
        """Read the last checkpoint, or else the previous one; None if there is none."""
        damage = ""
        for path in (self._path, self._path + PREVIOUS):
            try:
                found = _checked(path)
            except FileNotFoundError:
                continue
            except (OSError, CheckpointError) as error:
                why = error.strerror if isinstance(error, OSError) else error
                damage = damage or f"{path} is not a valid checkpoint: {why}"
                self._is_damaged = self._is_damaged or path == self._path
                continue
            if damage:
                warn(f"{damage}; the previous one, {path}, is used.", CheckpointWarning)
            return found
        if damage:
            raise CheckpointError(f"{damage}; there is no previous one. Delete it to start again.")
        return None

    def _refuse_another(self, found: _File) -> None:
        """Refuse a checkpoint of other rows, prices, parameters or libraries."""
        before, now = found.head["run"], self._run
        differ = []
        for name in sorted(before.keys() | now.keys()):
            was, is_ = str(before.get(name)), str(now.get(name))
            if was != is_:
                short = max(len(was), len(is_)) <= _MAX_LENGTH
                differ.append(f"{name} ({was} then, {is_} now)" if short else name)
        if differ:
            raise CheckpointError(
                f"{found.path} belongs to another run, which differs in {', '.join(differ)}; use "
                "another file, or delete this one."
            )


def describe_run(
    training: Training,
    answers: NDArray[Any] | None,
    folds: Sequence[Fold],
    problem: Problem,
    search: Search,
) -> dict[str, str]:
    """Describe a run by name and value: short values as text, others by a digest.

    `answers` are those of a final model, which is identified by them alone. Workers and engines are
    not part of a run, nor is what comes after a search: `select`, `refit` and `guard` may differ.
    """
    columns, estimator = training.columns, training.learner.estimator
    dtypes = [repr(getattr(column, "dtype", None)) for column in columns.values()]
    libraries = {*_LIBRARIES, type(estimator).__module__.partition(".")[0]}
    versions = {name: getattr(sys.modules.get(name), "__version__", None) for name in libraries}
    rejected, rule = problem.max_rejected, training.rule
    return {
        "rows": digest_of([list(columns), dtypes, hash_exactly(columns)]),
        "labels": _digest_classes(training.labels),
        "final model": _identify(None) if answers is None else _digest_classes(answers),
        "fit parameters": _identify(training.params or None),
        "folds": digest_of([[fold.train, fold.test] for fold in folds]),
        "costs": digest_of(problem.costs),
        "estimator": _identify(estimator),
        "container": training.container,
        "search": _identify(search),
        "threshold": digest_of(problem.thresholds),
        **({} if rule.is_equal else {"label weights": digest_of(rule)}),
        "max_stages": _identify(problem.max_stages),
        "allow_unused": _identify(problem.allow_unused),
        "max_missed": digest_of(problem.max_missed),
        **({"max_rejected": digest_of(rejected)} if rejected else {}),
        "python": python_version(),
        **{name: version for name, version in versions.items() if version is not None},
    }


def _digest_classes(labels: NDArray[Any]) -> str:
    """Digest labels: the distinct ones, and the code of each row."""
    return digest_of(np.unique(labels, return_inverse=True))


def _identify(value: Any) -> str:
    """Return a number, a text or None as text, and a digest of any other object."""
    if value is None or isinstance(value, bool | int | float | str | np.generic):
        return str(value)
    try:
        return digest_of(value if is_dataclass(value) else Pickled(value))
    except CertificateError as error:
        raise CheckpointError(
            f"{type(value).__name__} cannot be pickled, so that a checkpoint could not tell it "
            "from another; search without one."
        ) from error


def is_there(path: str | os.PathLike[str]) -> bool:
    """Return whether there is a checkpoint to resume from."""
    return os.path.exists(path) or os.path.exists(f"{os.fspath(path)}{PREVIOUS}")


def remove(path: str | os.PathLike[str], learners: Iterable[str] = ()) -> None:
    """Delete a checkpoint and the previous one, and those of several learners."""
    whole = os.path.realpath(path)
    for own in (whole, *(_path_of(whole, learner) for learner in learners)):
        for each in (own, own + PREVIOUS):
            with suppress(FileNotFoundError):
                os.unlink(each)


def _path_of(path: str, learner: str) -> str:
    return f"{path}.{learner}"


def _arrays_of(record: FitRecord) -> list[NDArray[Any]]:
    """List a table's arrays in the order of the file."""
    outcomes = record.outcomes.values()
    return [
        record.sets,
        *record.accepted,
        *record.right,
        *record.labels,
        *(confidence for confidence, _ in outcomes),
        *(label for _, label in outcomes),
    ]


def _bytes_of(array: NDArray[Any]) -> memoryview:
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return np.ascontiguousarray(little).reshape(-1).view(np.uint8).data


def _checked(path: str) -> _File:
    """Read a file and check it against its sha256."""
    with open(path, "rb") as file:
        data = file.read()
    view = memoryview(data)
    if not data.startswith(_MAGIC):
        raise CheckpointError("it does not start as a checkpoint does")
    if sha256(view[:-_SEAL]).digest() != data[-_SEAL:]:
        raise CheckpointError("it is incomplete or was changed")
    try:
        end = data.index(b"\n", len(_MAGIC))
        head = json.loads(data[len(_MAGIC) : end])
    except (ValueError, RecursionError):
        head = None
    if not _is_head(head):  # although its sha256 is right: a forgery
        raise CheckpointError("its header is not valid")
    return _File(path, head, view[end + 1 : -_SEAL])


def _is_head(head: Any) -> bool:
    """Return whether JSON is a valid header: the run, its seed, and what the arrays hold."""
    if not isinstance(head, dict) or head.keys() != {"run", "seed", "sets", "kept"}:
        return False
    run, seed, n_sets, places = (head[name] for name in ("run", "seed", "sets", "kept"))
    return (
        isinstance(run, dict)
        and all(isinstance(value, str) for value in run.values())
        and (seed is None or (type(seed) is int and 0 <= seed < 2**31))
        and type(n_sets) is int
        and n_sets >= 0
        and isinstance(places, list)
        and all(type(place) is int and 0 <= place < n_sets for place in places)
        and len(set(places)) == len(places)
    )


def _past_of(found: _File, table: OutcomeTable) -> FitRecord:
    """Read the arrays of a table that has the shape of this one."""
    n_sets, places, at = found.head["sets"], found.head["kept"], 0
    record = table.record()

    def take(dtype: str, *shape: int) -> NDArray[Any]:
        nonlocal at
        start, at = at, at + prod(shape) * np.dtype(dtype).itemsize
        if at > len(found.arrays):
            raise CheckpointError(f"{found.path} is shorter than its header states.")
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
        raise CheckpointError(f"{found.path} is longer than its header states.")
    outcomes = {place: (confidence[i], label[i]) for i, place in enumerate(places)}
    past = FitRecord(sets, accepted, right, labels, outcomes)
    if not table.could_hold(past):
        raise CheckpointError(
            f"{found.path} holds outcomes that contradict each other or the rows; delete it to "
            "start again."
        )
    return past
