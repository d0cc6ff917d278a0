"""Files that must not be loaded: damaged, cut, too large, too deep, forged, or strangers."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler
from skops.io import dumps  # type: ignore[import-untyped]  # skops ships no types

from tests.soak.forgeries import (
    FOREIGN,
    MARKER,
    Call,
    header,
    npy,
    opened,
    packed,
    payloads,
    places_of,
    seal,
    sealed,
)

Rng = np.random.Generator
Files = Mapping[str, bytes]  # valid ones, by what they hold
Mutation = Callable[[Rng, Files, Path], None]


# Damage


def flip(rng: Rng, files: Files, path: Path) -> None:
    """Flip one bit, anywhere."""
    data = bytearray(_any(rng, files))
    data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
    path.write_bytes(data)


def cut(rng: Rng, files: Files, path: Path) -> None:
    """Keep the beginning, as a full disk would, or the end."""
    data = _any(rng, files)
    at = int(rng.integers(len(data)))
    path.write_bytes(data[:at] if rng.random() < 0.8 else data[at + 1 :])


def lengthen(rng: Rng, files: Files, path: Path) -> None:
    """Put bytes before, between or behind."""
    data, more = _any(rng, files), rng.bytes(int(rng.integers(1, 200)))
    at = [0, len(data), int(rng.integers(len(data)))][rng.integers(3)]
    path.write_bytes(data[:at] + more + data[at:])


def splice(rng: Rng, files: Files, path: Path) -> None:
    """Overwrite a piece with zeros, with noise, or with a piece of another file."""
    data, other = bytearray(_any(rng, files)), _any(rng, files)
    size = int(rng.integers(1, min(len(data), len(other), 4096)))
    at, start = int(rng.integers(len(data) - size)), int(rng.integers(len(other) - size))
    pieces = [bytes(size), rng.bytes(size), other[start : start + size]]
    piece = pieces[rng.integers(3)]
    if data[at : at + size] == piece:
        piece = bytes(byte ^ 255 for byte in piece)
    data[at : at + size] = piece
    path.write_bytes(data)


# Zips that are not as `dump` writes them


def zip_again(rng: Rng, files: Files, path: Path) -> None:
    """Let another tool zip the same members: dates, rights, compression, flags, another order."""
    data = _any(rng, files)
    how = rng.integers(5)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        comment, members = archive.comment, {n: archive.read(n) for n in archive.namelist()}
    if how == 0:
        members = dict(reversed(members.items()))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED if how == 1 else 0) as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(
                name, (2020, 1, 1, 0, 0, 0) if how == 2 else (1980, 1, 1, 0, 0, 0)
            )
            info.compress_type = zipfile.ZIP_LZMA if how == 3 else archive.compression
            info.external_attr = (0o120777 if how == 4 else 0o100644) << 16  # 0o120000 is a link
            archive.writestr(info, content)
        archive.comment = comment
    written = bytearray(file.getvalue())
    if how == 4:
        written[6] |= 1  # encrypted
    path.write_bytes(written)


def rename(rng: Rng, files: Files, path: Path) -> None:
    """Give a member a name that leads elsewhere, or that another member has."""
    manifest, members = opened(_any(rng, files))
    name = list(members)[rng.integers(len(members))]
    names = [
        "../evil.npy", "/etc/evil.npy", "arrays/../../evil.npy", "C:/evil.npy", "arrays\\0.npy",
        "arrays/", "arrays/0.npy/", "./arrays/0.npy", "arrays//0.npy", "manifest.json",
        "arrays/0.npy\0.txt", "arrays/evil.py", "stages/0.pkl", "arrays/9999999.npy", "",
        "arrays/0.NPY", "a" * 300 + ".npy", "~/evil.npy", "arrays/\u0660.npy", "con.npy",
    ]  # fmt: skip
    new = names[rng.integers(len(names))]
    listed = [(new if known == name else known, data) for known, data in members.items()]
    if rng.random() < 0.3:  # there twice
        listed = [*members.items(), (name, members[name])]
    path.write_bytes(sealed(manifest, listed))


def bomb(rng: Rng, files: Files, path: Path) -> None:
    """Let a few kilobytes unfold to 64 MB, sizes told or lied about."""
    manifest, members = opened(_any(rng, files))
    name = [*members, "manifest.json"][rng.integers(len(members) + 1)]
    text = json.dumps(manifest).encode()
    if rng.random() < 0.3:  # a directory that claims more than there is
        data = bytearray(packed(text, members))
        at = data.rindex(b"PK\x05\x06")
        struct.pack_into("<2H2I", data, at + 8, 65535, 65535, 2**31, int(rng.integers(2**31)))
        path.write_bytes(data)
        return
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for known, content in [("manifest.json", text), *members.items()]:
            info = zipfile.ZipInfo(known)
            if known == name:
                info.compress_type, content = zipfile.ZIP_DEFLATED, bytes(2**26)
            archive.writestr(info, content)
        archive.comment = b"emsco sha256 " + hashlib.sha256(text).hexdigest().encode()
    data = bytearray(file.getvalue())
    if rng.random() < 0.5:  # called stored, of the size that it has unfolded
        for at, offset in ((data.index(b"PK\x03\x04"), 8), (data.index(b"PK\x01\x02"), 10)):
            struct.pack_into("<H", data, at + offset, 0)
    path.write_bytes(data)


def oversize(rng: Rng, files: Files, path: Path) -> None:
    """Be too large: as a file, in the number of members, in the manifest, in one member."""
    manifest, members = opened(_any(rng, files))
    how = rng.integers(6)
    if how == 0:
        with path.open("wb") as file:
            file.truncate(2**30 + int(rng.integers(1, 2**33)))  # takes no room on the disk
    elif how == 1:
        more = {f"arrays/{i}.npy": b"" for i in range(20_000)}
        seal(manifest, members | more, path)
    elif how == 2:
        path.write_bytes(packed(json.dumps(manifest).encode() + b" " * 2**24, members))
    elif how == 3:  # with every hash right
        name = list(members)[rng.integers(len(members))]
        seal(manifest, members | {name: npy(np.zeros((1, 2**24)))}, path)
    elif how == 4:  # as large, and other than what was written
        seal(manifest, members | {"arrays/9999.npy": npy(np.zeros(2**24))}, path)
        with path.open("r+b") as file:
            file.seek(int(rng.integers(2**17, 2**26)))
            file.write(b"\1")
    else:
        name = list(members)[rng.integers(len(members))]
        written = bytearray(packed(json.dumps(manifest).encode(), members))
        at = written.index(name.encode()) - 12
        struct.pack_into("<2I", written, at, *[int(rng.integers(2**20, 2**31))] * 2)
        path.write_bytes(written)


# Manifests forged with care: every hash is right


def nest(rng: Rng, files: Files, path: Path) -> None:
    """Nest JSON deeper than anyone needs."""
    manifest, members = opened(_any(rng, files))
    depth = int(rng.choice([60, 100, 1_000, 100_000, 1_000_000]))
    opening, closing = [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]"), ("[", "")][rng.integers(4)]
    _replace(manifest, rng, "NESTED")
    text = json.dumps(manifest).replace('"NESTED"', opening * depth + "1" + closing * depth)
    path.write_bytes(packed(text.encode(), members))


def swell(rng: Rng, files: Files, path: Path) -> None:
    """Hold as many values, or as long a text, as a manifest of 8 MB can."""
    manifest, members = opened(_any(rng, files))
    parts = [
        "[],",
        '{"a":1},',
        "1.5,",
        '"\\ud83d\\ude00 ",',
        '"' + "a" * 10**6 + '\\ud83d\\ude00",',
    ]
    part = parts[rng.integers(len(parts))]
    count = min(8 * 10**6 // len(part), int(rng.choice([299_000, 10**7])))
    _replace(manifest, rng, "SWOLLEN")
    text = json.dumps(manifest).replace('"SWOLLEN"', f"[{part * count}1]")
    path.write_bytes(packed(text.encode(), members))


def no_number(rng: Rng, files: Files, path: Path) -> None:
    """Put what is no finite number where a number was, or tell a key twice."""
    manifest, members = opened(_any(rng, files))
    _replace(manifest, rng, "NUMBER")
    words = ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" * 5000, '{"a":1,"a":2}', "nan"]
    text = json.dumps(manifest).replace('"NUMBER"', words[rng.integers(len(words))])
    path.write_bytes(packed(text.encode(), members))


def foreign(rng: Rng, files: Files, path: Path) -> None:
    """Put what other formats take for a call anywhere in the manifest."""
    manifest, members = opened(_any(rng, files))
    _replace(manifest, rng, [FOREIGN, {"array": "../evil"}, {"tuple": FOREIGN}][rng.integers(3)])
    seal(manifest, members, path)


def contradict(rng: Rng, files: Files, path: Path) -> None:
    """Leave out, mix up or contradict what a manifest must tell."""
    manifest, members = opened(_any(rng, files))
    model = manifest["model"]
    how = int(rng.integers(8))
    if how == 0:
        del manifest[list(manifest)[rng.integers(len(manifest))]]
    elif how == 1:
        del model[list(model)[rng.integers(len(model))]]
    elif how == 2:
        manifest["format"] = [0, 3, 10**9, -1, "1", 1.0, True, None][rng.integers(8)]
    elif how == 3:
        others = {"cascade", "front", "search", "os.system"} - {manifest["kind"]}
        manifest["kind"] = sorted(others)[rng.integers(3)]
    elif how == 4:
        model["costs"]["sources"][0]["cost"] = [-1.0, "1", None, [1.0]][rng.integers(4)]
    elif how == 5:
        model["costs"]["sources"].append(model["costs"]["sources"][0])
    elif how == 6:
        members["arrays/9999.npy"] = next(iter(members.values()))  # nobody asks for it
    else:
        model[f"more{rng.integers(10**6)}"] = FOREIGN
    seal(manifest, members, path)


# Members forged with care


def array(rng: Rng, files: Files, path: Path) -> None:
    """Give an array another shape or type, more than it has, or a pickle inside."""
    manifest, members = opened(_any(rng, files, without="front"))
    names = [name for name in members if name.endswith(".npy")]
    if not names:
        return foreign(rng, files, path)
    name = names[rng.integers(len(names))]
    facts = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }"
    forged = [
        npy(np.array([Call()], dtype=object)),
        npy(np.zeros((3, 3, 3))),
        npy(np.array(["a"])),
        npy(np.zeros(2, dtype=[("a", "f8"), ("b", "i4")])),
        header(facts % ("<f8", "(1000000000000,)")) + bytes(64),
        header(facts % ("<f8", "(-1, -8)")) + bytes(64),
        header(facts % ("|O", "(1,)")) + pickle.dumps(Call()),
        header(facts % ("<f8", "(" * 3000 + ")" * 3000)),
        header(f"__import__('os').system('touch {MARKER}')"),
        header(facts % ("<f8", "()")),
        members[name][:-1],
        members[name] + b"\0" * 8,
        b"",
    ]
    members[name] = forged[rng.integers(len(forged))]
    seal(manifest, members, path)
    return None


def stage(rng: Rng, files: Files, path: Path) -> None:
    """Put an object of a foreign class, or a payload that wastes memory, in place of a stage."""
    manifest, members = opened(files[["forest", "calibrated"][rng.integers(2)]])
    names = [name for name in members if name.endswith(".skops")]
    name = names[rng.integers(len(names))]
    forged = payloads(max((members[known] for known in names), key=len))
    members[name] = forged[rng.integers(len(forged))]
    seal(manifest, members, path)


def stranger(rng: Rng, files: Files, path: Path) -> None:
    """Be another kind of file altogether."""
    strangers = [
        pickle.dumps(Call()),
        pickle.dumps(StandardScaler()),
        dumps(StandardScaler()),
        b"",
        b"PK\x05\x06" + bytes(18),
        b"\x89PNG\r\n\x1a\n" + rng.bytes(2000),
        rng.bytes(int(rng.integers(1, 5000))),
        json.dumps(FOREIGN).encode(),
        _any(rng, files).hex().encode(),
    ]
    path.write_bytes(strangers[rng.integers(len(strangers))])


def _any(rng: Rng, files: Files, *, without: str = "") -> bytes:
    known = [data for name, data in files.items() if name != without]
    return known[rng.integers(len(known))]


def _replace(manifest: dict[str, Any], rng: Rng, new: Any) -> None:
    """Put something else in a random place of the model."""
    places = list(places_of(manifest["model"]))
    holder, key = places[rng.integers(len(places))]
    holder[key] = new


DAMAGES: dict[str, tuple[Mutation, int]] = {
    "a bit flipped": (flip, 5_000),
    "cut": (cut, 1_500),
    "lengthened": (lengthen, 300),
    "overwritten in part": (splice, 700),
    "zipped by another tool": (zip_again, 200),
    "names that lead elsewhere": (rename, 300),
    "compression bombs": (bomb, 100),
    "too large": (oversize, 60),
    "nested too deep": (nest, 300),
    "too many values": (swell, 40),
    "numbers that are none": (no_number, 200),
    "foreign objects in the manifest": (foreign, 600),
    "contradictions": (contradict, 300),
    "forged arrays": (array, 200),
    "forged stages and foreign classes": (stage, 150),
    "other files": (stranger, 50),
}
