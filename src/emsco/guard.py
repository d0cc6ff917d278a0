"""The guard that rejects rows unlike those of training."""

from emsco.rows.guard import InputGuard

__all__ = ["InputGuard"]
