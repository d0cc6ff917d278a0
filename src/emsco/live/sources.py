"""The live source for each source of the costs, and the TOML file that configures them."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from emsco._utils.toml_writer import toml_key, toml_value
from emsco.core.costs import Costs
from emsco.exceptions import SourcesError, nearest, quoted, refuse_unknown_keys
from emsco.live.callable_source import CallableSource, KnownSource
from emsco.live.chat_source import ChatSource
from emsco.live.http_source import HTTPSource
from emsco.live.redis_source import RedisSource
from emsco.live.source import LiveSource
from emsco.live.sql_source import SQLSource

# The kinds that a file can name. A kind of your own is one class, and one entry here.
KINDS: dict[str, type[LiveSource]] = {
    "redis": RedisSource,
    "sql": SQLSource,
    "http": HTTPSource,
    "chat": ChatSource,
    "known": KnownSource,
}
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")


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
    named = {one.name: one for one in fields(made)}
    for name, one in named.items():
        if "variable" in one.metadata and name in table:
            raise SourcesError(
                f"{where} must not contain `{name}`: put it into an environment variable and "
                f"name that in `{one.metadata['variable']}`."
            )
    refuse_unknown_keys(table, ["kind", *named], where, SourcesError)
    params = {
        key: _value(key, named[key].metadata.get("value", ""), value, where)
        for key, value in table.items()
        if key != "kind"
    }
    for need, one in named.items():
        if one.default is MISSING and one.default_factory is MISSING and need not in params:
            raise SourcesError(f"{where} must have `{need}`.")
    try:
        return made(**params)
    except SourcesError as error:
        raise SourcesError(f"{where}: {error}") from None


def _is_table_of_text(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


# What a value in a file must be, and how that is checked, by what its field holds.
_CHECKS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "text": ("a string", lambda value: isinstance(value, str)),
    "table": ("a table of strings", _is_table_of_text),
    "list": ("a list", lambda value: isinstance(value, list)),
    "boolean": ("true or false", lambda value: isinstance(value, bool)),
}


def _value(key: str, held: str, value: Any, where: str) -> Any:
    """Check the type of the value of a field, and convert durations to seconds."""
    if held == "seconds":
        return _seconds(key, value, where)
    wanted, is_right = _CHECKS.get(held, ("", lambda _: True))
    if not is_right(value):
        raise SourcesError(f"{where}: `{key}` must be {wanted}, got {value!r}.")
    return value


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
    lines = [f"[{toml_key(name)}]", f"kind = {toml_value(kinds[0])}"]
    own_first = sorted(fields(source), key=lambda one: one.name in _SHARED)
    for one in own_first:
        value, held = getattr(source, one.name), one.metadata.get("value", "")
        if value is None or value == one.default:
            continue
        if held == "secret":
            raise SourcesError(
                f"Source {name!r} has `{one.name}`, which must not be written to a file; use "
                f"`{one.metadata['variable']}`."
            )
        value = _WRITTEN_AS[held](value) if held in _WRITTEN_AS else value
        lines.append(f"{one.name} = {toml_value(value)}")
    return "\n".join([*lines, ""])


_SHARED = {one.name for one in fields(LiveSource)}
_WRITTEN_AS: Mapping[str, Callable[[Any], Any]] = {"seconds": float, "table": dict}
