"""Modules that can be imported by another name too: earlier paths, and those inside files."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType


class Aliases:
    """Finds the very module that another name stands for, whatever below it is asked for.

    A finder and a loader at once, as the import system knows them; the classes that it has for both
    would take longer to import than all of this package's first module.

    Parameters
    ----------
    names : mapping of str to str
        Full names of modules, the other one first.

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
        """Say that a module is here, where its name stands for another."""
        del path, target
        if not self._real(fullname):
            return None
        return ModuleSpec(fullname, self)  # type: ignore[arg-type]  # a loader by its methods

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Import the module that is meant."""
        module = import_module(self._real(spec.name))
        self._specs[spec.name] = module.__spec__  # which the import system is about to replace
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module as it is: it is there already."""
        alias = module.__spec__.name if module.__spec__ else module.__name__
        module.__spec__ = self._specs.pop(alias, module.__spec__)

    def _real(self, fullname: str) -> str:
        """Give the name that is meant; "" where this one is not another's."""
        for other, real in self._names.items():
            if fullname == other or fullname.startswith(f"{other}."):
                return real + fullname[len(other) :]
        return ""


def install(names: Mapping[str, str]) -> None:
    """Let modules be imported by other names, after all real ones were looked for."""
    sys.meta_path.append(Aliases(names))
