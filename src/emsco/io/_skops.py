"""Estimators that are not emsco's own, through skops, looked at before skops looks at them.

skops writes a zip of a schema and arrays. Here it is written anew, as `_zip` does: without memory
addresses, uncompressed, so that nothing in it can unfold, and it is refused if its schema is too
large or too deep, or if what it says of its arrays is not so. skops itself then says which types it
holds, and makes an object only if each of them is known to it or named by the user.
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
    Inside,
    Member,
    Readable,
    open_zip,
    pack,
    read_member,
    read_parts,
    read_start,
)

_SCHEMA = "schema.json"
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
    """Give the bytes of an estimator; `what` names it where that cannot be."""
    skops = require("skops.io", "skops")
    try:
        payload = b"".join(pack(_renamed(skops.dumps(estimator))))
        _checked(io.BytesIO(payload))
    except Exception as error:  # skops raises what the estimator's own parts raise
        raise ArtifactError(
            f"{what}, a {type(estimator).__name__}, cannot be kept by skops: {error}"
        ) from error
    return payload


def untrusted_types(file: Readable) -> list[str]:
    """Name the types that skops will not load unless the user trusts them; nothing is imported."""
    skops = require("skops.io", "skops")
    members = _checked(file)
    # What types there are is in the schema; arrays would take memory and tell nothing.
    bare = {member.name: b"" for member in members} | {_SCHEMA: read_member(file, members[0])}
    try:
        found: list[str] = skops.get_untrusted_types(data=b"".join(pack(bare)))
    except Exception as error:  # whatever a forged schema leads to
        raise ArtifactError(f"skops cannot read one of its stages: {error}") from error
    return found


def from_skops(payload: bytes, trusted: Iterable[str]) -> Any:
    """Make the estimator, of types that are trusted."""
    skops = require("skops.io", "skops")
    try:
        return skops.loads(payload, trusted=list(trusted))
    except Exception as error:  # as above
        raise ArtifactError(f"skops cannot load one of its stages: {error}") from error


def _checked(file: Readable) -> list[Member]:
    """Give the members of a payload; refuse one on which skops would waste memory or time."""
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
    # skops reads a member for every object that names it, unless it has seen the object's number.
    sizes = {member.name: member.size for member in members}
    read, seen = 0, set()
    for node in filter(_has_file, _nodes(schema)):
        if node["file"] not in sizes:
            raise ArtifactError(f"a stage names {node['file'][:80]!r}, which is not there")
        number = node.get("__id__")
        if not isinstance(number, int) or (number, node["file"]) not in seen:
            read += sizes[node["file"]]
        seen.add((number if isinstance(number, int) else None, node["file"]))
    if read > sum(sizes.values()) + _READ_AGAIN:
        raise ArtifactError("a stage reads the same bytes again and again")
    return members


def _check_objects(schema: Any) -> None:
    """Refuse more objects than a large forest has: skops keeps a list of what it trusts by each."""
    loaders = [node["__loader__"] for node in _nodes(schema) if "__loader__" in node]
    heavy = sum(loader not in _LIGHT for loader in loaders)
    if len(loaders) > _MOST_OBJECTS or heavy > _MOST_HEAVY:
        raise ArtifactError(
            f"a stage holds {len(loaders):,} objects, more than {_MOST_OBJECTS:,}, or too many "
            "that are not numbers, text or lists; as many as a forest of some 1,000 trees will do"
        )


def _renamed(written: bytes) -> dict[str, bytes]:
    """Give objects and members numbers in their order, in place of where they lay in memory."""
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
    """Walk over every object of a schema, from the first to the last."""
    waiting = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting.extend(reversed(value.values()))
        elif isinstance(value, list):
            waiting.extend(reversed(value))


def _has_file(node: dict[str, Any]) -> bool:
    return isinstance(node.get("file"), str)  # a user's key of that name holds another node


def _check_member(file: Readable, member: Member) -> None:
    for _ in read_parts(file, member):
        pass  # its checksum is compared
    if member.name.endswith(".npy"):
        _check_array(file, member)
    elif member.name.endswith(".npz"):
        sparse = Inside(file, member)
        for part in open_zip(sparse)[0]:
            _check_array(sparse, part)
    elif not member.name.endswith(".bin"):
        raise ArtifactError(f"a stage has the member {member.name!r}, which skops does not write")


def _check_array(file: Readable, member: Member) -> None:
    """Refuse an array whose header promises other than what follows: numpy would make room."""
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
    except Exception as error:  # numpy raises what Python's own reader of literals raises
        raise ArtifactError(f"an array of a stage is not one: {error}") from error
    if dtype.hasobject or count * dtype.itemsize != member.size - start.tell():
        raise ArtifactError("an array of a stage is not as long as it says")
