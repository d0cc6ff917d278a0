"""Write latencies into a file of costs and keep the rest of it: comments, order, spaces."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from emsco._utils.atomic_write import write_whole
from emsco.core.costs import Costs
from emsco.exceptions import CostsError, require

_SOURCES, _LATENCY = "sources", "latency"


def with_latencies(text: str, latencies: Mapping[str, float]) -> str:
    """Return the text of a file of costs with these latencies, by source."""
    tomlkit = require("tomlkit", "live")
    try:
        document = tomlkit.parse(text)
        for name, latency in latencies.items():
            _set_latency(tomlkit, document[_SOURCES], name, float(latency))
        written = str(document.as_string())
    except (tomlkit.exceptions.TOMLKitError, KeyError) as error:
        raise CostsError(f"The file cannot be edited: {error}.") from None
    if 0 < text.count("\n") == text.count("\r\n"):  # tomlkit ends new lines without "\r"
        written = re.sub("(?<!\r)\n", "\r\n", written)
    return written


def _set_latency(tomlkit: Any, sources: Any, name: str, latency: float) -> None:
    """Set the latency of a source, in the way in which the file writes the source."""
    source: Any = sources[name]
    is_inline = isinstance(source, tomlkit.items.InlineTable)
    if isinstance(source, Mapping) and _LATENCY not in source and not is_inline:
        first = next(iter(source.values())).trivia
        if getattr(source, "display_name", None) is not None:  # [sources.page]
            # tomlkit would add it at the end, below a comment on the next table.
            newline = first.trail or "\n"
            first.trail = f"{newline}{first.indent}{_LATENCY} = {latency!r}{first.trail}"
            return
    if isinstance(source, Mapping) and (_LATENCY in source or not is_inline):
        sources[name][_LATENCY] = latency
        return
    written = source.as_string()
    if is_inline:  # page = { cost = 3 }: the spaces before the brace stay
        inner = written[:-1].rstrip()
        whole = f"{inner}, {_LATENCY} = {latency!r}{written[len(inner) :]}"
    else:  # page = 3
        whole = f"{{ cost = {written}, {_LATENCY} = {latency!r} }}"
    sources[name] = tomlkit.value(whole)


def write_latencies(path: str | os.PathLike[str], latencies: Mapping[str, float]) -> None:
    """Write latencies, in seconds, into a file of costs, and change nothing else in it.

    If the result would differ from the file in anything else, the file stays unchanged, and an
    error says what to write.
    """
    before = Costs.from_toml(path)
    lines = ", ".join(f"`latency = {value!r}` for {name!r}" for name, value in latencies.items())
    refused = CostsError(
        f"{os.fspath(path)} cannot be edited automatically and is unchanged; add the latencies "
        f"yourself: {lines}."
    )
    sources = [
        replace(source, latency=latencies.get(source.name, source.latency))
        for source in before.sources
    ]
    try:
        written = with_latencies(Path(path).read_bytes().decode("utf-8"), latencies).encode()
        found = _read(written)
    except CostsError:
        raise refused from None
    if found != replace(before, sources=tuple(sources)):
        raise refused
    write_whole(path, [written])


def _read(text: bytes) -> Costs:
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / "costs.toml"
        draft.write_bytes(text)
        return Costs.from_toml(draft)
