"""Importing emsco stays light: nothing heavy beyond what scikit-learn loads itself."""

from __future__ import annotations

import json
import subprocess
import sys

HEAVY = {"numba", "pandas", "matplotlib", "ray", "skops", "plotly", "polars", "moocore"}


def modules_after(statement):
    code = f"import json, sys; {statement}; print(json.dumps(sorted(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout
    return {name.partition(".")[0] for name in json.loads(output)}


def test_import_adds_nothing_heavy_to_what_sklearn_loads():
    added = modules_after("import emsco") - modules_after("import sklearn")
    assert "emsco" in added
    assert not added & HEAVY
