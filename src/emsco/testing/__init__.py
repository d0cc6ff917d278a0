"""Contracts as functions, to check your own engine, search, learner, driver or source.

Each function takes such a part and raises a `ContractError` at the first broken promise: an
`AssertionError` whose message says which one. No test runner is needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emsco.testing._drivers import check_driver as check_driver
    from emsco.testing._engines import check_engine as check_engine
    from emsco.testing._learners import check_learner as check_learner
    from emsco.testing._searches import check_search as check_search
    from emsco.testing._sources import check_source as check_source

# A suite is loaded when it is asked for: an engine's workers, who need only a function of its
# suite, must not wait for scikit-learn.
SUITES = {
    "check_driver": "_drivers",
    "check_engine": "_engines",
    "check_learner": "_learners",
    "check_search": "_searches",
    "check_source": "_sources",
}

__all__ = sorted(SUITES)


def __getattr__(name: str) -> Any:
    if name in SUITES:
        return getattr(import_module(f"emsco.testing.{SUITES[name]}"), name)
    raise AttributeError(f"module 'emsco.testing' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *SUITES})
