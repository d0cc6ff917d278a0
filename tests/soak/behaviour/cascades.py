"""Cascades of a given design, what is around them, and golden files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import GroupKFold, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from emsco import (
    CascadeClassifier,
    CascadeSearchCV,
    Costs,
    InputGuard,
    ParetoFront,
    StageDesign,
    dump,
    evaluate,
    load,
    metrics,
)
from emsco.certify import Targets, certify, certify_together, fingerprint, required_rows
from emsco.datasets import make_costly_classification
from emsco.final import LoggedAnswers
from emsco.monitor import CertificateMonitor
from emsco.report import report
from tests.soak.behaviour.case import (
    Case,
    Part,
    tell_file,
    tell_outcome,
    tell_warnings,
    without_chance,
)
from tests.soak.behaviour.rows import COSTS, DESIGN, as_array, as_polars, patients

TRUSTED = ["sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"]
FILES = Path(__file__).parents[2] / "files"
THRESHOLDS: dict[str, Any] = {
    "one": 0.8,
    "by class": {"ill": 0.6, "well": 0.7, "\u00fcber": 0.8},
    "by stage": (0.9, {"ill": 0.6, "well": 0.7, "\u00fcber": 0.8}, 0.5),
}


def cases(*, small: bool) -> Iterator[tuple[str, Case]]:
    """Give cascades, their certificates and alarms, refusals, and every golden file."""
    yield "a cascade of patients", _cascade
    yield "rows on the threshold", _on_the_threshold
    yield "refusals", _refusals
    yield "a monitor", _monitor
    paths = sorted(FILES.rglob("*.emsco"))
    if not paths:
        raise FileNotFoundError(f"{FILES} holds no file.")
    for path in paths:
        yield f"the file {path.relative_to(FILES)}", partial(_golden, path)
    if small:
        return
    yield "a cascade of an own estimator", _own_estimator
    yield "answers that were logged", _logged
    yield "weights and groups", _weights
    yield "a checkpoint", _checkpoint
    yield "a report", _report


def _cascade(n_jobs: int) -> Iterator[Part]:  # noqa: ARG001
    X, y = patients(500, 0)
    rows, truth = patients(200, 1)
    for name, threshold in THRESHOLDS.items():
        options = {"design": DESIGN, "costs": COSTS, "threshold": threshold}
        plain = CascadeClassifier(**options).fit(X, y)
        guarded = CascadeClassifier(**options, guard=InputGuard(pool=["town"])).fit(X, y)
        for told, cascade in ((f"{name} threshold", plain), (f"{name} threshold, guard", guarded)):
            yield f"decisions, {told}", partial(cascade.decide, rows)
            yield f"probabilities, {told}", partial(cascade.predict_proba, rows)
            yield f"fingerprint, {told}", partial(fingerprint, cascade)
            yield f"evaluation, {told}", partial(_evaluated, cascade, rows, truth)
    yield "table", lambda: repr(plain.decide(rows))
    yield "page", lambda: plain.decide(rows)._repr_html_()
    yield "frame", lambda: plain.decide(rows).to_frame().to_csv()
    yield "wrong values, guard", lambda: guarded.decide(_wrong(rows))
    yield "wrong values, loaded", lambda: _loaded(guarded).decide(_wrong(rows))
    yield "scores", lambda: _scores(plain, X, y)
    yield "clone", lambda: repr(clone(guarded).get_params())
    yield "weights", lambda: _weighted(X, y).decide(rows)
    yield "no rows", lambda: plain.decide(rows[:0])
    for name, fit_in, decide_in in (
        ("polars", as_polars, as_polars),
        ("objects of numpy", as_array, as_array),
        ("polars, decided out of pandas", as_polars, lambda frame: frame),
    ):
        own = CascadeClassifier(threshold=0.8)
        yield f"decisions, {name}", partial(_of_container, own, fit_in, decide_in)


def _on_the_threshold(n_jobs: int) -> Iterator[Part]:
    """Decide rows whose confidence is the threshold itself, and search with such rows."""
    X, y = patients(300, 10)
    rows, _ = patients(100, 11)
    sure = np.sort(CascadeClassifier(costs=COSTS).fit(X, y).decide(rows).confidence)
    for threshold in sure[[40, 60, 80]].tolist():
        cascade = CascadeClassifier(costs=COSTS, threshold=threshold).fit(X, y)
        yield f"decisions from {threshold}", partial(cascade.decide, rows)
        yield f"a row from {threshold}", partial(_each, cascade, rows[:20])
    # Of four neighbours, confidences are quarters.
    numbers = ["age", "visits", "scan"]
    search = CascadeSearchCV(
        KNeighborsClassifier(4), threshold=[0.5, 0.75, 1.0], cv=3, select={"min_coverage": 0.3},
        random_state=0, n_jobs=n_jobs,
    )  # fmt: skip
    search.fit(X[numbers], y)
    yield "front", lambda: search.front_
    yield "fresh figures", lambda: search.score_front(rows[numbers], search.predict(rows[numbers]))
    for candidate in search.front_[::5]:
        yield f"decisions of {candidate}", partial(search.cascade(candidate).decide, rows[numbers])


def _each(cascade: CascadeClassifier, rows: Any) -> list[object]:
    return [cascade.decide(rows.iloc[[row]]) for row in range(len(rows))]


def _evaluated(cascade: CascadeClassifier, rows: Any, truth: Any) -> list[object]:
    evaluation = evaluate(cascade.decide(rows), truth)
    return [evaluation, evaluation.loss(review=COSTS.review, error_cost=200.0), str(evaluation)]


def _scores(cascade: CascadeClassifier, X: Any, y: Any) -> dict[str, Any]:
    names = ("accepted_accuracy", "coverage", "mean_cost", "missed", "aurc", "expected_loss")
    scores = cross_validate(cascade, X, y, scoring={n: getattr(metrics, n) for n in names}, cv=3)
    return {name: scores[f"test_{name}"] for name in names}


def _weighted(X: Any, y: Any) -> CascadeClassifier:
    weight = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    cascade = CascadeClassifier(design=DESIGN, costs=COSTS)
    cascade.fit(X, y, sample_weight=weight)
    return cascade


def _wrong(rows: Any) -> Any:
    """Put values that cannot be judged, or are unlike those of training, into rows."""
    wrong = rows.astype(object)
    values = (None, np.inf, -1e9, "no such word", 10**400, True, "", " 7 ", b"7", pd.NA)
    for number, value in enumerate(values):
        for column in range(wrong.shape[1]):
            wrong.iloc[number * 8 + column, column] = value
    return wrong


def _of_container(
    cascade: CascadeClassifier,
    fit_in: Callable[[Any], Any],
    decide_in: Callable[[Any], Any],
) -> object:
    X, y = patients(300, 2)
    rows, _ = patients(60, 3)
    used = ["age", "smoker", "town", "marker", "seen", "scan"]
    return cascade.fit(fit_in(X[used]), y).decide(decide_in(rows[used]))


def _refusals(n_jobs: int) -> Iterator[Part]:  # noqa: ARG001
    """Do what cannot be done, and hear why: in fitting, in deciding, in choosing."""
    X, y, costs = make_costly_classification(200, 3, class_sep=2, random_state=0)
    rows, labels = X[:100], y[:100]
    good = CascadeClassifier(costs=costs).fit(rows, labels)
    search = CascadeSearchCV(costs=costs, threshold=0.8, cv=2, random_state=0)
    search.fit(rows, labels)
    holed = rows.assign(s1=np.where(np.arange(100) == 7, np.nan, rows["s1"]))
    words = rows.assign(s1=["7"] * 99 + ["seven"])
    asked: dict[str, Callable[[], object]] = {
        "infinity in training": lambda: clone(good).fit(rows.assign(s0=np.inf), labels),
        "mixed values in training": lambda: clone(good).fit(
            rows.assign(s0=[{}] * 50 + ["a"] * 50), labels
        ),
        "one class": lambda: clone(good).fit(rows, labels * 0),
        "labels that are lacking": lambda: clone(good).fit(rows, labels[:50]),
        "no rows": lambda: clone(good).fit(rows[:0], labels[:0]),
        "a column twice": lambda: clone(good).fit(rows[["s0", "s1", "s1"]], labels),
        "prices of other columns": lambda: CascadeClassifier(costs={"s7": 1}).fit(rows, labels),
        "too many prices": lambda: CascadeClassifier(costs=[1, 2, 3, 4]).fit(rows, labels),
        "a design of other sources": lambda: CascadeClassifier(
            design=StageDesign.from_stages([["s7"]])
        ).fit(rows, labels),
        "a threshold too low": lambda: CascadeClassifier(threshold=0.4).fit(rows, labels),
        "a threshold of another class": lambda: CascadeClassifier(threshold={7: 0.9}).fit(
            rows, labels
        ),
        "too many thresholds": lambda: CascadeClassifier(threshold=(0.9, 0.8)).fit(rows, labels),
        "a hole": lambda: good.decide(holed),
        "a hole in an array": lambda: good.decide(holed.to_numpy()),
        "a word": lambda: good.decide(words),
        "a column that is lacking": lambda: good.decide(rows[["s0", "s2"]]),
        "a column too many in an array": lambda: good.decide(np.ones((2, 4))),
        "one dimension": lambda: good.decide(np.ones(3)),
        "columns in another order": lambda: good.predict(rows[["s2", "s1", "s0"]]),
        "not fitted": lambda: CascadeClassifier().decide(rows),
        "bounds that are none": lambda: search.choose(max_price=3),
        "bounds that nothing meets": lambda: search.choose(min_accuracy=1.0, max_cost=0.5),
        "a bound and a candidate": lambda: search.choose(search.front_[0], max_cost=3),
        "labels for agreement": lambda: CascadeSearchCV(target="agreement").fit(rows, labels),
        "missed of no class": lambda: CascadeSearchCV(max_missed={7: 0.1}).fit(rows, labels),
        "labels not seen": lambda: search.score_front(rows, labels + 7),
        "rows that are known": lambda: certify(search, rows, labels, accuracy=0.7),
        "nothing asked": lambda: certify(search, X[100:], y[100:]),
        "a model that is none": lambda: dump(GaussianNB(), "model.emsco"),
        "a file that is none": lambda: load("no such file.emsco"),
        "a coverage that is none": lambda: search.all_sources_at(2.0),
        "prices twice": lambda: Costs.per_feature([1, 2], ["a", "a"]),
    }
    for name, action in asked.items():
        yield name, partial(tell_outcome, action)


def _monitor(n_jobs: int) -> Iterator[Part]:  # noqa: ARG001
    X, y, costs = make_costly_classification(2000, 3, class_sep=3, random_state=1)
    cascade = CascadeClassifier(design=StageDesign(np.arange(3)), costs=costs, threshold=0.9)
    cascade.fit(X[:500], y[:500])
    certificate = certify(cascade, X[500:1500], y[500:1500], accuracy=0.85, confidence=0.95)
    yield "certificate", certificate.to_data
    yield "sentence", lambda: certificate.sentence
    monitor = CertificateMonitor.of(certificate, cascade, random_state=0)
    rows = X[1500:].assign(s0=-X["s0"][1500:])  # the world has changed
    yield "alarms", lambda: list(monitor.decided(cascade.decide(rows), keys=range(500)))
    yield "more alarms", lambda: list(monitor.labelled(range(500), y[1500:]))
    yield "state", lambda: json.dumps(monitor.state())
    yield "not watched", lambda: dict(monitor.not_watched)
    yield "rows it takes", lambda: required_rows(accuracy=0.9, errors=3)
    asked = [Targets(accuracy=0.8), Targets(accuracy=0.9, min_coverage=0.5)]
    yield (
        "two questions",
        lambda: [c.to_data() for c in certify_together(cascade, X[1500:], y[1500:], asked)],
    )


def _golden(path: Path, n_jobs: int) -> Iterator[Part]:  # noqa: ARG001
    """Load a golden file, and let it answer."""
    loaded: list[Any] = []
    told = tell_warnings(lambda: loaded.append(load(path)))
    model = loaded[0]
    yield "warnings", lambda: [text.replace(str(path), path.name) for text in told]
    if isinstance(model, ParetoFront):
        yield "front", lambda: model
        return
    names = list(getattr(model, "feature_names_in_", map(str, range(model.n_features_in_))))
    numbers = np.random.default_rng(0).normal(1.0, 2.0, (40, len(names)))
    made_up = pd.DataFrame(numbers, columns=names)
    if isinstance(model.final, LoggedAnswers):
        names.append(model.final.column)
        made_up[model.final.column] = np.resize(model.classes_, 40)
    yield "made up rows", lambda: model.decide(made_up)
    yield "made up rows as text", lambda: tell_outcome(lambda: model.decide(made_up.astype(str)))
    expected = json.loads((FILES / "expected.json").read_text(encoding="utf-8"))
    for table, rows in expected["rows"].items():
        if set(names) <= set(rows):
            yield f"golden rows of {table}", partial(model.decide, pd.DataFrame(rows)[names])
    if isinstance(model, CascadeSearchCV):
        yield "front", lambda: model.front_
        yield "choice", lambda: model.best_candidate_
        yield "summary", model.summary
    cascade = model if isinstance(model, CascadeClassifier) else model.best_cascade_
    yield "fingerprint", lambda: fingerprint(cascade)
    yield "certificate", lambda: getattr(getattr(model, "certificate_", None), "sentence", "none")
    yield "written again", lambda: _written(model)


def _loaded(model: Any) -> Any:
    with TemporaryDirectory() as folder:
        dump(model, Path(folder) / "model.emsco")
        return load(Path(folder) / "model.emsco", trusted=TRUSTED)


def _written(model: Any) -> list[str]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "again.emsco"
        dump(model, path)
        return tell_file(path)


def _own_estimator(n_jobs: int) -> Iterator[Part]:  # noqa: ARG001
    X, y = patients(400, 4)
    rows, _ = patients(100, 5)
    used = ["age", "visits", "marker", "scan"]
    design = StageDesign.from_stages([["age", "visits"], ["marker"], ["scan"]], used)
    trees = HistGradientBoostingClassifier(max_iter=5, random_state=0)
    for name, turn in (("pandas", lambda f: f), ("polars", as_polars), ("numpy", as_array)):
        cascade = CascadeClassifier(trees, design=design, threshold=0.8)
        if name == "numpy":
            cascade.set_params(design=StageDesign(design.assignment))
        cascade.fit(turn(X[used]), y)
        yield f"decisions, {name}", partial(cascade.decide, turn(rows[used]))
        yield f"one row, {name}", partial(cascade.decide, turn(rows[used][:1]))
        yield f"probabilities, {name}", partial(cascade.predict_proba, turn(rows[used]))
    guarded = CascadeClassifier(trees, design=design, threshold=0.8, guard=InputGuard())
    guarded.fit(X[used], y)
    for name, model in (("fitted", guarded), ("loaded", _loaded(guarded))):
        yield f"wrong values, {name}", partial(model.decide, _wrong(rows[used]))
        yield f"text, {name}", partial(model.decide, rows[used].astype(str))
    bayes = CascadeClassifier(GaussianNB(), design=design)
    holed = X[used]
    yield "holes", lambda: tell_outcome(lambda: bayes.fit(holed, y))


def _logged(n_jobs: int) -> Iterator[Part]:
    X, y = patients(400, 6)
    rows, answers = patients(200, 7)
    used = ["age", "town", "marker", "scan"]
    log, fresh = X[used].assign(verdict=y), rows[used].assign(verdict=answers)
    costs = Costs.per_feature([1, 2, 12, 100], used)
    search = CascadeSearchCV(
        costs=costs, final=LoggedAnswers("verdict"), target="agreement", cv=3, random_state=0,
        n_jobs=n_jobs,
    )  # fmt: skip
    told = tell_warnings(lambda: search.fit(log))
    yield "warnings", lambda: told
    yield "front", lambda: search.front_
    yield "decisions", lambda: search.decide(fresh)
    yield "summary", search.summary
    yield "certificate", lambda: certify(search, fresh, agreement=0.8, confidence=0.9).to_data()


def _weights(n_jobs: int) -> Iterator[Part]:
    X, y, costs = make_costly_classification(300, 4, random_state=3)
    rng = np.random.default_rng(0)
    search = CascadeSearchCV(
        costs=costs, cv=GroupKFold(3), threshold=[0.6, 0.8], random_state=0, n_jobs=n_jobs
    )
    weight, groups = rng.integers(1, 4, 300).astype(float), np.arange(300) // 5
    told = tell_warnings(lambda: search.fit(X, y, sample_weight=weight, groups=groups))
    yield "warnings", lambda: told
    yield "front", lambda: search.front_
    yield "decisions", lambda: search.decide(X)


def _checkpoint(n_jobs: int) -> Iterator[Part]:
    """Stop a search half way, and let another go on."""
    X, y, costs = make_costly_classification(200, 6, random_state=4)
    with TemporaryDirectory() as folder:
        search = CascadeSearchCV(
            GaussianNB(), costs=costs, threshold=[0.6, 0.8], cv=2, max_stages=2, random_state=0,
            checkpoint=Path(folder) / "checkpoint", n_jobs=n_jobs,
        )  # fmt: skip

        def stop(state: dict[str, Any]) -> None:
            if state["source_sets"] > 20:
                raise KeyboardInterrupt

        with suppress(KeyboardInterrupt):
            clone(search).set_params(callback=stop).fit(X, y)
        yield "stopped", lambda: (Path(folder) / "checkpoint").exists()
        told = tell_warnings(lambda: search.fit(X, y))
        yield "warnings", lambda: told
        yield "front", lambda: search.front_
        yield "history", lambda: search.history_


def _report(n_jobs: int) -> Iterator[Part]:
    X, y = patients(400, 8)
    rows, truth = patients(200, 9)
    search = CascadeSearchCV(
        costs=COSTS, cv=3, threshold=[0.6, 0.8], max_stages=3, random_state=0, n_jobs=n_jobs
    )
    search.fit(X, y)
    with TemporaryDirectory() as folder:
        page = report(search, Path(folder) / "report.html", rows, truth)
        yield "page", lambda: without_chance(page.read_text(encoding="utf-8"))
