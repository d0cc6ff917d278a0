"""A deployed model: loaded, checked and warmed up before its first request."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any

import numpy as np

from emsco.cascade import CascadeClassifier, Decider
from emsco.cascade.fingerprint import fingerprint
from emsco.certify import problem_with
from emsco.certify.monitor import CertificateMonitor
from emsco.exceptions import ServiceError
from emsco.io import load
from emsco.live import LiveCascade, Sources
from emsco.live.accounts import Accounts
from emsco.live.decision_log import DecisionLog
from emsco.live.fetch_all import check_open
from emsco.live.source import APART
from emsco.rows.column_reader import ColumnReader
from emsco.serve.events import WARNING, log_event, tell_loss
from emsco.serve.model_compatibility import ModelTerms
from emsco.serve.model_monitor import monitor_of
from emsco.serve.settings import Settings
from emsco.serve.shadow import ShadowMode


class Deployment:
    """A model with its live cascade; `make` and `load` return one that is warmed up."""

    def __init__(
        self, model: Any, sources: Sources, settings: Settings, accounts: Accounts | None = None
    ) -> None:
        self.model, self.sources = model, sources
        self.cascade = cascade_of(model)
        self.certificate = getattr(model, "certificate_", None)
        self.shadow: ShadowMode | None = None
        if settings.shadow:
            self.digest = fingerprint(self.decider)
            self.shadow = ShadowMode(self.decider, sources, settings, self.digest, accounts)
            self.live = self.shadow.live
        else:
            self.live = LiveCascade(
                self.cascade,
                sources,
                max_cost=settings.max_cost,
                deadline=settings.deadline,
                log=settings.log,
                log_values=settings.log_values,
                on_log_failure=settings.on_log_failure,
                accounts=accounts,
            )
            self.digest = self.live.model
        if self.log is not None:
            self.log.tell = tell_loss
        self._used = 0
        self._is_retired = False
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    async def make(
        cls, model: Any, sources: Sources, settings: Settings, accounts: Accounts | None = None
    ) -> Deployment:
        """Check a model and its sources, and warm it up."""
        made = await asyncio.to_thread(cls, model, sources, settings, accounts)
        await asyncio.to_thread(made._prepare)
        await check_open(sources, made.decider.costs, made.bought)
        await made._warm()
        return made

    @classmethod
    async def load(cls, settings: Settings, accounts: Accounts | None = None) -> Deployment:
        """Load the model and the sources named in the settings, check them and warm up."""
        sources = await asyncio.to_thread(Sources.from_toml, settings.sources)
        model = await asyncio.to_thread(load, settings.model, trusted=settings.trust)
        return await cls.make(model, sources, settings, accounts)

    def __repr__(self) -> str:
        return f"Deployment(model={self.digest[:12]!r})"

    @property
    def decider(self) -> Decider:
        """The decider of the cascade."""
        return self.cascade.decider_

    @property
    def log(self) -> DecisionLog | None:
        """The decision log, or None."""
        return self.live.log if self.shadow is None else self.shadow.log

    @property
    def bought(self) -> list[str]:
        """The sources that the model can buy."""
        return list(self.live.terms.bought)

    @cached_property
    def standing(self) -> ModelTerms:
        """The properties that clients rely on."""
        is_certified = self.certificate is not None and bool(self.certificate.certified)
        return ModelTerms(tuple(self.decider.classes.tolist()), is_certified)

    @cached_property
    def monitor(self) -> CertificateMonitor | None:
        """A new monitor of the certificate; None if there is nothing to watch."""
        return monitor_of(self.certificate, self.model)

    def _prepare(self) -> None:
        """Do the slow work that needs no event loop, while requests continue."""
        if self.standing.is_certified and (problem := problem_with(self.certificate, self.model)):
            raise ServiceError(f"The certificate is not valid: {problem}")
        held: dict[str, Any] = {}
        for stage in self.decider.plan.stages:
            with suppress(Exception):  # the row is made up, and a user's model may refuse it
                made_up = {}
                for name in stage.features:
                    value = self.example(name)
                    kind = np.float64 if isinstance(value, float) else object
                    made_up[name] = np.array([value], dtype=kind)
                answer = self.decider.examine(made_up)
                held |= zip(stage.features, answer.columns, strict=True)
                stage.judge(held)

    async def _warm(self) -> None:
        """Decide zero rows and one row without fetching, so that the first request is not slow."""
        known: dict[str, Any] = dict.fromkeys(self.needed, "")
        known |= {name: self.example(name) for name in self.features}
        trial = LiveCascade(self.cascade, self.sources)  # without the log and the accounts
        try:
            for keys in ([], ["warm"]):
                await trial.decide(keys, {name: [known[name]] * len(keys) for name in known})
        finally:
            await trial.close()
        await self.live.__aenter__()

    @cached_property
    def is_counted(self) -> bool:
        """Whether a source is paid or has a spending limit."""
        sources = [self.sources[name] for name in self.bought]
        return any(source.paid or source.max_spend is not None for source in sources)

    @cached_property
    def needs(self) -> dict[str, frozenset[str]]:
        """The values that a request to each source uses, besides the key."""
        return {name: frozenset(self.sources[name].needs) for name in self.bought}

    @cached_property
    def features(self) -> tuple[str, ...]:
        """The features of its sources."""
        return tuple(f for name in self.bought for f in self.decider.costs.columns(name))

    @cached_property
    def needed(self) -> tuple[str, ...]:
        """The values that every client must send: not fetched, or used by requests to sources."""
        used = {need for name in self.bought for need in self.sources[name].needs}
        sent = {
            feature
            for name in self.bought
            if not self.sources[name].is_fetched
            for feature in self.decider.costs.columns(name)
        }
        cap = self.decider.cap
        stake = set() if cap is None else {cap.column}
        return tuple(sorted(sent | stake | (used - set(self.features))))

    def example(self, feature: str) -> Any:
        """Make up a value of a feature."""
        reader: ColumnReader | None = self.decider.readers.get(feature)
        if reader is None:
            is_stake = self.decider.cap is not None and feature == self.decider.cap.column
            return "text" if feature in self.needed and not is_stake else 0.0
        if reader.is_number is not False:
            return 0.0
        levels = reader.known_levels
        value = levels[0] if len(levels) else ""
        return value.item() if isinstance(value, np.generic) else value

    @cached_property
    def may_be_known(self) -> frozenset[str]:
        """The values that clients may send."""
        return frozenset((*self.features, *self.needed))

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep it open while a request uses it."""
        self._used += 1
        try:
            yield
        finally:
            self._used -= 1
            self._close_if_unused()

    def retire(self) -> None:
        """Close it as soon as no request uses it."""
        self._is_retired = True
        self._close_if_unused()

    def _close_if_unused(self) -> None:
        if self._is_retired and not self._used and self._closing is None:
            self._closing = asyncio.ensure_future(self._close_at_rest())

    async def _close_at_rest(self) -> None:
        """Close after paid calls whose callers have left have had time to finish."""
        if any(self.sources[name].paid for name in self.bought):
            await asyncio.sleep(APART)
        await self.live.close()

    async def close(self) -> None:
        """Close all connections."""
        if self._closing is not None:
            self._closing.cancel()
            with suppress(asyncio.CancelledError):
                await self._closing
        await self.live.close()

    @cached_property
    def description(self) -> dict[str, Any]:
        """The description of the model: design, prices, certificate and digest."""
        decider, costs = self.decider, self.decider.costs
        classes = decider.classes.tolist()
        stages = [
            {
                "sources": list(stage.sources),
                "features": list(stage.features),
                "cost": stage.cost,
                "thresholds": [
                    {"label": label, "confidence": needed}
                    for label, needed in zip(classes, thresholds.tolist(), strict=True)
                ],
            }
            for stage, thresholds in zip(decider.plan.stages, decider.thresholds, strict=True)
        ]
        prices = {source.name: source.cost for source in costs.sources}
        certificate = None
        if self.certificate is not None:
            problem = problem_with(self.certificate, self.model)
            certificate = {"sentence": self.certificate.sentence, "holds": not problem,
                           "problem": problem}  # fmt: skip
        return {
            "model": self.digest,
            "labels": classes,
            "stages": stages,
            "prices": prices,
            "setups": dict(costs.setups),
            "unit": costs.unit,
            "known": sorted(self.may_be_known),
            "needed": list(self.needed),
            "certificate": certificate,
            "promise": self.live.promise,
            "shadow": self.shadow is not None,
        }


def cascade_of(model: Any) -> CascadeClassifier:
    """Return the cascade itself, or the best one of a search."""
    cascade = getattr(model, "best_cascade_", model)
    if not isinstance(cascade, CascadeClassifier):
        raise ServiceError(f"The model must be a cascade, got a {type(model).__name__}.")
    return cascade


def tell_sources(new: Deployment, before: Deployment) -> None:
    """Log the sources that are added, removed or changed by a new model."""
    added = [name for name in new.bought if name not in before.bought]
    removed = [name for name in before.bought if name not in new.bought]
    both = [name for name in new.bought if name in before.bought]
    changed = [name for name in both if new.sources[name] != before.sources[name]]
    if added or removed or changed:
        log_event("sources", WARNING, added=added, removed=removed, changed=changed)
