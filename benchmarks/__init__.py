"""Benchmarks: ratios within one run, each against a reference program that stands in its file."""
