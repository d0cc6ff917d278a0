"""Cascades, fronts and searches in files, without running code that is not trusted."""

from emsco.io._file import FORMAT, dump, load
from emsco.io._final import load_final

__all__ = ["FORMAT", "dump", "load", "load_final"]
