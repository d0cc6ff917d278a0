"""A mapping that never changes, so that values made of mappings can be hashed and shared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value", covariant=True)


class FrozenMapping(Mapping[Key, Value]):
    """A read-only copy of a mapping; unlike `types.MappingProxyType` it hashes and pickles."""

    __slots__ = ("_items",)
    _items: dict[Key, Value]

    def __init__(self, items: Mapping[Key, Value] | None = None) -> None:
        object.__setattr__(self, "_items", dict(items or {}))

    def __getitem__(self, key: Key) -> Value:
        return self._items[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return repr(self._items)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} never changes; {name!r} cannot be set.")

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenMapping, (self._items,)
