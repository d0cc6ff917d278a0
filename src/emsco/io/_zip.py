"""Zips with the same bytes for the same members, so that any changed bit is detected.

Members are stored one after the other, uncompressed, without dates or permissions; any zip tool
can read them. The reader rebuilds everything else from names, sizes and checksums, and refuses a
file that differs, such as one with a flipped bit, a hidden member or a compression bomb.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from io import SEEK_END
from typing import NamedTuple, Protocol
from zlib import crc32

from emsco.exceptions import ArtifactError

MOST_MEMBERS = 10_000
MOST_BYTES = 2**30

# No name can leave the folder it is extracted to: no root, no parent, no drive, no backslash.
_NAME = re.compile(r"(?:[A-Za-z0-9_-]{1,64}/)?[A-Za-z0-9_-]{1,64}\.[a-z]{1,8}")
_LONGEST_NAME = 138
_PART = 2**20  # bytes read at once

_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_VERSION, _UNIX = 20, 3 << 8
_NEW_YEAR_1980 = 33  # the first date that a zip can hold
_READABLE = 0o100644 << 16
_STRANGER = "it is not an emsco file, or it is incomplete"


class SeekableFile(Protocol):
    """The methods of a file that are needed."""

    def seek(self, offset: int, whence: int = 0, /) -> int: ...
    def read(self, size: int = -1, /) -> bytes: ...


class Member(NamedTuple):
    """One member of a zip: where its bytes begin, how many there are, and their checksum."""

    name: str
    start: int
    size: int
    checksum: int


class NestedFile:
    """A member as a separate file, read in place: a zip in a zip takes no memory."""

    def __init__(self, file: SeekableFile, member: Member) -> None:
        self._file = file
        self._member = member
        self._at = 0

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Move to a position."""
        self._at = offset + (self._member.size if whence == SEEK_END else 0)
        return self._at

    def read(self, size: int = -1, /) -> bytes:
        """Read from the current position."""
        left = max(0, self._member.size - self._at)
        self._file.seek(self._member.start + self._at)
        data = self._file.read(left if size < 0 else min(size, left))
        self._at += len(data)
        return data


def pack(members: Mapping[str, bytes], comment: bytes = b"") -> Iterator[bytes]:
    """Yield the parts of the zip, in order."""
    placed = _place([(name, len(data), crc32(data)) for name, data in members.items()])
    for member, data in zip(placed, members.values(), strict=True):
        yield _local(member)
        yield data
    yield _directory(placed, comment)


def open_zip(
    file: SeekableFile, *, comment_size: int = 0, most_members: int = MOST_MEMBERS
) -> tuple[list[Member], bytes]:
    """Read the members of a zip and its comment; refuse a zip that `pack` did not write."""
    size = file.seek(0, SEEK_END)
    if size > MOST_BYTES:
        raise ArtifactError(f"it has {size:,} bytes; at most {MOST_BYTES:,} are allowed")
    end = size - _END.size - comment_size
    if end < 0:
        raise ArtifactError(_STRANGER)
    mark, _, _, _, n_members, length, start, _ = _END.unpack(_read(file, end, _END.size))
    comment = _read(file, end + _END.size, comment_size)
    if mark != b"PK\x05\x06":
        raise ArtifactError(_STRANGER)
    # Checked before reading parts whose size the file states.
    if n_members > most_members or length > n_members * (_CENTRAL.size + _LONGEST_NAME):
        raise ArtifactError(f"it lists {n_members:,} members, more than possible")
    if start + length != end:
        raise ArtifactError("its size is wrong; bytes are missing or were added")
    directory = _read(file, start, length)
    members = _place(_listed(directory, n_members))
    if _directory(members, comment) != directory + _read(file, end, size - end):
        raise ArtifactError("its directory was changed")
    for member in members:
        header = _local(member)
        if _read(file, member.start - len(header), len(header)) != header:
            raise ArtifactError(f"the header of {member.name!r} was changed")
    return members, comment


def read_member(file: SeekableFile, member: Member) -> bytes:
    """Read one member and compare its checksum."""
    return b"".join(read_parts(file, member, member.size))


def read_parts(file: SeekableFile, member: Member, most: int = _PART) -> Iterator[bytes]:
    """Read one member in parts, and compare its checksum after the last."""
    checksum, end = 0, member.start + member.size
    for start in range(member.start, end, most or 1):
        part = _read(file, start, min(most, end - start))
        checksum = crc32(part, checksum)
        yield part
    if checksum != member.checksum:
        raise ArtifactError(f"{member.name!r} was changed")


def read_start(file: SeekableFile, member: Member, most: int) -> bytes:
    """Read the first bytes of one member."""
    return _read(file, member.start, min(most, member.size))


def _read(file: SeekableFile, start: int, size: int) -> bytes:
    file.seek(start)
    data = file.read(size)
    if len(data) != size:
        raise ArtifactError("it ends too early")
    return data


def _listed(directory: bytes, n_members: int) -> list[tuple[str, int, int]]:
    """Read name, size and checksum of each member; the rest is compared later."""
    listed: dict[str, tuple[str, int, int]] = {}
    at = 0
    for _ in range(n_members):
        entry = directory[at : at + _CENTRAL.size]
        if len(entry) < _CENTRAL.size:
            raise ArtifactError("its directory is incomplete")
        _, _, _, _, _, _, _, checksum, _, size, name_size, *_ = _CENTRAL.unpack(entry)
        at += _CENTRAL.size + name_size
        name = directory[at - name_size : at].decode("ascii", "replace")
        if not _NAME.fullmatch(name):
            raise ArtifactError(f"{name[:80]!r} is not a valid name of a member")
        if name in listed:
            raise ArtifactError(f"the member {name!r} is repeated")
        listed[name] = name, size, checksum
    return list(listed.values())


def _place(listed: Sequence[tuple[str, int, int]]) -> list[Member]:
    members, at = [], 0
    for name, size, checksum in listed:
        at += _LOCAL.size + len(name)
        members.append(Member(name, at, size, checksum))
        at += size
    if at > MOST_BYTES or len(members) > 0xFFFF:
        raise ArtifactError(f"{len(members):,} members of {at:,} bytes in all are too many")
    return members


def _facts(member: Member) -> tuple[int, ...]:
    """Return what both headers of a member hold: version, flags, method, date, sizes, name."""
    _, _, size, checksum = member
    return _VERSION, 0, 0, 0, _NEW_YEAR_1980, checksum, size, size, len(member.name), 0


def _local(member: Member) -> bytes:
    return _LOCAL.pack(b"PK\x03\x04", *_facts(member)) + member.name.encode("ascii")


def _directory(members: Sequence[Member], comment: bytes) -> bytes:
    """Return everything after the last member."""
    entries = b"".join(
        _CENTRAL.pack(
            b"PK\x01\x02", _UNIX | _VERSION, *_facts(member), 0, 0, 0, _READABLE,
            member.start - _LOCAL.size - len(member.name),
        ) + member.name.encode("ascii")
        for member in members
    )  # fmt: skip
    n_members, start = len(members), members[-1].start + members[-1].size if members else 0
    end = _END.pack(b"PK\x05\x06", 0, 0, n_members, n_members, len(entries), start, len(comment))
    return entries + end + comment
