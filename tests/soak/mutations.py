"""Whether a file whose values were changed, and whose hashes are right, is refused or decides."""

from __future__ import annotations

import gc
import json
import os
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from emsco import (
    CascadeClassifier,
    CascadeSearchCV,
    Costs,
    Exhaustive,
    InputGuard,
    ParetoFront,
    Review,
    Source,
    StageDesign,
    dump,
    load,
)
from emsco.cascade.fingerprint import fingerprint
from emsco.certify import certify
from emsco.exceptions import ArtifactError, CertificateWarning, CheckpointError
from emsco.learners.final_model import LoggedAnswers
from emsco.rows.encoding import Category
from emsco.rows.ledger import forget_all
from experiments.tables import markdown
from tests.soak.loading import MOST_MEMORY, peak, reset_peak
from tests.soak.mutators import (
    Mutator,
    Rng,
    mutate_array,
    mutate_checkpoint,
    mutate_head,
    mutate_manifest,
    mutate_stage,
)

MOST_SECONDS = 2.0
FIELDS = ("label", "accepted", "exit_stage", "confidence", "cost", "reason", "latency")
STAGES = StageDesign.from_stages([["talk"], ["blood"]])
COSTS = Costs(
    [
        Source("talk", features=["number", "text"], cost=1.0, latency=0.5),
        Source("blood", features=["holes"], cost=5.17, setup="draw", requires=["talk"]),
    ],
    setups={"draw": 2.1},
    review=Review(25.0, accuracy=0.9),
    unit="EUR",
)
TWO = StageDesign(np.array([0, 1]))
ANSWERS = "verdict"  # the column of what a final model answered


