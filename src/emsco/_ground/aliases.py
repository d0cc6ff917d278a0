"""Import modules by other names too: their public paths, and those stored in files."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType


class Aliases:
    """Finds the module that another name stands for, and everything below it.

    It is a finder and a loader without importlib's base classes, which would take longer to import
    than the package itself.

    Parameters
    ----------
    names : mapping of str to str
        The full name of each module, by its other name.

    Examples
    --------
    >>> import emsco.costs, emsco.words.costs
    >>> emsco.costs is emsco.words.costs
    True
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = dict(names)
        self._specs: dict[str, ModuleSpec | None] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec if the name stands for another module."""
        del path, target
        if not self._real(fullname):
            return None
        return ModuleSpec(fullname, self)  # type: ignore[arg-type]  # a loader by its methods

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Import the real module."""
        module = import_module(self._real(spec.name))
        self._specs[spec.name] = module.__spec__  # the import system is about to replace it
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module as it is, because it is already imported."""
        alias = module.__spec__.name if module.__spec__ else module.__name__
        module.__spec__ = self._specs.pop(alias, module.__spec__)

    def _real(self, fullname: str) -> str:
        """Return the real name; "" if this name is not an alias."""
        for other, real in self._names.items():
            if fullname == other or fullname.startswith(f"{other}."):
                return real + fullname[len(other) :]
        return ""


def install(names: Mapping[str, str]) -> None:
    """Let modules be imported by other names, if no real module has that name."""
    sys.meta_path.append(Aliases(names))
