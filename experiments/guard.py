"""What faulty inputs do to a cascade, with and without a guard, and what the guard costs."""

from __future__ import annotations

import json
import warnings
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from emsco import CascadeClassifier, Costs, InputGuard, StageDesign, evaluate
from emsco.datasets import (
    CostlyData,
    load_cleveland,
    load_covtype,
    load_credit,
    load_example,
    load_heart,
    load_hepatitis,
    load_kdd,
    load_magic,
    load_nslkdd,
    load_phishing,
    load_pima,
    load_spambase,
    load_thyroid,
    make_costly_classification,
)
from emsco.exceptions import GuardWarning, ValuesError
from emsco.rows.encoding import Number
from experiments.tables import markdown, percent

THRESHOLD = 0.9
MOST_ROWS = 20_000  # to train on, and as many fresh ones
LARGE = 1_000  # rows of a set from which on the bar holds
BAR = 0.005  # of coverage, lost on clean rows
LEAK = 0.001  # of rows with a gross fault, accepted: a value times a million may still be small

SETS: dict[str, Callable[[], CostlyData]] = {
    "thyroid": load_thyroid,
    "magic": load_magic,
    "spambase": load_spambase,
    "phishing": load_phishing,
    "KDD": load_kdd,
    "NSL-KDD": load_nslkdd,
    "covtype": load_covtype,
    "example": load_example,
    "Pima": load_pima,
    "Credit": load_credit,
    "Heart": load_heart,
    "Cleveland": load_cleveland,
    "hepatitis": load_hepatitis,
}
# Told, not held to the bar: with 750 rows to train on, many columns and long tails.
FEWER_ROWS = ("spambase", "phishing", "KDD")
SMALL_SETS = ("spambase", "thyroid")

# A strong source at every stage, the strongest last.
SYNTHETIC = StageDesign.from_stages([["s0", "s3", "kind"], ["s1", "s4"], ["s2", "s5"]])

