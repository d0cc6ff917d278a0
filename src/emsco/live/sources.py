"""The live source for each source of the costs, and the TOML file that configures them."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from emsco._utils.toml_writer import toml_key, toml_value
from emsco.core.costs import Costs
from emsco.exceptions import SourcesError, nearest, quoted, refuse_unknown_keys
from emsco.live.callable_source import CallableSource
from emsco.live.http_source import HTTPSource
from emsco.live.known_source import KnownSource
from emsco.live.redis_source import RedisSource
from emsco.live.source import LiveSource
from emsco.live.sql_source import SQLSource

KINDS: Mapping[str, type[LiveSource]] = MappingProxyType(
    {"redis": RedisSource, "sql": SQLSource, "http": HTTPSource, "known": KnownSource}
)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
_DURATIONS = ("timeout", "ttl", "max_age", "max_skew")
# Fields that a file must not contain: files get copied, committed and mailed.
_SECRETS = {
    RedisSource: {"url": "url_env"},
    SQLSource: {"url": "url_env"},
    HTTPSource: {"headers": "headers_env"},
    KnownSource: {},
}


class Sources(Mapping[str, LiveSource]):
    """Live sources by name: how each source of the costs is fetched.

    Parameters
    ----------
    sources : mapping of str to source
        `CallableSource`, `RedisSource`, `SQLSource`, `HTTPSource`, or a custom source.

    Examples
    --------
    >>> from emsco.live import RedisSource, Sources
    >>> sources = Sources({"page": RedisSource(key="page:{key}", url_env="REDIS_URL", max_skew=5)})
    >>> print(sources.to_toml())
    [page]
    kind = "redis"
    key = "page:{key}"
    url_env = "REDIS_URL"
    max_skew = 5.0
    <BLANKLINE>
    """

    def __init__(self, sources: Mapping[str, LiveSource]) -> None:
        for name, source in sources.items():
            if not isinstance(source, LiveSource):
                raise SourcesError(f"Source {name!r} must be a live source, got {source!r}.")
        self._sources = dict(sources)

    def __getitem__(self, name: str) -> LiveSource:
        return self._sources[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sources) and self._sources == other._sources

    def __hash__(self) -> int:
        return hash(tuple(self._sources))

    def __repr__(self) -> str:
        return f"Sources({self._sources!r})"

    def check(self, costs: Costs, bought: Sequence[str] | None = None) -> None:
        """Raise an error if a source is not in the costs, or if one that is bought is missing.

        `bought` lists the sources that a cascade buys. None: all of them.
        """
        unknown = [name for name in self if name not in costs.names]
        if unknown:
            raise SourcesError(
                f"The costs have no source {unknown[0]!r}{nearest(unknown[0], costs.names)}"
            )
        needed = costs.names if bought is None else bought
        lacking = [name for name in needed if name not in self]
        if lacking:
            raise SourcesError(f"No live source is configured for {quoted(lacking)}.")
        prices = {source.name: source.cost for source in costs.sources}
        for name, source in self.items():
            has_price_field = getattr(source, "price_field", None) is not None
            if has_price_field and source.max_spend is not None and not prices[name]:
                raise SourcesError(
                    f"Source {name!r} has `max_spend` and `price_field`, so its price in the costs "
                    "must be above 0, because money is reserved before an answer states its "
                    "price; set it to the highest price of an answer."
                )

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Sources:
        """Read sources from a file, which names environment variables for URLs and secrets.

        The file has one table per source::

            [page]
            kind = "redis"
            url_env = "REDIS_URL"
            key = "page:{key}"
            key_field = "id"
            time_field = "seen_at"
            max_age = "7d"

        Parameters
        ----------
        path : path
            The file.

        Raises
        ------
        SourcesError
            If it cannot be read, is not valid TOML, or a name or value in it is wrong; the message
            says which.
        """
        path = Path(path)
        try:
            with path.open("rb") as file:
                data = tomllib.load(file)
        except OSError as error:
            beside = [known.name for known in path.parent.glob("*.toml")]
            raise SourcesError(
                f"{path} cannot be read: {error.strerror}{nearest(path.name, beside)}"
            ) from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SourcesError(f"{path} is not valid TOML: {error}.") from None
        return cls({name: _source_from(name, table) for name, table in data.items()})

    def to_toml(self) -> str:
        """Return the sources as TOML text that `from_toml` can read from a file."""
        return "\n".join(_table_of(name, source) for name, source in self.items())


def _source_from(name: str, table: Any) -> LiveSource:
    where = f"[{name}]"
    if not isinstance(table, dict):
        raise SourcesError(f"{where} must be a table, got {table!r}.")
    kind = table.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise SourcesError(
            f"{where} must have kind = {' or '.join(map(repr, KINDS))}, got {kind!r}."
        )
    made = KINDS[kind]
    for literal, variable in _SECRETS[made].items():
        if literal in table:
            raise SourcesError(
                f"{where} must not contain `{literal}`: put it into an environment variable and "
                f"name that in `{variable}`."
            )
    named = {field.name: field for field in fields(made)}
    refuse_unknown_keys(table, ["kind", *named], where, SourcesError)
    params = {key: _value(key, value, where) for key, value in table.items() if key != "kind"}
    needed = [n for n, f in named.items() if f.default is MISSING and f.default_factory is MISSING]
    for need in needed:
        if need not in params:
            raise SourcesError(f"{where} must have `{need}`.")
    try:
        return made(**params)
    except SourcesError as error:
        raise SourcesError(f"{where}: {error}") from None


def _value(key: str, value: Any, where: str) -> Any:
    """Check the type of the value of a field, and convert durations to seconds."""
    if key in _DURATIONS:
        return _seconds(key, value, where)
    if key in _TEXTS and not isinstance(value, str):
        raise SourcesError(f"{where}: `{key}` must be a string, got {value!r}.")
    if key in _TABLES and not (
        isinstance(value, dict) and all(isinstance(text, str) for text in value.values())
    ):
        raise SourcesError(f"{where}: `{key}` must be a table of strings, got {value!r}.")
    if key == "billed" and not isinstance(value, list):
        raise SourcesError(f"{where}: `billed` must be a list, got {value!r}.")
    if key == "batch" and not isinstance(value, bool):
        raise SourcesError(f"{where}: `batch` must be true or false, got {value!r}.")
    return value


_TEXTS = ("url", "url_env", "key", "format", "key_field", "time_field", "price_field", "query",
          "rows", "idempotency_header")  # fmt: skip
_TABLES = ("fields", "features", "headers_env")


def _seconds(key: str, value: Any, where: str) -> float:
    if isinstance(value, str):
        read = _DURATION.fullmatch(value.strip())
        if read:
            return float(read[1]) * _SECONDS[read[2]]
    elif isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise SourcesError(
        f"{where}: `{key}` must be a number of seconds, or a string such as '300ms' or '7d', got "
        f"{value!r}."
    )


def _table_of(name: str, source: LiveSource) -> str:
    """Write one source as TOML, without the fields that have their default value."""
    kinds = [kind for kind, made in KINDS.items() if type(source) is made]
    if not kinds:
        what = "a Python function" if isinstance(source, CallableSource) else "a custom source"
        raise SourcesError(f"Source {name!r} is {what}, which cannot be written to a file.")
    secrets = _SECRETS[KINDS[kinds[0]]]
    lines = [f"[{toml_key(name)}]", f"kind = {toml_value(kinds[0])}"]
    own_first = sorted(fields(source), key=lambda field: field.name in _TERMS)
    for field in own_first:
        value = getattr(source, field.name)
        if value is None or value == field.default:
            continue
        if field.name in secrets:
            raise SourcesError(
                f"Source {name!r} has `{field.name}`, which must not be written to a file; use "
                f"`{secrets[field.name]}`."
            )
        if field.name in _DURATIONS:
            value = float(value)
        lines.append(
            f"{field.name} = {toml_value(dict(value) if field.name in _TABLES else value)}"
        )
    return "\n".join([*lines, ""])


_TERMS = {field.name for field in fields(LiveSource)}
