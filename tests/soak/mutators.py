"""Values inside a file changed to others, and the file sealed again: every hash of it is right."""

from __future__ import annotations

import copy
import io
import json
import zipfile
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import numpy as np

from emsco.io._zip import pack
from tests.soak.forgeries import npy, opened, places_of, sealed

Rng = np.random.Generator
Mutator = Callable[[bytes, Rng], bytes]

_MAGIC = b"emsco checkpoint 1\n"
_SEAL = 32  # bytes of a sha256
# What a file may say in place of what it should: numbers that are none, too large or of another
# type, what stands for them in a manifest, text, and things to hold them.
_FOREIGN: list[Any] = [
    {"float": "nan"}, {"float": "inf"}, {"float": "-inf"}, 0, 1, -1, 2, 0.0, 0.5, 1.0, -0.5, 1e-320,
    1e308, -1e308, 2**31, 2**63, 10**30, -(10**30), True, False, None, "", "x", "nan", "1", "\0",
    "x" * 999, [], {}, [[]], [None], [0.5], ["x"], {"x": 1}, {"dict": {}}, {"tuple": []},
    {"map": []}, {"map": [[1, 2]]}, {"tuple": [0.9, 0.9]}, {"int8": 3}, {"float64": 0.5},
    {"str": "x"}, {"dict": {"x": 0.9}}, {"column": "arrays/0.npy"}, "arrays/0.npy",
    {"lengths": [1], "items": [1]},
]  # fmt: skip
_NUMBERS: list[Callable[[Any], Any]] = [
    lambda v: -v, lambda v: v + 1, lambda v: v - 1, lambda v: v * 2, lambda v: v / 2,
    lambda v: v * 1e9, lambda v: v * 1e300, float, int, str, bool, lambda v: [v],
    lambda v: {"float": str(v)},
]  # fmt: skip


def mutate_manifest(data: bytes, rng: Rng) -> bytes:
    """Change a value that the manifest tells of the model or its certificate; at times several."""
    manifest, members = opened(data)
    told = {name: manifest[name] for name in ("model", "certificate") if manifest[name] is not None}
    for _ in range(1 if rng.random() < 0.8 else int(rng.integers(2, 4))):
        mutate_tree(told, rng)
    manifest |= {"certificate": None, **told} if "model" in told else {"model": None}
    return sealed(manifest, list(members.items()))


def mutate_head(data: bytes, rng: Rng) -> bytes:
    """Change what the manifest tells before the model: format, versions and kind."""
    manifest, members = opened(data)
    head = {name: manifest[name] for name in ("format", "versions", "kind")}
    mutate_tree(head, rng)
    return sealed({**manifest, **head}, list(members.items()))


def mutate_array(data: bytes, rng: Rng) -> bytes:
    """Change values, type or shape of an array, or take another in its place."""
    manifest, members = opened(data)
    names = [name for name in members if name.endswith(".npy")]
    name = names[rng.integers(len(names))]
    if rng.random() < 0.15:
        members[name] = members[names[rng.integers(len(names))]]
    else:
        members[name] = _mutate_npy(members[name], rng)
    return sealed(manifest, list(members.items()))


def mutate_stage(data: bytes, rng: Rng) -> bytes:
    """Change what skops keeps of an estimator: an array inside it, or a value of its schema."""
    manifest, members = opened(data)
    names = [name for name in members if name.endswith(".skops")]
    name = names[rng.integers(len(names))]
    with zipfile.ZipFile(io.BytesIO(members[name])) as archive:
        parts = {part: archive.read(part) for part in archive.namelist()}
    arrays = [part for part in parts if part.endswith(".npy")]
    if arrays and rng.random() < 0.6:
        part = arrays[rng.integers(len(arrays))]
        parts[part] = _mutate_npy(parts[part], rng)
    else:
        schema = json.loads(parts["schema.json"])
        mutate_tree(schema, rng)
        parts["schema.json"] = json.dumps(schema).encode()
    members[name] = b"".join(pack(parts))
    return sealed(manifest, list(members.items()))