# By name: what becomes of a column, and whether one value tells.
Fault = Callable[[NDArray[Any], np.random.Generator], Any]
FAULTS: dict[str, tuple[Fault, bool]] = {
    "times 1,000,000": (lambda values, _: values * 1e6, True),
    "-9999 for unknown": (lambda values, _: np.full(len(values), -9999.0), True),
    "infinity": (lambda values, _: np.full(len(values), np.inf), True),
    "missing, never so in training": (lambda values, _: np.full(len(values), np.nan), True),
    "times 1,000": (lambda values, _: values * 1e3, False),
    "wrong sign": (lambda values, _: -values, False),
    "replaced by the training mean": (
        lambda values, _: np.full(len(values), np.nanmean(values)),
        False,
    ),
    "value of another row": (lambda values, rng: rng.permutation(values), False),
}
CLEAN, UNSEEN, SWAPPED = "none", "unseen category", "swapped with another column"


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Spoil a value of the first stage in every fresh row; give three tables."""
    parts, missed = [], []
    if not only or "synthetic" in only:
        rows: list[dict[str, Any]] = []
        for seed in range(3 if small else 30):
            rows += _spoil("synthetic", population(seed), seed)
        parts.append(f"Synthetic populations ({seed + 1}):\n\n{fault_table(rows)}")
        missed += leaks(rows)
    rows = []
    clean: dict[str, list[dict[str, Any]]] = defaultdict(list)
    sizes = {}
    for name, load in SETS.items():
        if (only and name not in only) or (small and name not in SMALL_SETS):
            continue
        data = load()
        sizes[name] = (len(data.y), data.X.shape[1])
        for split in range(2 if small else 5):
            found = _spoil(name, data, split)
            rows += found
            # Without a guard, rows are refused where a value was missing in none of training.
            clean[name] += [one for one in found if one["fault"] == CLEAN and "coverage" in one]
        if name in FEWER_ROWS and not small:
            part = f"{name}, {LARGE:,} of its rows"
            sizes[part] = (LARGE, data.X.shape[1])
            for split in range(30):
                found = _spoil(part, _sample(data, split), split, only=CLEAN)
                clean[part] += found
    if rows:
        large = [one for one in rows if sizes[one["data"]][0] >= LARGE]
        parts.append(f"Public sets of 1,000 rows or more:\n\n{fault_table(large)}")
        parts.append(f"Clean rows:\n\n{clean_table(clean, sizes)}")
        missed += leaks(large)
        for name, found in clean.items():
            lost = float(np.mean([one["coverage"] - one["guarded_coverage"] for one in found]))
            if name in SETS and sizes[name][0] >= LARGE and lost > BAR:
                missed.append(f"{name} loses {lost:.2%} of coverage on clean rows")
    report = "\n\n".join(parts)
    if missed:
        raise SystemExit(f"{report}\n\nMissed: {'; '.join(missed)}.")
    return report


def population(seed: int) -> CostlyData:
    """Make rows with dearer sources that tell more, and one of text that tells a little."""
    X, y, costs = make_costly_classification(6_000, 6, class_sep=0.5, random_state=seed)
    rng = np.random.default_rng([seed, 1])
    kinds = np.array(["a", "b", "c", "d"])
    likely = rng.dirichlet(np.ones(4), size=2)
    X["kind"] = [str(rng.choice(kinds, p=likely[label])) for label in y]
    return CostlyData(X, y, Costs([*costs.sources, *Costs.per_feature({"kind": 1}).sources]))


def in_order_of_price(costs: Costs) -> StageDesign:
    """Buy a third of the sources a stage, the cheapest first, none before what it requires."""
    order = sorted(costs.sources, key=lambda source: source.cost)
    n_stages = min(3, len(order))
    stage = {source.name: i * n_stages // len(order) for i, source in enumerate(order)}
    for source in order:
        stage[source.name] = max([stage[source.name], *(stage[r] for r in source.requires)])
    return StageDesign.from_stages(
        [[name for name in stage if stage[name] == number] for number in range(n_stages)]
    )


def _sample(data: CostlyData, split: int) -> CostlyData:
    """Take few rows of a large set."""
    rows = np.random.default_rng([split, 3]).choice(len(data.y), LARGE, replace=False)
    return CostlyData(data.X.iloc[rows], data.y[rows], data.costs)


def _spoil(
    name: str, data: CostlyData, split: int, *, only: str | None = None
) -> list[dict[str, Any]]:
    X, y, costs = data
    train, fresh = train_test_split(
        np.arange(len(y)), test_size=0.25, stratify=y, random_state=split
    )
    if name == "synthetic":
        train, fresh = np.arange(1_000), np.arange(1_000, len(y))
    train, fresh = train[:MOST_ROWS], fresh[:MOST_ROWS]
    design = SYNTHETIC if name == "synthetic" else in_order_of_price(costs)
    options: dict[str, Any] = {"design": design, "costs": costs, "threshold": THRESHOLD}
    bare = CascadeClassifier(**options).fit(X.iloc[train], y[train])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuardWarning)  # of few rows, with many categories
        guarded = CascadeClassifier(**options, guard=InputGuard()).fit(X.iloc[train], y[train])
    rng = np.random.default_rng([split, 2])
    clean = X.iloc[fresh]
    found = []
    for fault, spoiled, changed in _spoiled(bare, clean, rng):
        if only not in (None, fault):
            continue
        figures: dict[str, Any] = {"data": name, "split": split, "fault": fault}
        for who, cascade in (("", bare), ("guarded_", guarded)):
            try:
                judged = evaluate(cascade.decide(spoiled[changed]), y[fresh][changed])
            except ValuesError:
                continue  # refused as a whole: nothing is accepted, nothing is decided either
            figures |= {f"{who}coverage": judged.coverage, f"{who}accuracy": judged.accuracy}
        print(json.dumps(figures), flush=True)
        found.append(figures)
    return found


def _spoiled(
    cascade: CascadeClassifier, clean: Any, rng: np.random.Generator
) -> list[tuple[str, Any, NDArray[np.bool_]]]:
    """Give, by fault, the spoiled rows and which of them it changed."""
    everything = np.ones(len(clean), dtype=np.bool_)
    made = [(CLEAN, clean, everything)]
    strong = _strongest(cascade)
    numbers = [
        name for name in strong if isinstance(cascade.decider_.readers[name].encoding, Number)
    ]
    texts = [name for name in strong if name not in numbers]
    if numbers:
        name = numbers[0]
        values = clean[name].to_numpy(dtype=np.float64)
        for fault, (spoil, _) in FAULTS.items():
            if fault.startswith("missing") and cascade.decider_.readers[name].missing_seen:
                continue
            spoiled = spoil(values, rng)
            made.append((fault, clean.assign(**{name: spoiled}), spoiled != values))
    if len(numbers) > 1:
        one, other = numbers[:2]
        swapped = clean.assign(**{one: clean[other], other: clean[one]})
        made.append((SWAPPED, swapped, (clean[one] != clean[other]).to_numpy()))
    if texts:
        made.append((UNSEEN, clean.assign(**{texts[0]: "never seen"}), everything))
    return [(fault, rows, changed) for fault, rows, changed in made if changed.any()]


def _strongest(cascade: CascadeClassifier) -> list[str]:
    """Order the first stage's columns by how much they weigh there."""
    columns, readers = cascade.decider_.plan.stages[0].features, cascade.decider_.readers
    encodings = [readers[name].encoding for name in columns]
    ends = np.cumsum([encoding.width for encoding in encodings if encoding is not None])
    blocks = np.split(cascade.estimators_[0].coef_, ends[:-1], axis=1)
    weight = {name: float(np.abs(b).max()) for name, b in zip(columns, blocks, strict=True)}
    return sorted(columns, key=lambda name: -weight[name])


