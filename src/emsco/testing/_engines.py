"""The contract of an engine: a pure function over chunks, in order, wherever it runs."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from emsco.engine import Engine, LocalEngine, resolve_engine
from emsco.exceptions import EmscoWarning, SearchError, ValuesError
from emsco.testing._contract import demand

if TYPE_CHECKING:
    from emsco.core.front import Candidate, ParetoFront

_CHUNKS = 12


def check_engine(engine: Engine) -> None:
    """Check an engine against everything that searches rely on.

    It must have `n_workers`, a whole number >= 1, and `map(function, chunks, *, shared=None)`,
    which returns a list of `function(chunk, shared)` in the order of the chunks. This must also
    hold if there are no chunks or only one, if later chunks finish earlier, and if an earlier call
    had other shared data. An exception in a function must be raised with the same type and message,
    and must not affect later calls. A search with this engine must give the same front as with
    `LocalEngine()`, bit for bit.

    The functions given to the engine are defined in a module, so that they can be pickled.

    Parameters
    ----------
    engine : Engine
        The engine, ready to run.

    Raises
    ------
    ContractError
        At the first broken promise; the message says which one.

    Examples
    --------
    >>> from emsco import LocalEngine
    >>> from emsco.testing import check_engine
    >>> check_engine(LocalEngine(n_jobs=2))
    """
    name = f"The engine {type(engine).__name__}"
    try:
        resolve_engine(engine)
    except SearchError as error:
        demand(False, str(error))
    _check_chunks(engine, name)
    _check_shared(engine, name)
    _check_errors(engine, name)
    _check_fronts(engine, name)


def _squared(chunk: int, shared: int) -> int:
    """Square a number; the first takes longest, so that it is done last where there are others."""
    time.sleep(0.1 if chunk == 0 else 0.0)
    return chunk**2 + shared


def _length(chunk: Any, shared: Any) -> tuple[int, bool]:
    return len(chunk), shared is None


def _row(chunk: int, shared: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.array(shared[chunk])


def _fail(chunk: int, shared: int) -> int:
    if chunk == shared:
        raise ValuesError(f"Row {chunk} cannot be judged.", row=chunk, column="age")
    return chunk


def _check_chunks(engine: Engine, name: str) -> None:
    """Demand a result for every chunk, in order, whatever chunks there are."""
    for chunks in (list(range(_CHUNKS)), range(_CHUNKS), tuple(range(_CHUNKS))):
        results = engine.map(_squared, chunks, shared=1)
        kind = type(results).__name__
        demand(isinstance(results, list), f"{name} gives a {kind}; `map` gives a list.")
        expected = [chunk**2 + 1 for chunk in chunks]
        if sorted(map(repr, results)) == sorted(map(repr, expected)):
            demand(results == expected, f"{name} loses the order of its chunks: {results}.")
        demand(results == expected, f"{name} gives {results} where {expected} is right.")
    few: list[tuple[list[Any], list[tuple[int, bool]]]] = [
        ([], []),
        ([[7, 8, 9]], [(3, True)]),
        ([[], np.empty((0, 3)), [1]], [(0, True), (0, True), (1, True)]),
    ]
    for chunks, lengths in few:
        got = engine.map(_length, chunks)
        demand(
            got == lengths,
            f"{name} gives {got} where {lengths} is right: the length of each of {len(chunks)} "
            "chunks, and whether `shared` is None, as it is where none is given.",
        )


def _check_shared(engine: Engine, name: str) -> None:
    """Demand that every call has the shared data of its own `map`, whole."""
    shared = np.random.default_rng(0).normal(size=(_CHUNKS, 2**14))
    for attempt, data in enumerate((shared, shared + 1.0)):
        results = engine.map(_row, range(_CHUNKS), shared=data)
        whole = np.array_equal(np.array(results), data)
        demand(whole or attempt, f"{name} changes the shared data, or what is made of them.")
        demand(whole, f"{name} hands on the shared data of an earlier call.")
    demand(
        engine.map(_squared, range(_CHUNKS), shared=0) == [chunk**2 for chunk in range(_CHUNKS)],
        f"{name} gives results of an earlier call with the same chunks.",
    )


def _check_errors(engine: Engine, name: str) -> None:
    """Demand that an error comes through as it was raised, and does no harm."""
    raised = None
    try:
        engine.map(_fail, range(_CHUNKS), shared=5)
    except Exception as error:
        raised = error
    message = "ValuesError: Row 5 cannot be judged."
    demand(raised is not None, f"{name} swallows what a function raises, {message}")
    demand(
        isinstance(raised, ValuesError) and f"ValuesError: {raised}" == message,
        f"{name} raises {type(raised).__name__}: {raised}, where a function raised {message}",
    )
    demand(
        getattr(raised, "row", None) == 5 and getattr(raised, "column", None) == "age",
        f"{name} loses what an error carries beside its message, the row and the column.",
    )
    demand(
        engine.map(_fail, range(5), shared=5) == list(range(5)),
        f"{name} does no more work after an error.",
    )


def _check_fronts(engine: Engine, name: str) -> None:
    """Demand fronts that do not depend on who fits: sets by the batch, and one by one."""
    from sklearn.linear_model import LogisticRegression

    for estimator, n_sources in ((None, 9), (LogisticRegression(), 3)):
        fitted = "the default classifier" if estimator is None else type(estimator).__name__
        demand(
            _front(estimator, n_sources, engine) == _front(estimator, n_sources, LocalEngine()),
            f"{name} changes the front of a search with {fitted}: it is not that of LocalEngine.",
        )


def _front(estimator: Any, n_sources: int, engine: Engine) -> ParetoFront:
    from emsco.search import CascadeSearchCV

    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    X = rng.normal(size=(len(y), n_sources)) + 0.5 * y[:, None]
    search = CascadeSearchCV(
        estimator,
        costs=list(range(1, n_sources + 1)),
        threshold=[0.6, 0.8],
        max_stages=2,
        cv=2,
        select=_cheapest,
        refit=False,
        engine=engine,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmscoWarning)
        found: ParetoFront = search.fit(X, y).front_
    return found


def _cheapest(front: ParetoFront) -> Candidate:
    return front[0]