def mutate_checkpoint(data: bytes, rng: Rng) -> bytes:
    """Change the head of a checkpoint, or the outcomes in it."""
    end = data.index(b"\n", len(_MAGIC))
    head, body = json.loads(data[len(_MAGIC) : end]), bytearray(data[end + 1 : -_SEAL])
    how = int(rng.integers(6))
    if how < 2:
        told = {name: head[name] for name in ("seed", "sets", "kept")}
        mutate_tree(told, rng)
        head = {**head, **told} if rng.random() < 0.9 else told
    elif how == 2 and body:
        at = int(rng.integers(len(body)))
        body[at] ^= 1 << int(rng.integers(8))
    elif how == 3:
        at = int(rng.integers(len(body)))
        size = int(rng.integers(1, 64))
        pieces = [rng.bytes(size), b"\xff" * size, bytes(size)]
        body[at : at + size] = pieces[rng.integers(3)]
    elif how == 4:
        words = np.frombuffer(bytes(body[: len(body) // 8 * 8]), "<u8").copy()
        rng.shuffle(words)
        body[: len(words) * 8] = words.tobytes()
    else:
        cut = int(rng.integers(1, 100))
        body = body[:-cut] if rng.random() < 0.5 else body + rng.bytes(cut)
    written = _MAGIC + json.dumps(head).encode() + b"\n" + bytes(body)
    return written + sha256(written).digest()


def _mutate_npy(data: bytes, rng: Rng) -> bytes:
    array = np.load(io.BytesIO(data), allow_pickle=False)
    how = int(rng.integers(8))
    if array.dtype.kind not in "fiub" or (how < 3 and not array.size):
        return npy(np.zeros(3))
    if how < 3:  # one value
        values = [np.nan, np.inf, -np.inf, 0, -1, 1, 1e308, -1e308, 1e-320, 2**31, 255]
        with np.errstate(all="ignore"):
            new = np.array(values[rng.integers(len(values))]).astype(array.dtype)
        array = array.copy()
        array.flat[rng.integers(array.size)] = new
        return npy(array)
    if how == 3:  # bytes, whatever they mean
        raw = bytearray(data)
        raw[int(rng.integers(min(128, len(raw) - 1), len(raw)))] = int(rng.integers(256))
        return bytes(raw)
    if how == 4:  # another type
        dtypes = ["f2", "f4", "f8", "i1", "i2", "i8", "u1", "u8", "?", "U3", "c16", "M8[s]"]
        with np.errstate(all="ignore"):
            return npy(np.zeros(array.shape, dtypes[rng.integers(len(dtypes))]))
    if how == 5:  # another shape
        shapes = [array[None]]
        if array.ndim:
            shapes += [array.T, array.ravel(), array[:-1], np.concatenate([array, array])]
        return npy(shapes[rng.integers(len(shapes))])
    with np.errstate(all="ignore"):
        changed = [-array if array.dtype.kind in "fi" else ~array, array * 2, np.flip(array),
                   np.zeros_like(array), np.ones_like(array), array + 1]  # fmt: skip
        return npy(np.asarray(changed[rng.integers(len(changed))]).astype(array.dtype))


def mutate_tree(tree: Any, rng: Rng) -> None:
    """Change one place of a tree of lists and objects."""
    places = list(places_of(tree))
    if not places:  # an earlier change has left nothing
        return
    holder, key = places[rng.integers(len(places))]
    value = holder[key]
    how = rng.random()
    if how < 0.15:
        other_holder, other_key = places[rng.integers(len(places))]
        holder[key] = copy.deepcopy(other_holder[other_key])
    elif how < 0.3:
        _mutate_holder(holder, key, rng)
    elif how < 0.6 and isinstance(value, int | float):
        try:
            changed = _NUMBERS[rng.integers(len(_NUMBERS))](value)
            holder[key] = json.loads(json.dumps(changed, allow_nan=False))
        except (OverflowError, ValueError):
            holder[key] = {"float": "inf"}
    elif how < 0.6 and isinstance(value, str):
        texts = [h[k] for h, k in places if isinstance(h[k], str)]
        holder[key] = [value[::-1], value + "x", value[:-1], texts[rng.integers(len(texts))]][
            rng.integers(4)
        ]
    elif how < 0.6 and isinstance(value, list) and value:
        at = int(rng.integers(len(value)))
        holder[key] = [value[:at], value[::-1], [*value, value[at]], value[:at] + value[at + 1 :]][
            rng.integers(4)
        ]
    else:
        holder[key] = copy.deepcopy(_FOREIGN[rng.integers(len(_FOREIGN))])


def _mutate_holder(holder: Any, key: Any, rng: Rng) -> None:
    """Delete, add, rename or exchange what a list or an object holds."""
    how = int(rng.integers(4))
    keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
    other = keys[rng.integers(len(keys))]
    if how == 0:
        del holder[key]
    elif how == 1 or isinstance(holder, list):
        holder[key], holder[other] = holder[other], holder[key]
    elif how == 2:
        holder[f"{key}x"] = holder.pop(key)
    else:
        holder[f"more {key}"] = copy.deepcopy(holder[other])
