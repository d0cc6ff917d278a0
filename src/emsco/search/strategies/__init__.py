"""Search strategies: they propose designs, receive their evaluations and return a front.

To add one, add a file here and a line in `emsco.PUBLIC`; saved files store it by its parameters.
"""
