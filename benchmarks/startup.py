"""`import emsco` against `import sklearn.linear_model`, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.measure import Result, best_times


def run() -> list[Result]:
    """Measure both imports, the start of the interpreter included in both."""

    def start(module: str) -> None:
        subprocess.run([sys.executable, "-c", f"import {module}"], check=True)

    ours, theirs = best_times(
        lambda: start("emsco"), lambda: start("sklearn.linear_model"), rounds=7
    )
    facts = {"seconds": round(ours, 3)}
    return [Result("import emsco, against sklearn.linear_model", ours / theirs, 1.3, facts=facts)]
