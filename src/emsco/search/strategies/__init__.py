"""Strategies: they propose designs, are told their evaluations, and give a front.

A new one is a file here and a line in `emsco.PUBLIC`; files keep it by its parameters.
"""
