"""The live cascade, and where the values of each source are fetched from, key by key."""

from __future__ import annotations

from emsco.live.callable_source import CallableSource, KnownSource
from emsco.live.chat_source import ChatSource
from emsco.live.http_source import HTTPSource
from emsco.live.live_cascade import LiveCascade
from emsco.live.redis_source import RedisSource
from emsco.live.sources import Sources
from emsco.live.sql_source import SQLSource

__all__ = [
    "CallableSource",
    "ChatSource",
    "HTTPSource",
    "KnownSource",
    "LiveCascade",
    "RedisSource",
    "SQLSource",
    "Sources",
]
