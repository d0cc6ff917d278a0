"""Whether a Ray node that is killed at any moment changes a search or a scoring: it must not."""

from __future__ import annotations

import json
import shutil
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
from numpy.typing import NDArray
from sklearn.naive_bayes import GaussianNB

from emsco import CascadeClassifier, CascadeSearchCV, LocalEngine, LocalSearch, StageDesign
from emsco.datasets import make_costly_classification
from emsco.ray import RayEngine, decide_dataset
from experiments.nodes import Nodes
from experiments.tables import markdown

KILLS, SMALL_KILLS = 10, 1  # of each kind
N_NODES = 2
SEARCHED, SMALL_SEARCHED = 10_000, 4_000  # rows
FITS = 120
FILES, SMALL_FILES = 40, 12
FILE_ROWS = 200_000
DETECTION = 60.0  # seconds: Ray's own detection of a dead node takes 15 to 25 of them


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Kill a node ten times while a search runs, and ten times while rows are scored."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    kills = SMALL_KILLS if small else KILLS
    with Nodes(N_NODES) as nodes, RayEngine(address=nodes.address) as engine:
        rows = [
            work(nodes, engine, rng, kills, small)
            for part, work in _PARTS.items()
            if only is None or part in only
        ]
    header = ["while it", "killed", "same result", "seconds undisturbed", "seconds at most"]
    return markdown(header, rows)


def _kill(
    what: str,
    nodes: Nodes,
    rng: np.random.Generator,
    kills: int,
    work: Callable[[], Any],
    is_right: Callable[[Any], bool],
) -> list[str]:
    """Kill a node at random moments of some work, and hold its result against the right one."""
    work()  # starts and fills the workers
    started = time.monotonic()
    if not is_right(work()):
        raise SystemExit(f"{what}: another result, undisturbed.")
    undisturbed = time.monotonic() - started
    longest, killed = 0.0, 0
    while killed < kills:
        moment = float(rng.random() * undisturbed)
        begun, done = time.monotonic(), threading.Event()
        hit: list[bool] = []
        killer = threading.Thread(target=_kill_after, args=(moment, nodes, done, hit))
        killer.start()
        result = work()
        seconds = time.monotonic() - begun
        done.set()
        killer.join()
        nodes.replace()
        if not hit[0]:
            continue  # it had ended
        killed += 1
        longest = max(longest, seconds)
        told = {"while": what, "after": round(moment, 1), "seconds": round(seconds, 1)}
        print(json.dumps(told), flush=True)
        if not is_right(result):
            raise SystemExit(f"{what}, a node killed: another result.")
        if seconds > N_NODES * undisturbed + DETECTION:
            raise SystemExit(f"{what}, a node killed: it took {seconds:.0f} seconds.")
    return [what, str(killed), str(killed), f"{undisturbed:.1f}", f"{longest:.1f}"]


def _kill_after(moment: float, nodes: Nodes, done: threading.Event, hit: list[bool]) -> None:
    time.sleep(moment)
    hit.append(not done.is_set())
    nodes.kill()


def _search(
    nodes: Nodes, engine: RayEngine, rng: np.random.Generator, kills: int, small: bool
) -> list[str]:
    n_rows = SMALL_SEARCHED if small else SEARCHED
    X, y, costs = make_costly_classification(n_rows, n_sources=10, random_state=0)

    def found(used: Any) -> list[Any]:
        search = CascadeSearchCV(
            GaussianNB(),
            costs=costs,
            search=LocalSearch(evaluations=2000, fits=FITS),
            cv=3,
            select={"by": "coverage"},
            refit=False,
            engine=used,
            random_state=0,
        ).fit(X, y)
        return [list(search.front_), search.history_, search.best_candidate_]

    expected = found(LocalEngine())
    return _kill(
        "searches", nodes, rng, kills, lambda: found(engine), lambda result: result == expected
    )


def _scoring(
    nodes: Nodes, engine: RayEngine, rng: np.random.Generator, kills: int, small: bool
) -> list[str]:
    n_files = SMALL_FILES if small else FILES
    X = rng.normal(size=(FILE_ROWS, 6))
    y = (X[:2000] @ np.linspace(2, 0.5, 6) + rng.logistic(size=2000) > 0).astype(int)
    cascade = CascadeClassifier(design=StageDesign(np.arange(6) // 2), threshold=0.85)
    cascade.fit(_table(X[:2000]), y)
    expected = cascade.decide(_table(X))
    with TemporaryDirectory(prefix="emsco-ray-") as made:
        folder = Path(made)
        (folder / "rows").mkdir()
        for i in range(n_files):
            # Each file has the same rows, turned by as many places as its number.
            pa.parquet.write_table(
                _table(np.roll(X, i, axis=0)), folder / "rows" / f"{i:03}.parquet"
            )

        def work() -> int:
            shutil.rmtree(folder / "out", ignore_errors=True)
            return decide_dataset(cascade, folder / "rows", folder / "out", engine=engine).rows

        def is_right(rows: int) -> bool:
            return rows == n_files * FILE_ROWS and _once(folder / "out", n_files, expected)

        return _kill("scores", nodes, rng, kills, work, is_right)


def _table(X: NDArray[np.float64]) -> pa.Table:
    return pa.table({f"x{i}": column for i, column in enumerate(X.T)})


def _once(out: Path, n_files: int, expected: Any) -> bool:
    """Say whether every row of every file is there exactly once, decided as it should be."""
    table = pa.dataset.dataset(out).to_table(columns=["file", "row", "label", "confidence"])
    numbers = np.array([int(Path(name).stem) for name in table["file"].unique().to_pylist()])
    if sorted(numbers) != list(range(n_files)) or len(table) != n_files * FILE_ROWS:
        return False
    of_file = table["file"].combine_chunks().dictionary_encode()
    file = numbers[of_file.indices.to_numpy()]
    row: NDArray[np.int64] = table["row"].to_numpy()
    if len(np.unique(file * FILE_ROWS + row)) != len(table):
        return False
    place = (row - file) % FILE_ROWS
    same_label = table["label"].to_numpy() == expected.label[place]
    same_confidence = table["confidence"].to_numpy() == expected.confidence[place]
    drafts = [path for path in out.iterdir() if path.name.startswith(".")]
    return bool(same_label.all() and same_confidence.all() and not drafts)


_PARTS = {"search": _search, "scoring": _scoring}
