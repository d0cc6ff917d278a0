"""Sources that are never fetched, because callers send their values with every row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from emsco.core.decisions import MISSING
from emsco.live.fetch_result import FetchResult, Key, Values
from emsco.live.source import LiveSource


@dataclass(frozen=True, kw_only=True)
class KnownSource(LiveSource):
    """A source whose values callers always send, as `known`. Nothing is ever fetched for it.

    A row without these values is rejected with the reason `missing`, and costs nothing.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from emsco import CascadeClassifier, Costs, Source, StageDesign
    >>> from emsco.live import CallableSource, KnownSource, LiveCascade, Sources
    >>> X, y = load_iris(return_X_y=True)
    >>> form = Source("form", cost=0, features=["x2", "x3"])
    >>> lab = Source("lab", cost=9, features=["x0", "x1"])
    >>> design = StageDesign.from_stages([["form"], ["lab"]])
    >>> cascade = CascadeClassifier(design=design, costs=Costs([form, lab])).fit(X, y)
    >>> def ask_the_lab(keys, values):
    ...     return {key: {"x0": X[key, 0], "x1": X[key, 1]} for key in keys}
    >>> sources = Sources({"form": KnownSource(), "lab": CallableSource(function=ask_the_lab)})
    >>> with_form = {"x2": X[[3, 70], 2], "x3": X[[3, 70], 3]}
    >>> live = LiveCascade(cascade, sources)
    >>> live.decide_now(keys=[3, 70], known=with_form).cost
    array([0., 9.])
    >>> print(live.decide_now(keys=[3])[0].reason)
    missing: form
    >>> live.close_now()
    """

    @property
    def needs(self) -> frozenset[str]:
        """Nothing: there is no request."""
        return frozenset()

    @property
    def is_fetched(self) -> bool:
        """False: callers send the values."""
        return False

    def open(self, features: Sequence[str]) -> KnownClient:
        """Return a client for rows whose callers sent no values."""
        return KnownClient(tuple(features))


@dataclass(frozen=True)
class KnownClient:
    """A client that has no values for any key."""

    features: tuple[str, ...]

    async def fetch(self, keys: Sequence[Key], values: Values) -> FetchResult:
        """Return "missing" for every key, at no cost."""
        del values
        nothing = FetchResult.failed(self.features, len(keys), MISSING)
        return nothing._replace(prices=[0.0] * len(keys))

    async def close(self) -> None:
        """Do nothing, because there is no connection."""
