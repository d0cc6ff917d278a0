"""Files of sources with something changed: refused by name, or written back as they were read."""

from __future__ import annotations

import os
import re
import string
import tomllib
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import numpy as np

from emsco._utils.toml_writer import toml_key, toml_value
from emsco.exceptions import SourcesError
from emsco.live import HTTPSource, Sources
from tests.soak.live.bars import Bar, tell
from tests.soak.live.stores import Stores
from tests.soak.mutators import Rng, mutate_tree

_PART = "mutations"
FILE = """\
[page]
kind = "redis"
url_env = "REDIS_URL"
key = "page:{key}"
format = "json"
fields = { length = "len", links = "n_links" }
key_field = "id"
time_field = "seen_at"
max_age = "7d"
ttl = 60
retries = 2

[whois]
kind = "http"
url = "https://whois.example/v1/{domain}"
headers_env = { Authorization = "WHOIS_TOKEN" }
features = { domain_age = "/age_days" }
key_field = "/id"
price_field = "/price"
idempotency_header = "Idempotency-Key"
timeout = 0.4
paid = true
max_spend = 200
concurrency = 8

[score]
kind = "http"
url = "https://score.example/rows"
batch = true
rows = "/rows"
key_field = "/id"
time_field = "/at"
max_skew = "30s"

[registry]
kind = "sql"
url_env = "REGISTRY_DSN"
query = "SELECT id, dns_record FROM dns WHERE id IN :keys"
key_field = "id"
breaker = 3
"""
_ENVIRONMENT = {
    "REDIS_URL": "redis://127.0.0.1:1/0", "WHOIS_TOKEN": "token",
    "REGISTRY_DSN": "sqlite+aiosqlite://",
}  # fmt: skip
_REFUSED, _WRITTEN, _WRONG = "refused", "written back", "wrong"
_SIGNS = [*string.printable, *"äß\0\x7f{}[]\"'=:,.#"]
_WORDS = [
    "nan", "inf", "-1", "0", "1e999", "true", '"7 weeks"', '"-5s"', '"1e3d"', "''", '"{key}"',
    '"{"', "[]", "{}", "2020-01-01", '"\\u0000"', "10000000000000000000000", '"/a~2"', '"http://"',
]  # fmt: skip


def measure(_: Stores, *, small: bool) -> list[Bar]:
    """Change 5,000 files; `--small`, 300."""
    n_files = 300 if small else 5_000
    rng = np.random.default_rng(0)
    ways: list[Callable[[str, Rng], str]] = [_signs, _lines, _values, _tree, _tree]
    ended: Counter[str] = Counter()
    with TemporaryDirectory() as folder, mock.patch.dict(os.environ, _ENVIRONMENT):
        path = Path(folder, "sources.toml")
        for number in range(n_files):
            text = FILE
            while text == FILE:
                text = ways[number % len(ways)](FILE, rng)
            how = read_back(text, path)
            ended[how if how in (_REFUSED, _WRITTEN) else _WRONG] += 1
            if ended[_WRONG] and how not in (_REFUSED, _WRITTEN):
                tell(_PART, wrong=how, text=text)
    tell(_PART, files=n_files, ended=dict(ended))
    measured = ", ".join(f"{n:,} {how}" for how, n in ended.items())
    return [
        Bar(f"{n_files:,} mutations of sources.toml", "refused by name, or read and written back",
            measured, not ended[_WRONG]),
    ]  # fmt: skip


def read_back(text: str, path: Path) -> str:
    """Read a file, write what was read, read that again, and open it; say how it ended."""
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    try:
        sources = Sources.from_toml(path)
    except SourcesError as error:
        return _REFUSED if _names(str(error), text) else f"refused without a name: {error}"
    except Exception as error:
        return f"raised {error!r}"
    try:
        path.write_text(sources.to_toml(), encoding="utf-8")
        if Sources.from_toml(path) != sources:
            return f"written back as {sources.to_toml()!r}"
        _open(sources)
    except Exception as error:
        return f"raised {error!r} after it was read"
    return _WRITTEN


def _open(sources: Sources) -> None:
    """Open each source, without asking it for anything; certificates for HTTP take too long."""
    for source in sources.values():
        if isinstance(source, HTTPSource):
            continue
        with suppress(SourcesError):
            source.open(["length", "links", "domain_age", "dns_record"])


def _names(message: str, text: str) -> bool:
    """Say whether a message names a source, or says where the file is no TOML."""
    if "is not valid TOML" in message:
        return bool(re.search(r"line|column|end of document|codec", message))
    return any(f"[{name}]" in message for name in tomllib.loads(text))


def _signs(text: str, rng: Rng) -> str:
    """Insert, delete or replace a few signs."""
    for _ in range(int(rng.integers(1, 4))):
        at, cut = int(rng.integers(len(text))), int(rng.integers(4))
        new = "".join(rng.choice(_SIGNS, size=int(rng.integers(3))))
        text = text[:at] + new + text[at + cut :]
    return text


def _lines(text: str, rng: Rng) -> str:
    """Delete, double or move a line."""
    lines = text.splitlines()
    one, other = (int(rng.integers(len(lines))) for _ in range(2))
    how = int(rng.integers(3))
    line = lines[one] if how == 1 else lines.pop(one)
    if how:
        lines.insert(other, line)
    return "\n".join([*lines, ""])


def _values(text: str, rng: Rng) -> str:
    """Let a line say something else, or what another line says."""
    lines = text.splitlines()
    given = [i for i, line in enumerate(lines) if "=" in line]
    at, other = (given[int(rng.integers(len(given)))] for _ in range(2))
    new = lines[other].partition("=")[2] if rng.random() < 0.3 else str(rng.choice(_WORDS))
    lines[at] = f"{lines[at].partition('=')[0]}= {new}"
    return "\n".join([*lines, ""])


def _tree(text: str, rng: Rng) -> str:
    """Change what the file holds, as files of models are changed, and write it anew."""
    data = tomllib.loads(text)
    for _ in range(int(rng.integers(1, 3))):
        mutate_tree(data, rng)
    parts = []
    for name, table in data.items():
        if isinstance(table, dict):
            lines = [f"{toml_key(key)} = {toml_value(_plain(v))}" for key, v in table.items()]
            parts.append("\n".join([f"[{toml_key(name)}]", *lines, ""]))
        else:
            parts.insert(0, f"{toml_key(name)} = {toml_value(_plain(table))}")
    return "\n".join(parts)


def _plain(value: Any) -> Any:
    """Give a value as TOML may have it: it has no null."""
    if value is None:
        return ""
    if isinstance(value, list):
        return tuple(_plain(item) for item in value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value
