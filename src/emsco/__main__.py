"""`python -m emsco` is `emsco`."""

from emsco.cli import main

main()