def fault_table(rows: list[dict[str, Any]]) -> str:
    """Give the table of faults."""
    by_fault: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in rows:
        by_fault[one["fault"]].append(one)
    lines = []
    for fault in (CLEAN, *FAULTS, UNSEEN, SWAPPED):
        found = by_fault.get(fault, [])
        if not found:
            continue
        line = [fault]
        for who in ("", "guarded_"):
            known = [one for one in found if f"{who}coverage" in one]
            some = [one[f"{who}accuracy"] for one in known if one[f"{who}coverage"]]
            line += [percent([one[f"{who}coverage"] for one in known]) if known else "refused"]
            line += [percent(some) if some else "-", f"{100 * min(some):.1f}" if some else "-"]
        lines.append(line)
    header = ["fault of the first stage's strongest column", "accepted %", "accuracy %", "worst",
              "guarded: accepted %", "accuracy %", "worst"]  # fmt: skip
    return markdown(header, lines)


def clean_table(clean: dict[str, list[dict[str, Any]]], sizes: dict[str, tuple[int, int]]) -> str:
    """Give the table of what the guard costs where nothing is wrong."""
    lines = []
    for name, found in clean.items():
        lost = [one["coverage"] - one["guarded_coverage"] for one in found]
        gained = [one["guarded_accuracy"] - one["accuracy"] for one in found]
        coverage = percent([one["coverage"] for one in found])
        n_rows, n_columns = sizes[name]
        lines.append(
            [name, f"{n_rows:,} x {n_columns}", coverage, percent(lost, 2), percent(gained, 2)]
        )
    header = ["data", "rows x columns", "coverage %", "lost with the guard, points",
              "accuracy gained, points"]  # fmt: skip
    return markdown(header, lines)


def leaks(rows: list[dict[str, Any]]) -> list[str]:
    """Name the gross faults of which the guard let more than a few rows be accepted."""
    by_fault: dict[tuple[str, str], list[float]] = defaultdict(list)
    for one in rows:
        if one["fault"] == UNSEEN or FAULTS.get(one["fault"], (None, False))[1]:
            by_fault[one["data"], one["fault"]].append(one["guarded_coverage"])
    return [
        f"{data} accepts {np.mean(accepted):.2%} of rows with the fault {fault!r}"
        for (data, fault), accepted in by_fault.items()
        if np.mean(accepted) > LEAK
    ]
