"""The part of the search benchmarks that takes seconds: what CI runs."""

from benchmarks.search import run_quick as run  # noqa: F401
