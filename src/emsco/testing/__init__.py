"""Contracts as functions: run them on an engine or a search of your own.

Each takes a part and raises a `ContractError` at the first promise that is broken: an
`AssertionError` whose sentence says which. None needs a test runner.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emsco.testing._engines import check_engine
    from emsco.testing._searches import check_search

__all__ = ["check_engine", "check_search"]

# A suite is loaded when it is asked for: an engine's workers, who need only a function of its
# suite, must not wait for scikit-learn.
_MODULE_OF = {"check_engine": "_engines", "check_search": "_searches"}


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(import_module(f"emsco.testing.{_MODULE_OF[name]}"), name)
    raise AttributeError(f"module 'emsco.testing' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
