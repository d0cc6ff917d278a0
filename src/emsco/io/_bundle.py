"""What a file holds beside its manifest: arrays as .npy, and estimators as skops writes them."""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Sequence
from math import prod
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from emsco.exceptions import ArtifactError
from emsco.io._json import from_plain, to_plain
from emsco.io._skops import from_skops, to_skops, untrusted_types
from emsco.io._zip import Inside, Member, read_member, read_start

ONNX = "onnx"  # what a user names to trust such a model
_INTEGERS = range(-(2**63), 2**63)
# As numpy writes them; no object and no structure, and nothing for its reader of literals to read.
_HEADER = re.compile(
    rb"\{'descr': '([|<][biuf][1248])', 'fortran_order': (True|False), "
    rb"'shape': \(([\d, ]*)\), \} *\n"
)
_LONGEST_HEADER = 256


class Writer:
    """Collects members; what is given twice is kept once.

    Parameters
    ----------
    rows : bool, default=True
        Whether hashes of rows may be kept.
    """

    def __init__(self, *, rows: bool = True) -> None:
        self.rows = rows
        self.members: dict[str, bytes] = {}
        self._names: dict[int, tuple[str, Any]] = {}  # with the object: a number may be used again

    def array(self, array: NDArray[Any]) -> str:
        """Keep an array of numbers or booleans, and say under which name."""
        if id(array) not in self._names:
            little = array.astype(array.dtype.newbyteorder("<"), copy=False)
            self._add(array, "arrays", "npy", _to_npy(little))
        return self._names[id(array)][0]

    def estimator(self, estimator: Any, what: str) -> str:
        """Keep an estimator that is not emsco's own, and say under which name."""
        if id(estimator) not in self._names:
            self._add(estimator, "stages", "skops", to_skops(estimator, what))
        return self._names[id(estimator)][0]

    def onnx(self, content: bytes) -> str:
        """Keep a model in the ONNX format as it is, and say under which name."""
        if id(content) not in self._names:
            self._add(content, "final", "onnx", content)
        return self._names[id(content)][0]

    def column(self, values: Sequence[Any], what: str) -> Any:
        """Keep many values of one type as an array, others as JSON."""
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

    def _add(self, value: Any, folder: str, kind: str, data: bytes) -> None:
        name = f"{folder}/{sum(known.startswith(folder) for known in self.members)}.{kind}"
        self.members[name] = data
        self._names[id(value)] = name, value


class Reader:
    """Gives back what a `Writer` kept; nothing else may be there.

    A member is read when it is asked for, so that one that does not fit takes no memory.

    Parameters
    ----------
    file : binary file
        The zip, every byte of which was checked.
    members : sequence of Member
        Its members.
    trusted : collection of str
        Types that skops may load besides those it trusts itself.
    """

    def __init__(self, file: BinaryIO, members: Sequence[Member], trusted: Collection[str]) -> None:
        self._file = file
        self._members = {member.name: member for member in members}
        self._trusted = trusted
        self._made: dict[str, Any] = {}
        stages = [member for member in members if member.name.endswith(".skops")]
        # Before any object is made.
        found = {name for stage in stages for name in untrusted_types(Inside(file, stage))}
        if any(member.name.endswith(".onnx") for member in members):
            found.add(ONNX)  # read by a library of its own
        if found - set(trusted):
            raise ArtifactError(
                "its stages contain types that emsco does not trust by default; if you know who "
                f"wrote the file, and only then, pass trusted={sorted(found)!r}"
            )

    def array(self, name: Any, *shape: int | None) -> NDArray[Any]:
        """Give an array that must have this shape, None standing for any length."""
        member = self._member(name, "npy")
        head = read_start(self._file, member, _LONGEST_HEADER)
        start = 10 + int.from_bytes(head[8:10], "little")
        header = _HEADER.fullmatch(head[10:start])
        if head[:8] != b"\x93NUMPY\x01\x00" or header is None:
            raise ArtifactError(f"{name!r} is no array")
        dtype = np.dtype(header[1].decode("ascii"))
        found = tuple(int(length) for length in header[3].replace(b",", b" ").split())
        if prod(found) * dtype.itemsize != member.size - start:
            raise ArtifactError(f"{name!r} is not as long as it says")
        fits = [wanted in (None, length) for wanted, length in zip(shape, found, strict=False)]
        if len(found) != len(shape) or not all(fits):
            raise ArtifactError(f"{name!r} must have the shape {shape}, it has {found}")
        if name not in self._made:
            data = read_member(self._file, member)
            flat = np.frombuffer(data, dtype, offset=start).copy()
            if dtype == np.bool_ and (flat.view(np.uint8) > 1).any():
                raise ArtifactError(f"{name!r} holds what is neither true nor false")
            in_columns = header[2] == b"True"
            self._made[name] = flat.reshape(found[::-1]).T if in_columns else flat.reshape(found)
        array: NDArray[Any] = self._made[name]
        return array

    def estimator(self, name: Any) -> Any:
        """Give an estimator."""
        member = self._member(name, "skops")
        if name not in self._made:
            self._made[name] = from_skops(read_member(self._file, member), self._trusted)
        return self._made[name]

    def onnx(self, name: Any) -> bytes:
        """Give a model in the ONNX format, as it was."""
        member = self._member(name, "onnx")
        if name not in self._made:
            self._made[name] = read_member(self._file, member)
        content: bytes = self._made[name]
        return content

    def column(self, data: Any) -> list[Any]:
        """Give back the values of a column."""
        if isinstance(data, list):
            return [from_plain(item) for item in data]
        if not isinstance(data, dict) or set(data) not in ({"lengths", "items"}, {"column"}):
            raise ArtifactError(f"it holds {data!r:.80} where it needs a column")
        if "items" in data:
            items, ends = self.column(data["items"]), np.cumsum([0, *self.column(data["lengths"])])
            if ends[-1] != len(items) or (np.diff(ends) < 0).any():
                raise ArtifactError("its lists are not as long as it says")
            return [items[a:b] for a, b in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]
        values: list[Any] = self.array(data["column"], None).tolist()
        return values

    def check_all_read(self) -> None:
        """Refuse members that nothing asked for."""
        idle = [name for name in self._members if name not in self._made]
        if idle:
            raise ArtifactError(f"nothing in it needs its member {idle[0]!r}")

    def _member(self, name: Any, kind: str) -> Member:
        if not isinstance(name, str) or name not in self._members or not name.endswith(f".{kind}"):
            raise ArtifactError(f"it names {name!r:.80}, which is not among its members")
        return self._members[name]


def _to_npy(array: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=(1, 0), allow_pickle=False)
    return file.getvalue()
