"""A mapping that never changes, so that values made of mappings can be hashed and shared."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value", covariant=True)


class FrozenMapping(Mapping[Key, Value]):
    """A read-only copy of a mapping; unlike `types.MappingProxyType` it hashes and pickles."""

    __slots__ = ("_items",)
    _items: dict[Key, Value]

    def __init__(self, items: Mapping[Key, Value] | None = None) -> None:
        # Another one never changes, so its items are shared.
        shared = items._items if isinstance(items, FrozenMapping) else dict(items or {})
        object.__setattr__(self, "_items", shared)

    def __getitem__(self, key: Key) -> Value:
        return self._items[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    # Faster than those of Mapping, which go key by key: every evaluation uses them.
    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key, or the default."""
        return self._items.get(key, default)

    def keys(self) -> KeysView[Key]:
        """Return the keys."""
        return self._items.keys()

    def values(self) -> ValuesView[Value]:
        """Return the values."""
        return self._items.values()

    def items(self) -> ItemsView[Key, Value]:
        """Return pairs of keys and values."""
        return self._items.items()

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return repr(self._items)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is read-only; {name!r} cannot be set.")

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenMapping, (self._items,)
