"""Write latencies into a file of costs and keep the rest of it: comments, order, spaces.

Python reads TOML but does not write it. So the text is edited only where latencies belong, and
parsed again before the file is replaced.
"""

from __future__ import annotations

import os
import re
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from emsco._utils.atomic_write import write_whole
from emsco.core.costs import Costs
from emsco.exceptions import CostsError

_SOURCES, _LATENCY = "sources", "latency"
_PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""  # of a key
_KEY = re.compile(rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*")
_LAST_PART = re.compile(rf"{_PART}$")
_HEADER = re.compile(rf"\[\[?[ \t]*({_KEY.pattern})[ \t]*\]\]?")
_BLANK = re.compile(r"(?:\s|#[^\n]*)*")  # and comments
_EQUALS = re.compile(r"[ \t]*=[ \t]*")
_SCALAR = re.compile(
    r'"""(?:[^\\]|\\.)*?"""+|' r"'''.*?'''+|"
    r""""(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[^\s,\]}#]+""",
    re.DOTALL,
)  # fmt: skip


class _Entry(NamedTuple):
    """The positions of a key and its value in the text."""

    path: tuple[str, ...]  # from the top of the file
    key: str  # as it is written
    at: int  # where the key begins
    begin: int  # where the value begins
    end: int  # where the value ends
    is_inline: bool  # whether it is within braces
    last_within: int | None = None  # where the last entry of a value in braces ends


class _Edit(NamedTuple):
    begin: int
    end: int
    text: str


def with_latencies(text: str, latencies: Mapping[str, float]) -> str:
    r"""Return the text of a file of costs with these latencies, by source.

    Examples
    --------
    >>> from emsco.live.latency_file import with_latencies
    >>> text = "[sources]\npage = 3  # a call\nlab = { cost = 5, latency = 9 }\n"
    >>> print(with_latencies(text, {"page": 0.0012, "lab": 0.4}))
    [sources]
    page = { cost = 3, latency = 0.0012 }  # a call
    lab = { cost = 5, latency = 0.4 }
    <BLANKLINE>
    """
    entries = list(_entries(text))
    edits = [_edit(text, entries, name, repr(float(value))) for name, value in latencies.items()]
    for edit in sorted(edits, reverse=True):  # from the end, so that places before stay right
        text = text[: edit.begin] + edit.text + text[edit.end :]
    return text


def write_latencies(path: str | os.PathLike[str], latencies: Mapping[str, float]) -> None:
    """Write latencies, in seconds, into a file of costs, and change nothing else in it.

    Parameters
    ----------
    path : path
        The file of costs.
    latencies : mapping of source to float
        The latency of each source to be changed.

    Raises
    ------
    CostsError
        If the result would differ from the file in anything else; the file is then unchanged.
    """
    before = Costs.from_toml(path)
    lines = ", ".join(f"`latency = {value!r}` for {name!r}" for name, value in latencies.items())
    refused = CostsError(
        f"{os.fspath(path)} cannot be edited automatically and is unchanged; add the latencies "
        f"yourself: {lines}."
    )
    wanted = replace(
        before,
        sources=tuple(
            replace(source, latency=latencies.get(source.name, source.latency))
            for source in before.sources
        ),
    )
    try:
        written = with_latencies(Path(path).read_bytes().decode("utf-8"), latencies).encode()
        found = _read(written)
    except CostsError:
        raise refused from None
    if found != wanted:
        raise refused
    write_whole(path, [written])


def _read(text: bytes) -> Costs:
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / "costs.toml"
        draft.write_bytes(text)
        return Costs.from_toml(draft)


def _edit(text: str, entries: list[_Entry], name: str, value: str) -> _Edit:
    """Return the edit that sets the latency of a source."""
    own = [entry for entry in entries if entry.path[:2] == (_SOURCES, name)]
    for entry in own:
        if entry.path[2:] == (_LATENCY,):
            return _Edit(entry.begin, entry.end, value)
    for entry in own:
        if len(entry.path) == 2:  # page = 3, or page = { cost = 3 }
            if entry.last_within is not None:
                return _Edit(entry.last_within, entry.last_within, f", {_LATENCY} = {value}")
            price = text[entry.begin : entry.end]
            return _Edit(entry.begin, entry.end, f"{{ cost = {price}, {_LATENCY} = {value} }}")
    for entry in own:
        if len(entry.path) == 3:  # a separate table, or page.cost = 3
            return _beside(text, entry, value)
    raise CostsError(f"The file has no source {name!r}.")


def _beside(text: str, entry: _Entry, value: str) -> _Edit:
    """Add a latency after an entry of the same table, with the same key prefix."""
    added = f"{_LAST_PART.sub('', entry.key)}{_LATENCY} = {value}"
    if entry.is_inline:
        return _Edit(entry.end, entry.end, f", {added}")
    at = text.find("\n", entry.end)
    at = len(text) if at < 0 else at - (text[at - 1] == "\r")
    newline = "\r\n" if "\r\n" in text else "\n"
    indent = text[text.rfind("\n", 0, entry.at) + 1 : entry.at]
    return _Edit(at, at, f"{newline}{indent}{added}")


def _entries(text: str) -> Iterator[_Entry]:
    """Find every key and its value, also within braces."""
    at = _skip(_BLANK, text, 0)
    names: tuple[str, ...] = ()
    while at < len(text):
        if text[at] == "[":
            header = _HEADER.match(text, at)
            if header is None:
                raise CostsError("A line in brackets is not a valid table header.")
            names, at = _names(header[1]), header.end()
        else:
            found = _pair(text, at, names, is_inline=False)
            yield from found
            at = found[0].end
        at = _skip(_BLANK, text, at)


def _pair(text: str, at: int, prefix: tuple[str, ...], *, is_inline: bool) -> list[_Entry]:
    """Read a key and its value, and the pairs within it; the pair itself comes first."""
    key_end = _skip(_KEY, text, at)
    key, begin = text[at:key_end], _skip(_EQUALS, text, key_end)
    path = (*prefix, *_names(key))
    within = _braces(text, begin, path) if text[begin : begin + 1] == "{" else None
    if within is None:
        end = _after(text, begin)
        return [_Entry(path, key, at, begin, end, is_inline)]
    inner, end = within
    last = max((entry.end for entry in inner), default=None)
    return [_Entry(path, key, at, begin, end, is_inline, last), *inner]


def _braces(text: str, at: int, path: tuple[str, ...]) -> tuple[list[_Entry], int]:
    """Read the pairs between braces; return them, and where the braces end."""
    found: list[_Entry] = []
    at = _skip(_BLANK, text, at + 1)
    while text[at : at + 1] != "}":
        pairs = _pair(text, at, path, is_inline=True)
        found += pairs
        at = _skip_comma(text, pairs[0].end)
    return found, at + 1


def _after(text: str, at: int) -> int:
    """Return where a value ends."""
    if text[at : at + 1] == "{":
        return _braces(text, at, ())[1]
    if text[at : at + 1] != "[":
        return _skip(_SCALAR, text, at)
    at = _skip(_BLANK, text, at + 1)
    while text[at : at + 1] != "]":
        at = _skip_comma(text, _after(text, at))
    return at + 1


def _skip_comma(text: str, at: int) -> int:
    at = _skip(_BLANK, text, at)
    return _skip(_BLANK, text, at + 1) if text[at : at + 1] == "," else at


def _skip(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    if found is None:
        raise CostsError(f"The text cannot be parsed at character {at}.")
    return found.end()


def _names(key: str) -> tuple[str, ...]:
    """Return the parts of a key without quotes."""
    read, parts = tomllib.loads(f"{key} = 0"), []
    while isinstance(read, dict):
        ((name, read),) = read.items()
        parts.append(name)
    return tuple(parts)
