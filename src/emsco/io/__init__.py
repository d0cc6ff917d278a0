"""Cascades, fronts and searches in files: data where that is enough, and no code unasked."""

from emsco.io._file import FORMAT, dump, load

__all__ = ["FORMAT", "dump", "load"]
