"""Experiments whose tables stand in the documentation, each run by command."""
