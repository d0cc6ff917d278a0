#!/usr/bin/env python3
"""What the build asks about the package: its version, or its files, below this folder."""

import re
import sys
from pathlib import Path

HERE = Path(__file__).parent


def version():
    """Give `__version__` as the package has it."""
    text = (HERE / "emsco" / "__init__.py").read_text(encoding="utf-8")
    return re.search(r'^__version__ = "(.+)"', text, flags=re.MULTILINE)[1]


def files():
    """List everything but what Python or a compiler has left behind."""
    left_behind = {".pyc", ".so", ".pyd"}
    found = [path for path in (HERE / "emsco").rglob("*") if path.is_file()]
    found = [path for path in found if path.suffix not in left_behind]
    return "\n".join(sorted(path.relative_to(HERE).as_posix() for path in found))


if __name__ == "__main__":
    sys.stdout.write({"version": version, "files": files}[sys.argv[1]]() + "\n")