@dataclass
class Kind:
    """A kind of file: how one is made, changed and loaded, and what an unchanged one does."""

    data: bytes
    mutators: Sequence[Mutator]
    open: Callable[[Path], Any]
    original: Any = None
    told: dict[str, Any] = field(
        default_factory=lambda: {
            "files": 0, "refused": 0, "alike": 0, "otherwise": 0, "seconds": 0.0, "memory": 0.0,
        }
    )  # fmt: skip


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Change 10,000 files; `--small`, 600."""
    rng = np.random.default_rng(0)
    n_files = 600 if small else 10_000
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of estimators, overflows and choices
        kinds = make_kinds(Path(folder))
        kinds = {name: kind for name, kind in kinds.items() if only is None or name in only}
        gc.freeze()  # what is there to stay need not be looked at before every file
        path = Path(folder, "mutated")
        names = list(kinds)
        for number in range(n_files):
            name = names[number % len(names)]
            check(name, kinds[name], path, rng)
    for name, kind in kinds.items():
        print(json.dumps({"kind": name} | kind.told), flush=True)
    header = ["file", "changed", "refused", "decide alike", "decide otherwise", "longest, ms",
              "most memory, MB"]  # fmt: skip
    rows = [
        [name, *(f"{kind.told[what]:,}" for what in ("files", "refused", "alike", "otherwise")),
         f"{1000 * kind.told['seconds']:.0f}", f"{kind.told['memory']:.1f}"]
        for name, kind in kinds.items()
    ]  # fmt: skip
    return markdown(header, rows)


def check(name: str, kind: Kind, path: Path, rng: Rng) -> None:
    """Change a file, load it, and let it decide; end where anything is not as it must be."""
    data = kind.data
    while data == kind.data:
        data = kind.mutators[int(rng.integers(len(kind.mutators)))](kind.data, rng)
    path.write_bytes(data)
    before = reset_peak()
    started = time.perf_counter()
    problem, loaded = "", False
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            model = kind.open(path)
        loaded = True
        problem = _contradiction(kind, model, used(model), [w.category for w in warned])
    except Exception as error:
        if isinstance(error, ArtifactError | CheckpointError) and not loaded:
            kind.told["refused"] += 1
        else:
            problem = f"it raised {error!r:.300}" + " after it was loaded" * loaded
    seconds, memory = time.perf_counter() - started, peak() - before
    kind.told["files"] += 1
    kind.told["seconds"] = max(kind.told["seconds"], seconds)
    kind.told["memory"] = max(kind.told["memory"], memory)
    if seconds > MOST_SECONDS:
        problem = problem or f"it took {seconds:.1f} seconds"
    if memory > MOST_MEMORY:
        problem = problem or f"it took {memory:.0f} MB"
    if problem:
        kept = Path("/tmp") / f"mutated-{os.getpid()}-{kind.told['files']}.emsco"
        kept.write_bytes(data)
        raise SystemExit(f"{name}: {problem}; the file is {kept}.")


def _contradiction(kind: Kind, model: Any, found: Any, warned: list[Any]) -> str:
    """Hold what a changed file does against what the unchanged one does."""
    alike = found["decided"] == kind.original["decided"]
    kind.told["alike" if alike else "otherwise"] += 1
    if alike or found["fingerprint"] is None or kind.original["fingerprint"] is None:
        return ""
    if found["fingerprint"] == kind.original["fingerprint"]:
        return "it decides otherwise, with the same fingerprint"
    certificate = getattr(model, "certificate_", None)
    if certificate is None or found["fingerprint"] in kind.original["certified"]:
        return ""  # of a search another one may be chosen that is certified as well
    if certificate.holds_for(model) or CertificateWarning not in warned:
        return "it decides otherwise, and its certificate does not say so"
    return ""


def used(model: Any) -> dict[str, Any]:
    """Use a model for all that it is for, on ordinary and on hostile rows."""
    told: dict[str, Any] = {"decided": None, "fingerprint": None, "certified": []}
    if isinstance(model, ParetoFront):
        told["decided"] = [repr(model), *map(str, model), model.hypervolume()]
        return told
    if hasattr(model, "certificate_"):
        repr(model.certificate_)
        told["certified"] = [one.fingerprint for one in model.certificate_.candidates]
    cascade = model
    if isinstance(model, CascadeSearchCV):
        repr(model.front_)
        cascade = getattr(model, "best_cascade_", None)
        if cascade is None:
            return told
        model.summary()
        for candidate in model.front_[:3]:
            with suppress(ArtifactError):  # its stage may be gone from the file; it says so
                other = model.cascade(candidate)
                other.decide(rows_for(other))
    rows = rows_for(cascade)
    decisions = cascade.decide(rows)
    told["decided"] = [getattr(decisions, name).tolist() for name in FIELDS]
    told["decided"] = repr(told["decided"])  # NaN equals itself
    told["fingerprint"] = fingerprint(cascade)
    cascade.decide(rows[:1])
    return told


def rows_for(cascade: Any) -> Any:
    """Give ordinary rows and hostile ones, with numbers where the model says that they belong.

    Values that raise by name where there is no guard are for guarded models only.
    """
    if list(cascade.decider_.layout.names) == ["x0", "x1"]:
        return np.array([[0.1, 0.2], [1.0, 3.0], [-5.0, 1e9], [1e9, -1e9], [0.0, 0.0]])
    columns: dict[str, list[Any]] = {}
    for i, name in enumerate(cascade.decider_.layout.names):
        reader = cascade.decider_.readers.get(name)
        encoding = None if reader is None else reader.encoding
        if isinstance(encoding, Category) or (encoding is None and name == "text"):
            columns[name] = ["a", "b", "c", "a", "never seen", "a b", "a", "", "c"]
        else:
            hole = np.nan if (reader is not None and reader.missing_seen) else 0.5
            numbers = [0.1, 1.0, hole, -1e9, 1e9, 0.0, np.nan, np.inf, 1e308]
            columns[name] = numbers[:6][i:] + numbers[:6][:i] + numbers[6:]
    rows = pd.DataFrame(columns)
    rows = rows if cascade.guard is not None else rows[:6].copy()
    if isinstance(cascade.final, LoggedAnswers):
        rows[cascade.final.column] = np.resize(cascade.classes_, len(rows))
    return rows


def make_kinds(folder: Path) -> dict[str, Kind]:
    """Make a file of each kind."""
    rng = np.random.default_rng(1)
    labels = rng.integers(3, size=600)
    y = np.array(["high", "low", "mid"])[labels]
    table = pd.DataFrame(
        {
            "number": labels + rng.normal(size=600),
            "holes": np.where(rng.random(600) < 0.1, np.nan, 3 * labels + rng.normal(size=600)),
            "text": rng.choice(["a", "b", "c"], 600),
        }
    )
    train, truth, fresh, fresh_truth = table[:300], y[:300], table[300:], y[300:]
    numbers = train[["number", "holes"]].fillna(0.0)
    named: dict[str, Any] = {"design": STAGES, "costs": COSTS}
    given: dict[str, Any] = {"design": TWO, "costs": {"number": 1, "holes": 4}}
    scaled = make_pipeline(StandardScaler(), LogisticRegression())
    cascade = CascadeClassifier(**named, threshold=(0.8, {"high": 0.7, "low": 0.9, "mid": 0.75}))
    guarded = CascadeClassifier(**named, guard=InputGuard()).fit(train, truth)
    guarded.certificate_ = certify(guarded, fresh, fresh_truth, accuracy=0.5)
    search = CascadeSearchCV(costs=COSTS, threshold=0.75, cv=2, guard=InputGuard(), random_state=0)
    search.fit(train, truth)
    forget_all()  # the search stands in a file of its own, and has been asked nothing yet
    search.certificate_ = certify(search, fresh, fresh_truth, accuracy=0.5)
    search.choose(search.certificate_.select().candidate)
    for candidate in search.front_:
        search.cascade(candidate)  # so that its stages are in the file
    final = LogisticRegression().fit(numbers, truth)
    models = {
        "cascade": cascade.fit(train, truth),
        "cascade of an array": CascadeClassifier(design=TWO).fit(
            numbers.to_numpy(), labels[:300] > 0
        ),
        "cascade with a guard and a certificate": guarded,
        "cascade before logged answers": CascadeClassifier(
            **named, final=LoggedAnswers(ANSWERS)
        ).fit(train.assign(**{ANSWERS: truth}), truth),
        "cascade before a model": CascadeClassifier(**given, final=final).fit(numbers, truth),
        "cascade of pipelines": CascadeClassifier(scaled, design=TWO).fit(
            numbers.to_numpy(), truth
        ),
        "cascade of estimators on a frame": CascadeClassifier(GaussianNB(), **given).fit(
            numbers, truth
        ),
        "front": search.front_,
        "search with a certificate": search,
    }
    kinds = {}
    for name, model in models.items():
        path = folder / "model.emsco"
        dump(model, path)
        data = path.read_bytes()
        inside = [mutate_stage] * 3 if b".skops" in data else [mutate_array] * 3
        mutators = [*[mutate_manifest] * 6, *inside, mutate_head]
        kinds[name] = Kind(data, mutators, load)
        kinds[name].original = used(load(path))
    kinds["checkpoint"] = _checkpoint(folder, numbers, truth)
    return kinds


def _checkpoint(folder: Path, X: Any, y: Any) -> Kind:
    """Make a checkpoint; to load one is to go on from it."""

    def search(path: Path) -> CascadeSearchCV:
        searching = CascadeSearchCV(
            costs={"number": 1, "holes": 4}, search=Exhaustive(), threshold=[0.7, 0.85], cv=2,
            checkpoint=path, random_state=None,
        )  # fmt: skip
        try:
            searching.fit(X, y)
            return searching
        finally:
            path.with_name(path.name + ".previous").unlink(missing_ok=True)

    path = folder / "checkpoint"
    original = used(search(path))
    original["fingerprint"] = None  # a lie about outcomes leads to another choice, honestly fitted
    return Kind(path.read_bytes(), [mutate_checkpoint], search, original)
