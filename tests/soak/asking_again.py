"""Ways to ask until a certificate is given: each must be refused, or be accounted for."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

from emsco import CascadeClassifier, CascadeSearchCV, InputGuard, StageDesign, dump, load
from emsco.certify import certify
from emsco.datasets import make_costly_classification
from emsco.exceptions import CertificateError
from emsco.rows.ledger import forget_all
from experiments.tables import markdown

STRICT: dict[str, Any] = {"accuracy": 0.9999}
LOOSE: dict[str, Any] = {"accuracy": 0.8}
_FITTED, _ROWS = 400, 1000
_SCRIPT = """
import sys
from emsco import load
from emsco.certify import certify
import pandas as pd
rows, model = pd.read_csv({rows!r}), load({model!r})
X, y = rows.drop(columns="y"), rows["y"]
try:
    answer = certify(model, X, y, accuracy={accuracy}, ledger={ledger!r})
except Exception as error:
    print(error)
    sys.exit(2)
sys.exit(0 if answer.certified else 1)
"""


def run(broken: list[str]) -> str:
    """Ask by every route, and tell what came of it."""
    with TemporaryDirectory() as folder:
        routes = _routes(Path(folder))
        rows = []
        for name, route in routes.items():
            forget_all()
            try:
                came = route()
            except CertificateError as error:
                came = f"refused: {str(error)[:60]}"
            rows.append([name, came])
            print(json.dumps({"asked again": name, "outcome": came}))
            if not came.startswith(("refused", "accounted for")):
                broken.append(f"asking again, {name}: {came}")
    return f"Asking again, {len(rows)} routes:\n\n" + markdown(["route", "outcome"], rows)


def _routes(folder: Path) -> dict[str, Callable[[], str]]:
    X, y, costs = make_costly_classification(_FITTED + _ROWS, 3, class_sep=3, random_state=0)
    train, rows = X[:_FITTED], X[_FITTED:].reset_index(drop=True)
    truth = y[_FITTED:]
    options: dict[str, Any] = {"costs": costs, "threshold": [0.6, 0.9], "random_state": 0}

    def fit() -> Any:
        return CascadeSearchCV(**options).fit(train, y[:_FITTED])

    def fit_one() -> Any:
        return CascadeClassifier(costs=costs, threshold=0.9).fit(train, y[:_FITTED])

    search = fit()
    other = search.front_[-1]
    dump(search, folder / "search.emsco")
    dump(search.best_cascade_, folder / "model.emsco")

    def again(second: Any, X_again: Any = rows, first: Any = search, **more: Any) -> str:
        """Ask for too much, then for less on the same rows."""
        if certify(first, rows, truth, **STRICT).certified:
            return "the first question was to fail"
        certify(second() if callable(second) else second, X_again, truth, **LOOSE, **more)
        return "issued"

    def shown(ask: Any) -> str:
        """Look at all candidates first."""
        n_shown = len(search.score_front(rows, truth))
        answer = certify(ask, rows, truth, **LOOSE)
        return f"accounted for: {answer.tried} tried" if answer.tried >= n_shown else "issued"

    def guarded() -> str:
        guard = fit()
        certify(guard, rows, truth, **LOOSE)
        guard.set_params(guard=InputGuard()).choose(by="accuracy")
        certify(guard, rows, truth, **LOOSE)
        return "issued"

    def narrower() -> str:
        """Take one of many certified on the same rows, and ask for tighter bounds of it alone."""
        first = certify(search, rows, truth, **LOOSE)
        certify(search.cascade(first.select().candidate), rows, truth, **LOOSE)
        return "issued"

    def processes(*, side_by_side: bool) -> str:
        path, ledger = folder / "rows.csv", folder / f"ledger {side_by_side}.jsonl"
        rows.assign(y=truth).to_csv(path, index=False)
        asked = [
            _SCRIPT.format(
                rows=str(path), model=str(folder / "model.emsco"), accuracy=accuracy,
                ledger=str(ledger),
            )
            for accuracy in (0.8, 0.81)
        ]  # fmt: skip
        begun = []
        for script in asked:
            begun.append(subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE))
            if not side_by_side:
                begun[-1].wait()
        codes = sorted(process.wait() for process in begun)
        return "refused: one of two processes" if codes == [0, 2] else f"issued: {codes}"

    def command_line() -> str:
        """Ask a run, its model, and the run searched again, each in a process of its own."""
        where = folder / "commands"
        where.mkdir()
        costs.to_toml(where / "costs.toml")
        train.assign(y=y[:_FITTED]).to_csv(where / "train.csv", index=False)
        rows.assign(y=truth).to_csv(where / "fresh.csv", index=False)

        def emsco(*arguments: str) -> int:
            command = [sys.executable, "-m", "emsco", *arguments]
            return subprocess.run(command, cwd=where, capture_output=True, check=False).returncode

        searching = ["search", "train.csv", "--label", "y", "--costs", "costs.toml", "--out", "run"]
        asking = ["fresh.csv", "--label", "y", "--accuracy"]
        codes = [emsco(*searching, "--quiet"), emsco("certify", "run", *asking, "0.9999")]
        codes += [emsco("certify", name, *asking, "0.8") for name in ("run", "run/model.emsco")]
        codes += [emsco(*searching, "--quiet", "--force"), emsco("certify", "run", *asking, "0.8")]
        return "refused: all three" if codes == [0, 1, 2, 2, 0, 2] else f"issued: {codes}"

    return {
        "another question": lambda: again(search),
        "with a new index": lambda: again(search, rows.set_axis([f"a{i}" for i in range(_ROWS)])),
        "with new keys": lambda: again(search, keys=[f"b{i}" for i in range(_ROWS)]),
        "with rows shuffled": lambda: _shuffled(search, rows, truth),
        "with half of the rows": lambda: _half(search, rows, truth),
        "as float32": lambda: again(search, rows.astype(np.float32)),
        "without a column that is not used": lambda: _dropped(costs, train, y, rows, truth),
        "a share that was not declared": lambda: again(search, share=0.5),
        "with other groups": lambda: again(search, groups=np.arange(_ROWS) // 2),
        "with other labels": lambda: again(lambda: _relabelled(search, rows, truth)),
        "a deep copy": lambda: again(lambda: copy.deepcopy(search)),
        "a pickled copy": lambda: again(lambda: pickle.loads(pickle.dumps(search))),
        "a file loaded": lambda: again(lambda: load(folder / "search.emsco")),
        "a file loaded twice": lambda: again(
            lambda: load(folder / "model.emsco"), first=load(folder / "model.emsco")
        ),
        "the same fit again": lambda: again(fit),
        "a cascade fitted again": lambda: again(fit_one, first=fit_one()),
        "another candidate of the search": lambda: again(search.cascade(other)),
        "the search after its cascade": lambda: again(search, first=search.cascade(other)),
        "another guard": guarded,
        "one of many, alone": narrower,
        "a cascade after score_front": lambda: shown(search.cascade(other)),
        "the search after score_front": lambda: shown(search),
        "two processes, one ledger": lambda: processes(side_by_side=False),
        "two processes at once": lambda: processes(side_by_side=True),
        "the command line": command_line,
    }


def _shuffled(search: CascadeSearchCV, rows: pd.DataFrame, truth: Any) -> str:
    order = np.random.default_rng(0).permutation(len(rows))
    certify(search, rows, truth, **STRICT)
    certify(search, rows.iloc[order].reset_index(drop=True), truth[order], **LOOSE)
    return "issued"


def _half(search: CascadeSearchCV, rows: pd.DataFrame, truth: Any) -> str:
    certify(search, rows, truth, **STRICT)
    certify(search, rows[::2].reset_index(drop=True), truth[::2], **LOOSE)
    return "issued"


def _dropped(costs: Any, train: pd.DataFrame, y: Any, rows: pd.DataFrame, truth: Any) -> str:
    design = StageDesign.from_stages([["s0"], ["s1"]], costs.names)
    model = CascadeClassifier(design=design, costs=costs, threshold=0.6).fit(train, y[: len(train)])
    certify(model, rows, truth, **STRICT)
    certify(model, rows.drop(columns="s2"), truth, **LOOSE)
    return "issued"


def _relabelled(search: CascadeSearchCV, rows: pd.DataFrame, truth: Any) -> CascadeSearchCV:
    labels = truth.copy()
    labels[0] = 1 - labels[0]
    certify(search, rows, labels, **LOOSE)
    return search
