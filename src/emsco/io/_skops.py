"""Estimators that are not emsco's own, as skops files that are checked before skops reads them.

skops writes a zip of a schema and arrays. It is written again here, in the form of `_zip`: without
memory addresses, and uncompressed, so that it cannot grow when it is read. It is refused if its
schema is too large or too deep, or does not match its arrays. Then skops lists the types it holds,
and builds objects only of types that it trusts or that the user names.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from emsco.exceptions import ArtifactError, require
from emsco.io import _json
from emsco.io._zip import (
    Member,
    NestedFile,
    SeekableFile,
    open_zip,
    pack,
    read_member,
    read_parts,
    read_start,
)

_SCHEMA = "schema.json"
_OWN = ["emsco.learners.boosted_trees.EmptyAsZero", "emsco.learners.boosted_trees.TextColumns"]
_MOST_BYTES = 12 * 2**20  # a forest's schema is long
_MOST_VALUES = 500_000
_MOST_OBJECTS = 60_000
_MOST_HEAVY = 10_000
_LIGHT = ["TypeNode", "JsonNode", "NdArrayNode", "ListNode", "DictNode", "TupleNode"]
_MOST_DEPTH = 200
_MOST_MEMBERS = 50_000
_LONGEST_HEADER = 2**16
_READ_AGAIN = 2**20  # bytes of members that several parts of an object may share


def to_skops(estimator: Any, what: str) -> bytes:
    """Return the bytes of an estimator; `what` names it in error messages."""
    skops = require("skops.io", "skops")
    try:
        payload = b"".join(pack(_renamed(skops.dumps(estimator))))
        _checked(io.BytesIO(payload))
    except Exception as error:  # skops passes on what parts of the estimator raise
        raise ArtifactError(
            f"{what}, a {type(estimator).__name__}, cannot be saved by skops: {error}"
        ) from error
    return payload


def untrusted_types(file: SeekableFile) -> list[str]:
    """List the types that skops loads only if the user trusts them; imports nothing."""
    skops = require("skops.io", "skops")
    members = _checked(file)
    # The schema is enough to list types; arrays would only take memory.
    bare = {member.name: b"" for member in members} | {_SCHEMA: read_member(file, members[0])}
    try:
        found: list[str] = skops.get_untrusted_types(data=b"".join(pack(bare)))
    except Exception as error:  # a forged schema may cause anything
        raise ArtifactError(f"skops cannot read one of its stages: {error}") from error
    return [name for name in found if name not in _OWN]


def from_skops(payload: bytes, trusted: Iterable[str]) -> Any:
    """Build the estimator from trusted types."""
    skops = require("skops.io", "skops")
    try:
        return skops.loads(payload, trusted=[*trusted, *_OWN])
    except Exception as error:  # as above
        raise ArtifactError(f"skops cannot load one of its stages: {error}") from error


def _checked(file: SeekableFile) -> list[Member]:
    """Return the members of a payload; refuse one that would cost skops much memory or time."""
    members, _ = open_zip(file, most_members=_MOST_MEMBERS)
    if not members or members[0].name != _SCHEMA:
        raise ArtifactError(f"a stage lacks its {_SCHEMA}")
    if members[0].size > _MOST_BYTES:
        raise ArtifactError(f"the {_SCHEMA} of a stage has more than {_MOST_BYTES:,} bytes")
    for member in members[1:]:
        _check_member(file, member)
    schema = _json.parse(
        read_member(file, members[0]),
        most_bytes=_MOST_BYTES,
        most_values=_MOST_VALUES,
        most_depth=_MOST_DEPTH,
    )
    _check_objects(schema)
    # skops reads a member again for every object that names it, unless it knows the object's id.
    sizes = {member.name: member.size for member in members}
    read, seen = 0, set()
    for node in filter(_has_file, _nodes(schema)):
        if node["file"] not in sizes:
            raise ArtifactError(f"a stage refers to {node['file'][:80]!r}, which is missing")
        number = node.get("__id__")
        if not isinstance(number, int) or (number, node["file"]) not in seen:
            read += sizes[node["file"]]
        seen.add((number if isinstance(number, int) else None, node["file"]))
    if read > sum(sizes.values()) + _READ_AGAIN:
        raise ArtifactError("too many parts of a stage read the same bytes")
    return members


def _check_objects(schema: Any) -> None:
    """Refuse more objects than a large forest has: skops stores a list of types for each."""
    loaders = [node["__loader__"] for node in _nodes(schema) if "__loader__" in node]
    heavy = sum(loader not in _LIGHT for loader in loaders)
    if len(loaders) > _MOST_OBJECTS or heavy > _MOST_HEAVY:
        raise ArtifactError(
            f"a stage holds {len(loaders):,} objects, of which {heavy:,} are not numbers, text or "
            f"lists; at most {_MOST_OBJECTS:,} and {_MOST_HEAVY:,} are allowed, about a forest "
            "of 1,000 trees"
        )


def _renamed(written: bytes) -> dict[str, bytes]:
    """Replace memory addresses in the names of objects and members by consecutive numbers."""
    with zipfile.ZipFile(io.BytesIO(written)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    schema = _json.parse(
        members.pop(_SCHEMA), most_bytes=2**30, most_values=2**30, most_depth=_MOST_DEPTH
    )
    numbers: dict[int, int] = {}
    names: dict[str, str] = {}
    for node in _nodes(schema):
        if isinstance(node.get("__id__"), int):
            node["__id__"] = numbers.setdefault(node["__id__"], len(numbers) + 1)
        if _has_file(node):
            kind = node["file"].rpartition(".")[2]
            node["file"] = names.setdefault(node["file"], f"{len(names)}.{kind}")
    renamed = {_SCHEMA: _json.write(schema)}
    for old, new in names.items():
        renamed[new] = _stored(members[old]) if new.endswith(".npz") else members[old]
    return renamed


def _stored(written: bytes) -> bytes:
    """Write the arrays of a sparse matrix uncompressed."""
    with zipfile.ZipFile(io.BytesIO(written)) as archive:
        return b"".join(pack({name: archive.read(name) for name in archive.namelist()}))


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield every object of a schema, in order."""
    waiting = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting.extend(reversed(value.values()))
        elif isinstance(value, list):
            waiting.extend(reversed(value))


def _has_file(node: dict[str, Any]) -> bool:
    return isinstance(node.get("file"), str)  # a user's key `file` holds a node instead


def _check_member(file: SeekableFile, member: Member) -> None:
    for _ in read_parts(file, member):
        pass  # reading it checks the checksum
    if member.name.endswith(".npy"):
        _check_array(file, member)
    elif member.name.endswith(".npz"):
        sparse = NestedFile(file, member)
        for part in open_zip(sparse)[0]:
            _check_array(sparse, part)
    elif not member.name.endswith(".bin"):
        raise ArtifactError(f"a stage has the unknown member {member.name!r}")


def _check_array(file: SeekableFile, member: Member) -> None:
    """Refuse an array whose size differs from its header: numpy would allocate what it states."""
    start = io.BytesIO(read_start(file, member, _LONGEST_HEADER))
    read_header = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    try:
        shape, _, dtype = read_header[np.lib.format.read_magic(start)](start)
        count = 1
        for length in shape:
            count *= length
    except Exception as error:  # numpy passes on what Python's literal parser raises
        raise ArtifactError(f"an array of a stage is not valid: {error}") from error
    if dtype.hasobject or count * dtype.itemsize != member.size - start.tell():
        raise ArtifactError("the length of an array of a stage does not match its header")
