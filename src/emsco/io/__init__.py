"""Cascades, fronts and searches in files, without running code that is not trusted."""

from emsco.io._foreign_model import load_final
from emsco.io._model_file import FORMAT, dump, load

__all__ = ["FORMAT", "dump", "load", "load_final"]
