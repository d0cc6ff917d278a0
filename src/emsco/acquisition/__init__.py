"""The live cascade, and where the values of each source are fetched from, key by key."""

from __future__ import annotations

from emsco.acquisition.functions import CallableSource
from emsco.acquisition.http import HTTPSource
from emsco.acquisition.known import KnownSource
from emsco.acquisition.live import LiveCascade
from emsco.acquisition.redis import RedisSource
from emsco.acquisition.sources import Sources
from emsco.acquisition.sql import SQLSource

__all__ = [
    "CallableSource",
    "HTTPSource",
    "KnownSource",
    "LiveCascade",
    "RedisSource",
    "SQLSource",
    "Sources",
]
