"""The members of a file besides its manifest: arrays as .npy files, estimators as skops files."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Collection, Sequence
from math import prod
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from emsco.exceptions import ArtifactError, Keyword
from emsco.io._json import from_plain, to_plain
from emsco.io._skops import from_skops, to_skops, untrusted_types
from emsco.io._zip import Member, NestedFile, read_member, read_start

ONNX = "onnx"  # the name that a user gives to trust such a model
_INTEGERS = range(-(2**63), 2**63)
# As numpy writes them, without objects or structures; checked here, so numpy parses no literals.
_HEADER = re.compile(
    rb"\{'descr': '([|<][biuf][1248])', 'fortran_order': (True|False), "
    rb"'shape': \(([\d, ]*)\), \} *\n"
)
_LONGEST_HEADER = 256


class MemberWriter:
    """Collects members; an object that is given twice is stored once."""

    def __init__(self, *, rows: bool = True) -> None:
        self.rows = rows  # whether hashes of rows may be stored
        self.members: dict[str, bytes] = {}
        self._names: dict[int, tuple[str, Any]] = {}  # holds the object, so its id stays unique

    def array(self, array: NDArray[Any]) -> str:
        """Store an array of numbers or booleans and return its name."""
        return self._add(array, "arrays", "npy", lambda: _to_npy(array))

    def estimator(self, estimator: Any, what: str) -> str:
        """Store an estimator that is not emsco's own and return its name."""
        return self._add(estimator, "stages", "skops", lambda: to_skops(estimator, what))

    def onnx(self, content: bytes) -> str:
        """Store an ONNX model unchanged and return its name."""
        return self._add(content, "final", "onnx", lambda: content)

    def column(self, values: Sequence[Any], what: str) -> Any:
        """Store values of one type as an array, others as JSON."""
        if not values:
            return []
        if all(type(value) is int and value in _INTEGERS for value in values):
            return {"column": self.array(np.array(values, dtype=np.int64))}
        if all(type(value) is float for value in values):
            return {"column": self.array(np.array(values, dtype=np.float64))}
        if all(type(value) is list for value in values):
            flat = [item for value in values for item in value]
            lengths = self.column([len(value) for value in values], what)
            return {"lengths": lengths, "items": self.column(flat, what)}
        return to_plain(list(values), what)

    def _add(self, value: Any, folder: str, kind: str, written: Callable[[], bytes]) -> str:
        if id(value) not in self._names:
            name = f"{folder}/{sum(known.startswith(folder) for known in self.members)}.{kind}"
            self.members[name] = written()
            self._names[id(value)] = name, value
        return self._names[id(value)][0]


class MemberReader:
    """Returns what a `MemberWriter` stored; the file must not hold anything else.

    A member is read only when it is needed, so one with a wrong size takes no memory.
    """

    def __init__(self, file: BinaryIO, members: Sequence[Member], trusted: Collection[str]) -> None:
        self._file = file
        self._members = {member.name: member for member in members}
        self.trusted = trusted
        self._made: dict[str, Any] = {}
        stages = [member for member in members if member.name.endswith(".skops")]
        # Checked before any object is built.
        found = {name for stage in stages for name in untrusted_types(NestedFile(file, stage))}
        if any(member.name.endswith(".onnx") for member in members):
            found.add(ONNX)  # onnxruntime reads it, not emsco
        if found - set(trusted):
            raise ArtifactError(
                "its stages contain types that emsco does not trust by default; if you know who "
                "wrote the file, and only then, pass " + Keyword("trusted", sorted(found))
            )

    def array(self, name: Any, *shape: int | None) -> NDArray[Any]:
        """Return an array that must have this shape; None means any length."""
        member = self._member(name, "npy")
        head = read_start(self._file, member, _LONGEST_HEADER)
        start = 10 + int.from_bytes(head[8:10], "little")
        header = _HEADER.fullmatch(head[10:start])
        if head[:8] != b"\x93NUMPY\x01\x00" or header is None:
            raise ArtifactError(f"{name!r} is not an array")
        dtype = np.dtype(header[1].decode("ascii"))
        found = tuple(int(length) for length in header[3].replace(b",", b" ").split())
        if prod(found) * dtype.itemsize != member.size - start:
            raise ArtifactError(f"the length of {name!r} does not match its header")
        fits = [wanted in (None, length) for wanted, length in zip(shape, found, strict=False)]
        if len(found) != len(shape) or not all(fits):
            raise ArtifactError(f"{name!r} must have the shape {shape}, got {found}")
        if name not in self._made:
            data = read_member(self._file, member)
            flat = np.frombuffer(data, dtype, offset=start).copy()
            if dtype == np.bool_ and (flat.view(np.uint8) > 1).any():
                raise ArtifactError(f"{name!r} must hold only true and false")
            in_columns = header[2] == b"True"
            self._made[name] = flat.reshape(found[::-1]).T if in_columns else flat.reshape(found)
        array: NDArray[Any] = self._made[name]
        return array

    def estimator(self, name: Any) -> Any:
        """Return an estimator."""
        member = self._member(name, "skops")
        if name not in self._made:
            self._made[name] = from_skops(read_member(self._file, member), self.trusted)
        return self._made[name]

    def onnx(self, name: Any) -> bytes:
        """Return the bytes of an ONNX model."""
        content: bytes = read_member(self._file, self._member(name, "onnx"))
        self._made[name] = content
        return content

    def column(self, data: Any) -> list[Any]:
        """Return the values of a column."""
        if isinstance(data, list):
            return [from_plain(item) for item in data]
        if not isinstance(data, dict) or set(data) not in ({"lengths", "items"}, {"column"}):
            raise ArtifactError(f"it holds {data!r:.80} where a column is expected")
        if "items" in data:
            items, ends = self.column(data["items"]), np.cumsum([0, *self.column(data["lengths"])])
            if ends[-1] != len(items) or (np.diff(ends) < 0).any():
                raise ArtifactError("the lengths of its lists are inconsistent")
            return [items[a:b] for a, b in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]
        values: list[Any] = self.array(data["column"], None).tolist()
        return values

    def check_all_read(self) -> None:
        """Raise an error if a member was never read."""
        idle = [name for name in self._members if name not in self._made]
        if idle:
            raise ArtifactError(f"its member {idle[0]!r} is not used")

    def _member(self, name: Any, kind: str) -> Member:
        if not isinstance(name, str) or name not in self._members or not name.endswith(f".{kind}"):
            raise ArtifactError(f"it refers to {name!r:.80}, which is not one of its members")
        return self._members[name]


def _to_npy(array: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    np.lib.format.write_array(file, little, version=(1, 0), allow_pickle=False)
    return file.getvalue()
