"""Parts of files forged with care: every hash is right, and what they hold is not."""

from __future__ import annotations

import functools
import hashlib
import io
import json
import operator
import os
import pickle
import struct
import subprocess
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler
from skops.io import dumps  # type: ignore[import-untyped]  # skops ships no types

from emsco.io import _json
from emsco.io._skops import _renamed
from emsco.io._zip import pack

MARKER = "emsco_loaded_a_foreign_module"  # it is on the path, and must never be imported
FOREIGN = {"__reduce__": ["os.system", f"touch {MARKER}"]}


class Call:
    """Runs a command where it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {MARKER}",)


def opened(data: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Give manifest and members of a valid file."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    return json.loads(members.pop("manifest.json")), members


def seal(manifest: dict[str, Any], members: Mapping[str, bytes], path: Path) -> None:
    """Write a file whose every hash is right, whatever it holds."""
    path.write_bytes(sealed(manifest, list(members.items())))


def sealed(manifest: dict[str, Any], listed: list[tuple[str, bytes]]) -> bytes:
    """Give the bytes of such a file; its members may have one name twice."""
    if "members" in manifest:
        manifest["members"] = {
            name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in listed
        }
    if {"kind", "model", "members", "fingerprint"} <= set(manifest):
        content = {name: manifest[name] for name in ("kind", "model", "members")}
        manifest["fingerprint"] = hashlib.sha256(_json.write(content)).hexdigest()
    return packed(json.dumps(manifest).encode(), listed)


def packed(written: bytes, members: Mapping[str, bytes] | list[tuple[str, bytes]]) -> bytes:
    """Pack a manifest and members, with the seal of that manifest."""
    listed = members if isinstance(members, list) else list(members.items())
    seal = b"emsco sha256 " + hashlib.sha256(written).hexdigest().encode()
    try:
        return b"".join(pack(_Twins([("manifest.json", written), *listed]), seal))
    except UnicodeEncodeError:  # a name that `pack` cannot write; zipfile can
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            for name, data in [("manifest.json", written), *listed]:
                archive.writestr(zipfile.ZipInfo(name), data)
            archive.comment = seal
        return file.getvalue()


class _Twins(dict[str, bytes]):
    """Members that may have one name twice, which a mapping cannot."""

    def __init__(self, listed: list[tuple[str, bytes]]) -> None:
        super().__init__()
        self.listed = listed

    def items(self) -> Any:
        """Give names and bytes."""
        return self.listed

    def values(self) -> Any:
        """Give the bytes."""
        return [data for _, data in self.listed]


def npy(array: Any) -> bytes:
    """Give an array as numpy writes it, pickles included."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def header(text: str) -> bytes:
    """Give the header of an array, whatever it says."""
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text) + 1) + text.encode() + b"\n"


@functools.cache
def payloads(valid: bytes) -> list[bytes]:
    """Forge payloads of skops out of one with arrays."""
    objects = [
        os.system,
        functools.partial(os.system, f"touch {MARKER}"),
        operator.methodcaller("system", f"touch {MARKER}"),
        operator.attrgetter("__class__.__bases__"),
        subprocess.Popen,
        eval,
        SimpleNamespace,
        StandardScaler(),
        {"classes_": [0, 1]},
    ]
    forgeries = [b"".join(pack(_renamed(dumps(value)))) for value in objects]
    with zipfile.ZipFile(io.BytesIO(valid)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(members["schema.json"])
    arrays = [name for name in members if name.endswith(".npy")]

    def forged(state: Any, more: Mapping[str, bytes] | None = None) -> bytes:
        written = {"schema.json": json.dumps(state).encode()}
        return b"".join(pack(members | written | dict(more or {})))

    def deep(depth: int) -> dict[str, Any]:
        state = dict(schema)
        for number in range(depth):
            state = {
                "__class__": "list", "__module__": "builtins", "__loader__": "ListNode",
                "content": [state], "__id__": 10**6 + number, "protocol": 2,
            }  # fmt: skip
        return state

    evil = {"__class__": "Evil", "__module__": MARKER, "__loader__": "ObjectNode", "__id__": 10**9}
    again = [
        {"__class__": "ndarray", "__module__": "numpy", "__loader__": "NdArrayNode",
         "type": "numpy", "file": max(arrays, key=lambda n: len(members[n])), "__id__": 10**7 + i}
        for i in range(4_000)
    ]  # fmt: skip
    lie = header("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }")
    many = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "__id__": 1}
    forgeries += [
        forged(evil | {"protocol": 2}),
        forged(evil | {"protocol": 0}),
        forged(evil | {"protocol": 1, "__loader__": "FunctionNode"}),
        forged(evil | {"protocol": 2, "__loader__": "TypeNode"}),
        forged(evil | {"protocol": 2, "__loader__": "ConstructorFromReduceNode",
                       "content": evil}),
        forged(schema | {"content": evil}),
        forged(schema | {"protocol": 99}),
        forged(schema | {"__loader__": "os.system"}),
        forged(many | {"content": again, "protocol": 2}),
        forged(many | {"content": [evil | {"__id__": i} for i in range(61_000)], "protocol": 2}),
        forged(deep(60)),
        forged(deep(300)),
        forged([]),
        forged(schema, {"evil.py": b"import os"}),
        forged(schema, {arrays[0]: lie}),
        dumps(StandardScaler()),
        dumps(StandardScaler().fit(np.zeros((2, 2))), compression=zipfile.ZIP_DEFLATED),
        valid[:-1],
        pickle.dumps(Call()),
        b"",
    ]  # fmt: skip
    return forgeries


def places_of(value: Any) -> Iterator[tuple[Any, Any]]:
    """Give every place of nested data: what holds it, and its key or number there."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(items):
        yield value, key
        if isinstance(item, dict | list):
            yield from places_of(item)
