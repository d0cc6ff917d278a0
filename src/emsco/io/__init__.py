"""Cascades, fronts and searches in files: data where that is enough, and no code unasked."""

from emsco.io._file import FORMAT, dump, load
from emsco.io._final import load_final

__all__ = ["FORMAT", "dump", "load", "load_final"]
