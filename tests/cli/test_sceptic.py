"""The README's savings, as printed there: a model and its log in an empty folder."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import skops.io
from sklearn.ensemble import HistGradientBoostingClassifier

from emsco.datasets import load_phishing

README = Path(__file__).parents[2] / "README.md"


def test_savings_are_as_the_readme_prints_them(data_folder, tmp_path):
    section = README.read_text().partition("## In front of the model you have")[2]
    (block,) = re.findall(
        r"```console\n\$ emsco (.*?)```", section.partition("\n## ")[0], re.DOTALL
    )
    command, _, printed = block.replace("\\\n", "").partition("\n")
    X, y, costs = load_phishing(data_folder)
    order = np.random.default_rng(0).permutation(len(X))
    known, log = order[:3000], order[3000:]
    model = HistGradientBoostingClassifier(random_state=0).fit(X.iloc[known], y[known])
    skops.io.dump(model, tmp_path / "model.skops")
    costs.to_toml(tmp_path / "costs.toml")
    X.iloc[log].to_csv(tmp_path / "log.csv", index=False)
    start = time.monotonic()
    process = subprocess.run(
        [sys.executable, "-m", "emsco", *shlex.split(command)],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert time.monotonic() - start < 120
    for line in printed.splitlines():
        assert line in ("", "...") or line in process.stdout
