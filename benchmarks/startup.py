"""Importing the search against importing scikit-learn, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.measure import Result, best_times


def run(*, small: bool = False) -> list[Result]:  # noqa: ARG001  # seconds as it is
    """Measure both imports, the start of the interpreter included in both."""

    def start(line: str) -> None:
        subprocess.run([sys.executable, "-c", line], check=True)

    theirs_line = "from sklearn.linear_model import LogisticRegression"
    ours, theirs = best_times(
        lambda: start("from emsco import CascadeClassifier"), lambda: start(theirs_line), rounds=7
    )
    facts = {"seconds": round(ours, 3)}
    return [Result("from emsco import, against sklearn", ours / theirs, 1.3, facts=facts)]
