"""Contracts as functions, to check your own engine, search, learner, driver or source.

Each function takes such a part and raises a `ContractError` at the first broken promise: an
`AssertionError` whose message says which one. No test runner is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emsco._utils.public_names import lazy

if TYPE_CHECKING:
    from emsco.testing._drivers import check_driver as check_driver
    from emsco.testing._engines import check_engine as check_engine
    from emsco.testing._learners import check_learner as check_learner
    from emsco.testing._searches import check_search as check_search
    from emsco.testing._sources import check_source as check_source

# A suite is loaded when it is asked for: an engine's workers, who need only a function of its
# suite, must not wait for scikit-learn.
SUITES = {
    "check_driver": "testing._drivers",
    "check_engine": "testing._engines",
    "check_learner": "testing._learners",
    "check_search": "testing._searches",
    "check_source": "testing._sources",
}

__all__ = sorted(SUITES)
__getattr__, __dir__ = lazy(__name__, SUITES)
